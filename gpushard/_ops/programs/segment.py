"""Launches one after the other that are submitted, and on GPUs given to a stream, at once.

What only they need of one another lies in one memory, each where nothing lies any more that is
still needed: who does what, and where, is known before anything runs.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

from gpushard._frozen import dataclass
from gpushard._movement.buffer import ShardedBuffer
from gpushard._ops.programs.launched import Group, Launched, waits_alike
from gpushard._ops.steps import Runnable
from gpushard._runtime.backend import Replay
from gpushard._runtime.claims import Claim
from gpushard._runtime.launch import Outputs, arrays_in
from gpushard._runtime.memory import BLOCK_ALIGNMENT, Account, Memory
from gpushard._runtime.pool import Room
from gpushard._runtime.stream import Stream
from gpushard._typing import LocalArray


@dataclass(frozen=True, eq=False)
class Part:
    """One operation of a segment."""

    launched: Launched
    scalars: Sequence[tuple[int, Any]]  # numbers that it takes: (position, value)
    operands: Sequence[Any]  # names of the values that it takes
    results: Sequence[Any]  # of those that it makes; of what it has beyond these nobody knows


class _Block:
    """Memory of one or several results of a group."""

    def __init__(self, room: Room, keys: Sequence[tuple[Any, int]], begin: int) -> None:
        self.room = room
        self.keys = keys  # of the arrays in it: (value, call)
        self.begin = self.end = begin  # the first and the last operation that needs it
        self.stays = False  # whether somebody needs it after the segment
        self.at = 0  # where it lies among what goes


@dataclass(frozen=True, eq=False)
class _Chain:
    """What one stream has of a segment."""

    stream: Stream
    reads: list[tuple[int, int]]  # (operand of the segment, position of the device)
    replay: Replay
    stays: list[_Block]
    scratch: Room | None  # of what does not stay
    alone: bool  # whether launches are for several devices, which may have to wait apart

    @functools.cached_property
    def rooms(self) -> list[Room]:
        """What it writes."""
        rooms = [block.room for block in self.stays]
        return rooms if self.scratch is None else [*rooms, self.scratch]


class Segment(Runnable):
    """Operations that are launches, one after the other.

    Args:
      parts: they.
      operands: names of the values that they take from outside.
      results: names of those that are needed afterwards.
      name: for errors.
      chains: what each stream has of them.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        operands: Sequence[Any],
        results: Sequence[Any],
        name: str,
        chains: Sequence[_Chain],
    ) -> None:
        self._parts, self.operands, self.results = parts, operands, results
        self._name, self._chains = name, chains
        self._runtime = parts[0].launched.runtime
        self._streams = [chain.stream for chain in chains]
        made = {value: (part, n) for part in parts for n, value in enumerate(part.results)}
        self._made = [made[value] for value in results]
        last = {value: part for part in parts for value in (*part.operands, *part.results)}
        kept = {*results}
        # What is needed no more after each operation, if they run one by one.
        self._ended = [
            [value for value, end in last.items() if end is part and value not in kept]
            for part in parts
        ]

    @property
    def scratch(self) -> int:
        """Bytes that it holds while it runs, beside operands and results."""
        return sum(chain.scratch.nbytes for chain in self._chains if chain.scratch)

    @property
    def counts(self) -> tuple[int, int]:
        """How many launches it is, and how many a replay of them is: one for each stream."""
        return sum(len(part.launched.groups) for part in self._parts), len(self._chains)

    def run(self, given: Sequence[ShardedBuffer], numbers: Sequence[Any]) -> list[ShardedBuffer]:
        """Run it: as one, or one by one where devices would wait, or fail, for one another."""
        made = self._runtime.commit(functools.partial(self._submit, given), self._streams)
        if made is None:
            held = dict(zip(self.operands, given, strict=True))
            for part, ended in zip(self._parts, self._ended, strict=True):
                taken = [held[x] for x in part.operands]
                held.update(zip(part.results, part.launched.run(taken, part.scalars), strict=False))
                for value in ended:
                    del held[value]
            return [held[value] for value in self.results]
        found = []
        unset: Any = None
        for value, (part, n) in zip(self.results, self._made, strict=True):
            launched, nothing = part.launched, [unset] * len(part.launched.calls)
            outputs = Outputs(list(nothing), list(nothing), False)
            for call in range(len(nothing)):
                outputs.values[call], outputs.claims[call] = made[value, call]
            found.append(launched.assemble(n, outputs))
        return found

    def _submit(
        self, given: Sequence[ShardedBuffer]
    ) -> dict[tuple[Any, int], tuple[LocalArray, Claim]] | None:
        """Allocate everything and submit; None, and nothing has changed, if that cannot be."""
        runtime = self._runtime
        reads = []
        for chain in self._chains:
            own: dict[Memory, None] = {given[n].claims[at].memory: None for n, at in chain.reads}
            if any(memory.error is not None for memory in own):
                return None
            if chain.alone and not waits_alike(chain.stream, own):
                return None
            reads.append(own)
        claimed = [[runtime.claim(room) for room in chain.rooms] for chain in self._chains]
        made = {}
        for chain, own, claims in zip(self._chains, reads, claimed, strict=True):
            memories = [claim.memory for claim in claims]
            taken = [given[n].values[at] for n, at in chain.reads]
            work = chain.replay.on(taken, [memory.raw for memory in memories])
            runtime.submit(chain.stream, self._name, work, tuple(own), memories, scoped=False)
            for block, claim in zip(chain.stays, claims, strict=False):
                values = arrays_in(runtime, block.room, claim.memory)
                made.update({key: (x, claim) for key, x in zip(block.keys, values, strict=True)})
        return made


def segment_of(parts: Sequence[Part], results: set[Any], name: str) -> Segment | None:
    """Return operations as a segment; None if a stream takes what another one makes in it.

    Args:
      parts: they, in order.
      results: names of values that are needed afterwards, and of others.
      name: of all, for errors.
    """
    blocks: list[_Block] = []
    block_of: dict[tuple[Any, int], tuple[_Block, int]] = {}  # of a value's call
    part_of: dict[Any, Part] = {}
    operands: dict[Any, int] = {}
    reads: dict[Stream, dict[tuple[int, int], int]] = {}
    # Of each stream its calls, with what each takes: (a block or the number of a read, start).
    taken: dict[Stream, list[tuple[Part, Group, list[tuple[Any, int]]]]] = {}
    for number, part in enumerate(parts):
        for group in part.launched.groups:
            places: list[tuple[Any, int]] = []
            for n, positions in group.takes:
                value = part.operands[n]
                maker = part_of.get(value)
                for at in positions:
                    if maker is None:
                        own = reads.setdefault(group.stream, {})
                        key = operands.setdefault(value, len(operands)), at
                        places.append((own.setdefault(key, len(own)), 0))
                        continue
                    block, start = block_of.get((value, maker.launched.of_device[at]), (None, 0))
                    if block is None or block.room.stream is not group.stream:
                        return None
                    block.end = number
                    places.append((block, start))
            for block in _blocks(part, group, number):
                blocks.append(block)
                for key, start in zip(block.keys, block.room.starts, strict=True):
                    block_of[key] = block, start
                    block.stays = block.stays or key[0] in results
            for call in range(len(part.launched.dtypes)):
                value = part.results[call] if call < len(part.results) else (part, call)
                places += [block_of[value, n] for n in group.calls]
            taken.setdefault(group.stream, []).append((part, group, places))
        part_of.update(dict.fromkeys(part.results, part))
    chains = []
    for stream, calls in taken.items():
        chains.append(_chain(stream, calls, list(reads.get(stream, {})), blocks, len(parts)))
    return Segment(parts, list(operands), [x for x in part_of if x in results], name, chains)


def _chain(
    stream: Stream,
    calls: Sequence[tuple[Part, Group, list[tuple[Any, int]]]],
    reads: list[tuple[int, int]],
    blocks: Sequence[_Block],
    count: int,
) -> _Chain:
    """Return what a stream has of a segment of so many operations."""
    own = [block for block in blocks if block.room.stream is stream]
    stays = [block for block in own if block.stays]
    going = [block for block in own if not block.stays]
    nbytes = max(1, _laid_out(going)) if going else 0
    most: dict[Account, int] = {}
    for number in range(count):
        now: dict[Account, int] = {}
        for block in going:
            if block.begin <= number <= block.end:
                for account, size in block.room.charges:
                    now[account] = now.get(account, 0) + size
        for account, size in now.items():
            most[account] = max(most.get(account, 0), size)
    ahead = {block: len(reads) + n for n, block in enumerate(stays)}
    last = len(reads) + len(stays)
    replayed = []
    for part, group, places in calls:
        at = [
            (place, 0)
            if isinstance(place, int)
            else (ahead[place], start)
            if place.stays
            else (last, place.at + start)
            for place, start in places
        ]
        replayed.append((group.launch, at, [value for _, value in part.scalars]))
    replay = calls[0][0].launched.runtime.backend.replay(stream, replayed)
    alone = any(group.alone for _, group, _ in calls)
    pool = calls[0][1].rooms[0].pool
    scratch = Room(pool, tuple(most.items()), nbytes, stream) if nbytes else None
    return _Chain(stream, reads, replay, stays, scratch, alone)


def _blocks(part: Part, group: Group, number: int) -> list[_Block]:
    """Return the memories of a group's results, as a launch by itself would allocate them."""
    keys: list[tuple[Any, int]] = []
    for n in range(len(part.launched.dtypes)):
        value = part.results[n] if n < len(part.results) else (part, n)
        keys += [(value, call) for call in group.calls]
    each, blocks = iter(keys), []
    for room in group.rooms:
        blocks.append(_Block(room, list(itertools.islice(each, len(room.kinds))), number))
    return blocks


def _laid_out(blocks: Sequence[_Block]) -> int:
    """Say where blocks lie in one memory, each where none lies at the same time; its bytes."""
    end = 0
    placed: list[_Block] = []
    for block in sorted(blocks, key=lambda block: -block.room.nbytes):
        beside = [b for b in placed if b.begin <= block.end and block.begin <= b.end]
        at = 0
        for other in sorted(beside, key=lambda b: b.at):
            if at + block.room.nbytes <= other.at:
                break
            at = max(at, -(-(other.at + other.room.nbytes) // BLOCK_ALIGNMENT) * BLOCK_ALIGNMENT)
        block.at = at
        placed.append(block)
        end = max(end, at + block.room.nbytes)
    return end
