"""Draw random numbers: a function for each row of `ops.table.random`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.values import is_value
from gpushard._ops.bind import bind
from gpushard._ops.table import elementwise
from gpushard._ops.table import random as table
from gpushard.errors import ArgumentTypeError
from gpushard.random.sampling import documented, dtype_of, is_high, is_whole, sample

__all__ = [
    "bernoulli", "beta", "binomial", "bits", "cauchy", "chisquare", "double_sided_maxwell",
    "exponential", "f", "gamma", "generalized_normal", "geometric", "gumbel", "integers", "laplace",
    "loggamma", "logistic", "lognormal", "maxwell", "normal", "pareto", "poisson", "rademacher",
    "randint", "rayleigh", "t", "triangular", "truncated_normal", "uniform", "wald", "weibull_min",
]  # fmt: skip


@documented(table.BITS)
def bits(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Draw random bits as unsigned integers.

    Raises:
      ArgumentTypeError: the dtype is not an unsigned integer.

    >>> from gpushard import random
    >>> bits(random.key(0), (2,), "uint32")
    Array([4070199207, 4202968722], dtype=uint32)
    """
    return sample(table.BITS, key, (), shape, dtype, out_sharding)


@documented(table.UNIFORM, minval="the lower bound, a number or an array", maxval="the upper bound")
def uniform(
    key: Any,
    shape: Any = (),
    dtype: Any = None,
    minval: Any = 0.0,
    maxval: Any = 1.0,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw numbers from the uniform distribution from `minval` to `maxval`, which is excluded.

    >>> from gpushard import random
    >>> uniform(random.key(0), (2,), "float32")
    Array([0.947667 , 0.9785799], dtype=float32)
    """
    numbers = type(minval) in (int, float) and type(maxval) in (int, float)
    bounds = () if numbers and (minval, maxval) == (0, 1) else (minval, maxval)
    return sample(table.UNIFORM, key, bounds, shape, dtype, out_sharding)


@documented(
    table.RANDINT,
    minval="the least integer, a number or an array",
    maxval="the greatest integer plus 1. If `maxval <= minval`, the result is `minval`",
)
def randint(
    key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Draw integers from `minval` to `maxval`, which is excluded.

    As in JAX, the integers are remainders of random bits. So they are slightly uneven, unless the
    number of possible results is a power of 2, or small compared with the range of the dtype.
    Bounds are clipped to the range of the dtype.

    Raises:
      ArgumentTypeError: a bound or the dtype is not an integer.

    >>> from gpushard import random
    >>> randint(random.key(0), (5,), 0, 10)
    Array([5, 1, 5, 7, 3], dtype=int64)
    """
    target = dtype_of(table.RANDINT, dtype)
    low, last = _bound(minval, target, "minval", 0), _bound(maxval, target, "maxval", 1)
    return sample(table.RANDINT, key, (low, last), shape, target, out_sharding)


integers = randint


def _bound(x: Any, dtype: np.dtype[Any], argument: str, more: int) -> Any:
    """Return a bound minus `more`, clipped to the range of a type."""
    info = np.iinfo(dtype)
    least, most = int(info.min), int(info.max)
    data = x if is_value(x) else np.asarray(x, object if type(x) is int else None)
    if type(x) is not int and data.dtype.kind not in "iu":
        raise ArgumentTypeError(
            f"randint: {argument} has dtype {data.dtype}; bounds are integers",
            argument=argument,
            dtype=data.dtype,
        )
    if is_value(x):
        limits_of_type = np.iinfo(x.dtype)
        limits = (
            max(least + more, int(limits_of_type.min)),
            min(most + more, int(limits_of_type.max)),
        )
        cut = bind(elementwise.CLIP, (x, *limits), (True, True))
        return (cut - cut.dtype.type(more)).astype(dtype) if more else cut.astype(dtype)
    exact = data.astype(object) - more
    return np.asarray(np.clip(exact, least, most)).astype(dtype)


@documented(
    table.BERNOULLI,
    p="the probability, a number or an array. gpushard draws 32 random bits for each element if\n"
    "    `p` has dtype float32, and 64 otherwise",
    mode='"low" (or None) or "high". "high" draws twice as many bits for each element, so that\n'
    "    very small probabilities are more accurate",
)
def bernoulli(
    key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low", *, out_sharding: Any = None
) -> Array:
    """Draw booleans that are True with probability `p`.

    Raises:
      ArgumentError: `p` is not between 0 and 1 or does not broadcast to `shape`, or `mode` is
        unknown. gpushard checks ranges only for numbers on the host.
    """
    high, single = is_high(mode, "bernoulli"), getattr(p, "dtype", None) == np.float32
    if high:
        row = table.BERNOULLI_HIGH_SINGLE if single else table.BERNOULLI_HIGH
    else:
        row = table.BERNOULLI_SINGLE if single else table.BERNOULLI
    return sample(row, key, (p,), shape, None, out_sharding)


@documented(table.RADEMACHER)
def rademacher(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Draw 1 or -1, with equal probability."""
    return sample(table.RADEMACHER, key, (), shape, dtype, out_sharding)


@documented(table.NORMAL)
def normal(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Draw standard normal numbers; for complex numbers, both parts together have variance 1.

    >>> from gpushard import random
    >>> print(normal(random.key(0), (3,), "float32").round(3))
    [ 1.623  2.025 -0.434]
    """
    row = table.NORMAL
    if dtype is not None and dtype_of(row, dtype).kind == "c":
        row = table.COMPLEX_NORMAL
    return sample(row, key, (), shape, dtype, out_sharding)


@documented(
    table.TRUNCATED_NORMAL, lower="the lower bound, a number or an array", upper="the upper bound"
)
def truncated_normal(
    key: Any,
    lower: Any,
    upper: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw standard normal numbers strictly between two bounds."""
    return sample(table.TRUNCATED_NORMAL, key, (lower, upper), shape, dtype, out_sharding)


@documented(
    table.LOGNORMAL, sigma="the standard deviation of the normal numbers, a number or an array"
)
def lognormal(
    key: Any, sigma: Any = 1.0, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Draw numbers from the log-normal distribution: exponentials of normal numbers."""
    return sample(table.LOGNORMAL, key, (sigma,), shape, dtype, out_sharding)


@documented(table.EXPONENTIAL)
def exponential(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Draw numbers from the exponential distribution with mean 1."""
    return sample(table.EXPONENTIAL, key, (), shape, dtype, out_sharding)


@documented(table.LAPLACE)
def laplace(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Draw numbers from the Laplace distribution with scale 1."""
    return sample(table.LAPLACE, key, (), shape, dtype, out_sharding)


@documented(table.LOGISTIC)
def logistic(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Draw numbers from the logistic distribution with scale 1."""
    return sample(table.LOGISTIC, key, (), shape, dtype, out_sharding)


@documented(table.CAUCHY)
def cauchy(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Draw numbers from the Cauchy distribution with scale 1."""
    return sample(table.CAUCHY, key, (), shape, dtype, out_sharding)


@documented(table.MAXWELL)
def maxwell(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Draw numbers from the Maxwell distribution with scale 1: lengths of normal vectors in 3D."""
    return sample(table.MAXWELL, key, (), shape, dtype, out_sharding)


@documented(
    table.GUMBEL,
    mode='"high" draws twice as many bits, which reach further into the upper tail; "low", or\n'
    "    None, does not",
)
def gumbel(
    key: Any,
    shape: Any = (),
    dtype: Any = None,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw numbers from the Gumbel distribution with scale 1.

    Raises:
      ArgumentError: `mode` is unknown.
    """
    row = table.GUMBEL_HIGH if is_high(mode, "gumbel") else table.GUMBEL
    return sample(row, key, (np.float64(0),), shape, dtype, out_sharding)


@documented(table.GAMMA, a="the shape parameter, a number or an array")
def gamma(
    key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Draw numbers from the gamma distribution with scale 1."""
    return sample(table.GAMMA, key, (a,), shape, dtype, out_sharding)


@documented(table.LOG_GAMMA, a="the shape parameter, a number or an array")
def loggamma(
    key: Any, a: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Draw logarithms of numbers from the gamma distribution, without underflow for small `a`."""
    return sample(table.LOG_GAMMA, key, (a,), shape, dtype, out_sharding)


@documented(
    table.BETA, a="the first shape parameter, a number or an array", b="the second shape parameter"
)
def beta(
    key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Draw numbers from the beta distribution."""
    return sample(table.BETA, key, (a, b), shape, dtype, out_sharding)


@documented(table.CHISQUARE, df="degrees of freedom, a number or an array")
def chisquare(
    key: Any, df: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Draw numbers from the chi-square distribution."""
    return sample(table.CHISQUARE, key, (df,), shape, dtype, out_sharding)


@documented(table.T, df="degrees of freedom, a number or an array")
def t(
    key: Any, df: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Draw numbers from Student's t distribution."""
    return sample(table.T, key, (df,), shape, dtype, out_sharding)


@documented(
    table.F,
    dfnum="degrees of freedom of the numerator, a number or an array",
    dfden="degrees of freedom of the denominator",
)
def f(
    key: Any,
    dfnum: Any,
    dfden: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw numbers from the F distribution."""
    return sample(table.F, key, (dfnum, dfden), shape, dtype, out_sharding)


@documented(
    table.PARETO,
    b="the exponent of the tail, a number or an array. For x >= 1, a drawn number exceeds x with\n"
    "    probability x**-b",
)
def pareto(
    key: Any, b: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Draw numbers from the Pareto distribution, from 1 upwards."""
    return sample(table.PARETO, key, (b,), shape, dtype, out_sharding)


@documented(table.RAYLEIGH, scale="the scale, a number or an array")
def rayleigh(
    key: Any, scale: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Draw numbers from the Rayleigh distribution."""
    return sample(table.RAYLEIGH, key, (scale,), shape, dtype, out_sharding)


@documented(
    table.WEIBULL_MIN,
    scale="the scale, a number or an array",
    concentration="the exponent k, a number or an array. For x >= 0, a drawn number exceeds x\n"
    "    with probability exp(-((x / scale) ** k))",
)
def weibull_min(
    key: Any,
    scale: Any,
    concentration: Any,
    shape: Any = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw numbers from the Weibull distribution."""
    return sample(table.WEIBULL_MIN, key, (scale, concentration), shape, dtype, out_sharding)


@documented(table.WALD, mean="the mean, a number or an array")
def wald(
    key: Any, mean: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Draw numbers from the Wald distribution, the inverse Gaussian with scale 1."""
    return sample(table.WALD, key, (mean,), shape, dtype, out_sharding)


@documented(
    table.TRIANGULAR,
    left="the lower bound, a number or an array",
    mode="the position of the greatest density, between the bounds",
    right="the upper bound",
)
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
    """Draw numbers from the triangular distribution."""
    return sample(table.TRIANGULAR, key, (left, mode, right), shape, dtype, out_sharding)


@documented(table.GENERALIZED_NORMAL, p="the exponent, a number or an array")
def generalized_normal(
    key: Any, p: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Draw numbers with a density proportional to exp(-abs(x)**p)."""
    return sample(table.GENERALIZED_NORMAL, key, (p,), shape, dtype, out_sharding)


@documented(
    table.DOUBLE_SIDED_MAXWELL,
    loc="a number or an array that is added to the scaled numbers",
    scale="the factor of the numbers, a number or an array",
    shape="the shape of the result, without the axes that `loc` and `scale` broadcast to",
)
def double_sided_maxwell(
    key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Draw numbers from the Maxwell distribution with a random sign, scaled and shifted."""
    row = table.DOUBLE_SIDED_MAXWELL
    return sample(row, key, (loc, scale), shape, dtype, out_sharding, tail=None)


@documented(table.POISSON, lam="the mean, a number or an array")
def poisson(
    key: Any, lam: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Draw numbers from the Poisson distribution."""
    return sample(table.POISSON, key, (lam,), shape, dtype, out_sharding)


@documented(table.GEOMETRIC, p="the probability of success, a number or an array")
def geometric(
    key: Any, p: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Draw the number of trials up to and including the first success."""
    return sample(table.GEOMETRIC, key, (p,), shape, dtype, out_sharding)


@documented(
    table.BINOMIAL,
    n="the number of trials, a number or an array; infinity gives infinity",
    p="the probability of success",
    dtype="a floating-point dtype, as in JAX, or an integer dtype; float64 by default",
)
def binomial(
    key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Draw the number of successes in `n` trials."""
    row = table.BINOMIAL_COUNTS if is_whole(dtype) else table.BINOMIAL
    return sample(row, key, (n, p), shape, dtype, out_sharding)
