"""Strands: logical queues that a few worker threads serve.

A strand runs its items in order, one at a time. When the head of a strand waits for another strand
it is parked there and costs no thread. User threads only append, to a queue or to what waits, and
wake a worker: they take the mutex to close and to fork alone, so that a signal handler, or a
finalizer, that uses the library never finds it taken by its own thread. Whatever else several
threads change is changed under the mutex, so that no GIL is needed.

A user thread may be interrupted wherever the interpreter looks for signals: when a function
starts, when a loop goes back, and when a call of C code returns or blocks. What runs on user
threads (`enqueue`, `wait`, `share`) leaves a safe state at each of these places.
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from queue import SimpleQueue
from typing import TypeAlias

from gpushard._runtime.host.processors import Processors
from gpushard._runtime.item import Item
from gpushard._runtime.stream import Stream
from gpushard._runtime.work_sharing import share_with
from gpushard.errors import ReentrantCallError

_PATIENCE = 2.0
"""Seconds to wait for a worker that hangs in its work, when closing and before a fork."""

_IN_ORDER = getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether all threads see what others do in one order; without a GIL that takes locks."""


class Strand:
    """The queue behind one stream of the host backend.

    It changes under the workers' mutex. Without it, threads that submit append to `queue` and those
    that wait to `latches`, before they read `finished`, which only grows.
    """

    __slots__ = ("active", "dropped", "finished", "latches", "parked", "queue", "running")

    def __init__(self) -> None:
        self.queue: deque[Item] = deque()
        self.finished = 0  # the last tick that has run
        self.active = False  # whether a worker runs it, or it is parked
        self.running: Item | None = None  # what a worker runs now
        self.parked: list[tuple[int, Strand]] = []  # strands that wait for a tick of this one
        # Locks of host threads that wait for a tick of this one.
        self.latches: list[tuple[int, _thread.LockType]] = []
        self.dropped: deque[Item] = deque()  # items that will never run, because the process ends

    def drop_after(self, tick: int) -> None:
        """Take the items after `tick` out of the queue."""
        while self.queue and self.queue[-1].tick > tick:
            self.dropped.appendleft(self.queue.pop())


class Job:
    """Independent parts of one piece of work that several threads share.

    Nothing is counted that an interrupt could make wrong: once `parts` is empty and no worker is
    inside, nobody runs a part or ever will. A worker goes inside before it takes a part.
    """

    __slots__ = ("error", "inside", "latches", "parts")

    def __init__(self, parts: Sequence[Callable[[], None]]) -> None:
        self.parts = deque(parts)
        self.inside = 0  # how many workers may be running a part
        self.error: BaseException | None = None  # what the last failing part raised
        # Locks of whoever waits until no worker is inside.
        self.latches: list[_thread.LockType] = []

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


_Task: TypeAlias = Strand | Job | None


class Workers:
    """The worker threads of one host backend."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.patience = _PATIENCE
        self._strands: dict[Stream, Strand] = {}
        self._stopping = False  # threads end; nothing is served any more
        self._closed = False  # what is submitted runs at once, in the caller
        self._why = "the runtime was closed before it ran"
        self._refresh()
        try:
            self._start_threads()
        except BaseException:
            self.close()
            raise

    def _refresh(self) -> None:
        """Make what a forked child cannot use of its parent's."""
        self._inbox: SimpleQueue[_Task] = SimpleQueue()
        self._mutex = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._busy: dict[int, Strand | Job] = {}  # what workers run, by ident
        self._pausing = False  # a fork is near: nothing starts
        self._paused: deque[_Task] = deque()  # what came up meanwhile
        self._idle = closed_latch()  # released when a worker is done, if pausing
        self._processors = Processors()

    def _start_threads(self) -> None:
        serve = functools.partial(self._serve, self._inbox)
        while len(self._threads) < self.count:
            name = f"gpushard-host-{len(self._threads)}"
            thread = threading.Thread(target=serve, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def add(self, stream: Stream) -> None:
        """Make the strand of a stream."""
        self._strands[stream] = Strand()

    def enqueue(self, item: Item) -> None:
        """Append an item to its strand and call a worker; once closed, run it at once."""
        strand, closed = self._strands[item.stream], self._closed
        if closed:
            self._drop_all()
            raised = item.execute()
            self._complete(strand, item)
            if isinstance(raised, KeyboardInterrupt):
                try:
                    raise raised
                finally:
                    del raised
            return
        strand.queue.append(item)
        if self._closed:  # meanwhile; whoever closed may have looked into the queue before
            self._drop_all()
            return
        if len(self._threads) < self.count:  # in a forked child, or after an interrupt
            self._start_threads()
        self._call(strand)

    def finished(self, stream: Stream) -> int:
        """Return the last tick of `stream` that has run."""
        return self._strands[stream].finished

    def wait(self, stream: Stream, tick: int) -> None:
        """Block until `tick` of `stream` has run.

        An interrupt leaves a latch behind that nobody waits for, which does no harm.

        Raises:
          ReentrantCallError: on a worker, where the tick may be one that it would have to run.
        """
        strand = self._strands[stream]
        if strand.finished >= tick:
            return
        if threading.current_thread() in self._threads:
            raise ReentrantCallError(
                "a finalizer that a garbage collection ran on a thread of gpushard's own waits "
                "for a value, which may be one that this thread is to compute. Let a finalizer "
                "use values that are there, x.is_ready(), or hand them to a thread of yours"
            )
        latch = closed_latch()
        strand.latches.append((tick, latch))
        if strand.finished >= tick:  # its end may have come before the latch
            return
        self._call(strand)  # should one have been lost to an interrupt
        latch.acquire()

    def share(self, parts: Sequence[Callable[[], None]]) -> None:
        """Run independent parts on this thread and on idle workers; return when no more will run.

        Raises:
          BaseException: what the last failing part raised. After an interrupt no further part
            starts, and nobody touches the memory once it is raised.
        """
        job, processors = Job(parts), self._processors
        try:
            try:
                processors.begin()
                for _ in range(min(len(parts), self.count, len(self._threads) + 1) - 1):
                    self._call(job)
                job.work()
            finally:
                self._end(job)
        except BaseException:
            self._end(job)  # the interrupt may have struck on the way into the first one
            raise
        finally:
            processors.end()
        error, job.error = job.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # a frame and its error that hold each other keep memory alive

    def _end(self, job: Job) -> None:
        """Start no further part, and wait for those that run; interrupts come after that."""
        job.parts.clear()
        interrupt: BaseException | None = None
        while job.inside:
            try:
                self._await(job)
            except BaseException as error:
                interrupt = error
        if interrupt is not None:
            try:
                raise interrupt
            finally:
                del interrupt

    def _await(self, job: Job) -> None:
        latch = closed_latch()
        job.latches.append(latch)
        if job.inside:  # not before the latch is there, or the end may fall in between
            latch.acquire()

    def close(self) -> None:
        """Run what has an effect outside, with all that it waits for, and end; the rest fails.

        What hangs in a worker is given up after a while. Repeated after an interrupt, it goes on.
        """
        for stream, tick in self._keep_effects().items():
            self.wait(stream, tick)
        self._stopping = True
        self._inbox.put(None)
        deadline = time.monotonic() + self.patience
        for thread in self._threads:
            thread.join(timeout=max(0.0, deadline - time.monotonic()))
        with self._mutex:
            self._closed = True
        self._drop_all()

    def quiet(self) -> Generator[None, None, None]:
        """Yield once it is quiet enough for a fork, and go on after that.

        Waits for what runs, lets nothing start, and holds the mutex. What hangs, or waits for the
        thread that forks, is left after a while.
        """
        self._pausing = True
        deadline = time.monotonic() + self.patience
        try:
            while True:
                with self._mutex:
                    left = deadline - time.monotonic()
                    if self._busy.keys() <= {threading.get_ident()} or left <= 0:
                        yield
                        return
                self._idle.acquire(timeout=left)
        finally:
            self._pausing = False
            with self._mutex:  # whoever saw it set has noted by now what it left
                pass
            while self._paused:
                self._inbox.put(self._paused.popleft())

    def restart(self) -> None:
        """Go on after a fork, in the child, where no worker is left.

        In the child of a fork that an item made, the only thread is the worker that ran it. No
        thread may outlive it there, so work runs at once from then on.
        """
        own = self._busy.get(threading.get_ident())
        self._inbox.put(None)  # the worker that forked comes back to it, and must end
        self._refresh()
        strands = list(self._strands.values())
        for strand in strands:
            strand.latches, strand.parked, strand.active = [], [], False
        if own is not None:
            self._stopping = self._closed = True
            self._why = "the process was forked by work that it comes after"
            if isinstance(own, Strand):
                own.running = None  # it goes on, and completes by itself
            self._drop_all()
            return
        for strand in strands:
            if strand.running is not None:
                self._fail(strand, strand.running, "the process was forked while it ran")
        if any(strand.queue for strand in strands) and not self._closed:
            for strand in strands:
                self._inbox.put(strand)
            self._start_threads()

    def _call(self, task: Strand | Job) -> None:
        """Let a worker come to a task, unless one is there, who looks into the queue once more.

        Every call wakes a thread, which then needs the interpreter for nothing.
        """
        if isinstance(task, Job) or not (task.active and _IN_ORDER):
            self._inbox.put(task)

    def _serve(self, inbox: SimpleQueue[_Task]) -> None:
        share_with(self.share)
        processors = self._processors
        while True:
            if inbox.empty():
                processors.leave()
                task = inbox.get()
                processors.enter()
            else:
                task = inbox.get()
            if task is None or inbox is not self._inbox:
                inbox.put(None)  # for the next one
                return
            if isinstance(task, Job):
                self._help(task)
            else:
                self._run(task)
            del task  # must not keep what it holds alive until the next one comes

    def _help(self, job: Job) -> None:
        with self._mutex:
            if self._pausing:
                self._paused.append(job)
                return
            self._busy[threading.get_ident()] = job
            job.inside += 1
        job.help()
        with self._mutex:
            job.inside -= 1
            over = not job.inside
            self._rest()
        while over and job.latches:
            with contextlib.suppress(IndexError):  # another worker, inside once more, took it
                job.latches.pop().release()

    def _run(self, strand: Strand) -> None:
        with self._mutex:
            if strand.active:
                return
            strand.active = True
        while (item := self._next(strand)) is not None:
            item.execute()
            self._complete(strand, item)

    def _next(self, strand: Strand) -> Item | None:
        """Take the head of a strand; None if it has none, has to wait, or must not start."""
        with self._mutex:
            strand.active = False  # first: who appends looks at it after that
            if self._pausing or self._stopping or not strand.queue:
                if self._pausing:
                    self._paused.append(strand)
                return None
            strand.active = True
            if self._park(strand):
                return None
            self._busy[threading.get_ident()] = strand
            strand.running = strand.queue.popleft()
            return strand.running

    def _park(self, strand: Strand) -> bool:
        """Say whether the head of a strand has to wait; if so, leave it with what it waits for."""
        for stream, tick in strand.queue[0].waits:
            other = self._strands[stream]
            if other.finished < tick:
                other.parked.append((tick, strand))
                return True
        return False

    def _rest(self) -> None:
        """Note, under the mutex, that this worker runs nothing now."""
        self._busy.pop(threading.get_ident(), None)
        if self._pausing and self._idle.locked():
            self._idle.release()

    def _complete(self, strand: Strand, item: Item) -> None:
        """Count an item as over, and wake who waits for it."""
        with self._mutex:
            tick = item.tick
            if strand.running is item:
                strand.running = None
            self._rest()
            strand.finished = max(tick, strand.finished)
            ready = [other for n, other in strand.parked if n <= tick]
            strand.parked = [entry for entry in strand.parked if entry[0] > tick]
            latches = [entry for entry in strand.latches.copy() if entry[0] <= tick]
            for entry in latches:
                strand.latches.remove(entry)
            for other in ready:
                other.active = False
        for other in ready:
            self._inbox.put(other)
        for _, latch in latches:
            latch.release()

    def _keep_effects(self) -> dict[Stream, int]:
        """Take all items out of the queues but those with effects and what they wait for.

        Returns:
          For each stream that still has work to do, the last tick of it. Streams are in order, and
          a wait is left out where an item before carries it, so that all before it stay too.
        """
        with self._mutex:
            kept: dict[Stream, int] = {}
            left = {
                stream: [*filter(None, [strand.running]), *strand.queue.copy()]
                for stream, strand in self._strands.items()
            }
            pending = [(i.stream, i.tick) for items in left.values() for i in items if i.effect]
            while pending:
                stream, tick = pending.pop()
                if tick > max(kept.get(stream, 0), self._strands[stream].finished):
                    kept[stream] = tick
                    pending.extend(
                        w for item in left[stream] if item.tick <= tick for w in item.waits
                    )
            for stream, strand in self._strands.items():
                strand.drop_after(kept.get(stream, 0))
            return kept

    def _drop_all(self) -> None:
        """Once closed, fail what has not run, also what hangs in a worker, and release who waits.

        Any thread may do it, several at once too: nothing is queued any more.
        """
        for strand in list(self._strands.values()):
            running = strand.running
            if running is not None:
                self._fail(strand, running, self._why)
            for queue in (strand.dropped, strand.queue):
                while queue:
                    with contextlib.suppress(IndexError, ValueError):  # another thread drops it
                        item = queue[0]
                        self._fail(strand, item, self._why)
                        queue.remove(item)  # last, so that an interrupt loses nothing

    def _fail(self, strand: Strand, item: Item, why: str) -> None:
        item.fail(RuntimeError(why))
        self._complete(strand, item)
