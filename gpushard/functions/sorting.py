"""Sorting and searching.

A dim that is sorted along keeps the mesh axes that split it. NaNs come last, in both directions;
equal elements keep their order.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.errors import ArgumentError, ArgumentTypeError, TracedValueError
from gpushard.functions.checks import check_choice, check_hint
from gpushard.functions.values import Array
from gpushard.ops.axes import one_from_end
from gpushard.ops.bind import bind
from gpushard.ops.table import searching
from gpushard.ops.table import sorting as rows

_SORTS = ("quicksort", "heapsort", "mergesort", "stable", None)
_SELECTIONS = ("introselect", None)
METHODS = (None, "default", "scan", "scan_unrolled", "sort", "compare_all")
"""Hints of how to search, which make no difference."""


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
    """Return an array with the elements along a dim in order.

    Args:
      axis: which dim; None for all elements in row-major order.
      kind: any of NumPy's; the result does not depend on it.

    >>> import gpushard as gs
    >>> sort(gs.numpy.asarray([3.0, float("nan"), 1.0, 2.0]), descending=True)
    Array([ 3.,  2.,  1., nan], dtype=float64)
    """
    _check("sort", kind, order, _SORTS)
    x, at = along("sort", a, axis)
    how = at, bool(descending), stable is None or bool(stable)
    return bind(rows.SORT, (x,), how, out_sharding)


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
    """Return the positions along a dim that its elements have in order.

    Args:
      axis: which dim; None for all elements in row-major order.
      kind: any of NumPy's; the result does not depend on it.
    """
    _check("argsort", kind, order, _SORTS)
    x, at = along("argsort", a, axis)
    how = at, bool(descending), stable is None or bool(stable)
    return bind(rows.ARGSORT, (x,), how, out_sharding)


def partition(
    a: Array,
    kth: Any,
    axis: Any = -1,
    kind: Any = "introselect",
    order: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return an array with some elements where sorting would put them, and lesser ones before them.

    Args:
      kth: at which places, an integer or several.
      axis: along which dim; None for all elements in row-major order.
      kind: must be "introselect".

    Raises:
      ArgumentError: there is no such place.
    """
    _check("partition", kind, order, _SELECTIONS)
    x, at = along("partition", a, axis)
    return bind(rows.PARTITION, (x,), (at, _places("partition", kth, x.shape[at])), out_sharding)


def argpartition(
    a: Array,
    kth: Any,
    axis: Any = -1,
    kind: Any = "introselect",
    order: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return the positions that elements have before `partition` along a dim.

    Args:
      kth: at which places there is what sorting would put there, an integer or several.
      axis: along which dim; None for all elements in row-major order.
      kind: must be "introselect".

    Raises:
      ArgumentError: there is no such place.
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
    """Return where elements would go into a sorted vector, so that it stays sorted.

    Either side may be split: what moves is the smaller one, or the positions that parts give.

    Args:
      a: the sorted vector; NaNs come last.
      v: the elements, of any shape.
      side: "left" for before those that are equal, "right" for behind them.
      sorter: positions that sort `a`; None if it is sorted.

    Raises:
      ArgumentError: `a` is no vector, or `side` is neither.

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
    """Return a value and one of its dims, counted from the end; of None all elements in a row."""
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
    """Return places of a dim of some size, from 0; none of an empty one."""
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
