"""Reading elements by position: `x[index]` and functions such as `take` and `nonzero`.

A mask becomes an array of positions for each of its dims. The host reads only the number of
positions on devices, and whether they are in bounds.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._functions.argument_checks import count, listed, ranged, refuse_out
from gpushard._functions.assigned_values import as_element
from gpushard._functions.docstrings import described
from gpushard._functions.element_types import check_dtype
from gpushard._functions.host_reads import concrete
from gpushard._functions.index_bounds import (
    INDEX,
    Positions,
    as_int64,
    as_integers,
    bounded,
    check_positions,
    clipped,
    has_traced,
    inside,
    unravelled,
)
from gpushard._functions.index_parsing import ParsedIndex, parse
from gpushard._functions.masks import is_in_place, select_true, true_places
from gpushard._functions.shapes import check_vector
from gpushard._functions.values import Array, is_value, laid_out, sharding_of
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import PartitionSpec
from gpushard._geometry.sharding import Sharding
from gpushard._ops.axes import one_from_end
from gpushard._ops.bind import bind
from gpushard._ops.index_arrays import Indexed, part_shape
from gpushard._ops.table.elementwise import WHERE, ufunc_row
from gpushard._ops.table.gather import GATHER
from gpushard._ops.table.manipulation import RESHAPE, STACK
from gpushard._ops.table.manipulation import index as index_part
from gpushard._ops.table.nonzero import NONZERO
from gpushard._ops.table.reductions import COUNT_NONZERO
from gpushard._typing import Shape
from gpushard.dtypes import iinfo, kind_of, result_type
from gpushard.errors import ArgumentError, ArgumentTypeError, ArrayIndexError, TracedValueError

_NOT_EQUAL = ufunc_row(np.not_equal)


def part_of(x: Array, parsed: ParsedIndex, out: Sharding | None = None) -> Array:
    """Select the part of the basic index that comes first."""
    return x if parsed.everything and out is None else index_part(x, parsed.entries, out)


def read(
    x: Array,
    parsed: ParsedIndex,
    arrays: Sequence[Positions],
    mode: str | None = None,
    fill_value: Any = None,
    out: Sharding | None = None,
) -> Array:
    """Select the elements of an index that has arrays in it."""
    if parsed.only_mask and out is None and arrays[0].shape == parsed.of:
        mask = arrays[0]
        if is_in_place(mask, x) and (chosen := select_true(x, mask)) is not None:
            return chosen
    at, indexed = positions(parsed, arrays, mode, "clip")
    fill = fill_bytes(fill_value, x.dtype) if mode in ("fill", "drop") else b""
    if not parsed.everything:
        x = index_part(x, parsed.entries)
    if out is None and parsed.only_mask and arrays[0].size:
        out = _like_mask(x, indexed, at[0])
    return bind(GATHER, (x, *at), (indexed, fill), out)


def read_at(x: Array, index: Any, out: Sharding | None = None) -> Array:
    """Select the elements of any index."""
    parsed, arrays = parse(x.shape, index)
    return read(x, parsed, arrays, out=out) if arrays else part_of(x, parsed, out)


def fill_bytes(value: Any, dtype: np.dtype[Any]) -> bytes:
    """Convert a fill value to bytes of a dtype; by default that of `jax.numpy.ndarray.at`."""
    if value is None:
        value = True if kind_of(dtype) == "b" else np.nan
        if kind_of(dtype) in "iu":
            value = iinfo(dtype).min if kind_of(dtype) == "i" else iinfo(dtype).max
    element = as_element(np.asarray(value)[()], dtype)
    assert element is not None
    return element.tobytes()


def _like_mask(x: Any, indexed: Indexed, at: Positions) -> Sharding | None:
    """Split the elements that a mask selects evenly over the axes that split the mask.

    Dims that are not masked keep their axes.
    """
    array_sharding, mask = sharding_of(x), sharding_of(at)
    if not isinstance(array_sharding, NamedSharding) or not isinstance(mask, NamedSharding):
        return None
    if array_sharding.mesh != mask.mesh:
        return None
    axes = mask.spec.axes(0)
    before, _, after = indexed.order(x.ndim)
    axes_of_dims = {dim: array_sharding.spec.axes(dim) for dim in (*before, *after)}
    entries = [
        () if set(axes_of_dims[dim]) & set(axes) else axes_of_dims[dim] for dim in (*before, *after)
    ]
    entries.insert(len(before), axes)
    while entries and not entries[-1]:
        entries.pop()
    return array_sharding.with_spec(PartitionSpec(*entries))


def positions(
    parsed: ParsedIndex, arrays: Sequence[Positions], mode: str | None, unknown: str
) -> tuple[list[Positions], Indexed]:
    """Make positions of the arrays of an index, checked; masks become one for each dim.

    Args:
      parsed: the index.
      arrays: its arrays.
      mode: one of `MODES`, or None: positions out of bounds raise. Those on the host are checked at
        no cost, those on devices by a reduction whose result the host reads.
      unknown: the mode for positions that are not checked.

    Returns:
      The positions, and how they index the part of the basic index.
    """
    if mode == "promise_in_bounds" or (mode is None and has_traced(arrays)):
        mode = unknown
    shape, at = parsed.of, list[Positions]()
    for array, is_mask in zip(arrays, parsed.masks, strict=True):
        dim = parsed.dims[len(at)]
        if is_mask:
            at += _of_mask(array, shape, dim)
        elif mode is None:
            check_positions(array, shape[dim], dim)
            at.append(array)
        else:
            at.append(inside(array, shape[dim], mode))
    in_bounds = mode in (None, "clip", "wrap")
    indexed = parsed.indexed if in_bounds else parsed.unchecked
    if len(at) > 1:
        selected_shape(indexed, parsed.shape, at)
    return at, indexed


def unwrapped(
    parsed: ParsedIndex, arrays: Sequence[Positions], mode: str | None
) -> list[Positions]:
    """Move negative positions out of bounds, or to 0 if the mode clips; masks stay as they are."""
    new = list[Positions]()
    dim = 0  # number of the indexed dim
    for array, is_mask in zip(arrays, parsed.masks, strict=True):
        size = 0 if is_mask else parsed.of[parsed.dims[dim]]
        dim += max(array.ndim, 1) if is_mask else 1
        new.append(array if is_mask else unwrapped_positions(array, size, mode))
    return new


def unwrapped_positions(at: Positions, size: int, mode: str | None) -> Positions:
    """Move negative positions out of bounds, or to 0 if the mode clips."""
    if mode == "wrap" or at.dtype.kind == "u":
        return at
    at = as_int64(at)
    if mode == "clip" and size:
        return clipped(at, 0, size - 1)
    return bind(WHERE, (at < 0, size, at)) if is_value(at) else np.where(at < 0, size, at)


def selected_shape(indexed: Indexed, shape: Shape, at: Sequence[Positions]) -> Shape:
    """Return the shape of the part that index arrays select."""
    shapes = tuple([each.shape for each in at])
    try:
        return part_shape(indexed, shape, shapes)
    except ValueError:
        raise ArrayIndexError(
            f"the index arrays have shapes {', '.join(map(str, shapes))}, which do not broadcast; "
            "dims must be equal or 1, counted from the last",
            argument="index",
            shapes=shapes,
        ) from None


def _of_mask(mask: Any, shape: Shape, dim: int) -> Sequence[Positions]:
    """Find where a mask is true; one without dims selects a new dim, of length 1 or 0."""
    if not mask.ndim:
        return (np.zeros(int(mask), INDEX),)
    for at, (length, size) in enumerate(zip(mask.shape, shape[dim:], strict=False)):
        if length not in (size, 0):  # no elements select none, as the Array API has it
            raise ArrayIndexError(
                f"the boolean index of shape {mask.shape} has length {length} along dim "
                f"{dim + at} of the array, whose length is {size}; make them equal",
                argument="index",
                dim=dim + at,
                size=size,
                length=length,
            )
    return true_positions(mask) if is_value(mask) else np.nonzero(mask)


def count_true(mask: Any) -> int:
    """Count the elements that are true, on the host or on devices; waits for the mask."""
    if not mask.size:
        return 0
    if not is_value(mask):
        return int(np.count_nonzero(mask))
    every = tuple(range(-mask.ndim, 0))
    return int(concrete(bind(COUNT_NONZERO, (mask,), (every, False, None)), "x[mask]"))


def true_positions(
    mask: Any, size: int | None = None, fills: tuple[int, ...] | None = None
) -> tuple[Any, ...]:
    """Find where a mask is true: an array of positions for each dim, in row-major order.

    They are split over the mesh axes that split the mask. Where their number is known the mask is
    gathered, with a byte for each element.

    Args:
      mask: at least one dim.
      size: the number of positions; by default as many as are true, which the host has to read.
      fills: for each dim the value of surplus positions; 0 by default.
    """
    if mask.dtype != bool:
        mask = bind(_NOT_EQUAL, (mask, 0))
    if size is None and is_in_place(mask) and (places := true_places(mask)) is not None:
        return places
    number = count_true(mask) if size is None else size
    mask_sharding = sharding_of(mask)
    out = None
    if isinstance(mask_sharding, NamedSharding) and isinstance(mask_sharding.mesh, Mesh):
        axes = tuple(axis for dim in range(mask.ndim) for axis in mask_sharding.spec.axes(dim))
        out = mask_sharding.with_spec(PartitionSpec(axes) if axes else PartitionSpec())
    result = bind(NONZERO, (mask,), (number, fills or (0,) * mask.ndim), out)
    return result if isinstance(result, tuple) else (result,)


def _filling(mode: str | None, fill_value: Any, dtype: np.dtype[Any], name: str) -> bytes:
    """Convert the value for positions out of bounds with "fill" to bytes."""
    if mode != "fill" and fill_value is not None:
        raise ArgumentError(
            f'{name}: fill_value= is for mode="fill", and mode is {mode!r}; give both',
            argument="fill_value",
            mode=mode,
        )
    return fill_bytes(fill_value, dtype) if mode == "fill" else b""


def _lined(x: Any, axis: Any, name: str) -> tuple[Any, int]:
    """Return a dim from the front; None takes the array in row-major order."""
    if axis is None:
        return (x if x.ndim == 1 else bind(RESHAPE, (x,), ((x.size,),))), 0
    return x, x.ndim + one_from_end(axis, x.ndim, name)


def take(
    a: Array,
    indices: Any,
    axis: int | None = None,
    out: Any = None,
    mode: str | None = "raise",
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Take elements, or slices along an axis, by their positions.

    Args:
      indices: the positions, on the host or on devices.
      axis: the axis; by default all elements in row-major order.
      mode: the treatment of positions out of bounds: "raise", "clip" (which takes 0 for negative
        positions), "wrap" or "fill"; None for "raise". With "raise" the host waits for one number
        if positions are on devices.
      fill_value: the element for positions out of bounds with "fill"; by default NaN, or the
        extreme of integers.

    Raises:
      ArrayIndexError: a position is out of bounds.
      ArgumentTypeError: positions are not integers.

    >>> import gpushard as gs
    >>> gs.numpy.take(gs.numpy.arange(4) * 10, [3, -2])
    Array([30, 20], dtype=int64)
    """
    refuse_out("take", out)
    at, fill = as_integers(indices, "take"), _filling(mode, fill_value, a.dtype, "take")
    if axis is None and not fill and a.size and _is_split_within(a):
        at = as_int64(bounded(at, a.size, mode, "take", fill=True)) % a.size
        indexed = Indexed(tuple(range(-a.ndim, 0)), 0, (), True)
        return bind(GATHER, (a, *unravelled(at, a.shape)), (indexed, b""), out_sharding)
    x, dim = _lined(a, axis, "take")
    at = bounded(at, x.shape[dim], mode, "take", dim, fill=True)
    after = x.ndim - dim - 1
    indexed = Indexed((-1 - after,), after, (), bool(x.shape[dim]) and not fill)
    return bind(GATHER, (x, at), (indexed, fill), out_sharding)


def _is_split_within(x: Any) -> bool:
    """Whether a dim other than the first is split, so that elements in a row are apart."""
    sharding = sharding_of(x)
    if not isinstance(sharding, NamedSharding):
        return False
    return any(sharding.spec.axes(dim) for dim in range(1, x.ndim))


def along_axis(
    x: Any,
    indices: Any,
    axis: Any,
    name: str,
    mode: str | None = "raise",
    *,
    fill: bool = False,
    wrap: bool = True,
) -> tuple[Indexed, Positions, Shape]:
    """Say how positions along one dim index an array, checked; their shape with the others."""
    at = as_integers(indices, name)
    if at.ndim != x.ndim:
        raise ArgumentError(
            f"{name}: indices have {at.ndim} dims and the array {x.ndim}; give as many",
            argument="indices",
            shape=at.shape,
            expected=x.shape,
        )
    along = one_from_end(axis, x.ndim, name)
    others = [dim for dim in range(-x.ndim, 0) if dim != along]
    inside = bool(x.shape[along]) and mode != "fill"
    indexed = Indexed((along,), 0, tuple((dim, dim) for dim in others), inside)
    try:
        shape = part_shape(indexed, x.shape, (at.shape,))
    except ValueError:
        raise ArgumentError(
            f"{name}: indices of shape {at.shape} do not broadcast with the array of shape "
            f"{x.shape}; other dims than axis={axis} must be equal or 1",
            argument="indices",
            shape=at.shape,
            expected=x.shape,
        ) from None
    size = x.shape[along]
    at = at if wrap else unwrapped_positions(at, size, mode)
    if mode == "clip" and size:  # JAX's, for which negative positions count from the end
        return indexed, clipped(at, -size, size - 1), shape
    return indexed, bounded(at, size, mode, name, x.ndim + along, fill=fill), shape


def take_along_axis(
    arr: Array,
    indices: Any,
    axis: int | None = -1,
    *,
    mode: str | None = "raise",
    fill_value: Any = None,
    wrap_negative_indices: bool = True,
    out_sharding: Any = None,
) -> Array:
    """Take elements by their positions along an axis, which may differ along the other axes.

    Args:
      indices: the positions, an array with as many axes; the other axes are broadcast.
      axis: the axis; None takes the array in row-major order.
      mode: the treatment of positions out of bounds; see `take`.
      fill_value: the element for positions out of bounds with "fill"; see `take`.
      wrap_negative_indices: whether negative positions count from the end; otherwise they are out
        of bounds, which the modes "clip" and "fill" allow.

    Raises:
      ArrayIndexError: a position is out of bounds.
      ArgumentError: the other axes do not fit.

    >>> import gpushard as gs
    >>> x = gs.numpy.asarray([[3, 1, 2], [4, 6, 5]])
    >>> gs.numpy.take_along_axis(x, x.argmax(axis=1, keepdims=True))
    Array([[3],
           [6]], dtype=int64)
    """
    name = "take_along_axis"
    x, dim = _lined(arr, axis, name)
    fill = _filling(mode, fill_value, x.dtype, name)
    indexed, at, _ = along_axis(x, indices, dim, name, mode, fill=True, wrap=wrap_negative_indices)
    return bind(GATHER, (x, at), (indexed, fill), out_sharding)


_finding = described(
    size="the number of positions; by default all of them, whose number the host reads.",
    fill_value="the number for surplus positions, or a number for each axis; 0 by default.",
    out_sharding="where results go; by default they are split over the axes that split the array.",
)


@_finding
def nonzero(
    a: Array, *, size: int | None = None, fill_value: Any = None, out_sharding: Any = None
) -> tuple[Array, ...]:
    """Find the positions of elements that are not 0: an array of positions for each axis.

    Raises:
      ArgumentError: the array has no axes.

    >>> import gpushard as gs
    >>> gs.numpy.nonzero(gs.numpy.asarray([0, 3, 0, 4]), size=3, fill_value=-1)
    (Array([ 1,  3, -1], dtype=int64),)
    """
    places = _nonzero(a, size, fill_value, "nonzero")
    return tuple(laid_out(place, out_sharding) for place in places)


def _nonzero(x: Any, size: Any, fill_value: Any, name: str) -> tuple[Any, ...]:
    """Find the positions of elements that are not 0."""
    if not x.ndim:
        raise ArgumentError(
            f"{name} needs at least one dim, the shape is (); use atleast_1d(x)",
            argument="x",
            shape=(),
        )
    number = None if size is None else count(size, name, "size")
    if fill_value is None:
        return true_positions(x, number)
    values = fill_value if isinstance(fill_value, tuple | list) else (fill_value,) * x.ndim
    try:
        fills = tuple(ranged(operator.index(value), name, "fill_value") for value in values)
    except TracedValueError:
        raise
    except TypeError:
        raise ArgumentTypeError.refusing(
            "fill_value", fill_value, "must be an integer, or a tuple of them", name
        ) from None
    if len(fills) != x.ndim:
        raise ArgumentError(
            f"{name}: fill_value has {len(fills)} numbers for {x.ndim} dims; give one for each",
            argument="fill_value",
            value=fill_value,
        )
    return true_positions(x, number, fills)


@_finding
def flatnonzero(
    a: Array, *, size: int | None = None, fill_value: Any = None, out_sharding: Any = None
) -> Array:
    """Find the positions, in row-major order, of elements that are not 0."""
    flat, _ = _lined(a, None, "flatnonzero")
    (places,) = _nonzero(flat, size, fill_value, "nonzero")
    return laid_out(places, out_sharding)


@_finding
def argwhere(
    a: Array, *, size: int | None = None, fill_value: Any = None, out_sharding: Any = None
) -> Array:
    """Find the positions of elements that are not 0: a matrix with a row for each element.

    For an array without axes the rows have no elements; there is one row, or none.
    """
    if not a.ndim:
        (at,) = _nonzero(bind(RESHAPE, (a,), ((1,),)), size, fill_value, "argwhere")
        return laid_out(at[:, None][:, :0], out_sharding)
    places = _nonzero(a, size, fill_value, "argwhere")
    return laid_out(bind(STACK, places, (-1,)), out_sharding)


def as_mask(mask: Any, argument: str) -> Any:
    """Convert a mask to an array that can be compared with 0."""
    array = mask if is_value(mask) else np.asarray(mask)
    check_dtype(array.dtype, argument)
    return array


@described(
    size="the number of slices; by default all of them, whose number the host reads.",
    fill_value="the element of surplus slices; 0 by default.",
)
def compress(
    condition: Any,
    a: Array,
    axis: int | None = None,
    out: Any = None,
    *,
    size: int | None = None,
    fill_value: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Select the slices along an axis for which a condition holds.

    Args:
      condition: a vector, which may be shorter than the axis.
      axis: the axis; by default all elements in row-major order.

    Raises:
      ArgumentError: the condition is not a vector.
      ArrayIndexError: the condition holds beyond the end of the axis.
    """
    refuse_out("compress", out)
    mask = as_mask(condition, "condition")
    check_vector("compress", "condition", mask)
    data: Any = a
    if not is_value(data):  # a number, or data on the host with a mask on devices
        data = np.ravel(data) if axis is None else np.asarray(data)
    x, dim = _lined(data, axis, "compress")
    lead = (slice(None),) * dim
    if size is not None:
        number, end = count(size, "compress", "size"), x.shape[dim]
        if is_value(mask):
            (at,) = true_positions(mask, number, (end,))
        else:
            chosen = np.flatnonzero(mask)[:number]
            at = np.concatenate([chosen, np.full(number - len(chosen), end)])
        fill = 0 if fill_value is None else fill_value
        return take(x, at, dim, None, "fill", fill_value=fill, out_sharding=out_sharding)
    if mask.shape[0] <= x.shape[dim]:
        index = (*lead, slice(mask.shape[0]))
        return read_at(read_at(x, index), (*lead, mask != 0), out_sharding)
    at = true_positions(mask)[0] if is_value(mask) else np.nonzero(mask)[0]
    return read_at(x, (*lead, at), out_sharding)


def choose(
    a: Array, choices: Any, out: Any = None, mode: str = "raise", *, out_sharding: Any = None
) -> Array:
    """Choose each element from one of several arrays.

    Args:
      a: the number of the array for each element, integers.
      choices: the arrays; all are broadcast with `a`.
      mode: the treatment of numbers out of range: "raise", "clip" or "wrap". With "raise" the host
        reads a number.

    Raises:
      ArgumentError: there are no arrays, or a number is out of range.
    """
    refuse_out("choose", out)
    at: Any = as_integers(a, "choose", "index")
    entries = listed(choices, "choose", "choices", "a sequence of arrays")
    arrays = [choice if is_value(choice) else np.asarray(choice) for choice in entries]
    if not arrays:
        raise ArgumentError("choose: there are no choices; give at least one", argument="choices")
    if mode == "raise" and not has_traced((at,)):
        if count_true((at < 0) | (at >= len(arrays))):
            raise ArgumentError(
                f"choose: an entry of the index is not one of 0 to {len(arrays) - 1}; use "
                'mode="clip" or "wrap"',
                argument="index",
                choices=len(arrays),
            )
    else:
        at = bounded(at, len(arrays), "clip" if mode == "raise" else mode, "choose")
    dtype = result_type(*(array.dtype for array in arrays))
    result: Any
    *first, result = [x if x.dtype == dtype else x.astype(dtype) for x in arrays]
    for number, array in reversed([*enumerate(first)] or [(0, result)]):
        wanted = None if number else out_sharding
        result = bind(WHERE, (at == number, array, result), (), wanted)
    return result
