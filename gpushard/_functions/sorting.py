"""Sorting and searching.

The axis to sort along keeps the mesh axes that split it. NaNs come last in both directions. Equal
elements keep their order.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._functions.argument_checks import check_choice, check_hint
from gpushard._functions.docstrings import described
from gpushard._functions.values import Array
from gpushard._ops.axes import one_from_end
from gpushard._ops.bind import bind
from gpushard._ops.table import searching
from gpushard._ops.table import sorting as rows
from gpushard.errors import ArgumentError, ArgumentTypeError, TracedValueError

_SORTS = ("quicksort", "heapsort", "mergesort", "stable", None)
_SELECTIONS = ("introselect", None)
METHODS = (None, "default", "scan", "scan_unrolled", "sort", "compare_all")
"""Hints for the search, which make no difference."""

_AXIS = "the axis; None flattens the array in row-major order."
_sorting = described(axis=_AXIS, kind="one of NumPy's algorithms; ignored.")
_selecting = described(axis=_AXIS, kind='must be "introselect".')


@_sorting
def sort(
    a: Array,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    descending: bool = False,
    stable: Any = True,
    out_sharding: Any = None,
) -> Array:
    """Sort the elements of an array along an axis.

    >>> import gpushard as gs
    >>> sort(gs.numpy.asarray([3.0, float("nan"), 1.0, 2.0]), descending=True)
    Array([ 3.,  2.,  1., nan], dtype=float64)
    """
    _check("sort", kind, order, _SORTS)
    x, at = along("sort", a, axis)
    how = at, bool(descending), stable is None or bool(stable)
    return bind(rows.SORT, (x,), how, out_sharding)


@_sorting
def argsort(
    a: Array,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    descending: bool = False,
    stable: Any = True,
    out_sharding: Any = None,
) -> Array:
    """Find the positions that sort an array along an axis."""
    _check("argsort", kind, order, _SORTS)
    x, at = along("argsort", a, axis)
    how = at, bool(descending), stable is None or bool(stable)
    return bind(rows.ARGSORT, (x,), how, out_sharding)


@_selecting
def partition(
    a: Array,
    kth: Any,
    axis: Any = -1,
    kind: Any = "introselect",
    order: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Put some elements where sorting would put them, with no greater element before them.

    Args:
      kth: the positions that get the same elements as in a sorted array: an integer, or several.
        Lesser elements come before them, greater elements after them.

    Raises:
      ArgumentError: a position is out of range.
    """
    _check("partition", kind, order, _SELECTIONS)
    x, at = along("partition", a, axis)
    return bind(rows.PARTITION, (x,), (at, _places("partition", kth, x.shape[at])), out_sharding)


@_selecting
def argpartition(
    a: Array,
    kth: Any,
    axis: Any = -1,
    kind: Any = "introselect",
    order: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Find the positions that partition an array: `a[argpartition(a, kth)]` is partitioned.

    Args:
      kth: the positions that get the same elements as in a sorted array: an integer, or several.
        Lesser elements come before them, greater elements after them.

    Raises:
      ArgumentError: a position is out of range.
    """
    _check("argpartition", kind, order, _SELECTIONS)
    x, at = along("argpartition", a, axis)
    places = _places("argpartition", kth, x.shape[at])
    return bind(rows.ARGPARTITION, (x,), (at, places), out_sharding)


def searchsorted(
    a: Array,
    v: Any,
    side: str = "left",
    sorter: Any = None,
    *,
    method: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Find where to insert elements into a sorted vector so that it stays sorted.

    Either operand may be split over devices. Then the smaller operand moves to all of these
    devices, or the positions of each part are combined.

    Args:
      a: the sorted vector; NaNs come last.
      v: the elements, of any shape.
      side: "left" for the position before equal elements, "right" for the position after them.
      sorter: positions that sort the vector, as `argsort` returns them; None if it is sorted.

    Raises:
      ArgumentError: the array to search is not a vector, or `side` is unknown.

    >>> import gpushard as gs
    >>> searchsorted(gs.numpy.asarray([1, 3, 3, 7]), [3, 8], side="right")
    Array([3, 4], dtype=int64)
    """
    check_hint("searchsorted", "method", method, METHODS)
    if side not in ("left", "right"):
        raise ArgumentError.refusing("side", side, 'must be "left" or "right"', "searchsorted")
    operands = (a, v) if sorter is None else (a, v, sorter)
    return bind(searching.SEARCHSORTED, operands, (side,), out_sharding)


def along(name: str, x: Any, axis: Any) -> tuple[Any, int]:
    """Return a value and a dim counted from the end; for None all elements in a row."""
    if axis is None:
        return x.ravel(), -1
    return x, one_from_end(axis, x.ndim, name)


def _check(name: str, kind: Any, order: Any, kinds: Sequence[Any]) -> None:
    check_choice(name, "kind", kind, kinds)
    if order is not None:
        raise ArgumentError.refusing(
            "order", order, "names fields, and arrays here have none; leave it out", name
        )


def _places(name: str, kth: Any, size: int) -> tuple[int, ...]:
    """Return positions along a dim, from 0; none if the dim is empty."""
    several = kth if np.ndim(kth) else (kth,)
    return tuple(_place(place, size, name) for place in several) if size else ()


def _place(kth: Any, size: int, name: str) -> int:
    try:
        place = operator.index(kth)
    except TracedValueError:
        raise
    except TypeError:
        raise ArgumentTypeError.refusing(
            "kth", kth, "must be an integer, or several", name
        ) from None
    if not -size <= place < size:
        raise ArgumentError(
            f"{name}: kth={place} is out of range for {size} elements; use {-size} to {size - 1}",
            argument="kth",
            kth=place,
            size=size,
        )
    return place % size
