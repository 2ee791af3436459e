"""Reductions that take no notice of NaNs, and what replaces them.

Nothing here needs a dim whole: what is merged over devices moves one partial result per block.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.dtypes import finfo, kind_of
from gpushard.functions.checks import as_dtype, correction_of
from gpushard.functions.statistical import all_take_part, extreme, in_type, variance_of
from gpushard.numpy import elementwise as ew
from gpushard.numpy import statistical
from gpushard.numpy.arguments import number_of, refuse_out
from gpushard.numpy.public import public
from gpushard.ops.axes import from_end
from gpushard.ops.bind import bind
from gpushard.ops.table import elementwise as rows
from gpushard.ops.table import reductions
from gpushard.ops.table.nan_moments import NANMEAN, NANSTD, NANVAR
from gpushard.ops.table.replacing import NAN_TO_NUM

# fmt: off
__all__ = [
    "nan_to_num", "nanargmax", "nanargmin", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd",
    "nansum", "nanvar",
]
# fmt: on


def filled(x: Any, value: Any) -> Any:
    """Return an array with a number where it has NaNs; for the functions of this package."""
    if kind_of(x.dtype) not in "fc":
        return x
    return bind(rows.WHERE, (ew.isnan(x), x.dtype.type(value), x))


@public
def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return the sum over dims of what is no NaN; 0 if there is nothing else.

    Args:
      dtype: type that is summed in, and of the result.

    >>> nansum([1.0, np.nan, 2.0])
    Array(3., dtype=float64)
    """
    given = axis, dtype, out, keepdims, initial, where
    return statistical.sum(filled(a, 0), *given, out_sharding=out_sharding)


@public
def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return the product over dims of what is no NaN; 1 if there is nothing else.

    Args:
      dtype: type that is multiplied in, and of the result.
    """
    given = axis, dtype, out, keepdims, initial, where
    return statistical.prod(filled(a, 1), *given, out_sharding=out_sharding)


@public
def nanmin(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return the least element over dims that is no NaN; NaN if there is nothing else.

    Args:
      initial: a number that takes part, too; needed where there may be no element.
    """
    given = axis, out, keepdims, initial, where, out_sharding
    return extreme(reductions.NANMIN, np.fmin, a, *given)


@public
def nanmax(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return the greatest element over dims that is no NaN; NaN if there is nothing else.

    Args:
      initial: a number that takes part, too; needed where there may be no element.
    """
    given = axis, out, keepdims, initial, where, out_sharding
    return extreme(reductions.NANMAX, np.fmax, a, *given)


@public
def nanargmin(
    a: Any,
    axis: int | None = None,
    out: Any = None,
    *,
    keepdims: bool = False,
    out_sharding: Any = None,
) -> Array:
    """Return where the least element that is no NaN is first; -1 if there is nothing else.

    NumPy raises where there are only NaNs, which would take a look at the elements.

    Args:
      axis: which dim; by default in row-major order.
    """
    return _place("argmin", np.inf, a, axis, out, keepdims)


@public
def nanargmax(
    a: Any,
    axis: int | None = None,
    out: Any = None,
    *,
    keepdims: bool = False,
    out_sharding: Any = None,
) -> Array:
    """Return where the greatest element that is no NaN is first; -1 if there is nothing else.

    NumPy raises where there are only NaNs, which would take a look at the elements.

    Args:
      axis: which dim; by default in row-major order.
    """
    return _place("argmax", -np.inf, a, axis, out, keepdims)


def _place(name: str, last: float, x: Any, axis: Any, out: Any, keepdims: bool) -> Any:
    """Return where an extreme is; NaNs count as what comes last of all."""
    refuse_out(f"nan{name}", out)
    find = getattr(statistical, name)
    if kind_of(x.dtype) != "f":
        return find(x, axis, keepdims=keepdims)
    at = find(filled(x, last), axis, keepdims=keepdims)
    nothing = statistical.all(ew.isnan(x), axis, keepdims=keepdims)
    return bind(rows.WHERE, (nothing, -1, at))


@public
def nanmean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return the mean over dims of what is no NaN; NaN if there is nothing else.

    Args:
      dtype: type that it is worked out in, and of the result.

    >>> nanmean([1.0, np.nan, 2.0])
    Array(1.5, dtype=float64)
    """
    refuse_out("nanmean", out)
    if kind_of(a.dtype) not in "fc":
        given = axis, dtype, out, keepdims
        return statistical.mean(a, *given, where=where, out_sharding=out_sharding)
    a = _or_nan(a, where)
    params = from_end(axis, a.ndim, "nanmean"), bool(keepdims), _kind(dtype)
    return bind(NANMEAN, (a,), params, out_sharding)


def _or_nan(x: Any, where: Any) -> Any:
    """Return an array of floats with NaN for what takes no part."""
    return x if all_take_part(where) else bind(rows.WHERE, (where, x, x.dtype.type(np.nan)))


def _kind(dtype: Any) -> Any:
    return None if dtype is None else as_dtype(dtype)


@public
def nanvar(
    a: Any,
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
    """Return the variance over dims of what is no NaN; NaN where too few elements are left.

    Args:
      dtype: type that it is worked out in; the array is converted to it first.
    """
    refuse_out("nanvar", out)
    x = _or_nan(_floats(a, dtype), where)
    taken = correction_of(ddof, correction, "nanvar")
    if mean is not None:
        return variance_of(x, ~ew.isnan(x), mean, axis, taken, keepdims, "nanvar")
    params = from_end(axis, x.ndim, "nanvar"), bool(keepdims), taken
    return bind(NANVAR, (x,), params, out_sharding)


def _floats(a: Any, dtype: Any) -> Any:
    x = in_type(a, dtype)
    return x if kind_of(x.dtype) in "fc" else x.astype(np.float64)


@public
def nanstd(
    a: Any,
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
    """Return the square root of the variance over dims of what is no NaN.

    Args:
      dtype: type that it is worked out in; the array is converted to it first.
    """
    refuse_out("nanstd", out)
    x = _or_nan(_floats(a, dtype), where)
    taken = correction_of(ddof, correction, "nanstd")
    if mean is not None:
        return ew.sqrt(variance_of(x, ~ew.isnan(x), mean, axis, taken, keepdims, "nanstd"))
    params = from_end(axis, x.ndim, "nanstd"), bool(keepdims), taken
    return bind(NANSTD, (x,), params, out_sharding)


@public
def nan_to_num(
    x: Any,
    copy: bool = True,
    nan: Any = 0.0,
    posinf: Any = None,
    neginf: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return an array with numbers where it has NaNs and infinities.

    Args:
      nan: what replaces NaNs.
      posinf: what replaces infinity; the greatest number by default.
      neginf: what replaces minus infinity; the least number by default.

    Raises:
      ArgumentTypeError: what replaces them is no number.

    >>> nan_to_num([1.0, np.nan, np.inf], posinf=9)
    Array([1., 0., 9.], dtype=float64)
    """
    if kind_of(x.dtype) not in "fc":
        return x
    own = np.empty(0, x.dtype).real.dtype
    most = finfo(own)
    given = [("nan", nan, 0), ("posinf", posinf, most.max), ("neginf", neginf, most.min)]
    values = tuple(
        float(number_of(default if value is None else value, own, "nan_to_num", name))
        for name, value, default in given
    )
    return bind(NAN_TO_NUM, (x,), values)
