"""Views: operations that move no element, and only change the dims around it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gpushard._movement.planning.dim_maps import Piece
from gpushard._movement.planning.reshard import make_plan
from gpushard._movement.planning.windows import started
from gpushard._movement.sharding_devices import devices_of
from gpushard._ops.programs.move import Move
from gpushard._transforms.graph.graph import Operation, Var
from gpushard._transforms.graph.ops import RowOp
from gpushard._typing import Shape

Dims = tuple[int | None, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class RegionView:
    """A value that consists of elements of another value, its base."""

    base: Var  # the other value
    dims: Dims  # for each dim that of the base; None for a dim along which elements are repeated
    starts: Shape  # the first element along each dim of the base
    moved: int = 0  # bytes that devices would receive if the operation ran
    part: bool = False  # whether it lacks elements of the base
    # Dims of the base that it goes around: behind their last element it goes on with the first one.
    periodic: frozenset[int] = frozenset()

    @property
    def is_shifted(self) -> bool:
        """Whether elements are at other indices than in the base, apart from the order of dims."""
        return self.part or bool(self.periodic)

    @staticmethod
    def of(x: Var) -> RegionView:
        """RegionView a value as itself."""
        return RegionView(x, tuple(range(len(x.shape))), (0,) * len(x.shape))

    def then(self, view: RegionView) -> RegionView | None:
        """Convert a view of this view to a view of the base; None if it goes around a part."""
        if self.part and view.periodic:
            return None
        starts = list(self.starts)
        for dim, first in zip(self.dims, view.starts, strict=True):
            if dim is not None:
                starts[dim] += first
        dims = tuple(None if dim is None else self.dims[dim] for dim in view.dims)
        around = [self.dims[dim] for dim in view.periodic]
        periodic = self.periodic.union([dim for dim in around if dim is not None])
        for dim in periodic:
            starts[dim] %= self.base.shape[dim]
        moved, part = self.moved + view.moved, self.part or view.part
        return RegionView(self.base, dims, tuple(starts), moved, part, periodic)

    def over(self, loops: Sequence[int | None]) -> Dims:
        """Return the loops of the dims of the view, from the loops of the base."""
        return tuple(None if dim is None else loops[dim] for dim in self.dims)

    def under(self, loops: Sequence[int | None]) -> Dims:
        """Return the loops of the dims of the base, from the loops of the view."""
        of = {dim: loop for dim, loop in zip(self.dims, loops, strict=True) if dim is not None}
        return tuple(of.get(dim) for dim in range(len(self.base.shape)))


def view_of(step: Operation) -> RegionView | None:
    """Read an operation as a view of its operand; None if elements must move."""
    op, base = step.op, step.operands[0] if step.operands else None
    if not isinstance(op, RowOp) or not isinstance(base, Var):
        return None
    if len(step.operands) + len(step.results) != 2:
        return None
    (move, *others), (result,) = op.row.strategies, step.results
    if others or not isinstance(move, Move) or 0 in base.shape:
        return None
    if base.sharding.memory_kind != result.sharding.memory_kind:
        return None
    if base.tiling.devices != result.tiling.devices:
        return None
    how = move.how([base.shape], op.params)
    if isinstance(how, Piece):
        if op.numbers and move.starts is not None:
            how = started(how, tuple(int(n) for n in op.numbers), move.starts(op.params))
            return _view_of_piece(base, how, _bytes_received(base, result, how))
        return _view_of_piece(base, how, step.moved)
    if op.name == "roll":
        shifts, axes = op.params
        return _rolled(base, shifts, axes, step.moved)
    long = [dim for dim, n in enumerate(base.shape) if n != 1]
    if op.name == "reshape":
        if [n for n in result.shape if n != 1] != [base.shape[dim] for dim in long]:
            return None
        rest = iter(long)
        dims = tuple(None if n == 1 else next(rest) for n in result.shape)
    elif op.name == "broadcast_to":
        named = len(result.shape) - len(op.params[0])  # mapped dims in front, not in the parameters
        sources = [dim if dim in long else None for dim in range(len(base.shape))]
        new = (None,) * (len(result.shape) - len(sources))
        dims = (*sources[:named], *new, *sources[named:])
    else:
        return None
    return RegionView(base, dims, (0,) * len(base.shape), step.moved)


def _rolled(base: Var, shifts: Sequence[int], axes: Sequence[int], moved: int) -> RegionView:
    """Read a roll as a view."""
    starts = [0] * len(base.shape)
    for shift, axis in zip(shifts, axes, strict=True):
        starts[axis] = (starts[axis] - shift) % base.shape[axis]
    periodic = frozenset([dim for dim, start in enumerate(starts) if start])
    return RegionView(base, tuple(range(len(starts))), tuple(starts), moved, False, periodic)


def _bytes_received(base: Var, result: Var, piece: Piece) -> int:
    """Count the bytes that devices would receive for a part that begins at a number."""
    if len({place.memory_domain for place in devices_of(base.tiling)}) < 2:
        return 0
    return make_plan(base.tiling, result.tiling, piece, base.dtype.itemsize).bytes_received


def _view_of_piece(base: Var, piece: Piece, moved: int) -> RegionView | None:
    """Read a piece of an array as a view; None if it goes in steps or backwards."""
    dims: list[int | None] = []
    starts = [0] * len(base.shape)
    part = False
    for m in piece.maps:
        if m.step != 1 and m.length > 1:
            return None
        if m.destination is not None:
            dims.append(m.source)
        if m.source is not None:
            starts[m.source] = m.start
            part = part or (m.destination is not None and m.length != base.shape[m.source])
            part = part or (m.destination is None and base.shape[m.source] > 1)
    return RegionView(base, tuple(dims), tuple(starts), moved, part)
