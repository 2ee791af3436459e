"""Strands: logical queues that a few worker threads serve.

A strand runs its items in order, one at a time. When the head of a strand waits for another strand
it is parked there and costs no thread. User threads only append to a queue and wake a worker.
"""

from __future__ import annotations

import _thread
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from gpushard.runtime.backend import Item
from gpushard.runtime.stream import Stream

_PATIENCE = 2.0
"""Seconds to wait for a worker that hangs in its work, when closing."""


class Strand:
    """The queue behind one stream of the host backend."""

    __slots__ = ("active", "finished", "latches", "parked", "queue", "running")

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


class _Job:
    """Parts of one piece of work that several threads share."""

    def __init__(self, parts: Sequence[Callable[[], None]]) -> None:
        self.parts = deque(parts)
        self.unfinished = len(parts)
        self.error: BaseException | None = None
        self._mutex = threading.Lock()
        self.finished = _thread.allocate_lock()
        self.finished.acquire()

    def work(self) -> None:
        """Run parts until none is left."""
        while True:
            try:
                part = self.parts.popleft()
            except IndexError:
                return
            try:
                part()
            except BaseException as error:  # the thread that shared the job raises it
                self.error = error
            finally:
                self._count(1)

    def abandon(self) -> None:
        """Start no further part."""
        left = 0
        while self.parts:
            try:
                self.parts.popleft()
            except IndexError:
                break
            left += 1
        if left:
            self._count(left)

    def _count(self, parts: int) -> None:
        with self._mutex:
            self.unfinished -= parts
            last = self.unfinished == 0
        if last:
            self.finished.release()


class Workers:
    """The worker threads of one host backend.

    Args:
      count: how many.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._inbox: SimpleQueue[Strand | _Job | None] = SimpleQueue()
        self._mutex = threading.Lock()
        self._strands: dict[Stream, Strand] = {}
        self._closed = False
        self._threads = [
            threading.Thread(target=self._serve, name=f"gpushard-host-{i}", daemon=True)
            for i in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def add(self, stream: Stream) -> None:
        """Make the strand of a stream."""
        self._strands[stream] = Strand()

    def enqueue(self, item: Item) -> None:
        """Append an item to its strand and wake a worker."""
        strand = self._strands[item.stream]
        if self._closed:  # all that it could wait for has ended
            item.execute()
            self._complete(strand, item.tick)
            return
        strand.queue.append(item)
        self._inbox.put(strand)

    def finished(self, stream: Stream) -> int:
        """Return the last tick of `stream` that has run."""
        return self._strands[stream].finished

    def wait(self, stream: Stream, tick: int) -> None:
        """Block until `tick` of `stream` has run."""
        strand = self._strands[stream]
        latch = _thread.allocate_lock()
        latch.acquire()
        with self._mutex:
            if strand.finished >= tick:
                return
            strand.latches.append((tick, latch))
        self._inbox.put(strand)  # should a wake-up have been lost to an interrupt
        latch.acquire()

    def share(self, parts: Sequence[Callable[[], None]]) -> None:
        """Run parts on this thread and on idle workers; return when all have run.

        Args:
          parts: independent of one another.

        Raises:
          BaseException: what the last failing part raised.
        """
        job = _Job(parts)
        for _ in range(min(len(parts), self.count) - 1):
            self._inbox.put(job)
        try:
            job.work()
        finally:
            job.abandon()
            job.finished.acquire()  # nobody touches the memory after this
        if job.error is not None:
            raise job.error

    def close(self) -> None:
        """Let every worker finish what it runs, and end; what has not run fails."""
        self._closed = True
        for _ in self._threads:
            self._inbox.put(None)
        for thread in self._threads:
            thread.join(timeout=_PATIENCE)
        for strand in self._strands.values():
            self._drop(strand)

    def _serve(self) -> None:
        while True:
            task = self._inbox.get()
            if task is None:
                return
            if isinstance(task, _Job):
                task.work()
            else:
                self._run(task)

    def _run(self, strand: Strand) -> None:
        with self._mutex:
            if strand.active:
                return
            strand.active = True
        while not self._closed:
            with self._mutex:
                if not strand.queue:
                    strand.active = False
                    return
                if self._park(strand):
                    return
                item = strand.running = strand.queue.popleft()
            item.execute()
            strand.running = None
            self._complete(strand, item.tick)

    def _park(self, strand: Strand) -> bool:
        """Say whether the head of a strand has to wait; if so, leave it with what it waits for."""
        for stream, tick in strand.queue[0].waits:
            other = self._strands[stream]
            if other.finished < tick:
                other.parked.append((tick, strand))
                return True
        return False

    def _drop(self, strand: Strand) -> None:
        """Fail what a strand has left, also what hangs in a worker, and release who waits."""
        left = [*([strand.running] if strand.running is not None else []), *strand.queue]
        strand.queue.clear()
        for item in left:
            item.fail(RuntimeError("the runtime was closed before it ran"))
            self._complete(strand, item.tick)

    def _complete(self, strand: Strand, tick: int) -> None:
        with self._mutex:
            strand.finished = max(tick, strand.finished)
            ready = [other for n, other in strand.parked if n <= tick]
            strand.parked = [entry for entry in strand.parked if entry[0] > tick]
            latches = [latch for n, latch in strand.latches if n <= tick]
            strand.latches = [entry for entry in strand.latches if entry[0] > tick]
            for other in ready:
                other.active = False
        for other in ready:
            self._inbox.put(other)
        for latch in latches:
            latch.release()
