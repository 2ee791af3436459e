"""On a GPU: steps of many kernels that do not become one, replayed as graphs and launched."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gpushard as gs
from bench.case import OURS, Case, Config, Sampler, Side, Target
from bench.driver_calls import find_meter, shown
from bench.measure import timed
from gpushard._runtime import choose_backend, current_runtime
from gpushard._runtime.cuda.devices.probe import probe
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings

LAUNCHES = "launches"
GRAPHS = {OURS: True, LAUNCHES: False}
"""What each column sets `cuda_graphs` to."""

STEPS = 4
"""Steps one after the other in a sample, each of what the one before gave."""

PARTITIONS = (1, 8)


def balanced(x: Any, kernels: int) -> Any:
    """As many kernels, sums over one dim and then over the other, and quotients."""
    for n in range(kernels):
        x = x / x.sum(axis=-1 - n % 2, keepdims=True)
    return x


def cases(config: Config) -> Iterator[Case]:
    """Everything, if there is a GPU."""
    found = probe()
    if not found.usable:
        print(f"Nothing was measured: {found.reason}\n")
        return
    host = np.random.default_rng(0).uniform(1, 2, (8, 96, 96)).astype(np.float32)
    base = dataclasses.replace(Settings.from_environment(), backend="cuda", gpus=(0,))
    for partitions in PARTITIONS:
        runtimes = {
            column: choose_backend.make_runtime(
                dataclasses.replace(base, partitions=partitions, cuda_graphs=graphs)
            )
            for column, graphs in GRAPHS.items()
        }
        try:
            for kernels in config.pick((5, 20, 80), (5,)):
                yield _case(runtimes, partitions, kernels, host)
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


def _case(runtimes: dict[str, Runtime], partitions: int, kernels: int, host: Any) -> Case:
    made = {column: _prepared(runtime, kernels, host) for column, runtime in runtimes.items()}

    def check() -> None:
        values = []
        for runtime, run in zip(runtimes.values(), made.values(), strict=True):
            with _in(runtime):
                values.append(np.asarray(run()))
        assert values[0].tobytes() == values[1].tobytes()

    for _ in range(4):  # memory goes round by then, and nothing is captured any more
        check()
    return Case(
        name=f"{kernels} kernels",
        table=f"steps of several kernels, {partitions} partitions of a GPU",
        sides=[Side(column, _sampler(run)) for column, run in made.items()],
        check=check,
        target=Target(times=1.0, column=LAUNCHES),
        note=shown(find_meter(), made[OURS], 1),
        floor=LAUNCHES,
    )


def _sampler(run: Callable[[], Any]) -> Sampler:
    return timed(lambda _: run())


def _prepared(runtime: Runtime, kernels: int, host: Any) -> Callable[[], Any]:
    """Return steps in a runtime, of which the last one is waited for."""
    with _in(runtime):
        mesh = gs.make_mesh((len(runtime.devices),), ("x",))
        x = gs.device_put(host, gs.NamedSharding(mesh, gs.P("x"))).block_until_ready()
        step = gs.jit(functools.partial(balanced, kernels=kernels))

    def run() -> Any:
        with _in(runtime):
            y = x
            for _ in range(STEPS):
                y = step(y)
            return y.block_until_ready()

    return run
