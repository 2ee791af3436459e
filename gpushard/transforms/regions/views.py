"""Views: operations after which every element is where it was, but for other dims around it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gpushard.movement.buffer import devices_of
from gpushard.movement.planning.dims import Piece
from gpushard.movement.planning.reshard import make_plan
from gpushard.movement.planning.windows import started
from gpushard.ops.programs.move import Move
from gpushard.transforms.graph.graph import Step, Var
from gpushard.transforms.graph.ops import RowOp
from gpushard.typing import Shape

Dims = tuple[int | None, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class View:
    """A value whose elements are some of those of another one."""

    base: Var  # the other one
    dims: Dims  # for each dim the one of the base; None for one along which nothing changes
    starts: Shape  # element of each dim of the base that is the first
    moved: int = 0  # bytes that devices receive if it is made
    part: bool = False  # whether it has not all elements

    @staticmethod
    def of(x: Var) -> View:
        """Return a value as a view of itself."""
        return View(x, tuple(range(len(x.shape))), (0,) * len(x.shape))

    def then(self, view: View) -> View:
        """Return a view of this view as one of the base."""
        starts = list(self.starts)
        for dim, first in zip(self.dims, view.starts, strict=True):
            if dim is not None:
                starts[dim] += first
        dims = tuple(None if dim is None else self.dims[dim] for dim in view.dims)
        return View(self.base, dims, tuple(starts), self.moved + view.moved, self.part or view.part)

    def over(self, loops: Sequence[int | None]) -> Dims:
        """Return the loops of the dims, from those of the base's."""
        return tuple(None if dim is None else loops[dim] for dim in self.dims)

    def under(self, loops: Sequence[int | None]) -> Dims:
        """Return the loops of the base's dims, from those of the dims."""
        of = {dim: loop for dim, loop in zip(self.dims, loops, strict=True) if dim is not None}
        return tuple(of.get(dim) for dim in range(len(self.base.shape)))


def view_of(step: Step) -> View | None:
    """Return what an operation is as a view; None if elements must move."""
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
            return _of_piece(base, how, _received(base, result, how))
        return _of_piece(base, how, step.moved)
    own = [dim for dim, n in enumerate(base.shape) if n != 1]
    if op.name == "reshape":
        if [n for n in result.shape if n != 1] != [base.shape[dim] for dim in own]:
            return None
        rest = iter(own)
        dims = tuple(None if n == 1 else next(rest) for n in result.shape)
    elif op.name == "broadcast_to":
        named = len(result.shape) - len(op.params[0])  # dims in front that it does not speak of
        kept = [dim if dim in own else None for dim in range(len(base.shape))]
        dims = (*kept[:named], *(None,) * (len(result.shape) - len(kept)), *kept[named:])
    else:
        return None
    return View(base, dims, (0,) * len(base.shape), step.moved)


def _received(base: Var, result: Var, piece: Piece) -> int:
    """Return the bytes that devices receive if a part is made, which its step does not say."""
    if len({place.memory_domain for place in devices_of(base.tiling)}) < 2:
        return 0
    return make_plan(base.tiling, result.tiling, piece, base.dtype.itemsize).bytes_received


def _of_piece(base: Var, piece: Piece, moved: int) -> View | None:
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
    return View(base, tuple(dims), tuple(starts), moved, part)
