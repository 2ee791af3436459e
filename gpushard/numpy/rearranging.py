"""Arrays turned around, with dims moved or added, and put together from blocks."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from gpushard.array import Array
from gpushard.errors import ArgumentError
from gpushard.numpy.arguments import as_value, as_view, integer, settle
from gpushard.numpy.joining import concat
from gpushard.numpy.manipulation import flip, moveaxis, swapaxes
from gpushard.numpy.public import public
from gpushard.ops.axes import from_end, one_from_end


@public
def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1), *, out_sharding: Any = None) -> Array:
    """Return an array turned by right angles, from the first towards the second of two dims.

    Args:
      m: an array of at least two dims.
      k: by how many.
      axes: the two dims.

    Raises:
      ArgumentError: they are not two dims.

    >>> rot90([[1, 2], [3, 4]])
    Array([[2, 4],
           [1, 3]], dtype=int64)
    """
    found = from_end(tuple(axes) if np.iterable(axes) else axes, m.ndim, "rot90", "axes")
    if len(found) != 2:
        raise ArgumentError(f"rot90: axes={axes} must name two dims", argument="axes", axes=axes)
    first, second = found
    turns = integer(k, "rot90", "k") % 4
    if turns == 2:
        m = flip(m, found)
    elif turns == 1:
        m = swapaxes(flip(m, second), first, second)
    elif turns == 3:
        m = flip(swapaxes(m, first, second), second)
    return m


@public
def rollaxis(a: Any, axis: int, start: int = 0, *, out_sharding: Any = None) -> Array:
    """Return an array with one dim moved before another; `moveaxis` is clearer.

    Args:
      axis: which dim.
      start: before which dim it goes.

    Raises:
      ArgumentError: there are no such dims.
    """
    own = one_from_end(axis, a.ndim, "rollaxis") + a.ndim
    place = integer(start, "rollaxis", "start")
    if not -a.ndim <= place <= a.ndim:
        raise ArgumentError(
            f"rollaxis: start={start} is out of range for an array of {a.ndim} dims; use "
            f"{-a.ndim} to {a.ndim}",
            argument="start",
            value=start,
            ndim=a.ndim,
        )
    place += a.ndim if place < 0 else 0
    return moveaxis(a, own, place - 1 if own < place else place)


@overload
def atleast_3d(x: Any, /) -> Array: ...


@overload
def atleast_3d(*xs: Any) -> tuple[Array, ...]: ...


def atleast_3d(*xs: Any) -> Any:
    """Return arrays with at least three dims; a vector gets the middle one, a matrix the first two.

    Args:
      *xs: the arrays.
    """
    found = []
    for x in xs:
        x = as_view(x, "atleast_3d")
        index = {0: (None, None, None), 1: (None, slice(None), None)}
        found.append(x[index.get(x.ndim, (..., None))] if x.ndim < 3 else x)
    return found[0] if len(found) == 1 else tuple(found)


def block(arrays: Any, *, out_sharding: Any = None) -> Array:
    """Return an array put together from blocks in nested lists.

    The innermost lists are joined along the last dim, those around them along the one before.

    Args:
      arrays: the blocks, in lists nested to one depth.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: a list is empty, lists are nested to different depths, or sizes do not fit.

    >>> block([[1, 2], [3, 4]])
    Array([[1, 2],
           [3, 4]], dtype=int64)
    """
    depth = _depth(arrays)
    ndim = max(depth, _most_dims(arrays))
    return settle(_joined(arrays, depth, ndim), out_sharding)


def _depth(arrays: Any) -> int:
    if not isinstance(arrays, list):
        return 0
    depths = {_depth(one) for one in arrays}
    if len(depths) != 1:
        raise ArgumentError(
            "block: lists are empty or nested to different depths; each must hold as many lists "
            "in one another as the others",
            argument="arrays",
            depths=sorted(depths),
        )
    return depths.pop() + 1


def _most_dims(arrays: Any) -> int:
    if isinstance(arrays, list):
        return max(_most_dims(one) for one in arrays)
    found: int = as_value(arrays, "block").ndim
    return found


def _joined(arrays: Any, depth: int, ndim: int) -> Any:
    if not depth:
        x = as_value(arrays, "block")
        return x.reshape((1,) * (ndim - x.ndim) + x.shape)
    return concat([_joined(one, depth - 1, ndim) for one in arrays], -depth)
