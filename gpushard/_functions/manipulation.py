"""Functions that move elements: shapes, order of axes, repeating.

Axes that stay keep the mesh axes that split them. Elements that have to move go from shard to
shard.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpushard._functions.argument_checks import check_order, count, integer, refuse_out
from gpushard._functions.assigned_values import as_part
from gpushard._functions.cumulative import cumsum
from gpushard._functions.host_memory import on_host
from gpushard._functions.host_reads import concrete
from gpushard._functions.reductions import min, sum
from gpushard._functions.shapes import (
    as_shape,
    broadcast,
    check_dims,
    do_not_broadcast,
    element_count,
)
from gpushard._functions.sorting import searchsorted
from gpushard._functions.values import DENSE, Array, is_value, view
from gpushard._ops.axes import from_end, one_from_end
from gpushard._ops.basic_index import Entry
from gpushard._ops.bind import bind
from gpushard._ops.table import manipulation
from gpushard._typing import Shape
from gpushard.errors import ArgumentError, ArgumentTypeError

_SEVERAL, _INTEGERS = (tuple, list), (int, np.integer)  # here as each use would make a union anew


def new_shape_of(shape: Shape, new_shape: Any) -> Shape:
    """Return a new shape without -1."""
    sizes = new_shape if isinstance(new_shape, _SEVERAL) else (new_shape,)
    unknown = [dim for dim, n in enumerate(sizes) if isinstance(n, _INTEGERS) and n == -1]
    if unknown:
        sizes = [1 if dim in unknown else n for dim, n in enumerate(sizes)]
    known = as_shape(sizes, "shape")
    elements, wanted = math.prod(shape), math.prod(known)
    if len(unknown) == 1 and wanted and elements % wanted == 0:
        dim = unknown[0]
        return (*known[:dim], elements // wanted, *known[dim + 1 :])
    if unknown or elements != wanted:
        asked = tuple([-1 if dim in unknown else n for dim, n in enumerate(sizes)])
        raise ArgumentError(
            f"reshape: shape {shape} of {elements} elements does not fit {asked}; sizes "
            "must multiply to the same number, and one of them may be -1",
            argument="shape",
            shape=shape,
            new_shape=asked,
        )
    return known


def reshape(
    a: Array,
    shape: Any = None,
    order: Any = "C",
    *,
    copy: bool | None = None,
    out_sharding: Any = None,
) -> Array:
    """Change the shape of an array; elements keep their row-major order.

    Args:
      shape: the new shape; one size may be -1.
      order: must be "C".
      copy: True copies the elements to new memory; False and None are ignored.

    Raises:
      ArgumentError: the new shape has another number of elements.
    """
    check_order(order)
    shaped = view(a, manipulation.RESHAPE, (new_shape_of(a.shape, shape),), out_sharding)
    return shaped.copy() if copy else shaped


def ravel(a: Array, order: Any = "C", *, out_sharding: Any = None) -> Array:
    """Flatten an array to a vector in row-major order.

    Args:
      order: must be "C".
    """
    check_order(order)
    if a.ndim != 1:
        a = reshape(a, (-1,), out_sharding=out_sharding)
    return view(a, None, DENSE, out_sharding)


def permute_dims(a: Array, axes: Any = None, *, out_sharding: Any = None) -> Array:
    """Permute the axes of an array; each axis keeps its mesh axes.

    Args:
      axes: the axes in their new order; reversed by default.

    Raises:
      ArgumentError: `axes` does not name every axis once.
    """
    ndim = a.ndim
    if axes is None:
        order = tuple(range(-1, -ndim - 1, -1))
    else:
        several = axes if isinstance(axes, tuple) or not np.ndim(axes) else tuple(axes)
        order = from_end(several, ndim, "transpose", "axes")
    if len(order) != ndim:
        raise ArgumentError.refusing(
            "axes", axes, f"must name each axis once; a has ndim={ndim}", "transpose", ndim=ndim
        )
    return view(a, manipulation.TRANSPOSE, (order,), out_sharding)


def swapaxes(a: Array, axis1: int, axis2: int, *, out_sharding: Any = None) -> Array:
    """Exchange two axes.

    Args:
      axis1: the first axis.
      axis2: the second axis.
    """
    first = one_from_end(axis1, a.ndim, "swapaxes", "axis1")
    second = one_from_end(axis2, a.ndim, "swapaxes", "axis2")
    order = list(range(-a.ndim, 0))
    order[first], order[second] = second, first
    return view(a, manipulation.TRANSPOSE, (tuple(order),), out_sharding)


def squeeze(a: Array, axis: Any = None, *, out_sharding: Any = None) -> Array:
    """Remove axes of length 1.

    Args:
      axis: the axes to remove, an integer or a tuple of integers; by default all of length 1.

    Raises:
      ArgumentError: an axis to remove has another length than 1.
    """
    shape, ndim = a.shape, a.ndim
    if axis is None:
        gone = {dim for dim, n in enumerate(shape) if n == 1}
    else:
        gone = {ndim + at for at in from_end(axis, ndim, "squeeze")}
    for dim in gone:
        if shape[dim] != 1:
            raise ArgumentError(
                f"squeeze: axis {dim} of shape {shape} has length {shape[dim]}; only axes of "
                "length 1 can be removed",
                argument="axis",
                axis=axis,
                shape=shape,
            )
    entries: tuple[Entry, ...] = tuple(
        0 if dim in gone else (0, 1, n) for dim, n in enumerate(shape)
    )
    return view(a, manipulation.INDEX, (entries,), out_sharding)


def expand_dims(a: Array, axis: Any = 0, *, out_sharding: Any = None) -> Array:
    """Insert new axes of length 1.

    Args:
      axis: the positions of the new axes in the result, an integer or a tuple of integers.

    Raises:
      ArgumentError: a position is out of range, or is named twice.
    """
    new_dims = len(axis) if isinstance(axis, tuple | list) else 1
    new = from_end(() if axis is None else axis, a.ndim + new_dims, "expand_dims")
    entries = [None if at in new else slice(None) for at in range(-a.ndim - new_dims, 0)]
    return a[tuple(entries)]


def moveaxis(a: Array, source: Any, destination: Any, *, out_sharding: Any = None) -> Array:
    """Move axes to other positions; the other axes stay in order.

    Args:
      source: the axes to move, an integer or a tuple of integers.
      destination: the position of each of these axes in the result.

    Raises:
      ArgumentError: an axis does not exist or is named twice, or `source` and `destination` have
        different lengths.
    """
    olds = from_end(() if source is None else source, a.ndim, "moveaxis", "source")
    news = from_end(() if destination is None else destination, a.ndim, "moveaxis", "destination")
    if len(olds) != len(news):
        raise ArgumentError(
            f"moveaxis: source={source} names {len(olds)} axes and destination={destination} "
            f"names {len(news)}; name equally many",
            argument="destination",
            source=source,
            destination=destination,
        )
    order = [dim for dim in range(-a.ndim, 0) if dim not in olds]
    for new, old in sorted(zip(news, olds, strict=True)):
        order.insert(a.ndim + new, old)
    return a.transpose(tuple(order))


def flip(m: Array, axis: Any = None, *, out_sharding: Any = None) -> Array:
    """Reverse the order of elements along axes.

    Args:
      axis: the axes, an integer or a tuple of integers; all by default.
    """
    turned = from_end(axis, m.ndim, "flip")
    entries = [slice(None, None, -1 if dim in turned else 1) for dim in range(-m.ndim, 0)]
    return m[tuple(entries)]


def broadcast_shapes(*shapes: Any) -> Shape:
    """Find the shape that shapes broadcast to.

    Args:
      *shapes: the shapes.

    Raises:
      ArgumentError: the shapes do not broadcast.
    """
    return broadcast("broadcast_shapes", [as_shape(shape, "shapes") for shape in shapes])


def broadcast_to(array: Array, shape: Any, *, out_sharding: Any = None) -> Array:
    """Broadcast an array to a shape.

    Args:
      shape: the shape of the result.

    Raises:
      ArgumentError: the array does not broadcast to `shape`.
    """
    x, sizes = array, as_shape(shape)
    padded = (1,) * (len(sizes) - x.ndim) + x.shape
    fits = len(padded) == len(sizes) and all(
        n in (1, size) for n, size in zip(padded, sizes, strict=True)
    )
    if not fits:
        raise do_not_broadcast("broadcast_to", (x.shape, sizes))
    return x if x.shape == sizes else bind(manipulation.BROADCAST_TO, (x,), (sizes,))


def tile(A: Array, reps: Any, *, out_sharding: Any = None) -> Array:
    """Repeat a whole array along its axes.

    Args:
      reps: the number of repetitions: an integer, or one for each axis, aligned at the last axis.
        If there are more numbers than axes, the result has new axes in front.

    Raises:
      ArgumentError: a number in `reps` is negative.
    """
    times = reps if isinstance(reps, tuple | list) else (reps,)
    checked = tuple(count(number, "tile", "reps") for number in times)
    return bind(manipulation.TILE, (A,), (checked,))


def diagonal(
    a: Array, offset: int = 0, axis1: int = 0, axis2: int = 1, *, out_sharding: Any = None
) -> Array:
    """Take the diagonal of two axes, which becomes a new last axis.

    Args:
      a: an array of at least two axes.

    Raises:
      ArgumentError: there are fewer than two axes, or both axes are the same.
    """
    check_dims("diagonal", a, 2)
    axes = from_end((axis1, axis2), a.ndim, "diagonal", "axis1, axis2")
    params = integer(offset, "diagonal", "offset"), *axes
    return bind(manipulation.DIAGONAL, (a,), params, out_sharding)


def trace(
    a: Array,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: Any = None,
    out: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Sum the diagonal of two axes; integers of fewer than 64 bits are summed in 64 bits.

    Args:
      a: an array of at least two axes.
      dtype: the dtype of the sum, in which elements are added.

    >>> import gpushard as gs
    >>> trace(gs.numpy.arange(9).reshape(3, 3))
    Array(12, dtype=int64)
    """
    refuse_out("trace", out)
    return sum(diagonal(a, offset, axis1, axis2), -1, dtype, out_sharding=out_sharding)


def repeat(
    a: Array,
    repeats: Any,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: Any = None,
) -> Array:
    """Repeat each element several times in a row.

    Args:
      repeats: the number of repetitions: an integer, or one for each position along the axis. With
        one for each, every device gets the whole axis. If `repeats` is on devices, the host waits
        to read its minimum and its sum.
      axis: the axis; by default the array is flattened in row-major order.
      total_repeat_length: the length of the axis in the result. Repetitions beyond it are cut; if
        they are too few, the last element is repeated. The host then reads nothing.

    Raises:
      ArgumentError: an integer in `repeats` is negative, or the number of integers differs from the
        length of the axis.
    """
    x, at = (ravel(a), -1) if axis is None else (a, one_from_end(axis, a.ndim, "repeat"))
    if total_repeat_length is not None:
        length = element_count(total_repeat_length, "repeat", "total_repeat_length")
        places = _places(_counts(repeats, x, at), x.shape[at], length)
        return x.take(places, at, mode="clip", out_sharding=out_sharding)
    if not isinstance(repeats, list | tuple) and not getattr(repeats, "ndim", 0):
        return bind(
            manipulation.REPEAT, (x,), (count(repeats, "repeat", "repeats"), at), out_sharding
        )
    counts = _counts(repeats, x, at)
    least, total = _extent(counts)
    if least < 0:
        raise ArgumentError(
            f"repeat: repeats has {least}; counts must not be negative",
            argument="repeats",
            value=least,
        )
    if counts.shape[0] != x.shape[at]:
        return bind(manipulation.REPEAT, (x,), (total, at), out_sharding)
    if not is_value(counts):
        counts = as_part(counts, counts.shape, np.dtype(np.int64))
    return bind(manipulation.REPEAT_EACH, (x, counts), (total, at), out_sharding)


def _counts(repeats: Any, x: Any, axis: int) -> Any:
    """Read the repetitions of the elements along a dim: a vector, on devices or on the host."""
    counts = repeats if is_value(repeats) else np.asarray(repeats)
    counts = counts if counts.ndim else counts.reshape((1,))
    if counts.dtype.kind not in "?biu" and counts.size:
        raise ArgumentTypeError(
            f"repeat: repeats of {counts.dtype} must be integers",
            argument="repeats",
            dtype=counts.dtype,
        )
    n = x.shape[axis]
    if counts.ndim != 1 or counts.shape[0] not in (1, n):
        raise ArgumentError(
            f"repeat: repeats of shape {counts.shape} do not fit the {n} elements along axis "
            f"{x.ndim + axis} of shape {x.shape}; give one for each, or an integer",
            argument="repeats",
            shape=counts.shape,
            expected=n,
        )
    return counts


def _places(counts: Any, n: int, length: int) -> Any:
    """Return which of `n` elements stands at each position after repeating each by its count."""
    order = on_host("repeat", np.arange, length)
    if not is_value(counts):
        ends = np.cumsum(np.broadcast_to(counts, n))
        return on_host("repeat", np.searchsorted, ends, order, "right")
    if counts.shape[0] != n:
        counts = bind(manipulation.BROADCAST_TO, (counts,), ((n,),))
    return searchsorted(cumsum(counts), order, "right")


def _extent(counts: Any) -> tuple[int, int]:
    """Return the least count and the sum; the host reads the two of counts on devices."""
    if not counts.shape[0]:
        return 0, 0
    if not is_value(counts):
        return int(counts.min()), int(counts.sum())
    least, total = min(counts), sum(counts)
    return int(concrete(least, "repeat")), int(concrete(total, "repeat"))
