"""The methods of `numpy.ndarray` on arrays; most call a function of values."""

from __future__ import annotations

import abc
import copy as python_copy
from typing import Any, Self

import numpy as np

from gpushard._array.operators import Operators
from gpushard._array.shape_dtype import KeyDType
from gpushard._functions import (
    cumulative,
    elementwise,
    indexing,
    linear_algebra,
    manipulation,
    nonzero_positions,
    put_and_place,
    reductions,
    sorting,
    take_elements,
    x_at,
)
from gpushard._functions.argument_checks import check_order
from gpushard._functions.element_types import as_dtype
from gpushard._functions.values import method, view
from gpushard._geometry.sharding import Sharding
from gpushard._ops.axes import one_from_end
from gpushard._ops.bind import bind
from gpushard._ops.table import elementwise as rows
from gpushard._ops.table.elementwise import ufunc_row
from gpushard.dtypes import can_cast, kind_of
from gpushard.errors import ArgumentError, ArgumentTypeError

_CONJUGATE = ufunc_row(np.conjugate)


class Methods(Operators):
    """The methods that arrays with data and traced values have in common."""

    __slots__ = ()

    @property
    @abc.abstractmethod
    def ndim(self) -> int:
        """Number of axes."""

    all = method(reductions.all)
    any = method(reductions.any)
    argmax = method(reductions.argmax)
    argmin = method(reductions.argmin)
    argpartition = method(sorting.argpartition)
    argsort = method(sorting.argsort)
    choose = method(take_elements.choose)
    clip = method(elementwise.clip)
    cumprod = method(cumulative.cumprod)
    cumsum = method(cumulative.cumsum)
    diagonal = method(manipulation.diagonal)
    dot = method(linear_algebra.dot)
    max = method(reductions.max)
    mean = method(reductions.mean)
    min = method(reductions.min)
    nonzero = method(nonzero_positions.nonzero)
    prod = method(reductions.prod)
    ravel = method(manipulation.ravel)
    repeat = method(manipulation.repeat)
    round = __round__ = method(elementwise.round)
    searchsorted = method(sorting.searchsorted)
    squeeze = method(manipulation.squeeze)
    std = method(reductions.std)
    sum = method(reductions.sum)
    swapaxes = method(manipulation.swapaxes)
    take = method(take_elements.take)
    trace = method(manipulation.trace)
    var = method(reductions.var)

    @property
    def T(self) -> Self:
        """The array with its axes in reverse order; each axis keeps its mesh axes.

        No element moves at first. Products such as `x.T @ y` read the elements where they lie in
        `x`. Other functions make a transposed copy when they first need it, and may raise
        `OutOfMemoryError` then.
        """
        return manipulation.permute_dims(self)

    @property
    def mT(self) -> Self:
        """The array with its last two axes exchanged; each axis keeps its mesh axes.

        Raises:
          ArgumentError: the array has fewer than two axes.
        """
        if self.ndim < 2:
            raise ArgumentError(
                f"x.mT needs at least two axes, the shape is {self.shape}; use x.T",
                argument="self",
                shape=self.shape,
            )
        return manipulation.swapaxes(self, -1, -2)

    @property
    def real(self) -> Self:
        """The real part."""
        real = kind_of(self.dtype) in "biuf"
        return view(self, None) if real else bind(rows.REAL, (self,))

    @property
    def imag(self) -> Self:
        """The imaginary part; zeros for real numbers."""
        return bind(rows.IMAG, (self,))

    def astype(
        self, dtype: Any, order: str = "K", casting: Any = "unsafe", *, copy: bool = True
    ) -> Self:
        """Return the array with another dtype.

        Args:
          dtype: the type.
          order: "C", "A" or "K"; elements are always row-major.
          casting: the allowed conversions, as in `numpy.can_cast`; "unsafe" allows all.
          copy: ignored: a change of the result never changes this array.

        Raises:
          ArgumentTypeError: `casting` does not allow the conversion.
        """
        of_keys = isinstance(dtype, KeyDType) and self.dtype == dtype
        target = dtype if of_keys else as_dtype(dtype)
        check_order(order)
        if not can_cast(self.dtype, target, casting):
            raise ArgumentTypeError(
                f"astype: {self.dtype} does not convert to {target} under casting={casting!r}; "
                'use casting="unsafe", or another dtype',
                argument="dtype",
                dtype=target,
            )
        if target == self.dtype and not getattr(self, "weak_type", False):
            return python_copy.copy(self)
        return bind(rows.ASTYPE, (self,), (target,))

    def view(self, dtype: Any = None) -> Self:
        """Reinterpret the bytes of the elements as another type; the result is a new value.

        Args:
          dtype: the new type. If its size in bytes differs, the length of the last axis changes
            accordingly.

        Raises:
          ArgumentError: the bytes along the last axis are not a multiple of the new size.

        >>> import gpushard as gs
        >>> gs.numpy.asarray([1.0, -1.0], "f4").view("i4")
        Array([ 1065353216, -1082130432], dtype=int32)
        """
        if dtype is None:
            return python_copy.copy(self)
        return bind(rows.VIEW, (self,), (as_dtype(dtype),))

    def byteswap(self) -> Self:
        """Reverse the bytes of each element, or of each part of a complex element.

        >>> import gpushard as gs
        >>> gs.numpy.asarray([1, 256], "u2").byteswap()
        Array([256,   1], dtype=uint16)
        """
        shape, dtype = self.shape, self.dtype
        parts = 2 if kind_of(dtype) == "c" else 1
        if dtype.itemsize == parts:
            return self.copy()
        octets = self.reshape((*shape, 1)).view(np.uint8)
        octets = octets.reshape((*shape, parts, dtype.itemsize // parts))
        reverse = indexing.read_at(octets, (..., slice(None, None, -1)))
        return reverse.reshape((*shape, dtype.itemsize)).view(dtype).reshape(shape)

    def conj(self) -> Self:
        """Return the complex conjugate."""
        if kind_of(self.dtype) in "biuf":
            return python_copy.copy(self)
        return bind(_CONJUGATE, (self,))

    conjugate = conj

    def copy(self) -> Self:
        """Return a copy of the array."""
        return bind(rows.COPY, (self,))

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Self:
        """Return the elements, in row-major order, in another shape.

        Args:
          *shape: the sizes, or a tuple of them. One size may be -1 and is then computed.
          order: must be "C".
          copy: True copies the elements to new memory. False and None are ignored.

        Raises:
          ArgumentError: the sizes do not fit.
        """
        sizes = shape[0] if len(shape) == 1 else shape
        return manipulation.reshape(self, sizes, order, copy=copy)

    def flatten(self, order: str = "C") -> Self:
        """Return the elements in row-major order as one axis.

        Args:
          order: "C", "A" or "K", which all mean row-major here.
        """
        return python_copy.copy(self.ravel(order))

    def transpose(self, *axes: Any) -> Self:
        """Return the array with its axes in another order; each axis keeps its mesh axes.

        Args:
          *axes: the axes in their new order, or a tuple of them. By default the order is reversed.
        """
        order = axes[0] if len(axes) == 1 and np.ndim(axes[0]) else axes
        return manipulation.permute_dims(self, order if axes and axes[0] is not None else None)

    def sort(
        self,
        axis: int = -1,
        kind: Any = None,
        order: Any = None,
        *,
        descending: bool = False,
        stable: Any = True,
    ) -> None:
        """Sort this array along an axis, in place.

        Args:
          axis: the axis, an integer.
          kind: one of NumPy's algorithms; ignored.
          order: must be None.
          descending: whether the greatest element comes first; NaNs always come last.
          stable: ignored: equal elements always keep their order.
        """
        at, how = one_from_end(axis, self.ndim, "sort"), {"descending": descending}
        self._assign(sorting.sort(self, at, kind, order, stable=stable, **how))

    def partition(self, kth: Any, axis: int = -1, kind: Any = None, order: Any = None) -> None:
        """Put elements where sorting would put them, in place, as `numpy.ndarray.partition` does.

        Args:
          kth: the positions that get the same elements as in a sorted array: an integer, or
            several. Lesser elements come before them, greater elements after them.
          axis: the axis, an integer.
          kind: one of NumPy's algorithms; ignored.
          order: must be None.
        """
        at = one_from_end(axis, self.ndim, "partition")
        self._assign(sorting.partition(self, kth, at, kind, order))

    @property
    def at(self) -> x_at.Indexer[Self]:
        """Indexer for `x.at[index].set(value)`, which returns a changed copy of `x`."""
        return x_at.Indexer(self)

    def fill(self, value: Any) -> None:
        """Set all elements to a number, in place.

        Args:
          value: the number.
        """
        self._assign(value)

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        """Replace elements at positions in the flattened array, in place.

        Args:
          indices: positions in the array flattened in row-major order.
          values: the new elements; they repeat if there are too few.
          mode: as for `take`.

        Raises:
          ArrayIndexError: a position is out of bounds.
        """
        put_and_place.put(self, indices, values, mode)

    def compress(
        self,
        condition: Any,
        axis: int | None = None,
        out: Any = None,
        *,
        out_sharding: Sharding | None = None,
    ) -> Self:
        """Select the slices along an axis for which a condition is true.

        Args:
          condition: a vector of booleans, which may be shorter than the axis.
          axis: the axis; by default the array is flattened in row-major order.
          out: must be None: the result is always a new array.
          out_sharding: the sharding or `PartitionSpec` of the result; gpushard chooses by default.

        Raises:
          ArgumentError: the condition is not a vector.
          ArrayIndexError: the condition is longer than the axis, and true beyond its end.
        """
        return take_elements.compress(condition, self, axis, out, out_sharding=out_sharding)

    def _assign(self, value: Any) -> None:
        array: Any = self
        array[...] = value
