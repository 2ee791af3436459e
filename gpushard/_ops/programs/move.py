"""Operations that only move data, or replace a part of an array, compiled."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import PartitionSpec
from gpushard._geometry.sharding import Sharding
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.planning.dim_maps import Piece, lift_piece
from gpushard._movement.planning.rearrangements import Rearrangement, lift_rearrangement
from gpushard._movement.planning.update import Touched
from gpushard._movement.planning.windows import started
from gpushard._movement.rearrange import rearrange
from gpushard._movement.reshard import WindowMover, move, window_to
from gpushard._movement.update import Overlay, overlay_of, overlay_of_single, rewrite, touched_by
from gpushard._ops.choose import sharding_of
from gpushard._ops.committed import common_devices, common_memory, is_committed
from gpushard._ops.operand import (
    Hosted,
    Operand,
    Scalar,
    Sharded,
    as_written,
    in_memory,
    nearest_axes,
    placed,
)
from gpushard._ops.row import Adapter, Case, Params, Program, ShardedCall, Strategy
from gpushard._ops.rule import Splits
from gpushard._ops.shardings import in_sharding, pinned_meshes
from gpushard._typing import HostArray, Shape
from gpushard.errors import ArgumentTypeError, NamedDimsError


@dataclass(frozen=True, eq=False)
class Move(Strategy):
    """Elements change their places alone; they are read from wherever they lie.

    None of what it says depends on types.
    """

    # Takes the shapes of the operands.
    how: Callable[[Sequence[Shape], Params], Piece | Rearrangement]
    # Takes the shapes, the parameters, the mesh axes that split each dim of the operand, and their
    # sizes; gives those for the result. Without it result dims keep the axes of their factor.
    splits: Callable[[Sequence[Shape], Params, Splits, Mapping[str, int]], Splits] | None = None
    # Gives the numbers of the piece's maps whose starts are operands: Python integers.
    starts: Callable[[Params], tuple[int, ...]] | None = None
    complete = True

    def compile(self, case: Case, call: ShardedCall | None) -> Movement:
        """Plan the movement."""
        return Movement(self, case)

    def adapted(self, adapter: Adapter) -> Move:
        """Return it with dims in front that stay as they are."""
        lead, splits, starts = adapter.lead, self.splits, self.starts

        def how(shapes: Sequence[Shape], params: Params) -> Piece | Rearrangement:
            if len(shapes) != adapter.complete:
                raise NamedDimsError(
                    f"elements of {len(shapes)} arrays are moved, {adapter.complete} of which have "
                    f"all {lead} named dims; broadcast the others to them first"
                )
            body = self.how([shape[lead:] for shape in shapes], params)
            lift: Any = lift_piece if isinstance(body, Piece) else lift_rearrangement
            result: Piece | Rearrangement = lift(body, shapes[0][:lead])
            return result

        def lifted_splits(
            shapes: Sequence[Shape], params: Params, own: Splits, sizes: Mapping[str, int]
        ) -> Splits:
            assert splits is not None
            inside = splits([shape[lead:] for shape in shapes], params, own[lead:], sizes)
            return (*own[:lead], *inside)

        def lifted_starts(params: Params) -> tuple[int, ...]:
            assert starts is not None
            return tuple(lead + number for number in starts(params))

        return Move(how, splits and lifted_splits, starts and lifted_starts)


@dataclass(frozen=True, eq=False)
class Replace(Strategy):
    """The second operand replaces a piece of the first one."""

    # Takes the shapes of the operands; says which piece.
    how: Callable[[Sequence[Shape], Params], Piece]
    starts: Callable[[Params], tuple[int, ...]]  # as for `Move`
    complete = True

    def compile(self, case: Case, call: ShardedCall | None) -> Update:
        """Plan the update."""
        return Update(self, case)

    def adapted(self, adapter: Adapter) -> Replace:
        """Return it with dims in front that stay as they are."""
        lead, starts = adapter.lead, self.starts

        def how(shapes: Sequence[Shape], params: Params) -> Piece:
            body = self.how([shape[lead:] for shape in shapes], params)
            piece = lift_piece(body, shapes[0][:lead])
            if math.prod(shapes[1]) != 1 and shapes[1] != piece.shape:
                raise NamedDimsError(
                    f"a part of shape {piece.shape} with {lead} named dims can't be replaced by "
                    f"values of shape {shapes[1]}; broadcast them to the part first"
                )
            return piece

        return Replace(how, lambda params: tuple(lead + number for number in starts(params)))


class Movement(Program):
    """A program that only moves data."""

    def __init__(self, move: Move, case: Case) -> None:
        arrays = [x for x in case.operands if not isinstance(x, Scalar)]
        shapes = [x.aval.shape for x in arrays]
        memory = common_memory(case.operands)
        (aval,) = case.results
        inside = [in_memory(x, memory) for x in arrays]
        sharding = case.out or _moved_sharding(move, case, inside)
        self.name = case.row.name
        self.runtime = case.runtime
        self.results = (in_sharding(aval, sharding),)
        self.committed = is_committed(case.operands)
        self._how = move.how(shapes, case.params)
        self._starts = () if move.starts is None else move.starts(case.params)
        self._tiling = self.results[0].tiling
        self._dtype = aval.dtype
        everywhere: Sharding = sharding
        if isinstance(sharding, NamedSharding):
            everywhere = sharding.with_spec(PartitionSpec())
        self._hosted = [
            (n, everywhere.tiling(x.aval.shape))
            for n, x in enumerate(arrays)
            if isinstance(x, Hosted)
        ]
        self._window: WindowMover | None = None
        if self._starts:
            assert isinstance(inside[0], Sharded)
            assert isinstance(self._how, Piece)
            parts = inside[0].tiling, self._tiling, self._how, self._starts
            self._window = window_to(*parts, self._dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes that this program takes, about."""
        return 2000 if self._window is None else self._window.nbytes + 2000

    def run(
        self, operands: Sequence[ShardedBuffer | HostArray], numbers: Sequence[Any] = ()
    ) -> list[ShardedBuffer]:
        """Move the data; numbers are the starts of a part, or the constant for new elements."""
        sources: Any = operands
        if self._hosted:
            sources = list(operands)
            for n, tiling in self._hosted:
                sources[n] = placed(self.runtime, sources[n], tiling)
        if isinstance(self._how, Piece):
            starts = tuple(numbers)
            if self._window is not None:
                return [self._window.move(sources[0], starts, self._how, self.name)]
            piece = started(self._how, starts, self._starts) if self._starts else self._how
            return [move(sources[0], self._tiling, piece, self.name)]
        fill = self._dtype.type(numbers[0]) if numbers else 0
        return [rearrange(sources, self._how, self._tiling, self.name, fill)]


def _moved_sharding(move: Move, case: Case, arrays: Sequence[Operand]) -> Sharding:
    common = common_devices(case.row.name, arrays)
    params, shape = case.params, case.results[0].shape
    if common.single is not None:
        return common.single
    shapes = [x.aval.shape for x in arrays]
    mesh, rule = pinned_meshes(case, common)[0], case.rule
    splits = [nearest_axes(x, mesh) for x in arrays]
    if move.splits is not None:
        splits_of_result = move.splits(shapes, params, splits[0], mesh.shape)
    else:
        splits_of_result = tuple(_kept_axes(factor, shapes, splits) for factor in rule.results[0])
    used = set(rule.taken)
    entries: list[tuple[str, ...]] = []
    for factor, axes, n in zip(rule.results[0], splits_of_result, shape, strict=True):
        free = () if n <= 1 or used & set(axes) else axes
        entries.append(free if factor is None else rule.pins.get(factor, free))
        used.update(entries[-1])
    memory = common_memory(arrays)
    sharding = sharding_of(mesh, tuple(range(len(entries))), tuple(entries), memory)
    return as_written(sharding, len(shape), arrays)


def _kept_axes(
    factor: int | None, shapes: Sequence[Shape], splits: Sequence[Splits]
) -> tuple[str, ...]:
    """Return the axes that split a dim in the first operand where any do."""
    if factor is None:
        return ()
    for shape, axes in zip(shapes, splits, strict=True):
        if axes[factor] and shape[factor] > 1:
            return axes[factor]
    return ()


class Update(Program):
    """A program that replaces a part.

    The result is laid out like the first operand, and shares with it what the part does not touch.
    """

    nbytes = 2000  # bytes that this program takes, about

    def __init__(self, replace: Replace, case: Case) -> None:
        x, (aval,) = case.operands[0], case.results
        if not isinstance(x, Sharded):
            raise ArgumentTypeError(
                f"{case.row.name} of an array on the host; place it with device_put first",
                argument="x",
            )
        self.name = case.row.name
        self.results = (in_sharding(aval, case.out or x.sharding),)
        self.committed = x.committed
        self._piece, self._starts = (
            replace.how([x.shape for x in case.avals], case.params),
            replace.starts(case.params),
        )
        self._of_element = isinstance(case.operands[1], Scalar)
        self._element = aval.dtype.type

    def run(self, operands: Sequence[Any], numbers: Sequence[Any] = ()) -> list[ShardedBuffer]:
        """Make the array with the part replaced.

        `numbers` has the element if that is what replaces the part, then the starts of the part.
        """
        base = operands[0]
        value = self._element(numbers[0]) if self._of_element else operands[1]
        starts = tuple(numbers[self._of_element :])
        piece = started(self._piece, starts, self._starts) if starts else self._piece
        touched = touched_by(base, piece)
        overlay = overlay_for(base, touched, value, self.name)
        result, tiling = rewrite(base, overlay, self.name), self.results[0].tiling
        if tiling is not result.tiling:
            result = move(result, tiling, name=self.name)
        return [result]


def overlay_for(
    base: ShardedBuffer, touched: Touched, value: np.generic | HostArray | ShardedBuffer, name: str
) -> Overlay:
    """Return new values of a part where they can be written from.

    Of `base` only how it is laid out matters; data has the part's shape, an array has size 1.
    """
    if isinstance(value, np.generic):
        return Overlay(touched, constant=value)
    if not touched.blocks:
        return Overlay(touched)
    if not isinstance(value, ShardedBuffer):
        assert touched.part is not None
        value = placed(base.runtime, value, touched.part)
    elif value.tiling.shape != touched.piece.shape:
        return overlay_of_single(base, touched, value, name)
    return overlay_of(base, value, touched)
