"""Measure a reshard: bytes moved, lower bounds, time, and the time of a plain copy."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable

import numpy as np

import gpushard as gs
from gpushard._runtime.backend import Backend

_RUNS = 3
_LARGEST_COPY = 256 << 20


@dataclasses.dataclass(frozen=True)
class Measurement:
    """Bytes of one run of a reshard, and the time of its fastest run."""

    moved: int  # bytes copied, as the backend counted them
    moved_bound: int  # the fewest bytes that any plan could write
    received: int  # the part of `moved` that came from another memory domain
    received_bound: int  # the fewest bytes that domains could receive from others
    seconds: float  # time of the fastest run
    plain_seconds: float  # time of NumPy to copy as many bytes between warm arrays

    @staticmethod
    def header(across: bool) -> str:
        """Return the titles of the columns; `across` adds the traffic between memory domains."""
        titles = ["moved", "bound", *(["received", "bound"] if across else [])]
        return _columns([*titles, "time", "GB/s", "(copy)"])

    def line(self, across: bool) -> str:
        """Write the measurement as a line of a table."""
        if not self.moved and not self.moved_bound:
            return "  shared, nothing moved"
        amounts = [self.moved, self.moved_bound]
        if across:
            amounts += [self.received, self.received_bound]
        rates = [f"{self.moved / s / 1e9:.2f}" for s in (self.seconds, self.plain_seconds)]
        return _columns([*map(format_bytes, amounts), format_seconds(self.seconds), *rates])


def measure_reshard(x: gs.Array, sharding: gs.Sharding) -> tuple[gs.Array, Measurement]:
    """Reshard an array a few times; after the first time, memory is warm."""
    plan = x.plan(sharding)
    backend: Backend = next(iter(x.devices())).runtime.backend
    result, seconds, before = x, math.inf, (0, 0)
    for _ in range(_RUNS):
        result = x  # drops the last result, so its memory is reused
        before = traffic(backend)
        started = time.perf_counter()
        result = gs.reshard(x, sharding).block_until_ready()
        seconds = min(seconds, time.perf_counter() - started)
    moved, received = (now - then for now, then in zip(traffic(backend), before, strict=True))
    return result, Measurement(
        moved=moved,
        moved_bound=plan.bytes_written,
        received=received,
        received_bound=plan.bytes_received,
        seconds=seconds,
        plain_seconds=_plain_seconds(moved),
    )


def format_bytes(nbytes: int) -> str:
    """Write a number of bytes in readable units, in powers of 1000.

    >>> format_bytes(920064), format_bytes(12)
    ('920.1 kB', '12 B')
    """
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if nbytes >= size:
            return f"{nbytes / size:.1f} {unit}"
    return f"{nbytes} B"


def format_seconds(seconds: float) -> str:
    """Write a time in readable units.

    >>> format_seconds(2.5e-5), format_seconds(0.0301), format_seconds(12)
    ('25 us', '30.1 ms', '12.0 s')
    """
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def traffic(backend: Backend) -> tuple[int, int]:
    """Return the bytes copied so far, in total and between memory domains."""
    links = dict(backend.traffic)
    between = sum(nbytes for (source, target), nbytes in links.items() if source != target)
    return sum(links.values()), between


def _plain_seconds(nbytes: int) -> float:
    """Return the time of a plain copy, which works in pieces to need less memory."""
    if not nbytes:
        return 0.0
    size = min(nbytes, _LARGEST_COPY)
    source, target = np.ones(size, np.uint8), np.ones(size, np.uint8)
    return nbytes / size * min(_time_call(lambda: np.copyto(target, source)) for _ in range(_RUNS))


def _time_call(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _columns(cells: list[str]) -> str:
    """Align the cells of a line; the last two are rates."""
    widths = [8] * (len(cells) - 2) + [6, 6]
    return " ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
