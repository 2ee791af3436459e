"""The different elements of arrays.

How many there are depends on values: the host reads that one number, which no guard forbids,
unless `size` says how many results there are. All else stays on the devices.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, NamedTuple, overload

from gpushard.array import Array
from gpushard.functions.checks import count
from gpushard.functions.concrete import concrete
from gpushard.numpy.arguments import number_of
from gpushard.numpy.manipulation import moveaxis
from gpushard.numpy.public import public
from gpushard.ops.axes import one_from_end
from gpushard.ops.bind import bind
from gpushard.ops.table.sets import COUNTS, INDICES, INVERSE, UNIQUE, Wish


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: Array
    """The different elements, in order."""

    indices: Array
    """Where each is first, in row-major order."""

    inverse_indices: Array
    """Which of them each element is."""

    counts: Array
    """How often each is there."""


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: Array
    """The different elements, in order."""

    counts: Array
    """How often each is there."""


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Array
    """The different elements, in order."""

    inverse_indices: Array
    """Which of them each element is."""


@public
def unique_all(
    x: Any, *, size: int | None = None, fill_value: Any = None, out_sharding: Any = None
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
    wish = Wish((INDICES, INVERSE, COUNTS), equal_nan=False)
    values, indices, inverse, counts = different("unique_all", x.ravel(), wish, size, fill_value)
    found = UniqueAll(values, indices, inverse.reshape(x.shape), counts)
    return UniqueAll(*found)


@public
def unique_counts(
    x: Any, *, size: int | None = None, fill_value: Any = None, out_sharding: Any = None
) -> UniqueCounts:
    """Return the different elements, and how often each is there.

    Args:
      x: an array; NaNs differ from each other.
      size: how many results there are; None for as many as there are different elements.
      fill_value: what fills places without an element; by default the first one does.
      out_sharding: where the results go; by default they stay where they were made.
    """
    x = x.ravel()
    wish = Wish((COUNTS,), equal_nan=False)
    values, counts = different("unique_counts", x, wish, size, fill_value)
    return UniqueCounts(*(values, counts))


@public
def unique_inverse(
    x: Any, *, size: int | None = None, fill_value: Any = None, out_sharding: Any = None
) -> UniqueInverse:
    """Return the different elements, and which of them each element is.

    Args:
      x: an array; NaNs differ from each other.
      size: how many results there are; None for as many as there are different elements.
      fill_value: what fills places without an element; by default the first one does.
      out_sharding: where the results go; by default they stay where they were made.
    """
    wish = Wish((INVERSE,), equal_nan=False)
    values, inverse = different("unique_inverse", x.ravel(), wish, size, fill_value)
    found = values, inverse.reshape(x.shape)
    return UniqueInverse(*found)


@public
def unique_values(
    x: Any, *, size: int | None = None, fill_value: Any = None, out_sharding: Any = None
) -> Array:
    """Return the different elements, in order.

    Args:
      x: an array; NaNs differ from each other.
      size: how many results there are; None for as many as there are different elements.
      fill_value: what fills places without an element; by default the first one does.
    """
    x = x.ravel()
    (values,) = different("unique_values", x, Wish(equal_nan=False), size, fill_value)
    return values


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


@public
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
    """Return the different elements in order, or the different slices along a dim.

    Args:
      ar: an array.
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
    asked = (INDICES, return_index), (INVERSE, return_inverse), (COUNTS, return_counts)
    parts = tuple(part for part, there in asked if there)
    if axis is None:
        wish = Wish(parts, bool(equal_nan))
        found = different("unique", ar.ravel(), wish, size, fill_value)
        if return_inverse:
            at = 1 + parts.index(INVERSE)
            found[at] = found[at].reshape(ar.shape)
    else:
        where = one_from_end(axis, ar.ndim, "unique")
        ar = moveaxis(ar, where, 0)
        rest = ar.shape[1:]
        rows = ar.reshape(ar.shape[0], math.prod(rest))
        found = different("unique", rows, Wish(parts, equal_nan=False), size, fill_value)
        found[0] = moveaxis(found[0].reshape(found[0].shape[0], *rest), 0, where)
    return tuple(found) if parts else found[0]


def different(
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
    wish = dataclasses.replace(wish, size=many, masked=masked, filled=filled)
    found: list[Any]
    *found, number = bind(UNIQUE, given, (wish,))
    if many is None:
        there = concrete(number, "unique").item()
        for at, part in enumerate(("values", *wish.parts)):
            if part != INVERSE:
                found[at] = found[at][:there]
    return found
