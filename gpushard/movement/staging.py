"""Copies between devices and the host, through page-locked memory.

What is copied is cut into chunks that fit into slots of the domain's ring. A slot is memory like
any other: whoever takes it waits for those who used it, so that the next chunk is copied while the
one before is still on its way. At most a quarter of a ring is one chunk.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from gpushard.movement.buffer import failure, wait_idle
from gpushard.runtime.backend import HOST_DOMAIN
from gpushard.runtime.device import Domain
from gpushard.runtime.memory import Claim, Memory, NoRoomError
from gpushard.runtime.runtime import Runtime
from gpushard.runtime.stream import Stream
from gpushard.typing import HostArray, LocalArray

ALIGNMENT = 16
"""Bytes that every box in a slot is aligned to."""

IN_FLIGHT = 2
"""How many chunks of each domain are on their way while the host copies another one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Move:
    """A box on its way from or to the host."""

    target: LocalArray
    """Where it goes."""

    source: LocalArray
    """Where it comes from; of the same shape and type."""

    memory: Memory
    """The memory on the device's side."""

    def parts(self, limit: int) -> Iterator[Move]:
        """Cut it into boxes of at most `limit` bytes, which is more than one element."""
        if self.target.nbytes <= limit:
            if self.target.nbytes:
                yield self
            return
        shape = self.target.shape
        dim = next(dim for dim, size in enumerate(shape) if size > 1)
        rows = max(1, limit * shape[dim] // self.target.nbytes)
        lead = (slice(None),) * dim
        for start in range(0, shape[dim], rows):
            index = (*lead, slice(start, start + rows))
            part = Move(self.target[index], self.source[index], self.memory)
            yield from part.parts(limit)


def chunks(moves: Iterable[Move], limit: int) -> Iterator[list[Move]]:
    """Cut and group moves so that each group fits into a slot.

    Args:
      moves: what to copy, in order.
      limit: bytes of a slot.

    Yields:
      Moves that take at most `limit` bytes, each aligned.
    """
    group: list[Move] = []
    filled = 0
    for move in moves:
        for part in move.parts(limit):
            nbytes = _aligned(part.target.nbytes)
            if group and filled + nbytes > limit:
                yield group
                group, filled = [], 0
            group.append(part)
            filled += nbytes
    if group:
        yield group


def chunk_bytes(runtime: Runtime) -> int:
    """Return the bytes of the largest slot: a power of two, four of which fit into a ring."""
    return 1 << (runtime.settings.pinned_bytes // 4).bit_length() - 1


def stage_in(runtime: Runtime, domain: Domain, moves: Sequence[Move]) -> None:
    """Copy host data to memory that streams write; returns when all of it was read.

    Args:
      runtime: of the domain.
      domain: where the data goes.
      moves: what to copy; `domain.feed` has begun to write all of the memories.
    """
    pinned = domain.memories["pinned_host"].index
    for group in chunks(moves, chunk_bytes(runtime)):
        slot = _take(runtime, domain, bytes_of(group))
        if slot is None:
            _copy_in_at_once(runtime, domain, group)
            continue
        wait_idle(slot.memory)
        boxes = boxes_in(runtime, slot, group)
        to_slot = [(box, m.source, HOST_DOMAIN) for box, m in zip(boxes, group, strict=True)]
        runtime.backend.copy_boxes(to_slot, pinned)
        runtime.commit(functools.partial(_feed, runtime, domain, slot, boxes, group), [domain.feed])


def _feed(
    runtime: Runtime, domain: Domain, slot: Claim, boxes: list[HostArray], group: list[Move]
) -> None:
    pinned = domain.memories["pinned_host"].index
    copies = [(move.target, box, pinned) for box, move in zip(boxes, group, strict=True)]
    run = functools.partial(runtime.backend.copy_boxes, copies, domain.index)
    writes = _distinct(group)
    runtime.submit(domain.feed, "copy from host", run, [slot.memory], writes, part=1)


def _copy_in_at_once(runtime: Runtime, domain: Domain, group: list[Move]) -> None:
    """Copy while others have all slots."""
    for memory in _distinct(group):
        wait_idle(memory)
    copies = [(move.target, move.source, HOST_DOMAIN) for move in group]
    runtime.backend.copy_boxes(copies, domain.index)


def stage_out(runtime: Runtime, moves: Sequence[tuple[Domain, Move]]) -> None:
    """Copy from devices to the host; returns when all is there.

    The domains take turns, so that all of them copy at once.

    Args:
      runtime: of the domains.
      moves: what to copy, with the domain of each source, whose content is there.

    Raises:
      ExecutionError: a copy failed.
    """
    by_domain: dict[Domain, list[Move]] = {}
    for domain, move in moves:
        by_domain.setdefault(domain, []).append(move)
    flights: deque[_Flight] = deque()
    most = IN_FLIGHT * len(by_domain)
    for domain, group in _in_turns(by_domain, chunk_bytes(runtime)):
        flight = _start(runtime, domain, group)
        while flight is None and flights:
            flights.popleft().land(runtime)
            flight = _start(runtime, domain, group)
        if flight is None:  # others have all slots
            copies = [(move.target, move.source, domain.index) for move in group]
            runtime.backend.copy_boxes(copies, HOST_DOMAIN)
            continue
        flights.append(flight)
        if len(flights) > most:
            flights.popleft().land(runtime)
    while flights:
        flights.popleft().land(runtime)


@dataclasses.dataclass(frozen=True, slots=True)
class _Flight:
    """A chunk on its way to a slot."""

    group: list[Move]
    slot: Claim
    boxes: list[HostArray]
    stream: Stream
    tick: int
    pinned: int

    def land(self, runtime: Runtime) -> None:
        """Wait for it, and copy it to where it belongs."""
        self.stream.synchronize(self.tick)
        if self.slot.memory.error is not None:
            raise failure(self.slot.memory.error)
        pairs = zip(self.group, self.boxes, strict=True)
        copies = [(move.target, box, self.pinned) for move, box in pairs]
        runtime.backend.copy_boxes(copies, HOST_DOMAIN)


def _start(runtime: Runtime, domain: Domain, group: list[Move]) -> _Flight | None:
    """Send a chunk to a slot, or return None if there is none."""
    pinned = domain.memories["pinned_host"].index

    def submit() -> _Flight | None:
        try:
            slot = runtime.claim_slot(domain, bytes_of(group), domain.fetch)
        except NoRoomError:
            return None
        boxes = boxes_in(runtime, slot, group)
        copies = [(box, m.source, domain.index) for box, m in zip(boxes, group, strict=True)]
        run = functools.partial(runtime.backend.copy_boxes, copies, pinned)
        tick = runtime.submit(domain.fetch, "copy to host", run, _distinct(group), [slot.memory])
        return _Flight(group, slot, boxes, domain.fetch, tick, pinned)

    return runtime.commit(submit, [domain.fetch])


def _take(runtime: Runtime, domain: Domain, nbytes: int) -> Claim | None:
    """Return a slot for the host to write, or None if others have all of them."""

    def claim() -> Claim | None:
        try:
            return runtime.claim_slot(domain, nbytes, None)
        except NoRoomError:
            return None

    return runtime.commit(claim)


def _in_turns(
    by_domain: dict[Domain, list[Move]], limit: int
) -> Iterator[tuple[Domain, list[Move]]]:
    """Yield one chunk of each domain after the other."""
    waiting = deque((domain, chunks(moves, limit)) for domain, moves in by_domain.items())
    while waiting:
        domain, rest = waiting.popleft()
        group = next(rest, None)
        if group is not None:
            yield domain, group
            waiting.append((domain, rest))


def boxes_in(runtime: Runtime, slot: Claim, group: Sequence[Move]) -> list[HostArray]:
    """Lay the boxes of a chunk out in its slot, one after the other."""
    nbytes = bytes_of(group)
    whole: HostArray = runtime.backend.view(slot.memory.raw, (nbytes,), "u1")
    boxes = []
    at = 0
    for move in group:
        shape, dtype = move.target.shape, move.target.dtype
        stop = at + math.prod(shape) * dtype.itemsize
        boxes.append(whole[at:stop].view(dtype).reshape(shape))
        at = _aligned(stop)
    return boxes


def bytes_of(group: Sequence[Move]) -> int:
    """Return the bytes that a chunk takes in a slot."""
    return sum(_aligned(move.target.nbytes) for move in group)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _distinct(group: Sequence[Move]) -> list[Memory]:
    return list(dict.fromkeys(move.memory for move in group))
