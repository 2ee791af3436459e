"""Plans of movements of one array, kept by the runtime: to another layout, or of a part of it."""

from __future__ import annotations

from gpushard.cache import BoundedCache
from gpushard.errors import ShardingError
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer, devices_of
from gpushard.movement.execute import is_out_of_reach, launch_of, run, within_reach
from gpushard.movement.plan import Plan
from gpushard.movement.planning.dims import Piece, identity
from gpushard.movement.planning.reshard import make_plan
from gpushard.movement.planning.windows import Window, make_window, started


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
    if devices_of(destination)[0].runtime is not source.runtime:
        raise ShardingError(
            "the sharding names devices of another runtime than the array's; take both from "
            "one gpushard.devices()",
            argument="sharding",
        )
    settings, readable = source.runtime.settings, source.runtime.backend.host_readable
    return make_plan(
        source.tiling,
        destination,
        piece or identity(source.tiling.shape),
        source.dtype.itemsize,
        source.root_nbytes,
        relay_bytes=settings.relay_bytes,
        engine_bytes=None if readable else settings.engine_bytes,
    )


def run_part(source: ShardedBuffer, destination: Tiling, piece: Piece, name: str) -> ShardedBuffer:
    """Return a part of an array, which may lie in another kind of memory than the array.

    Args:
      source: the data.
      destination: tiling of the part.
      piece: where its elements come from.
      name: what it is, for errors.

    Raises:
      OutOfMemoryError: a device has no room; nothing has changed.
    """
    plan = plan_for(source, destination, piece)
    if is_out_of_reach(plan):  # what goes through the host goes there as it lies
        source = within_reach(source, destination)
        plan = plan_for(source, destination, piece)
    return run(plan, (source,), name)


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
    if window is not None:
        launch_of(window.plan)  # which those of all starts have
    return window


def part_for(source: ShardedBuffer, window: Window, starts: tuple[int, ...], piece: Piece) -> Plan:
    """Return what takes a part that starts somewhere; the piece is the part at some start."""
    plans = source.runtime.plans
    plan: Plan | Piece | None = plans.get((window, starts))
    if plan is None:
        plan = window.starting(starts) or started(piece, starts, window.at)
        plans.put((window, starts), plan, 1000 + 300 * len(window.plan.slots))
    return plan if isinstance(plan, Plan) else plan_for(source, window.destination, plan)
