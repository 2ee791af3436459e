"""Find races: a backend around another one, which checks all uses of memory.

The checker works out the order of work from the calls that it sees. These are items with their
waits, and events that the host has seen finished. It does not read the ticks of streams or the
clocks of memory, so it finds mistakes in those even if all values are right. The order is kept in
vector clocks (Mattern, 1989).

An example: item 1 of stream A writes a buffer, and item 1 of stream B reads it. If the item of B
waits for tick 1 of A, its clock is {A: 1, B: 1}. The write at A: 1 comes before that. If it waits
for nothing, and the host has not seen the write finished, its clock is {B: 1}. Then nothing orders
the write and the read: a race, even if the write happens to be done when the read runs.
"""

from __future__ import annotations

import bisect
import copy
import functools
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._runtime.backend import Backend, Claiming, Committing, Memories, Tasks
from gpushard._runtime.checking.shadow import Access, Shadow, caller_place, raise_to
from gpushard._runtime.claims import Claim
from gpushard._runtime.copy_phase import BoxCopy, Message, Phase
from gpushard._runtime.item import Item
from gpushard._runtime.memory import Memory
from gpushard._runtime.stream import Clock, Event, Stream, Tick
from gpushard._runtime.work_sharing import Pace
from gpushard._typing import HostArray, LocalArray, LocalArrays
from gpushard.errors import RaceError


class Checker:
    """Passes all calls on to a backend, and raises `RaceError` if two uses of memory race.

    Calls that use no memory go to the methods of the backend directly.
    """

    listens = True

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.checks = 0  # number of uses of memory that were checked
        self._mutex = threading.RLock()
        self._inside = threading.local()
        self.reset()

    def reset(self) -> None:
        """Forget everything, as if nothing had been submitted."""
        self.races: list[str] = []
        """Texts of all races. If a race stops an item, only its readers get the error."""
        self._host: Clock = {}  # the work that the host knows to be finished
        self._last: dict[Stream, Clock] = {}  # clock of the last item of each stream
        self._clocks: dict[Tick, Clock] = {}  # clocks of items that may be unfinished
        self._shadows: dict[int, Shadow] = {}  # by id of the raw buffer
        self._starts: list[tuple[int, int]] = []  # (address, id), ascending

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)

    def serve(self, claim: Claiming, borrow: Claiming, commit: Committing) -> None:
        """Follow memory that libraries allocate, as written by the item that needs it."""
        watched, lent = (functools.partial(self._claim, each) for each in (claim, borrow))
        self.backend.serve(watched, lent, commit)

    def _claim(self, claim: Callable[[Stream, int], Claim], stream: Stream, nbytes: int) -> Claim:
        result = claim(stream, nbytes)
        memory, item = result.memory, getattr(self._inside, "item", None)
        tick, name = (stream.issued, "the caller") if item is None else (item.tick, repr(item.name))
        with self._mutex:
            if item is None:
                clock = self._last.setdefault(stream, dict(self._host))
            else:
                clock = self._clocks[stream, tick]
            raise_to(clock, self._join(tuple(memory.clock())))  # from now on the stream waits
            access = Access(stream, f"memory that {name} needs", tick)
            shadow = self._use_memory(memory, access)
            if shadow is not None:
                self._check_write(shadow, clock, access, "is overwritten")
                self._check_reads(shadow, clock, access)
                shadow.wrote(access)
            if item is not None:
                item.writes = (*item.writes, memory)
        return result

    def allocate(self, domain: int, nbytes: int) -> Any:
        """Allocate a raw buffer, and follow its uses."""
        raw = self.backend.allocate(domain, nbytes)
        start = self.backend.address(self.backend.view(raw, (nbytes,), np.uint8))
        with self._mutex:
            self._follow(Shadow(raw, start, start + nbytes))
        return raw

    def free(self, raw: Any) -> None:
        """Check that no work uses a buffer, and free it."""
        with self._mutex:
            shadow = self._shadows.get(id(raw))
            if shadow is not None:
                for access in shadow.accesses():
                    self._check(access.before(self._host), "is given back to the system", access)
                self._forget(shadow)
        self.backend.free(raw)

    def released(self, raw: Any, ticks: Sequence[Tick]) -> None:
        """Check that waiting for the ticks is waiting for all uses of a buffer."""
        with self._mutex:
            shadow = self._shadows.get(id(raw))
            if shadow is not None:
                clock = self._join(ticks)
                for access in shadow.accesses():
                    self._check(access.before(clock), "is released without its tick", access)
                lent = shadow.lent()
                self._check(lent is None, "is released while the host may still read it", lent)
                shadow.owner, shadow.free = None, True
        self.backend.released(raw, ticks)

    def taken(self, raw: Any) -> None:
        """Note that a buffer has a new owner."""
        with self._mutex:
            shadow = self._shadows.get(id(raw))
            if shadow is not None:
                shadow.owner, shadow.free = None, False
        self.backend.taken(raw)

    def enqueue(self, item: Item) -> None:
        """Check the reads and writes of an item against all work that it does not wait for."""
        with self._mutex:
            clock = dict(self._last.get(item.stream, self._host))
            for known in (self._host, self._join(item.waits)):
                raise_to(clock, known)
            clock[item.stream] = item.tick
            access = Access(item.stream, f"{item.name!r} {caller_place()}", item.tick, item.part)
            for memory in item.reads:
                shadow = self._use_memory(memory, access)
                if shadow is not None:
                    self._check_parts(shadow, clock, access, item.until.get(memory))
                    shadow.reads.append(access)
            for memory in item.writes:
                shadow = self._use_memory(memory, access)
                if shadow is not None:
                    self._check_write(shadow, clock, access, "is overwritten")
                    self._check_reads(shadow, clock, access)
                    shadow.wrote(access)
            self._last[item.stream] = self._clocks[item.stream, item.tick] = clock
            declared = copy.copy(item)  # an item that refers to itself would be a reference cycle
            item.run = functools.partial(self._run, declared)
        self.backend.enqueue(item)

    def record(self, stream: Stream, tick: int) -> Event:
        """Record an event, and learn from it when the host sees it finished.

        Inside an item, the event also orders the uses of memory that a library has released so far.
        """
        event = self.backend.record(stream, tick)
        item: Item | None = getattr(self._inside, "item", None)
        if item is None or item.stream is not stream:
            return CheckedEvent(self.learn, event, stream)
        with self._mutex:
            dropped = [(shadow, shadow.write) for shadow in self._shadows.values() if shadow.free]
        over = [(s, w) for s, w in dropped if w is not None and w.is_of(item.stream, item.tick)]
        return CheckedEvent(functools.partial(self._learn_within, over), event, stream)

    def _learn_within(
        self, over: Sequence[tuple[Shadow, Access]], stream: Stream, tick: int
    ) -> None:
        """Remember that the host has seen `tick` finished, and released uses of the next item."""
        self.learn(stream, tick)
        with self._mutex:
            for shadow, access in over:
                if shadow.write is access:
                    shadow.write = shadow.whole = None
                    shadow.reads = []

    def learn(self, stream: Stream, tick: int) -> None:
        """Remember that the host has seen `tick` of `stream` finished."""
        with self._mutex:
            known = self._host.get(stream, 0)
            if tick > known:
                for n in range(known + 1, tick + 1):
                    raise_to(self._host, self._clocks.pop((stream, n), {}))
                self._host[stream] = tick

    def copy_phase(self, phase: Phase, operands: LocalArrays, domain: int) -> None:
        """Check and copy the boxes of a phase."""
        self.copy_boxes(phase.copies(operands), domain)

    def copy_boxes(self, copies: Sequence[BoxCopy], domain: int) -> None:
        """Check the uses of memory, then copy boxes."""
        run = functools.partial(self.backend.copy_boxes, copies, domain)
        self._use([source for _, source, _ in copies], [target for target, _, _ in copies], run)

    def exchange(self, messages: Sequence[Message]) -> None:
        """Check that streams have declared both ends of messages, then send them."""
        with self._mutex:
            for message in messages:
                self._check_end(message.source, message.sender, "is sent", writes=False)
                self._check_end(message.target, message.receiver, "is received", writes=True)
        self.backend.exchange(messages)

    def _check_end(self, array: LocalArray, stream: Stream, what: str, *, writes: bool) -> None:
        """Check that an item of a stream has declared that it writes, or reads, a buffer."""
        shadow = self._find(array)
        if shadow is None:
            return
        last = shadow.write
        declared = last is not None and last.stream is stream
        if not writes:
            declared = declared or any(read.stream is stream for read in shadow.reads)
        access = Access(stream, f"a message {caller_place()}", stream.issued)
        self._check(declared, f"{what} without being declared", access)

    def fill_boxes(self, targets: LocalArrays, value: np.generic, domain: int) -> None:
        """Check the uses of memory, then fill boxes."""
        self._use([], targets, functools.partial(self.backend.fill_boxes, targets, value, domain))

    def _use(self, sources: LocalArrays, targets: LocalArrays, run: Callable[[], None]) -> None:
        """Check uses of memory by the host, or by an item against its declarations, and run."""
        with self._mutex:
            reads = {id(s): s for array in sources if (s := self._find(array)) is not None}
            writes = {id(s): s for array in targets if (s := self._find(array)) is not None}
        self._watch(reads, writes, run)

    def run_now(self, calls: Tasks, reads: Memories, writes: Memories, pace: Pace) -> None:
        """Check the uses of memory by work of the host, then run it."""
        with self._mutex:
            sources, targets = self._shadows_of(reads), self._shadows_of(writes)
        run = functools.partial(self.backend.run_now, calls, reads, writes, pace)
        self._watch(sources, targets, run)

    def _shadows_of(self, memories: Sequence[Memory]) -> dict[int, Shadow]:
        shadows = {id(memory.raw): self._shadows.get(id(memory.raw)) for memory in memories}
        return {name: shadow for name, shadow in shadows.items() if shadow is not None}

    def _watch(
        self, reads: dict[int, Shadow], writes: dict[int, Shadow], run: Callable[[], None]
    ) -> None:
        """Check a use of buffers, and follow it while it lasts."""
        item: Item | None = getattr(self._inside, "item", None)
        with self._mutex:
            if item is not None:
                self._check_declared(item, reads, writes)
            else:
                access = Access(None, f"the host {caller_place()}")
                self._check_host(access, reads, writes)
                for shadow in (*reads.values(), *writes.values()):
                    shadow.hosts.append(access)
        try:
            run()
        finally:
            if item is None:
                with self._mutex:
                    for shadow in (*reads.values(), *writes.values()):
                        shadow.hosts.remove(access)

    def host_view(self, array: LocalArray, owner: Any) -> HostArray:
        """Lend memory to the host, and follow the loan."""
        view = self.backend.host_view(array, owner)
        with self._mutex:
            shadow = self._find(array)
            if shadow is not None:
                access = Access(None, f"the host {caller_place()}")
                shadow.lend(view, access)
        return view

    def _run(self, item: Item) -> None:
        self._inside.item = item
        try:
            item.run()
        finally:
            self._inside.item = None

    def _check_host(
        self, access: Access, reads: dict[int, Shadow], writes: dict[int, Shadow]
    ) -> None:
        for shadow in reads.values():
            self._check(not shadow.free, "is used after its release", access)
            self._check_write(shadow, self._host, access, "is read")
        for shadow in writes.values():
            self._check(not shadow.free, "is used after its release", access)
            self._check_write(shadow, self._host, access, "is overwritten")
            self._check_reads(shadow, self._host, access)

    def _check_declared(
        self, item: Item, reads: dict[int, Shadow], writes: dict[int, Shadow]
    ) -> None:
        written = {id(memory.raw) for memory in item.writes}
        known = written | {id(memory.raw) for memory in item.reads}
        access = Access(item.stream, f"{item.name!r}", item.tick, item.part)
        for shadow in writes.values():
            self._check(id(shadow.raw) in written, "is written without being declared", access)
        for shadow in reads.values():  # memory on loan may come back as borrowed memory
            declared = id(shadow.raw) in known or shadow.on_loan() is not None
            self._check(declared, "is read without being declared", access)

    def _check_write(self, shadow: Shadow, clock: Clock, access: Access, what: str) -> None:
        self.checks += 1
        if shadow.write is not None:
            self._check(shadow.write.before(clock), what, access, shadow.write)

    def _check_parts(self, shadow: Shadow, clock: Clock, access: Access, until: int | None) -> None:
        """Check a read of the whole buffer, or of the parts written up to a tick."""
        first, last = shadow.whole, shadow.write
        if (
            until is None
            or first is None
            or last is None
            or last.stream is None
            or last.stream is not first.stream
            or not first.tick <= until <= last.tick
        ):
            self._check_write(shadow, clock, access, "is read")
            return
        self.checks += 1
        self._check(until <= clock.get(last.stream, 0), "is read", access, last)

    def _check_reads(self, shadow: Shadow, clock: Clock, access: Access) -> None:
        for read in shadow.reads:
            apart = 0 < access.part > read.part and shadow.extends(access)
            self._check(apart or read.before(clock), "is overwritten", access, read)
        lent = shadow.lent()  # to the host, or to another library
        self._check(lent is None, "is overwritten", access, lent)

    def _use_memory(self, memory: Memory, access: Access) -> Shadow | None:
        shadow = self._shadows.get(id(memory.raw))
        if shadow is not None:
            stale = shadow.free or shadow.owner not in (None, memory)
            self._check(not stale, "is used after its release", access)
            shadow.owner = memory
        return shadow

    def _check(
        self, fine: bool, what: str, access: Access | None, other: Access | None = None
    ) -> None:
        if fine:
            return
        after = "" if other is None else f", which is not known to come after {other.place}"
        race = (
            f"memory {what} by {access.place if access else 'nobody'}{after}. This is a defect of "
            "whatever submitted the work"
        )
        self.races.append(race)
        raise RaceError(
            race,
            first=None if other is None else other.place,
            second=None if access is None else access.place,
        )

    def _join(self, ticks: Sequence[Tick]) -> Clock:
        """Return the clock of work that waits for ticks and for all that the host knows."""
        clock = dict(self._host)
        for stream, tick in ticks:
            raise_to(clock, self._clocks.get((stream, tick), {}))
            clock[stream] = max(tick, clock.get(stream, 0))
        return clock

    def _find(self, array: LocalArray) -> Shadow | None:
        """Find the shadow of the buffer in which an array lies; None if it is not followed."""
        if isinstance(array, np.generic) or not array.nbytes:
            return None  # a scalar of the host, or no elements
        address = self.backend.address(array)
        shadow = self._at_or_before(address)
        return shadow if shadow is not None and address < shadow.stop else None

    def _at_or_before(self, address: int) -> Shadow | None:
        """Find the last shadow that starts at or before an address."""
        at = bisect.bisect_right(self._starts, (address, sys.maxsize)) - 1
        return self._shadows[self._starts[at][1]] if at >= 0 else None

    def _follow(self, shadow: Shadow) -> None:
        """Begin to follow a new buffer; buffers at the same addresses were freed without a call."""
        while (before := self._at_or_before(shadow.stop - 1)) and shadow.start < before.stop:
            self._forget(before)
        self._shadows[id(shadow.raw)] = shadow
        bisect.insort(self._starts, (shadow.start, id(shadow.raw)))

    def _forget(self, shadow: Shadow) -> None:
        self._starts.remove((shadow.start, id(shadow.raw)))
        del self._shadows[id(shadow.raw)]


class CheckedEvent:
    """An event that calls `learn` with its stream and tick when the host sees it finished."""

    __slots__ = ("_event", "_learn", "_stream", "tick")

    def __init__(self, learn: Callable[[Stream, int], None], event: Event, stream: Stream) -> None:
        self._learn = learn
        self._event = event
        self._stream = stream
        self.tick = event.tick

    def __getattr__(self, name: str) -> Any:
        return getattr(self._event, name)

    def query(self) -> bool:
        """Whether the event has occurred."""
        over = self._event.query()
        if over:
            self._learn(self._stream, self.tick)
        return over

    def synchronize(self) -> None:
        """Wait for the event."""
        self._event.synchronize()
        self._learn(self._stream, self.tick)
