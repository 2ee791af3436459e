"""The methods that arrays share with `numpy.ndarray`, done where the elements lie."""

from __future__ import annotations

import abc
import copy as python_copy
from typing import Any, Self

import numpy as np

from gpushard.array.operators import shape_of
from gpushard.array.reducing import Scans
from gpushard.array.repeats import is_counts, repeated_each
from gpushard.array.views import view
from gpushard.dtypes import can_cast, iinfo, kind_of
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.functions.checks import as_dtype, check_order, count, integer, new_shape_of
from gpushard.geometry.sharding import Sharding
from gpushard.ops.axes import from_end, one_from_end
from gpushard.ops.bind import bind
from gpushard.ops.indexing import Entry
from gpushard.ops.table import contractions, elementwise, movement
from gpushard.ops.table.elementwise import ufunc_row
from gpushard.typing import Shape

_CONJUGATE = ufunc_row(np.conjugate)


class Methods(Scans):
    """Everything else."""

    __slots__ = ()

    @property
    @abc.abstractmethod
    def shape(self) -> Shape:
        """Sizes of the dims."""

    @property
    @abc.abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""

    def _same(self) -> Any:
        """Return this value for the caller to have: assigning to it does not change this array."""
        return python_copy.copy(self)

    @property
    def T(self) -> Self:
        """The array with its dims in reverse order; each keeps its mesh axes.

        Products such as `x.T @ y` take it as it lies in `x`. For anything else elements move when
        they are first needed, so it is then that a device may have no room.
        """
        return view(self, movement.TRANSPOSE, (tuple(range(-1, -self.ndim - 1, -1)),))

    @property
    def mT(self) -> Self:
        """The array with its last two dims exchanged; each keeps its mesh axes.

        Raises:
          ArgumentError: the array has fewer than two dims.
        """
        if self.ndim < 2:
            raise ArgumentError(
                f"x.mT needs at least two dims, the shape is {self.shape}; use x.T",
                argument="self",
                shape=self.shape,
            )
        axes = (*range(-self.ndim, -2), -1, -2)
        return view(self, movement.TRANSPOSE, (axes,))

    @property
    def real(self) -> Self:
        """The real part."""
        return bind(elementwise.REAL, (self,)) if self.dtype.kind == "c" else view(self, None)

    @property
    def imag(self) -> Self:
        """The imaginary part; zeros for real numbers."""
        return bind(elementwise.IMAG, (self,))

    def astype(
        self, dtype: Any, order: str = "K", casting: Any = "unsafe", *, copy: bool = True
    ) -> Self:
        """Return the array with another dtype.

        Args:
          dtype: the type.
          order: elements are in row-major order: "C", or what means it here.
          casting: which conversions are fine, as in `numpy.can_cast`; all by default.
          copy: whether an array that has it already is copied; arrays are values, so it is not.

        Raises:
          ArgumentTypeError: the conversion is not fine.
        """
        target = as_dtype(dtype)
        check_order(order)
        if not can_cast(self.dtype, target, casting):
            raise ArgumentTypeError(
                f"astype: {self.dtype} does not convert to {target} under casting={casting!r}; "
                'use casting="unsafe", or another dtype',
                argument="dtype",
                dtype=target,
            )
        if target == self.dtype and not getattr(self, "weak_type", False):
            return self._same()
        return bind(elementwise.ASTYPE, (self,), (target,))

    def view(self, dtype: Any = None) -> Self:
        """Return the bytes of the elements as elements of another type; it shares nothing.

        Args:
          dtype: the type; where its size differs, the last dim gets longer or shorter.

        Raises:
          ArgumentError: the bytes along the last dim are no whole number of elements.

        >>> import gpushard as gs
        >>> gs.numpy.asarray([1.0, -1.0], "f4").view("i4")
        Array([ 1065353216, -1082130432], dtype=int32)
        """
        if dtype is None:
            return self._same()
        return bind(elementwise.VIEW, (self,), (as_dtype(dtype),))

    def conj(self) -> Self:
        """Return the complex conjugate."""
        return bind(_CONJUGATE, (self,)) if self.dtype.kind == "c" else self._same()

    conjugate = conj

    def copy(self) -> Self:
        """Return an array of the same value."""
        return bind(elementwise.COPY, (self,))

    def clip(self, min: Any = None, max: Any = None) -> Self:
        """Return the array with elements below `min` and above `max` replaced by these."""
        if kind_of(self.dtype) in "iu":  # Python's integers that nothing is beyond need not fit
            limits = iinfo(self.dtype)
            min = None if type(min) is int and min <= limits.min else min
            max = None if type(max) is int and max >= limits.max else max
        if min is None and max is None:
            return self._same()
        bounds = [bound for bound in (min, max) if bound is not None]
        present = min is not None, max is not None
        return bind(elementwise.CLIP, (self, *bounds), present)

    def round(self, decimals: int = 0) -> Self:
        """Return the array rounded to some decimals, to even where it is halfway."""
        return bind(elementwise.ROUND, (self,), (integer(decimals, "round", "decimals"),))

    def __round__(self, ndigits: int | None = None) -> Any:
        return self.round(0 if ndigits is None else ndigits)

    def dot(self, other: Any) -> Self:
        """Return the product of `numpy.dot`."""
        return dot(self, other)

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Self:
        """Return the elements in row-major order in another shape; one size may be -1.

        Args:
          *shape: the sizes, or a tuple of them.
          order: must be "C".
          copy: arrays are values, so this makes no difference.

        Raises:
          ArgumentError: the sizes do not fit.
        """
        sizes = shape[0] if len(shape) == 1 else shape
        check_order(order)
        return view(self, movement.RESHAPE, (new_shape_of(self.shape, sizes),))

    def ravel(self, order: str = "C") -> Self:
        """Return the elements in row-major order as one dim."""
        return self.reshape((-1,), order=order) if self.ndim != 1 else view(self, None)

    def flatten(self, order: str = "C") -> Self:
        """Return the elements in row-major order as one dim."""
        return python_copy.copy(self.ravel(order))

    def transpose(self, *axes: Any) -> Self:
        """Return the array with its dims in another order; in reverse order by default."""
        if not axes or axes[0] is None:
            return self.T
        order = axes[0] if len(axes) == 1 and np.ndim(axes[0]) else axes
        found = from_end(tuple(order), self.ndim, "transpose", "axes")
        if len(found) != self.ndim:
            raise ArgumentError(
                f"transpose: axes={tuple(order)} must name each of the {self.ndim} dims",
                argument="axes",
                axes=tuple(order),
                ndim=self.ndim,
            )
        return view(self, movement.TRANSPOSE, (found,))

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Return the array with two dims exchanged."""
        first = one_from_end(axis1, self.ndim, "swapaxes", "axis1")
        second = one_from_end(axis2, self.ndim, "swapaxes", "axis2")
        order = list(range(-self.ndim, 0))
        order[first], order[second] = second, first
        return view(self, movement.TRANSPOSE, (tuple(order),))

    def squeeze(self, axis: Any = None) -> Self:
        """Return the array without dims of length 1: all, or those that `axis` names.

        Raises:
          ArgumentError: a dim that is named is longer.
        """
        ndim, shape = self.ndim, self.shape
        if axis is None:
            gone = {dim for dim, n in enumerate(shape) if n == 1}
        else:
            gone = {ndim + one for one in from_end(axis, ndim, "squeeze")}
        for dim in gone:
            if shape[dim] != 1:
                raise ArgumentError(
                    f"squeeze: dim {dim} of shape {shape} has length {shape[dim]}, only dims of "
                    "length 1 can go",
                    argument="axis",
                    axis=axis,
                    shape=shape,
                )
        entries: tuple[Entry, ...] = tuple(
            0 if dim in gone else (0, 1, n) for dim, n in enumerate(shape)
        )
        return view(self, movement.INDEX, (entries,))

    def repeat(self, repeats: Any, axis: int | None = None) -> Self:
        """Return the array with every element, or slice along a dim, several times in a row.

        Args:
          repeats: how often, an integer; or one for each element along the dim.
          axis: along which dim; by default in row-major order.
        """
        if axis is None:
            return self.ravel().repeat(repeats, 0)
        at = one_from_end(axis, self.ndim, "repeat")
        if is_counts(repeats):
            return repeated_each(self, repeats, at)
        return bind(movement.REPEAT, (self,), (count(repeats, "repeat", "repeats"), at))

    def trace(
        self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
    ) -> Self:
        """Return the sum of a diagonal; small integers are summed in 64 bits."""
        return self.diagonal(offset, axis1, axis2).sum(-1, dtype, out)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        """Return the diagonal of two dims as a new last one.

        Raises:
          ArgumentError: there are fewer than two dims, or both axes are one.
        """
        if self.ndim < 2:
            raise ArgumentError(
                f"diagonal needs at least two dims, the shape is {self.shape}",
                argument="self",
                shape=self.shape,
            )
        axes = from_end((axis1, axis2), self.ndim, "diagonal", "axis1, axis2")
        return bind(movement.DIAGONAL, (self,), (integer(offset, "diagonal", "offset"), *axes))


def dot(x: Any, y: Any, out_sharding: Sharding | None = None) -> Any:
    """Return the product of two operands, as `numpy.dot` does."""
    one, two = len(shape_of(x)), len(shape_of(y))
    if not one or not two:
        return bind(ufunc_row(np.multiply), (x, y), (), out_sharding)
    letters = contractions.LETTERS
    shared = letters[0]
    rows = letters[1:one]
    columns = letters[one : one + two - 1]
    second = columns[:-1] + shared + columns[-1:] if two > 1 else shared
    text = f"{rows}{shared},{second}->{rows}{columns}"
    return bind(contractions.DOT, (x, y), (text,), out_sharding)
