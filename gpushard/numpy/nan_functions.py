"""Reductions that ignore NaNs, and replacements for NaNs.

A reduction over a split axis moves one partial result per block. Only cumulative sums and products
need the whole axis on each device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import refuse_out
from gpushard._functions.element_types import as_dtype, number_of
from gpushard._functions.reductions import (
    all_take_part,
    correction_of,
    extreme,
    in_type,
    variance_of,
)
from gpushard._ops.axes import from_end
from gpushard._ops.bind import bind
from gpushard._ops.row import Row
from gpushard._ops.table import elementwise as rows
from gpushard._ops.table import reductions
from gpushard._ops.table.nan_moments import NANMEAN, NANSTD, NANVAR
from gpushard._placement.public_functions import public, public_like
from gpushard.dtypes import finfo, kind_of, real_of
from gpushard.numpy import elementwise as ew
from gpushard.numpy import statistical

__all__ = [
    "nan_to_num", "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean",
    "nanmin", "nanprod", "nanstd", "nansum", "nanvar",
]  # fmt: skip


def filled(x: Any, value: Any) -> Any:
    """Replace NaNs by a number."""
    if kind_of(x.dtype) not in "fc":
        return x
    return bind(rows.WHERE, (ew.isnan(x), x.dtype.type(value), x))


@public_like(statistical.sum)
def nansum(a: Any, *how: Any, **more: Any) -> Any:
    """Sum elements over axes without NaNs; 0 if all are NaN.

    >>> nansum([1.0, np.nan, 2.0])
    Array(3., dtype=float64)
    """
    return statistical.sum(filled(a, 0), *how, **more)


@public_like(statistical.prod)
def nanprod(a: Any, *how: Any, **more: Any) -> Any:
    """Multiply elements over axes without NaNs; 1 if all are NaN."""
    return statistical.prod(filled(a, 1), *how, **more)


@public_like(statistical.min)
def nanmin(a: Any, *how: Any, **more: Any) -> Any:
    """Find the minimum over axes without NaNs; NaN if all are NaN."""
    return extreme(reductions.NANMIN, np.fmin, a, *how, **more)


@public_like(statistical.max)
def nanmax(a: Any, *how: Any, **more: Any) -> Any:
    """Find the maximum over axes without NaNs; NaN if all are NaN."""
    return extreme(reductions.NANMAX, np.fmax, a, *how, **more)


@public_like(statistical.argmin)
def nanargmin(a: Any, *how: Any, **more: Any) -> Any:
    """Find the position of the first minimum without NaNs; -1 if all are NaN.

    NumPy raises an error if all elements are NaN. gpushard does not, since the host would have to
    wait and read the elements.
    """
    return _place(statistical.argmin, np.inf, a, *how, **more)


@public_like(statistical.argmax)
def nanargmax(a: Any, *how: Any, **more: Any) -> Any:
    """Find the position of the first maximum without NaNs; -1 if all are NaN.

    NumPy raises an error if all elements are NaN. gpushard does not, since the host would have to
    wait and read the elements.
    """
    return _place(statistical.argmax, -np.inf, a, *how, **more)


def _place(
    find: Callable[..., Any],
    last: float,
    x: Any,
    axis: Any = None,
    out: Any = None,
    *,
    keepdims: bool = False,
    out_sharding: Any = None,
) -> Any:
    """Find the position of an extreme; NaNs count as the element that comes last."""
    refuse_out(f"nan{find.__name__}", out)
    if kind_of(x.dtype) != "f":
        return find(x, axis, keepdims=keepdims, out_sharding=out_sharding)
    at = find(filled(x, last), axis, keepdims=keepdims)
    nothing = statistical.all(ew.isnan(x), axis, keepdims=keepdims)
    return bind(rows.WHERE, (nothing, -1, at), (), out_sharding)


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
    """Compute the mean over axes without NaNs; NaN if all are NaN.

    Args:
      dtype: the dtype of the mean, in which it is computed.

    >>> nanmean([1.0, np.nan, 2.0])
    Array(1.5, dtype=float64)
    """
    refuse_out("nanmean", out)
    if kind_of(a.dtype) not in "fc":
        how = axis, dtype, out, keepdims
        return statistical.mean(a, *how, where=where, out_sharding=out_sharding)
    kind = None if dtype is None else as_dtype(dtype)
    params = from_end(axis, a.ndim, "nanmean"), bool(keepdims), kind
    return bind(NANMEAN, (_or_nan(a, where),), params, out_sharding)


def _or_nan(x: Any, where: Any) -> Any:
    """Replace the elements that `where=` excludes by NaN."""
    return x if all_take_part(where) else bind(rows.WHERE, (where, x, x.dtype.type(np.nan)))


@public_like(statistical.var)
def nanvar(a: Any, *how: Any, **more: Any) -> Any:
    """Compute the variance over axes without NaNs; NaN if too few elements are left."""
    return _spread(NANVAR, a, *how, **more)


@public_like(statistical.std)
def nanstd(a: Any, *how: Any, **more: Any) -> Any:
    """Compute the standard deviation over axes without NaNs; NaN if too few elements are left."""
    return _spread(NANSTD, a, *how, **more)


def _spread(
    row: Row,
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
) -> Any:
    refuse_out(row.name, out)
    typed = in_type(a, dtype)
    x = _or_nan(typed if kind_of(typed.dtype) in "fc" else typed.astype(np.float64), where)
    taken = correction_of(ddof, correction, row.name)
    if mean is None:
        params = from_end(axis, x.ndim, row.name), bool(keepdims), taken
        return bind(row, (x,), params, out_sharding)
    squares = variance_of(x, ~ew.isnan(x), mean, axis, taken, keepdims, row.name)
    return ew.sqrt(squares) if row is NANSTD else squares


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
    """Replace NaNs and infinities by numbers.

    Args:
      nan: the number for NaNs.
      posinf: the number for infinity; by default the greatest number of the dtype.
      neginf: the number for minus infinity; by default the least number of the dtype.

    Raises:
      ArgumentTypeError: a replacement is not a number.

    >>> nan_to_num([1.0, np.nan, np.inf], posinf=9)
    Array([1., 0., 9.], dtype=float64)
    """
    if kind_of(x.dtype) not in "fc":
        return x
    real = real_of(x.dtype)
    most = finfo(real)
    replaced = [("nan", nan, 0), ("posinf", posinf, most.max), ("neginf", neginf, most.min)]
    values = tuple(
        float(number_of(default if value is None else value, real, "nan_to_num", name))
        for name, value, default in replaced
    )
    return bind(rows.NAN_TO_NUM, (x,), values)


@public_like(statistical.cumsum)
def nancumsum(a: Any, *how: Any, **more: Any) -> Any:
    """Compute cumulative sums in which NaNs count as 0."""
    return statistical.cumsum(filled(a, 0), *how, **more)


@public_like(statistical.cumprod)
def nancumprod(a: Any, *how: Any, **more: Any) -> Any:
    """Compute cumulative products in which NaNs count as 1."""
    return statistical.cumprod(filled(a, 1), *how, **more)
