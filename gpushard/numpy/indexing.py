"""Elements by position, and where they are.

What has a result of unknown size (`nonzero` and what builds on it) makes the host wait for one
number: how many there are. Give `size=` where a function takes it, and it does not. Masks are
gathered for that, with a byte for each element; arrays are not. `put`, `put_along_axis`, `place`,
`putmask` and `fill_diagonal` give an array a new value, as `x[index] = value` does.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from gpushard.array import Array, picking
from gpushard.array.assignment import renew
from gpushard.array.updating import scattered
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.numpy import elementwise as ew
from gpushard.numpy.arguments import as_value, is_number, is_value, refuse_out, settle, wanted
from gpushard.numpy.data_type import result_type
from gpushard.ops.bind import bind
from gpushard.ops.table.gather import GATHER

# fmt: off
__all__ = [
    "argwhere", "choose", "compress", "extract", "fill_diagonal", "flatnonzero", "nonzero",
    "place", "put", "put_along_axis", "putmask", "select", "take", "take_along_axis",
]
# fmt: on


def take(
    a: Any,
    indices: Any,
    axis: int | None = None,
    out: Any = None,
    mode: str = "raise",
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return elements, or slices along a dim, by their positions.

    Args:
      a: an array.
      indices: the positions, on the host or on devices.
      axis: along which dim; by default in row-major order of all elements.
      out: must be None; results are values.
      mode: what happens to positions out of bounds: "raise", "clip" (which knows no negative
        ones), "wrap" or "fill". With "raise" the host waits for one number if positions are on
        devices.
      unique_indices: a hint.
      indices_are_sorted: a hint.
      fill_value: what they give with "fill"; NaN, or the extreme of integers, by default.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArrayIndexError: a position is out of bounds.
      ArgumentTypeError: positions are no integers.

    >>> import gpushard as gs
    >>> take(gs.numpy.arange(4) * 10, [3, -2])
    Array([30, 20], dtype=int64)
    """
    refuse_out("take", out)
    x = as_value(a, "take")
    to = wanted(out_sharding, x)
    given = indices, axis, None, mode
    return settle(x.take(*given, fill_value=fill_value, out_sharding=to), out_sharding)


def take_along_axis(
    arr: Any,
    indices: Any,
    axis: int | None = -1,
    *,
    mode: str = "raise",
    fill_value: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return elements by their positions along a dim, which may differ elsewhere.

    Args:
      arr: an array.
      indices: positions, with as many dims as the array; the other ones are broadcast.
      axis: along which dim; None takes the array in row-major order.
      mode: as for `take`.
      fill_value: likewise.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArrayIndexError: a position is out of bounds.
      ArgumentError: the other dims do not fit.

    >>> import gpushard as gs
    >>> x = gs.numpy.asarray([[3, 1, 2], [4, 6, 5]])
    >>> take_along_axis(x, x.argmax(axis=1, keepdims=True))
    Array([[3],
           [6]], dtype=int64)
    """
    x = as_value(arr, "take_along_axis")
    if axis is None:
        x, axis = x.ravel(), 0
    fill = picking.filling(mode, fill_value, x.dtype, "take_along_axis")
    indexed, at, _ = picking.along(x, indices, axis, "take_along_axis", mode, fill=True)
    to = wanted(out_sharding, x)
    return settle(bind(GATHER, (x, at), (indexed, fill), to), out_sharding)


def put_along_axis(
    arr: Any,
    indices: Any,
    values: Any,
    axis: int | None = -1,
    *,
    inplace: bool = True,
    mode: str = "raise",
) -> Array | None:
    """Replace elements of an array by their positions along a dim.

    Args:
      arr: the array, which gets a new value.
      indices: positions, with as many dims as the array; the other ones are broadcast.
      values: the new elements; they are broadcast to the positions.
      axis: along which dim; None takes the array in row-major order.
      inplace: False returns an array with the new value, and leaves this one as it is.
      mode: what happens to positions out of bounds: "raise", "clip" or "wrap".

    Raises:
      ArrayIndexError: a position is out of bounds.
      ArgumentError: the other dims, or the values, do not fit.
    """
    x = _changed(arr, "put_along_axis", inplace=inplace)
    flat = x.ravel() if axis is None else x
    along = 0 if axis is None else axis
    indexed, at, shape = picking.along(flat, indices, along, "put_along_axis", mode)
    new = scattered(flat, indexed, (at,), values, shape)
    if axis is None:
        x[...] = new.reshape(x.shape)
    else:
        renew(x, new)
    return None if inplace else x


def _changed(x: Any, name: str, argument: str = "arr", *, inplace: bool) -> Any:
    """Return the array that a function changes, or another of its value.

    Raises:
      ArgumentTypeError: it is none of gpushard.
    """
    if not isinstance(x, Array):
        raise ArgumentTypeError(
            f"{name} changes a gpushard array, {argument} is a {type(x).__name__}; use "
            f"numpy.{name} for what is on the host",
            argument=argument,
            type=type(x),
        )
    return x if inplace else copy.copy(x)


def put(a: Any, ind: Any, v: Any, mode: str = "raise", *, inplace: bool = True) -> Array | None:
    """Replace elements of an array, numbered in row-major order.

    Args:
      a: the array, which gets a new value.
      ind: the numbers of elements.
      v: the new elements; from the first again where they are too few.
      mode: what happens to numbers out of bounds: "raise", "clip" or "wrap".
      inplace: False returns an array with the new value, and leaves this one as it is.

    Raises:
      ArrayIndexError: a number is out of bounds.
    """
    x = _changed(a, "put", "a", inplace=inplace)
    picking.put(x, ind, v, mode)
    return None if inplace else x


def place(arr: Any, mask: Any, vals: Any, *, inplace: bool = True) -> Array | None:
    """Replace elements where a mask is true by the first of some values, the second, and so on.

    Args:
      arr: the array, which gets a new value.
      mask: as many elements as the array has.
      vals: the values; from the first again where they are too few.
      inplace: False returns an array with the new value, and leaves this one as it is.

    Raises:
      ArgumentError: the mask does not fit, or there are no values.
    """
    x = _changed(arr, "place", inplace=inplace)
    picking.place(x, mask, vals)
    return None if inplace else x


def putmask(a: Any, mask: Any, values: Any) -> None:
    """Replace elements where a mask is true by those at the same place in other values.

    Args:
      a: the array, which gets a new value.
      mask: of the array's shape.
      values: the values; from the first again where they are fewer than the array's elements.

    Raises:
      ArgumentError: the mask does not fit.
    """
    picking.masked(_changed(a, "putmask", "a", inplace=True), mask, values)


def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = True) -> Array | None:
    """Replace the elements of the main diagonal.

    Args:
      a: the array, of at least two dims, which gets a new value.
      val: a number, or values for one element after the other.
      wrap: whether the diagonal of a tall matrix starts again below its end.
      inplace: False returns an array with the new value, and leaves this one as it is.

    Raises:
      ArgumentError: there are fewer than two dims, or more of different lengths.
    """
    x = _changed(a, "fill_diagonal", "a", inplace=inplace)
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise ArgumentError(
            f"fill_diagonal: a has shape {x.shape}; it needs two dims, or more of one length",
            argument="a",
            shape=x.shape,
        )
    step = 1 + int(np.cumprod(x.shape[:0:-1]).sum())
    end = x.size if wrap or x.ndim > 2 else min(x.size, x.shape[1] ** 2)
    picking.put(x, np.arange(0, end, step), val)
    return None if inplace else x


def select(condlist: Any, choicelist: Any, default: Any = 0, *, out_sharding: Any = None) -> Array:
    """Return elements of the first array whose condition holds.

    Args:
      condlist: conditions: a sequence of arrays of booleans.
      choicelist: an array for each.
      default: what there is where none holds.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: there are none, or not as many arrays as conditions.
      ArgumentTypeError: a condition is not of booleans.
    """
    conditions, choices = list(condlist), list(choicelist)
    if not conditions or len(conditions) != len(choices):
        raise ArgumentError(
            f"select: condlist has {len(conditions)} conditions and choicelist {len(choices)} "
            "arrays; give as many, and at least one",
            argument="condlist",
            conditions=len(conditions),
            choices=len(choices),
        )
    conditions = [as_value(one, "select") for one in conditions]
    for one in conditions:
        if one.dtype != bool:
            raise ArgumentTypeError(
                f"select: a condition has dtype {one.dtype}; conditions are booleans",
                argument="condlist",
                dtype=one.dtype,
            )
    given = [x if is_value(x) or is_number(x) else np.asarray(x) for x in [*choices, default]]
    dtype = result_type(*given)
    *values, result = [as_value(x, "select").astype(dtype) for x in given]
    for condition, value in zip(conditions[::-1], values[::-1], strict=True):
        result = ew.where(condition, value, result)
    return settle(result, out_sharding)


def choose(
    a: Any, choices: Any, out: Any = None, mode: str = "raise", *, out_sharding: Any = None
) -> Array:
    """Return elements of several arrays: of which one, an array of integers says.

    Args:
      a: numbers of arrays.
      choices: the arrays; all are broadcast with `a`.
      out: must be None; results are values.
      mode: what happens to numbers of none: "raise", "clip" or "wrap".
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: there are no arrays, or a number is that of none.
    """
    refuse_out("choose", out)
    x = as_value(a, "choose")
    to = wanted(out_sharding, x)
    return settle(x.choose(choices, mode, out_sharding=to), out_sharding)


def compress(
    condition: Any,
    a: Any,
    axis: int | None = None,
    out: Any = None,
    *,
    size: int | None = None,
    fill_value: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return those slices along a dim for which a condition holds.

    Args:
      condition: a vector, which may be shorter than the dim.
      a: an array.
      axis: which dim; by default all elements in row-major order.
      out: must be None; results are values.
      size: how many slices; by default as many as there are, which the host waits for.
      fill_value: what those hold that are too many; 0 by default.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: the condition has other than one dim.
      ArrayIndexError: it holds beyond the end of the dim.
    """
    refuse_out("compress", out)
    x = as_value(a, "compress")
    to = wanted(out_sharding, x)
    if size is not None:
        x, axis = (x.ravel(), 0) if axis is None else (x, axis)
        (at,) = nonzero(condition, size=size, fill_value=x.shape[axis])
        fill = 0 if fill_value is None else fill_value
        return settle(
            x.take(at, axis, None, "fill", fill_value=fill, out_sharding=to), out_sharding
        )
    return settle(x.compress(condition, axis, out_sharding=to), out_sharding)


def extract(
    condition: Any,
    arr: Any,
    *,
    size: int | None = None,
    fill_value: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return elements for which a condition holds, in row-major order.

    Args:
      condition: an array, usually of the shape of `arr`.
      arr: an array.
      size: as for `compress`.
      fill_value: likewise.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    mask = (condition if is_value(condition) else np.asarray(condition)).ravel()
    return compress(mask, arr, size=size, fill_value=fill_value, out_sharding=out_sharding)


def nonzero(
    a: Any, *, size: int | None = None, fill_value: Any = None, out_sharding: Any = None
) -> tuple[Array, ...]:
    """Return where elements are not 0: for each dim an array of positions.

    Args:
      a: an array.
      size: how many positions; by default as many as there are, which the host waits for.
      fill_value: what those get that are too many: a number, or one for each dim; 0 by default.
      out_sharding: where the results go; by default they are split over the mesh axes that split
        the array.

    Raises:
      ArgumentError: the array has no dims.

    >>> import gpushard as gs
    >>> nonzero(gs.numpy.asarray([0, 3, 0, 4]), size=3, fill_value=-1)
    (Array([ 1,  3, -1], dtype=int64),)
    """
    return settle(picking.nonzero(as_value(a, "nonzero"), size, fill_value), out_sharding)


def flatnonzero(
    a: Any, *, size: int | None = None, fill_value: Any = None, out_sharding: Any = None
) -> Array:
    """Return the numbers, in row-major order, of elements that are not 0.

    Args:
      a: an array.
      size: how many; by default as many as there are, which the host waits for.
      fill_value: what those get that are too many; 0 by default.
      out_sharding: where the result goes; by default as for `nonzero`.
    """
    flat = as_value(a, "flatnonzero").ravel()
    return settle(picking.nonzero(flat, size, fill_value)[0], out_sharding)


def argwhere(
    a: Any, *, size: int | None = None, fill_value: Any = None, out_sharding: Any = None
) -> Array:
    """Return where elements are not 0: a row for each of them.

    Args:
      a: an array.
      size: how many rows; by default as many as there are, which the host waits for.
      fill_value: what those get that are too many: a number, or one for each dim; 0 by default.
      out_sharding: where the result goes; by default as for `nonzero`.

    Raises:
      ArgumentError: the array has no dims.
    """
    return settle(picking.argwhere(as_value(a, "argwhere"), size, fill_value), out_sharding)
