"""Operations that only move data, or replace a part of an array, compiled."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import PartitionSpec
from gpushard._geometry.sharding import Sharding
from gpushard._geometry.tiling import Tiling
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.planning.dim_maps import Piece, lift_piece
from gpushard._movement.planning.holdings import held_elements
from gpushard._movement.planning.rearrange import make_rearrange
from gpushard._movement.planning.rearrangements import Rearrangement, lift_rearrangement
from gpushard._movement.planning.reshard import make_plan
from gpushard._movement.planning.update import Touched
from gpushard._movement.planning.windows import started
from gpushard._movement.rearrange import rearrange
from gpushard._movement.reshard import WindowMover, move, window_to
from gpushard._movement.update import Overlay, overlay_of, overlay_of_single, rewrite, touched_by
from gpushard._ops.choose_split import sharding_of
from gpushard._ops.committed import common_devices, common_memory, is_committed
from gpushard._ops.operand import (
    Operand,
    Scalar,
    Sharded,
    as_written,
    in_memory,
    nearest_axes,
    placed,
)
from gpushard._ops.programs.bring import Place
from gpushard._ops.row import Adapter, Case, Params, ShardedCall, Strategy
from gpushard._ops.rule import Splits
from gpushard._ops.shardings import in_sharding, pinned_meshes
from gpushard._ops.steps import Draft, Program, Result, Runnable
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

    def compile(self, case: Case, call: ShardedCall | None) -> Program:
        """Plan the movement."""
        arrays = [x for x in case.operands if not isinstance(x, Scalar)]
        inside = [in_memory(x, common_memory(case.operands)) for x in arrays]
        sharding = case.out or _moved_sharding(self, case, inside)
        result = in_sharding(case.results[0], sharding)
        everywhere = sharding
        if isinstance(sharding, NamedSharding):
            everywhere = sharding.with_spec(PartitionSpec())
        draft = Draft(len(arrays))
        values, sources = list(range(len(arrays))), []
        for n, x in enumerate(arrays):
            if isinstance(x, Sharded):
                sources.append(x.tiling)
            else:
                sources.append(everywhere.tiling(x.aval.shape))
                (values[n],) = draft.add(Place(case.runtime, sources[n], x.aval.dtype), [n])
        ends = draft.add(Movement(self, case, sources, result), values)
        return Program(case.row.name, (result,), is_committed(case.operands), draft, ends)

    def adapted(self, adapter: Adapter) -> Move:
        """Return it with dims in front that stay as they are."""
        lead, splits, starts = adapter.lead, self.splits, self.starts

        def how(shapes: Sequence[Shape], params: Params) -> Piece | Rearrangement:
            if len(shapes) != adapter.complete:
                raise NamedDimsError(
                    f"elements of {len(shapes)} arrays are moved, {adapter.complete} of which have "
                    f"all {lead} named axes; broadcast the others to them first"
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

    def compile(self, case: Case, call: ShardedCall | None) -> Program:
        """Plan the update."""
        x, (aval,) = case.operands[0], case.results
        if not isinstance(x, Sharded):
            raise ArgumentTypeError(
                f"{case.row.name} of an array on the host; place it with device_put first",
                argument="x",
            )
        result = in_sharding(aval, case.out or x.sharding)
        draft = Draft(sum(not isinstance(operand, Scalar) for operand in case.operands))
        ends = draft.add(Update(self, case, result), range(draft.operands))
        return Program(case.row.name, (result,), x.committed, draft, ends)

    def adapted(self, adapter: Adapter) -> Replace:
        """Return it with dims in front that stay as they are."""
        lead, starts = adapter.lead, self.starts

        def how(shapes: Sequence[Shape], params: Params) -> Piece:
            body = self.how([shape[lead:] for shape in shapes], params)
            piece = lift_piece(body, shapes[0][:lead])
            if math.prod(shapes[1]) != 1 and shapes[1] != piece.shape:
                raise NamedDimsError(
                    f"a part of shape {piece.shape} with {lead} named axes can't be replaced by "
                    f"values of shape {shapes[1]}; broadcast them to the part first"
                )
            return piece

        return Replace(how, lambda params: tuple(lead + number for number in starts(params)))


class Movement(Runnable):
    """Brings elements to other places.

    Args:
      move: the places.
      case: the operation.
      sources: the tilings of the operands.
      result: the layout of the result.
    """

    def __init__(self, move: Move, case: Case, sources: Sequence[Tiling], result: Result) -> None:
        self._name = case.row.name
        self._how = move.how([x.shape for x in sources], case.params)
        self._starts = () if move.starts is None else move.starts(case.params)
        self._sources = sources
        self._tiling, self._dtype = result.tiling, result.aval.dtype
        self.writes = (held_elements(result.tiling) * self._dtype.itemsize,)
        self._window: WindowMover | None = None
        if self._starts:
            first = in_memory(case.operands[0], common_memory(case.operands))
            assert isinstance(first, Sharded)
            assert isinstance(self._how, Piece)
            parts = first.tiling, self._tiling, self._how, self._starts
            self._window = window_to(*parts, self._dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Approximate bytes of the plan."""
        return 2000 if self._window is None else self._window.nbytes + 2000

    def run(self, operands: Sequence[ShardedBuffer], numbers: Sequence[Any]) -> list[ShardedBuffer]:
        """Move the data; numbers are the starts of a part, or the constant for new elements."""
        if isinstance(self._how, Piece):
            starts = tuple(numbers)
            if self._window is not None:
                return [self._window.move(operands[0], starts, self._how, self._name)]
            return [move(operands[0], self._tiling, self._piece(numbers), self._name)]
        fill = self._dtype.type(numbers[0]) if numbers else 0
        return [rearrange(operands, self._how, self._tiling, self._name, fill)]

    def _piece(self, starts: Sequence[Any]) -> Piece:
        """Return the part that begins at some elements."""
        assert isinstance(self._how, Piece)
        return started(self._how, tuple(starts), self._starts) if self._starts else self._how

    def received(self, numbers: Sequence[Any] = ()) -> Counter[Any]:
        """Count the bytes that each device receives; `numbers` are the starts of a part."""
        sources, to = self._sources, self._tiling
        whole = len(to.devices) == 1 or all(x.assignment.is_replicated for x in sources)
        if whole and all(set(to.devices) <= set(x.devices) for x in sources):
            return Counter()
        devices = dict.fromkeys(d for x in (*sources, to) for d in x.devices)
        apart = {device: _Alone(n) for n, device in enumerate(devices)}
        each, end = [_apart(x, apart) for x in sources], _apart(to, apart)
        if isinstance(self._how, Piece):
            piece = self._piece(numbers) if numbers else self._how
            plan = make_plan(each[0], end, piece, 1)
        else:
            plan = make_rearrange(self._how, each, range(len(each)), end, 1, [0] * len(each))
        places, itemsize = list(devices), self._dtype.itemsize
        return Counter({places[n]: count * itemsize for n, count in plan.received.items()})


@dataclass(frozen=True)
class _Alone:
    """A device that is a memory domain of its own."""

    memory_domain: int


def _apart(tiling: Tiling, devices: Mapping[Any, Any]) -> Tiling:
    """Return a tiling over other devices."""
    own, assignment = copy.copy(tiling), copy.copy(tiling.assignment)
    assignment.devices = tuple(devices[device] for device in tiling.devices)
    own.assignment = assignment
    return own


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


class Update(Runnable):
    """Replaces a part of an array.

    The result is laid out like the first operand, and shares with it what the part does not touch.
    """

    nbytes = 2000  # approximate bytes of this object

    def __init__(self, replace: Replace, case: Case, result: Result) -> None:
        self._name, self._tiling = case.row.name, result.tiling
        self._piece, self._starts = (
            replace.how([x.shape for x in case.avals], case.params),
            replace.starts(case.params),
        )
        self._of_element = isinstance(case.operands[1], Scalar)
        self._element = result.aval.dtype.type
        self.writes = (held_elements(result.tiling) * result.aval.dtype.itemsize,)

    def run(self, operands: Sequence[Any], numbers: Sequence[Any] = ()) -> list[ShardedBuffer]:
        """Make the array with the part replaced.

        `numbers` has the element if that is what replaces the part, then the starts of the part.
        """
        base = operands[0]
        value = self._element(numbers[0]) if self._of_element else operands[1]
        starts = tuple(numbers[self._of_element :])
        piece = started(self._piece, starts, self._starts) if starts else self._piece
        touched = touched_by(base, piece)
        overlay = overlay_for(base, touched, value, self._name)
        result = rewrite(base, overlay, self._name)
        if self._tiling is not result.tiling:
            result = move(result, self._tiling, name=self._name)
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
