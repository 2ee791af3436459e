"""Plans of movements of one array, kept by the runtime: to another layout, or of a part of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer, devices_of
from gpushard.movement.execute import (
    check_runtime,
    is_out_of_reach,
    kept_plan,
    launch_of,
    new_plan,
    run,
    within_reach,
)
from gpushard.movement.plan import Plan
from gpushard.movement.planning.dims import Piece, identity
from gpushard.movement.planning.reshard import make_plan
from gpushard.movement.planning.windows import Window, make_window, started
from gpushard.runtime.runtime import Runtime


def plan_for(source: ShardedBuffer, destination: Tiling, piece: Piece | None = None) -> Plan:
    """Return the cached plan that moves `source` to `destination`."""
    how = source.tiling, destination, piece, source.dtype.itemsize
    return kept_plan(source.runtime, _plan, how, (source,))


def _plan(
    runtime: Runtime,
    source: Tiling,
    destination: Tiling,
    piece: Piece | None,
    itemsize: int,
    root_nbytes: Sequence[int],
) -> Plan:
    check_runtime(runtime, destination)
    settings, readable = runtime.settings, runtime.backend.host_readable
    return make_plan(
        source,
        destination,
        piece or identity(source.shape),
        itemsize,
        *root_nbytes,  # of the one source, where that is known
        relay_bytes=settings.relay_bytes,
        engine_bytes=None if readable else settings.engine_bytes,
    )


def move(
    source: ShardedBuffer, destination: Tiling, piece: Piece | None = None, name: str = "reshard"
) -> ShardedBuffer:
    """Return an array in another layout, or a part of it; in whichever kinds of memory."""
    plan = plan_for(source, destination, piece)
    if piece is not None and is_out_of_reach(plan):  # what goes by the host goes there as it lies
        source = within_reach(source, destination)
        plan = plan_for(source, destination, piece)
    return run(plan, (source,), name)


def move_once(
    sources: Sequence[ShardedBuffer], destinations: Sequence[Tiling], name: str
) -> list[ShardedBuffer]:
    """Reshard arrays in ways that will not come again; arguments and errors as for `move`."""
    plans: dict[Any, Plan] = {}
    moved = []
    for source, destination in zip(sources, destinations, strict=True):
        how = source.tiling, destination, None, source.dtype.itemsize, (source.root_nbytes,)
        plan = plans.get(how)
        if plan is None:
            plan = plans[how] = new_plan(source.runtime, _plan, *how)
        moved.append(run(plan, (source,), name))
    return moved


class Mover:
    """Reshards arrays that are laid out alike, as a program does with an operand at every call."""

    __slots__ = ("_destination", "_name", "_plan", "bytes_received", "bytes_written", "nbytes")

    def __init__(
        self, runtime: Runtime, source: Tiling, destination: Tiling, itemsize: int, name: str
    ) -> None:
        plan = kept_plan(runtime, _plan, (source, destination, None, itemsize))
        self.nbytes: int = plan.nbytes  # bytes that it takes, about
        self.bytes_received: int = plan.bytes_received  # by devices from others, each time
        self.bytes_written: int = plan.bytes_written  # each time, into memory of its own
        self._destination, self._name = destination, name
        self._plan: Plan | None = None if plan.kept.by_roots else plan

    def __call__(self, source: ShardedBuffer) -> ShardedBuffer:
        """Reshard an array."""
        return run(self._plan or plan_for(source, self._destination), (source,), self._name)


def window_to(
    source: Tiling, destination: Tiling, piece: Piece, at: tuple[int, ...], itemsize: int
) -> Window | None:
    """Return the part of an array that starts anywhere, if one plan serves all starts."""
    of, to = devices_of(source)[0], devices_of(destination)[0]
    if of.domain.kind != to.domain.kind or of.device.runtime is not to.device.runtime:
        return None
    window = make_window(source, destination, piece, at, itemsize)
    if window is not None:
        launch_of(window.plan)  # which those of all starts have
    return window


def move_window(
    source: ShardedBuffer, window: Window, starts: tuple[int, ...], piece: Piece, name: str
) -> ShardedBuffer:
    """Return the part of an array that starts somewhere; arguments and errors as for `move`."""
    runtime, roots = source.runtime, source.root_nbytes
    key = window, starts, roots
    plan: Plan | None = runtime.plans.get(key)
    if plan is None:
        plan, nbytes = window.starting(starts), 1000 + 300 * len(window.plan.slots)
        if plan is None:
            own = started(piece, starts, window.at)
            whole = source.tiling, window.destination, own, source.dtype.itemsize, (roots,)
            plan = new_plan(runtime, _plan, *whole)
            nbytes = plan.nbytes
        runtime.plans.put(key, plan, nbytes)
    return run(plan, (source,), name)
