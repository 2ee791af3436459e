"""Special functions composed of others, and sums of exponentials, merged over devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions import elementwise as ew
from gpushard._functions import softmax as sm
from gpushard._functions import special
from gpushard._functions.docstrings import described
from gpushard._ops.scalars import is_number
from gpushard._placement.arguments import as_value, operands, settle
from gpushard._placement.public_functions import public, public_array
from gpushard.dtypes import finfo
from gpushard.errors import ArgumentError
from gpushard.special.ufuncs import binom

__all__ = [
    "comb", "factorial", "log_softmax", "logsumexp", "multigammaln", "polygamma", "sinc", "softmax",
    "zeta",
]  # fmt: skip


@described()
def zeta(x: Any, q: Any = None, /, *, out_sharding: Any = None) -> Array:
    """Compute the Hurwitz zeta function: the sum of (k + q) ** -x over k from 0.

    Args:
      x: the powers, an array; greater than 1 if `q` is given.
      q: the numbers that are added to k, an array. None means 1: the Riemann zeta function.

    Raises:
      MissingLibraryError: SciPy is not installed.
    """
    return settle(special.zeta(*operands("zeta", x, *(() if q is None else (q,)))), out_sharding)


@described()
def polygamma(n: Any, x: Any, /, *, out_sharding: Any = None) -> Array:
    """Compute the n-th derivative of `digamma`.

    Args:
      n: the orders of the derivatives: non-negative integers, or floats with integral values and
        the dtype of `x`.
      x: an array.

    Raises:
      MissingLibraryError: SciPy is not installed.
    """
    x, n = as_value(x, "polygamma"), as_value(n, "polygamma")
    return settle(special.polygamma(n, x), out_sharding)


_MOST_DIMENSIONS = 1 << 20
"""`multigammaln` adds one array for each dimension."""


@public
def multigammaln(a: Any, d: Any, /, *, out_sharding: Any = None) -> Array:
    """Compute the logarithm of the multivariate gamma function.

    Args:
      a: an array. For elements that are not greater than (d - 1) / 2, the result is NaN.
      d: the dimension, a positive integer.

    Raises:
      ArgumentError: the dimension is not a positive integer, or is more than 2**20.
      MissingLibraryError: SciPy is not installed.
    """
    if not is_number(d) or np.asarray(d).dtype.kind not in "iuf" or d % 1 or d < 1:
        raise ArgumentError.refusing(
            "d", d, "must be a positive integer, the dimension", "multigammaln"
        )
    if d > _MOST_DIMENSIONS:
        raise ArgumentError.refusing(
            "d",
            d,
            f"is more than {_MOST_DIMENSIONS}, and each takes a logarithm; use a smaller dimension",
            "multigammaln",
            most=_MOST_DIMENSIONS,
        )
    dims = int(d)
    total = special.gammaln(a)
    for j in range(1, dims):
        total = total + special.gammaln(a - j / 2)
    total = total + dims * (dims - 1) / 4 * np.log(np.pi)  # in double precision, as SciPy's
    return special.in_type_of(a, ew.where(a > (dims - 1) / 2, total, np.nan))


@public(arrays=2)
def comb(N: Any, k: Any, /, *, out_sharding: Any = None) -> Array:
    """Compute how many ways there are to choose `k` of `N` things, as a float.

    Args:
      N: the number of things.
      k: the number of things to choose. If it is negative or more than `N`, the result is 0.

    Raises:
      MissingLibraryError: SciPy is not installed.
    """
    possible = (k <= N) & (N >= 0) & (k >= 0)
    return ew.where(possible, binom(N, k), 0.0)


@public
def factorial(n: Any, /, *, out_sharding: Any = None) -> Array:
    """Compute factorials as floats: gamma(n + 1), or 0 if n is negative.

    Args:
      n: an array.

    Raises:
      MissingLibraryError: SciPy is not installed.
    """
    return ew.where(n < 0, 0.0, special.gamma(n + 1.0))


@public
def sinc(x: Any, /, *, out_sharding: Any = None) -> Array:
    """Compute sin(pi * x) / (pi * x), or 1 if x is 0."""
    x = x * np.pi
    y = ew.where(x == 0, float(finfo(x.dtype).eps), x)
    return ew.sin(y) / y


@described()
def logsumexp(
    x: Any,
    /,
    axis: Any = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    *,
    out_sharding: Any = None,
) -> Array:
    """Compute the logarithm of a sum of exponentials, without overflow.

    Args:
      x: an array.
      axis: the axes to sum over, an integer or a tuple of integers; all by default.
      b: factors of the exponentials, which broadcast with `x`; 1 by default.
      return_sign: whether to return a pair: the logarithm of the absolute value of the sum, and the
        sign of the sum. If False, the result is NaN if the sum is negative.

    >>> import gpushard as gs
    >>> logsumexp(gs.numpy.asarray([1000.0, 1000.0])) - 1000
    Array(0.69314718, dtype=float64)
    """
    weights = None if b is None else as_value(b, "logsumexp")
    how = axis, weights, keepdims, return_sign
    return settle(sm.logsumexp(as_value(x, "logsumexp"), *how, out_sharding), out_sharding)


softmax = public_array(sm.softmax)
log_softmax = public_array(sm.log_softmax)
