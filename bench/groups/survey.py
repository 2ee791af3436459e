"""Kinds of operation at 64x64 and 1024x1024 over 8 devices, beside NumPy and eager JAX."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import gpushard as gs
from bench.case import JAX, OURS, Case, Config, Goal, Result, Sampler, Side, Target
from bench.kinds import KINDS, ROWS, Block, Kind, Library, Run, host_operands
from bench.measure import timed
from gpushard._runtime.host.blas_threads import numpy_library
from gpushard.testing import runtime

AXES = ("x", "y")
NUMPY = "NumPy"
BLOCKS = "NumPy on blocks"
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
ON_ALL = {"f", "j", "v", "r"}
"""Operands in one dim, split over all devices."""
ON_EACH = {"edges", "few"}
"""Operands that every device has."""


def cases(config: Config) -> Iterator[Case]:
    """All kinds at both sizes; what NumPy gives as a view is in tables of its own."""
    with runtime(host_devices=8), ThreadPoolExecutor(CORES) as threads:
        for n in config.pick((64, 1024), (16,)):
            ours, numpy = _ours(n), _numpy(n)
            blocks = _Blocks(ours, numpy, threads)
            jax = _jax(config, n) if config.jax is not None else None
            for views in (False, True):
                for kind in KINDS:
                    if kind.view is views:
                        yield _case(kind, ours, jax, numpy, blocks)


def goals(results: list[Result]) -> list[Goal]:
    """How many rows are faster than JAX; the text names those that are not."""
    found = []
    for size in dict.fromkeys(result.case.facts["n"] for result in results):
        ratios = {
            result.case.name: result.ratio(JAX, OURS) or 0.0
            for result in results
            if result.case.facts["n"] == size and JAX in result.timings
        }
        slower = [f"{name} ({ratio:.2f})" for name, ratio in ratios.items() if ratio < 1]
        text = f"{size}x{size}: rows faster than JAX, of {len(ratios)}"
        text += f"; not {', '.join(slower)}" if slower else ""
        faster = float(len(ratios) - len(slower)) if ratios else None
        found.append(Goal(text, faster, float(len(ratios))))
    return found


class _Blocks:
    """NumPy on the blocks of all devices: what merges results is left out."""

    def __init__(self, ours: Library, numpy: Library, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self._all: list[Block] = []
        arrays = {name: getattr(ours, name) for name in host_operands(8)}
        for number in range(math.prod(ROWS)):
            own = {k: np.array(x.addressable_data(number)) for k, x in arrays.items()}
            Block.of(numpy, own, self._all)
        self._small = numpy.n < 1024

    def run(self, kind: Kind) -> None:
        """Work on all blocks: on all cores, unless one is faster."""
        run = kind.blocks if callable(kind.blocks) else kind.run

        def work(share: list[Block]) -> None:
            for block in share:
                run(block)

        if kind.alone or self._small:
            work(self._all)
            return
        library = numpy_library()
        number = 0 if library is None else library.get()
        if library is not None:
            library.set(1)  # for each of the calls that run at once
        others = [self._threads.submit(work, self._all[n::CORES]) for n in range(1, CORES)]
        work(self._all[::CORES])
        for other in others:
            other.result()
        if library is not None:
            library.set(number)


def _case(kind: Kind, ours: Library, jax: Library | None, numpy: Library, blocks: _Blocks) -> Case:
    size = f"{numpy.n}x{numpy.n}"
    small = numpy.n < 1024
    target = Target(times=1, column=JAX) if kind.view or small else Target(times=2, column=NUMPY)
    return Case(
        name=kind.name,
        table=f"{size}, views in NumPy" if kind.view else size,
        sides=[
            Side(OURS, _until_ready(kind.run, ours)),
            Side(JAX, _until_ready(kind.jax or kind.run, jax) if jax is not None else None),
            Side(BLOCKS, timed(lambda _: blocks.run(kind)) if kind.blocks else None),
            Side(NUMPY, timed(lambda _: (kind.numpy or kind.run)(numpy))),
        ],
        check=lambda: _check(kind, ours, jax, numpy),
        target=target,
        burst=20 if small else 2,
        facts={"n": numpy.n},
        floor=NUMPY,
    )


def _until_ready(run: Run, library: Library) -> Sampler:
    return timed(lambda _: library.wait(run(library)))


def _check(kind: Kind, ours: Library, jax: Library | None, numpy: Library) -> None:
    wanted = (kind.numpy or kind.run)(numpy)
    others = {OURS: kind.run(ours)}
    if jax is not None:
        others[JAX] = (kind.jax or kind.run)(jax)
    for column, found in others.items():
        message = f"{column}: {kind.name}"
        if kind.same is None:
            assert found.shape == wanted.shape, message
            continue
        pairs = zip(_flat(kind.same(wanted)), _flat(kind.same(found)), strict=True)
        for want, value in pairs:
            scale = max(1e-30, float(np.abs(want).max(initial=0)))
            np.testing.assert_allclose(value, want, rtol=1e-3, atol=1e-4 * scale, err_msg=message)


def _same(value: Any) -> Any:
    return value


def _flat(value: Any) -> list[Any]:
    """Return the arrays of a result, which may be one or a few."""
    return [np.asarray(v) for v in (value if isinstance(value, (tuple, list)) else [value])]


def _spec(name: str) -> gs.P:
    return gs.P(AXES) if name in ON_ALL else gs.P() if name in ON_EACH else gs.P(*AXES)


def _ours(n: int) -> Library:
    mesh = gs.make_mesh(ROWS, AXES)
    sharding = functools.partial(gs.NamedSharding, mesh)
    arrays = {k: gs.device_put(v, sharding(_spec(k))) for k, v in host_operands(n).items()}
    spread = sharding(gs.P(*AXES))
    return Library(
        gs.block_until_ready,
        gs.numpy,
        gs.random,
        {"device": spread},
        {"out_sharding": spread},
        gs.random.key(0),
        gs.random.key(0),
        n=n,
        **arrays,
    )


def _jax(config: Config, n: int) -> Library:
    assert config.jax is not None
    jax = config.jax.jax
    operands = host_operands(n).items()
    arrays = {k: config.jax.put(v, config.jax.sharding(ROWS, AXES, _spec(k))) for k, v in operands}
    # JAX's random numbers take only shardings whose axes are explicit.
    explicit = functools.partial(jax.sharding.NamedSharding, jax.make_mesh(ROWS, AXES))
    return Library(
        jax.block_until_ready,
        jax.numpy,
        jax.random,
        {"device": config.jax.sharding(ROWS, AXES, gs.P(*AXES))},
        {"out_sharding": explicit(jax.P(*AXES))},
        jax.random.key(0),
        jax.device_put(jax.random.key(0), explicit(jax.P())),
        n=n,
        **arrays,
    )


def _numpy(n: int) -> Library:
    return Library(_same, np, np.random.default_rng(0), {}, {}, None, None, n=n, **host_operands(n))
