"""Membership, and arrays as sets of their elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.numpy.arguments import as_value, check_hint, is_value, operands, settle, wanted
from gpushard.numpy.data_type import result_type
from gpushard.numpy.joining import concat
from gpushard.numpy.uniques import different, unique
from gpushard.ops.bind import bind
from gpushard.ops.table.searching import ISIN
from gpushard.ops.table.sets import INDICES, Wish

_METHODS = (None, "auto", "compare_all", "binary_search", "sort")


def isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: Any = None,
    method: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return which elements of one array are in another.

    Args:
      element: the elements; NaN is in nothing.
      test_elements: an array of what they are looked for in.
      assume_unique: makes no difference.
      invert: whether to return which are not.
      kind: makes no difference.
      method: likewise.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: NumPy has no such `kind`, or JAX no such `method`.

    >>> import gpushard as gs
    >>> isin(gs.numpy.asarray([1, 2, 3]), [3, 1])
    Array([ True, False,  True], dtype=bool)
    """
    check_hint("isin", "kind", kind, (None, "sort", "table"))
    check_hint("isin", "method", method, _METHODS)
    x1, x2 = operands("isin", element, test_elements)
    x2 = x2.ravel() if is_value(x2) else np.ravel(x2)
    found = bind(ISIN, (x1, x2), (bool(invert),), wanted(out_sharding, x1, x2))
    return settle(found, out_sharding)


def union1d(
    ar1: Any,
    ar2: Any,
    *,
    size: int | None = None,
    fill_value: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return the different elements of two arrays, in order.

    Args:
      ar1: an array.
      ar2: an array.
      size: how many results there are; None for as many as there are.
      fill_value: what fills places without an element; by default the first one does.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    both = concat(_vectors("union1d", ar1, ar2))
    return settle(different("union1d", both, Wish(), size, fill_value)[0], out_sharding)


def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return the different elements that are in both of two arrays, in order.

    Args:
      ar1: an array.
      ar2: an array.
      assume_unique: makes no difference.
      return_indices: whether to return where they are first in `ar1`, and in `ar2`, too.
      size: how many results there are; None for as many as there are.
      fill_value: what fills places without an element; by default the first one does.
      out_sharding: where the results go; by default they stay where they were made.
    """
    x1, x2 = _alike(_vectors("intersect1d", ar1, ar2))
    wish = Wish((INDICES,) * bool(return_indices))
    found = different("intersect1d", x1, wish, size, fill_value, isin(x1, x2))
    if not return_indices:
        return settle(found[0], out_sharding)
    found.append(different("intersect1d", x2, wish, size, fill_value, isin(x2, x1))[1])
    return settle(tuple(found), out_sharding)


def setdiff1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return the different elements of one array that are not in another, in order.

    Args:
      ar1: an array.
      ar2: an array.
      assume_unique: whether those of `ar1` are known to differ; then they stay in their order.
      size: how many results there are; None for as many as there are.
      fill_value: what fills places without an element; 0 by default.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    x1, x2 = _vectors("setdiff1d", ar1, ar2)
    wish = Wish(distinct=bool(assume_unique))
    counting = isin(x1, x2, invert=True)
    fill = 0 if fill_value is None else fill_value
    return settle(different("setdiff1d", x1, wish, size, fill, counting)[0], out_sharding)


def setxor1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return the different elements that are in just one of two arrays, in order.

    Args:
      ar1: an array.
      ar2: an array; NaNs in both differ from each other.
      assume_unique: whether those of each array are known to differ.
      size: how many results there are; None for as many as there are.
      fill_value: what fills places without an element; by default the first one does.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    x1, x2 = _alike(_vectors("setxor1d", ar1, ar2))
    if not assume_unique:
        x1, x2 = unique(x1), unique(x2)
    counting = concat([isin(x1, x2, invert=True), isin(x2, x1, invert=True)])
    wish = Wish(equal_nan=False)
    found = different("setxor1d", concat([x1, x2]), wish, size, fill_value, counting)
    return settle(found[0], out_sharding)


def _vectors(name: str, *xs: Any) -> list[Any]:
    return [as_value(x, name).ravel() for x in xs]


def _alike(xs: list[Any]) -> list[Any]:
    """Convert arrays to the type that they promote to."""
    dtype = result_type(*xs)
    return [x.astype(dtype) for x in xs]
