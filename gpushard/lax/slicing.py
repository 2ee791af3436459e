"""Slices of arrays, under the names of `jax.lax`, at Python's integers or at positions in arrays.

The host never reads positions in arrays. A window that would reach beyond the array is moved into
it.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions import elementwise as ew
from gpushard._functions.argument_checks import integer
from gpushard._functions.elementwise import clip, where
from gpushard._functions.manipulation import expand_dims
from gpushard._functions.take_elements import take
from gpushard._functions.values import is_value
from gpushard._placement.arguments import as_value
from gpushard._placement.public_functions import public
from gpushard.dtypes import kind_of
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.lax.arguments import as_arrays, check_shape, dim, dims, each, integers

__all__ = [
    "dynamic_index_in_dim", "dynamic_slice", "dynamic_slice_in_dim", "dynamic_update_index_in_dim",
    "dynamic_update_slice", "dynamic_update_slice_in_dim", "index_in_dim", "index_take", "slice",
    "slice_in_dim",
]  # fmt: skip

_slicing = public(arrays=1, weak=True, operand="an array.")


@_slicing
def slice(
    operand: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    """Slice an array along all axes.

    Args:
      start_indices: the first position along each axis.
      limit_indices: the position after the last one, along each axis.
      strides: the step from element to element along each axis; 1 by default.

    Raises:
      ArgumentError: a position is out of range.

    >>> import gpushard as gs
    >>> gs.lax.slice(gs.numpy.arange(5), (1,), (5,), (2,))
    Array([1, 3], dtype=int64)
    """
    ndim = operand.ndim
    starts = integers("slice", "start_indices", start_indices, ndim)
    limits = integers("slice", "limit_indices", limit_indices, ndim)
    steps = (1,) * ndim if strides is None else integers("slice", "strides", strides, ndim)
    for at, n in enumerate(operand.shape):
        if not 0 <= starts[at] <= limits[at] <= n or steps[at] < 1:
            raise ArgumentError(
                f"lax.slice: start {starts[at]}, limit {limits[at]} and stride {steps[at]} do not "
                f"fit axis {at} of length {n}; use 0 <= start <= limit <= {n}, and strides from 1",
                argument="limit_indices",
                axis=at,
                size=n,
            )
    return operand[tuple(map(builtins.slice, starts, limits, steps))]


@_slicing
def slice_in_dim(
    operand: Any,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Array:
    """Slice an array along one axis.

    Args:
      start_index: the first position; negative numbers count from the end.
      limit_index: the position after the last one; negative numbers count from the end.
      stride: the step from element to element.
      axis: the axis.

    >>> import gpushard as gs
    >>> gs.lax.slice_in_dim(gs.numpy.arange(5), 1, None, 2)
    Array([1, 3], dtype=int64)
    """
    at = dim("slice_in_dim", axis, operand.ndim)
    n = operand.shape[at]
    ends = []
    for argument, index, number in (
        ("start_index", start_index, 0),
        ("limit_index", limit_index, n),
    ):
        place = number if index is None else integer(index, "lax.slice_in_dim", argument)
        ends.append(place + n * (place < 0))
    starts, limits, strides = [0] * operand.ndim, list(operand.shape), [1] * operand.ndim
    starts[at], limits[at], strides[at] = *ends, stride
    return slice(operand, starts, limits, strides)


@_slicing
def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """Take the elements at one position along an axis.

    Args:
      index: the position; negative numbers count from the end.
      axis: the axis.

    Raises:
      ArgumentError: the position is out of range.

    >>> import gpushard as gs
    >>> gs.lax.index_in_dim(gs.numpy.arange(5), -1)
    Array([4], dtype=int64)
    """
    at = dim("index_in_dim", axis, operand.ndim)
    (place,) = integers("index_in_dim", "index", (index,))
    n = operand.shape[at]
    if not -n <= place < n:
        raise ArgumentError.refusing(
            "index", index, f"is out of range for {n} elements", "lax.index_in_dim", size=n
        )
    place %= n
    entry = builtins.slice(place, place + 1) if keepdims else place
    return operand[(builtins.slice(None),) * at + (entry,)]


def index_take(src: Any, idxs: Sequence[Any], axes: Sequence[int]) -> Array:
    """Take elements at positions along several axes; one new first axis replaces these axes.

    Args:
      src: an array.
      idxs: for each axis in `axes` a vector of positions, all of equal length. Positions are taken
        modulo the length of the axis, as in JAX.
      axes: the axes.

    Raises:
      ArgumentError: the numbers of vectors and axes differ.

    >>> import gpushard as gs
    >>> gs.lax.index_take(gs.numpy.arange(6).reshape(2, 3), ([1, 0],), (1,))
    Array([[1, 4],
           [0, 3]], dtype=int64)
    """
    x = as_value(src, "index_take")
    chosen_axes = dims("index_take", tuple(each("index_take", "axes", axes)), x.ndim)
    idxs = each("index_take", "idxs", idxs, "a sequence of vectors")
    if len(chosen_axes) != len(idxs):
        raise ArgumentError.refusing(
            "idxs",
            idxs,
            f"must have {len(chosen_axes)} vectors, one for each of the axes",
            "lax.index_take",
        )
    order = [*chosen_axes, *(at for at in range(x.ndim) if at not in chosen_axes)]
    at = tuple(
        ew.remainder(as_value(positions, "index_take"), max(x.shape[place], 1))
        for place, positions in zip(chosen_axes, idxs, strict=True)
    )
    return x.transpose(order).at[at].get(mode="clip")


def _starts(name: str, start_indices: Any, shape: Sequence[int]) -> list[Any]:
    """Read the start of a window along each dim: a Python integer or a scalar array."""
    if hasattr(start_indices, "ndim"):
        check_shape(name, "start_indices", start_indices.shape, (len(shape),))
        starts = [start_indices[at] for at in range(len(shape))]
    else:
        starts = each(name, "start_indices", start_indices)
    if len(starts) != len(shape):
        raise ArgumentError.refusing(
            "start_indices",
            start_indices,
            f"must have {len(shape)} positions, one for each axis",
            f"lax.{name}",
        )
    if set(map(type, starts)) == {int}:
        return starts
    for start in starts:
        if is_value(start) and (kind_of(start.dtype) not in "iu" or start.shape):
            raise ArgumentTypeError(
                f"lax.{name}: start_indices must be scalar integers, one is of {start.dtype} and "
                f"shape {start.shape}",
                argument="start_indices",
                dtype=start.dtype,
            )
    return [
        start if is_value(start) else integers(name, "start_indices", (start,))[0]
        for start in starts
    ]


def _within(start: Any, size: int, n: int) -> Any:
    """Move the start of a window into a dim; negative positions count from the end."""
    if type(start) is int:
        return builtins.min(builtins.max(start + n * (start < 0), 0), n - size)
    wide = signed(start)
    return clip(where(ew.less(wide, 0), ew.add(wide, n), wide), 0, n - size)


def signed(places: Any) -> Any:
    """Convert positions to int64; greater ones are beyond every array, too."""
    if places.dtype == np.uint64:
        places = ew.minimum(places, np.uint64(np.iinfo(np.int64).max))
    return places if places.dtype == np.int64 else places.astype(np.int64)


def check_sizes(name: str, sizes: Sequence[int], shape: Sequence[int]) -> None:
    """Check that a window is within an array."""
    inside = len(sizes) == len(shape) and all(map(operator.le, sizes, shape))
    if not inside or min(0, *sizes, 0) < 0:
        raise ArgumentError(
            f"lax.{name}: a window of shape {tuple(sizes)} is not within the array of shape "
            f"{tuple(shape)}",
            argument="slice_sizes",
            shape=tuple(sizes),
            expected=tuple(shape),
        )


@_slicing
def dynamic_slice(operand: Any, start_indices: Any, slice_sizes: Sequence[int]) -> Array:
    """Slice a window of an array; the start of the window may be in arrays.

    A window that reaches beyond the array is moved into the array. Negative positions count from
    the end.

    Args:
      start_indices: the first position of the window along each axis: integers, scalar arrays, or
        one vector.
      slice_sizes: the shape of the window.

    Raises:
      ArgumentError: the window is larger than the array.
      ArgumentTypeError: start positions are not integers.

    >>> import gpushard as gs
    >>> gs.lax.dynamic_slice(gs.numpy.arange(5), (gs.numpy.asarray(9),), (2,))
    Array([3, 4], dtype=int64)
    """
    sizes = integers("dynamic_slice", "slice_sizes", slice_sizes)
    check_sizes("dynamic_slice", sizes, operand.shape)
    starts = _starts("dynamic_slice", start_indices, operand.shape)
    known, unknown, cut = [], [], False
    for at, (start, size, n) in enumerate(zip(starts, sizes, operand.shape, strict=True)):
        place = _within(start, size, n)
        if type(place) is int:
            known.append(builtins.slice(place, place + size))
            cut = cut or size < n
        else:
            known.append(builtins.slice(None))
            unknown.append((at, place, size))
    part = operand[tuple(known)] if cut else operand
    for at, place, size in unknown:
        if size < part.shape[at]:
            part = take(part, ew.add(place, np.arange(size)), at, mode="clip")
    return part


@_slicing
def dynamic_slice_in_dim(operand: Any, start_index: Any, slice_size: int, axis: int = 0) -> Array:
    """Slice a window of an array along one axis; see `dynamic_slice`.

    Args:
      start_index: the first position of the window, an integer or a scalar array.
      slice_size: the length of the window along the axis.
      axis: the axis.

    >>> import gpushard as gs
    >>> gs.lax.dynamic_slice_in_dim(gs.numpy.arange(5), gs.numpy.asarray(1), 2)
    Array([1, 2], dtype=int64)
    """
    at = dim("dynamic_slice_in_dim", axis, operand.ndim)
    starts: list[Any] = [0] * operand.ndim
    sizes = list(operand.shape)
    starts[at], sizes[at] = start_index, slice_size
    return dynamic_slice(operand, starts, sizes)


@_slicing
def dynamic_index_in_dim(operand: Any, index: Any, axis: int = 0, keepdims: bool = True) -> Array:
    """Take the elements at one position along an axis; see `dynamic_slice`.

    Args:
      index: the position, an integer or a scalar array.
      axis: the axis.

    >>> import gpushard as gs
    >>> gs.lax.dynamic_index_in_dim(gs.numpy.arange(5), gs.numpy.asarray(1), keepdims=False)
    Array(1, dtype=int64)
    """
    part = dynamic_slice_in_dim(operand, index, 1, axis)
    return part if keepdims else part.squeeze(dim("dynamic_index_in_dim", axis, operand.ndim))


def dynamic_update_slice(operand: Any, update: Any, start_indices: Any) -> Array:
    """Replace a window of an array; the start of the window may be in arrays. See `dynamic_slice`.

    Args:
      operand: an array.
      update: the new elements of the window, an array of the same dtype and number of axes.
      start_indices: the first position of the window along each axis: integers, scalar arrays, or
        one vector.

    Raises:
      ArgumentError: the window is larger than the array.
      ArgumentTypeError: start positions are not integers, or dtypes differ.

    >>> import gpushard as gs
    >>> x = gs.numpy.arange(5)
    >>> dynamic_update_slice(x, gs.numpy.asarray([7, 8]), (gs.numpy.asarray(9),))
    Array([0, 1, 2, 7, 8], dtype=int64)
    """
    x, new = as_arrays("dynamic_update_slice", operand, update)
    check_sizes("dynamic_update_slice", new.shape, x.shape)
    starts = _starts("dynamic_update_slice", start_indices, x.shape)
    places = list(map(_within, starts, new.shape, x.shape))
    in_arrays = sum(type(place) is not int for place in places)
    if in_arrays <= 1:
        index = tuple(
            builtins.slice(place, place + size) if type(place) is int
            else ew.add(place, np.arange(size))
            for place, size in zip(places, new.shape, strict=True)
        )  # fmt: skip
    else:
        index = tuple(
            place + line(size, at, x.ndim) if type(place) is int
            else ew.add(place, line(size, at, x.ndim))
            for at, (place, size) in enumerate(zip(places, new.shape, strict=True))
        )  # fmt: skip
    return x.at[index].set(new, **({"mode": "clip"} if in_arrays else {}))


def line(n: int, at: int, ndim: int) -> np.ndarray[Any, Any]:
    """Return 0, 1, 2, ... along one of several dims."""
    return np.arange(n).reshape([n if place == at else 1 for place in range(ndim)])


def dynamic_update_slice_in_dim(operand: Any, update: Any, start_index: Any, axis: int) -> Array:
    """Replace a window of an array along one axis; see `dynamic_update_slice`.

    Args:
      operand: an array.
      update: the new elements of the window, with the same number of axes as `operand`.
      start_index: the first position of the window, an integer or a scalar array.
      axis: the axis.

    >>> import gpushard as gs
    >>> x = gs.numpy.arange(3)
    >>> dynamic_update_slice_in_dim(x, gs.numpy.asarray([7]), gs.numpy.asarray(1), 0)
    Array([0, 7, 2], dtype=int64)
    """
    x = as_value(operand, "dynamic_update_slice_in_dim")
    starts: list[Any] = [0] * x.ndim
    starts[dim("dynamic_update_slice_in_dim", axis, x.ndim)] = start_index
    return dynamic_update_slice(x, update, starts)


def dynamic_update_index_in_dim(operand: Any, update: Any, index: Any, axis: int) -> Array:
    """Replace the elements at one position along an axis.

    Args:
      operand: an array.
      update: the new elements, without the axis, or with the axis of length 1.
      index: the position, an integer or a scalar array.
      axis: the axis.

    >>> import gpushard as gs
    >>> dynamic_update_index_in_dim(gs.numpy.arange(3), 7, gs.numpy.asarray(1), 0)
    Array([0, 7, 2], dtype=int64)
    """
    x, new = as_arrays("dynamic_update_index_in_dim", operand, update)
    at = dim("dynamic_update_index_in_dim", axis, x.ndim)
    new = new if new.ndim == x.ndim else expand_dims(new, at)
    return dynamic_update_slice_in_dim(x, new, index, at)
