"""Queues of items that run when a caller must wait, in an order that a seed chooses."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable

from gpushard._runtime.item import Item
from gpushard._runtime.stream import Stream, Tick
from gpushard.testing.topology import Pair, Topology


class StuckError(Exception):
    """A caller waits for a tick that can never run."""


class Schedule:
    """The queues of all streams, and the items that have run.

    A wait for a tick runs the queues in one of four ways: only the items that the tick needs; any
    stream that can run; first all items that the tick does not need; or, with a topology, the item
    that would start first on its machine.

    Args:
      source: makes the choices.
      progress: probability that an item runs when the host does other work.
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
        self._busy: list[Stream] = []  # streams with items in the queue
        self.running = False
        """Whether an item is running at this moment."""

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
        """Maybe run an item or a few."""
        while self._busy and self._random.random() < self._progress:
            runnable = [stream for stream in self._busy if self._runnable(stream)]
            if not runnable:
                return
            self._run_head(self._random.choice(runnable))

    def run_until(self, stream: Stream, tick: int) -> None:
        """Run items until `tick` of `stream` has run.

        Raises:
          StuckError: the tick can never run.
        """
        if self._finished[stream] >= tick:
            return
        choose = self._random.choice(self._ways)
        while self._finished[stream] < tick:
            self._run_head(choose(stream, tick))

    def run_all(self) -> None:
        """Run all items."""
        while self._busy:
            self._run_head(self._any(self._busy[0], self._finished[self._busy[0]] + 1))

    def _runnable(self, stream: Stream) -> bool:
        return all(self._finished[s] >= n for s, n in self._queues[stream][0].waits)

    def _needed(self, stream: Stream, tick: int) -> Stream:
        """Return a stream with a runnable head that `tick` of `stream` needs."""
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
        """Return the streams that the head of `stream` waits for, directly or indirectly."""
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

    An item starts when the previous item in its stream and all items that it waits for have ended.
    It takes the time of its busiest resource. Unlike `gpushard.testing.simulate`, items do not slow
    down each other.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.now = 0.0  # the end of all items that have run, in virtual seconds
        self._clocks: dict[Stream, float] = {}
        self._ends: dict[Tick, float] = {}
        self._moved: Counter[Pair] = Counter()

    def start(self, item: Item) -> float:
        """Return when an item would start, in virtual seconds."""
        ends = [self._ends.get(tick, 0.0) for tick in item.waits]
        return max(self._clocks.get(item.stream, 0.0), *ends, 0.0)

    def begin(self) -> None:
        """Record that an item begins."""
        self._moved.clear()

    def moved(self, link: Pair, nbytes: int) -> None:
        """Record that the item copies."""
        self._moved[link] += nbytes

    def end(self, item: Item) -> None:
        """Record that the item has ended."""
        use: Counter[str] = Counter()
        for link, nbytes in self._moved.items():
            for resource in self.topology.routes.get(link, ()):  # links from the host have no route
                use[resource] += nbytes
        seconds = max((use[name] / self.topology.bandwidth[name] for name in use), default=0.0)
        end = self.start(item) + self.topology.latency + seconds
        self._clocks[item.stream] = self._ends[item.stream, item.tick] = end
        self.now = max(self.now, end)
