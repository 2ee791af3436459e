"""Distributions without parameters, and normal numbers of several kinds."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.ops.row import Row
from gpushard.ops.table import random
from gpushard.random.sampling import check_mode, float_dtype, parameter, sample


def normal(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Return standard normal numbers; complex ones have variance 1 in all.

    Args:
      key: a key.
      shape: of the result.
      dtype: a type of floats or complex numbers; float64 by default.
      out_sharding: how the result is laid out.

    >>> from gpushard import random
    >>> print(normal(random.key(0), (3,), "float32").round(3))
    [ 1.623  2.025 -0.434]
    """
    target = float_dtype(dtype, "normal", kinds="fc")
    row = random.COMPLEX_NORMAL if target.kind == "c" else random.NORMAL
    return sample(row, key, shape, target, (), out_sharding)


def truncated_normal(
    key: Any,
    lower: Any,
    upper: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return standard normal numbers strictly between two bounds.

    Args:
      key: a key.
      lower: the lower bound, a number or an array.
      upper: the upper bound.
      shape: of the result; by default what the bounds broadcast to.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.
    """
    target = float_dtype(dtype, "truncated_normal")
    bounds = (
        parameter(lower, "truncated_normal", "lower"),
        parameter(upper, "truncated_normal", "upper"),
    )
    return sample(random.TRUNCATED_NORMAL, key, shape, target, bounds, out_sharding)


def lognormal(
    key: Any, sigma: Any = 1.0, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Return exponentials of normal numbers.

    Args:
      key: a key.
      sigma: the deviation of the normal numbers, a number or an array.
      shape: of the result; by default that of `sigma`.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.
    """
    target = float_dtype(dtype, "lognormal")
    spread = parameter(sigma, "lognormal", "sigma")
    return sample(random.LOGNORMAL, key, shape, target, (spread,), out_sharding)


def exponential(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Return exponential numbers of mean 1.

    Args:
      key: a key.
      shape: of the result.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.
    """
    target = float_dtype(dtype, "exponential")
    return sample(random.EXPONENTIAL, key, shape, target, (), out_sharding)


def laplace(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Return numbers of the Laplace distribution of scale 1.

    Args:
      key: a key.
      shape: of the result.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.
    """
    target = float_dtype(dtype, "laplace")
    return sample(random.LAPLACE, key, shape, target, (), out_sharding)


def logistic(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Return numbers of the logistic distribution of scale 1.

    Args:
      key: a key.
      shape: of the result.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.
    """
    target = float_dtype(dtype, "logistic")
    return sample(random.LOGISTIC, key, shape, target, (), out_sharding)


def cauchy(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Return numbers of the Cauchy distribution of scale 1.

    Args:
      key: a key.
      shape: of the result.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.
    """
    target = float_dtype(dtype, "cauchy")
    return sample(random.CAUCHY, key, shape, target, (), out_sharding)


def maxwell(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Return numbers of the Maxwell distribution of scale 1: lengths of normal vectors of three.

    Args:
      key: a key.
      shape: of the result.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.
    """
    target = float_dtype(dtype, "maxwell")
    return sample(random.MAXWELL, key, shape, target, (), out_sharding)


def gumbel(
    key: Any,
    shape: Any = (),
    dtype: Any = None,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return numbers of the Gumbel distribution of scale 1.

    Args:
      key: a key.
      shape: of the result.
      dtype: a type of floats; float64 by default.
      mode: "high" draws twice as many bits, which reach further into the upper tail; "low", or
        None, does not.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentError: there is no such mode.
    """
    target = float_dtype(dtype, "gumbel")
    row = gumbel_row(mode, "gumbel")
    return sample(row, key, shape, target, (np.float64(0),), out_sharding)


def gumbel_row(mode: str | None, name: str) -> Row:
    """Return the row of Gumbel numbers in a mode.

    Raises:
      ArgumentError: there is no such mode.
    """
    return random.GUMBEL_HIGH if check_mode(mode, name) else random.GUMBEL
