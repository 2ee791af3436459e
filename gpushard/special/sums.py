"""Sums of exponentials, and what is divided by them. Parts are merged over devices, never moved."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.dtypes import kind_of
from gpushard.functions.docstrings import described
from gpushard.numpy import elementwise as ew
from gpushard.numpy.arguments import as_value, settle, wanted
from gpushard.numpy.manipulation import broadcast_arrays
from gpushard.numpy.public import public
from gpushard.ops.axes import from_end
from gpushard.ops.bind import bind
from gpushard.ops.table.special import LOGSUMEXP

__all__ = ["log_softmax", "logsumexp", "softmax"]


@described()
def logsumexp(
    x: Any,
    /,
    axis: Any = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return the logarithm of a sum of exponentials, without overflow.

    Args:
      x: exponents.
      axis: the dims that are summed; all by default.
      b: weights of the exponentials, which broadcast with them.
      return_sign: whether to return the logarithm of the sum's size, and its sign; without it the
        logarithm of a negative sum is NaN.

    >>> import gpushard as gs
    >>> logsumexp(gs.numpy.asarray([1000.0, 1000.0])) - 1000
    Array(0.69314718, dtype=float64)
    """
    x = as_value(x, "logsumexp")
    given = [x] if b is None else list(broadcast_arrays(x, as_value(b, "logsumexp")))
    axes = from_end(axis, given[0].ndim, "logsumexp")
    to = wanted(out_sharding, *given)
    found = bind(LOGSUMEXP, given, (axes, bool(keepdims), bool(return_sign)), to)
    if not return_sign:
        return settle(found, out_sharding)
    kept = found if keepdims else bind(LOGSUMEXP, given, (axes, True, True))
    terms = ew.exp(given[0] - ew.where(ew.isfinite(kept), kept.real, 0))
    terms = terms if b is None else given[1] * terms
    total = terms.sum(axes, keepdims=keepdims)
    return settle((found, ew.sign(total)), out_sharding)


def _inexact(x: Any) -> Any:
    """Return an array; integers in double precision."""
    return x if kind_of(x.dtype) in "fc" else x.astype(np.float64)


@public
def softmax(x: Any, /, axis: Any = None, *, out_sharding: Any = None) -> Array:
    """Return exponentials divided by their sum.

    Args:
      x: exponents.
      axis: the dims that are summed over; all by default.

    >>> import gpushard as gs
    >>> softmax(gs.numpy.asarray([0.0, 0.0]))
    Array([0.5, 0.5], dtype=float64)
    """
    x = _inexact(x)
    terms = ew.exp(x - x.max(from_end(axis, x.ndim, "softmax"), keepdims=True))
    axes = from_end(axis, terms.ndim, "softmax")
    return terms / terms.sum(axes, keepdims=True)


@public
def log_softmax(x: Any, /, axis: Any = None, *, out_sharding: Any = None) -> Array:
    """Return the logarithm of `softmax`.

    Args:
      x: exponents.
      axis: the dims that are summed over; all by default.
    """
    x = _inexact(x)
    axes = from_end(axis, x.ndim, "log_softmax")
    most = x.max(axes, keepdims=True)
    less = x - ew.where(ew.isfinite(most), most, 0)
    return less - ew.log(ew.exp(less).sum(axes, keepdims=True))
