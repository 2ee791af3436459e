"""Elementwise work that a backend's own kernels do: one launch for all devices of a chip."""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

from gpushard._frozen import dataclass
from gpushard._geometry.tiling import Tiling
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.sharding_devices import devices_of
from gpushard._ops.programs.calls import CallPlan, LocalCalls
from gpushard._runtime.backend import ROOM, Calls, NestKernel
from gpushard._runtime.launch import Outputs, one_room, room_on
from gpushard._runtime.memory import Memory
from gpushard._runtime.nests import Nest
from gpushard._runtime.pool import Room
from gpushard._runtime.stream import Stream
from gpushard._typing import Dtype, LocalArray, Shape


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Calls that one launch can make."""

    calls: tuple[int, ...]  # their numbers
    writes: tuple[int, ...]  # which arrays they write: of each result those of the calls
    # What they take: (operand, which of its shards or parts, in the order of the calls).
    takes: tuple[tuple[int, tuple[int, ...]], ...]
    stream: Stream  # where it runs
    launch: Calls  # what makes them
    # What they write: each result of each call, all of the first result first; or one memory.
    rooms: tuple[Room, ...]
    # The same one by one, each on the stream of its device; empty for a single call.
    alone: tuple[Group, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all results."""
        return sum(nbytes for room in self.rooms for _, nbytes in room.charges)


class Launched(LocalCalls):
    """Calls of an elementwise function on dense blocks of one shape.

    Devices of a chip that nothing divides share a launch, on the stream of the first: it goes on
    for all of them with the same item. Where their operands wait for different things, none waits
    for those of another: then each device has a launch of its own.
    """

    def __init__(self, groups: Sequence[Group], numbers: Sequence[Dtype], plan: CallPlan) -> None:
        super().__init__(plan)
        self.groups = groups
        self._numbers = list(numbers)
        self._single = groups[0] if len(groups) == 1 else None

    def launches(
        self, numbers: Sequence[tuple[int, Any]]
    ) -> tuple[Launched, Sequence[tuple[int, Any]]] | None:
        """Return itself and its numbers; None if launches cannot be replayed.

        Programs that may be no more than launches have a function of that name, too.
        """
        fits = all(group.launch.replays for group in self.groups)
        return (self, numbers) if fits and self.takes(numbers) else None

    def takes(self, scalars: Sequence[tuple[int, Any]]) -> bool:
        """Whether the kernel takes numbers of such types."""
        return [number.dtype for _, number in scalars] == self._numbers

    def run_parts(
        self, operands: Sequence[ShardedBuffer | Outputs], scalars: Sequence[tuple[int, Any]] = ()
    ) -> list[Outputs]:
        """Make the calls, and return for each result what every call made.

        An integer beyond its type is compared with as an infinite number, which the kernel does not
        take: then each call is made by itself.
        """
        if scalars and not self.takes(scalars):
            return super().run_parts(cast("Sequence[ShardedBuffer]", operands), scalars)
        numbers = [number for _, number in scalars]
        launched = self.runtime.commit(self._launch_all, self._streams, (operands, numbers))
        return self._by_result(launched)

    def _launch_all(
        self, operands: Sequence[ShardedBuffer | Outputs], numbers: Sequence[Any]
    ) -> Outputs:
        """Allocate every result and give the launches to the devices."""
        if self._single is not None:
            launched = self._launch(self._single, operands, numbers)
            if launched is not None:
                return launched
        nothing: Any = [None] * len(self._rooms)
        outputs = Outputs(nothing, nothing.copy(), False)
        for group in self.groups:
            launched = self._launch(group, operands, numbers)
            launches = [(group, launched)]
            if launched is None:
                launches = [(one, self._launch(one, operands, numbers)) for one in group.alone]
            for part, made in launches:
                assert made is not None, "a launch for one device waits for another one's"
                for at, value, claim in zip(part.writes, made.values, made.claims, strict=True):
                    outputs.values[at], outputs.claims[at] = value, claim
        return outputs

    def _launch(
        self, group: Group, operands: Sequence[ShardedBuffer | Outputs], numbers: Sequence[Any]
    ) -> Outputs | None:
        """Allocate the results of a group and launch.

        Returns None, and has done nothing, if some devices would wait for operands of others.
        """
        blocks: list[LocalArray] = []
        reads: dict[Memory, None] = {}  # distinct ones
        for n, own in group.takes:
            operand = operands[n]
            values = operand.values
            claims = operand.claims
            for at in own:
                blocks.append(values[at])
                reads[claims[at].memory] = None
        if group.alone and not waits_alike(group.stream, reads):
            return None
        runtime = self.runtime
        claims = [runtime.claim(room) for room in group.rooms]
        memories = [claim.memory for claim in claims]
        values, work = group.launch.on(blocks, [memory.raw for memory in memories], numbers)
        runtime.submit(group.stream, self.name, work, reads, memories, scoped=False)
        if len(claims) < len(values):  # which share one memory
            claims *= len(values)
        return Outputs(values, claims, False)


def waits_alike(lead: Stream, reads: dict[Memory, None]) -> bool:
    """Whether all that a launch would wait for is work of one other stream, if there is any."""
    first = None
    for memory in reads:
        written = memory.written
        if written is None or written[0] is lead or written[0] is first:
            continue
        stream, tick = written
        if tick <= stream.done or tick <= lead.seen.get(stream, 0):
            continue
        if first is not None:
            return False
        first = stream
    return True


def launched(plan: CallPlan, operands: Sequence[tuple[Dtype, Tiling | None]]) -> Launched | None:
    """Return calls as launches, if the backend has kernels for a function on such blocks.

    Of operands that are numbers the tiling is None.
    """
    blocks = [tiling for _, tiling in operands if tiling is not None]
    shapes = [[of.shard_shapes[call.home] for of in blocks] for call in plan.calls]
    takes = [[(n, call.home) for n in range(len(blocks))] for call in plan.calls]
    scalars = [n for n, (_, tiling) in enumerate(operands) if tiling is None]
    return _launched(plan, [dtype for dtype, _ in operands], scalars, shapes, takes)


def launched_merges(
    plan: CallPlan, inputs: Sequence[Sequence[int]], kernel: Callable[[int], Any]
) -> Launched | None:
    """Return calls as launches that each merge parts of the shape and type of their result.

    `kernel` takes how many these are, and gives a function of the backend's namespace, or None.
    """
    if len(set(map(len, inputs))) != 1 or (function := kernel(len(inputs[0]))) is None:
        return None
    calls = [dataclasses.replace(call, site=()) for call in plan.calls]
    plan = dataclasses.replace(plan, kernel=function, calls=calls)
    shapes = [call.shapes * len(parts) for call, parts in zip(plan.calls, inputs, strict=True)]
    takes = [[(0, part) for part in parts] for parts in inputs]
    return _launched(plan, list(plan.dtypes) * len(inputs[0]), [], shapes, takes)


def _launched(
    plan: CallPlan,
    types: Sequence[Dtype],
    scalars: Sequence[int],
    shapes: Sequence[Sequence[Shape]],
    takes: Sequence[Sequence[tuple[int, int]]],
) -> Launched | None:
    """Return calls as launches, if the backend has kernels for them.

    `scalars` says which of what they take are numbers; for the others `takes` has for each call
    (operand, which of its shards or parts).
    """
    calls = plan.calls
    if not calls or any(call.site or len(set(call.shapes)) != 1 for call in calls):
        return None
    if all(of == call.shapes[0] for call, own in zip(calls, shapes, strict=True) for of in own):
        shapes = [[]]
    elif any(own != shapes[0] for own in shapes):
        return None
    return _in_groups(plan, types, scalars, shapes[0], takes, [call.shapes[0] for call in calls])


def launched_nest(
    plan: CallPlan, nest: Nest, kernel: NestKernel, tilings: Sequence[Tiling]
) -> Launched | None:
    """Return calls of a loop nest as launches, if the backend has a kernel for them.

    What a kernel holds while it runs is a result behind all others.

    Args:
      plan: the calls.
      nest: what is computed.
      kernel: what computes it.
      tilings: of the operands.
    """
    if not plan.calls:
        return None
    shapes = [[of.shard_shapes[call.home] for of in tilings] for call in plan.calls]
    lengths = [tuple(nest.lengths(own)) for own in shapes]
    if kernel.room is not None:
        rooms = [kernel.room(own) for own in lengths]
        calls = [
            dataclasses.replace(call, shapes=(*call.shapes, (room,)))
            for call, room in zip(plan.calls, rooms, strict=True)
        ]
        kinds, outs = [*plan.dtypes, ROOM], [*plan.tilings, plan.tilings[0]]
        plan = dataclasses.replace(plan, calls=calls, dtypes=kinds, tilings=outs)
    types = [*nest.operand_types, *[number.dtype for number in kernel.numbers]]
    scalars = range(len(tilings), len(types))
    takes = [[(n, call.home) for n in range(len(tilings))] for call in plan.calls]
    return _in_groups(plan, types, scalars, (), takes, lengths)


def _in_groups(
    plan: CallPlan,
    types: Sequence[Dtype],
    scalars: Sequence[int],
    blocks: Sequence[Shape],
    takes: Sequence[Sequence[tuple[int, int]]],
    shapes: Sequence[Shape],
) -> Launched | None:
    """Return calls as launches; `blocks` are of any call's operands, `shapes` of what each does."""
    calls, runtime = plan.calls, plan.runtime
    if runtime.backend.host_readable:  # which calls functions block by block
        return None
    devices = [place.device for place in devices_of(plan.tilings[0])]
    alike: dict[Any, list[int]] = {}
    for number, call in enumerate(calls):
        alike.setdefault(devices[call.home].domain, []).append(number)
    alone = [[number] for number in range(len(calls))]
    ways = [alone] if len(alike) == len(calls) else [list(alike.values()), alone]
    if runtime.settings.partition_mode == "green":  # a launch would have one device's share
        ways = [alone]
    for way in ways:
        groups = [_group(plan, types, scalars, blocks, takes, shapes, own) for own in way]
        launchable = [group for group in groups if group is not None]
        if len(launchable) == len(groups):
            return Launched(launchable, [types[n] for n in scalars], plan)
    return None


def _group(
    plan: CallPlan,
    types: Sequence[Dtype],
    scalars: Sequence[int],
    blocks: Sequence[Shape],
    takes: Sequence[Sequence[tuple[int, int]]],
    shapes: Sequence[Shape],
    numbers: Sequence[int],
) -> Group | None:
    """Return some calls of a chip, by their numbers, as one launch."""
    runtime, calls, dtypes = plan.runtime, plan.calls, plan.dtypes
    devices = devices_of(plan.tilings[0])
    batches = [numbers, *([[n] for n in numbers] if len(numbers) > 1 else [])]
    homes = [devices[calls[batch[0]].home].device for batch in batches]
    streams = [device.stream for device in homes]
    rooms = [
        [
            room_on(devices[calls[n].home], calls[n].shapes[result], dtype, stream)
            for result, dtype in enumerate(dtypes)
            for n in batch
        ]
        for batch, stream in zip(batches, streams, strict=True)
    ]
    largest, pool = max(room.nbytes for room in rooms[0]), homes[0].domain.pool
    together = largest < runtime.settings.small_bytes and not pool.is_limited
    own = [[shapes[n] for n in batch] for batch in batches]
    parts = list(zip(streams, own, strict=True))
    launches = runtime.backend.calls(
        plan.kernel, types, scalars, dtypes, parts, blocks, together=together
    )
    if launches is None:
        return None
    batches_of_calls = []
    for batch, stream, launch, each in zip(batches, streams, launches, rooms, strict=True):
        written = tuple(each)
        if together:  # launches may have more to keep there than results
            written = (dataclasses.replace(one_room(each), nbytes=launch.nbytes),)
        places = [place for of in zip(*[takes[n] for n in batch], strict=True) for place in of]
        taken = itertools.groupby(places, operator.itemgetter(0))
        runs = tuple((n, tuple(at for _, at in of)) for n, of in taken)
        writes = tuple(len(calls) * result + n for result in range(len(dtypes)) for n in batch)
        batches_of_calls.append(Group(tuple(batch), writes, runs, stream, launch, written, ()))
    return dataclasses.replace(batches_of_calls[0], alone=tuple(batches_of_calls[1:]))
