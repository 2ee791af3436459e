"""Functions that take elements by position: `take`, `take_along_axis`, `compress`, `choose`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._functions.argument_checks import count, listed, refuse_out
from gpushard._functions.docstrings import described
from gpushard._functions.index_bounds import (
    Positions,
    as_int64,
    as_integers,
    bounded,
    clipped,
    has_traced,
    unravelled,
    unwrapped_positions,
)
from gpushard._functions.indexing import fill_bytes, read_at
from gpushard._functions.nonzero_positions import as_mask, count_true, true_positions
from gpushard._functions.shapes import check_vector
from gpushard._functions.values import Array, is_value, sharding_of
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._ops.axes import one_from_end
from gpushard._ops.bind import bind
from gpushard._ops.index_arrays import Indexed, part_shape
from gpushard._ops.table.elementwise import WHERE
from gpushard._ops.table.gather import GATHER
from gpushard._ops.table.manipulation import RESHAPE
from gpushard._typing import Shape
from gpushard.dtypes import result_type
from gpushard.errors import ArgumentError


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
      axis: the axis; by default the array is flattened in row-major order.
      mode: what to do with positions out of bounds. "raise" or None: raise an error; if `indices`
        is on devices, the host waits to check it. "clip": take the first or the last position;
        negative positions become 0. "wrap": count modulo the length. "fill": use `fill_value`.
      fill_value: the element for positions out of bounds with "fill". By default NaN, the least
        signed integer, or the greatest unsigned one.

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
            f"{name}: indices have ndim={at.ndim} and the array has ndim={x.ndim}; make them equal",
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
            f"{x.shape}; along axes other than axis={axis}, lengths must be equal or 1",
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
    """Take elements along an axis, by positions that may differ along the other axes.

    Args:
      indices: the positions, an array with as many axes as `arr`; the other axes of both broadcast.
      axis: the axis; None flattens the array in row-major order.
      mode: what to do with positions out of bounds; see `take`.
      fill_value: the element for positions out of bounds with "fill"; see `take`.
      wrap_negative_indices: whether negative positions count from the end. Otherwise they are out
        of bounds, as the modes "clip" and "fill" allow.

    Raises:
      ArrayIndexError: a position is out of bounds.
      ArgumentError: the other axes do not broadcast.

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


@described(
    size="the number of slices; by default the host waits for the condition and counts them.",
    fill_value="the element of slices that pad the result up to `size`; 0 by default.",
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
    """Select the slices along an axis for which a condition is true.

    Args:
      condition: a vector of booleans, which may be shorter than the axis.
      axis: the axis; by default the array is flattened in row-major order.

    Raises:
      ArgumentError: the condition is not a vector.
      ArrayIndexError: the condition is longer than the axis, and true beyond its end.
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
    """Choose each element from one of several arrays, by the position of the array.

    Args:
      a: integers: for each element the position in `choices` of the array to take it from.
      choices: a sequence of arrays, which broadcast with the positions.
      mode: what to do with positions out of range: "raise", "clip" or "wrap". With "raise" the host
        waits to check them.

    Raises:
      ArgumentError: `choices` is empty, or a position is out of range.
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


def _filling(mode: str | None, fill_value: Any, dtype: np.dtype[Any], name: str) -> bytes:
    """Convert the value for positions out of bounds with "fill" to bytes."""
    if mode != "fill" and fill_value is not None:
        raise ArgumentError(
            f'{name}: fill_value= is for mode="fill", and mode is {mode!r}; give both',
            argument="fill_value",
            mode=mode,
        )
    return fill_bytes(fill_value, dtype) if mode == "fill" else b""
