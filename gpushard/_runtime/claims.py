"""Claims: the right to a memory, shared by reference.

Arrays, views, exports and running calls hold references to one claim. When the last is gone the
memory goes back to its pool.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from gpushard._runtime.memory import Memory, Passing
from gpushard.errors import ReentrantCallError


class Claim:
    """The right to a memory, shared by reference; the memory is free when no reference is left."""

    __slots__ = ("__weakref__", "memory")
    memory: Memory


class _ClaimEnd(weakref.ref[Claim]):
    """Watches a claim; when it dies, `Claims._ended.append` is called with this, from C."""

    __slots__ = ("memory",)
    memory: Memory


class Claims:
    """All claims of a runtime, and the queue of those that began without the lock, or ended."""

    def __init__(self) -> None:
        self._open: dict[int, _ClaimEnd] = {}
        # Ends of claims; those that began, each in a tuple, to be charged first; what passed.
        self.queue: deque[Any] = deque()
        self._end = self.queue.append
        self._followed: list[weakref.ref[Claim]] = []

    def memories(self) -> list[Memory]:
        """Return the memories that are claimed."""
        return [end.memory for end in self._open.values()]

    def make(self, memory: Memory) -> Claim:
        """Return the claim on a fresh memory."""
        claim = Claim()  # without a call of Python's, as each result has one
        claim.memory = memory
        end = _ClaimEnd(claim, self._end)
        end.memory = memory
        self._open[id(end)] = end
        return claim

    def begin(self, memory: Memory) -> Claim:
        """Return the claim on a fresh memory that `drain` is to charge; needs no lock."""
        claim, queue = Claim(), self.queue
        claim.memory = memory
        end = _ClaimEnd(claim, self._end)
        end.memory = memory
        queue.append((end,))
        return claim

    def drain(self) -> None:
        """Charge claims that began, give back the memory of those that ended; under the lock.

        What an interrupt cuts short here comes again after `repair`. What comes meanwhile, from
        other threads and signal handlers, is for the next time: this ends, however busy they are.
        """
        queue, still_open = self.queue, self._open
        for _ in range(len(queue)):
            end = queue[0]
            if type(end) is tuple:
                (end,) = end
                if id(end) not in still_open:
                    end.memory.pool.charge(end.memory)
                    still_open[id(end)] = end
            elif type(end) is Passing:
                end.charge()
            elif (key := id(end)) in still_open:
                memory = end.memory
                borrower = memory.borrower
                if borrower is not None:  # any item that was launched so far may have used it
                    memory.written, memory.used = (borrower, borrower.issued), {}
                memory.pool.release(memory)
                del still_open[key]
            queue.popleft()

    def follow(self, drain: Callable[[], object]) -> None:
        """From now on, when a claim ends, call what drains under the submission lock."""
        for end in list(self._open.values()):
            if (claim := end()) is not None:
                gone = functools.partial(self._drain_at_once, end, drain)
                self._followed.append(weakref.ref(claim, gone))

    def _drain_at_once(self, end: _ClaimEnd, drain: Callable[[], object], _: object) -> None:
        self.queue.append(end)  # its own callback comes after this one
        if sys.is_finalizing():
            return
        with contextlib.suppress(ReentrantCallError):  # it ended within a submission
            drain()

    def repair(self) -> list[Memory]:
        """Forget claims whose end was cut short, and return the memories that are claimed."""
        self._open = {key: end for key, end in self._open.items() if end() is not None}
        return self.memories()
