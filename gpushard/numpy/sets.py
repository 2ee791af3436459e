"""Unique elements, membership, and arrays as sets of their elements."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import check_hint, count
from gpushard._functions.element_types import number_of
from gpushard._functions.host_reads import concrete
from gpushard._functions.values import is_value
from gpushard._ops.axes import one_from_end
from gpushard._ops.bind import bind
from gpushard._ops.table.searching import ISIN
from gpushard._ops.table.sets import COUNTS, INDICES, INVERSE, UNIQUE, Wish
from gpushard._placement.public_functions import public
from gpushard.numpy.data_type import result_type
from gpushard.numpy.joining import concat
from gpushard.numpy.manipulation import moveaxis

__all__ = [
    "intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all",
    "unique_counts", "unique_inverse", "unique_values",
]  # fmt: skip

_METHODS = (None, "auto", "compare_all", "binary_search", "sort")

_unique = public(
    arrays=1,
    x="an array; NaNs differ from each other.",
    size="the length of the results; None for all unique elements: the host waits to count them.",
    fill_value="the element that pads results up to `size`; by default the first element.",
)
_sets = public(
    arrays=2,
    ar1="an array.",
    ar2="an array.",
    assume_unique="ignored.",
    fill_value="the element that pads results up to `size`; by default the first element.",
    size="the length of the result; None for all elements: the host waits to count them.",
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
    """Test whether each element of one array is in another.

    Args:
      element: the elements to test; the result is False for NaN.
      test_elements: the array in which to look for them.
      assume_unique: ignored.
      invert: whether to return True for elements that are not in `test_elements`, and False for
        others.
      kind: ignored.
      method: ignored.

    Raises:
      ArgumentError: `kind` is not one of NumPy's, or `method` not one of JAX's.

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
    ar1: Any, ar2: Any, *, size: int | None = None, fill_value: Any = None, out_sharding: Any = None
) -> Array:
    """Find the unique elements of two arrays together, in ascending order."""
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
    """Find the unique elements that are in both of two arrays, in ascending order.

    Args:
      assume_unique: ignored.
      return_indices: whether to also return the first positions of these elements in `ar1` and in
        `ar2`. Elements that pad the result have the size of the array as position, which is out of
        bounds.
    """
    x1, x2 = _alike(ar1, ar2)
    wish = Wish((INDICES,) * bool(return_indices), beyond=True)
    results = different("intersect1d", x1, wish, size, fill_value, isin(x1, x2))
    if not return_indices:
        return results[0]
    results.append(different("intersect1d", x2, wish, size, fill_value, isin(x2, x1))[1])
    return tuple(results)


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
    """Find the unique elements of one array that are not in another, in ascending order.

    Args:
      assume_unique: whether the elements of `ar1` are unique. If True, they keep their order.
      fill_value: the element that pads the result up to `size`; 0 by default.
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
    """Find the unique elements that are in exactly one of two arrays, in ascending order.

    Args:
      ar2: an array. NaNs never count as equal.
      assume_unique: whether the elements of each array are unique.
    """
    x1, x2 = _alike(ar1, ar2)
    present: Any = True
    if not assume_unique and size is None:
        x1, x2 = unique(x1), unique(x2)
    elif not assume_unique:
        x1, first = unique(x1, return_counts=True, size=x1.size)
        x2, second = unique(x2, return_counts=True, size=x2.size)
        present = concat([first, second]) > 0
    counting = concat([isin(x1, x2, invert=True), isin(x2, x1, invert=True)]) & present
    wish = Wish(equal_nan=False)
    results = different("setxor1d", concat([x1, x2]), wish, size, fill_value, counting)
    return results[0]


def _alike(*xs: Any) -> list[Any]:
    """Flatten arrays to vectors of the dtype that they promote to."""
    dtype = result_type(*xs)
    return [x.ravel().astype(dtype) for x in xs]


class UniqueAll(NamedTuple):
    """The result of `unique_all`."""

    values: Array
    """The different elements, in order."""

    indices: Array
    """Where each is first, in row-major order."""

    inverse_indices: Array
    """Which of them each element is."""

    counts: Array
    """How often each is there."""


class UniqueCounts(NamedTuple):
    """The result of `unique_counts`."""

    values: Array
    """The different elements, in order."""

    counts: Array
    """How often each is there."""


class UniqueInverse(NamedTuple):
    """The result of `unique_inverse`."""

    values: Array
    """The different elements, in order."""

    inverse_indices: Array
    """Which of them each element is."""


@_unique
def unique_all(
    x: Any, *, size: int | None = None, fill_value: Any = None, out_sharding: Any = None
) -> UniqueAll:
    """Find the unique elements, their first positions, the inverse positions, and their counts.

    >>> import gpushard as gs
    >>> unique_all(gs.numpy.asarray([5, 2, 5])).inverse_indices
    Array([1, 0, 1], dtype=int64)
    """
    wish = Wish((INDICES, INVERSE, COUNTS), equal_nan=False)
    values, indices, inverse, counts = different("unique_all", x.ravel(), wish, size, fill_value)
    return UniqueAll(values, indices, inverse.reshape(x.shape), counts)


@_unique
def unique_counts(
    x: Any, *, size: int | None = None, fill_value: Any = None, out_sharding: Any = None
) -> UniqueCounts:
    """Find the unique elements and their counts."""
    wish = Wish((COUNTS,), equal_nan=False)
    return UniqueCounts(*different("unique_counts", x.ravel(), wish, size, fill_value))


@_unique
def unique_inverse(
    x: Any, *, size: int | None = None, fill_value: Any = None, out_sharding: Any = None
) -> UniqueInverse:
    """Find the unique elements, and for each element its position among the unique elements."""
    wish = Wish((INVERSE,), equal_nan=False)
    values, inverse = different("unique_inverse", x.ravel(), wish, size, fill_value)
    return UniqueInverse(values, inverse.reshape(x.shape))


@_unique
def unique_values(
    x: Any, *, size: int | None = None, fill_value: Any = None, out_sharding: Any = None
) -> Array:
    """Find the unique elements, in ascending order."""
    return different("unique_values", x.ravel(), Wish(equal_nan=False), size, fill_value)[0]


@overload
def unique(
    ar: Any,
    return_index: Literal[False] = False,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
    size: int | None = None,
    fill_value: Any = None,
    out_sharding: Any = None,
) -> Array: ...


@overload
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
    size: int | None = None,
    fill_value: Any = None,
    out_sharding: Any = None,
) -> Any: ...


@_unique
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
    size: int | None = None,
    fill_value: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Find the unique elements, or the unique slices along an axis, in ascending order.

    Args:
      return_index: whether to also return the first position of each unique element.
      return_inverse: whether to also return the position of each element among the unique elements.
      return_counts: whether to also return how often each unique element occurs.
      axis: the axis along which slices are compared; None compares single elements.
      equal_nan: whether NaNs count as equal. In slices, they never do, as in NumPy.
      sorted: ignored: results are always in ascending order.

    Returns:
      The unique elements. If you ask for other results, a tuple of the elements and these results,
      in the order of the arguments.

    >>> import gpushard as gs
    >>> unique(gs.numpy.asarray([5, 2, 5]), return_counts=True)
    (Array([2, 5], dtype=int64), Array([1, 2], dtype=int64))
    >>> unique(gs.numpy.asarray([5, 2, 5]), size=4, fill_value=0)
    Array([2, 5, 0, 0], dtype=int64)
    """
    asked = (INDICES, return_index), (INVERSE, return_inverse), (COUNTS, return_counts)
    parts = tuple(part for part, wanted in asked if wanted)
    if axis is None:
        wish = Wish(parts, bool(equal_nan))
        results = different("unique", ar.ravel(), wish, size, fill_value)
        if return_inverse:
            at = 1 + parts.index(INVERSE)
            results[at] = results[at].reshape(ar.shape)
    else:
        where = one_from_end(axis, ar.ndim, "unique")
        ar = moveaxis(ar, where, 0)
        rest = ar.shape[1:]
        rows = ar.reshape(ar.shape[0], math.prod(rest))
        results = different("unique", rows, Wish(parts, equal_nan=False), size, fill_value)
        results[0] = moveaxis(results[0].reshape(results[0].shape[0], *rest), 0, where)
    return tuple(results) if parts else results[0]


def different(
    name: str, x: Any, wish: Wish, size: Any, fill_value: Any, counting: Any = None
) -> list[Any]:
    """Find the unique elements of a vector, or rows of a matrix, and the other results."""
    length = None if size is None else count(size, name, "size")
    operands, masked, filled = (
        [x],
        counting is not None,
        size is not None and fill_value is not None,
    )
    if masked:
        operands.append(counting)
    if filled:
        operands.append(number_of(fill_value, x.dtype, name, "fill_value"))
    wish = dataclasses.replace(wish, size=length, masked=masked, filled=filled)
    results: list[Any]
    *results, number = bind(UNIQUE, operands, (wish,))
    if length is None:
        present = concrete(number, "unique").item()
        for at, part in enumerate(("values", *wish.parts)):
            if part != INVERSE:
                results[at] = results[at][:present]
    return results
