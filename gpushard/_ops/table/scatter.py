"""Write by indices: `x.at[1:3].set(v)`; by index arrays `x[i] = v`, `put_along_axis`.

The array stays split. Values for a basic index move directly to their blocks. Index arrays are
whole, so every block makes the updates that fall into it, in NumPy's order. Updates out of bounds
fall into no block.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard import dtypes
from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.basic_index import index_piece, open_starts
from gpushard._ops.index_arrays import (
    Indexed,
    has_many,
    integers,
    located,
    located_flat,
    part_shape,
    scatter_rule,
    spread,
    stacked,
)
from gpushard._ops.programs.in_one_call import InOneCall, Together
from gpushard._ops.programs.local import Local
from gpushard._ops.programs.move import Replace
from gpushard._ops.row import Kernel, Params, Row, Site, Stack
from gpushard._ops.rule import Rule
from gpushard._ops.table.elementwise import ufunc_row, writing
from gpushard._ops.table.manipulation import index_of
from gpushard._ops.update_at import update_at
from gpushard._runtime.namespace import own_kernels
from gpushard._typing import LocalArray, LocalArrays, Shape
from gpushard.errors import ArgumentError, ArgumentTypeError


def _shapes(avals: Sequence[Aval]) -> tuple[Shape, ...]:
    return tuple(aval.shape for aval in avals[2:])


def _types(avals: Sequence[Aval], params: Params) -> tuple[Dtype, Dtype]:
    """Return the types in which elements and values are combined.

    Narrow floats are added in single precision.
    """
    x, values = avals[:2]
    ufunc = params[1]
    if ufunc is None:
        return x.dtype, x.dtype
    loop = ufunc_row(ufunc).loop
    assert loop is not None
    _, second, result = loop((x, values))
    return dtypes.wide(result), dtypes.wide(second)


def _infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    """Check that values broadcast to the part, and convert to its type without loss."""
    x, values = avals[:2]
    shape = part_shape(params[0], x.shape, _shapes(avals))
    try:
        fits = np.broadcast_shapes(values.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ArgumentError(
            f"value has shape {values.shape} and the part of the array {shape}: it cannot be "
            "broadcast; give a value of the part's shape",
            argument="value",
            shape=values.shape,
            expected=shape,
        )
    wide, _ = _types(avals, params)
    if wide.kind == "c" and x.dtype.kind != "c":
        raise ArgumentTypeError(
            f"value has dtype {values.dtype} and the array {x.dtype}: imaginary parts would be "
            "lost; give value.real",
            argument="value",
            dtype=values.dtype,
            expected=x.dtype,
        )
    return (Aval(x.shape, x.dtype),)


def _rule(avals: Sequence[Aval], params: Params) -> Rule:
    return scatter_rule(params[0], avals[0].shape, avals[1].shape, _shapes(avals))


def _with_room(xp: Any, x: LocalArray, axis: int, dtype: Dtype) -> LocalArray:
    """Copy an array with one more slice at the end of a dim, for updates that hit no element."""
    shape = list(x.shape)
    shape[axis] += 1
    work = xp.empty(tuple(shape), dtype)
    work[_without_room(axis)] = x
    return work


def _without_room(axis: int) -> tuple[Any, ...]:
    return (..., slice(None, -1), *(slice(None),) * (-axis - 1))


def _kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    indexed, ufunc = params
    wide, kind = _types(avals, params)
    sizes = [avals[0].shape[axis] for axis in indexed.axes]
    if xp is np and wide == avals[0].dtype:
        return functools.partial(_write_owned, indexed, ufunc, kind, sizes)

    operation = _CODES.get(ufunc) if _is_coded(ufunc, wide) else None
    is_long = math.prod(spread(indexed, avals[0].shape, _shapes(avals))) > LONG
    if own_kernels(xp) is not None and operation and (ufunc is None or not is_long):
        return functools.partial(_update_own, xp, indexed, operation, (wide, kind), sizes)

    def scatter(site: Site, x: LocalArray, values: Any, *positions: LocalArray) -> Any:
        places = _places(xp, indexed, sizes, site, x, positions)
        axis = indexed.axes[0]
        values = xp.asarray(values).astype(kind, copy=False)
        work = _with_room(xp, x, axis, wide)
        view, index = indexed.view(xp, work, places)
        before, dims, _ = indexed.order(x.ndim)
        room = len(before) + dims.index(x.ndim + axis)
        update_at(xp, view, index, values, ufunc, room)
        result = work[_without_room(axis)]
        if wide != x.dtype:  # elements without updates stay unchanged
            touched = xp.zeros(work.shape, bool)
            view, index = indexed.view(xp, touched, places)
            view[index] = True
            return xp.where(touched[_without_room(axis)], result.astype(x.dtype), x)
        return xp.ascontiguousarray(result)

    return writing(scatter)


def _stack_updates(
    params: Params, shapes: Sequence[Shape], dims: Sequence[tuple[int, ...]], lead: int
) -> Stack:
    """Make the updates of all elements of dims in front at once."""
    indexed, ufunc = params
    count = len(part_shape(indexed, shapes[0], tuple(shapes[2:])))
    between: list[int | None] = [None] * len(shapes[2:])
    if any(dims[2:]):
        indexed, n_dims = stacked(indexed, shapes[0], shapes[2:], lead)
        between = [n_dims - len(shape) for shape in shapes[2:]]
    return Stack((indexed, ufunc), (0, count - len(shapes[1]), *between), frozenset([0]))


_CODES: dict[np.ufunc | None, str] = {
    None: "Replace",
    np.add: "Add",
    np.subtract: "Subtract",
    np.multiply: "Multiply",
    np.divide: "Divide",
    np.power: "Power",
    np.minimum: "Minimum",
    np.maximum: "Maximum",
}
"""The names of ufuncs in `kernels/indexing.cuh`."""

LONG = 1 << 16
"""With more updates, too many may hit one element to make them one after the other."""


def _is_coded(ufunc: np.ufunc | None, dtype: Dtype) -> bool:
    """Test whether the backend has a kernel for a ufunc and a type."""
    if ufunc is np.power:
        return dtype.kind in "fc"
    return dtype.isbuiltin == 1 and (dtype.kind != "c" or ufunc not in (np.minimum, np.maximum))


def _update_own(
    xp: Any,
    indexed: Indexed,
    operation: str,
    types: tuple[Dtype, Dtype],
    sizes: Sequence[int],
    site: Site,
    x: LocalArray,
    values: Any,
    *positions: LocalArray,
    out: LocalArray,
) -> LocalArray:
    """Make updates by a kernel of the backend; for the arguments see `_write_owned`."""
    kernels = own_kernels(xp)
    wide = spread(indexed, x.shape, tuple(at.shape for at in positions))
    out[...] = x
    view, steps = indexed.first_of(xp, out, wide)
    if not view.size:
        return out
    end = view.ndim - indexed.after
    lead = end - len(wide)
    pairs = [end + at for _, at in indexed.paired]
    free = [dim for dim in range(lead, end) if dim not in pairs]
    count = math.prod(view.shape[dim] for dim in free)
    order = [*range(lead), *pairs, *range(end, view.ndim), *free]
    alone = view.ndim - len(free)
    turned = view.transpose(order)
    shape = (*turned.shape[:alone], count)
    cells = xp.lib.stride_tricks.as_strided(turned, shape, (*turned.strides[:alone], 0))
    if isinstance(values, xp.ndarray):
        values = xp.broadcast_to(values, view.shape).transpose(order).reshape(shape)
    places, dims = [], []
    for axis, at, size, step in zip(indexed.axes, positions, sizes, steps, strict=True):
        turn = [dim - lead for dim in (*pairs, *free)]
        at = integers(at)
        places.append(xp.broadcast_to(at, wide).transpose(turn) if at.ndim else at)
        dims.append(kernels.Along(size, site.operands[0][axis], x.shape[axis], step))
    rows = (*(view.shape[dim] for dim in pairs), *(1,) * indexed.after, count)
    grid = tuple(view.shape[dim] for dim in (*pairs, *free))
    kernels.update(operation, *types, cells, values, places, dims, grid, rows)
    return out


def _write_owned(
    indexed: Indexed,
    ufunc: np.ufunc | None,
    kind: Dtype,
    sizes: Sequence[int],
    site: Site,
    x: LocalArray,
    values: Any,
    *positions: LocalArray,
    out: Any = None,
) -> LocalArray:
    """Make only the updates that fall into a block: the kernel for NumPy."""
    out = np.empty(x.shape, x.dtype) if out is None else out
    out[...] = x
    starts = [site.operands[0][axis] for axis in indexed.axes]
    _write(indexed, ufunc, kind, sizes, starts, out, values, positions)
    return out


def _write_together(
    indexed: Indexed,
    ufunc: np.ufunc | None,
    kind: Dtype,
    sizes: Sequence[int],
    together: Together,
    *arrays: Any,
    out: Any = None,
) -> LocalArray:
    """Make the updates of the whole array, piece by piece: the kernel for NumPy."""
    blocks, values, *positions = together.by_operand(arrays)
    out = np.empty(together.shape, blocks[0].dtype) if out is None else out
    for box, block in zip(together.boxes, blocks, strict=True):
        out[box] = block
    starts = (0,) * len(sizes)
    for piece in range(max(map(len, positions))):
        new, *at = [each[piece if len(each) > 1 else 0] for each in (values, *positions)]
        _write(indexed, ufunc, kind, sizes, starts, out, new, at)
    return out


def _write(
    indexed: Indexed,
    ufunc: np.ufunc | None,
    kind: Dtype,
    sizes: Sequence[int],
    starts: Sequence[int],
    out: LocalArray,
    values: Any,
    positions: Sequence[LocalArray],
) -> None:
    """Make the updates that fall into an array, with NumPy.

    Args:
      indexed: the indexed dims.
      ufunc: what combines elements with values, or None to replace elements.
      kind: the type of values.
      sizes: lengths of the indexed dims of the whole array.
      starts: the start of the array along these dims.
      out: the array.
      values: the values.
      positions: the index arrays.
    """
    wide = spread(indexed, out.shape, tuple(at.shape for at in positions))
    if not out.size or not math.prod(wide):
        return
    local, chosen = [], None
    for axis, at, size, start in zip(indexed.axes, positions, sizes, starts, strict=True):
        place, inside = located_flat(at, wide, size, start, out.shape[axis])
        local.append(place)
        if inside is not None:
            chosen = inside if chosen is None else chosen & inside
    before, dims, after = indexed.order(out.ndim)
    lead = (slice(None),) * len(before)
    shape = [out.shape[dim] for dim in before], wide, [out.shape[dim] for dim in after]
    values = _in_line(np.asarray(values).astype(kind, copy=False), *map(tuple, shape))
    of = dict(zip(indexed.axes, local, strict=True)) | indexed.paired_positions(out.shape, wide)
    index = [of[dim - out.ndim] for dim in dims]
    if chosen is not None:
        mine = np.flatnonzero(chosen)
        index = [at[mine] for at in index]
        values = values if values.shape[len(lead)] == 1 else values[(*lead, mine)]
    view = out.transpose((*before, *dims, *after))
    update_at(np, view, (*lead, *index), values, ufunc, 0)


def _in_line(values: LocalArray, before: Shape, wide: Shape, after: Shape) -> LocalArray:
    """Merge the dims of index arrays in values into one, of length 1 if values do not differ."""
    full_shape = (1,) * (len(before) + len(wide) + len(after) - values.ndim) + values.shape
    lead, rest = full_shape[: len(before)], full_shape[len(before) + len(wide) :]
    middle = full_shape[len(before) : len(before) + len(wide)]
    if math.prod(middle) == 1:
        return values.reshape((*lead, 1, *rest))
    whole = np.broadcast_to(values.reshape(full_shape), (*lead, *wide, *rest))
    return whole.reshape((*lead, math.prod(wide), *rest))


def _places(
    xp: Any,
    indexed: Indexed,
    sizes: Sequence[int],
    site: Site,
    x: LocalArray,
    positions: LocalArrays,
) -> list[LocalArray]:
    """Return positions in a block; updates of other blocks get positions in the room at the end."""
    places, inside = [], xp.ones((), bool)
    for axis, at, size in zip(indexed.axes, positions, sizes, strict=True):
        place, is_inside = located(xp, at, size, site.operands[0][axis], x.shape[axis])
        places.append(place)
        inside = inside & is_inside
    room = x.shape[indexed.axes[0]]
    places[0] = xp.where(inside, places[0], room)
    return places


_FEW = 16
"""If an update has fewer elements, most of the time goes into a search for its block."""


def _is_faster_together(avals: Sequence[Aval], params: Params, split: Sequence[int]) -> bool:
    """Test whether one call makes all updates in less time than a call for each block."""
    (indexed, _), x, shapes = params, avals[0], _shapes(avals)
    wide, _ = _types(avals, params)
    searched = {len(x.shape) + axis for axis in indexed.axes}
    if wide != x.dtype or indexed.paired or not searched.issuperset(split):
        return False
    row = math.prod(n for dim, n in enumerate(x.shape) if dim not in searched)
    return row < _FEW and has_many(indexed, x.shape, x.dtype.itemsize, shapes)


def _together(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    indexed, ufunc = params
    sizes = [avals[0].shape[axis] for axis in indexed.axes]
    return functools.partial(_write_together, indexed, ufunc, _types(avals, params)[1], sizes)


SCATTER = Row(
    "indexed update",
    _infer,
    _rule,
    _kernel,
    (
        InOneCall(
            _together,
            Local(
                "updates may be for any block: positions and values come to each, the array stays",
                stays=True,
            ),
            _is_faster_together,
        ),
    ),
    positional=True,
    stacked=_stack_updates,
    steps=8,
    beside_keys=frozenset(range(2, 64)),
)
"""Operands: the array, the values, then index arrays. Parameters: (`Indexed`, the ufunc that
combines elements with values, or None to replace elements)."""


def _update_infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    return (Aval(avals[0].shape, avals[0].dtype),)


def _update_rule(avals: Sequence[Aval], params: Params) -> Rule:
    """Return the rule: dims that are replaced completely pass through; others are whole."""
    shape, maps = avals[0].shape, index_piece(params[0]).maps
    part = [m.source for m in maps if m.destination is not None]
    whole = frozenset(m.source for m in maps if m.source is not None and m.length < shape[m.source])
    value = [None if n == 1 else dim for dim, n in zip(part, avals[1].shape, strict=False)]
    dims, starts = tuple(range(len(shape))), ((),) * (len(avals) - 2)
    return Rule((dims, tuple(value), *starts), (dims,), shape, whole)


def _update(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    def update(x: LocalArray, value: Any, *starts: int) -> LocalArray:
        result = x.copy()
        result[index_of(params[0], starts)] = value
        return result

    return writing(update)


UPDATE = Row(
    "update",
    _update_infer,
    _update_rule,
    _update,
    (
        Replace(
            lambda shapes, params: index_piece(params[0]),
            starts=lambda params: open_starts(params[0]),
        ),
    ),
    beside_keys=frozenset(range(2, 64)),
)
"""Operands: the array; an element, or an array of the part's shape or of size 1, of its type; and
the starts of entries as Python integers. Parameters: (open index,)."""
