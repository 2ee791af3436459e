"""Virtual time: when items would run on the machine of a topology."""

from __future__ import annotations

from collections import Counter

from gpushard.runtime.backend import Item
from gpushard.runtime.stream import Stream, Tick
from gpushard.testing.topology import Pair, Topology


class Timing:
    """The clocks of streams.

    An item starts when the one before it in its stream and all that it waits for have ended, and
    takes the time of its busiest resource. That others use the same resources meanwhile is left
    out; `gpushard.testing.simulate` counts it.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.now = 0.0
        """When all that has run had ended, in virtual seconds."""
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
