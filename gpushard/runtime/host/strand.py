"""Strands and jobs: what the worker threads of the host backend serve."""

from __future__ import annotations

import _thread
from collections import deque
from collections.abc import Callable, Sequence

from gpushard.runtime.backend import Item


class Strand:
    """The queue behind one stream of the host backend.

    It changes under the workers' mutex. Without it, threads that submit append to `queue` and those
    that wait to `latches`, before they read `finished`, which only grows.
    """

    __slots__ = ("active", "dropped", "finished", "latches", "parked", "queue", "running")

    def __init__(self) -> None:
        self.queue: deque[Item] = deque()
        self.finished = 0
        """The last tick that has run."""
        self.active = False
        """Whether a worker runs it, or it is parked."""
        self.running: Item | None = None
        """What a worker runs now."""
        self.parked: list[tuple[int, Strand]] = []
        """Strands that wait for a tick of this one."""
        self.latches: list[tuple[int, _thread.LockType]] = []
        """Locks of host threads that wait for a tick of this one."""
        self.dropped: deque[Item] = deque()
        """Items that will never run, because the process ends."""

    def drop_after(self, tick: int) -> None:
        """Take the items after `tick` out of the queue."""
        while self.queue and self.queue[-1].tick > tick:
            self.dropped.appendleft(self.queue.pop())


class Job:
    """Parts of one piece of work that several threads share.

    Nothing is counted that an interrupt could make wrong: once `parts` is empty and no worker is
    inside, nobody runs a part or ever will. A worker goes inside before it takes a part.

    Args:
      parts: independent of one another.
    """

    __slots__ = ("error", "inside", "latches", "parts")

    def __init__(self, parts: Sequence[Callable[[], None]]) -> None:
        self.parts = deque(parts)
        self.inside = 0
        """How many workers may be running a part."""
        self.error: BaseException | None = None
        """What the last failing part raised."""
        self.latches: list[_thread.LockType] = []
        """Locks of whoever waits until no worker is inside."""

    def work(self) -> None:
        """Run parts until none is left; keep what a part raises, but not an interrupt."""
        parts = self.parts
        while parts:
            try:
                part = parts.popleft()
            except IndexError:  # another thread took the last one
                return
            try:
                part()
            except Exception as error:
                self.error = error

    def help(self) -> None:
        """Run parts on a worker, where every error is for the thread that shared the job."""
        try:
            self.work()
        except BaseException as error:
            self.error = error


def closed_latch() -> _thread.LockType:
    """Return a lock that is held; who acquires it waits until somebody releases it."""
    latch = _thread.allocate_lock()
    latch.acquire()
    return latch
