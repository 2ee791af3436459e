"""Functions that join arrays, also nested blocks.

Dtypes are promoted and shapes are checked before anything moves.
"""

from __future__ import annotations

from typing import Any

from gpushard._array import Array
from gpushard._placement.arguments import as_value
from gpushard._placement.joining import concat, joined, joining, stack
from gpushard._placement.public_functions import public
from gpushard.errors import ArgumentError

__all__ = [
    "block", "column_stack", "concat", "concatenate", "dstack", "hstack", "stack", "vstack",
]  # fmt: skip

concatenate = concat


def _raised(
    arrays: Any, ndim: int, name: str, dtype: Any = None, casting: str = "same_kind"
) -> list[Any]:
    """Return arrays of one dtype with at least some dims; new dims come first."""
    xs = joined(arrays, name, dtype, casting)
    return [x if x.ndim >= ndim else x.reshape((1,) * (ndim - x.ndim) + x.shape) for x in xs]


@joining
def vstack(
    tup: Any, *, dtype: Any = None, casting: str = "same_kind", out_sharding: Any = None
) -> Array:
    """Join arrays along the first axis; vectors count as rows."""
    return concat(_raised(tup, 2, "vstack", dtype, casting), 0)


@joining
def hstack(
    tup: Any, *, dtype: Any = None, casting: str = "same_kind", out_sharding: Any = None
) -> Array:
    """Join arrays along the second axis; vectors are joined along their only axis."""
    xs = _raised(tup, 1, "hstack", dtype, casting)
    axis = 0 if xs[0].ndim == 1 else 1
    return concat(xs, axis)


@joining
def dstack(tup: Any, *, dtype: Any = None, out_sharding: Any = None) -> Array:
    """Join arrays along the third axis; vectors count as rows, and matrices get a third axis."""
    xs = _raised(tup, 2, "dstack", dtype)
    deep = [x if x.ndim > 2 else x.reshape((*x.shape, 1)) for x in xs]
    return concat(deep, 2)


@joining
def column_stack(tup: Any, *, out_sharding: Any = None) -> Array:
    """Join arrays along the second axis; vectors count as columns."""
    xs = joined(tup, "column_stack")
    columns = [x if x.ndim > 1 else x.reshape((-1, 1)) for x in xs]
    return concat(columns, 1)


@public()
def block(arrays: Any, *, out_sharding: Any = None) -> Array:
    """Assemble an array from blocks in nested lists.

    The blocks in the innermost lists are joined along the last axis, those in the lists around them
    along the axis before, and so on.

    Args:
      arrays: the blocks, in lists that are all nested equally deep.

    Raises:
      ArgumentError: a list is empty, lists are nested to different depths, or lengths differ along
        another axis.

    >>> block([[1, 2], [3, 4]])
    Array([[1, 2],
           [3, 4]], dtype=int64)
    """
    depth = _depth(arrays)
    ndim = max(depth, _most_dims(arrays))
    return _nested(arrays, depth, ndim)


def _depth(arrays: Any) -> int:
    if not isinstance(arrays, list):
        return 0
    depths = {_depth(entry) for entry in arrays}
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
        return max(_most_dims(entry) for entry in arrays)
    ndim: int = as_value(arrays, "block").ndim
    return ndim


def _nested(arrays: Any, depth: int, ndim: int) -> Any:
    if not depth:
        x = as_value(arrays, "block")
        return x.reshape((1,) * (ndim - x.ndim) + x.shape)
    return concat([_nested(entry, depth - 1, ndim) for entry in arrays], -depth)
