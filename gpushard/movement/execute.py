"""Running plans: allocate everything, then alias, view and copy."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard.cache import BoundedCache
from gpushard.errors import ShardingError
from gpushard.geometry.tiling import Tiling
from gpushard.movement.bridge import PARTS_PER_STEP, Bridge, claim_slots, strangers
from gpushard.movement.buffer import ShardedBuffer, claim_nothing, devices_of
from gpushard.movement.dim_map import Piece, identity
from gpushard.movement.plan import Plan, make_plan
from gpushard.movement.recipe import Recipe
from gpushard.movement.reuse import ALIAS, COPY, EMPTY
from gpushard.movement.steps import Step
from gpushard.movement.ways import Way, way_of
from gpushard.movement.windows import Window, WindowAt, make_window, started
from gpushard.runtime.device import Place
from gpushard.runtime.memory import Claim
from gpushard.runtime.runtime import Runtime
from gpushard.typing import LocalArray, Shape

_COPY = Way(by_host=False, within=True, up=False, place=0)
"""Within the memory of devices."""


def plan_for(source: ShardedBuffer, destination: Tiling, piece: Piece | None = None) -> Plan:
    """Return the cached plan that moves `source` to `destination`.

    Args:
      source: the data to move.
      destination: tiling of the result, of the piece's shape.
      piece: where its elements come from; None for a reshard.

    Raises:
      ShardingError: source and destination belong to different runtimes.
    """
    plans: BoundedCache[Plan] = source.runtime.plans
    itemsize, root_nbytes = source.dtype.itemsize, source.root_nbytes
    key = (source.tiling, destination, piece, itemsize, root_nbytes)
    plan = plans.get(key)
    if plan is None:
        plan = new_plan(source, destination, piece)
        plans.put(key, plan, plan.nbytes)
    return plan


def new_plan(source: ShardedBuffer, destination: Tiling, piece: Piece | None = None) -> Plan:
    """Return a plan that is used once; arguments as for `plan_for`."""
    itemsize, root_nbytes = source.dtype.itemsize, source.root_nbytes
    if devices_of(destination)[0].runtime is not source.runtime:
        raise ShardingError(
            "the sharding names devices of another runtime than the array's; take both from "
            "one gpushard.devices()",
            argument="sharding",
        )
    piece = piece or identity(source.tiling.shape)
    settings, readable = source.runtime.settings, source.runtime.backend.host_readable
    return make_plan(
        source.tiling,
        destination,
        piece,
        itemsize,
        root_nbytes,
        relay_bytes=settings.relay_bytes,
        engine_bytes=None if readable else settings.engine_bytes,
    )


def window_to(
    source: Tiling, destination: Tiling, piece: Piece, at: tuple[int, ...], itemsize: int
) -> Window | None:
    """Return the part of an array that starts anywhere, if it is planned once for all starts.

    Args:
      source: tiling of the array.
      destination: tiling of the result, of the piece's shape.
      piece: the part, at some start.
      at: numbers of its maps whose starts are left open.
      itemsize: bytes of an element.
    """
    of, to = devices_of(source)[0], devices_of(destination)[0]
    if of.domain.kind != to.domain.kind or of.device.runtime is not to.device.runtime:
        return None
    window = make_window(source, destination, piece, at, itemsize)
    if window is not None:  # what is asked for at every start
        way_of(WindowAt(source, destination, window.recipe))
        _claim_of(window.recipe, devices_of(destination))
    return window


def part_for(
    source: ShardedBuffer, window: Window, starts: tuple[int, ...], piece: Piece
) -> Plan | WindowAt:
    """Return what takes a part that starts somewhere; the piece is the part at some start."""
    plans = source.runtime.plans
    found: WindowAt | Piece | None = plans.get((window, starts))
    if found is None:
        found = window.starting(starts) or started(piece, starts, window.at)
        plans.put((window, starts), found, 1000 + 300 * len(window.recipe.slots))
    return found if isinstance(found, WindowAt) else plan_for(source, window.destination, found)


@dataclasses.dataclass(slots=True)
class Targets:
    """The blocks that a plan writes."""

    values: list[LocalArray]
    claims: list[Claim]
    inline: bool
    """Whether the caller runs the copies; otherwise they were given to streams."""


def run_plan(source: ShardedBuffer, plan: Plan | WindowAt, name: str = "reshard") -> ShardedBuffer:
    """Run a plan.

    Small movements of data that is there run at once, in the caller; others are given to the copy
    streams of the destination's memory domains.

    Args:
      source: laid out as the plan says.
      plan: the movement.
      name: what it is, for errors.

    Raises:
      OutOfMemoryError: a device has no room; nothing has changed.
    """
    runtime, recipe = source.runtime, plan.recipe
    targets = Targets([], [], True)
    if _is_small(runtime, recipe) and source.is_settled():
        targets = _allocate_small(runtime, plan, source.dtype)
        operands = [*source.values, *targets.values]
        for part in recipe.steps:
            run_step(runtime, part, operands)
    elif recipe.allocations:
        way = way_of(plan)
        streams = [way.stream(runtime.domains[domain]) for domain in recipe.domains]
        step = functools.partial(_submit, runtime, plan, source, name)
        targets = runtime.commit(step, streams)
        if targets.inline:
            operands = [*source.values, *targets.values]
            for part in recipe.steps:
                run_step(runtime, part, operands)
    return assemble(plan, source, targets)


def _submit(runtime: Runtime, plan: Plan | WindowAt, source: ShardedBuffer, name: str) -> Targets:
    """Allocate every block, then give the copies to streams unless the caller can run them."""
    recipe = plan.recipe
    small = recipe.total <= runtime.settings.shared_bytes
    inline = small and runtime.backend.host_readable and source.is_settled()
    devices, way = devices_of(plan.destination), way_of(plan)
    blocks, largest = recipe.allocations, recipe.largest
    targets = allocate(runtime, devices, blocks, largest, source.dtype, inline, way)
    if not targets.inline:
        _submit_steps(runtime, plan, source, targets, name)
    return targets


def _is_small(runtime: Runtime, recipe: Recipe) -> bool:
    """Whether the caller makes the copies of a plan, if what is copied is there, at once."""
    settings = runtime.settings
    return (
        recipe.largest < settings.small_bytes
        and recipe.total <= settings.shared_bytes
        and bool(recipe.allocations)
        and runtime.backend.host_readable
    )


def _allocate_small(runtime: Runtime, plan: Plan | WindowAt, dtype: np.dtype[Any]) -> Targets:
    """Make memory for the small blocks of a plan, as `allocate` does."""
    recipe = plan.recipe
    claim = runtime.commit(recipe.claim or _claim_of(recipe, devices_of(plan.destination)))
    values = [np.empty(shape, dtype) for _, shape, _ in recipe.allocations]
    return Targets(values, [claim] * len(values), inline=True)


def _claim_of(recipe: Recipe, places: Sequence[Place]) -> Callable[[], Claim]:
    """Return what counts the blocks of a plan inside `commit`, kept with the recipe."""
    if recipe.claim is None and recipe.allocations:
        charges = tuple((places[home].account, n) for home, _, n in recipe.allocations)
        first = places[recipe.allocations[0][0]]
        recipe.claim = functools.partial(first.runtime.claim_charged, first.domain.pool, charges)
    claim: Callable[[], Claim] = recipe.claim
    return claim


def allocate(
    runtime: Runtime,
    places: Sequence[Place],
    blocks: Sequence[tuple[int, Shape, int]],
    largest: int,
    dtype: np.dtype[Any],
    inline: bool,
    way: Way = _COPY,
) -> Targets:
    """Make memory for blocks; inside `commit`.

    Args:
      runtime: of the places.
      places: those that pay.
      blocks: (position of the place that pays, shape, bytes) of each.
      largest: bytes of the largest of them.
      dtype: type of the elements.
      inline: whether the caller would run the copies, if the memory is free at once.
      way: which streams write them otherwise.
    """
    if inline and largest < runtime.settings.small_bytes:
        claim = runtime.claim_small([(places[home], nbytes) for home, _, nbytes in blocks])
        values = [np.empty(shape, dtype) for _, shape, _ in blocks]
        return Targets(values, [claim] * len(values), inline=True)
    claims = [
        runtime.claim(places[home], nbytes, None if inline else way.stream(places[home].domain))
        for home, _, nbytes in blocks
    ]
    values = [
        runtime.backend.view(claim.memory.raw, shape, dtype)
        for claim, (_, shape, _) in zip(claims, blocks, strict=True)
    ]
    return Targets(values, claims, inline and not any(c.memory.busy() for c in claims))


def _submit_steps(
    runtime: Runtime, plan: Plan | WindowAt, source: ShardedBuffer, targets: Targets, name: str
) -> None:
    """Give every step to the stream of its domain."""
    steps, way = plan.recipe.steps, way_of(plan)
    slots = claim_slots(runtime, steps)
    operands = [*source.values, *targets.values]  # the items must hold no claim
    memories = [claim.memory for claim in (*source.claims, *targets.claims)]
    ticks: list[int] = []
    for step in steps:
        stream = way.stream(runtime.domains[step.domain])
        until = {memories[of]: ticks[written] for of, written in step.after}
        if slots and strangers(runtime, step):
            bridge = Bridge(runtime, step, stream, name, operands, memories, until, slots)
            ticks.append(bridge.submit())
            continue
        tick = runtime.submit(
            stream,
            name,
            functools.partial(run_step, runtime, step, operands),
            tuple(dict.fromkeys(memories[of] for of in step.reads)),
            [memories[to] for to in step.writes],
            part=step.part * PARTS_PER_STEP,
            until=until,
            scoped=False,
        )
        ticks.append(tick)


def run_step(runtime: Runtime, step: Step, operands: Sequence[LocalArray]) -> None:
    """Make the copies of one step between dense operands."""
    for phase in step.phases:
        runtime.backend.copy_phase(phase, operands, step.domain)


def assemble(plan: Plan | WindowAt, source: ShardedBuffer, targets: Targets) -> ShardedBuffer:
    """Return the result of a plan: written, aliased and viewed blocks by device."""
    if plan.recipe.writes_all:
        return ShardedBuffer(
            plan.destination,
            source.dtype,
            [targets.values[of] for _, of, _ in plan.recipe.slots],
            [targets.claims[of] for _, of, _ in plan.recipe.slots],
            targets.inline and source.settled,
        )
    values: list[LocalArray] = []
    claims: list[Claim] = []
    shapes = plan.destination.shard_shapes
    nothing: Claim | None = None
    for position, (kind, of, index) in enumerate(plan.recipe.slots):
        if kind == COPY:
            values.append(targets.values[of])
            claims.append(targets.claims[of])
        elif kind == EMPTY:
            values.append(
                source.runtime.backend.empty(way_of(plan).place, shapes[position], source.dtype)
            )
            nothing = nothing or claim_nothing(devices_of(plan.destination)[0])
            claims.append(nothing)
        else:
            value = source.values[of]
            if kind != ALIAS:
                value = value[index]
                if value.shape != shapes[position]:
                    value = value.reshape(shapes[position])
            values.append(value)
            claims.append(source.claims[of])
    settled = targets.inline and source.settled
    return ShardedBuffer(plan.destination, source.dtype, values, claims, settled)
