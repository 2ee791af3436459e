"""Timing. The sides of a case take turns, so that noise hits all of them alike."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench.case import FLOOR, OURS, Case, Config, Result, Sampler, Side, Timing

SETTLE = 0.01
"""Seconds between two sides, at least. Linux adds up every 4 ms what other threads took, so a
shorter look may miss one that spins."""

PAUSE = 1.0
"""Seconds between two sides, at most: pool threads of the one before spin for a while when they
have no more work. OpenBLAS counts ticks of the processor, which are 30 to 110 ms."""

PATIENCE = 5.0
"""Seconds for all samples of a side; what has had them takes no further turn."""


def timed(
    run: Callable[[Any], Any],
    setup: Callable[[], Any] = lambda: None,
    discard: Callable[[Any, Any], None] = lambda argument, result: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Sampler:
    """Return a sampler of a function.

    Args:
      run: what is timed; gets what `setup` returned.
      setup: makes a fresh argument, not timed; whatever it starts must have ended when it returns.
      discard: gives up the argument and the result, not timed; must wait for what still runs.
      clock: what tells the seconds; `time.process_time` counts those of all threads.
    """

    def sample() -> float:
        argument = setup()
        start = clock()
        result = run(argument)
        seconds = clock() - start
        discard(argument, result)
        return seconds

    return sample


def measure(case: Case, config: Config) -> Result:
    """Check a case, then time all of its sides in one go.

    A side that uses up its `PATIENCE` in the warm-up turn keeps the samples of that.

    Raises:
      AssertionError: a side gives a wrong value.
    """
    case.check()
    samplers = {side.column: side.sample for side in case.sides if side.sample is not None}
    columns = list(samplers)
    samples: dict[str, list[float]] = {column: [] for column in columns}
    if not config.quick:
        gc.collect()
    with _no_garbage_collection():
        for turn in range(-1, config.turns):  # turn -1 compiles, plans and warms memory
            if turn < 0 and config.quick:
                continue
            for column in columns[turn % len(columns) :] + columns[: turn % len(columns)]:
                if sum(samples[column]) > PATIENCE:
                    continue
                _settle()
                took = list(_burst(samplers[column], config.pick(case.burst, 1)))
                if turn >= 0 or sum(took) > PATIENCE:
                    samples[column] += took
    bare = dataclasses.replace(
        case, sides=[Side(side.column, None) for side in case.sides], check=lambda: None
    )
    timings = {column: summary(took) for column, took in samples.items()}
    return Result(bare, timings, checked=True)


def _settle() -> None:
    """Wait until threads of the side before have stopped spinning."""
    end = time.perf_counter() + PAUSE
    while time.perf_counter() < end:
        before = time.process_time()
        time.sleep(SETTLE)
        if time.process_time() - before < SETTLE / 4:
            return


def _burst(sample: Sampler, count: int) -> Iterator[float]:
    """Yield samples until there are so many, or they took all of `PATIENCE`."""
    left = PATIENCE
    for _ in range(count):
        if left < 0:
            return
        took = sample()
        left -= took
        yield took


def summary(samples: list[float]) -> Timing:
    """Return median, quartiles and extremes."""
    q1, median, q3 = (
        statistics.quantiles(samples, n=4, method="inclusive") if len(samples) > 1 else samples * 3
    )
    return Timing(median, min(samples), q1, q3, max(samples), len(samples))


def borrow(result: Result, earlier: list[Result]) -> Result:
    """Add the peers' figures of an earlier case of the same name, if this one asks for them."""
    found = next((r for r in earlier if r.case.name == result.case.name), None)
    if found is None or not result.case.borrows:
        return result
    peers = {c: t for c, t in found.timings.items() if c not in (OURS, FLOOR)}
    return dataclasses.replace(result, timings={**peers, **result.timings})


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
