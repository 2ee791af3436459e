"""Sums of exponentials: `logsumexp`, `softmax` and `log_softmax`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._functions import elementwise as ew
from gpushard._functions.manipulation import broadcast_to
from gpushard._functions.shapes import broadcast
from gpushard._functions.values import Array, wanted
from gpushard._ops.axes import from_end
from gpushard._ops.bind import bind
from gpushard._ops.table.special import LOGSUMEXP
from gpushard.dtypes import kind_of


def logsumexp(
    x: Any,
    axis: Any = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    out_sharding: Any = None,
) -> Any:
    """Compute the logarithm of a sum of exponentials, and its sign if that is asked for."""
    operands = [x]
    if b is not None:
        shape = broadcast("logsumexp", [x.shape, b.shape])
        operands = [broadcast_to(each, shape) for each in (x, b)]
    axes = from_end(axis, operands[0].ndim, "logsumexp")
    to = wanted(out_sharding, *operands)
    logarithm = bind(LOGSUMEXP, operands, (axes, bool(keepdims), bool(return_sign)), to)
    if not return_sign:
        return logarithm
    whole = logarithm if keepdims else bind(LOGSUMEXP, operands, (axes, True, True))
    terms = ew.exp(operands[0] - ew.where(ew.isfinite(whole), whole.real, 0))
    terms = terms if b is None else operands[1] * terms
    return logarithm, ew.sign(terms.sum(axes, keepdims=keepdims))


def _inexact(x: Any) -> Any:
    """Convert integers to double precision."""
    return x if kind_of(x.dtype) in "fc" else x.astype(np.float64)


def softmax(x: Array, /, axis: Any = None, *, out_sharding: Any = None) -> Array:
    """Divide the exponential of each element by their sum.

    Args:
      x: an array.
      axis: the axes to sum over, an integer or a tuple of integers; all by default.

    >>> import gpushard as gs
    >>> softmax(gs.numpy.asarray([0.0, 0.0]))
    Array([0.5, 0.5], dtype=float64)
    """
    x = _inexact(x)
    axes = from_end(axis, x.ndim, "softmax")
    if not x.size:
        return x
    terms = ew.exp(x - x.max(axes, keepdims=True))
    return terms / terms.sum(axes, keepdims=True)


def log_softmax(x: Array, /, axis: Any = None, *, out_sharding: Any = None) -> Array:
    """Compute the logarithm of `softmax`, precisely also where `softmax` is close to 0.

    Args:
      x: an array.
      axis: the axes to sum over, an integer or a tuple of integers; all by default.
    """
    x = _inexact(x)
    axes = from_end(axis, x.ndim, "log_softmax")
    if not x.size:
        return x
    most = x.max(axes, keepdims=True)
    less = x - ew.where(ew.isfinite(most), most, 0)
    return less - ew.log(ew.exp(less).sum(axes, keepdims=True))
