"""What a process asks of CUDA's driver, where that counts: the software GPU of the tests does."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from typing import Protocol

SHOWN = {
    "launches": "launches",
    "graph_launches": "graphs",
    "library_calls": "library calls",
    "events_recorded": "events",
    "events_waited": "waits",
    "events_queried": "queries",
    "device_allocations": "allocations",
    "calls": "driver calls",
}
"""The counters that tables show, and how."""


class Meter(Protocol):
    """Reads counters."""

    def read(self) -> Counter[str]:
        """Return how often each thing was done so far, and nanoseconds as `driver_ns`."""


class NoMeter:
    """For drivers that count nothing: all their time is the host's."""

    def read(self) -> Counter[str]:
        """Return nothing."""
        return Counter()


class LibraryMeter:
    """Reads the counters of a library.

    Args:
      library: that has some.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        library.softgpu_counter_names.restype = ctypes.c_char_p
        self._names = library.softgpu_counter_names().decode().split()
        self._values = (ctypes.c_uint64 * len(self._names))()
        self._library = library

    def read(self) -> Counter[str]:
        """Return all counters."""
        self._library.softgpu_counters(self._values)
        return Counter(dict(zip(self._names, self._values, strict=True)))


def find_meter() -> Meter:
    """Return what reads the counters of the driver of this process, if it has some."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
        return LibraryMeter(library)
    except (OSError, AttributeError):
        return NoMeter()


def shown(meter: Meter, run: Callable[[], object], repeats: int) -> str:
    """Return what one run asks of the driver, for a table; nothing where that does not count."""
    before = meter.read()
    for _ in range(repeats):
        run()
    counts = meter.read() - before
    parts = [f"{counts[key] / repeats:.3g} {name}" for key, name in SHOWN.items() if counts[key]]
    return ", ".join(parts)
