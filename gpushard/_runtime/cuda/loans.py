"""Track memory that is lent to other libraries, and memory that is borrowed from them.

When a library drops lent memory, its work may still use it, and our streams do not know of that
work. If the library uses CUDA's legacy default stream, an event on it comes after all that work.
Any other stream may no longer exist. Then the memory is kept until all GPUs have been waited for,
which happens when memory runs out. Borrowed memory is kept until the work is over that our streams
had when it was dropped.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gpushard._runtime.cuda.driver.driver import Driver, EventHandle
from gpushard._runtime.cuda.streams import EventPool
from gpushard._runtime.stream import Tick

LEGACY_STREAM = 1  # DLPack's number, and CUDA's, of the legacy default stream


class _Token:
    """Lives as long as an array that was lent or borrowed, and reports its end."""

    __slots__ = ("_ended", "_what")

    def __init__(self, ended: deque[Any], what: Any) -> None:
        self._ended = ended
        self._what = what

    def __del__(self) -> None:
        self._ended.append(self._what)  # a call of C: neither locks nor CUDA in here


class Loans:
    """Keeps memory that is lent or borrowed until it is unused."""

    def __init__(
        self,
        driver: Driver,
        ordinals: Sequence[int],
        events: EventPool,
        launched: Callable[[], list[Tick]],
    ) -> None:
        self._driver = driver
        self._ordinals = ordinals
        self._events = events
        self._launched = launched
        # Loans that ended: (owner, GPU, stream) if memory was lent, (array, None, 0) if borrowed.
        self.ended: deque[tuple[Any, int | None, int]] = deque()
        self.waiting = False  # whether work may still use the memory of some ended loans
        self._followed: list[tuple[Any, int, EventHandle]] = []
        self._unknown: list[Any] = []
        self._leaving: list[tuple[Any, list[Tick]]] = []
        self._lock = threading.RLock()

    def lend(self, owner: Any, chip: int, consumer: int) -> Any:
        """Make a token for a lent array to own, so that `owner` outlives all uses of the array.

        `consumer` is DLPack's number of the stream that uses it; -1 for any stream.
        """
        return _Token(self.ended, (owner, chip, consumer))

    def borrow(self, array: Any) -> Any:
        """Make a token for our array to own, so that the borrowed `array` outlives its uses."""
        return _Token(self.ended, (array, None, 0))

    def collect(self) -> None:
        """Drop memory that is known to be unused; never waits."""
        if not (self.ended or self.waiting):
            return
        with self._lock:
            self._sort()
            followed = [(loan, self._driver.is_done(loan[2])) for loan in self._followed]
            self._followed = [loan for loan, is_done in followed if not is_done]
            self._pool(loan for loan, is_done in followed if is_done)
            self._leaving = [
                (array, ticks)
                for array, ticks in self._leaving
                if not all([stream.finished(tick) for stream, tick in ticks])  # asks all of them
            ]
            self.waiting = bool(self._followed or self._leaving)

    def recall(self, synchronize: Callable[[], None]) -> None:
        """Wait for the GPUs, and drop the memory of all loans that have ended."""
        with self._lock:
            self._sort()
            ended = self._unknown, self._followed, self._leaving
            self._unknown, self._followed, self._leaving = [], [], []
        if any(ended):
            try:
                synchronize()
            except BaseException:
                with self._lock:
                    self._unknown += ended[0]
                    self._followed += ended[1]
                    self._leaving += ended[2]
                raise
            self._pool(ended[1])

    def _pool(self, over: Iterable[tuple[Any, int, EventHandle]]) -> None:
        """Return the events of loans that are over to their pools."""
        for _, chip, event in over:
            self._events.free[chip].append(event)

    def _sort(self) -> None:
        """Sort ended loans by what they have to wait for."""
        self.waiting = True  # an error or an interrupt may leave some loans unsorted
        while self.ended:
            owner, chip, consumer = self.ended.popleft()
            if chip is None:
                self._leaving.append((owner, self._launched()))
            elif consumer == LEGACY_STREAM:
                event = self._events.take(chip)
                self._driver.record_legacy(event, self._ordinals[chip])
                self._followed.append((owner, chip, event))
            else:
                self._unknown.append(owner)
