"""Distributions of whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.functions.checks import as_dtype
from gpushard.ops.table import random_counts
from gpushard.random.sampling import float_dtype, int_dtype, parameter, sample
from gpushard.random.uniform import probable


def counting(x: Any) -> Any:
    """Whether numbers are finite, and at least 0."""
    return (x >= 0) & (x < np.inf)


def _several(n: Any) -> Any:
    return ~(n < 0)


def _likely(p: Any) -> Any:
    return ~((p < 0) | (p > 1))


def _chance(p: Any) -> Any:
    return (p > 0) & (p <= 1)


def poisson(
    key: Any,
    lam: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return Poisson numbers.

    Args:
      key: a key.
      lam: the mean, a number or an array.
      shape: of the result; by default that of the parameters.
      dtype: a type of integers; int64 by default.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentError: a parameter is impossible.
    """
    target = int_dtype(dtype, "poisson")
    parameters = (parameter(lam, "poisson", "lam", counting, "finite and at least 0"),)
    return sample(random_counts.POISSON, key, shape, target, parameters, out_sharding)


def geometric(
    key: Any,
    p: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return how many trials it takes until one succeeds, 1 at least.

    Args:
      key: a key.
      p: the probability of success, a number or an array.
      shape: of the result; by default that of the parameters.
      dtype: a type of integers; int64 by default.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentError: a parameter is impossible.
    """
    target = int_dtype(dtype, "geometric")
    parameters = (parameter(p, "geometric", "p", _chance, "above 0, and 1 at most"),)
    return sample(random_counts.GEOMETRIC, key, shape, target, parameters, out_sharding)


def binomial(
    key: Any,
    n: Any,
    p: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return how many of n trials succeed.

    Args:
      key: a key.
      n: how many trials, a number or an array; infinity of them succeed infinitely often.
      p: the probability of success.
      shape: of the result; by default what the parameters broadcast to.
      dtype: a type of floats, as in JAX, or of integers; float64 by default.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentError: a parameter is impossible.
    """
    whole = dtype is not None and as_dtype(dtype).kind in "iu"
    target = int_dtype(dtype, "binomial") if whole else float_dtype(dtype, "binomial")
    if whole:
        trials = parameter(n, "binomial", "n", counting, "finite and at least 0")
        odds = parameter(p, "binomial", "p", probable, "between 0 and 1")
    else:  # floats can say that there is no number, or no end of them
        trials = parameter(n, "binomial", "n", _several, "at least 0")
        odds = parameter(p, "binomial", "p", _likely, "between 0 and 1")
    row = random_counts.BINOMIAL_COUNTS if whole else random_counts.BINOMIAL
    return sample(row, key, shape, target, (trials, odds), out_sharding)
