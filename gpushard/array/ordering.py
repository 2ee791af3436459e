"""Sorting and searching as methods, and the checks of their arguments."""

from __future__ import annotations

import abc
import operator
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.geometry.sharding import Sharding
from gpushard.ops.axes import one_from_end
from gpushard.ops.bind import bind
from gpushard.ops.row import Row
from gpushard.ops.table import searching, sorting
from gpushard.typing import Shape

_SORTS = ("quicksort", "heapsort", "mergesort", "stable", None)


class Ordering(abc.ABC):
    """What NumPy's arrays have for sorting and searching."""

    __slots__ = ()

    @property
    @abc.abstractmethod
    def shape(self) -> Shape:
        """Sizes of the dims."""

    @abc.abstractmethod
    def __setitem__(self, index: Any, value: Any) -> None:
        """Replace a part."""

    def sort(
        self,
        axis: int = -1,
        kind: Any = None,
        order: Any = None,
        *,
        descending: bool = False,
        stable: Any = True,
    ) -> None:
        """Sort this array along a dim: it gets another value, as by `x[...] = value`.

        Args:
          axis: which dim.
          kind: any of NumPy's; the order does not depend on it.
          order: must be None.
          descending: whether the greatest element comes first; NaNs come last in any case.
          stable: whether equal elements keep their order; it makes no difference here.
        """
        params = one_from_end(axis, len(self.shape), "sort"), descending, stable
        self[...] = sort(sorting.SORT, self, *params, kind=kind, order=order)

    def argsort(
        self,
        axis: int | None = -1,
        kind: Any = None,
        order: Any = None,
        *,
        descending: bool = False,
        stable: Any = True,
        out_sharding: Sharding | None = None,
    ) -> Self:
        """Return the positions along a dim that its elements have in order.

        Args:
          axis: which dim; None for all elements in row-major order.
          kind: any of NumPy's; the order does not depend on it.
          order: must be None.
          descending: whether the greatest element comes first; NaNs come last in any case.
          stable: whether equal elements have to keep their order.
          out_sharding: how the result is laid out; by default as it comes.
        """
        given = axis, descending, stable
        return sort(sorting.ARGSORT, self, *given, kind=kind, order=order, out=out_sharding)

    def partition(self, kth: Any, axis: int = -1, kind: Any = None, order: Any = None) -> None:
        """Put elements where they would be in sorted order, with lesser ones before them.

        Args:
          kth: where, an integer or several.
          axis: which dim.
          kind: as for NumPy; the result does not depend on it.
          order: must be None.
        """
        where = one_from_end(axis, len(self.shape), "partition")
        self[...] = partition(sorting.PARTITION, self, kth, where, kind=kind, order=order)

    def argpartition(
        self,
        kth: Any,
        axis: int | None = -1,
        kind: Any = None,
        order: Any = None,
        *,
        out_sharding: Sharding | None = None,
    ) -> Self:
        """Return the positions that elements have before `partition`.

        Args:
          kth: where it puts what sorting would, an integer or several.
          axis: which dim; None for all elements in row-major order.
          kind: as for NumPy; the result does not depend on it.
          order: must be None.
          out_sharding: how the result is laid out; by default as it comes.
        """
        row = sorting.ARGPARTITION
        return partition(row, self, kth, axis, kind=kind, order=order, out=out_sharding)

    def searchsorted(
        self,
        v: Any,
        side: str = "left",
        sorter: Any = None,
        *,
        out_sharding: Sharding | None = None,
    ) -> Self:
        """Return where elements would go into this sorted vector.

        Args:
          v: the elements.
          side: "left" for before those that are equal, "right" for behind them.
          sorter: positions that sort this vector; None if it is sorted.
          out_sharding: how the result is laid out; by default as it comes.

        Raises:
          ArgumentError: this is no vector, or `side` is neither.
        """
        if side not in ("left", "right"):
            raise ArgumentError(
                f'searchsorted: side={side!r} must be "left" or "right"', argument="side", side=side
            )
        operands = (self, v) if sorter is None else (self, v, sorter)
        return bind(searching.SEARCHSORTED, operands, (side,), out_sharding)


def sort(
    row: Row,
    x: Any,
    axis: Any,
    descending: Any = False,
    stable: Any = True,
    *,
    kind: Any = None,
    order: Any = None,
    out: Sharding | None = None,
) -> Any:
    """Return what a row of the kind of `SORT` gives; arguments are as users give them."""
    _check(row.name, kind, order, _SORTS)
    x, where = _along(row.name, x, axis)
    return bind(row, (x,), (where, bool(descending), stable is None or bool(stable)), out)


def partition(
    row: Row,
    x: Any,
    kth: Any,
    axis: Any,
    *,
    kind: Any = None,
    order: Any = None,
    out: Sharding | None = None,
) -> Any:
    """Return what a row of the kind of `PARTITION` gives; arguments are as users give them."""
    _check(row.name, kind, order, ("introselect", None))
    x, where = _along(row.name, x, axis)
    size = x.shape[where]
    many = kth if np.ndim(kth) else (kth,)
    places = tuple(_place(one, size, row.name) for one in many) if size else ()
    return bind(row, (x,), (where, places), out)


def _along(name: str, x: Any, axis: Any) -> tuple[Any, int]:
    if axis is None:
        return x.ravel(), -1
    return x, one_from_end(axis, len(x.shape), name)


def _check(name: str, kind: Any, order: Any, kinds: Sequence[Any]) -> None:
    if kind not in kinds:
        known = ", ".join(repr(one) for one in kinds)
        raise ArgumentError(
            f"{name}: kind={kind!r} is unknown; use one of {known}", argument="kind", kind=kind
        )
    if order is not None:
        raise ArgumentError(
            f"{name}: order={order!r} names fields, and arrays here have none; leave it out",
            argument="order",
            order=order,
        )


def _place(kth: Any, size: int, name: str) -> int:
    try:
        place = operator.index(kth)
    except TypeError:
        raise ArgumentTypeError(
            f"{name}: kth={kth!r} must be an integer, or several", argument="kth", kth=kth
        ) from None
    if not -size <= place < size:
        raise ArgumentError(
            f"{name}: kth={place} is out of range for {size} elements; use {-size} to {size - 1}",
            argument="kth",
            kth=place,
            size=size,
        )
    return place % size
