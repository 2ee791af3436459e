"""The worker threads of the host backend, switched between any two instructions as a seed says.

`Workers` runs as it is, but for what its threads block on: there another thread goes on. When none
can, all that was submitted must have run; otherwise somebody was not woken, and the stacks say who.
"""

from __future__ import annotations

import functools
import random
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Any
from unittest import mock

from gpushard._runtime.host import workers
from gpushard._runtime.item import Item
from gpushard._runtime.stream import Stream
from tests.stress.interrupter import _places

_TRACED = (workers.__file__,)
_PATIENCE = 60.0


class _Over(BaseException):
    """Ends a worker once nothing is left to do."""


class Scheduler:
    """Lets one thread run at a time.

    Args:
      seed: says which, and where the first user is interrupted.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.over = False
        self.interrupts = 0
        """How many struck."""
        self.countdown = 0
        """At which place from now the first thread is interrupted; 0 for none."""
        self._often = self.random.choice((0.02, 0.1, 0.5))
        self._threads: list[threading.Thread] = []
        self._turns: list[threading.Semaphore] = []
        self._blocked: dict[int, Callable[[], bool]] = {}  # by number, and when it can go on
        self._ended: set[int] = set()
        self._mine = threading.local()
        self._none_can = threading.Event()
        self._last: dict[FrameType, int] = {}

    def start(self, work: Callable[[], object], name: str) -> threading.Thread:
        """Make a thread, which waits for its turn."""
        number, turn = len(self._turns), threading.Semaphore(0)

        def run() -> None:
            turn.acquire()
            self._mine.number = number
            sys.settrace(self._trace)
            try:
                work()
            except _Over:
                pass
            finally:
                sys.settrace(None)
                self._ended.add(number)
                self._pass_on()

        thread = threading.Thread(target=run, name=name, daemon=True)
        self._turns.append(turn)
        self._threads.append(thread)
        thread.start()
        return thread

    def run(self, users: int) -> None:
        """Let the threads run until none can go on; the first ones, the users, must have ended.

        Raises:
          AssertionError: a user is stuck.
        """
        self._pass_on()
        assert self._none_can.wait(_PATIENCE), self._stacks()
        assert self._ended >= set(range(users)), self._stacks()
        self.over = True
        for turn in self._turns:
            turn.release()
        for thread in self._threads:
            thread.join(_PATIENCE)

    def switch(self, can: Callable[[], bool] | None = None) -> None:
        """Perhaps let others go on; if told when this thread can go on, it blocks until then."""
        if can is None and (self.over or self.random.random() >= self._often):
            return
        number = self._mine.number
        if can is not None:
            self._blocked[number] = can
        self._pass_on()
        self._turns[number].acquire()
        self._blocked.pop(number, None)
        if self.over:
            raise _Over

    def _pass_on(self) -> None:
        left = set(range(len(self._turns))) - self._ended
        able = [n for n in sorted(left) if n not in self._blocked or self._blocked[n]()]
        if able:
            self._turns[self.random.choice(able)].release()
        else:
            self._none_can.set()

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in _TRACED:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            self.switch()
            if self._mine.number == 0 and self.countdown:
                last = self._last.get(frame)
                self._last[frame] = frame.f_lasti
                self._strike(_places(frame.f_code).reached(last, frame.f_lasti))
        elif event == "return":
            self._last.pop(frame, None)
        return self._trace

    def _strike(self, is_place: bool) -> None:
        self.countdown -= is_place
        if not self.countdown:
            self.interrupts += 1
            raise KeyboardInterrupt

    def _stacks(self) -> str:
        frames = sys._current_frames()
        return "\n".join(
            f"{thread.name}: {traceback.format_stack(frames[thread.ident])[-8:]}"
            for thread in self._threads
            if thread.ident in frames
        )


class _Lock:
    """A lock at which threads are switched."""

    def __init__(self, scheduler: Scheduler, taken: bool = False) -> None:
        self._switch, self._taken = scheduler.switch, taken

    def acquire(self) -> None:
        self._switch(lambda: not self._taken)
        self._taken = True

    def release(self) -> None:
        self._taken = False

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class _Inbox(deque[Any]):
    """A queue at which threads are switched."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._switch = scheduler.switch
        self.put = self.append

    def empty(self) -> bool:
        return len(self) == 0

    def get(self) -> Any:
        self._switch(lambda: len(self) > 0)
        return self.popleft()


class _Workers(workers.Workers):
    """Workers whose threads a scheduler switches."""

    def __init__(self, count: int, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        super().__init__(count)

    def _refresh(self) -> None:
        super()._refresh()
        self._inbox: Any = _Inbox(self._scheduler)
        self._mutex: Any = _Lock(self._scheduler)

    def _start_threads(self) -> None:
        serve = functools.partial(self._serve, self._inbox)
        while len(self._threads) < self.count:
            self._threads.append(self._scheduler.start(serve, f"worker {len(self._threads)}"))


class _Program:
    """Users that submit, wait and share, as a runtime does, and may be interrupted.

    Args:
      scheduler: of its threads.
      users: how many.
      steps: of each.
    """

    def __init__(self, scheduler: Scheduler, users: int, steps: int) -> None:
        self._scheduler, self._random, self._steps = scheduler, scheduler.random, steps
        for number in range(users):
            scheduler.start(functools.partial(self._use, number), f"user {number}")
        self._workers = _Workers(2, scheduler)
        self._streams = [Stream(mock.Mock(), name) for name in "ABC"]
        for stream in self._streams:
            self._workers.add(stream)
        self._submitting = _Lock(scheduler)
        self._cut_short = False
        self._ran: list[tuple[Stream, int]] = []  # in this order
        self._early: list[tuple[Stream, int]] = []  # of these, what did not wait

    def check(self) -> None:
        """Check that all is done, and was in order."""
        for stream in self._streams:
            assert self._workers.finished(stream) == stream.issued, "work was left"
            ticks = [tick for of, tick in self._ran if of is stream]
            assert ticks == sorted(set(ticks)), "work ran out of order"
        assert not self._early, "work did not wait"

    def _use(self, number: int) -> None:
        steps: list[Callable[[], None]] = [self._submit, self._submit_and_wait, self._share]
        for _ in range(self._steps):
            try:
                if number == 0 and self._random.random() < 0.5:
                    self._scheduler.countdown = self._random.randint(1, 60)
                self._random.choice(steps)()
            except KeyboardInterrupt:
                pass
            if number == 0:
                self._scheduler.countdown = 0
        self._submit()  # what an interrupt cut short is made right

    def _submit_and_wait(self) -> None:
        for stream, tick in self._submit():
            self._workers.wait(stream, tick)

    def _submit(self) -> list[tuple[Stream, int]]:
        with self._submitting:
            if self._cut_short:
                for stream in self._streams:
                    self._workers.enqueue(Item("interrupted", list, stream, stream.issued))
            self._cut_short = True
            for _ in range(self._random.randint(1, 3)):
                stream = self._random.choice(self._streams)
                others = [of for of in self._streams if of is not stream and of.issued]
                waits = tuple((of, of.issued) for of in others if self._random.random() < 0.4)
                stream.issued += 1
                run = functools.partial(self._run, stream, stream.issued, waits)
                self._workers.enqueue(Item("work", run, stream, stream.issued, waits))
            self._cut_short = False
            return [(stream, stream.issued) for stream in self._streams]

    def _run(self, stream: Stream, tick: int, waits: tuple[tuple[Stream, int], ...]) -> None:
        self._ran.append((stream, tick))
        if any(self._workers.finished(of) < last for of, last in waits):
            self._early.append((stream, tick))

    def _share(self) -> None:
        done: list[int] = []
        self._workers.share([functools.partial(done.append, part) for part in range(3)])
        assert sorted(done) == [0, 1, 2]


def run_schedule(seed: int, *, steps: int = 20) -> int:
    """Run a program on one schedule; return how many interrupts there were.

    Raises:
      AssertionError: somebody was not woken, or work ran too early, twice or never.
    """
    scheduler = Scheduler(seed)
    with mock.patch.object(workers, "closed_latch", lambda: _Lock(scheduler, taken=True)):
        program = _Program(scheduler, 2, steps)
        scheduler.run(2)
    program.check()
    return scheduler.interrupts
