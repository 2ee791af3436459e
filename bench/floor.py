"""The floor: plain NumPy copies of boxes into warm memory, on two threads."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from bench.boxes import Movement, Place, within

HostArray = np.ndarray[Any, np.dtype[Any]]
BoxCopy = tuple[HostArray, HostArray]
"""(target, source) of the same shape."""

_ALIGNMENT = 64


class WarmMemory:
    """Buffers that are kept, so that no copy pays for fresh pages."""

    def __init__(self) -> None:
        self._free: dict[int, list[HostArray]] = {}
        self._taken: list[HostArray] = []

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> HostArray:
        """Return an aligned array on memory that was written before."""
        nbytes = math.prod(shape) * dtype.itemsize
        free = self._free.setdefault(nbytes, [])
        raw = free.pop() if free else np.zeros(nbytes + _ALIGNMENT, np.uint8)
        raw[::1024] = 0
        self._taken.append(raw)
        offset = -raw.ctypes.data % _ALIGNMENT
        return np.ndarray(shape, dtype, raw[offset : offset + nbytes])

    def give_back(self) -> None:
        """Make all that was taken free; nobody may use it any more."""
        for raw in self._taken:
            self._free[len(raw) - _ALIGNMENT].append(raw)
        self._taken = []


class TwoThreads:
    """Copies boxes on two threads, each half of the bytes."""

    def __init__(self) -> None:
        self._other = ThreadPoolExecutor(1, thread_name_prefix="bench-floor")

    def copier(self, copies: Sequence[BoxCopy]) -> Callable[[], None]:
        """Return a function that runs all copies."""
        mine, others = halves(copies)

        def run() -> None:
            future = self._other.submit(copy_all, others)
            copy_all(mine)
            future.result()

        return run

    def close(self) -> None:
        """End the second thread."""
        self._other.shutdown()


def copy_all(copies: Sequence[BoxCopy]) -> None:
    """Run copies on this thread."""
    for target, source in copies:
        np.copyto(target, source)


def halves(copies: Sequence[BoxCopy]) -> tuple[list[BoxCopy], list[BoxCopy]]:
    """Divide copies into two lists of equal bytes; the one across the middle is cut by rows."""
    left = sum(target.nbytes for target, _ in copies) // 2
    first: list[BoxCopy] = []
    second: list[BoxCopy] = []
    for target, source in copies:
        rows = len(target)
        taken = min(rows, left * rows // target.nbytes)
        if taken:
            first.append((target[:taken], source[:taken]))
        if taken < rows:
            second.append((target[taken:], source[taken:]))
        left -= taken * target.nbytes // rows
    return first, second


class Blocks:
    """Plain arrays for the blocks of a movement.

    Args:
      moves: what is copied.
      host: the global array; the held blocks get their values from it.
      warm: where the arrays come from.
    """

    def __init__(self, moves: Movement, host: HostArray, warm: WarmMemory) -> None:
        self._host = host
        self._held: dict[Place, HostArray] = {}
        self._wanted: dict[Place, HostArray] = {}
        for copy in moves.copies:
            for place, blocks in ((copy.held, self._held), (copy.wanted, self._wanted)):
                if place not in blocks:
                    shape = tuple(stop - start for start, stop in place[1])
                    blocks[place] = warm.take(shape, host.dtype)
        for (_, box), block in self._held.items():
            block[...] = host[_index(box)]
        self.copies: list[BoxCopy] = [
            (
                self._wanted[copy.wanted][within(copy.box, copy.wanted[1])],
                self._held[copy.held][within(copy.box, copy.held[1])],
            )
            for copy in moves.copies
        ]

    def check(self) -> None:
        """Raise if a wanted block does not hold its part of the global array."""
        for (_, box), block in self._wanted.items():
            assert np.array_equal(block, self._host[_index(box)]), f"the floor is wrong at {box}"


def _index(box: tuple[tuple[int, int], ...]) -> tuple[slice, ...]:
    return tuple(slice(start, stop) for start, stop in box)
