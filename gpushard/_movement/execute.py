"""THE executor: it runs every `Plan`.

It allocates the whole peak before the first copy, runs the steps in the caller or gives them to the
streams of the domains that are written, and puts the result together. What a domain cannot read
comes by messages, see `messages`, or else by way of page-locked memory, within `pinned_bytes`; see
`host_staging`. Ordinary host memory beside devices is out of the reach of their streams: the caller
copies within it itself.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from gpushard._geometry.free_boxes import tiling_of_boxes
from gpushard._geometry.tiling import Tiling
from gpushard._movement.buffer import Operands, ShardedBuffer, claim_nothing
from gpushard._movement.distinct_blocks import box_of
from gpushard._movement.from_host import alias_host, from_host
from gpushard._movement.host_staging import PARTS_PER_STEP, Staged, claim_slots
from gpushard._movement.messages import messages_for
from gpushard._movement.plan import FLAT, Plan, Step
from gpushard._movement.plan_streams import Prepared
from gpushard._movement.planning.aliasing import COPY, EMPTY, VIEW
from gpushard._movement.sharding_devices import devices_of
from gpushard._movement.to_host import read_host
from gpushard._runtime.claims import Claim
from gpushard._runtime.launch import Outputs, allocate_now, launch
from gpushard._runtime.memory import Memory
from gpushard._runtime.runtime import Runtime
from gpushard._typing import HostArray, Index, LocalArray, Shape
from gpushard.errors import ExecutionError, OutOfMemoryError, ShardingError

_NOTHING = Outputs([], [], True)
"""What a plan writes that only looks at its sources."""


def check_runtime(runtime: Runtime, *tilings: Tiling) -> None:
    """Check that all arrays are on devices of one runtime."""
    if any([devices_of(tiling)[0].runtime is not runtime for tiling in tilings]):
        raise ShardingError(
            "the sharding names devices of another runtime than the array's, and arrays of "
            "different runtimes do not mix; take all from one gpushard.devices()",
            argument="sharding",
        )


def run(
    prepared: Prepared,
    sources: Sequence[ShardedBuffer],
    name: str = "reshard",
    fill: np.generic | None = None,
    steps: Sequence[Step] | None = None,
) -> ShardedBuffer:
    """Run a plan that makes an array, or other steps into the same blocks.

    Small movements of data that is there run at once, in the caller; others are given to streams.

    Raises:
      OutOfMemoryError: a device has no room; nothing has changed.
      ExecutionError: the work that should have made a value failed; only by the host, who waits.
    """
    plan = prepared.plan
    if prepared.by_host:
        for source in sources:
            source.wait()
        if not prepared.within:
            return _through_host(plan, sources[0])
    if not plan.allocations:
        return _assembled(prepared, sources, _NOTHING)
    runtime, count, dtype = prepared.runtime, prepared.count, sources[0].dtype
    here = count is not None or prepared.few
    for source in sources:
        here = here and (source.settled or source.is_settled())
    if count is not None and here:
        claim = count()
        values: list[Any] = [np.empty(shape, dtype) for _, shape, _ in plan.allocations]
        outputs = Outputs(values, [claim] * len(values), True)
    elif prepared.by_host:
        outputs = allocate_now(runtime, prepared.rooms(dtype))
    else:
        submit = functools.partial(_submit, prepared, steps or plan.steps, sources, name, fill)
        streams = list(prepared.streams.values())
        outputs = launch(runtime, prepared.rooms(dtype), submit, streams, here=here)
    if outputs.settled:
        operands = [*(value for source in sources for value in source.values), *outputs.values]
        for step in steps or plan.steps:
            run_step(runtime, step, operands, fill)
    return _assembled(prepared, sources, outputs)


def _submit(
    prepared: Prepared,
    steps: Sequence[Step],
    sources: Sequence[ShardedBuffer],
    name: str,
    fill: np.generic | None,
    outputs: Outputs,
) -> None:
    """Give the steps to streams; inside `commit`."""
    _submit_steps(prepared, steps, Operands.of(*sources, outputs), name, fill)


def _submit_steps(
    prepared: Prepared,
    steps: Sequence[Step],
    operands: Operands,
    name: str,
    fill: np.generic | None,
    replaced: frozenset[Memory] = frozenset(),
) -> None:
    """Give every step to the stream of its domain; inside `commit`.

    Of the memories `replaced` nothing old stays, so that an old error is over, too.
    """
    runtime, plan = prepared.runtime, prepared.plan
    messages = None
    if prepared.sent:
        messages = messages_for(runtime, plan, prepared.sent, prepared.streams, operands, name)
    slots = claim_slots(runtime, plan) if prepared.staged and messages is None else {}
    ticks: dict[int, int] = {}
    for number, step in enumerate(steps):
        if messages is not None and messages.must_go_first(step):
            ticks |= messages.submit()
        stream = prepared.streams[step.domain]
        until = {operands.memories[of]: ticks[written] for of, written in step.after}
        reads, writes = operands.memories_of(step.reads), operands.memories_of(step.writes)
        forget = replaced.intersection(writes) if replaced and not step.part else ()
        sent = set() if messages is None else messages.domains(step)
        far = sent or (plan.out_of_reach(step) if slots else set())
        now = dataclasses.replace(step, phases=()) if far else step
        if not (far and step.part):  # else its blocks are begun already
            tick = runtime.submit(
                stream,
                name,
                functools.partial(run_step, runtime, now, operands.arrays, fill, forget),
                () if far else reads,
                writes,
                part=step.part * PARTS_PER_STEP,
                until=until,
                scoped=False,
            )
        if messages is not None and sent:
            messages.add(step, number, until, writes)
            continue
        if far:
            way = Staged(runtime, step, stream, name, operands, until, slots, far)
            tick = way.submit(writes)
        ticks[number] = tick
    if messages is not None:
        messages.submit()


def run_step(
    runtime: Runtime,
    step: Step,
    operands: Sequence[LocalArray],
    fill: np.generic | None = None,
    forget: Collection[Memory] = (),
) -> None:
    """Make the copies and fills of one step.

    What failed to make the memories `forget`, of which nothing old stays, matters no more.
    """
    for memory in forget:
        memory.error = None
    for phase in step.phases:
        runtime.backend.copy_phase(phase, operands, step.domain)
    if step.fills:
        assert fill is not None, "fills without a constant"
        boxes = [view.of(operands[to]) for to, view in step.fills]
        runtime.backend.fill_boxes(boxes, fill, step.domain)


def _assembled(
    prepared: Prepared, sources: Sequence[ShardedBuffer], outputs: Outputs
) -> ShardedBuffer:
    plan, first = prepared.plan, sources[0]
    dtype, operands, held = first.dtype, first.values, first.claims
    settled = outputs.settled and first.settled
    if settled and len(sources) > 1:
        settled = all([of.settled for of in sources])
    if plan.writes_all:
        operands, held = outputs.values, outputs.claims
    elif len(sources) > 1:
        operands = [value for source in sources for value in source.values]
        held = [claim for source in sources for claim in source.claims]
    order = plan.order
    if order is not None:
        values, claims = [operands[of] for of in order], [held[of] for of in order]
        return ShardedBuffer(plan.destination, dtype, values, claims, settled)
    values, claims = [], []
    nothing: Claim | None = None
    shapes = plan.destination.shard_shapes
    for position, (kind, of, index) in enumerate(plan.slots):
        shape = shapes[position]
        if kind == COPY:
            values.append(outputs.values[of])
            claims.append(outputs.claims[of])
        elif kind == EMPTY:
            place = prepared.places[position]
            values.append(place.device.runtime.backend.empty(place.memory_domain, shape, dtype))
            nothing = nothing or claim_nothing(place)
            claims.append(nothing)
        else:
            value = operands[of]
            if kind == VIEW:
                value = value[index]
            elif kind == FLAT:
                value = value.ravel()[index]
            values.append(value if value.shape == shape else value.reshape(shape))
            claims.append(held[of])
    return ShardedBuffer(plan.destination, dtype, values, claims, settled)


BEFORE_WRITING = (OutOfMemoryError, ExecutionError)
"""What `run_in_place` raises before it writes anything: no room to stage what is out of reach, or a
value that is not there, for which the host waits."""


def run_in_place(
    prepared: Prepared, sources: Sequence[ShardedBuffer], name: str, fill: np.generic | None = None
) -> None:
    """Run a plan that writes into the blocks of its first source, which nobody else sees.

    If this raises, but for `BEFORE_WRITING`, nobody knows what is in them.
    """
    plan, runtime, base = prepared.plan, prepared.runtime, sources[0]
    homes = plan.operand_of[plan.copied].tolist()
    if prepared.by_host:
        for source in sources:
            source.wait()
    ready = prepared.few and all([source.is_settled() for source in sources[1:]])
    inline = prepared.by_host or (ready and is_idle(base, homes))
    if not inline:
        submit = functools.partial(
            _submit_in_place, prepared, sources, homes, name, fill, ready=ready
        )
        inline = runtime.commit(submit, list(prepared.streams.values()))
    if inline:
        operands = [value for source in sources for value in source.values]
        for step in plan.steps:
            run_step(runtime, step, operands, fill)


def is_idle(buffer: ShardedBuffer, positions: Sequence[int]) -> bool:
    """Whether nothing reads or writes some shards, and nothing failed; for a sole owner."""
    for position in positions:
        memory = buffer.claims[position].memory
        if memory.written is not None or memory.used or memory.error is not None:
            return False
    return True


def _submit_in_place(
    prepared: Prepared,
    sources: Sequence[ShardedBuffer],
    homes: Sequence[int],
    name: str,
    fill: np.generic | None,
    *,
    ready: bool,
) -> bool:
    """Give the steps to streams, unless it turns out that nothing has to be waited for.

    What failed to make a block keeps being its error, without being read: a memory's error goes
    only where all of its content does. A memory may hold several blocks: all of the array's that
    lie in it have to be covered. If streams of several domains write them, each waits for the one
    before it, as nothing says which block of a memory a tick has written.
    """
    base, plan, operands = sources[0], prepared.plan, Operands.of(*sources)
    mine = [operands.memories[home] for home in homes]
    if ready and not any(m.busy() or m.error is not None for m in dict.fromkeys(mine)):
        return True
    covered = plan.covers[plan.wanted.of_device].tolist()
    others = {c.memory for c, all_of_it in zip(base.claims, covered, strict=True) if not all_of_it}
    replaced = frozenset(memory for memory in mine if memory not in others)
    base.settled = False
    steps: Sequence[Step] = plan.steps
    writer: dict[Memory, int] = {}
    domains = [prepared.places[home].memory_domain for home in homes]
    if any([writer.setdefault(m, d) != d for m, d in zip(mine, domains, strict=True)]):
        steps = [dataclasses.replace(step, part=0, after=()) for step in steps]
    _submit_steps(prepared, steps, operands, name, fill, replaced)
    return False


def is_out_of_reach(prepared: Prepared) -> bool:
    """Whether a source has to change its kind of memory first, see `within_reach`."""
    return prepared.by_host and not prepared.within


def within_reach(source: ShardedBuffer, destination: Tiling) -> ShardedBuffer:
    """Return data where copies into the memory of a destination can read them.

    Only ordinary host memory is out of the reach of streams; what is in it, or goes there, first
    changes its kind of memory, and nothing else.
    """
    kind = devices_of(destination)[0].domain.kind
    places = devices_of(source.tiling)
    if places[0].domain.kind == kind or "unpinned_host" not in (places[0].domain.kind, kind):
        return source
    beside = tuple(place.device.memory(kind) for place in places)
    tiling = source.tiling
    moved = tiling_of_boxes(tiling.shape, beside, tiling.starts, tiling.stops)
    return _read_and_put(source, moved)


def _through_host(plan: Plan, source: ShardedBuffer) -> ShardedBuffer:
    """Return the result of a reshard between ordinary host memory and that of devices."""
    return _read_and_put(source, plan.destination)


def _read_and_put(source: ShardedBuffer, destination: Tiling) -> ShardedBuffer:
    runtime = source.runtime
    value = read_host(source)
    readable = devices_of(source.tiling)[0].domain.readable
    to_host = devices_of(destination)[0].domain.kind == "unpinned_host"
    if to_host and not readable:  # then the value was fetched for this alone
        return alias_host(runtime, destination, source.dtype, value)
    return from_host(runtime, destination, source.dtype, functools.partial(_box, value))


def _box(value: HostArray, index: Index, shape: Shape) -> HostArray:
    return box_of(value, index)
