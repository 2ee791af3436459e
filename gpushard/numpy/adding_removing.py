"""Adding elements to arrays, and removing elements from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import check_choice
from gpushard._functions.docstrings import described
from gpushard._functions.host_reads import concrete
from gpushard._functions.shapes import as_shape
from gpushard._functions.sorting import along
from gpushard._functions.values import is_value
from gpushard._ops.axes import from_end
from gpushard._ops.bind import bind
from gpushard._ops.table.manipulation import REPEAT_EACH
from gpushard._placement.arguments import as_value, host_data
from gpushard._placement.creation import zeros
from gpushard._placement.public_functions import public
from gpushard.errors import ArgumentTypeError, ArrayIndexError
from gpushard.numpy import statistical
from gpushard.numpy.joining import concat
from gpushard.numpy.manipulation import broadcast_to, moveaxis, part, tile

__all__ = ["append", "delete", "insert", "resize", "trim_zeros"]


@described()
def append(arr: Any, values: Any, axis: int | None = None, *, out_sharding: Any = None) -> Array:
    """Append values to the end of an array.

    Args:
      values: the values, an array with the lengths of `arr` along all other axes.
      axis: the axis; by default both arrays are flattened in row-major order.

    Raises:
      ArgumentError: lengths differ along another axis.
    """
    return concat((arr, values), axis, out_sharding=out_sharding)


def _positions(name: str, obj: Any, n: int, more: int) -> Any:
    """Return positions on the host as integers from 0; a number stays without dims.

    Args:
      name: of the function.
      obj: an integer, a slice, integers or booleans: for elements, one for each.
      n: length of the dim.
      more: how many positions there are behind the last element.
    """
    if isinstance(obj, slice):
        return np.arange(*obj.indices(n))
    positions = concrete(obj, name) if is_value(obj) else host_data(obj, name)
    if positions.dtype.kind == "b" and positions.ndim == 1:
        if not more and positions.shape != (n,):
            raise ArrayIndexError(
                f"{name}: a mask of shape {positions.shape} does not fit an axis of length {n}",
                argument="obj",
                shape=positions.shape,
                size=n,
            )
        positions = np.flatnonzero(positions)
    if positions.ndim > 1 or (positions.size and positions.dtype.kind not in "iu"):
        raise ArgumentTypeError.refusing(
            "obj", obj, "must be an integer, a slice, or a vector of integers or booleans", name
        )
    positions = positions.astype(np.int64)
    wrong = (positions < -n) | (positions >= n + more)
    if np.any(wrong):
        first = int(positions[wrong].ravel()[0])
        raise ArrayIndexError(
            f"{name}: position {first} is out of bounds for an axis of length {n}; use "
            f"{-n} to {n - 1 + more}",
            argument="obj",
            position=first,
            size=n,
        )
    return np.where(positions < 0, positions + n, positions)


@public
def delete(
    arr: Any,
    obj: Any,
    axis: int | None = None,
    *,
    assume_unique_indices: bool = False,
    out_sharding: Any = None,
) -> Array:
    """Delete elements along an axis.

    Args:
      obj: the positions of the elements: an integer, a slice, or a vector of integers or booleans.
        If it is on devices, the host waits to read it. Each device gets the whole axis unless the
        positions are consecutive.
      axis: the axis; by default the array is flattened in row-major order.
      assume_unique_indices: ignored.

    Raises:
      ArrayIndexError: a position is out of bounds.
      ArgumentTypeError: positions are not integers.
      ConcretizationError: positions are a traced value, so the host cannot read them.

    >>> delete([1, 2, 3, 4], [0, 2])
    Array([2, 4], dtype=int64)
    """
    x, at = along("delete", arr, axis)
    n = x.shape[at]
    gone = np.unique(_positions("delete", obj, n, 0))
    if not gone.size:
        return x
    first, stop = int(gone[0]), int(gone[-1]) + 1
    if stop - first == gone.size:
        rest = [part(x, at, slice(0, first)), part(x, at, slice(stop, n))]
        return concat([piece for piece in rest if piece.shape[at]] or rest, at)
    keeps = np.ones(n, np.int64)
    keeps[gone] = 0
    return bind(REPEAT_EACH, (x, keeps), (n - gone.size, at))


@public
def insert(
    arr: Any, obj: Any, values: Any, axis: int | None = None, *, out_sharding: Any = None
) -> Array:
    """Insert values before positions along an axis.

    Args:
      obj: the positions: an integer, a slice, or a vector of integers or booleans. If it is on
        devices, the host waits to read it.
      values: the values, which are converted to the dtype of the array and broadcast. If `obj` is
        an integer, all values are inserted at this position, otherwise one value at each position.
      axis: the axis; by default the array is flattened in row-major order.

    Raises:
      ArrayIndexError: a position is out of bounds.
      ArgumentError: the values do not broadcast to the positions and the other axes.
      ArgumentTypeError: positions are not integers.
      ConcretizationError: positions are a traced value, so the host cannot read them.

    >>> insert([1, 2, 3], 1, [8, 9]), insert([1, 2, 3], [0, 2], [8, 9])
    (Array([1, 8, 9, 2, 3], dtype=int64), Array([8, 1, 2, 9, 3], dtype=int64))
    """
    x, at = along("insert", arr, axis)
    n = x.shape[at]
    places = _positions("insert", obj, n, 1)
    new = as_value(values, "insert").astype(x.dtype)
    if places.size == 1:
        new = new.reshape((1,) * (x.ndim - new.ndim) + new.shape)
        if not places.ndim:  # values have the dim first, as x[:, 0] = values has it last
            new = moveaxis(new, 0, at)
        length, places = new.shape[at], np.repeat(places.ravel(), new.shape[at])
    else:
        length = places.size
    sizes = list(x.shape)
    sizes[at] = length
    new = broadcast_to(new, tuple(sizes))
    return _woven(x, new, places, at)


def _woven(x: Any, new: Any, places: Any, axis: int) -> Any:
    """Put elements before others; elements for the same position stay in order."""
    order = np.argsort(places, kind="stable")
    pieces: list[Any] = []
    start = first = 0
    while first < order.size:
        last = first + 1
        while (
            last < order.size
            and places[order[last]] == places[order[first]]
            and (order[last] == order[last - 1] + 1)
        ):
            last += 1
        place = int(places[order[first]])
        at = int(order[first])
        pieces += [
            part(x, axis, slice(start, place)),
            part(new, axis, slice(at, at + last - first)),
        ]
        start, first = place, last
    pieces.append(part(x, axis, slice(start, x.shape[axis])))
    return concat([piece for piece in pieces if piece.shape[axis]] or pieces, axis)


@public
def resize(a: Any, new_shape: Any, *, out_sharding: Any = None) -> Array:
    """Change the shape and the size of an array; elements are cut or repeated as needed.

    Args:
      new_shape: the new shape.

    >>> resize([1, 2, 3], (2, 2))
    Array([[1, 2],
           [3, 1]], dtype=int64)
    """
    x = a.ravel()
    shape = as_shape(new_shape, "new_shape")
    size = int(np.prod(shape))
    if not x.size:
        return zeros(shape, dtype=x.dtype)
    if size > x.size:
        x = tile(x, -(-size // x.size))
    return x[:size].reshape(shape)


@public
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None, *, out_sharding: Any = None) -> Array:
    """Remove zeros from the ends of an array; the host waits to read how many there are.

    Args:
      trim: the ends to trim: "f" for the front, "b" for the back, "fb" for both.
      axis: the axes, an integer or a tuple of integers; all by default.

    Raises:
      ArgumentError: `trim` is unknown.

    >>> trim_zeros([0, 0, 1, 0, 2, 0])
    Array([1, 0, 2], dtype=int64)
    """
    ends = trim.lower() if isinstance(trim, str) else trim
    check_choice("trim_zeros", "trim", ends, ("fb", "bf", "f", "b"))
    chosen: list[Any] = [slice(None)] * filt.ndim
    for at in from_end(axis, filt.ndim, "trim_zeros"):
        others = tuple(dim for dim in range(-filt.ndim, 0) if dim != at)
        some = statistical.any(filt, others)
        n = filt.shape[at]
        if not n or not concrete(statistical.any(some), "trim_zeros").item():
            chosen[at] = slice(0, 0)
            continue
        leading, trailing = (
            int(concrete(statistical.argmax(way), "trim_zeros")) if end in ends else 0
            for end, way in (("f", some), ("b", some[::-1]))
        )
        chosen[at] = slice(leading, n - trailing)
    return filt[tuple(chosen)]
