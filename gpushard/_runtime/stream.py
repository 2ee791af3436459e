"""Streams and ticks: what orders all work.

A stream counts what it is given. A tick (stream, n) names the n-th item of a stream; memory
remembers the ticks that write and use it, and every question about order is answered with those
numbers.
"""

from __future__ import annotations

import bisect
import threading
from typing import Protocol, TypeAlias

Tick: TypeAlias = "tuple[Stream, int]"
Clock: TypeAlias = "dict[Stream, int]"


class Event(Protocol):
    """A point in a stream's work that can be asked for and waited for."""

    tick: int  # the last item that the event covers

    def query(self) -> bool:
        """Whether everything up to the tick has run."""

    def synchronize(self) -> None:
        """Wait, on the host, until it has."""


class Recorder(Protocol):
    """The part of a backend that makes events."""

    @property
    def exact(self) -> bool:
        """Whether an event can still be placed at a past item; if not, it is after the last one."""

    def record(self, stream: Stream, tick: int) -> Event:
        """Make an event that covers `tick`, which was queued.

        Its own tick is the last one that it covers: one that is queued already. `stream.issued` may
        name an item that another thread is about to queue.
        """


class Stream:
    """An in-order queue of work on one device or memory domain."""

    __slots__ = ("_events", "_lock", "_recorder", "done", "issued", "name", "seen")

    def __init__(self, recorder: Recorder, name: str) -> None:
        self.name = name
        self.issued = 0
        """How many items the stream was given."""
        self.done = 0
        """A tick that is known to have run, and with it all before."""
        self.seen: Clock = {}
        """For other streams, the tick that an item of this one has already waited for."""
        self._recorder = recorder
        self._events: list[Event] = []
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"Stream({self.name!r}, issued={self.issued}, done={self.done})"

    def finished(self, tick: int) -> bool:
        """Whether item `tick` has run. Never waits."""
        if tick <= self.done:
            return True
        event = self.event(tick)
        if not event.query():
            return False
        self.done = max(self.done, event.tick)
        return tick <= event.tick  # after an interrupt the item may be in no queue yet

    def synchronize(self, tick: int) -> None:
        """Wait, on the host, until item `tick` has run."""
        if tick > self.done:
            event = self.event(tick)
            event.synchronize()
            self.done = max(self.done, event.tick)

    def event(self, tick: int) -> Event:
        """Return the earliest event that covers `tick`, recording one only if there is none."""
        if self._recorder.exact:
            return self._recorder.record(self, tick)
        with self._lock:  # a finalizer on this thread may come here, too, between any two calls
            events = self._events
            if events and events[0].tick <= self.done:
                past = bisect.bisect_right(events, self.done, key=_tick_of)
                self._events = events = events[past:]
            if events and tick <= events[-1].tick:
                return events[bisect.bisect_left(events, tick, key=_tick_of)]
            event = self._recorder.record(self, tick)
            events.append(event)  # in order: whatever was recorded before covers no later item
            return event

    def covers(self, other: Stream, tick: int) -> bool:
        """Whether work given to this stream now runs after `tick` of `other` without a wait."""
        return other is self or tick <= self.seen.get(other, 0) or other.finished(tick)


def _tick_of(event: Event) -> int:
    return event.tick
