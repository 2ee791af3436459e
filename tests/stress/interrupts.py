"""Real SIGINTs at random moments of random programs, on the main thread."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import itertools
import random
import signal
import types
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from gpushard._runtime.host import backend as host
from gpushard.errors import OutOfMemoryError
from gpushard.testing import runtime
from gpushard.testing.actor import ACTIONS, Actor, Known, ProgramState
from gpushard.testing.programs import check_nothing_left, random_shardings
from tests.stress.cases import CASES, bench_of, interrupt, visit

# An interrupt in NumPy's own str() makes it return "..." for that array from then on.
INTERRUPTED = [action for action in ACTIONS if action is not Actor._show]

SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"small_bytes": 0, "inline_bytes": 0},
    {"host_domains": 4, "small_bytes": 0, "inline_bytes": 0, "queue_limit": 2},
    {"host_domains": 8, "small_bytes": 0, "inline_bytes": 300, "memory_limit": 4000},
    {"host_domains": 2, "small_bytes": 100, "queue_limit": 1},
)


@dataclasses.dataclass
class Summary:
    """What a run did."""

    interrupts: int = 0
    steps: int = 0
    programs: int = 0


class _Alarm:
    """Raises KeyboardInterrupt in the main thread at random moments while it is armed.

    Callbacks of the collector, which test tools install, are left out meanwhile, and those of weak
    references are not interrupted: CPython forgets what is raised in them, or hands it to whoever
    keeps it with all that its frames hold.
    """

    def __init__(self, source: random.Random) -> None:
        self._random = source
        self.armed = False
        self.struck = 0

    def __enter__(self) -> _Alarm:
        self._before = signal.signal(signal.SIGALRM, self._strike)
        # Jobs in the background ignore it, and would wait for interrupts for ever.
        self._ctrl_c = signal.signal(signal.SIGINT, signal.default_int_handler)
        self._callbacks, gc.callbacks[:] = gc.callbacks[:], []
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)
        signal.signal(signal.SIGINT, self._ctrl_c)
        gc.callbacks[:] = self._callbacks

    def arm(self) -> None:
        """Let the next interrupt come within a millisecond or so."""
        self.armed = True
        seconds = self._random.choice((1e-5, 2e-4, 2e-3)) * (0.1 + self._random.random())
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def _strike(self, _: int, frame: types.FrameType | None) -> None:
        while frame is not None:
            if frame.f_code.co_filename == weakref.__file__:
                signal.setitimer(signal.ITIMER_REAL, 1e-5)
                return
            frame = frame.f_back
        if self.armed:
            self.armed = False
            self.struck += 1
            signal.raise_signal(signal.SIGINT)


def interrupt_for_real(count: int, seed: int) -> Summary:
    """Work on random programs, a seed each, and interrupt them `count` times.

    Raises:
      AssertionError: a value is wrong, or something is left at the end.
    """
    summary, source = Summary(), random.Random(seed)
    with _sharing_copies(), _Alarm(source) as alarm:
        share = -(-count // len(SETTINGS))
        for settings in SETTINGS:
            goal = min(count, summary.interrupts + share)
            with runtime(host_devices=8, host_workers=2, **settings) as rt:
                shardings = random_shardings(rt, source)
                while summary.interrupts < goal:
                    _program(ProgramState(source, shardings), source, alarm, summary, goal)
                check_nothing_left(rt)
    return summary


def _program(
    world: ProgramState, source: random.Random, alarm: _Alarm, summary: Summary, goal: int
) -> None:
    """Take steps, a few of them interrupted, and then read all arrays."""
    actor = Actor(world, random.Random(source.random()), steps=0)
    for _ in range(20):
        summary.steps += 1
        with contextlib.suppress(OutOfMemoryError):
            try:
                if summary.interrupts < goal and source.random() < 0.5:
                    alarm.arm()
                source.choice(INTERRUPTED)(actor)
                alarm.armed = False
            except KeyboardInterrupt:
                summary.interrupts += 1
                _forget_deleted(actor._mine, world.shared)
                _see_what_was_assigned(actor._mine, world.shared)
        alarm.armed = False
    actor.run()
    world.shared.clear()
    summary.programs += 1


def _forget_deleted(*several: list[Known]) -> None:
    """Forget arrays that were given up before the interrupt."""
    for known in several:
        known[:] = [each for each in known if not each.array.is_deleted()]


def _see_what_was_assigned(*several: list[Known]) -> None:
    """Take the new value of an array, if the interrupt came after the assignment had been done."""
    for known in itertools.chain(*several):
        if known.pending is not None and np.array_equal(np.asarray(known.array), known.pending):
            known.value = known.pending
        known.pending = None


@contextlib.contextmanager
def _sharing_copies() -> Iterator[None]:
    """Let threads share copies of any size."""
    before = host.SHARED_BYTES, host.PART_BYTES
    host.SHARED_BYTES, host.PART_BYTES = 0, 64
    try:
        yield
    finally:
        host.SHARED_BYTES, host.PART_BYTES = before


def interrupt_everywhere(twice: bool) -> int:
    """Interrupt every case at every place; return how many there were."""
    total = 0
    for case in CASES:
        with bench_of(case) as bench:
            at = 1
            while interrupt(case, bench, at, 1 + at % 13 if twice else None).raised:
                at += 1
        total += at - 1
        print(f"{case.name}: {at - 1} places", flush=True)
    return total


def visit_everywhere() -> int:
    """Let handlers and finalizers use the library in every case; return how often they did."""
    total = 0
    for case in CASES:
        if "memory_limit" in case.settings:
            continue
        with bench_of(case) as bench:
            handlers, refused = visit(case, bench, 1, finalizer=False)
            finalizers, _ = visit(case, bench, 1, finalizer=True)
        total += handlers + finalizers
        print(
            f"{case.name}: {handlers} handlers, {refused} of them refused, {finalizers} finalizers",
            flush=True,
        )
    return total
