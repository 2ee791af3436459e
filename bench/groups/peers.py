"""Programs that users write: gpushard's jit, jitted JAX, PyTorch, NumPy, and a floor.

The floor is the longer of two times, measured in turn with the others. One is a copy on two threads
that reads and writes as many bytes as the arguments and results have. The other is NumPy's products
of the shapes that the program cannot do without. Processor time counts the seconds of all threads.
"""

from __future__ import annotations

import contextlib
import importlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import gpushard as gs
from bench.case import FLOOR, JAX, OURS, Case, Config, Goal, Result, Side
from bench.floor import HostArray, TwoThreads, WarmMemory
from bench.measure import timed
from bench.peers import Jax, Torch, delete, find_torch
from bench.user_programs import LARGE, MIDDLE, PROGRAMS, ROWS, SMALL, Program
from gpushard.testing import runtime

TILES, NUMPY = "no compiler", "NumPy"
ONE = "gpushard, one device"
JAX_ONE, TORCH, TORCH_COMPILED = "JAX, one device", "PyTorch", "PyTorch, compiled"
PEERS = JAX, JAX_ONE, TORCH, TORCH_COMPILED, NUMPY

WALL, PROCESSOR = "wall time", "processor time"
CLOCKS = {WALL: time.perf_counter, PROCESSOR: time.process_time}

Run = Callable[[], list[Any]]
"""Calls a program and waits; returns its results."""


def cases(config: Config) -> Iterator[Case]:
    """Each program in each size, by the clock and by what processors do."""
    with contextlib.ExitStack() as stack:
        tiles = stack.enter_context(runtime(host_devices=8, compiler=""))
        one = stack.enter_context(runtime(host_devices=1))
        compiled = stack.enter_context(runtime(host_devices=8))
        two = TwoThreads()
        stack.callback(two.close)
        torch = find_torch() if config.peers else None
        for size in config.pick((LARGE, MIDDLE, SMALL), (SMALL,)):
            for program in PROGRAMS:
                own = {OURS: compiled, TILES: tiles, ONE: one}
                sides = _Sides(program, size, own, config.jax, torch)
                floor = _floor(program, sides.host, sides.results, two)
                for clock in CLOCKS:
                    yield sides.case(clock, floor, config.pick({SMALL: 100, MIDDLE: 20}, {}))


def goals(results: list[Result]) -> list[Goal]:
    """Return how many times gpushard's time a peer takes, for each table.

    The best peer may be JAX on eight devices or on one. So gpushard is compared with it on eight
    devices alone, and on eight or one, whichever is faster.
    """
    goals = []
    for table in dict.fromkeys(result.case.table for result in results):
        rows = [result for result in results if result.case.table == table]
        for ours in ([OURS], [OURS, ONE]):
            ratios = [ratio for row in rows if (ratio := _ratio(row, ours)) is not None]
            mean = statistics.geometric_mean(ratios) if ratios else None
            text = f"{table}: geometric mean of the best peer/{' or '.join(ours)}"
            wanted = 1.8 if LARGE in table and WALL in table and ours == [OURS] else None
            goals.append(Goal(f"{text} over {len(ratios)} programs", mean, wanted))
            goals.append(Goal(f"{table}: the least of these", min(ratios, default=None), 0.95))
        for peer, column, wanted in ((JAX, OURS, 1.0), (JAX_ONE, ONE, 1.0), (NUMPY, ONE, 1 / 3)):
            ratios = [ratio for row in rows if (ratio := row.ratio(peer, column)) is not None]
            text = f"{table}: the least of {peer}/{column}"
            goals.append(Goal(text, min(ratios, default=None), wanted if SMALL in table else None))
    return goals


def _ratio(result: Result, ours: Sequence[str]) -> float | None:
    """Return the time of the best peer divided by that of the best of our columns."""
    took = result.medians
    peers, own = ([took[x] for x in columns if x in took] for columns in (PEERS, ours))
    return min(peers) / min(own) if peers and own else None


class _Sides:
    """All ways to run one program."""

    def __init__(
        self,
        program: Program,
        size: str,
        runtimes: Mapping[str, Any],
        jax: Jax | None,
        torch: Torch | None,
    ) -> None:
        self.program, self.size = program, size
        self.host = program.arguments(size)
        self.runs = {column: self._ours(own) for column, own in runtimes.items()}
        self.runs[NUMPY] = self._numpy()
        if jax is not None:
            self.runs |= {JAX: self._jax(jax, 8), JAX_ONE: self._jax(jax, 1)}
        if torch is not None:
            self.runs |= {TORCH: self._torch(torch, lambda f: f)}
            self.runs |= {TORCH_COMPILED: self._torch(torch, torch.compile)}
        self.results = [np.asarray(x) for x in self.runs[NUMPY]()]

    def case(self, clock: str, floor: Callable[[Callable[[], float]], Any], bursts: Any) -> Case:
        """Return the case by one of the clocks."""
        sides = [
            Side(
                column,
                timed(
                    lambda _, run=run: run(),
                    discard=lambda _, made, column=column: _discard(column, made),
                    clock=CLOCKS[clock],
                ),
            )
            for column, run in self.runs.items()
        ]
        return Case(
            name=self.program.name,
            table=f"{self.size}, {clock}",
            sides=[*sides, Side(FLOOR, floor(CLOCKS[clock]))],
            check=self._check,
            burst=bursts.get(self.size, 1),
            facts={"shapes": [list(x.shape) for x in self.host]},
        )

    def _check(self) -> None:
        for column, run in self.runs.items():
            made = run()
            for x, wanted in zip(made, self.results, strict=True):
                if wanted.dtype.kind in "iu":  # the nearest of some that are equally near
                    assert np.mean(np.asarray(x) != wanted) < 1e-3, column
                else:
                    np.testing.assert_allclose(
                        np.asarray(x), wanted, rtol=5e-3, atol=2e-3, err_msg=column
                    )
            _discard(column, made)

    def _numpy(self) -> Run:
        names = _Names(np, importlib.import_module("scipy.special").erf)
        return lambda: _listed(self.program.run(names, *self.host))

    def _ours(self, own: Any) -> Run:
        mesh = gs.Mesh(np.array(own.devices), "x")
        specs = [gs.P("x") if split == ROWS else gs.P() for split in self.program.split]
        arguments = [
            gs.device_put(x, gs.NamedSharding(mesh, spec))
            for x, spec in zip(self.host, specs, strict=True)
        ]
        names = _Names(gs.numpy, gs.special.erf)
        function = gs.jit(lambda *xs: self.program.run(names, *xs))
        return lambda: _waited(function(*arguments))

    def _jax(self, jax: Jax, count: int) -> Run:
        specs = [("x",) if split == ROWS else () for split in self.program.split]
        arguments = [
            jax.put(x, jax.sharding((count,), ("x",), spec if len(x) % count == 0 else ()))
            for x, spec in zip(self.host, specs, strict=True)
        ]
        names = _Names(jax.jax.numpy, jax.jax.scipy.special.erf)
        function = jax.jax.jit(lambda *xs: self.program.run(names, *xs))
        return lambda: _waited(function(*arguments))

    def _torch(self, torch: Torch, make: Callable[[Any], Any]) -> Run:
        arguments = [torch.from_numpy(x) for x in self.host]
        function = make(lambda *xs: self.program.run(torch, *xs))

        def run() -> list[Any]:
            with torch.no_grad():
                return _listed(function(*arguments))

        return run


class _Names:
    """The names of a module, and `erf`."""

    def __init__(self, module: Any, erf: Any) -> None:
        self._module = module
        self.erf = erf

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _listed(made: Any) -> list[Any]:
    return list(made) if isinstance(made, tuple) else [made]


def _waited(made: Any) -> list[Any]:
    return [x.block_until_ready() for x in _listed(made)]


def _discard(column: str, made: list[Any]) -> None:
    if column in (OURS, TILES, ONE, JAX, JAX_ONE):
        delete(*made)


def _floor(
    program: Program, host: Sequence[HostArray], results: Sequence[HostArray], two: TwoThreads
) -> Callable[[Callable[[], float]], Any]:
    """Return what makes the sampler of the floor for a clock."""
    nbytes = sum(x.nbytes for x in (*host, *results)) // 2
    source, target = (np.ones(max(nbytes // 4, 1), np.float32) for _ in range(2))
    copy = two.copier([(target, source)])
    rng, warm = np.random.default_rng(0), WarmMemory()
    products = [
        (
            rng.standard_normal((batch, m, k), dtype=np.float32),
            rng.standard_normal((batch, k, n), dtype=np.float32),
            warm.take((batch, m, n), np.dtype(np.float32)),
        )
        for batch, m, k, n in program.products(*[x.shape for x in host])
    ]

    def multiply() -> None:
        for a, b, out in products:
            np.matmul(a, b, out)

    def sampler(clock: Callable[[], float]) -> Any:
        copied, multiplied = (timed(lambda _, f=f: f(), clock=clock) for f in (copy, multiply))
        return lambda: max(copied(), multiplied() if products else 0.0)

    return sampler
