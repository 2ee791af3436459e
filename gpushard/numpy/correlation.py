"""Covariances and correlations: products of centered observations."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.element_types import as_dtype
from gpushard._functions.values import is_value
from gpushard._placement.arguments import as_value
from gpushard._placement.public_functions import public
from gpushard.dtypes import kind_of, result_type
from gpushard.errors import ArgumentError, ArgumentTypeError, TracedValueError
from gpushard.numpy import elementwise as ew
from gpushard.numpy.joining import concatenate
from gpushard.numpy.linear_algebra import matmul
from gpushard.numpy.manipulation import atleast_2d, squeeze

__all__ = ["corrcoef", "cov"]


@public()
def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Compute the covariance matrix of variables.

    Args:
      m: a matrix with variables in rows and observations in columns, or one variable.
      y: more variables, in the same form.
      rowvar: False if variables are in columns.
      bias: whether to divide by the number of observations n, rather than by n - 1.
      ddof: divide by n - ddof instead; overrides `bias`.
      fweights: how often each observation counts, a vector of non-negative integers.
      aweights: the weight of each observation, a vector of non-negative numbers. If it is on
        devices, the signs are not checked.
      dtype: the dtype of the result; at least double precision by default.

    Raises:
      ArgumentError: an operand has more than two axes, or the number of weights differs from the
        number of observations.
      ArgumentTypeError: `ddof` is not an integer, or `fweights` has other numbers than integers.

    >>> import gpushard as gs
    >>> cov(gs.numpy.asarray([[0.0, 2.0], [2.0, 0.0]]))
    Array([[ 2., -2.],
           [-2.,  2.]], dtype=float64)
    """
    samples = _samples("cov", m, y, rowvar, dtype)
    if not samples.shape[0]:
        return matmul(samples, samples.mT)
    taken = _correction(bias, ddof)
    count = samples.shape[1]
    fweights = _weights(fweights, "fweights", count, "biu")
    aweights = _weights(aweights, "aweights", count, "biuf")
    factors = [w for w in (fweights, aweights) if w is not None]
    weighted = samples
    if factors:
        weights = factors[0] if len(factors) == 1 else ew.multiply(*factors)
        total = weights.sum()
        mean = (samples * weights).sum(1, keepdims=True) / total
        degrees = total - taken
        if taken and aweights is not None:
            degrees = total - taken * (weights * aweights).sum() / total
        scale: Any = 1 / ew.maximum(degrees, 0)
        samples = samples - mean
        weighted = samples * weights
    else:
        samples = weighted = samples - samples.mean(1, keepdims=True)
        scale = 1 / (count - taken) if count > taken else np.inf
    return squeeze(matmul(samples, weighted.mT.conj()) * scale)


@public()
def corrcoef(
    x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None, out_sharding: Any = None
) -> Array:
    """Compute the correlation matrix of variables, from -1 to 1.

    Args:
      x: a matrix with variables in rows and observations in columns, or one variable.
      y: more variables, in the same form.
      rowvar: False if variables are in columns.
      dtype: the dtype of the result; at least double precision by default.

    Raises:
      ArgumentError: an operand has more than two axes.
    """
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return c / c
    spread = ew.sqrt(c.diagonal().real)
    c = c / spread[:, None] / spread
    if kind_of(c.dtype) == "c":
        # A number with two parts is made of its parts: 1j alone would widen single precision.
        return ew.clip(c.real, -1, 1) + ew.clip(c.imag, -1, 1) * 1j
    return ew.clip(c, -1, 1)


def _samples(name: str, x: Any, y: Any, rowvar: bool, dtype: Any) -> Any:
    """Return all variables in rows, in the dtype to compute in."""
    xs = [as_value(operand, name) for operand in (x, y) if operand is not None]
    for operand in xs:
        if operand.ndim > 2:
            raise ArgumentError(
                f"{name}: an array of shape {operand.shape} must have at most two axes: variables "
                "and observations",
                argument="x",
                shape=operand.shape,
            )
    types = [operand.dtype for operand in xs]
    target = result_type(*types, np.float64) if dtype is None else as_dtype(dtype)
    rows = [atleast_2d(operand.astype(target)) for operand in xs]
    if not rowvar:
        rows = [
            variables if operand.ndim == 1 or (at and variables.shape[0] == 1) else variables.mT
            for at, (operand, variables) in enumerate(zip(xs, rows, strict=True))
        ]
    return rows[0] if len(rows) == 1 else concatenate(rows, 0)


def _correction(bias: bool, ddof: Any) -> int:
    if ddof is None:
        return 0 if bias else 1
    try:
        return operator.index(int(ddof) if ddof == int(ddof) else ddof)
    except TracedValueError:
        raise
    except (TypeError, ValueError):
        raise ArgumentTypeError.refusing("ddof", ddof, "must be an integer", "cov") from None


def _weights(weights: Any, argument: str, count: int, kinds: str) -> Any:
    """Return weights of observations as floats, or None."""
    if weights is None:
        return None
    if not is_value(weights):
        weights = np.asarray(weights)
    if weights.shape != (count,) or (isinstance(weights, np.ndarray) and (weights < 0).any()):
        raise ArgumentError(
            f"cov: {argument} of shape {weights.shape} must be {count} numbers, one for each "
            "observation, none negative",
            argument=argument,
            shape=weights.shape,
        )
    if kind_of(weights.dtype) not in kinds:
        raise ArgumentTypeError(
            f"cov: {argument} of {weights.dtype} must be "
            + ("integers" if "f" not in kinds else "real numbers")
            + "; convert them with astype",
            argument=argument,
            dtype=weights.dtype,
        )
    return as_value(weights, "cov").astype(np.float64)
