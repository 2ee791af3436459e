"""Reductions: sums, means, extremes and their positions, tests.

`axis` is an integer, a tuple of integers, or None for all axes. A reduction over a split axis moves
one partial result per block, never the data. Arguments are in NumPy's order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._functions.argument_checks import refuse_out
from gpushard._functions.element_types import as_dtype, number_of
from gpushard._functions.values import Array, is_value
from gpushard._geometry.sharding import Sharding
from gpushard._ops.axes import from_end, one_from_end
from gpushard._ops.bind import bind
from gpushard._ops.row import Row
from gpushard._ops.table import argmin_argmax, elementwise, manipulation, moments, reductions
from gpushard._ops.table.elementwise import ufunc_row
from gpushard.dtypes import kind_of, wide
from gpushard.errors import ArgumentError, ArgumentRangeError, ArgumentTypeError, TracedValueError

_ROOT = ufunc_row(np.sqrt)


def sum(
    a: Array,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    promote_integers: bool = True,
    out_sharding: Any = None,
) -> Array:
    """Sum elements over axes; integers of fewer than 64 bits are summed in 64 bits.

    Args:
      dtype: the dtype of the sum, in which elements are added.
      promote_integers: if `dtype` is None, whether integers are summed in 64 bits rather than in
        their own dtype.
    """
    x = _taking_part(a, where, 0, "sum")
    kind = _kind(x, dtype, promote_integers)
    total = _reduced(reductions.SUM, x, axis, out, keepdims, kind, out_sharding)
    return _with_initial(np.add, total, initial, "sum")


def prod(
    a: Array,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    promote_integers: bool = True,
    out_sharding: Any = None,
) -> Array:
    """Multiply elements over axes; integers of fewer than 64 bits are multiplied in 64 bits.

    Args:
      dtype: the dtype of the product, in which elements are multiplied.
      promote_integers: if `dtype` is None, whether integers are multiplied in 64 bits rather than
        in their own dtype.
    """
    x = _taking_part(a, where, 1, "prod")
    kind = _kind(x, dtype, promote_integers)
    total = _reduced(reductions.PROD, x, axis, out, keepdims, kind, out_sharding)
    return _with_initial(np.multiply, total, initial, "prod")


def mean(
    a: Array,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Compute the mean over axes.

    Args:
      dtype: the dtype of the mean, in which it is computed.
    """
    if not all_take_part(where):
        refuse_out("mean", out)
        return _mean_of(a, where, axis, dtype, keepdims, out_sharding)
    return _reduced(moments.MEAN, a, axis, out, keepdims, _kind(a, dtype), out_sharding)


def var(
    a: Array,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Compute the variance over axes.

    Args:
      dtype: the dtype of the result, to which the array is converted first.
    """
    refuse_out("var", out)
    taken = correction_of(ddof, correction, "var")
    x = in_type(a, dtype)
    if all_take_part(where) and mean is None:
        return _reduced(moments.VAR, x, axis, out, keepdims, taken, out_sharding)
    return variance_of(x, where, mean, axis, taken, keepdims, "var", out_sharding)


def std(
    a: Array,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Compute the standard deviation over axes.

    Args:
      dtype: the dtype of the result, to which the array is converted first.
    """
    refuse_out("std", out)
    taken = correction_of(ddof, correction, "std")
    x = in_type(a, dtype)
    if all_take_part(where) and mean is None:
        return _reduced(moments.STD, x, axis, out, keepdims, taken, out_sharding)
    return bind(_ROOT, (variance_of(x, where, mean, axis, taken, keepdims, "std", out_sharding),))


def min(
    a: Array,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Find the minimum over axes; NaN if any element is NaN.

    Args:
      initial: a number that is compared as if it were one more element. Pass it if you pass
        `where`, or if a reduced axis may have length 0.
    """
    how = axis, out, keepdims, initial, where
    return extreme(reductions.MIN, np.minimum, a, *how, out_sharding=out_sharding)


def max(
    a: Array,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Find the maximum over axes; NaN if any element is NaN.

    Args:
      initial: a number that is compared as if it were one more element. Pass it if you pass
        `where`, or if a reduced axis may have length 0.
    """
    how = axis, out, keepdims, initial, where
    return extreme(reductions.MAX, np.maximum, a, *how, out_sharding=out_sharding)


def any(
    a: Array,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Test whether any element is true, over axes."""
    x = _taking_part(a, where, False, "any")
    return _reduced(reductions.ANY, x, axis, out, keepdims, None, out_sharding)


def all(
    a: Array,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Test whether all elements are true, over axes."""
    x = _taking_part(a, where, True, "all")
    return _reduced(reductions.ALL, x, axis, out, keepdims, None, out_sharding)


def argmin(
    a: Array, axis: Any = None, out: Any = None, *, keepdims: bool = False, out_sharding: Any = None
) -> Array:
    """Find the position of the first minimum; NaN counts as less than any number.

    Args:
      axis: the axis; None flattens the array in row-major order.
    """
    axes = None if axis is None else one_from_end(axis, a.ndim, "argmin")
    return _reduced(argmin_argmax.ARGMIN, a, axes, out, keepdims, None, out_sharding)


def argmax(
    a: Array, axis: Any = None, out: Any = None, *, keepdims: bool = False, out_sharding: Any = None
) -> Array:
    """Find the position of the first maximum; NaN counts as greater than any number.

    Args:
      axis: the axis; None flattens the array in row-major order.
    """
    axes = None if axis is None else one_from_end(axis, a.ndim, "argmax")
    return _reduced(argmin_argmax.ARGMAX, a, axes, out, keepdims, None, out_sharding)


def count_nonzero(
    a: Array, axis: Any = None, *, keepdims: bool = False, out_sharding: Any = None
) -> Array:
    """Count the elements that are not zero, over axes."""
    return _reduced(reductions.COUNT_NONZERO, a, axis, None, keepdims, None, out_sharding)


def _reduced(
    row: Row, x: Any, axis: Any, out: Any, keepdims: Any, extra: Any, to: Sharding | None
) -> Any:
    if out is not None:
        refuse_out(row.name, out)
    if type(axis) is not int and axis is not None and _has_names(axis, x):
        if to is not None:
            raise ArgumentError.refusing(
                "out_sharding", to, "does not go with the name of an axis; leave it out", row.name
            )
        return x._reduced_over(row, axis, bool(keepdims), extra)
    return bind(row, (x,), (from_end(axis, x.ndim, row.name), bool(keepdims), extra), to)


def _has_names(axis: Any, x: Any) -> bool:
    """Whether axes are given by the names that they have in a mapped function."""
    kind = type(axis)
    named = kind is str or (kind in (tuple, list) and str in map(type, axis))
    return named and hasattr(x, "_reduced_over")


def _kind(x: Any, dtype: Any, promote_integers: bool = True) -> Any:
    """Return the dtype to compute in; None for the default of the row."""
    if dtype is not None:
        return as_dtype(dtype)
    return x.dtype if not promote_integers and kind_of(x.dtype) in "iu" else None


def in_type(x: Any, dtype: Any) -> Any:
    """Convert a value to the dtype to compute in, if there is one."""
    return x if dtype is None else x.astype(as_dtype(dtype))


def all_take_part(where: Any) -> bool:
    """Whether `where=` includes all elements, as it does by default."""
    return where is None or where is True


def _taking_part(x: Any, where: Any, neutral: Any, name: str) -> Any:
    """Replace the elements that `where=` excludes by a neutral number."""
    if where is None or where is True:
        return x
    if neutral is None:
        raise ArgumentError(
            f"{name}: where= needs initial=, for the case that it selects no element",
            argument="initial",
        )
    return bind(elementwise.WHERE, (where, x, neutral))


def _initial_of(initial: Any, dtype: np.dtype[Any], name: str) -> Any:
    """Convert `initial=` to the dtype of the elements."""
    if initial is None:
        return None
    if is_value(initial):
        return bind(elementwise.ASTYPE, (initial,), (dtype,))
    with np.errstate(over="ignore"):
        return number_of(initial, dtype, name, "initial")


def _with_initial(ufunc: np.ufunc, result: Any, initial: Any, name: str) -> Any:
    """Combine a result with `initial=`, if that is given."""
    if initial is None:
        return result
    number = _initial_of(initial, result.dtype, name)
    return bind(ufunc_row(ufunc), (result, number))


def extreme(
    row: Row,
    ufunc: np.ufunc,
    x: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    out_sharding: Sharding | None = None,
) -> Any:
    """Reduce by a row like `MIN`; `ufunc` does the same with two elements."""
    alone = initial is None and where is None
    if type(axis) is not int and axis is not None and alone and _has_names(axis, x):
        return _reduced(row, x, axis, out, keepdims, None, out_sharding)
    refuse_out(row.name, out)
    axes = from_end(axis, x.ndim, row.name)
    x = _taking_part(x, where, _initial_of(initial, x.dtype, row.name), row.name)
    if initial is not None and 0 in [x.shape[at] for at in from_end(axis, x.ndim, row.name)]:
        zeros = bind(reductions.SUM, (x,), (axes, bool(keepdims), x.dtype), out_sharding)
        return _with_initial(np.add, zeros, initial, row.name)
    result = bind(row, (x,), (axes, bool(keepdims), None), out_sharding)
    return _with_initial(ufunc, result, initial, row.name)


def _number_taking_part(x: Any, where: Any, axis: Any, keepdims: bool, name: str) -> Any:
    """Count the elements that `where=` includes: a number, or an array like the result."""
    if all_take_part(where):
        return np.prod([x.shape[at] for at in from_end(axis, x.ndim, name)], dtype=np.int64)
    if not is_value(where):
        mask = np.asarray(where) != 0
        shape = np.broadcast_shapes(mask.shape, x.shape)
        return np.broadcast_to(mask, shape).sum(axis, keepdims=keepdims)
    ones = bind(elementwise.WHERE, (where, 1, 0))
    if ones.shape != x.shape:
        ones = bind(manipulation.BROADCAST_TO, (ones,), (x.shape,))
    return sum(ones, axis, keepdims=keepdims)


def _mean_of(
    x: Any, where: Any, axis: Any, dtype: Any, keepdims: bool, to: Sharding | None = None
) -> Any:
    """Compute the mean of the elements that `where=` includes; NaN of none."""
    default = x.dtype if kind_of(x.dtype) in "fc" else np.dtype(np.float64)
    kind = default if dtype is None else as_dtype(dtype)
    total = sum(_taking_part(x, where, 0, "mean"), axis, wide(kind), keepdims=keepdims)
    mean = total / _number_taking_part(x, where, axis, keepdims, "mean")
    return bind(elementwise.ASTYPE, (mean,), (kind,), to)


def variance_of(
    x: Any,
    where: Any,
    mean: Any,
    axis: Any,
    ddof: float,
    keepdims: bool,
    name: str,
    to: Sharding | None = None,
) -> Any:
    """Compute the variance of the elements that `where=` includes; `mean` may be known."""
    dtype, inside = x.dtype, wide(x.dtype)
    x = x.astype(inside)
    if mean is None:
        mean = _mean_of(x, where, axis, None, keepdims=True)
    apart = x - mean
    squares = (apart * apart.conj()).real
    total = sum(_taking_part(squares, where, 0, name), axis, keepdims=keepdims)
    divisor = (_number_taking_part(x, where, axis, keepdims, name) - ddof).clip(0)
    kind = squares.dtype if dtype == inside else dtype
    return bind(elementwise.ASTYPE, (total / divisor,), (kind,), to)


def correction_of(ddof: Any, correction: Any, name: str) -> Any:
    """Read `ddof` or `correction`, two names of one argument."""
    taken = ddof if correction is None else correction
    try:
        small = isinstance(taken, int) and abs(taken) < 1 << 63
        return taken if small else float(taken)
    except OverflowError:
        raise ArgumentRangeError.refusing(
            "correction", taken, "does not fit float64", name
        ) from None
    except TracedValueError:
        raise
    except (TypeError, ValueError):
        raise ArgumentTypeError.refusing("correction", taken, "must be a number", name) from None
