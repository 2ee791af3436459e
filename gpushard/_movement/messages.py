"""Copies between domains that send each other messages, as GPUs do by NCCL.

A box goes as it lies if it is dense on both sides, and large or alone. The sender packs all other
boxes for a domain into a buffer, which goes as one message. The receiver puts the boxes where they
belong. What does not fit into the buffer goes in further rounds.

All messages of a round start together, so that items before and after say what they use. Before,
one of the sender waits for what is read, and packs. After, one of the receiver reads and writes all
that its messages do: until that has run nobody else may have it, and then they have come.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from gpushard._frozen import dataclass
from gpushard._movement.buffer import Operands
from gpushard._movement.host_staging import PARTS_PER_STEP, chunk_bytes, submit_copies
from gpushard._movement.plan import Plan, Step
from gpushard._runtime.backend import Backend
from gpushard._runtime.chunks import LEAST_SLOT, Move, chunks
from gpushard._runtime.claims import Claim
from gpushard._runtime.copy_engine import by_engine
from gpushard._runtime.copy_phase import BoxCopy, Copy, Message, Phase
from gpushard._runtime.memory import Memory
from gpushard._runtime.pool import NoRoomError, Room
from gpushard._runtime.runtime import Runtime
from gpushard._runtime.stream import Stream
from gpushard._runtime.traffic import Link
from gpushard._typing import LocalArray
from gpushard.errors import ExecutionError


def buffer_sizes(plan: Plan, runtime: Runtime) -> dict[Link, int]:
    """Return the bytes of the buffers, on both sides, of each link over which a plan sends."""
    sizes: dict[Link, int] = {}
    for step in plan.steps:
        for of in plan.sent(step):
            for phase in step.phases:
                _, packed = _divided(phase, of, plan.engine_bytes)
                nbytes = sum(math.prod(move[1].shape) for move in packed) * phase.itemsize
                sizes[of, step.domain] = max(nbytes, sizes.get((of, step.domain), 0))
    most = chunk_bytes(runtime) // max(1, len(plan.domains))
    return {link: min(nbytes, max(LEAST_SLOT, most)) for link, nbytes in sizes.items()}


def _divided(phase: Phase, of: int, engine_bytes: int | None) -> tuple[list[Copy], list[Copy]]:
    """Return the copies that go over one link as they lie, and those that are packed."""
    direct: list[Copy] = []
    packed: list[Copy] = []
    moves = [move for move in phase.moves if move[4] == of]
    for move in moves:
        _, target, _, source, _ = move
        dense = target.is_dense(phase.itemsize) and source.is_dense(phase.itemsize)
        nbytes, least = math.prod(target.shape) * phase.itemsize, engine_bytes or 0
        large = by_engine(nbytes, dense=dense, crosses=True, least=least)
        (direct if large or (dense and len(moves) == 1) else packed).append(move)
    return direct, packed


Streams = Callable[[int], Stream]
"""What writes a domain."""

Buffers = Mapping[Link, tuple[Claim, Claim] | None]
"""Those of the sender and the receiver, for each link; None where nothing is packed."""


def claim_buffers(runtime: Runtime, sizes: Mapping[Link, int], streams: Streams) -> Buffers | None:
    """Allocate them; inside `commit`; None if there is no room beside what the plan needs."""

    def claim(domain: int, nbytes: int) -> Claim:
        return runtime.claim(Room(runtime.domains[domain].pool, (), nbytes, streams(domain)))

    try:
        return {
            (of, to): (claim(of, nbytes), claim(to, nbytes)) if nbytes else None
            for (of, to), nbytes in sizes.items()
        }
    except NoRoomError:
        return None


@dataclass(frozen=True, eq=False)
class _Receiver:
    """A step whose domain gets messages."""

    step: Step
    number: int  # of the step
    domains: set[int]  # that it gets them from
    stream: Stream
    until: Mapping[Memory, int]
    writes: Sequence[Memory]
    parts: Iterator[int]  # that it adds to what it writes


@dataclass(frozen=True, eq=False)
class _Load:
    """What goes over one link in one round."""

    receiver: _Receiver
    of: int
    direct: Sequence[Move[Memory]]
    packed: Sequence[Move[Memory]]
    buffers: tuple[Claim, Claim] | None

    @property
    def reads(self) -> list[Memory]:
        """What it needs."""
        return list(dict.fromkeys(move.tag for move in (*self.direct, *self.packed)))

    @property
    def memories(self) -> list[Memory]:
        """Those of the buffers."""
        return [claim.memory for claim in self.buffers] if self.buffers and self.packed else []


class Messages:
    """The steps of a plan that get messages: they wait here until none may join them.

    Args:
      runtime: whose domains take part.
      name: what the plan does, for errors.
      operands: those of the plan.
      buffers: what is packed goes through.
      engine_bytes: that of the plan.
      streams: says what writes a domain.
    """

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        operands: Operands,
        buffers: Buffers,
        engine_bytes: int | None,
        streams: Streams,
    ) -> None:
        self._runtime = runtime
        self._name = name
        self._operands = operands
        self._buffers = buffers
        self._engine_bytes = engine_bytes
        self._streams = streams
        self._waiting: list[_Receiver] = []

    def domains(self, step: Step) -> set[int]:
        """Return the domains from which a step gets messages."""
        read = {of for phase in step.phases for of in phase.links}
        return {of for of in read if (of, step.domain) in self._buffers}

    def must_go_first(self, step: Step) -> bool:
        """Whether a step reads or writes what one that waits writes, or writes what it reads."""
        reads, writes = self._all_of(step.reads), self._all_of(step.writes)
        for other in self._waiting:
            if not writes.isdisjoint(self._all_of(other.step.reads)):
                return True
            if not (reads | writes).isdisjoint(other.writes):
                return True
        return False

    def add(
        self, step: Step, number: int, until: Mapping[Memory, int], writes: Sequence[Memory]
    ) -> None:
        """Let a step wait, whose stream has begun to write the memories `writes`."""
        stream, first = self._streams(step.domain), step.part * PARTS_PER_STEP + 1
        parts = itertools.count(first)
        way = _Receiver(step, number, self.domains(step), stream, until, writes, parts)
        self._waiting.append(way)

    def submit(self) -> dict[int, int]:
        """Give streams what waits, inside `commit`; return the tick of each step, by number."""
        waiting, self._waiting = self._waiting, []
        for number in range(max((len(way.step.phases) for way in waiting), default=0)):
            loads: list[Iterator[_Load]] = []
            for way in waiting:
                if number < len(way.step.phases):
                    phase = way.step.phases[number]
                    self._copy_what_is_near(way, phase)
                    loads += [self._loads(way, phase, of) for of in sorted(way.domains)]
            for round_ in itertools.zip_longest(*loads):
                self._send([load for load in round_ if load is not None])
        return {way.number: way.stream.issued for way in waiting}

    def _copy_what_is_near(self, way: _Receiver, phase: Phase) -> None:
        reads, copies = self._operands.near(phase, way.domains)
        if copies:
            submit_copies(
                *(self._runtime, way.stream, self._name, copies, way.step.domain),
                *(reads, way.writes),
                part=next(way.parts),
                until=way.until,
            )

    def _loads(self, way: _Receiver, phase: Phase, of: int) -> Iterator[_Load]:
        """Yield what a phase gets from one domain, round by round."""
        direct, packed = (
            [self._operands.move(copy) for copy in copies]
            for copies in _divided(phase, of, self._engine_bytes)
        )
        buffers = self._buffers[of, way.step.domain]
        limit = buffers[0].memory.nbytes if buffers else 1
        groups = chunks(packed, limit)
        first = next(groups, [])
        if direct or first:
            yield _Load(way, of, direct, first, buffers)
        for group in groups:
            yield _Load(way, of, [], group, buffers)

    def _all_of(self, operands: Iterable[int]) -> set[Memory]:
        return {self._operands.memories[of] for of in operands}

    def _send(self, loads: Sequence[_Load]) -> None:
        """Submit one round."""
        runtime, name = self._runtime, self._name
        messages: list[Message] = []
        needs: dict[_Receiver, dict[Memory, None]] = {}
        unpacks: dict[_Receiver, list[BoxCopy]] = {}
        for load in loads:
            way, sender, own = load.receiver, self._streams(load.of), load.memories
            pairs = [(move.target, move.source) for move in load.direct]
            pack, unpack = [], unpacks.setdefault(way, [])
            if load.packed:
                assert load.buffers is not None, "boxes to pack without buffers"
                at, of = (_laid_out(runtime, claim, load.packed) for claim in load.buffers)
                pairs.append((of[0], at[0]))
                pack = [(b, m.source, load.of) for b, m in zip(at[1], load.packed, strict=True)]
                to = way.step.domain
                unpack += [(m.target, b, to) for b, m in zip(of[1], load.packed, strict=True)]
                runtime.submit(way.stream, name, _nothing, (), own[1:])
            reads, until = load.reads, way.until
            submit_copies(runtime, sender, name, pack, load.of, reads, own[:1], until=until)
            needs.setdefault(way, {}).update(dict.fromkeys([*reads, *own]))
            messages += [Message(target, way.stream, source, sender) for target, source in pairs]
        together = _Together(runtime.backend, messages)
        runtime.submit(loads[0].receiver.stream, name, together.send, (), (), scoped=False)
        for way in needs:
            finish = functools.partial(together.finish, unpacks[way], way.step.domain)
            runtime.submit(
                *(way.stream, name, finish, list(needs[way]), way.writes),
                part=next(way.parts),
                until=way.until,
                scoped=False,
            )


def messages_for(
    runtime: Runtime,
    plan: Plan,
    sizes: Mapping[Link, int],
    streams: Mapping[int, Stream],
    operands: Operands,
    name: str,
) -> Messages | None:
    """Prepare the messages of a movement; None if none can be sent, or their buffers lack room.

    Args:
      runtime: the runtime of its devices.
      plan: the movement.
      sizes: bytes of the buffers, see `buffer_sizes`.
      streams: the streams of some domains; others use the one for copies.
      operands: what is copied.
      name: the name of the operation, for errors.
    """

    def stream_of(domain: int) -> Stream:
        return streams.get(domain, runtime.domains[domain].copy)

    of, to = next(iter(sizes))
    if not runtime.backend.sends(to, of):
        return None
    buffers = claim_buffers(runtime, sizes, stream_of)
    if buffers is None:
        return None
    return Messages(runtime, name, operands, buffers, plan.engine_bytes, stream_of)


class _Together:
    """The messages of one round; the backend gets them before anything that needs them."""

    def __init__(self, backend: Backend, messages: Sequence[Message]) -> None:
        self._backend = backend
        self._messages = messages
        self._error: BaseException | None = ExecutionError("the messages were not sent")

    def send(self) -> None:
        """Give streams all of them; those that nothing is in yet, as it failed, do no harm."""
        try:
            self._backend.exchange(self._messages)
        except BaseException as error:
            self._error = error
            raise
        self._error = None

    def finish(self, copies: Sequence[BoxCopy], domain: int) -> None:
        """Put what came packed into a domain where it belongs."""
        if self._error is not None:
            raise self._error
        if copies:
            self._backend.copy_boxes(copies, domain)


def _laid_out(
    runtime: Runtime, claim: Claim, group: Sequence[Move[Memory]]
) -> tuple[LocalArray, list[LocalArray]]:
    """Return the start of a buffer that boxes fill one after the other, and these."""
    dtype = group[0].target.dtype
    ends = list(itertools.accumulate(move.target.size for move in group))
    whole = runtime.backend.view(claim.memory.raw, (ends[-1],), dtype)
    starts = [0, *ends[:-1]]
    boxes = [
        whole[start:stop].reshape(move.target.shape)
        for start, stop, move in zip(starts, ends, group, strict=True)
    ]
    return whole, boxes


def _nothing() -> None:
    """What an item does that only has its place."""
