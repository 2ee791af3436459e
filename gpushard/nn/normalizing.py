"""Functions that sum over dims, and classes as vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.dtypes import kind_of
from gpushard.functions.checks import check_choice, element_count, on_host
from gpushard.functions.docstrings import described
from gpushard.numpy import elementwise as ew
from gpushard.numpy.arguments import as_value
from gpushard.numpy.creation import zeros_like
from gpushard.numpy.manipulation import expand_dims
from gpushard.numpy.public import public
from gpushard.ops.axes import from_end, one_from_end
from gpushard.special import composed

__all__ = ["log_softmax", "logmeanexp", "logsumexp", "one_hot", "softmax", "standardize"]


def _among(x: Any, where: Any) -> Any:
    """Return exponents of which those that take no part are -inf."""
    x = x if kind_of(x.dtype) in "fc" else x.astype(np.float64)
    return x if where is None else ew.where(where, x, -np.inf)


@public(arrays=1, weak=True)
def softmax(x: Any, axis: Any = -1, where: Any = None, *, out_sharding: Any = None) -> Array:
    """Return exponentials divided by their sum; 0 for elements that take no part.

    Args:
      axis: the dims that are summed over; None for all.

    >>> softmax([0.0, 0.0, 1000.0], where=[True, True, False])
    Array([0.5, 0.5, 0. ], dtype=float64)
    """
    values = composed.softmax(_among(x, where), axis)
    return values if where is None else ew.where(where, values, 0.0)


@public(arrays=1, weak=True)
def log_softmax(x: Any, axis: Any = -1, where: Any = None, *, out_sharding: Any = None) -> Array:
    """Return the logarithm of `softmax`; -inf for elements that take no part.

    Args:
      axis: the dims that are summed over; None for all.
    """
    values = composed.log_softmax(_among(x, where), axis)
    return values if where is None else ew.where(where, values, -np.inf)


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
    """Return the logarithm of a sum of exponentials, without overflow.

    Args:
      a: exponents.
      axis: the dims that are summed; all by default.
      b: weights of the exponentials, which broadcast with them.
      return_sign: whether to return the logarithm of the sum's size, and its sign.
    """
    a = _among(as_value(a, "logsumexp"), where)
    if where is not None and b is not None:
        b = ew.where(where, b, 0)
    return composed.logsumexp(a, axis, b, keepdims, return_sign, out_sharding=out_sharding)


@public(arrays=1, weak=True)
def logmeanexp(
    x: Any, axis: Any = None, where: Any = None, keepdims: bool = False, *, out_sharding: Any = None
) -> Array:
    """Return the logarithm of the mean of exponentials, without overflow.

    Args:
      axis: the dims that are summed; all by default.
    """
    total = composed.logsumexp(_among(x, where), axis, keepdims=keepdims)
    if where is None:
        axes = from_end(axis, x.ndim, "logmeanexp")
        elements = math.prod(x.shape[dim] for dim in axes)
        return total - (math.log(elements) if elements else -math.inf)
    taking = ew.logical_or(zeros_like(x, dtype=bool), where)
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
    """Return elements less their mean, divided by their standard deviation.

    Args:
      axis: the dims whose mean and variance are taken.
      variance: their variance, if it is known, with `axis` kept as of length 1.
      epsilon: what is added to the variance.
      algorithm: "fast" takes the variance from the mean of squares, "stable" from differences.

    Raises:
      ArgumentError: there is no such algorithm.
    """
    check_choice("standardize", "algorithm", algorithm, ("fast", "stable"))
    how: dict[str, Any] = {"keepdims": True} | ({} if where is None else {"where": where})
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
    """Return vectors with a one at the numbers of classes, and zeros only where there is no such.

    Args:
      x: numbers of classes, from 0.
      num_classes: how many there are.
      dtype: type of the result; float64 by default.
      axis: where the new dim goes.

    Raises:
      ArgumentError: the number of classes is negative.
      ArgumentTypeError: it is no integer.

    >>> one_hot([0, 2, 7], 3)
    Array([[1., 0., 0.],
           [0., 0., 1.],
           [0., 0., 0.]], dtype=float64)
    """
    classes = element_count(num_classes, "one_hot", "num_classes")
    axis = one_from_end(axis, x.ndim + 1, "one_hot")
    numbers = on_host("one_hot", np.arange, classes).reshape(-1, *[1] * (-1 - axis))
    return (expand_dims(x, axis) == numbers).astype(np.float64 if dtype is None else dtype)
