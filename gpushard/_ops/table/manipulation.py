"""Operations that only move data: each maps elements of its result to elements of operands.

A dim that passes from an operand to the result keeps its mesh axes. Other dims are not split. Axes
are counted from the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gpushard._geometry.sharding import Sharding
from gpushard._movement.planning import rearrangements
from gpushard._movement.planning.dim_maps import Piece, permutation
from gpushard._movement.planning.rearrangements import Rearrangement, reshape, shared_factors
from gpushard._ops.aval import Aval
from gpushard._ops.basic_index import Entry, index_piece, open_index, open_starts
from gpushard._ops.bind import bind
from gpushard._ops.programs.local import Local
from gpushard._ops.programs.move import Move
from gpushard._ops.row import Kernel, Params, Row, beside_others
from gpushard._ops.rule import Dims, Rule, Splits
from gpushard._ops.table.elementwise import writing
from gpushard._typing import Shape

How = Callable[[Sequence[Shape], Params], Piece | Rearrangement]


def _row(
    name: str,
    how: How,
    dims_kept: Callable[[Sequence[Shape], Params], Dims],
    make: Callable[[Any, Params], Callable[..., Any]],
    splits: Any = None,
    starts: Callable[[Params], tuple[int, ...]] | None = None,
    turned: Callable[[Params, int, tuple[int, ...]], Params] | None = None,
) -> Row:
    """Make the row of an operation that moves data.

    Args:
      name: the name for users.
      how: takes the shapes of the operands and the parameters; returns the map of elements.
      dims_kept: takes the same arguments; returns the dim of an operand for each dim of the result.
      make: takes the namespace and the parameters; returns the function of local arrays.
      splits: as for `Move`.
      starts: as for `Move`.
      turned: as for `Row`; such a row moves nothing until the result is needed in order.
    """

    def infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
        shape = how([aval.shape for aval in avals], params).shape
        return (Aval(shape, avals[0].dtype, all(aval.weak for aval in avals)),)

    def rule_of(avals: Sequence[Aval], params: Params) -> Rule:
        shapes = [aval.shape for aval in avals]
        operand_dims = tuple(tuple(range(len(shape))) for shape in shapes)
        return Rule(operand_dims, (dims_kept(shapes, params),), shapes[0])

    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        return writing(make(xp, params))

    return Row(
        name,
        infer,
        rule_of,
        kernel,
        (Move(how, splits, starts),),
        turned=turned,
        later=turned is not None,
        beside_keys=frozenset() if starts is None else frozenset(range(1, 64)),
    )


def _all(shapes: Sequence[Shape], params: Params) -> Dims:
    return tuple(range(len(shapes[0])))


def _at(axis: int, shapes: Sequence[Shape], more: int = 0) -> int:
    return len(shapes[0]) + more + axis


def index_of(form: Sequence[Entry], starts: Sequence[Any] = ()) -> tuple[Any, ...]:
    """Convert a parsed index, or an open one with its starts, to NumPy's form."""
    index: list[Any] = []
    numbers = iter(starts)
    for entry in form:
        if isinstance(entry, int):
            index.append(next(numbers, entry))
        elif isinstance(entry, tuple):
            start, step, length = entry
            start = next(numbers) if start is None else start
            stop = start + step * length
            index.append(slice(start, stop if stop >= 0 else None, step))
        else:
            index.append(entry)
    return tuple(index)


def _index_kept(shapes: Sequence[Shape], params: Params) -> Dims:
    piece = index_piece(params[0])
    return tuple(m.source for m in piece.maps if m.destination is not None)


INDEX = _row(
    "indexing",
    lambda shapes, params: index_piece(params[0]),
    _index_kept,
    lambda xp, params: lambda x, *starts: x[index_of(params[0], starts)].copy(),
    starts=lambda params: open_starts(params[0]),
)
"""Operands: the array, and the starts of entries as Python integers. Parameters: (open index,).
Entries are slices, integers and new dims: squeeze, expand_dims and flip too. Parts with different
starts are one operation, planned once."""


def index(x: Any, entries: tuple[Entry, ...], out: Sharding | None = None) -> Any:
    """Select the part of an array at a parsed index."""
    form, starts = open_index(entries, x.shape)
    return bind(INDEX, (x, *starts), (form,), out)


def _transpose_axes(shapes: Sequence[Shape], params: Params) -> tuple[int, ...]:
    return tuple(axis % len(shapes[0]) for axis in params[0])


TRANSPOSE = _row(
    "transpose",
    lambda shapes, params: permutation(shapes[0], _transpose_axes(shapes, params)),
    _transpose_axes,
    lambda xp, params: lambda x: xp.ascontiguousarray(x.transpose(params[0])),
    turned=lambda params, position, axes: (tuple(axes[axis] for axis in params[0]),),
)
"""Parameters: (axes,)."""


def transposed(x: Any, order: Sequence[int]) -> Any:
    """Transpose an array to an order of dims, counted from the front."""
    return bind(TRANSPOSE, (x,), (tuple([dim - x.ndim for dim in order]),))


def _broadcast_kept(shapes: Sequence[Shape], params: Params) -> Dims:
    lead = len(params[0]) - len(shapes[0])
    return (*(None,) * lead, *(None if n == 1 else dim for dim, n in enumerate(shapes[0])))


BROADCAST_TO = _row(
    "broadcast_to",
    lambda shapes, params: rearrangements.broadcast_to(shapes[0], params[0]),
    _broadcast_kept,
    lambda xp, params: lambda x: xp.broadcast_to(x, params[0]).copy(),
)
"""Parameters: (shape,)."""

CONCATENATE = _row(
    "concatenate",
    lambda shapes, params: rearrangements.concatenate(tuple(shapes), _at(params[0], shapes)),
    _all,
    lambda xp, params: lambda *x: xp.concatenate(x, axis=params[0]),
)
"""Parameters: (axis,)."""


def _stack_kept(shapes: Sequence[Shape], params: Params) -> Dims:
    at = _at(params[0], shapes, 1)
    dims: list[int | None] = list(range(len(shapes[0])))
    dims.insert(at, None)
    return tuple(dims)


STACK = _row(
    "stack",
    lambda shapes, params: rearrangements.stack(tuple(shapes), _at(params[0], shapes, 1)),
    _stack_kept,
    lambda xp, params: lambda *x: xp.stack(x, axis=params[0]),
)
"""Parameters: (axis,)."""

PAD = _row(
    "pad",
    lambda shapes, params: rearrangements.pad(shapes[0], params[0]),
    _all,
    lambda xp, params: lambda x, value: xp.pad(x, params[0], constant_values=value),
)
"""Parameters: (widths,); the constant comes as the second operand."""

ROLL = _row(
    "roll",
    lambda shapes, params: rearrangements.roll(
        shapes[0], params[0], tuple(_at(axis, shapes) for axis in params[1])
    ),
    _all,
    lambda xp, params: lambda x: xp.roll(x, *params),
)
"""Parameters: (shifts, axes)."""


def _permute(xp: Any, params: Params) -> Callable[..., Any]:
    axes, pairs = params

    def permute(x: Any) -> Any:
        result = xp.zeros_like(x)
        sizes = tuple(x.shape[axis] for axis in axes)
        source, target = (xp.moveaxis(each, axes, range(len(axes))) for each in (x, result))
        for of, to in pairs:
            target[np.unravel_index(to, sizes)] = source[np.unravel_index(of, sizes)]
        return result

    return permute


PERMUTE = _row(
    "ppermute",
    lambda shapes, params: rearrangements.permute(
        shapes[0], tuple(_at(axis, shapes) for axis in params[0]), params[1]
    ),
    _all,
    _permute,
)
"""Parameters: (axes, pairs): slice `to` along the axes is slice `of`, for each pair (of, to);
others are zeros. Slices are numbered in row-major order."""


def _tile_kept(shapes: Sequence[Shape], params: Params) -> Dims:
    lead = max(len(params[0]) - len(shapes[0]), 0)
    return (*(None,) * lead, *range(len(shapes[0])))


TILE = _row(
    "tile",
    lambda shapes, params: rearrangements.tile(shapes[0], params[0]),
    _tile_kept,
    lambda xp, params: lambda x: xp.tile(x, params[0]),
)
"""Parameters: (reps,)."""

REPEAT = _row(
    "repeat",
    lambda shapes, params: rearrangements.repeat(shapes[0], params[0], _at(params[1], shapes)),
    _all,
    lambda xp, params: lambda x: xp.repeat(x, *params),
)
"""Parameters: (count, axis)."""


def _infer_repeat(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    total, axis = params
    x = avals[0]
    at = len(x.shape) + axis
    return (Aval((*x.shape[:at], total, *x.shape[at + 1 :]), x.dtype, x.weak),)


def _repeat_rule(avals: Sequence[Aval], params: Params) -> Rule:
    shape = avals[0].shape
    dims_of_x = tuple(range(len(shape)))
    at = len(shape) + params[1]
    return Rule((dims_of_x, (at,)), (dims_of_x,), shape, frozenset({at}))


def _repeat_kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    total, axis = params

    def repeat(x: Any, counts: Any) -> Any:
        ends = xp.cumsum(counts, dtype=np.int64)
        source = xp.searchsorted(ends, xp.arange(total, dtype=np.int64), side="right")
        return xp.take(x, source, axis=axis)

    return writing(repeat)


REPEAT_EACH = Row(
    "repeat",
    _infer_repeat,
    _repeat_rule,
    _repeat_kernel,
    (Local("where an element goes depends on the counts of all before it"),),
    stacked=beside_others(0),
    each="elements of other counts go elsewhere",
    beside_keys=frozenset([1]),
)
"""Operands: an array, and a count of at least 0 for each element along a dim. Parameters: (sum of
the counts, axis counted from the end)."""


def _diagonal_dims(shapes: Sequence[Shape], params: Params) -> tuple[int, int]:
    return _at(params[1], shapes), _at(params[2], shapes)


def _diagonal_kept(shapes: Sequence[Shape], params: Params) -> Dims:
    gone = _diagonal_dims(shapes, params)
    return (*(dim for dim in range(len(shapes[0])) if dim not in gone), gone[0])


DIAGONAL = _row(
    "diagonal",
    lambda shapes, params: rearrangements.diagonal(
        shapes[0], params[0], *_diagonal_dims(shapes, params)
    ),
    _diagonal_kept,
    lambda xp, params: lambda x: x.diagonal(*params).copy(),
)
"""Parameters: (offset, first axis, second axis). The new dim keeps the axes of the first."""


def reshape_splits(
    shapes: Sequence[Shape], params: Params, splits: Splits, sizes: Mapping[str, int]
) -> Splits:
    """Return the mesh axes that split each dim of a reshaped array.

    The axes of a dim go to a dim of the result: the first that shares elements with it, has no axes
    yet, and is at least as long as their product. Nothing moves if both dims have the same
    outermost factor.

    >>> reshape_splits([(8, 8)], ((4, 16),), (("x",), ("y",)), {"x": 4, "y": 2})
    (('x',), ('y',))
    >>> reshape_splits([(8, 4)], ((32,),), (("x",), ()), {"x": 4})
    (('x',),)
    """
    (shape,), (new,) = shapes, params
    result: list[tuple[str, ...]] = [()] * len(new)
    if not math.prod(shape):
        return tuple(result)
    related = _related_dims(shape, new)
    for dim, axes in enumerate(splits):
        parts = math.prod(sizes[axis] for axis in axes)
        for target in related.get(dim, ()):
            if not result[target] and new[target] >= parts:
                result[target] = axes
                break
    return tuple(result)


def _related_dims(shape: Shape, new: Shape) -> dict[int, list[int]]:
    """Return the dims of another shape that share elements with a dim, outer ones first.

    Both shapes divide into stretches with equal numbers of elements. The result has the dims of the
    stretch.
    """
    groups: list[tuple[set[int], set[int]]] = []
    for old, others in shared_factors(shape, new):
        mine, theirs = {dim for dim, _ in old}, {dim for dim, _ in others}
        if groups and (groups[-1][0] & mine or groups[-1][1] & theirs):
            groups[-1][0].update(mine)
            groups[-1][1].update(theirs)
        else:
            groups.append((mine, theirs))
    return {dim: sorted(theirs) for mine, theirs in groups for dim in mine}


RESHAPE = _row(
    "reshape",
    lambda shapes, params: reshape(shapes[0], params[0]),
    lambda shapes, params: (None,) * len(params[0]),
    lambda xp, params: lambda x: x.reshape(params[0]).copy(),
    reshape_splits,
)
"""Parameters: (shape,). For the mesh axes of the result see `reshape_splits`."""
