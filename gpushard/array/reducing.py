"""The methods of arrays that reduce dims, or run along one, in NumPy's order of arguments."""

from __future__ import annotations

import abc
from typing import Any, Self

import numpy as np

from gpushard.array.taking_part import (
    all_take_part,
    initial_of,
    is_of_nothing,
    mean_of,
    taking_part,
    variance_of,
    with_initial,
)
from gpushard.functions.checks import as_dtype, correction_of, refuse_out
from gpushard.geometry.sharding import Sharding
from gpushard.ops.axes import from_end, one_from_end
from gpushard.ops.bind import bind
from gpushard.ops.row import Row
from gpushard.ops.table import reductions, scans
from gpushard.ops.table.elementwise import ufunc_row

_ROOT = ufunc_row(np.sqrt)


def _kind(dtype: Any) -> Any:
    return None if dtype is None else as_dtype(dtype)


class Reductions(abc.ABC):
    """Reductions over dims; `axis` is an integer, a tuple or None for all, `dtype` as NumPy's.

    `where` says which elements take part, as booleans that broadcast to the array, and `initial` is
    a number that takes part, too; the extremes of a part need it. With `out_sharding` the result is
    merged where it is wanted; by default it lies as it comes. `out` must be None: results are
    values.
    """

    __slots__ = ()

    @property
    @abc.abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""

    @property
    @abc.abstractmethod
    def ndim(self) -> int:
        """Number of dims."""

    @abc.abstractmethod
    def astype(self, dtype: Any) -> Self:
        """Return the array with another dtype."""

    def _reduced(
        self, row: Row, axis: Any, out: Any, keepdims: Any, extra: Any, to: Sharding | None
    ) -> Any:
        if out is not None:
            refuse_out(row.name, out)
        axes = from_end(axis, self.ndim, row.name)
        return bind(row, (self,), (axes, bool(keepdims), extra), to)

    def sum(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
        *,
        out_sharding: Sharding | None = None,
    ) -> Self:
        """Return the sum over dims; small integers are summed in 64 bits."""
        x = taking_part(self, where, 0, "sum")
        row = reductions.SUM
        result = x._reduced(row, axis, out, keepdims, _kind(dtype), out_sharding)
        return with_initial(np.add, result, initial, "sum")

    def prod(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
        *,
        out_sharding: Sharding | None = None,
    ) -> Self:
        """Return the product over dims; small integers are multiplied in 64 bits."""
        x = taking_part(self, where, 1, "prod")
        row = reductions.PROD
        result = x._reduced(row, axis, out, keepdims, _kind(dtype), out_sharding)
        return with_initial(np.multiply, result, initial, "prod")

    def min(
        self,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
        *,
        out_sharding: Sharding | None = None,
    ) -> Self:
        """Return the least element over dims; NaN if there is one."""
        given = axis, out, keepdims, initial, where, out_sharding
        return extreme(reductions.MIN, np.minimum, self, *given)

    def max(
        self,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
        *,
        out_sharding: Sharding | None = None,
    ) -> Self:
        """Return the greatest element over dims; NaN if there is one."""
        given = axis, out, keepdims, initial, where, out_sharding
        return extreme(reductions.MAX, np.maximum, self, *given)

    def any(
        self,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        where: Any = None,
        out_sharding: Sharding | None = None,
    ) -> Self:
        """Return whether some element is true."""
        x = taking_part(self, where, False, "any")
        return x._reduced(reductions.ANY, axis, out, keepdims, None, out_sharding)

    def all(
        self,
        axis: Any = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        where: Any = None,
        out_sharding: Sharding | None = None,
    ) -> Self:
        """Return whether all elements are true."""
        x = taking_part(self, where, True, "all")
        return x._reduced(reductions.ALL, axis, out, keepdims, None, out_sharding)

    def mean(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        *,
        where: Any = None,
        out_sharding: Sharding | None = None,
    ) -> Self:
        """Return the mean over dims."""
        if not all_take_part(where):
            refuse_out("mean", out)
            return mean_of(self, where, axis, dtype, keepdims, out_sharding)
        return self._reduced(reductions.MEAN, axis, out, keepdims, _kind(dtype), out_sharding)

    def var(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: Any = None,
        mean: Any = None,
        correction: Any = None,
        out_sharding: Sharding | None = None,
    ) -> Self:
        """Return the variance over dims.

        Args:
          axis: which dims.
          dtype: the array is converted to it first.
          out: must be None; results are values.
          ddof: what is taken from the number of elements that squares are divided by.
          keepdims: whether dims stay, with length 1.
          where: which elements take part; all by default.
          mean: their mean, if it is known, with `axis` kept as of length 1.
          correction: `ddof`, as the Array API calls it.
          out_sharding: how the result is laid out; by default as it comes.
        """
        taken = correction_of(ddof, correction, "var")
        x = self if dtype is None else self.astype(dtype)
        if all_take_part(where) and mean is None:
            return x._reduced(reductions.VAR, axis, out, keepdims, taken, out_sharding)
        refuse_out("var", out)
        return variance_of(x, where, mean, axis, taken, keepdims, "var", out_sharding)

    def std(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: Any = None,
        mean: Any = None,
        correction: Any = None,
        out_sharding: Sharding | None = None,
    ) -> Self:
        """Return the square root of the variance over dims; arguments as for `var`."""
        taken = correction_of(ddof, correction, "std")
        x = self if dtype is None else self.astype(dtype)
        if all_take_part(where) and mean is None:
            return x._reduced(reductions.STD, axis, out, keepdims, taken, out_sharding)
        refuse_out("std", out)
        return bind(
            _ROOT, (variance_of(x, where, mean, axis, taken, keepdims, "std", out_sharding),)
        )

    def argmin(
        self,
        axis: Any = None,
        out: Any = None,
        *,
        keepdims: bool = False,
        out_sharding: Sharding | None = None,
    ) -> Self:
        """Return where the least element is: along one dim, or in row-major order for None."""
        return self._position(reductions.ARGMIN, axis, out, keepdims, out_sharding)

    def argmax(
        self,
        axis: Any = None,
        out: Any = None,
        *,
        keepdims: bool = False,
        out_sharding: Sharding | None = None,
    ) -> Self:
        """Return where the greatest element is: along one dim, or in row-major order for None."""
        return self._position(reductions.ARGMAX, axis, out, keepdims, out_sharding)

    def _position(self, row: Row, axis: Any, out: Any, keepdims: bool, to: Sharding | None) -> Any:
        if axis is not None:
            axis = one_from_end(axis, self.ndim, row.name)
        return self._reduced(row, axis, out, keepdims, None, to)


class Scans(Reductions):
    """Running totals along a dim, which is made whole; by default in row-major order."""

    __slots__ = ()

    @abc.abstractmethod
    def ravel(self, order: str = "C") -> Self:
        """Return the elements in row-major order as one dim."""

    def _scanned(self, row: Row, axis: Any, dtype: Any, out: Any, to: Sharding | None) -> Any:
        refuse_out(row.name, out)
        if axis is None:
            return self.ravel()._scanned(row, 0, dtype, None, to)
        params = one_from_end(axis, self.ndim, row.name), _kind(dtype)
        return bind(row, (self,), params, to)

    def cumsum(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        *,
        out_sharding: Sharding | None = None,
    ) -> Self:
        """Return running sums; small integers are summed in 64 bits."""
        return self._scanned(scans.CUMSUM, axis, dtype, out, out_sharding)

    def cumprod(
        self,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        *,
        out_sharding: Sharding | None = None,
    ) -> Self:
        """Return running products; small integers are multiplied in 64 bits."""
        return self._scanned(scans.CUMPROD, axis, dtype, out, out_sharding)


def extreme(
    row: Row,
    ufunc: np.ufunc,
    x: Any,
    axis: Any,
    out: Any,
    keepdims: bool,
    initial: Any,
    where: Any,
    to: Sharding | None,
) -> Any:
    """Return what a row of the kind of `MIN` gives; arguments are as users give them."""
    refuse_out(row.name, out)
    axes = from_end(axis, x.ndim, row.name)
    x = taking_part(x, where, initial_of(initial, x.dtype, row.name), row.name)
    if initial is not None and is_of_nothing(x, axis, row.name):
        zeros = bind(reductions.SUM, (x,), (axes, bool(keepdims), x.dtype), to)
        return with_initial(np.add, zeros, initial, row.name)
    result = bind(row, (x,), (axes, bool(keepdims), None), to)
    return with_initial(ufunc, result, initial, row.name)
