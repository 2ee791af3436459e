"""Queues of items that run when somebody must wait, in an order that a seed chooses; their time."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable

from gpushard.runtime.backend import Item
from gpushard.runtime.stream import Stream, Tick
from gpushard.testing.topology import Pair, Topology


class StuckError(Exception):
    """Somebody waits for a tick that can never run."""


class Schedule:
    """The queues of all streams, and what has run.

    Whoever waits for a tick makes the queues go on, in one of four ways: no further than the tick
    needs; any stream that may; first all that the tick does not need; or, where there is a
    topology, what would start first on its machine.

    Args:
      source: makes the choices.
      progress: probability that an item runs when the host does something else.
      after_item: called after each item.
      timing: keeps virtual time; None for none.
    """

    def __init__(
        self,
        source: random.Random,
        progress: float,
        after_item: Callable[[Item], None],
        timing: Timing | None = None,
    ) -> None:
        self._random = source
        self._timing = timing
        self._ways = [self._needed, self._any, self._others_first]
        if timing is not None:
            self._ways += [self._earliest] * 2
        self._progress = progress
        self._after_item = after_item
        self._queues: dict[Stream, deque[Item]] = {}
        self._finished: dict[Stream, int] = {}
        self._busy: list[Stream] = []  # with something in the queue
        self.running = False
        """Whether an item is at work at this moment."""

    def add(self, stream: Stream) -> None:
        """Make a queue."""
        self._queues[stream] = deque()
        self._finished[stream] = 0

    def append(self, item: Item) -> None:
        """Queue an item."""
        queue = self._queues[item.stream]
        if not queue:
            self._busy.append(item.stream)
        queue.append(item)

    def finished(self, stream: Stream) -> int:
        """Return the last tick that has run."""
        return self._finished[stream]

    def last(self, stream: Stream) -> int:
        """Return the last tick that was queued."""
        queue = self._queues[stream]
        return queue[-1].tick if queue else self._finished[stream]

    def pass_time(self) -> None:
        """Perhaps run an item or a few."""
        while self._busy and self._random.random() < self._progress:
            runnable = [stream for stream in self._busy if self._runnable(stream)]
            if not runnable:
                return
            self._run_head(self._random.choice(runnable))

    def run_until(self, stream: Stream, tick: int) -> None:
        """Run items until `tick` of `stream` has run.

        Raises:
          StuckError: it can never run.
        """
        if self._finished[stream] >= tick:
            return
        choose = self._random.choice(self._ways)
        while self._finished[stream] < tick:
            self._run_head(choose(stream, tick))

    def run_all(self) -> None:
        """Run everything."""
        while self._busy:
            self._run_head(self._any(self._busy[0], self._finished[self._busy[0]] + 1))

    def _runnable(self, stream: Stream) -> bool:
        return all(self._finished[s] >= n for s, n in self._queues[stream][0].waits)

    def _needed(self, stream: Stream, tick: int) -> Stream:
        """Return a stream whose head `tick` of `stream` cannot do without."""
        for _ in range(len(self._queues) + 1):
            if not self._queues[stream]:
                break
            missing = [
                other for other, n in self._queues[stream][0].waits if self._finished[other] < n
            ]
            if not missing:
                return stream
            stream = self._random.choice(missing)
        raise StuckError(f"{stream!r} never gets to a tick that is waited for")

    def _any(self, stream: Stream, tick: int) -> Stream:
        runnable = [other for other in self._busy if self._runnable(other)]
        return self._random.choice(runnable) if runnable else self._needed(stream, tick)

    def _others_first(self, stream: Stream, tick: int) -> Stream:
        needed = self._closure(stream)
        others = [other for other in self._busy if other not in needed and self._runnable(other)]
        return self._random.choice(others) if others else self._needed(stream, tick)

    def _earliest(self, stream: Stream, tick: int) -> Stream:
        runnable = [other for other in self._busy if self._runnable(other)]
        if not runnable or self._timing is None:
            return self._needed(stream, tick)
        starts = [(self._timing.start(self._queues[other][0]), other) for other in runnable]
        first = min(start for start, _ in starts)
        return self._random.choice([other for start, other in starts if start == first])

    def _closure(self, stream: Stream) -> set[Stream]:
        """Return the streams that the head of `stream` waits for, and those that they wait for."""
        closure, left = {stream}, [stream]
        while left:
            queue = self._queues[left.pop()]
            for other, n in queue[0].waits if queue else ():
                if other not in closure and self._finished[other] < n:
                    closure.add(other)
                    left.append(other)
        return closure

    def _run_head(self, stream: Stream) -> None:
        queue = self._queues[stream]
        item = queue.popleft()
        if not queue:
            self._busy.remove(stream)
        self.running = True
        if self._timing is not None:
            self._timing.begin()
        item.execute()
        if self._timing is not None:
            self._timing.end(item)
        self.running = False
        self._finished[stream] = max(item.tick, self._finished[stream])
        self._after_item(item)


class Timing:
    """The clocks of streams.

    An item starts when the one before it in its stream and all that it waits for have ended, and
    takes the time of its busiest resource. That others use the same resources meanwhile is left
    out; `gpushard.testing.simulate` counts it.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.now = 0.0  # when all that has run had ended, in virtual seconds
        self._clocks: dict[Stream, float] = {}
        self._ends: dict[Tick, float] = {}
        self._moved: Counter[Pair] = Counter()

    def start(self, item: Item) -> float:
        """Return when an item would start, in virtual seconds."""
        ends = [self._ends.get(tick, 0.0) for tick in item.waits]
        return max(self._clocks.get(item.stream, 0.0), *ends, 0.0)

    def begin(self) -> None:
        """Note that an item begins."""
        self._moved.clear()

    def moved(self, link: Pair, nbytes: int) -> None:
        """Note that it copies."""
        self._moved[link] += nbytes

    def end(self, item: Item) -> None:
        """Note that it has ended."""
        use: Counter[str] = Counter()
        for link, nbytes in self._moved.items():
            for resource in self.topology.routes.get(link, ()):  # from the host there is none
                use[resource] += nbytes
        seconds = max((use[name] / self.topology.bandwidth[name] for name in use), default=0.0)
        end = self.start(item) + self.topology.latency + seconds
        self._clocks[item.stream] = self._ends[item.stream, item.tick] = end
        self.now = max(self.now, end)
