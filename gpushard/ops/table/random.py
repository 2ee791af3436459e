"""Rows of random bits and of continuous distributions.

Operands: a key, then the distribution's parameters; parameters of rows: (shape, dtype).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpushard.ops.aval import Dtype
from gpushard.ops.random.blocks import evenly
from gpushard.ops.random.rejection import log_gamma
from gpushard.ops.random.sampler import Sampler, floats
from gpushard.ops.random.special import erf, erfinv
from gpushard.ops.random.stream import Stream
from gpushard.ops.row import Row


def _own(dtype: Dtype) -> Dtype:
    return dtype


def _real(dtype: Dtype) -> Dtype:
    """Return the type of the parts of complex numbers."""
    return floats(np.empty(0, dtype).real.dtype)


def _row(
    name: str, draw: Callable[..., Any], code: str, work: Callable[[Dtype], Dtype] = floats
) -> Row:
    return Sampler(name, draw, work, code).row()


def _bits(stream: Stream, dtype: Dtype) -> Any:
    return stream.bits(dtype)


def _uniform(stream: Stream, dtype: Dtype, *bounds: Any) -> Any:
    return stream.uniform(dtype, *bounds)


def _normal(stream: Stream, dtype: Dtype) -> Any:
    return stream.normal(dtype)


def _complex_normal(stream: Stream, dtype: Dtype) -> Any:
    parts = [stream.fold(n).normal(dtype) for n in range(2)]
    return (parts[0] + 1j * parts[1]) / dtype.type(math.sqrt(2))


def _truncated_normal(stream: Stream, dtype: Dtype, low: Any, high: Any, into: Dtype) -> Any:
    xp, root = stream.xp, dtype.type(math.sqrt(2))
    u = stream.uniform(dtype, erf(xp, low / root), erf(xp, high / root))
    numbers = root * erfinv(xp, u)
    return xp.clip(numbers, _beyond(xp, low, into, 1), _beyond(xp, high, into, -1))


_FAR = np.float32(100)
"""Further out than any normal number."""


def _beyond(xp: Any, bound: Any, dtype: Dtype, sign: int) -> Any:
    """Return the number of a dtype next to a bound, above it or below it."""
    if dtype.isbuiltin != 1:  # some of these have no infinity
        bound = xp.clip(bound, -_FAR, _FAR)
    near = bound.astype(dtype)
    passed = near > bound if sign > 0 else near < bound
    return xp.where(passed, near, _next(xp, near, sign)).astype(bound.dtype)


def _next(xp: Any, x: Any, sign: int) -> Any:
    """Return the next numbers above or below, by bits: CuPy has no nextafter of all types."""
    bits = x.view(f"u{x.dtype.itemsize}")
    one = bits.dtype.type(1)
    smallest = one | bits.dtype.type(sign < 0) << bits.dtype.type(8 * x.dtype.itemsize - 1)
    inwards = (x < 0) if sign > 0 else (x > 0)
    moved = xp.where(x == 0, smallest, xp.where(inwards, bits - one, bits + one))
    return xp.where(inwards | xp.isfinite(x), moved, bits).view(x.dtype)


def _exponential(stream: Stream, dtype: Dtype) -> Any:
    return -stream.xp.log1p(-stream.uniform(dtype))


def _gumbel(stream: Stream, dtype: Dtype, loc: Any) -> Any:
    xp = stream.xp
    u = stream.uniform(dtype, np.finfo(dtype).tiny, dtype.type(1))
    return -xp.log(-xp.log(u)) + loc


def _gumbel_high(stream: Stream, dtype: Dtype, loc: Any) -> Any:
    """Return the same of twice as many bits, which reach further into the tail."""
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


def _pareto(stream: Stream, dtype: Dtype, b: Any) -> Any:
    return stream.xp.exp(_exponential(stream, dtype) / b)


def _weibull_min(stream: Stream, dtype: Dtype, scale: Any, concentration: Any) -> Any:
    return stream.xp.power(_exponential(stream, dtype), 1 / concentration) * scale


def _lognormal(stream: Stream, dtype: Dtype, sigma: Any) -> Any:
    return stream.xp.exp(stream.normal(dtype) * sigma)


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
    """Return lengths of vectors of three normal numbers."""
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
    """Return numbers by a transformation with several roots.

    Source: Michael, Schucany and Haas, "Generating random variates using transformations with
    multiple roots" (1976).
    """
    xp = stream.xp
    normal, u = stream.fold(0).normal(dtype), stream.fold(1).uniform(dtype)
    y, square = normal * normal, mean * mean
    x = mean + square * y / 2 - mean / 2 * xp.sqrt(4 * mean * y + square * (y * y))
    return xp.where(u <= mean / (mean + x), x, square / x)


def _normalised(xp: Any, logs: Any) -> Any:
    """Return exponentials along the last dim, divided by their sum."""
    most = logs.max(axis=-1, keepdims=True) if logs.shape[-1] else logs
    parts = evenly(xp, xp.exp, logs - most)
    return parts / parts.sum(axis=-1, keepdims=True)


def _correlated(xp: Any, normals: Any, mean: Any, cov: Any) -> Any:
    """Return mean + L z, with L the Cholesky factor of the covariance.

    A covariance that is not positive definite gives NaN.
    """
    factor = xp.zeros_like(cov)
    for j in range(normals.shape[-1]):
        left = factor[..., j:, :j] * factor[..., j : j + 1, :j]
        column = cov[..., j:, j] - (left.sum(axis=-1) if j else 0)
        factor[..., j:, j] = column / xp.sqrt(column[..., :1])
    return _transformed(xp, normals, mean, factor)


def _transformed(xp: Any, normals: Any, mean: Any, factor: Any) -> Any:
    """Return mean + F z.

    Columns are added one by one, not by a product of matrices, whose sums depend on how many rows
    there are.
    """
    total = xp.zeros_like(normals) + mean
    for j in range(normals.shape[-1]):
        total += factor[..., :, j] * normals[..., j : j + 1]
    return total


BITS = _row("bits", _bits, "random_bits<T>", _own)
UNIFORM = _row("uniform", _uniform, "uniform<W>", _own)
"""Parameters of the distribution: none, or the lower and the upper bound."""
NORMAL = _row("normal", _normal, "normal<W>")
COMPLEX_NORMAL = _row("normal", _complex_normal, "complex_normal<T, W>", _real)
TRUNCATED_NORMAL = Sampler(
    "truncated_normal", _truncated_normal, floats, "truncated_normal<T>", bounded=True
).row()
"""The bounds."""
EXPONENTIAL = _row("exponential", _exponential, "exponential<W>")
GUMBEL = _row("gumbel", _gumbel, "gumbel")
"""What is added."""
GUMBEL_HIGH = _row("gumbel", _gumbel_high, "gumbel_high")
"""The same, of more bits."""
LAPLACE = _row("laplace", _laplace, "laplace<W>")
LOGISTIC = _row("logistic", _logistic, "logistic<W>")
CAUCHY = _row("cauchy", _cauchy, "cauchy<W>")
RAYLEIGH = _row("rayleigh", _rayleigh, "rayleigh")
PARETO = _row("pareto", _pareto, "pareto")
WEIBULL_MIN = _row("weibull_min", _weibull_min, "weibull")
"""Scale and concentration."""
LOGNORMAL = _row("lognormal", _lognormal, "lognormal")
GAMMA = _row("gamma", _gamma, "gamma_number")
LOG_GAMMA = _row("loggamma", log_gamma, "log_gamma")
CHISQUARE = _row("chisquare", _chisquare, "chi_square")
BETA = _row("beta", _beta, "beta_number")
T = _row("t", _t, "student_t")
F = _row("f", _f, "f_number")
"""Degrees of freedom of the numerator and of the denominator."""
MAXWELL = _row("maxwell", _maxwell, "maxwell<W>")
DOUBLE_SIDED_MAXWELL = _row("double_sided_maxwell", _double_sided_maxwell, "double_sided_maxwell")
"""Location and scale."""
GENERALIZED_NORMAL = _row("generalized_normal", _generalized_normal, "generalized_normal")
"""The exponent."""
TRIANGULAR = _row("triangular", _triangular, "triangular")
"""The least number, the most frequent one, and the largest."""
WALD = _row("wald", _wald, "wald")
"""The mean."""
DIRICHLET = Sampler("dirichlet", log_gamma, floats, "log_gamma", last=_normalised).row()
"""The concentrations, along the last dim."""
MULTIVARIATE_NORMAL = Sampler(
    "multivariate_normal", _normal, floats, "normal<W>", last=_correlated, rows=2, extra=(0, 1)
).row()
"""The mean along the last dim, and the covariance, which has one dim more."""
MULTIVARIATE_NORMAL_OF_FACTOR = Sampler(
    "multivariate_normal", _normal, floats, "normal<W>", last=_transformed, rows=2, extra=(0, 1)
).row()
"""The mean, and a matrix whose product with its transpose is the covariance."""
