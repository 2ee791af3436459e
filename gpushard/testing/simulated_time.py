"""Simulate the time of recorded work on a topology: a fluid model, event by event. Pure.

Simultaneous flows share each resource max-min fairly: no flow can be faster without slowing down
one that is not faster. Progressive filling (water-filling) computes the rates. It raises all rates
together until a resource is full, fixes the rates of its flows, and continues with the rest; see D.
Bertsekas and R. Gallager, Data Networks, 2nd edition, section 6.5.2.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from gpushard._typing import IntArray
from gpushard.errors import ArgumentError
from gpushard.testing.topology import Pair, Topology

FloatArray = npt.NDArray[np.float64]

_CLOSE = 1e-9
"""Ends that differ by this part of a step are one event; such shares are one bottleneck."""


@dataclasses.dataclass(frozen=True)
class Work:
    """An item of work on a stream: the items that it waits for, and the bytes that it copies."""

    stream: Hashable
    """The stream that runs the item; a stream runs its items in order."""

    tick: int
    """The place of the item in the stream; the items of a stream have ascending ticks."""

    waits: tuple[tuple[Hashable, int], ...] = ()
    """A (stream, tick) for each item that must have ended before this one starts. Items that are
    not in the work count as ended.
    """

    flows: Mapping[Pair, int] = dataclasses.field(default_factory=dict)
    """The bytes that the item copies for each (source domain, destination domain), all at once."""


@dataclasses.dataclass(frozen=True)
class Timeline:
    """Start and end of each item of work, in seconds from the start of the first item."""

    start: tuple[float, ...]
    """The time at which all items that an item waits for have ended. Its first byte moves a latency
    later.
    """

    end: tuple[float, ...]
    """The time at which the last flow of an item has ended."""

    @property
    def makespan(self) -> float:
        """The time at which all work has ended, in seconds."""
        return max(self.end, default=0.0)


def simulate(work: Sequence[Work], topology: Topology) -> Timeline:
    """Simulate work on a topology.

    An item starts once the previous item in its stream and all items that it waits for have ended.
    After a latency, its flows start, all together, and it ends with the last of them. Flows share
    resources max-min fairly, by progressive filling (see the module).

    Args:
      work: the items, in any order across streams, but in order within each stream.
      topology: the machine.

    Returns:
      Start and end of each item, in the order of `work`; `makespan` is the total time.

    Raises:
      ArgumentError: the domain of a flow is not in the topology, or items wait for one another.

    >>> from gpushard.testing.topology import nvlink
    >>> copy = Work("copy", 1, flows={(0, 1): 450_000_000})
    >>> round(simulate([copy], nvlink(2)).makespan * 1e6)  # 1,000 us at 450 GB/s, 10 us latency
    1010
    """
    _check_domains(work, topology)
    return _Run(work, topology).run()


class _Run:
    """The state of one simulation."""

    def __init__(self, work: Sequence[Work], topology: Topology) -> None:
        self._latency = topology.latency
        self._capacity = topology.capacity
        links = [(item, *pair, n) for item, w in enumerate(work) for pair, n in w.flows.items()]
        item, source, destination, nbytes = np.array(links or np.empty((0, 4)), np.int64).T
        self._item: IntArray = item
        self._routes: IntArray = topology.table[source, destination]
        self._left: FloatArray = nbytes.astype(np.float64)
        self._active: IntArray = np.empty(0, np.int64)
        self._flows = np.split(np.arange(len(item)), np.searchsorted(item, range(1, len(work))))
        self._unfinished = [len(flows) for flows in self._flows]
        needs = _predecessors(work)
        self._missing = [len(before) for before in needs]
        self._dependents: list[list[int]] = [[] for _ in work]
        for index, before in enumerate(needs):
            for other in before:
                self._dependents[other].append(index)
        self._start = [0.0] * len(work)
        self._end = [-1.0] * len(work)
        self._launched: list[tuple[float, int]] = []

    def run(self) -> Timeline:
        """Advance from event to event: an item's flows begin, or flows end."""
        now = 0.0
        for index, missing in enumerate(self._missing):
            if not missing:
                self._begin(index, now)
        while self._launched or len(self._active):
            now = self._step(now)
        stuck = [index for index, end in enumerate(self._end) if end < 0]
        if stuck:
            raise ArgumentError(f"items {stuck} of the work wait for one another", argument="work")
        return Timeline(tuple(self._start), tuple(self._end))

    def _step(self, now: float) -> float:
        routes, left = self._routes[self._active], self._left[self._active]
        rate = max_min(routes, self._capacity)
        begins = self._launched[0][0] if self._launched else np.inf
        step = float((left / rate).min(initial=np.inf))
        over = left <= rate * step * (1 + _CLOSE)
        if begins < now + step:
            step, over = begins - now, np.zeros(len(left), bool)
        self._left[self._active] = left - rate * step
        ended, self._active = self._active[over], self._active[~over]
        now = min(begins, now + step)
        while self._launched and self._launched[0][0] <= now:
            self._add_flows(heapq.heappop(self._launched)[1], now)
        for index in self._item[ended].tolist():
            self._unfinished[index] -= 1
            if not self._unfinished[index]:
                self._finish(index, now)
        return now

    def _begin(self, index: int, now: float) -> None:
        self._start[index] = now
        heapq.heappush(self._launched, (now + self._latency, index))

    def _add_flows(self, index: int, now: float) -> None:
        self._active = np.concatenate((self._active, self._flows[index]))
        if not self._unfinished[index]:
            self._finish(index, now)

    def _finish(self, index: int, now: float) -> None:
        self._end[index] = now
        for other in self._dependents[index]:
            self._missing[other] -= 1
            if not self._missing[other]:
                self._begin(other, now)


def max_min(routes: IntArray, capacity: FloatArray) -> FloatArray:
    """Return the max-min fair rates of flows, by progressive filling.

    Args:
      routes: numbers of the resources that each flow occupies, shape (flows, n).
      capacity: capacity of each resource; a route may be padded with a resource of infinite
        capacity.

    Returns:
      The rate of each flow.

    >>> max_min(np.array([[0, 2], [0, 1], [1, 2]]), np.array([1.0, 2.0, np.inf])).tolist()
    [0.5, 0.5, 1.5]
    """
    rate = np.empty(len(routes))
    left, rising = capacity.copy(), np.arange(len(routes))
    while len(rising):
        users = np.bincount(routes[rising].ravel(), minlength=len(left))
        share = np.divide(left, users, out=np.full(len(left), np.inf), where=users > 0)
        level = share.min()
        full = share <= level * (1 + _CLOSE)
        fixed = full[routes[rising]].any(axis=1)
        rate[rising[fixed]] = level
        left -= level * np.bincount(routes[rising[fixed]].ravel(), minlength=len(left))
        rising = rising[~fixed]
    return rate


def _predecessors(work: Sequence[Work]) -> list[set[int]]:
    """Return the items that each item waits for: the previous one in its stream, and its waits."""
    streams: dict[Hashable, list[int]] = {}
    for index, item in enumerate(work):
        streams.setdefault(item.stream, []).append(index)
    before_each: list[set[int]] = [set() for _ in work]
    for line in streams.values():
        for before, after in itertools.pairwise(line):
            before_each[after].add(before)
    for index, item in enumerate(work):
        for stream, tick in item.waits:
            covered = [other for other in streams.get(stream, ()) if work[other].tick <= tick]
            before_each[index].update(covered[-1:])
    return before_each


def _check_domains(work: Sequence[Work], topology: Topology) -> None:
    for item in work:
        for pair in item.flows:
            if not all(0 <= domain < topology.domains for domain in pair):
                raise ArgumentError(
                    f"the work copies {pair[0]} -> {pair[1]}; {topology.name} has domains 0 to "
                    f"{topology.domains - 1}",
                    argument="work",
                )
