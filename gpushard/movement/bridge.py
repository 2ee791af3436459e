"""Steps of a plan that read memory which their domain cannot reach.

The domain that holds the data packs it into page-locked host memory, and the one that wants it
reads it there. Two slots per pair of domains take turns, so that both work at once.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence

from gpushard.frozen import dataclass
from gpushard.movement.staging import boxes_in, chunk_bytes
from gpushard.movement.steps import Step
from gpushard.runtime.chunks import Move, chunks
from gpushard.runtime.memory import Claim, Memory
from gpushard.runtime.phase import BoxCopy, BoxMove, Phase
from gpushard.runtime.runtime import Runtime
from gpushard.runtime.stream import Stream
from gpushard.typing import LocalArray

PARTS_PER_STEP = 1 << 20
"""More than the parts in which one step is written."""


def strangers(runtime: Runtime, step: Step) -> set[int]:
    """Return the domains that a step reads and its own domain cannot reach."""
    domains = {move[4] for phase in step.phases for move in phase.moves}
    return {domain for domain in domains if not runtime.backend.reaches(step.domain, domain)}


def claim_slots(runtime: Runtime, steps: Sequence[Step]) -> dict[tuple[int, int], list[Claim]]:
    """Allocate two slots for each (domain, domain out of its reach) of steps; inside `commit`."""
    pairs = {(step.domain, of) for step in steps for of in strangers(runtime, step)}
    return {pair: [_claim_slot(runtime, pair[1]) for _ in range(2)] for pair in sorted(pairs)}


def _claim_slot(runtime: Runtime, of: int) -> Claim:
    domain = runtime.domains[of]
    return runtime.claim_between(domain, chunk_bytes(runtime), domain.fetch)


@dataclass(frozen=True)
class Bridge:
    """How one step reads what its domain cannot reach."""

    runtime: Runtime
    step: Step
    stream: Stream
    """The stream that writes the step's blocks."""

    name: str
    operands: Sequence[LocalArray]
    memories: Sequence[Memory]
    until: Mapping[Memory, int]
    slots: dict[tuple[int, int], list[Claim]]

    def submit(self) -> int:
        """Give the copies of the step to streams; inside `commit`.

        Returns:
          The tick with which all is written.
        """
        runtime, step = self.runtime, self.step
        writes = [self.memories[to] for to in step.writes]
        tick = 0
        if not step.part:  # waits for all who use the blocks, which what follows need not do
            tick = runtime.submit(self.stream, self.name, _nothing, [], writes)
        for number, (reads, copies) in enumerate(self._transfers(), start=1):
            part = step.part * PARTS_PER_STEP + number
            run = functools.partial(runtime.backend.copy_boxes, copies, step.domain)
            tick = runtime.submit(
                self.stream, self.name, run, reads, writes, part=part, until=self.until
            )
        return tick

    def _transfers(self) -> Iterator[tuple[list[Memory], list[BoxCopy]]]:
        """Yield (memories read, copies) for each item, once what it reads is on its way."""
        far = strangers(self.runtime, self.step)
        for phase in self.step.phases:
            near = [move for move in phase.moves if move[4] not in far]
            if near:
                yield self._reads(near), [self._copy(phase, move) for move in near]
            for of in sorted(far):
                yield from self._across(phase, of)

    def _across(self, phase: Phase, of: int) -> Iterator[tuple[list[Memory], list[BoxCopy]]]:
        """Pack boxes chunk by chunk, and yield the copies that unpack each."""
        runtime = self.runtime
        source, pinned = runtime.domains[of], runtime.domains[of].memories["pinned_host"].index
        moves = []
        for move in phase.moves:
            if move[4] == of:
                target, value, _ = self._copy(phase, move)
                moves.append(Move(target, value, self.memories[move[2]]))
        slots = self.slots[self.step.domain, of]
        for number, group in enumerate(chunks(moves, chunk_bytes(runtime))):
            slot = slots[number % len(slots)]
            boxes = boxes_in(runtime, slot, group)
            pack = [(box, move.source, of) for box, move in zip(boxes, group, strict=True)]
            run = functools.partial(runtime.backend.copy_boxes, pack, pinned)
            reads = list(dict.fromkeys(move.tag for move in group))
            runtime.submit(source.fetch, self.name, run, reads, [slot.memory], until=self.until)
            pairs = zip(group, boxes, strict=True)
            yield [slot.memory], [(move.target, box, pinned) for move, box in pairs]

    def _copy(self, phase: Phase, move: BoxMove) -> BoxCopy:
        to, to_index, of, of_index, domain = move
        source = self.operands[of][of_index]
        if phase.order is not None:
            source = source.transpose(phase.order)
        return self.operands[to][to_index], source, domain

    def _reads(self, moves: Sequence[BoxMove]) -> list[Memory]:
        return list(dict.fromkeys(self.memories[move[2]] for move in moves))


def _nothing() -> None:
    """What an item does that only waits until memory is free."""
