"""THE executor: it runs every `Plan`.

It allocates the whole peak before the first copy, runs the steps in the caller or gives them to the
streams of the domains that are written, and puts the result together. What a domain cannot read
comes by messages, see `messages`, or else by way of page-locked memory, within `pinned_bytes`; see
`host_staging`. Ordinary host memory
beside devices is out of the reach of their streams: the caller copies within it itself.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from gpushard.errors import ExecutionError, OutOfMemoryError, ShardingError
from gpushard.frozen import dataclass
from gpushard.geometry.free_boxes import tiling_of_boxes
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer, claim_nothing, devices_of
from gpushard.movement.host import alias_host, box_of, from_host, read_host
from gpushard.movement.host_staging import PARTS_PER_STEP, Staged, claim_slots
from gpushard.movement.messages import Messages, buffer_sizes, claim_buffers
from gpushard.movement.plan import FLAT, Plan, Step
from gpushard.movement.planning.aliasing import COPY, EMPTY, VIEW
from gpushard.runtime.memory import Account, Claim, Memory, packed
from gpushard.runtime.pool import Pool
from gpushard.runtime.runtime import Place, Runtime
from gpushard.runtime.stream import Stream
from gpushard.runtime.traffic import Link
from gpushard.typing import HostArray, Index, LocalArray, Shape


@dataclasses.dataclass(slots=True)
class Targets:
    """The blocks that a plan writes."""

    values: list[LocalArray]
    claims: list[Claim]
    inline: bool  # whether the caller runs the steps; otherwise they were given to streams


_NO_TARGETS = Targets([], [], True)
"""What a plan writes that only looks at its sources."""


@dataclass(frozen=True, slots=True)
class Shared:
    """One memory for all blocks of a plan."""

    pool: Pool
    """Where it comes from."""

    charges: tuple[tuple[Account, int], ...]
    """Who pays for each block, and for how many bytes."""

    shapes: tuple[Shape, ...]
    """Shapes of the blocks."""

    starts: tuple[int, ...]
    """Where they begin in it."""

    nbytes: int
    """Bytes of it."""

    stream: Stream
    """The stream that writes it."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What a runtime has to say to a plan; kept with it."""

    places: Sequence[Place]  # the devices of the result, or the memories beside them
    # Whether the host makes the copies, as no stream can reach the memory on one side.
    by_host: bool
    within: bool  # whether all is the same kind of memory
    streams: dict[int, Stream]  # the stream that writes each memory domain
    staged: bool  # whether some step reads what its domain cannot reach
    sent: dict[Link, int]  # what goes by messages, with the bytes of the buffers for them
    few: bool  # whether the caller runs the steps, if what they read is there
    # Counts all blocks, where they are so small that each owns its bytes.
    claim: Callable[[], Claim] | None

    shared: Shared | None
    """The memory of all blocks, where these are small and streams write them, in one domain."""


def launch_of(plan: Plan) -> Launch:
    """Return what the runtime of a plan's devices has to say to it."""
    launch: Launch | None = plan.launch
    if launch is None:
        launch = plan.launch = _make_launch(plan)
    return launch


def _make_launch(plan: Plan) -> Launch:
    places = devices_of(plan.destination)
    first, runtime = places[0], places[0].device.runtime
    kind, kinds = first.domain.kind, {devices_of(of)[0].domain.kind for of in plan.sources}
    by_host, up = "unpinned_host" in {kind, *kinds}, "pinned_host" in kinds and kind == "device"
    domains = [runtime.domains[domain] for domain in plan.writers]
    settings, claim = runtime.settings, None
    nbytes = plan.bytes_written if plan.in_place else plan.total
    readable = runtime.backend.host_readable
    few = nbytes <= settings.shared_bytes and readable
    if few and not by_host and plan.allocations and plan.largest < settings.small_bytes:
        charges = tuple((places[home].account, n) for home, _, n in plan.allocations)
        claim = functools.partial(runtime.claim_at_once, first.domain.pool, charges, plan.total)
    streams = {domain.index: domain.feed if up else domain.copy for domain in domains}
    if kinds == {kind} == {"device"} and not readable:
        taking_part = {*places}.union(*map(devices_of, plan.sources))
        chips = {place.domain for place in taking_part}
        if len(taking_part if settings.partition_mode == "green" else chips) == 1:
            streams = {first.domain.index: first.device.stream}  # in turn with what computes there
    staged = bool(plan.staging)
    shared = None if readable or by_host or staged else _shared(plan, places, streams)
    sent = {} if by_host else buffer_sizes(plan, runtime)
    shared = None if sent else shared
    return Launch(places, by_host, kinds == {kind}, streams, staged, sent, few, claim, shared)


def _shared(plan: Plan, places: Sequence[Place], streams: dict[int, Stream]) -> Shared | None:
    """Return one memory for all blocks of a plan, if they are several small ones in one domain."""
    runtime, blocks = places[0].device.runtime, plan.allocations
    if len(plan.writers) > 1 or len(blocks) < 2 or plan.largest >= runtime.settings.small_bytes:
        return None
    first = places[blocks[0][0]]
    if first.domain.pool.is_limited:
        return None
    starts, nbytes = packed(n for _, _, n in blocks)
    charges = tuple((places[home].account, n) for home, _, n in blocks)
    shapes = tuple(shape for _, shape, _ in blocks)
    return Shared(first.domain.pool, charges, shapes, starts, nbytes, streams[first.memory_domain])


def kept_plan(
    runtime: Runtime,
    make: Callable[..., Plan],
    how: tuple[Any, ...],
    sources: Sequence[ShardedBuffer] = (),
) -> Plan:
    """Return what a planner makes of the runtime, `how` and the roots of sources; kept.

    How much memory the sources keep alive is looked at only where the plan depends on it.
    """
    plans, key = runtime.plans, (make, how)
    known: Plan | None = plans.get(key)
    if known is not None and not known.kept.by_roots:
        return known
    roots = tuple([source.root_nbytes for source in sources])
    plan: Plan | None = plans.get((key, roots))
    if plan is None:
        plan = new_plan(runtime, make, *how, roots)
        if plan.kept.by_roots:
            plans.put((key, roots), plan, plan.nbytes)
        if known is None:
            plans.put(key, plan, plan.nbytes)
    return plan


def new_plan(runtime: Runtime, make: Callable[..., Plan], *how: Any) -> Plan:
    """Make a plan, and tell it which domains reach one another, and what there is for others."""
    plan = make(runtime, *how)
    plan.reaches, plan.pinned_bytes = runtime.backend.reaches, runtime.settings.pinned_bytes
    plan.sends = runtime.backend.sends
    return plan


def check_runtime(runtime: Runtime, *tilings: Tiling) -> None:
    """Check that all arrays are on devices of one runtime."""
    if any([devices_of(tiling)[0].runtime is not runtime for tiling in tilings]):
        raise ShardingError(
            "the sharding names devices of another runtime than the array's, and arrays of "
            "different runtimes do not mix; take all from one gpushard.devices()",
            argument="sharding",
        )


def run(
    plan: Plan,
    sources: Sequence[ShardedBuffer],
    name: str = "reshard",
    fill: np.generic | None = None,
) -> ShardedBuffer:
    """Run a plan that makes an array.

    Small movements of data that is there run at once, in the caller; others are given to streams.

    Raises:
      OutOfMemoryError: a device has no room; nothing has changed.
      ExecutionError: the work that should have made a value failed; only by the host, who waits.
    """
    launch: Launch = plan.launch or launch_of(plan)
    if launch.by_host:
        for source in sources:
            source.wait()
        if not launch.within:
            return _through_host(plan, sources[0])
    if not plan.allocations:
        return _assembled(plan, launch, sources, _NO_TARGETS)
    runtime, settled = sources[0].runtime, launch.claim is not None
    for source in sources:
        settled = settled and (source.settled or source.is_settled())
    if launch.claim is not None and settled:
        claim = launch.claim()
        dtype = sources[0].dtype
        values: list[Any] = [np.empty(shape, dtype) for _, shape, _ in plan.allocations]
        targets = Targets(values, [claim] * len(values), True)
    else:
        submit = functools.partial(_submit, plan, launch, sources, name, fill)
        targets = runtime.commit(submit, () if launch.by_host else list(launch.streams.values()))
    if targets.inline:
        operands = [*(value for source in sources for value in source.values), *targets.values]
        for step in plan.steps:
            run_step(runtime, step, operands, fill)
    return _assembled(plan, launch, sources, targets)


def _submit(
    plan: Plan, launch: Launch, sources: Sequence[ShardedBuffer], name: str, fill: np.generic | None
) -> Targets:
    """Allocate every block, then give the steps to streams unless the caller can run them."""
    runtime = sources[0].runtime
    inline = launch.by_host or (launch.few and all([of.is_settled() for of in sources]))
    targets = _allocated(runtime, plan, launch, sources[0].dtype, inline)
    if not targets.inline:
        operands: list[LocalArray] = []
        claims: list[Claim] = []
        both: list[ShardedBuffer | Targets] = [*sources, targets]
        for blocks in both:
            operands += blocks.values
            claims += blocks.claims
        memories = [claim.memory for claim in claims]  # the items must hold no claim
        _submit_steps(runtime, plan, plan.steps, launch, operands, memories, name, fill)
    return targets


def _allocated(
    runtime: Runtime, plan: Plan, launch: Launch, dtype: np.dtype[Any], inline: bool
) -> Targets:
    """Make memory for all blocks of a plan; inside `commit`."""
    shared = launch.shared
    if shared is not None:
        claim = runtime.claim_shared(shared.pool, shared.charges, shared.nbytes, shared.stream)
        kinds = tuple([(shape, dtype) for shape in shared.shapes])
        views = runtime.backend.views(claim.memory.raw, shared.starts, kinds)
        return Targets(list(views), [claim] * len(kinds), False)
    places, blocks = launch.places, plan.allocations
    streams, view = launch.streams, runtime.backend.view
    claims = [  # no variable has them if one of them fails, as its error has this frame
        runtime.claim(places[home], nbytes, None if inline else streams[places[home].memory_domain])
        for home, _, nbytes in blocks
    ]
    values = [
        view(claim.memory.raw, shape, dtype)
        for claim, (_, shape, _) in zip(claims, blocks, strict=True)
    ]
    if inline and not launch.by_host:
        inline = not any(claim.memory.busy() for claim in claims)
    return Targets(values, claims, inline)


def _submit_steps(
    runtime: Runtime,
    plan: Plan,
    steps: Sequence[Step],
    launch: Launch,
    operands: Sequence[LocalArray],
    memories: Sequence[Memory],
    name: str,
    fill: np.generic | None,
    replaced: frozenset[Memory] = frozenset(),
) -> None:
    """Give every step to the stream of its domain; inside `commit`.

    Of the memories `replaced` nothing old stays, so that an old error is over, too.
    """
    messages = _messages(runtime, plan, launch, operands, memories, name) if launch.sent else None
    slots = claim_slots(runtime, plan) if launch.staged and messages is None else {}
    ticks: dict[int, int] = {}
    for number, step in enumerate(steps):
        if messages is not None and messages.must_go_first(step):
            ticks |= messages.submit()
        stream = launch.streams[step.domain]
        until = {memories[of]: ticks[written] for of, written in step.after} if step.after else {}
        writes = _memories_of(step.writes, memories)
        forget = replaced.intersection(writes) if replaced and not step.part else ()
        reads = _memories_of(step.reads, memories)
        sent = set() if messages is None else messages.domains(step)
        far = sent or (plan.out_of_reach(step) if slots else set())
        now = dataclasses.replace(step, phases=()) if far else step
        if not (far and step.part):  # else its blocks are begun already
            tick = runtime.submit(
                stream,
                name,
                functools.partial(run_step, runtime, now, operands, fill, forget),
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
            way = Staged(runtime, step, stream, name, operands, memories, until, slots, far)
            tick = way.submit(writes)
        ticks[number] = tick
    if messages is not None:
        messages.submit()


def _memories_of(numbers: Sequence[int], memories: Sequence[Memory]) -> tuple[Memory, ...]:
    """Return the memories with some numbers, each once."""
    if len(numbers) == 1:
        return (memories[numbers[0]],)
    return tuple(dict.fromkeys([memories[number] for number in numbers]))


def _messages(
    runtime: Runtime,
    plan: Plan,
    launch: Launch,
    operands: Sequence[LocalArray],
    memories: Sequence[Memory],
    name: str,
) -> Messages | None:
    """Return what sends messages; None if that works no more, or there is no room for it."""

    def stream_of(domain: int) -> Stream:
        return launch.streams.get(domain, runtime.domains[domain].copy)

    of, to = next(iter(launch.sent))
    if not runtime.backend.sends(to, of):
        return None
    buffers = claim_buffers(runtime, launch.sent, stream_of)
    if buffers is None:
        return None
    return Messages(runtime, name, operands, memories, buffers, plan.engine_bytes, stream_of)


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
    plan: Plan, launch: Launch, sources: Sequence[ShardedBuffer], targets: Targets
) -> ShardedBuffer:
    first = sources[0]
    dtype, operands, held = first.dtype, first.values, first.claims
    settled = targets.inline and first.settled
    if settled and len(sources) > 1:
        settled = all([of.settled for of in sources])
    if plan.writes_all:
        operands, held = targets.values, targets.claims
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
            values.append(targets.values[of])
            claims.append(targets.claims[of])
        elif kind == EMPTY:
            place = launch.places[position]
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
    plan: Plan, sources: Sequence[ShardedBuffer], name: str, fill: np.generic | None = None
) -> None:
    """Run a plan that writes into the blocks of its first source, which nobody else sees.

    If this raises, but for `BEFORE_WRITING`, nobody knows what is in them.
    """
    base, launch, runtime = sources[0], launch_of(plan), sources[0].runtime
    homes = plan.operand_of[plan.copied].tolist()
    if launch.by_host:
        for source in sources:
            source.wait()
    ready = launch.few and all([source.is_settled() for source in sources[1:]])
    inline = launch.by_host or (ready and is_idle(base, homes))
    operands = [value for source in sources for value in source.values]
    if not inline:
        submit = functools.partial(
            _submit_in_place, plan, sources, homes, operands, name, fill, ready=ready
        )
        inline = runtime.commit(submit, list(launch.streams.values()))
    if inline:
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
    plan: Plan,
    sources: Sequence[ShardedBuffer],
    homes: Sequence[int],
    operands: Sequence[LocalArray],
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
    base, launch = sources[0], launch_of(plan)
    memories = [claim.memory for source in sources for claim in source.claims]
    mine = [memories[home] for home in homes]
    if ready and not any(m.busy() or m.error is not None for m in dict.fromkeys(mine)):
        return True
    covered = plan.covers[plan.wanted.of_device].tolist()
    others = {c.memory for c, all_of_it in zip(base.claims, covered, strict=True) if not all_of_it}
    replaced = frozenset(memory for memory in mine if memory not in others)
    base.settled = False
    steps: Sequence[Step] = plan.steps
    writer: dict[Memory, int] = {}
    domains = [launch.places[home].memory_domain for home in homes]
    if any([writer.setdefault(m, d) != d for m, d in zip(mine, domains, strict=True)]):
        steps = [dataclasses.replace(step, part=0, after=()) for step in steps]
    _submit_steps(base.runtime, plan, steps, launch, operands, memories, name, fill, replaced)
    return False


def is_out_of_reach(plan: Plan) -> bool:
    """Whether a source has to change its kind of memory first, see `within_reach`."""
    launch = launch_of(plan)
    return launch.by_host and not launch.within


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
