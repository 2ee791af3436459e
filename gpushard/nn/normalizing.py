"""Functions that sum over axes, and one-hot vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions import elementwise as ew
from gpushard._functions import softmax as sm
from gpushard._functions.argument_checks import check_choice
from gpushard._functions.docstrings import described
from gpushard._functions.host_memory import on_host
from gpushard._functions.manipulation import expand_dims
from gpushard._functions.shapes import element_count
from gpushard._ops.axes import from_end, one_from_end
from gpushard._placement.arguments import as_value, operands, settle
from gpushard._placement.creation import zeros_like
from gpushard._placement.public_functions import public
from gpushard.dtypes import kind_of

__all__ = ["log_softmax", "logmeanexp", "logsumexp", "one_hot", "softmax", "standardize"]


def _among(x: Any, where: Any) -> Any:
    """Replace the exponents that `where` leaves out by -inf."""
    x = x if kind_of(x.dtype) in "fc" else x.astype(np.float64)
    return x if where is None else _where(where, x, -np.inf)


def _where(condition: Any, x: Any, y: Any) -> Any:
    """Choose elements by a condition; any operand may be on the host."""
    return ew.where(*operands("where", condition, x, y))


@public(arrays=1, weak=True)
def softmax(x: Any, axis: Any = -1, where: Any = None, *, out_sharding: Any = None) -> Array:
    """Divide the exponential of each element by their sum; elements that `where` excludes give 0.

    Args:
      axis: the axes to sum over, an integer or a tuple of integers; None for all.

    >>> softmax([0.0, 0.0, 1000.0], where=[True, True, False])
    Array([0.5, 0.5, 0. ], dtype=float64)
    """
    values = sm.softmax(_among(x, where), axis)
    return values if where is None else _where(where, values, 0.0)


@public(arrays=1, weak=True)
def log_softmax(x: Any, axis: Any = -1, where: Any = None, *, out_sharding: Any = None) -> Array:
    """Compute the logarithm of `softmax`; elements that `where` excludes give -inf.

    Args:
      axis: the axes to sum over, an integer or a tuple of integers; None for all.
    """
    values = sm.log_softmax(_among(x, where), axis)
    return values if where is None else _where(where, values, -np.inf)


@described()
def logsumexp(
    a: Any,
    axis: Any = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Compute the logarithm of a sum of exponentials, without overflow.

    Args:
      a: an array.
      axis: the axes to sum over, an integer or a tuple of integers; all by default.
      b: factors of the exponentials, which broadcast with `a`; 1 by default.
      return_sign: whether to return a pair: the logarithm of the absolute value of the sum, and the
        sign of the sum. With negative `b`, the sum may be negative.
    """
    a = _among(as_value(a, "logsumexp"), where)
    if where is not None and b is not None:
        b = _where(where, b, 0)
    weights = None if b is None else as_value(b, "logsumexp")
    how = axis, weights, keepdims, return_sign, out_sharding
    return settle(sm.logsumexp(a, *how), out_sharding)


@public(arrays=1, weak=True)
def logmeanexp(
    x: Any, axis: Any = None, where: Any = None, keepdims: bool = False, *, out_sharding: Any = None
) -> Array:
    """Compute the logarithm of the mean of exponentials, without overflow.

    Args:
      axis: the axes to average over, an integer or a tuple of integers; all by default.
    """
    total = sm.logsumexp(_among(x, where), axis, keepdims=keepdims)
    if where is None:
        axes = from_end(axis, x.ndim, "logmeanexp")
        elements = math.prod(x.shape[dim] for dim in axes)
        return total - (math.log(elements) if elements else -math.inf)
    taking = ew.logical_or(*operands("logmeanexp", zeros_like(x, dtype=bool), where))
    return total - ew.log(taking.sum(axis, keepdims=keepdims).astype(total.dtype))


@public(arrays=1, weak=True)
def standardize(
    x: Any,
    axis: Any = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: Any = 1e-5,
    where: Any = None,
    *,
    algorithm: str = "fast",
    out_sharding: Any = None,
) -> Array:
    """Subtract the mean from elements, and divide them by their standard deviation.

    Args:
      axis: the axes over which the mean and the variance are computed.
      variance: the variance, if you have it, as `var` returns it with `keepdims=True`.
      epsilon: a small number that is added to the variance, to avoid a division by 0.
      algorithm: how to compute the variance. "fast" takes the mean of squares minus the square of
        the mean, "stable" the mean of squared differences from the mean.

    Raises:
      ArgumentError: the algorithm is unknown.
    """
    check_choice("standardize", "algorithm", algorithm, ("fast", "stable"))
    how: dict[str, Any] = {"keepdims": True} | ({} if where is None else {"where": where})
    mean, variance = (
        None if known is None else as_value(known, "standardize", weak=True)
        for known in (mean, variance)
    )
    mean = x.mean(axis, **how) if mean is None else mean
    if variance is None and algorithm == "stable":
        variance = ew.square(x - mean).mean(axis, **how)
    elif variance is None:
        variance = ew.maximum(ew.square(x).mean(axis, **how) - ew.square(mean), 0)
    return (x - mean) / ew.sqrt(ew.add(variance, epsilon))


@public(arrays=1, weak=True)
def one_hot(
    x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1, out_sharding: Any = None
) -> Array:
    """Encode class numbers as vectors: 1 at the position of the class, 0 elsewhere.

    Args:
      x: class numbers, integers from 0. A number out of range gives a vector of zeros.
      num_classes: the number of classes, the length of the vectors.
      dtype: the dtype of the result; float64 by default.
      axis: the position in the result of the axis of these vectors.

    Raises:
      ArgumentError: the number of classes is negative.
      ArgumentTypeError: the number of classes is not an integer.

    >>> one_hot([0, 2, 7], 3)
    Array([[1., 0., 0.],
           [0., 0., 1.],
           [0., 0., 0.]], dtype=float64)
    """
    classes = element_count(num_classes, "one_hot", "num_classes")
    axis = one_from_end(axis, x.ndim + 1, "one_hot")
    numbers = on_host("one_hot", np.arange, classes).reshape(-1, *[1] * (-1 - axis))
    return (expand_dims(x, axis) == numbers).astype(np.float64 if dtype is None else dtype)
