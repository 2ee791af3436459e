"""On several GPUs: what moves between them, by NCCL and by copies."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gpushard as gs
from bench.case import OURS, Case, Config, Side
from bench.measure import timed
from gpushard._runtime import choose_backend, current_runtime
from gpushard._runtime.cuda.devices.probe import probe
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings

NCCL, COPIES = "NCCL", "copies"
MODES = {OURS: "auto", NCCL: "always", COPIES: "never"}
"""What each column sets `nccl` to."""

SIZES = {"small": 1 << 20, "large": 256 << 20}
"""Bytes of the array."""

P, lax = gs.P, gs.lax

Body = Callable[[Any, int], Any]
"""Of one device's block, and how many devices there are."""

COLLECTIVES: dict[str, tuple[Body, Any]] = {
    "psum": (lambda x, n: lax.psum(x, "x"), P()),
    "psum_scatter": (lambda x, n: lax.psum_scatter(x, "x", tiled=True), P("x")),
    "all_gather": (lambda x, n: lax.all_gather(x, "x", tiled=True), P()),
    "all_to_all": (lambda x, n: lax.all_to_all(x, "x", 1, 0, tiled=True), P("x")),
    "ppermute": (lambda x, n: lax.ppermute(x, "x", [(i, (i + 1) % n) for i in range(n)]), P("x")),
    "pbroadcast": (lambda x, n: lax.pbroadcast(x, "x", 0), P()),
}


def cases(config: Config) -> Iterator[Case]:
    """Everything, if there are several GPUs."""
    found = probe()
    if not found.usable or found.gpus < 2:
        print(f"Nothing was measured: {found.reason or 'there is one GPU'}\n")
        return
    base = dataclasses.replace(Settings.from_environment(), backend="cuda", partitions=1)
    runtimes = {
        column: choose_backend.make_runtime(dataclasses.replace(base, nccl=mode))
        for column, mode in MODES.items()
    }
    ends = (runtimes[NCCL].devices[n].memory_domain for n in (0, 1))
    if not runtimes[NCCL].backend.sends(*ends):
        print("NCCL is not there, so that all columns are of copies.\n")
    try:
        for size, nbytes in SIZES.items():
            host = _rows(config.pick(nbytes, 1 << 12), found.gpus)
            for name, (body, out) in COLLECTIVES.items():
                yield _case(runtimes, f"{size} {name}", size, host, body, out)
    finally:
        for runtime in runtimes.values():
            runtime.close()


@contextlib.contextmanager
def _in(runtime: Runtime) -> Iterator[None]:
    """Let functions use a runtime within a `with` block, and leave it open."""
    before = current_runtime.swap(runtime)
    try:
        yield
    finally:
        current_runtime.swap(before)


def _rows(nbytes: int, devices: int) -> np.ndarray[Any, Any]:
    """Return an array of about so many bytes, whose blocks can be divided among as many devices."""
    columns = 64 * devices
    rows = devices * devices * max(1, nbytes // 4 // columns // devices**2)
    return np.random.default_rng(0).random((rows, columns), np.float32)


def _case(
    runtimes: dict[str, Runtime], name: str, table: str, host: Any, body: Body, out: Any
) -> Case:
    made = {column: _prepared(runtime, host, body, out) for column, runtime in runtimes.items()}

    def check() -> None:
        found = [made[column]() for column in runtimes]
        values = []
        for runtime, y in zip(runtimes.values(), found, strict=True):
            with _in(runtime):
                values.append(np.asarray(y))
        assert all(value.tobytes() == values[0].tobytes() for value in values), name

    sides = [Side(column, timed(lambda _, run=run: run())) for column, run in made.items()]
    return Case(name, table, sides, check, facts={"nbytes": host.nbytes})


def _prepared(runtime: Runtime, host: Any, body: Body, out: Any) -> Callable[[], Any]:
    """Return a call of a collective in a runtime, which waits for the result."""
    with _in(runtime):
        n = len(runtime.devices)
        mesh = gs.make_mesh((n,), ("x",))
        x = gs.device_put(host, gs.NamedSharding(mesh, P("x"))).block_until_ready()
        function = gs.shard_map(functools.partial(body, n=n), mesh, P("x"), out)

    def run() -> Any:
        with _in(runtime):
            return function(x).block_until_ready()

    return run
