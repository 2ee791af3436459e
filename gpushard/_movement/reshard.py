"""Plans of movements of one array, kept by the runtime: to another layout, or of a part of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpushard._geometry.tiling import Tiling
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.execute import check_runtime, is_out_of_reach, run, within_reach
from gpushard._movement.plan import Plan, Step
from gpushard._movement.plan_cache import new_plan, prepared_plan
from gpushard._movement.plan_streams import Prepared, prepare
from gpushard._movement.planning.dim_maps import Piece, identity
from gpushard._movement.planning.reshard import make_plan
from gpushard._movement.planning.windows import Window, make_window, started
from gpushard._movement.sharding_devices import devices_of
from gpushard._runtime.runtime import Runtime


def plan_for(source: ShardedBuffer, destination: Tiling, piece: Piece | None = None) -> Prepared:
    """Return the cached plan that moves `source` to `destination`."""
    how = source.tiling, destination, piece, source.dtype.itemsize
    return prepared_plan(source.runtime, _plan, how, (source,))


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
    prepared = plan_for(source, destination, piece)
    if piece is not None and is_out_of_reach(prepared):  # what goes by the host goes as it lies
        source = within_reach(source, destination)
        prepared = plan_for(source, destination, piece)
    return run(prepared, (source,), name)


def move_once(
    sources: Sequence[ShardedBuffer], destinations: Sequence[Tiling], name: str
) -> list[ShardedBuffer]:
    """Reshard arrays in ways that will not come again; arguments and errors as for `move`."""
    plans: dict[Any, Prepared] = {}
    moved = []
    for source, destination in zip(sources, destinations, strict=True):
        how = source.tiling, destination, None, source.dtype.itemsize, (source.root_nbytes,)
        prepared = plans.get(how)
        if prepared is None:
            prepared = plans[how] = new_plan(source.runtime, _plan, *how)
        moved.append(run(prepared, (source,), name))
    return moved


class Mover:
    """Reshards arrays that are laid out alike, as a program does with an operand at every call."""

    __slots__ = ("_destination", "_name", "_prepared", "bytes_received", "bytes_written", "nbytes")

    def __init__(
        self, runtime: Runtime, source: Tiling, destination: Tiling, itemsize: int, name: str
    ) -> None:
        prepared = prepared_plan(runtime, _plan, (source, destination, None, itemsize))
        plan = prepared.plan
        self.nbytes: int = plan.nbytes  # bytes that it takes, about
        self.bytes_received: int = plan.bytes_received  # by devices from others, each time
        self.bytes_written: int = plan.bytes_written  # each time, into memory of its own
        self._destination, self._name = destination, name
        self._prepared: Prepared | None = None if plan.kept.by_roots else prepared

    def run(self, operands: Sequence[ShardedBuffer], numbers: Sequence[Any]) -> list[ShardedBuffer]:
        """Reshard an array, as a step of a program: it takes no numbers, and returns a list."""
        (source,) = operands
        prepared = self._prepared or plan_for(source, self._destination)
        return [run(prepared, (source,), self._name)]


class WindowMover:
    """Takes a part of arrays that are laid out alike, wherever it starts."""

    __slots__ = ("_prepared", "_window")

    def __init__(self, window: Window) -> None:
        self._window, self._prepared = window, prepare(window.plan)

    @property
    def nbytes(self) -> int:
        """Bytes that it takes, about."""
        return self._window.nbytes

    def move(
        self, source: ShardedBuffer, starts: tuple[int, ...], piece: Piece, name: str
    ) -> ShardedBuffer:
        """Return the part that starts somewhere; other arguments and errors as for `move`."""
        window, runtime, roots = self._window, source.runtime, source.root_nbytes
        key = window, starts, roots
        how: tuple[Prepared, tuple[Step, ...] | None] | None = runtime.plans.get(key)
        if how is None:
            prepared, steps = self._prepared, window.starting(starts)
            nbytes = 1000 + 300 * len(window.plan.slots)
            if steps is None:
                own = started(piece, starts, window.at)
                whole = source.tiling, window.destination, own, source.dtype.itemsize, (roots,)
                prepared = new_plan(runtime, _plan, *whole)
                nbytes = prepared.plan.nbytes
            how = prepared, steps
            runtime.plans.put(key, how, nbytes)
        prepared, steps = how
        return run(prepared, (source,), name, steps=steps)


def window_to(
    source: Tiling, destination: Tiling, piece: Piece, at: tuple[int, ...], itemsize: int
) -> WindowMover | None:
    """Return what takes a part that starts anywhere, if one plan serves all starts."""
    of, to = devices_of(source)[0], devices_of(destination)[0]
    if of.domain.kind != to.domain.kind or of.device.runtime is not to.device.runtime:
        return None
    window = make_window(source, destination, piece, at, itemsize)
    return None if window is None else WindowMover(window)
