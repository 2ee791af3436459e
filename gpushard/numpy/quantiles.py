"""Medians, quantiles and percentiles, with and without NaNs.

Axes to reduce over come whole to each device first: elements move so that other axes are split.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import check_choice, refuse_out
from gpushard._functions.element_types import check_ordered
from gpushard._functions.values import is_value
from gpushard._ops.axes import from_end
from gpushard._ops.bind import bind
from gpushard._ops.row import Row
from gpushard._ops.table import order_statistics as rows
from gpushard._placement.arguments import host_data
from gpushard._placement.public_functions import public, public_like
from gpushard.dtypes import kind_of
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.numpy.statistical import weights_of

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]


@public
def median(
    a: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
    *,
    out_sharding: Any = None,
) -> Array:
    """Compute the median over axes: the middle element, or the mean of the two middle elements.

    >>> median([3, 1, 2, 5])
    Array(2.5, dtype=float64)
    """
    return _middle(rows.MEDIAN, a, axis, out, overwrite_input, keepdims, out_sharding=out_sharding)


@public_like(median)
def nanmedian(a: Any, *how: Any, **more: Any) -> Any:
    """Compute the median over axes without NaNs; NaN if all are NaN."""
    return _middle(rows.NANMEDIAN, a, *how, **more)


def _middle(
    row: Row,
    x: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
    *,
    out_sharding: Any = None,
) -> Any:
    refuse_out(row.name, out)
    return bind(row, (x,), (from_end(axis, x.ndim, row.name), bool(keepdims)), out_sharding)


@public
def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Compute quantiles over axes: values below which given fractions of the elements lie.

    Args:
      q: the fractions, from 0 to 1: a number, or an array; its axes come first in the result.
        Fractions on devices are not checked; if one is out of range, the result is the least or the
        greatest element.
      method: the method of interpolation between two elements, such as "linear", as in NumPy.
      weights: a non-negative weight for each element; only for method="inverted_cdf". The signs are
        not checked.

    Raises:
      ArgumentError: a fraction is out of range, the method is unknown, or there are no elements.
      ArgumentTypeError: the array is complex.

    >>> quantile([1.0, 2.0, 3.0, 4.0], [0.25, 0.5])
    Array([1.75, 2.5 ], dtype=float64)
    """
    how = axis, out, overwrite_input, method, keepdims
    return _quantile("quantile", a, q, *how, weights=weights, out_sharding=out_sharding)


@public_like(quantile)
def percentile(a: Any, q: Any, *how: Any, **more: Any) -> Any:
    """Compute percentiles over axes: values below which given percentages of the elements lie.

    Args:
      q: the percentages, from 0 to 100: a number, or an array; its axes come first in the result.

    Raises:
      ArgumentError: a percentage is out of range, the method is unknown, or there are no elements.
      ArgumentTypeError: the array is complex.
    """
    return _quantile("percentile", a, q, *how, **more)


@public_like(quantile)
def nanquantile(a: Any, q: Any, *how: Any, **more: Any) -> Any:
    """Compute quantiles over axes without NaNs; NaN if all are NaN.

    Raises:
      ArgumentError: a fraction is out of range, or the method is unknown.
      ArgumentTypeError: the array is complex.
    """
    return _quantile("nanquantile", a, q, *how, **more)


@public_like(quantile)
def nanpercentile(a: Any, q: Any, *how: Any, **more: Any) -> Any:
    """Compute percentiles over axes without NaNs; NaN if all are NaN.

    Args:
      q: the percentages, from 0 to 100: a number, or an array; its axes come first in the result.

    Raises:
      ArgumentError: a percentage is out of range, or the method is unknown.
      ArgumentTypeError: the array is complex.
    """
    return _quantile("nanpercentile", a, q, *how, **more)


def _quantile(
    name: str,
    x: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Compute quantiles of shares, or of percentages divided by 100, with or without NaNs."""
    refuse_out(name, out)
    check_choice(name, "method", method, rows.METHODS)
    check_ordered(name, x)
    weak = type(q) in (int, float)
    which = _shares(name, q)
    params = from_end(axis, x.ndim, name), bool(keepdims), method, weak
    skips = name.startswith("nan")
    if weights is None:
        row = rows.NANQUANTILE if skips else rows.QUANTILE
        return bind(row, (x, which), params, out_sharding)
    if method != "inverted_cdf":
        raise ArgumentError(
            f'{name}: weights need method="inverted_cdf", not {method!r}',
            argument="method",
            value=method,
        )
    heavy = weights_of(x, axis, weights, name)
    row = rows.WEIGHTED_NANQUANTILE if skips else rows.WEIGHTED_QUANTILE
    return bind(row, (x, which, heavy), params, out_sharding)


def _shares(name: str, q: Any) -> Any:
    """Return quantiles from 0 to 1; those on the host are checked."""
    whole = 100 if name.endswith("percentile") else 1
    shares = q if is_value(q) else host_data(q, name)
    if kind_of(shares.dtype) not in "iuf":
        raise ArgumentTypeError(
            f"{name}: q of {shares.dtype} must be real numbers", argument="q", dtype=shares.dtype
        )
    if not is_value(q) and not np.all((shares >= 0) & (shares <= whole)):
        raise ArgumentError.refusing("q", q, f"must be from 0 to {whole}", name, most=whole)
    return shares / whole if whole == 100 else shares
