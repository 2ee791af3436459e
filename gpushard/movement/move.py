"""Movement of an array: on streams, or by the host where no stream can reach.

Ordinary host memory beside devices is out of reach of their streams. The caller copies within it
itself; what comes from or goes to devices passes page-locked memory.
"""

from __future__ import annotations

import functools

from gpushard.movement.blocks import box_of
from gpushard.movement.buffer import ShardedBuffer, devices_of
from gpushard.movement.execute import Targets, allocate, assemble, run_plan, run_step
from gpushard.movement.host_copies import alias_host, from_host, read_host
from gpushard.movement.plan import Plan
from gpushard.movement.ways import way_of
from gpushard.movement.windows import WindowAt
from gpushard.typing import HostArray, Index, Shape


def move(source: ShardedBuffer, plan: Plan | WindowAt, name: str = "reshard") -> ShardedBuffer:
    """Run a plan.

    Args:
      source: laid out as the plan says.
      plan: the movement; between memories of different kinds, a reshard.
      name: what it is, for errors.

    Raises:
      OutOfMemoryError: a device has no room; nothing has changed.
      ExecutionError: the work that should have made the value failed; only by the host, who waits.
    """
    way = way_of(plan)
    if not way.by_host:
        return run_plan(source, plan, name)
    source.wait()
    runtime, destination = source.runtime, plan.destination
    if way.within:
        return _run_by_host(source, plan)
    value = read_host(source)
    readable = devices_of(source.tiling)[0].domain.readable
    to_host = devices_of(destination)[0].domain.kind == "unpinned_host"
    if to_host and not readable:  # then the value was fetched for this alone
        return alias_host(runtime, destination, source.dtype, value)
    return from_host(runtime, destination, source.dtype, functools.partial(_box, value))


def _run_by_host(source: ShardedBuffer, plan: Plan | WindowAt) -> ShardedBuffer:
    """Copy within memory that no stream uses, so that what is free is idle."""
    runtime, recipe = source.runtime, plan.recipe
    places = devices_of(plan.destination)
    blocks, largest = recipe.allocations, recipe.largest
    targets = Targets([], [], inline=True)
    if blocks:
        dtype = source.dtype
        make = functools.partial(allocate, runtime, places, blocks, largest, dtype, inline=True)
        targets = runtime.commit(make)
    for step in recipe.steps:
        run_step(runtime, step, [*source.values, *targets.values])
    return assemble(plan, source, targets)


def _box(value: HostArray, index: Index, shape: Shape) -> HostArray:
    return box_of(value, index)
