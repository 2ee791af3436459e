"""On a GPU: what the host does for an operation on small arrays, beside CuPy's own calls.

Where the driver tells how long its calls took, as the software GPU of the tests does, that time is
left out on both sides. Nothing is waited for within the time that counts.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gpushard as gs
from bench.case import OURS, Case, Config, Sampler, Side, Target
from bench.chip import Lab, failure, find_lab
from bench.driver_calls import Meter, find_meter, shown

CUPY = "CuPy"
SIZE = 16
"""Of both dims: only calls shall take time, and what a software GPU computes, caches."""
CALLS = 12
"""Calls of a sample, fewer than queues of CUDA hold, and so few that others seldom interrupt it."""

Function = Callable[[Any, Any, Any], Any]
"""Takes a namespace and two arrays."""

OPERATIONS: dict[str, tuple[Function, Function]] = {
    "x + y": (lambda xp, x, y: x + y,) * 2,
    "x + 1": (lambda xp, x, y: x + 1,) * 2,
    "sin(x)": (lambda xp, x, y: xp.sin(x),) * 2,
    "x.sum()": (lambda xp, x, y: x.sum(),) * 2,
    "x @ x": (lambda xp, x, y: x @ x,) * 2,
    "x[2:10]": (lambda xp, x, y: x[2:10],) * 2,
    "x[:, 2:10]": (lambda xp, x, y: x[:, 2:10], lambda xp, x, y: x[:, 2:10].copy()),
}
"""What gpushard does and what CuPy does, which has views where gpushard copies."""

TIMES = {1: 1.5, 8: 5.0}
"""How many times CuPy's one call an operation may take on so many partitions of a GPU."""


def cases(config: Config) -> Iterator[Case]:
    """Everything, if there is a GPU."""
    lab = find_lab(config)
    if isinstance(lab, str):
        print(f"Nothing was measured: {lab}\n")
        return
    yield from lab_cases(lab, config, find_meter())


def lab_cases(lab: Lab, config: Config, meter: Meter) -> Iterator[Case]:
    """Everything that a lab can measure."""
    for partitions in TIMES:
        try:
            yield from _on_partitions(lab, config, meter, partitions)
        except Exception as error:  # whatever it is, the rest goes on
            yield failure(f"{partitions} partitions", error)
        lab.forget()


def _on_partitions(lab: Lab, config: Config, meter: Meter, partitions: int) -> Iterator[Case]:
    calls = config.pick(CALLS, 2)
    host = np.random.default_rng(0).random((SIZE, SIZE), np.float32)
    with lab.runtime(partitions) as runtime:
        where: Any = runtime.devices[0]
        if partitions > 1:
            where = gs.NamedSharding(gs.make_mesh((partitions,), "x"), gs.P("x"))
        x, y = (gs.device_put(host, where) for _ in range(2))
        theirs = lab.xp.asarray(host)
        lab.synchronize()
        for name, (own, cupys) in OPERATIONS.items():
            run = functools.partial(own, gs.numpy, x, y)
            peer = functools.partial(cupys, lab.xp, theirs, theirs)
            check = functools.partial(_check, own, x, y, host)
            check()  # so that nothing is compiled or planned any more
            yield Case(
                name=name,
                table=f"dispatch, {SIZE}x{SIZE}, {partitions} partitions of a GPU",
                sides=[
                    Side(OURS, _host_time(lab, meter, run, calls)),
                    Side(CUPY, lab.cupy and _within(lab, _host_time(lab, meter, peer, calls))),
                ],
                check=check,
                target=Target(times=TIMES[partitions], column=CUPY),
                burst=10,
                note=shown(meter, run, calls),
                floor=CUPY,
            )
            lab.synchronize()


def _check(function: Function, x: Any, y: Any, host: Any) -> None:
    found = np.asarray(function(gs.numpy, x, y))
    np.testing.assert_allclose(found, function(np, host, host), rtol=1e-4)


def _host_time(lab: Lab, meter: Meter, run: Callable[[], object], calls: int) -> Sampler:
    """Return what samples the host's seconds for a call, without those within the driver."""

    def sample() -> float:
        inside = meter.read()["driver_ns"]
        start = time.perf_counter()
        for _ in range(calls):
            run()
        seconds = time.perf_counter() - start
        inside = meter.read()["driver_ns"] - inside
        lab.synchronize()
        return (seconds - inside * 1e-9) / calls

    return sample


def _within(lab: Lab, sample: Sampler) -> Sampler:
    """Return a sampler in CuPy's stream, entered before the time begins."""

    def within() -> float:
        with lab.stream:
            return sample()

    return within
