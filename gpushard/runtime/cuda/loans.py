"""Memory that other libraries have of ours, and that we have of theirs.

What a library does with memory after it has let go of it is not known to our streams. On CUDA's
legacy default stream that can be asked: an event there comes after all that was given to it. For
any other stream, which may be gone by then, the memory is kept until the GPUs have been waited for
as a whole, which running out of memory does. What was borrowed is kept until all that our streams
were given by then is over.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gpushard.runtime.cuda.driver.driver import Driver, EventHandle
from gpushard.runtime.cuda.streams import EventPool
from gpushard.runtime.stream import Tick

LEGACY_STREAM = 1  # DLPack's number, and CUDA's, of the legacy default stream


class _Token:
    """Lives as long as an array that was handed out or taken in."""

    __slots__ = ("_ended", "_what")

    def __init__(self, ended: deque[Any], what: Any) -> None:
        self._ended = ended
        self._what = what

    def __del__(self) -> None:
        self._ended.append(self._what)  # a call of C: neither locks nor CUDA in here


class Loans:
    """Keeps what is on loan."""

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
        # Loans that ended: (owner, GPU, stream) of what was lent, (array, None, 0) of the other.
        self.ended: deque[tuple[Any, int | None, int]] = deque()
        self.waiting = False  # whether some that ended are not known to be over
        self._followed: list[tuple[Any, int, EventHandle]] = []
        self._unknown: list[Any] = []
        self._leaving: list[tuple[Any, list[Tick]]] = []
        self._lock = threading.RLock()

    def lend(self, owner: Any, chip: int, consumer: int) -> Any:
        """Return what an array must own so that `owner` outlives whoever uses the array.

        DLPack numbers the stream `consumer` that it is used on; -1 for any.
        """
        return _Token(self.ended, (owner, chip, consumer))

    def borrow(self, array: Any) -> Any:
        """Return what an array must own so that the memory of `array` outlives our use of it."""
        return _Token(self.ended, (array, None, 0))

    def collect(self) -> None:
        """Let go of what is known to be unused; never waits."""
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
        """Let go of everything whose array is gone, after the GPUs have been waited for."""
        with self._lock:
            self._sort()
            kept = self._unknown, self._followed, self._leaving
            self._unknown, self._followed, self._leaving = [], [], []
        if any(kept):
            try:
                synchronize()
            except BaseException:
                with self._lock:
                    self._unknown += kept[0]
                    self._followed += kept[1]
                    self._leaving += kept[2]
                raise
            self._pool(kept[1])

    def _pool(self, over: Iterable[tuple[Any, int, EventHandle]]) -> None:
        """Take back the events of loans that are over."""
        for _, chip, event in over:
            self._events.free[chip].append(event)

    def _sort(self) -> None:
        """Find out for what each loan that ended has to wait."""
        self.waiting = True  # as long as an error, or an interrupt, may leave some unsorted
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
