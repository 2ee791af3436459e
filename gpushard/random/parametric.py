"""Continuous distributions with parameters, which may be sharded arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.functions.checks import as_shape
from gpushard.ops.table import random
from gpushard.random.sampling import common_shape, float_dtype, parameter, sample


def positive(x: Any) -> Array:
    """Whether numbers are positive; NaN gives NaN, as in arithmetic."""
    return ~(x <= 0)


def gamma(
    key: Any,
    a: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return gamma numbers of scale 1.

    Args:
      key: a key.
      a: the shape parameter, a number or an array.
      shape: of the result; by default that of the parameters.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentError: a parameter is impossible.
    """
    target = float_dtype(dtype, "gamma")
    parameters = (parameter(a, "gamma", "a", positive, "positive"),)
    return sample(random.GAMMA, key, shape, target, parameters, out_sharding)


def loggamma(
    key: Any,
    a: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return logarithms of gamma numbers, which do not underflow for small `a`.

    Args:
      key: a key.
      a: the shape parameter, a number or an array.
      shape: of the result; by default that of the parameters.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentError: a parameter is impossible.
    """
    target = float_dtype(dtype, "loggamma")
    parameters = (parameter(a, "loggamma", "a", positive, "positive"),)
    return sample(random.LOG_GAMMA, key, shape, target, parameters, out_sharding)


def beta(
    key: Any,
    a: Any,
    b: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return beta numbers.

    Args:
      key: a key.
      a: the first shape parameter, a number or an array.
      b: the second.
      shape: of the result; by default that of the parameters.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentError: a parameter is impossible.
    """
    target = float_dtype(dtype, "beta")
    parameters = (
        parameter(a, "beta", "a", positive, "positive"),
        parameter(b, "beta", "b", positive, "positive"),
    )
    return sample(random.BETA, key, shape, target, parameters, out_sharding)


def chisquare(
    key: Any,
    df: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return chi-square numbers.

    Args:
      key: a key.
      df: degrees of freedom, a number or an array.
      shape: of the result; by default that of the parameters.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentError: a parameter is impossible.
    """
    target = float_dtype(dtype, "chisquare")
    parameters = (parameter(df, "chisquare", "df", positive, "positive"),)
    return sample(random.CHISQUARE, key, shape, target, parameters, out_sharding)


def t(
    key: Any,
    df: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return numbers of Student's t distribution.

    Args:
      key: a key.
      df: degrees of freedom, a number or an array.
      shape: of the result; by default that of the parameters.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentError: a parameter is impossible.
    """
    target = float_dtype(dtype, "t")
    parameters = (parameter(df, "t", "df", positive, "positive"),)
    return sample(random.T, key, shape, target, parameters, out_sharding)


def pareto(
    key: Any,
    b: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return Pareto numbers, from 1 upwards.

    Args:
      key: a key.
      b: the exponent, a number or an array.
      shape: of the result; by default that of the parameters.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentError: a parameter is impossible.
    """
    target = float_dtype(dtype, "pareto")
    parameters = (parameter(b, "pareto", "b", positive, "positive"),)
    return sample(random.PARETO, key, shape, target, parameters, out_sharding)


def rayleigh(
    key: Any,
    scale: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return Rayleigh numbers.

    Args:
      key: a key.
      scale: the scale, a number or an array.
      shape: of the result; by default that of the parameters.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentError: a parameter is impossible.
    """
    target = float_dtype(dtype, "rayleigh")
    parameters = (parameter(scale, "rayleigh", "scale", positive, "positive"),)
    return sample(random.RAYLEIGH, key, shape, target, parameters, out_sharding)


def weibull_min(
    key: Any,
    scale: Any,
    concentration: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return Weibull numbers.

    Args:
      key: a key.
      scale: the scale, a number or an array.
      concentration: the shape parameter.
      shape: of the result; by default that of the parameters.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentError: a parameter is impossible.
    """
    target = float_dtype(dtype, "weibull_min")
    parameters = (
        parameter(scale, "weibull_min", "scale", positive, "positive"),
        parameter(concentration, "weibull_min", "concentration", positive, "positive"),
    )
    return sample(random.WEIBULL_MIN, key, shape, target, parameters, out_sharding)


def f(
    key: Any,
    dfnum: Any,
    dfden: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return numbers of the F distribution.

    Args:
      key: a key.
      dfnum: degrees of freedom of the numerator, a number or an array.
      dfden: those of the denominator.
      shape: of the result; by default that of the parameters.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentError: a parameter is impossible.
    """
    target = float_dtype(dtype, "f")
    parameters = (
        parameter(dfnum, "f", "dfnum", positive, "positive"),
        parameter(dfden, "f", "dfden", positive, "positive"),
    )
    return sample(random.F, key, shape, target, parameters, out_sharding)


def wald(
    key: Any,
    mean: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return numbers of the Wald distribution, the inverse Gaussian of scale 1.

    Args:
      key: a key.
      mean: the mean, a number or an array.
      shape: of the result; by default that of the parameters.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentError: a parameter is impossible.
    """
    target = float_dtype(dtype, "wald")
    parameters = (parameter(mean, "wald", "mean", positive, "positive"),)
    return sample(random.WALD, key, shape, target, parameters, out_sharding)


def triangular(
    key: Any,
    left: Any,
    mode: Any,
    right: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return numbers of the triangular distribution.

    Args:
      key: a key.
      left: the lower bound, a number or an array.
      mode: where the density is largest, between the bounds.
      right: the upper bound.
      shape: of the result; by default that of the parameters.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentError: a parameter is impossible.
    """
    target = float_dtype(dtype, "triangular")
    parameters = (
        parameter(left, "triangular", "left"),
        parameter(mode, "triangular", "mode"),
        parameter(right, "triangular", "right"),
    )
    return sample(random.TRIANGULAR, key, shape, target, parameters, out_sharding)


def generalized_normal(
    key: Any, p: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Return numbers whose density falls like exp(-abs(x)**p).

    Args:
      key: a key.
      p: the exponent, a number or an array.
      shape: of the result; None for that of `p`.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentError: `p` is not positive.
    """
    target = float_dtype(dtype, "generalized_normal")
    exponent = parameter(p, "generalized_normal", "p", positive, "positive")
    return sample(random.GENERALIZED_NORMAL, key, shape, target, (exponent,), out_sharding)


def double_sided_maxwell(
    key: Any,
    loc: Any,
    scale: Any,
    shape: Any = (),
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return numbers of the Maxwell distribution with a random sign, scaled and moved.

    Args:
      key: a key.
      loc: what is added, a number or an array.
      scale: what numbers are multiplied with before.
      shape: dims in front of those that `loc` and `scale` broadcast to.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.
    """
    name = "double_sided_maxwell"
    target = float_dtype(dtype, name)
    parameters = (parameter(loc, name, "loc"), parameter(scale, name, "scale"))
    sizes = (*as_shape(shape), *common_shape(name, *map(np.shape, parameters)))
    return sample(random.DOUBLE_SIDED_MAXWELL, key, sizes, target, parameters, out_sharding)
