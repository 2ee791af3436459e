"""The table of distributions: how to draw numbers, and the valid parameters.

Operands of rows: keys, then the distribution's parameters; parameters of rows: (shape, dtype).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpushard._ops.aval import Dtype
from gpushard._ops.prng.blocks import evenly
from gpushard._ops.prng.distribution import Domain, distribution, doubles, floats
from gpushard._ops.prng.error_functions import erf, erfinv
from gpushard._ops.prng.rejection import binomial, log_gamma, poisson
from gpushard._ops.prng.stream import Stream
from gpushard.dtypes import real_of


def _same_dtype(dtype: Dtype) -> Dtype:
    return dtype


def _real(dtype: Dtype) -> Dtype:
    return floats(real_of(dtype))


def _complex_normal(stream: Stream, dtype: Dtype) -> Any:
    parts = [stream.fold(n).normal(dtype) for n in range(2)]
    return (parts[0] + 1j * parts[1]) / dtype.type(math.sqrt(2))


def _truncated_normal(stream: Stream, dtype: Dtype, low: Any, high: Any, into: Dtype) -> Any:
    xp, root = stream.xp, dtype.type(math.sqrt(2))
    u = stream.uniform(dtype, erf(xp, low / root), erf(xp, high / root))
    numbers = root * erfinv(xp, u)
    return xp.clip(numbers, _beyond(xp, low, into, up=True), _beyond(xp, high, into, up=False))


_FAR = np.float32(100)  # farther out than any normal number


def _beyond(xp: Any, bound: Any, dtype: Dtype, *, up: bool) -> Any:
    """Return the next number of a dtype above or below a bound."""
    if dtype.isbuiltin != 1:  # some of these types have no infinity
        bound = xp.clip(bound, -_FAR, _FAR)
    near = bound.astype(dtype)
    passed = near > bound if up else near < bound
    return xp.where(passed, near, _next(xp, near, up=up)).astype(bound.dtype)


def _next(xp: Any, x: Any, *, up: bool) -> Any:
    """Return the next numbers above or below, by bits: CuPy lacks nextafter for some types."""
    bits = x.view(f"u{x.dtype.itemsize}")
    unit = bits.dtype.type(1)
    smallest = unit | bits.dtype.type(not up) << bits.dtype.type(8 * x.dtype.itemsize - 1)
    inwards = (x < 0) if up else (x > 0)
    moved = xp.where(x == 0, smallest, xp.where(inwards, bits - unit, bits + unit))
    return xp.where(inwards | xp.isfinite(x), moved, bits).view(x.dtype)


def _exponential(stream: Stream, dtype: Dtype) -> Any:
    return -stream.xp.log1p(-stream.uniform(dtype))


def _gumbel(stream: Stream, dtype: Dtype, loc: Any) -> Any:
    xp = stream.xp
    u = stream.uniform(dtype, np.finfo(dtype).tiny, dtype.type(1))
    return -xp.log(-xp.log(u)) + loc


def _gumbel_high(stream: Stream, dtype: Dtype, loc: Any) -> Any:
    """Draw Gumbel numbers from twice as many bits, which reach farther into the tail."""
    xp, info = stream.xp, np.finfo(dtype)
    high, low = (stream.stacked(n).uniform(dtype) for n in range(2))
    small = high + dtype.type(2.0**-info.nmant) * low + info.tiny
    return -xp.log(-xp.log1p(-xp.where(high >= 0.5, high, small))) + loc


def _laplace(stream: Stream, dtype: Dtype) -> Any:
    xp = stream.xp
    low = dtype.type(-1) + np.finfo(dtype).epsneg
    u = stream.uniform(dtype, low, dtype.type(1))
    return xp.sign(u) * xp.log1p(-abs(u))


def _logistic(stream: Stream, dtype: Dtype) -> Any:
    xp = stream.xp
    u = stream.uniform(dtype, np.finfo(dtype).tiny, dtype.type(1))
    return xp.log(u) - xp.log1p(-u)


def _cauchy(stream: Stream, dtype: Dtype) -> Any:
    u = stream.uniform(dtype, np.finfo(dtype).eps, dtype.type(1))
    return stream.xp.tan(dtype.type(math.pi) * (u - dtype.type(0.5)))


def _rayleigh(stream: Stream, dtype: Dtype, scale: Any) -> Any:
    xp = stream.xp
    return scale * xp.sqrt(-2 * xp.log(stream.uniform(dtype)))


def _gamma(stream: Stream, dtype: Dtype, a: Any) -> Any:
    return stream.xp.exp(log_gamma(stream, dtype, a))


def _chisquare(stream: Stream, dtype: Dtype, df: Any) -> Any:
    return 2 * _gamma(stream, dtype, df / 2)


def _beta(stream: Stream, dtype: Dtype, a: Any, b: Any) -> Any:
    xp = stream.xp
    logs = [log_gamma(stream.fold(n), dtype, shape) for n, shape in enumerate((a, b))]
    return 1 / (1 + xp.exp(logs[1] - logs[0]))


def _t(stream: Stream, dtype: Dtype, df: Any) -> Any:
    half = df / 2
    normal = stream.fold(0).normal(dtype)
    return normal * stream.xp.sqrt(half / _gamma(stream.fold(1), dtype, half))


def _f(stream: Stream, dtype: Dtype, numerator: Any, denominator: Any) -> Any:
    above = _chisquare(stream.fold(1), dtype, numerator) / numerator
    return above / (_chisquare(stream.fold(0), dtype, denominator) / denominator)


def _maxwell(stream: Stream, dtype: Dtype) -> Any:
    """Draw lengths of vectors of three normal numbers."""
    total = 0
    for n in range(3):
        x = stream.widened(n, 3).normal(dtype)
        total = total + x * x
    return stream.xp.sqrt(total)


def _double_sided_maxwell(stream: Stream, dtype: Dtype, loc: Any, scale: Any) -> Any:
    return stream.fold(1).sign() * _maxwell(stream.fold(0), dtype) * scale + loc


def _generalized_normal(stream: Stream, dtype: Dtype, p: Any) -> Any:
    root = 1 / p
    size = stream.xp.exp(log_gamma(stream.fold(0), dtype, root) * root)
    return stream.fold(1).sign() * size


def _triangular(stream: Stream, dtype: Dtype, left: Any, mode: Any, right: Any) -> Any:
    xp = stream.xp
    u = stream.uniform(dtype)
    width, below, above = right - left, mode - left, right - mode
    first = left + xp.sqrt(u * width * below)
    return xp.where(u < below / width, first, right - xp.sqrt((1 - u) * width * above))


def _wald(stream: Stream, dtype: Dtype, mean: Any) -> Any:
    """Draw numbers by a transformation with several roots.

    Source: Michael, Schucany and Haas, "Generating random variates using transformations with
    multiple roots" (1976).
    """
    xp = stream.xp
    normal, u = stream.fold(0).normal(dtype), stream.fold(1).uniform(dtype)
    y, square = normal * normal, mean * mean
    x = mean + square * y / 2 - mean / 2 * xp.sqrt(4 * mean * y + square * (y * y))
    return xp.where(u <= mean / (mean + x), x, square / x)


def _normalise(xp: Any, logs: Any) -> Any:
    """Divide exponentials along the last dim by their sum."""
    most = logs.max(axis=-1, keepdims=True) if logs.shape[-1] else logs
    parts = evenly(xp, xp.exp, logs - most)
    return parts / parts.sum(axis=-1, keepdims=True)


def _correlate(xp: Any, normals: Any, mean: Any, cov: Any) -> Any:
    """Compute mean + L z, with L the Cholesky factor of the covariance.

    A covariance that is not positive definite gives NaN.
    """
    factor = xp.zeros_like(cov)
    for j in range(normals.shape[-1]):
        left = factor[..., j:, :j] * factor[..., j : j + 1, :j]
        column = cov[..., j:, j] - (left.sum(axis=-1) if j else 0)
        factor[..., j:, j] = column / xp.sqrt(column[..., :1])
    return _transform(xp, normals, mean, factor)


def _transform(xp: Any, normals: Any, mean: Any, factor: Any) -> Any:
    """Compute mean + F z.

    Columns are added one by one. A matrix product would sum in an order that depends on the number
    of rows.
    """
    total = xp.zeros_like(normals) + mean
    for j in range(normals.shape[-1]):
        total += factor[..., :, j] * normals[..., j : j + 1]
    return total


def _randint(stream: Stream, dtype: Dtype, low: Any, last: Any) -> Any:
    """Draw integers from `low` to `last`, both included.

    They are remainders of two random words, as in JAX; the high word counts 2**bits times.
    """
    unsigned = np.dtype(f"u{dtype.itemsize}")
    xp = stream.xp
    if xp is np and not (np.ndim(low) or np.ndim(last)):
        offset = _below(stream, unsigned, max(int(last) - int(low), 0) + 1)
        offset += np.asarray(low).astype(unsigned)
        return offset.view(dtype)
    unit = unsigned.type(1)
    low, last = xp.atleast_1d(low), xp.atleast_1d(last)
    span = xp.where(last < low, unit, (last.astype(unsigned) - low.astype(unsigned)) + unit)
    high, bits = (stream.fold(n).bits(unsigned) for n in range(2))
    every = span == 0  # the range has all numbers of the type
    safe = xp.where(every, unit, span)
    half = unsigned.type(1 << (unsigned.itemsize * 4)) % safe
    offset = ((high % safe) * (half * half % safe) + bits % safe) % safe
    return (xp.where(every, bits, offset) + low.astype(unsigned)).astype(dtype)


def _below(stream: Stream, unsigned: Dtype, span: int) -> Any:
    """Draw unsigned integers for a single range, from 0 on.

    The high word is not drawn if its factor is 0. That holds if the range is a power of 2, or so
    long that the product of halves overflows to 0.
    """
    width = unsigned.itemsize * 8
    offset = stream.fold(1).bits(unsigned)
    if span == 1 << width:
        return offset
    if span & (span - 1) == 0:
        offset &= unsigned.type(span - 1)
        return offset
    half = (1 << width // 2) % span
    factor = half * half % (1 << width) % span
    divisor = unsigned.type(span)
    _reduce(offset, divisor)
    if factor:
        high = stream.fold(0).bits(unsigned)
        _reduce(high, divisor)
        high *= unsigned.type(factor)
        offset += high
        _reduce(offset, divisor)
    return offset


def _reduce(x: Any, divisor: Any) -> None:
    """Take remainders in place, by NumPy's vectorized division."""
    quotient = x // divisor
    quotient *= divisor
    x -= quotient


def _integers(dtype: Dtype) -> Dtype:
    """Return the type to draw integers in: at least 32 bits."""
    return dtype if dtype.itemsize >= 4 else np.dtype(np.int32)


def _singles(dtype: Dtype) -> Dtype:
    return np.dtype(np.float32)


def _bernoulli(stream: Stream, dtype: Dtype, p: Any) -> Any:
    return stream.uniform(p.dtype) < p


def _bernoulli_high(stream: Stream, dtype: Dtype, p: Any) -> Any:
    """Draw booleans from two uniform numbers; the second refines the first."""
    dtype = p.dtype
    u, more = (stream.stacked(n).uniform(dtype) for n in range(2))
    return more * dtype.type(2.0 ** -np.finfo(dtype).nmant) < p - u


def _whole(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Replace floats that are not finite by -1, for integers as results."""

    def drawn(stream: Stream, dtype: Dtype, *parameters: Any) -> Any:
        value = draw(stream, dtype, *parameters)
        return stream.xp.where(stream.xp.isfinite(value), value, -1)

    return drawn


def _geometric(stream: Stream, dtype: Dtype, p: Any) -> Any:
    xp = stream.xp
    u = stream.uniform(dtype)
    return xp.floor(xp.log(xp.where(u == 0, 1, u)) / xp.log1p(-p)) + 1


ANY = Domain(None)
BOUNDED = Domain(lambda x: ~np.isinf(x), "finite")
POSITIVE = Domain(lambda x: ~(x <= 0), "positive")
"""Positive numbers or NaN; NaN gives NaN, as in arithmetic."""
RATE = Domain(lambda x: (x >= 0) & (x < np.inf), "finite and at least 0")
PROBABILITY = Domain(lambda x: (x >= 0) & (x <= 1), "between 0 and 1")
CHANCE = Domain(lambda x: (x > 0) & (x <= 1), "above 0, and 1 at most")
COUNT_OR_NAN = Domain(lambda x: ~(x < 0), "at least 0")
PROBABILITY_OR_NAN = Domain(lambda x: ~((x < 0) | (x > 1)), "between 0 and 1")
"""Probabilities or NaN, for distributions of floats."""

BITS = distribution("bits", Stream.bits, "random_bits<T>", _same_dtype, "u")
UNIFORM = distribution(
    "uniform", Stream.uniform, "uniform<W>", _same_dtype, minval=BOUNDED, maxval=BOUNDED
)
"""The bounds are optional operands."""
NORMAL = distribution("normal", Stream.normal, "normal<W>", kinds="fc")
COMPLEX_NORMAL = distribution("normal", _complex_normal, "complex_normal<T, W>", _real, "fc")
TRUNCATED_NORMAL = distribution(
    "truncated_normal", _truncated_normal, "truncated_normal<T>", bounded=True, lower=ANY, upper=ANY
)
EXPONENTIAL = distribution("exponential", _exponential, "exponential<W>")
GUMBEL = distribution("gumbel", _gumbel, "gumbel", loc=ANY)
GUMBEL_HIGH = distribution("gumbel", _gumbel_high, "gumbel_high", loc=ANY)
"""Gumbel numbers from twice as many bits."""
LAPLACE = distribution("laplace", _laplace, "laplace<W>")
LOGISTIC = distribution("logistic", _logistic, "logistic<W>")
CAUCHY = distribution("cauchy", _cauchy, "cauchy<W>")
RAYLEIGH = distribution("rayleigh", _rayleigh, "rayleigh", scale=POSITIVE)
PARETO = distribution(
    "pareto", lambda s, dtype, b: s.xp.exp(_exponential(s, dtype) / b), "pareto", b=POSITIVE
)
WEIBULL_MIN = distribution(
    "weibull_min",
    lambda s, dtype, scale, shape: s.xp.power(_exponential(s, dtype), 1 / shape) * scale,
    "weibull",
    scale=POSITIVE,
    concentration=POSITIVE,
)
LOGNORMAL = distribution(
    "lognormal", lambda s, dtype, sigma: s.xp.exp(s.normal(dtype) * sigma), "lognormal", sigma=ANY
)
GAMMA = distribution("gamma", _gamma, "gamma_number", a=POSITIVE)
LOG_GAMMA = distribution("loggamma", log_gamma, "log_gamma", a=POSITIVE)
CHISQUARE = distribution("chisquare", _chisquare, "chi_square", df=POSITIVE)
BETA = distribution("beta", _beta, "beta_number", a=POSITIVE, b=POSITIVE)
T = distribution("t", _t, "student_t", df=POSITIVE)
F = distribution("f", _f, "f_number", dfnum=POSITIVE, dfden=POSITIVE)
MAXWELL = distribution("maxwell", _maxwell, "maxwell<W>")
DOUBLE_SIDED_MAXWELL = distribution(
    "double_sided_maxwell", _double_sided_maxwell, "double_sided_maxwell", loc=ANY, scale=ANY
)
GENERALIZED_NORMAL = distribution(
    "generalized_normal", _generalized_normal, "generalized_normal", p=POSITIVE
)
TRIANGULAR = distribution("triangular", _triangular, "triangular", left=ANY, mode=ANY, right=ANY)
WALD = distribution("wald", _wald, "wald", mean=POSITIVE)
DIRICHLET = distribution("dirichlet", log_gamma, "log_gamma", last=_normalise, alpha=POSITIVE)
"""The concentrations are along the last dim."""
_MULTIVARIATE = functools.partial(
    distribution, "multivariate_normal", Stream.normal, "normal<W>", extra=(0, 1)
)
MULTIVARIATE_NORMAL = _MULTIVARIATE(last=_correlate, mean=ANY, cov=ANY)
"""The mean is along the last dim, and the covariance has one dim more."""
MULTIVARIATE_NORMAL_OF_FACTOR = _MULTIVARIATE(last=_transform, mean=ANY, factor=ANY)
"""The third operand is a matrix F with covariance F F^T."""
RANDINT = distribution(
    "randint", _randint, "random_integer", _integers, "iu", minval=ANY, maxval=ANY
)
"""Operands: a key, the smallest and the largest number."""
BERNOULLI = distribution("bernoulli", _bernoulli, "bernoulli", doubles, "b", p=PROBABILITY)
BERNOULLI_SINGLE = distribution("bernoulli", _bernoulli, "bernoulli", _singles, "b", p=PROBABILITY)
"""For probabilities in single precision, which use other bits."""
BERNOULLI_HIGH = distribution(
    "bernoulli", _bernoulli_high, "bernoulli_high", doubles, "b", p=PROBABILITY
)
"""Booleans from twice as many bits."""
BERNOULLI_HIGH_SINGLE = distribution(
    "bernoulli", _bernoulli_high, "bernoulli_high", _singles, "b", p=PROBABILITY
)
RADEMACHER = distribution("rademacher", lambda s, dtype: s.sign(), "rademacher", doubles, "if")
GEOMETRIC = distribution(
    "geometric", _whole(_geometric), "whole_geometric", doubles, "iu", p=CHANCE
)
POISSON = distribution("poisson", _whole(poisson), "whole_poisson", doubles, "iu", lam=RATE)
BINOMIAL = distribution(
    "binomial", binomial, "binomial", doubles, n=COUNT_OR_NAN, p=PROBABILITY_OR_NAN
)
BINOMIAL_COUNTS = distribution(
    "binomial", _whole(binomial), "whole_binomial", doubles, "iu", n=RATE, p=PROBABILITY
)
"""Binomial numbers as integers."""
