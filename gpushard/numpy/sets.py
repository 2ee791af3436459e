"""Membership, and arrays as sets of their elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.numpy.arguments import check_hint, is_value
from gpushard.numpy.data_type import result_type
from gpushard.numpy.joining import concat
from gpushard.numpy.public import public
from gpushard.numpy.uniques import different, unique
from gpushard.ops.bind import bind
from gpushard.ops.table.searching import ISIN
from gpushard.ops.table.sets import INDICES, Wish

_METHODS = (None, "auto", "compare_all", "binary_search", "sort")

_sets = public(
    arrays=2,
    ar1="an array.",
    ar2="an array.",
    assume_unique="makes no difference.",
    fill_value="what fills places without an element; by default the first one does.",
    size="how many results there are; None for as many as there are.",
)


@public(operands=2)
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

    Raises:
      ArgumentError: NumPy has no such `kind`, or JAX no such `method`.

    >>> import gpushard as gs
    >>> isin(gs.numpy.asarray([1, 2, 3]), [3, 1])
    Array([ True, False,  True], dtype=bool)
    """
    check_hint("isin", "kind", kind, (None, "sort", "table"))
    check_hint("isin", "method", method, _METHODS)
    tests = test_elements.ravel() if is_value(test_elements) else np.ravel(test_elements)
    return bind(ISIN, (element, tests), (bool(invert),), out_sharding)


@_sets
def union1d(
    ar1: Any,
    ar2: Any,
    *,
    size: int | None = None,
    fill_value: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return the different elements of two arrays, in order."""
    both = concat([ar1.ravel(), ar2.ravel()])
    return different("union1d", both, Wish(), size, fill_value)[0]


@_sets
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
      assume_unique: makes no difference.
      return_indices: whether to return where they are first in `ar1`, and in `ar2`, too.
    """
    x1, x2 = _alike(ar1, ar2)
    wish = Wish((INDICES,) * bool(return_indices))
    found = different("intersect1d", x1, wish, size, fill_value, isin(x1, x2))
    if not return_indices:
        return found[0]
    found.append(different("intersect1d", x2, wish, size, fill_value, isin(x2, x1))[1])
    return tuple(found)


@_sets
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
      assume_unique: whether those of `ar1` are known to differ; then they stay in their order.
      fill_value: what fills places without an element; 0 by default.
    """
    x1, x2 = ar1.ravel(), ar2.ravel()
    wish = Wish(distinct=bool(assume_unique))
    counting = isin(x1, x2, invert=True)
    fill = 0 if fill_value is None else fill_value
    return different("setdiff1d", x1, wish, size, fill, counting)[0]


@_sets
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
      ar2: an array; NaNs in both differ from each other.
      assume_unique: whether those of each array are known to differ.
    """
    x1, x2 = _alike(ar1, ar2)
    if not assume_unique:
        x1, x2 = unique(x1), unique(x2)
    counting = concat([isin(x1, x2, invert=True), isin(x2, x1, invert=True)])
    wish = Wish(equal_nan=False)
    found = different("setxor1d", concat([x1, x2]), wish, size, fill_value, counting)
    return found[0]


def _alike(*xs: Any) -> list[Any]:
    """Return the elements of arrays as vectors of the type that they promote to."""
    dtype = result_type(*xs)
    return [x.ravel().astype(dtype) for x in xs]
