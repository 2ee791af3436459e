"""The different elements of arrays, membership, and arrays as sets.

How many different elements there are depends on values: the host reads that one number, as an
explicit transfer, unless `size` says how many results have. All else stays on the devices.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpushard.array.checks import count
from gpushard.numpy.arguments import (
    as_value,
    is_value,
    number_of,
    operands,
    settle,
    wanted,
)
from gpushard.numpy.data_type import result_type
from gpushard.numpy.joining import concat
from gpushard.numpy.manipulation import moveaxis
from gpushard.ops.axes import one_from_end
from gpushard.ops.bind import bind
from gpushard.ops.table.searching import ISIN
from gpushard.ops.table.sets import COUNTS, INDICES, INVERSE, UNIQUE, Wish
from gpushard.placement.device_put import device_get


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: Any
    """The different elements, in order."""

    indices: Any
    """Where each is first, in row-major order."""

    inverse_indices: Any
    """Which of them each element is."""

    counts: Any
    """How often each is there."""


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: Any
    """The different elements, in order."""

    counts: Any
    """How often each is there."""


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Any
    """The different elements, in order."""

    inverse_indices: Any
    """Which of them each element is."""


def unique_all(
    x: Any, /, *, size: int | None = None, fill_value: Any = None, out_sharding: Any = None
) -> UniqueAll:
    """Return the different elements, where they are first, which each is, and how many.

    Args:
      x: an array; NaNs differ from each other.
      size: how many results there are; None for as many as there are different elements.
      fill_value: what fills places without an element; by default the first one does.
      out_sharding: where the results go; by default they stay where they were made.

    >>> import gpushard as gs
    >>> unique_all(gs.numpy.asarray([5, 2, 5])).inverse_indices
    Array([1, 0, 1], dtype=int64)
    """
    x = as_value(x, "unique_all")
    wish = Wish((INDICES, INVERSE, COUNTS), equal_nan=False)
    values, indices, inverse, counts = _unique("unique_all", x.ravel(), wish, size, fill_value)
    found = UniqueAll(values, indices, inverse.reshape(x.shape), counts)
    return UniqueAll(*settle(found, out_sharding))


def unique_counts(
    x: Any, /, *, size: int | None = None, fill_value: Any = None, out_sharding: Any = None
) -> UniqueCounts:
    """Return the different elements, and how often each is there.

    Args:
      x: an array; NaNs differ from each other.
      size: how many results there are; None for as many as there are different elements.
      fill_value: what fills places without an element; by default the first one does.
      out_sharding: where the results go; by default they stay where they were made.
    """
    x = as_value(x, "unique_counts").ravel()
    wish = Wish((COUNTS,), equal_nan=False)
    values, counts = _unique("unique_counts", x, wish, size, fill_value)
    return UniqueCounts(*settle((values, counts), out_sharding))


def unique_inverse(
    x: Any, /, *, size: int | None = None, fill_value: Any = None, out_sharding: Any = None
) -> UniqueInverse:
    """Return the different elements, and which of them each element is.

    Args:
      x: an array; NaNs differ from each other.
      size: how many results there are; None for as many as there are different elements.
      fill_value: what fills places without an element; by default the first one does.
      out_sharding: where the results go; by default they stay where they were made.
    """
    x = as_value(x, "unique_inverse")
    wish = Wish((INVERSE,), equal_nan=False)
    values, inverse = _unique("unique_inverse", x.ravel(), wish, size, fill_value)
    found = values, inverse.reshape(x.shape)
    return UniqueInverse(*settle(found, out_sharding))


def unique_values(
    x: Any, /, *, size: int | None = None, fill_value: Any = None, out_sharding: Any = None
) -> Any:
    """Return the different elements, in order.

    Args:
      x: an array; NaNs differ from each other.
      size: how many results there are; None for as many as there are different elements.
      fill_value: what fills places without an element; by default the first one does.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    x = as_value(x, "unique_values").ravel()
    (values,) = _unique("unique_values", x, Wish(equal_nan=False), size, fill_value)
    return settle(values, out_sharding)


def unique(
    x: Any,
    /,
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
    """Return the different elements in order, or the different slices along a dim.

    Args:
      x: an array.
      return_index: whether to return where each is first, too.
      return_inverse: whether to return which of them each element is, too.
      return_counts: whether to return how often each is there, too.
      axis: the dim whose slices are compared; None for single elements.
      equal_nan: whether NaNs are one element; in slices they always differ, as in NumPy.
      sorted: results are in order in any case.
      size: how many results there are; None for as many as there are different elements.
      fill_value: what fills places without an element; by default the first one does.
      out_sharding: where the results go; by default they stay where they were made.

    Returns:
      The elements, or a tuple of them and what else was asked for.

    >>> import gpushard as gs
    >>> unique(gs.numpy.asarray([5, 2, 5]), return_counts=True)
    (Array([2, 5], dtype=int64), Array([1, 2], dtype=int64))
    >>> unique(gs.numpy.asarray([5, 2, 5]), size=4, fill_value=0)
    Array([2, 5, 0, 0], dtype=int64)
    """
    x = as_value(x, "unique")
    asked = (INDICES, return_index), (INVERSE, return_inverse), (COUNTS, return_counts)
    parts = tuple(part for part, there in asked if there)
    if axis is None:
        wish = Wish(parts, bool(equal_nan))
        found = _unique("unique", x.ravel(), wish, size, fill_value)
        if return_inverse:
            at = 1 + parts.index(INVERSE)
            found[at] = found[at].reshape(x.shape)
    else:
        where = one_from_end(axis, x.ndim, "unique")
        x = moveaxis(x, where, 0)
        rest = x.shape[1:]
        rows = x.reshape(x.shape[0], int(np.prod(rest)))
        found = _unique("unique", rows, Wish(parts, equal_nan=False), size, fill_value)
        found[0] = moveaxis(found[0].reshape(found[0].shape[0], *rest), 0, where)
    return settle(tuple(found) if parts else found[0], out_sharding)


def _unique(
    name: str, x: Any, wish: Wish, size: Any, fill_value: Any, counting: Any = None
) -> list[Any]:
    """Return the different elements of a vector, or rows of a matrix, and what else is wished.

    Args:
      name: of the function, for errors.
      x: the vector or matrix.
      wish: what is wanted.
      size: how many results there are, or None.
      fill_value: what fills places without an element, or None.
      counting: which elements count; None for all.
    """
    many = None if size is None else count(size, name, "size")
    given, masked, filled = [x], counting is not None, size is not None and fill_value is not None
    if masked:
        given.append(counting)
    if filled:
        given.append(number_of(fill_value, x.dtype, name, "fill_value"))
    wish = Wish(wish.parts, wish.equal_nan, wish.distinct, many, masked, filled)
    found: list[Any]
    *found, number = bind(UNIQUE, given, (wish,))
    if many is None:
        there = int(device_get(number))
        for at, part in enumerate(("values", *wish.parts)):
            if part != INVERSE:
                found[at] = found[at][:there]
    return found


def isin(
    x1: Any,
    x2: Any,
    /,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return which elements of one array are in another.

    Args:
      x1: the elements; NaN is in nothing.
      x2: an array of what they are looked for in.
      assume_unique: makes no difference.
      invert: whether to return which are not.
      kind: makes no difference.
      out_sharding: where the result goes; by default it stays where it was made.

    >>> import gpushard as gs
    >>> isin(gs.numpy.asarray([1, 2, 3]), [3, 1])
    Array([ True, False,  True], dtype=bool)
    """
    x1, x2 = operands("isin", x1, x2)
    x2 = x2.ravel() if is_value(x2) else np.ravel(x2)
    found = bind(ISIN, (x1, x2), (bool(invert),), wanted(out_sharding, x1, x2))
    return settle(found, out_sharding)


def union1d(
    x1: Any,
    x2: Any,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return the different elements of two arrays, in order.

    Args:
      x1: an array.
      x2: an array.
      size: how many results there are; None for as many as there are.
      fill_value: what fills places without an element; by default the first one does.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    both = concat(_vectors("union1d", x1, x2))
    return settle(_unique("union1d", both, Wish(), size, fill_value)[0], out_sharding)


def intersect1d(
    x1: Any,
    x2: Any,
    /,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return the different elements that are in both of two arrays, in order.

    Args:
      x1: an array.
      x2: an array.
      assume_unique: makes no difference.
      return_indices: whether to return where they are first in `x1`, and in `x2`, too.
      size: how many results there are; None for as many as there are.
      fill_value: what fills places without an element; by default the first one does.
      out_sharding: where the results go; by default they stay where they were made.
    """
    x1, x2 = _alike(_vectors("intersect1d", x1, x2))
    wish = Wish((INDICES,) * bool(return_indices))
    found = _unique("intersect1d", x1, wish, size, fill_value, isin(x1, x2))
    if not return_indices:
        return settle(found[0], out_sharding)
    found.append(_unique("intersect1d", x2, wish, size, fill_value, isin(x2, x1))[1])
    return settle(tuple(found), out_sharding)


def setdiff1d(
    x1: Any,
    x2: Any,
    /,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return the different elements of one array that are not in another, in order.

    Args:
      x1: an array.
      x2: an array.
      assume_unique: whether those of `x1` are known to differ; then they stay in their order.
      size: how many results there are; None for as many as there are.
      fill_value: what fills places without an element; by default the first one does.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    x1, x2 = _vectors("setdiff1d", x1, x2)
    wish = Wish(distinct=bool(assume_unique))
    counting = isin(x1, x2, invert=True)
    return settle(_unique("setdiff1d", x1, wish, size, fill_value, counting)[0], out_sharding)


def setxor1d(
    x1: Any,
    x2: Any,
    /,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return the different elements that are in just one of two arrays, in order.

    Args:
      x1: an array.
      x2: an array; NaNs in both differ from each other.
      assume_unique: whether those of each array are known to differ.
      size: how many results there are; None for as many as there are.
      fill_value: what fills places without an element; by default the first one does.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    x1, x2 = _alike(_vectors("setxor1d", x1, x2))
    if not assume_unique:
        x1, x2 = unique(x1), unique(x2)
    counting = concat([isin(x1, x2, invert=True), isin(x2, x1, invert=True)])
    wish = Wish(equal_nan=False)
    found = _unique("setxor1d", concat([x1, x2]), wish, size, fill_value, counting)
    return settle(found[0], out_sharding)


def _vectors(name: str, *xs: Any) -> list[Any]:
    return [as_value(x, name).ravel() for x in xs]


def _alike(xs: list[Any]) -> list[Any]:
    """Convert arrays to the type that they promote to."""
    dtype = result_type(*xs)
    return [x.astype(dtype) for x in xs]
