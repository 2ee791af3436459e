"""Plans of movements of one array, kept by the runtime: to another layout, or of a part of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from gpushard.errors import ShardingError
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer, devices_of
from gpushard.movement.execute import is_out_of_reach, launch_of, run, through_host, within_reach
from gpushard.movement.plan import Plan
from gpushard.movement.planning.dims import Piece, identity
from gpushard.movement.planning.reshard import make_plan
from gpushard.movement.planning.windows import Window, make_window, started
from gpushard.runtime.runtime import Runtime


def plan_for(source: ShardedBuffer, destination: Tiling, piece: Piece | None = None) -> Plan:
    """Return the cached plan that moves `source` to `destination`.

    Raises:
      ShardingError: source and destination belong to different runtimes.
    """
    runtime = source.runtime
    key = (source.tiling, destination, piece, source.dtype.itemsize, source.root_nbytes)
    plan: Plan | None = runtime.plans.get(key)
    return _kept(runtime, key) if plan is None else plan


_Key: TypeAlias = tuple[Tiling, Tiling, Piece | None, int, int]
"""Source, destination, piece, bytes of an element, and bytes of the largest root of the source."""


def _kept(runtime: Runtime, key: _Key) -> Plan:
    plan = _planned(runtime, key)
    runtime.plans.put(key, plan, plan.nbytes)
    return plan


def _planned(runtime: Runtime, key: _Key) -> Plan:
    source, destination, piece, itemsize, root_nbytes = key
    if devices_of(destination)[0].runtime is not runtime:
        raise ShardingError(
            "the sharding names devices of another runtime than the array's; take both from "
            "one gpushard.devices()",
            argument="sharding",
        )
    settings, readable = runtime.settings, runtime.backend.host_readable
    plan = make_plan(
        source,
        destination,
        piece or identity(source.shape),
        itemsize,
        root_nbytes,
        relay_bytes=settings.relay_bytes,
        engine_bytes=None if readable else settings.engine_bytes,
    )
    return through_host(plan, runtime)


def move(
    source: ShardedBuffer, destination: Tiling, piece: Piece | None = None, name: str = "reshard"
) -> ShardedBuffer:
    """Return an array in another layout, or a part of it; in whichever kinds of memory.

    Raises:
      OutOfMemoryError: a device has no room; nothing has changed.
      ShardingError: source and destination belong to different runtimes.
    """
    plan = plan_for(source, destination, piece)
    if piece is not None and is_out_of_reach(plan):  # what goes by the host goes there as it lies
        source = within_reach(source, destination)
        plan = plan_for(source, destination, piece)
    return run(plan, (source,), name)


def move_once(
    sources: Sequence[ShardedBuffer], destinations: Sequence[Tiling], name: str
) -> list[ShardedBuffer]:
    """Reshard arrays in ways that will not come again; arguments and errors as for `move`."""
    plans: dict[_Key, Plan] = {}
    moved = []
    for source, destination in zip(sources, destinations, strict=True):
        key = (source.tiling, destination, None, source.dtype.itemsize, source.root_nbytes)
        plan = plans.get(key)
        if plan is None:
            plan = plans[key] = _planned(source.runtime, key)
        moved.append(run(plan, (source,), name))
    return moved


class Mover:
    """Reshards arrays that are laid out alike, as a program does with an operand at every call."""

    __slots__ = ("_destination", "_name", "_plan", "nbytes")

    def __init__(
        self, runtime: Runtime, source: Tiling, destination: Tiling, itemsize: int, name: str
    ) -> None:
        key = (source, destination, None, itemsize, 0)
        plan = runtime.plans.get(key) or _kept(runtime, key)
        self.nbytes: int = plan.nbytes
        """Bytes that it takes, about."""
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
    plans = source.runtime.plans
    plan: Plan | Piece | None = plans.get((window, starts))
    if plan is None:
        plan = window.starting(starts) or started(piece, starts, window.at)
        plans.put((window, starts), plan, 1000 + 300 * len(window.plan.slots))
    if not isinstance(plan, Plan):
        plan = plan_for(source, window.destination, plan)
    return run(plan, (source,), name)
