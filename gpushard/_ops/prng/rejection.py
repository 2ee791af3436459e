"""Draw numbers that need a random number of trials: gamma, Poisson and binomial.

Every trial has its own stream, the key folded with the number of the trial. A trial of an element
depends only on the element's position. Trials continue with the elements that have no number yet.
To find them, the host waits for a GPU's stream.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpushard._ops.aval import Dtype
from gpushard._ops.prng.blocks import even
from gpushard._ops.prng.stream import Stream

_DOUBLE = np.dtype(np.float64)
_BOOST = 0
"""The number to fold the stream with that is used after the trials; trials have larger numbers."""


def _until_accepted(
    stream: Stream, trial: Callable[..., tuple[Any, Any]], value: Any, *parameters: Any
) -> Any:
    """Repeat trials until the values of all elements are accepted.

    Args:
      stream: the stream of the elements.
      trial: takes a stream and the parameters; returns values, and whether each is accepted.
      value: the values of elements without trials, NaN for others; None if all need trials.
      *parameters: arrays with a number for each element, or with a single number.
    """
    xp, number = stream.xp, 1
    if value is None:
        value, accepted = trial(stream.fold(number), *parameters)
        left = xp.flatnonzero(~accepted)
        number += 1
    else:
        left = xp.flatnonzero(xp.isnan(value))
    while left.size:
        which = even(xp, left)  # some twice: loops of even length give equal bits everywhere
        values_left = (p[which] if p.size > 1 else p for p in parameters)
        drawn, accepted = trial(stream.at(which).fold(number), *values_left)
        drawn, accepted = drawn[: left.size], accepted[: left.size]
        value[left[accepted]] = drawn[accepted]
        left = left[~accepted]
        number += 1
    return value


def _broadcast_parameter(stream: Stream, x: Any, dtype: Dtype) -> Any:
    return stream.xp.zeros(stream.low.shape, dtype) + x


def log_gamma(stream: Stream, dtype: Dtype, a: Any) -> Any:
    """Draw logarithms of gamma numbers; NaN unless a > 0.

    Source: Marsaglia and Tsang, "A simple method for generating gamma variables" (2000), with
    their boost for a < 1 in logarithms, where it does not underflow.
    """
    xp = stream.xp
    single = not np.ndim(a)
    if single:  # one number for all, computed in a loop of the same length
        a = even(xp, xp.full(1, a, dtype))
    valid = (a > 0) & (a < np.inf)
    safe = xp.where(valid, a, dtype.type(1))
    small = safe < 1
    d = xp.where(small, safe + 1, safe) - dtype.type(1 / 3)
    c = dtype.type(1 / 3) / xp.sqrt(d)
    log_d = xp.log(d)

    def trial(trials: Stream, d: Any, c: Any, log_d: Any) -> tuple[Any, Any]:
        x = trials.fold(0).normal(dtype)
        root = c * x
        root += 1
        inside = root > 0
        root[~inside] = 1
        cube = root * root
        cube *= root
        log_v = xp.log(cube)
        xp.subtract(1, cube, cube)
        cube += log_v
        cube *= d
        x *= x
        x /= 2
        x += cube  # values with a logarithm below this are accepted
        log_v += log_d
        inside &= xp.log(trials.fold(1).uniform(dtype)) < x
        return log_v, inside

    parameters = (d, c, log_d)
    if single:
        parameters = (d[:1], c[:1], log_d[:1])
    value = _until_accepted(stream, trial, None, *parameters)
    if xp is not np or small.any():
        boost = stream.fold(_BOOST).uniform(dtype)
        xp.negative(boost, boost)
        xp.log1p(boost, boost)
        boost /= safe[:1] if single else safe
        value += boost * (small[:1] if single else small)
    if xp is not np or not valid.all():
        other = xp.where(a == np.inf, a, dtype.type(np.nan))
        value = xp.where(valid[:1], value, other[:1]) if single else xp.where(valid, value, other)
    return value


def poisson(stream: Stream, dtype: Dtype, rate: Any) -> Any:
    """Draw Poisson numbers as float64; NaN unless the rate is finite and at least 0.

    Small rates use inversion; others use Hörmann's PTRS, "The transformed rejection method for
    generating Poisson random variables" (1993).
    """
    xp = stream.xp
    rate = _broadcast_parameter(stream, rate, _DOUBLE)
    valid = (rate >= 0) & (rate < np.inf)
    rate = xp.where(valid, rate, 0.0)
    small = rate < 10
    low = xp.where(small, rate, 0.0)
    value = _invert(stream, xp.exp(-low), lambda k: low / k)
    value[~small] = np.nan

    def trial(trials: Stream, rate: Any) -> tuple[Any, Any]:
        b = 0.931 + 2.53 * xp.sqrt(rate)
        a = -0.059 + 0.02483 * b
        u, v, near = _pair(trials)
        k = xp.floor((2 * a / near + b) * u + rate + 0.43)
        scale = 1.1239 + 1.1328 / (b - 3.4)
        bound = k * xp.log(rate) - rate - log_factorial(xp, xp.maximum(k, 0))
        fits = (k >= 0) & ((near >= 0.013) | (v <= near))
        fits &= xp.log(v * scale / (a / (near * near) + b)) <= bound
        return k, fits | ((near >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2)))

    value = _until_accepted(stream, trial, value, xp.where(small, 10.0, rate))
    value[~valid] = np.nan
    return value


def binomial(stream: Stream, dtype: Dtype, n: Any, p: Any) -> Any:
    """Draw binomial numbers as float64; NaN unless n is at least 0, and 0 <= p <= 1.

    If n * p is small, the numbers are drawn by inversion. Otherwise they are drawn by Hörmann's
    BTRS, "The generation of binomial random variates" (1993).
    """
    xp = stream.xp
    n, p = (
        xp.floor(_broadcast_parameter(stream, n, _DOUBLE)),
        _broadcast_parameter(stream, p, _DOUBLE),
    )
    valid = (n >= 0) & (p >= 0) & (p <= 1)
    infinite = valid & (n == np.inf) & (p > 0)
    n = xp.where(valid & (n < np.inf), n, 0.0)
    q = xp.where(valid, xp.minimum(p, 1 - p), 0.0)
    small = n * q < 10
    few, odds = xp.where(small, n, 0.0), q / (1 - q)
    value = _invert(stream, xp.exp(few * xp.log1p(-q)), lambda k: (few - k + 1) / k * odds)
    value[~small] = np.nan

    def trial(trials: Stream, n: Any, q: Any) -> tuple[Any, Any]:
        deviation = xp.sqrt(n * q * (1 - q))
        b = 1.15 + 2.53 * deviation
        a = -0.0873 + 0.0248 * b + 0.01 * q
        u, v, near = _pair(trials)
        k = xp.floor((2 * a / near + b) * u + n * q + 0.5)
        inside = xp.clip(k, 0, n)
        mode = xp.floor((n + 1) * q)
        bound = (inside - mode) * xp.log(q / (1 - q))
        for sign, count in ((1, mode), (1, n - mode), (-1, inside), (-1, n - inside)):
            bound = bound + sign * log_factorial(xp, count)
        scaled = xp.log(v * (2.83 + 5.1 / b) * deviation / (a / (near * near) + b))
        quick = (near >= 0.07) & (v <= 0.92 - 4.2 / b)
        return k, quick | ((inside == k) & (scaled <= bound))

    large = [xp.where(small, 40.0, n), xp.where(small, 0.5, q)]
    value = _until_accepted(stream, trial, value, *large)
    value = xp.where(p > 0.5, n - value, value)
    value[infinite] = np.inf
    return xp.where(valid, value, np.nan)


def _pair(stream: Stream) -> tuple[Any, Any, Any]:
    """Draw the inputs of transformed rejection: u in [-0.5, 0.5), v, and 0.5 - |u|."""
    u = stream.fold(0).uniform(_DOUBLE) - 0.5
    near = stream.xp.maximum(0.5 - abs(u), math.ldexp(1, -60))  # a divisor, so not 0
    return u, stream.fold(1).uniform(_DOUBLE), near


def _invert(stream: Stream, first: Any, ratio: Callable[[int], Any]) -> Any:
    """Draw numbers by inversion: count up while the sum of probabilities is at most a uniform.

    Args:
      stream: the stream of the elements.
      first: the probability of 0.
      ratio: takes k; returns the probability of k divided by that of k - 1.
    """
    xp = stream.xp
    uniform = stream.fold(_BOOST).uniform(_DOUBLE)
    probability, total, value = first, first, xp.zeros_like(first)
    for k in range(1, 128):  # for means below 10 the rest is far below 2**-53
        above = (uniform >= total) & (probability > 1e-18)
        if xp is np and not above.any():
            break
        value += above
        probability = probability * ratio(k)
        total = total + probability
    return value


def log_factorial(xp: Any, n: Any) -> Any:
    """Compute log(n!) of float64 integers of at least 0, by a table, then Stirling's series."""
    x = xp.maximum(n, 15.0) + 1
    inverse = 1 / (x * x)
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse / 1680))) / x
    large = (x - 0.5) * xp.log(x) - x + 0.5 * math.log(2 * math.pi) + series
    table = xp.asarray(_FACTORIALS)
    return xp.where(n < 16, table[xp.clip(n, 0, 15).astype(np.int64)], large)


_FACTORIALS = np.array([math.lgamma(n + 1) for n in range(16)])
