"""Distributions without parameters, and normal numbers of several kinds."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.ops.table import random
from gpushard.random.sampling import float_dtype, parameter, sample


def normal(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
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
) -> Any:
    """Return standard normal numbers between two bounds.

    Args:
      key: a key.
      lower: the lower bound, a number or an array.
      upper: the upper bound.
      shape: of the result; by default what the bounds broadcast to.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.
    """
    target = float_dtype(dtype, "truncated_normal")
    name, number = "truncated_normal", "a number"
    bounds = (
        parameter(lower, name, "lower", known, number),
        parameter(upper, name, "upper", known, number),
    )
    return sample(random.TRUNCATED_NORMAL, key, shape, target, bounds, out_sharding)


def known(x: Any) -> Any:
    """Whether numbers are not NaN."""
    return ~np.isnan(x)


def lognormal(
    key: Any, sigma: Any = 1.0, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None
) -> Any:
    """Return exponentials of normal numbers.

    Args:
      key: a key.
      sigma: the deviation of the normal numbers, a number or an array.
      shape: of the result; None for that of `sigma`.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.
    """
    target = float_dtype(dtype, "lognormal")
    spread = parameter(sigma, "lognormal", "sigma", known, "a number")
    return sample(random.LOGNORMAL, key, shape, target, (spread,), out_sharding)


def exponential(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Return exponential numbers of mean 1.

    Args:
      key: a key.
      shape: of the result.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.
    """
    target = float_dtype(dtype, "exponential")
    return sample(random.EXPONENTIAL, key, shape, target, (), out_sharding)


def laplace(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Return numbers of the Laplace distribution of scale 1.

    Args:
      key: a key.
      shape: of the result.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.
    """
    target = float_dtype(dtype, "laplace")
    return sample(random.LAPLACE, key, shape, target, (), out_sharding)


def logistic(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Return numbers of the logistic distribution of scale 1.

    Args:
      key: a key.
      shape: of the result.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.
    """
    target = float_dtype(dtype, "logistic")
    return sample(random.LOGISTIC, key, shape, target, (), out_sharding)


def cauchy(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Return numbers of the Cauchy distribution of scale 1.

    Args:
      key: a key.
      shape: of the result.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.
    """
    target = float_dtype(dtype, "cauchy")
    return sample(random.CAUCHY, key, shape, target, (), out_sharding)


def gumbel(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Any:
    """Return numbers of the Gumbel distribution of scale 1.

    Args:
      key: a key.
      shape: of the result.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.
    """
    target = float_dtype(dtype, "gumbel")
    return sample(random.GUMBEL, key, shape, target, (target.type(0),), out_sharding)
