"""Copies through page-locked host memory: to and from the host, and where a domain cannot read.

What is copied is cut into chunks that fit into slots of the domain's ring. A slot is memory like
any other: whoever takes it waits for those who used it, so that the next chunk is copied while the
one before is still on its way. At most a quarter of a ring is one chunk.

What a step reads and its domain cannot reach is packed by the domain that has it, and read in page-
locked memory by the one that wants it. A few slots of its ring take turns, so that both work.
"""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.tiling import Tiling
from gpushard._movement.buffer import Operands
from gpushard._movement.plan import Plan, Step
from gpushard._movement.sharding_devices import devices_of
from gpushard._runtime.backend import HOST_DOMAIN
from gpushard._runtime.chunks import LEAST_SLOT, Move, bytes_of, chunks, lay_out
from gpushard._runtime.claims import Claim
from gpushard._runtime.copy_phase import BoxCopy, Phase
from gpushard._runtime.memory import Memory
from gpushard._runtime.memory_domain import Domain
from gpushard._runtime.pool import NoRoomError, Room
from gpushard._runtime.runtime import Runtime
from gpushard._runtime.stream import Stream
from gpushard._typing import HostArray

PARTS_PER_STEP = 1 << 20  # more than the parts in which one step is written
IN_FLIGHT = 2  # how many chunks of each domain are on their way while the host copies another one


def chunk_bytes(runtime: Runtime) -> int:
    """Return the bytes of the largest slot: a power of two, four of which fit into a ring."""
    return 1 << (runtime.settings.pinned_bytes // 4).bit_length() - 1


def slot_in(domain: Domain, nbytes: int, stream: Stream | None) -> Room:
    """Return page-locked room for copies between a domain and the host.

    Sizes are rounded up to powers of two, so that every slot fits many.
    """
    return Room(domain.ring, (), max(LEAST_SLOT, 1 << (nbytes - 1).bit_length()), stream)


def submit_copies(
    runtime: Runtime,
    stream: Stream,
    name: str,
    copies: Sequence[BoxCopy],
    domain: int,
    reads: Sequence[Memory],
    writes: Sequence[Memory],
    *,
    part: int = 0,
    until: Mapping[Memory, int] | None = None,
) -> int:
    """Give a stream copies of boxes, or none, and only the wait for its turn; inside `commit`."""
    run = functools.partial(runtime.backend.copy_boxes, copies, domain)
    return runtime.submit(stream, name, run, reads, writes, part=part, until=until or {})


def stage_in(runtime: Runtime, domain: Domain, moves: Sequence[Move[Memory]]) -> None:
    """Copy host data to memory that streams write; returns when all of it was read.

    Moves are tagged with the memory of each target, which `domain.feed` has begun to write.
    """
    pinned = domain.memories["pinned_host"].index
    for group in chunks(moves, chunk_bytes(runtime)):
        slot = _take(runtime, domain, bytes_of(group))
        if slot is None:
            _copy_in_at_once(runtime, domain, group)
            continue
        slot.memory.wait_idle()
        boxes = boxes_in(runtime, slot, group)
        to_slot = [(box, m.source, HOST_DOMAIN) for box, m in zip(boxes, group, strict=True)]
        runtime.backend.copy_boxes(to_slot, pinned)
        runtime.commit(functools.partial(_feed, runtime, domain, slot, boxes, group), [domain.feed])


def _feed(
    runtime: Runtime, domain: Domain, slot: Claim, boxes: list[HostArray], group: list[Move[Memory]]
) -> None:
    pinned = domain.memories["pinned_host"].index
    copies = [(move.target, box, pinned) for box, move in zip(boxes, group, strict=True)]
    writes = _distinct(group)
    submit_copies(
        runtime, domain.feed, "copy from host", copies, domain.index, [slot.memory], writes, part=1
    )


def _copy_in_at_once(runtime: Runtime, domain: Domain, group: list[Move[Memory]]) -> None:
    """Copy while others have all slots."""
    for memory in _distinct(group):
        memory.wait_idle()
    copies = [(move.target, move.source, HOST_DOMAIN) for move in group]
    runtime.backend.copy_boxes(copies, domain.index)


def stage_out(runtime: Runtime, moves: Sequence[tuple[Domain, Move[Memory]]]) -> None:
    """Copy from devices to the host; returns when all is there.

    The domains take turns, so that all of them copy at once. Moves are tagged with the memory of
    each source, whose content is there, and with its domain.
    """
    by_domain: dict[Domain, list[Move[Memory]]] = {}
    for domain, move in moves:
        by_domain.setdefault(domain, []).append(move)
    flights: deque[_Flight] = deque()
    most = IN_FLIGHT * len(by_domain)
    for domain, group in _in_turns(by_domain, chunk_bytes(runtime)):
        flight = _start(runtime, domain, group)
        while flight is None and flights:
            flights.popleft().land(runtime)
            flight = _start(runtime, domain, group)
        if flight is None:
            _copy_out_at_once(runtime, domain, group)
            continue
        flights.append(flight)
        if len(flights) > most:
            flights.popleft().land(runtime)
    while flights:
        flights.popleft().land(runtime)


@dataclass(frozen=True, slots=True)
class _Flight:
    """A chunk on its way to a slot."""

    domain: Domain
    group: list[Move[Memory]]
    slot: Claim
    boxes: list[HostArray]
    tick: int

    def land(self, runtime: Runtime) -> None:
        """Wait for it, and copy it to where it belongs."""
        self.domain.fetch.synchronize(self.tick)
        if self.slot.memory.error is not None:
            _copy_out_at_once(runtime, self.domain, self.group)
            return
        pinned = self.domain.memories["pinned_host"].index
        pairs = zip(self.group, self.boxes, strict=True)
        copies = [(move.target, box, pinned) for move, box in pairs]
        runtime.backend.copy_boxes(copies, HOST_DOMAIN)


def _copy_out_at_once(runtime: Runtime, domain: Domain, group: list[Move[Memory]]) -> None:
    """Copy while others have all slots, or what did not get to its slot."""
    copies = [(move.target, move.source, domain.index) for move in group]
    runtime.backend.copy_boxes(copies, HOST_DOMAIN)


def _start(runtime: Runtime, domain: Domain, group: list[Move[Memory]]) -> _Flight | None:
    """Send a chunk to a slot, or return None if there is none."""
    pinned = domain.memories["pinned_host"].index

    def submit() -> _Flight | None:
        try:
            slot = runtime.claim(slot_in(domain, bytes_of(group), domain.fetch))
        except NoRoomError:
            return None
        boxes = boxes_in(runtime, slot, group)
        copies = [(box, m.source, domain.index) for box, m in zip(boxes, group, strict=True)]
        tick = submit_copies(
            runtime, domain.fetch, "copy to host", copies, pinned, _distinct(group), [slot.memory]
        )
        return _Flight(domain, group, slot, boxes, tick)

    return runtime.commit(submit, [domain.fetch])


def _take(runtime: Runtime, domain: Domain, nbytes: int) -> Claim | None:
    """Return a slot for the host to write, or None if others have all of them."""

    def claim() -> Claim | None:
        try:
            return runtime.claim(slot_in(domain, nbytes, None))
        except NoRoomError:
            return None

    return runtime.commit(claim)


def _in_turns(
    by_domain: dict[Domain, list[Move[Memory]]], limit: int
) -> Iterator[tuple[Domain, list[Move[Memory]]]]:
    """Yield one chunk of each domain after the other."""
    waiting = deque((domain, chunks(moves, limit)) for domain, moves in by_domain.items())
    while waiting:
        domain, rest = waiting.popleft()
        group = next(rest, None)
        if group is not None:
            yield domain, group
            waiting.append((domain, rest))


def boxes_in(runtime: Runtime, slot: Claim, group: Sequence[Move[Memory]]) -> list[HostArray]:
    """Lay the boxes of a chunk out in its slot."""
    return lay_out(runtime.backend.view(slot.memory.raw, (bytes_of(group),), np.dtype("u1")), group)


def _distinct(group: Sequence[Move[Memory]]) -> list[Memory]:
    return list(dict.fromkeys(move.tag for move in group))


@dataclass(frozen=True)
class Slots:
    """Page-locked memory through which others read one domain; they use it in turns."""

    nbytes: int  # bytes of the largest chunk
    turns: Iterator[Claim]  # one slot after the other, again and again


def claim_slots(runtime: Runtime, plan: Plan) -> dict[int, Slots]:
    """Allocate slots for each domain that others read and cannot reach; inside `commit`.

    What was planned is the most that there is room for unless others use the ring, too: then there
    are fewer slots, or smaller ones, and more rounds.

    Raises:
      NoRoomError: there is none for the smallest.
    """
    return {
        of: _claim_slots(runtime, runtime.domains[of], staging.slots, staging.chunk_bytes)
        for of, staging in plan.staging.items()
    }


def _claim_slots(runtime: Runtime, domain: Domain, most: int, nbytes: int) -> Slots:
    claims: list[Claim] = []
    while not claims:
        try:
            while len(claims) < most:
                claims.append(runtime.claim(slot_in(domain, nbytes, domain.fetch)))
        except NoRoomError:
            if not claims and nbytes <= LEAST_SLOT:
                raise
            nbytes = nbytes if claims else nbytes // 2
    return Slots(nbytes, itertools.cycle(claims))


@dataclass(frozen=True)
class Staged:
    """How one step reads what its domain cannot reach."""

    runtime: Runtime
    step: Step
    stream: Stream  # the stream that writes the step's blocks
    name: str
    operands: Operands
    until: Mapping[Memory, int]
    slots: dict[int, Slots]
    far: set[int]  # the domains that it reads and cannot reach

    def submit(self, writes: Sequence[Memory]) -> int:
        """Give the copies of the step to streams; inside `commit`; return the tick of the last one.

        Its stream has begun to write the memories `writes`.
        """
        step, tick = self.step, self.stream.issued
        for number, (reads, copies) in enumerate(self._transfers(), start=1):
            part = step.part * PARTS_PER_STEP + number
            tick = submit_copies(
                self.runtime,
                self.stream,
                self.name,
                copies,
                step.domain,
                reads,
                writes,
                part=part,
                until=self.until,
            )
        return tick

    def _transfers(self) -> Iterator[tuple[list[Memory], list[BoxCopy]]]:
        """Yield (memories read, copies) for each item, once what it reads is on its way."""
        mine = self.step.domain  # each domain begins with the next one: their packing streams share
        far = sorted(self.far, key=lambda of: (of < mine, of))
        for phase in self.step.phases:
            reads, copies = self.operands.near(phase, self.far)
            if copies:
                yield reads, copies
            for of in far:
                yield from self._across(phase, of)

    def _across(self, phase: Phase, of: int) -> Iterator[tuple[list[Memory], list[BoxCopy]]]:
        """Pack boxes chunk by chunk, and yield the copies that unpack each."""
        runtime = self.runtime
        source, pinned = runtime.domains[of], runtime.domains[of].memories["pinned_host"].index
        moves = [self.operands.move(copy) for copy in phase.moves if copy[4] == of]
        slots = self.slots[of]
        for group in chunks(moves, slots.nbytes):
            slot = next(slots.turns)
            boxes = boxes_in(runtime, slot, group)
            pack = [(box, move.source, of) for box, move in zip(boxes, group, strict=True)]
            submit_copies(
                runtime,
                source.fetch,
                self.name,
                pack,
                pinned,
                _distinct(group),
                [slot.memory],
                until=self.until,
            )
            pairs = zip(group, boxes, strict=True)
            yield [slot.memory], [(move.target, box, pinned) for move, box in pairs]


def is_staged(runtime: Runtime, tiling: Tiling, nbytes: int) -> bool:
    """Whether copies between the host and a tiling's places go through page-locked memory."""
    return not devices_of(tiling)[0].domain.readable and nbytes > runtime.settings.inline_bytes
