"""Special functions made of others, and sums of exponentials, merged over devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.dtypes import finfo, kind_of
from gpushard.errors import ArgumentError
from gpushard.functions.docstrings import described
from gpushard.functions.values import wanted
from gpushard.numpy import elementwise as ew
from gpushard.numpy.arguments import as_value, operands, settle
from gpushard.numpy.manipulation import broadcast_arrays
from gpushard.numpy.public import public
from gpushard.ops.axes import from_end
from gpushard.ops.bind import bind
from gpushard.ops.scalars import is_number
from gpushard.ops.table.special import LOGSUMEXP, ZETA
from gpushard.special.ufuncs import binom, digamma, gamma, gammaln

__all__ = [
    "comb", "factorial", "log_softmax", "logsumexp", "multigammaln", "polygamma", "sinc", "softmax",
    "zeta",
]  # fmt: skip


def _of_type(result: Any, x: Any) -> Any:
    """Return what was worked out with more digits in the type of an array of floats."""
    return result if kind_of(x.dtype) != "f" else result.astype(x.dtype)


@described()
def zeta(x: Any, q: Any = None, /, *, out_sharding: Any = None) -> Array:
    """Return the Hurwitz zeta function: the sum of (k + q) ** -x over k from 0.

    Args:
      x: powers; greater than 1 where there is a first term.
      q: the first term; None for the Riemann zeta function, whose first term is 1.

    Raises:
      MissingLibraryError: SciPy is not installed.
    """
    return settle(bind(ZETA, operands("zeta", x, *(() if q is None else (q,)))), out_sharding)


@described()
def polygamma(n: Any, x: Any, /, *, out_sharding: Any = None) -> Array:
    """Return derivatives of `digamma`.

    Args:
      n: which, integers that are not negative; floats if they are of the type of `x`.

    Raises:
      MissingLibraryError: SciPy is not installed.
    """
    x, n = as_value(x, "polygamma"), as_value(n, "polygamma")
    values = ew.float_power(-1.0, n + 1) * gamma(n + 1.0) * zeta(n + 1, x)
    return settle(_of_type(ew.where(n == 0, digamma(x), values), x), out_sharding)


_MOST_DIMENSIONS = 1 << 20
"""`multigammaln` adds one array for each dimension."""


@public
def multigammaln(a: Any, d: Any, /, *, out_sharding: Any = None) -> Array:
    """Return the logarithm of the multivariate gamma function.

    Args:
      a: an array; where it is not greater than (d - 1) / 2, the result is NaN.
      d: the dimension, a positive integer.

    Raises:
      ArgumentError: the dimension is no positive integer, or more than 2**20.
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
    total = gammaln(a)
    for j in range(1, dims):
        total = total + gammaln(a - j / 2)
    total = total + dims * (dims - 1) / 4 * np.log(np.pi)  # in double precision, as SciPy's
    return _of_type(ew.where(a > (dims - 1) / 2, total, np.nan), a)


@public(arrays=2)
def comb(N: Any, k: Any, /, *, out_sharding: Any = None) -> Array:
    """Return in how many ways `k` of `N` things are chosen, as floats; 0 where there are none.

    Args:
      N: how many things there are.
      k: how many are chosen.

    Raises:
      MissingLibraryError: SciPy is not installed.
    """
    possible = (k <= N) & (N >= 0) & (k >= 0)
    return ew.where(possible, binom(N, k), 0.0)


@public
def factorial(n: Any, /, *, out_sharding: Any = None) -> Array:
    """Return factorials as floats: gamma(n + 1), and 0 for negative numbers.

    Args:
      n: an array.

    Raises:
      MissingLibraryError: SciPy is not installed.
    """
    return ew.where(n < 0, 0.0, gamma(n + 1.0))


@public
def sinc(x: Any, /, *, out_sharding: Any = None) -> Array:
    """Return sin(pi * x) / (pi * x), and 1 for 0."""
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
    """Return the logarithm of a sum of exponentials, without overflow.

    Args:
      x: exponents.
      axis: the dims that are summed; all by default.
      b: weights of the exponentials, which broadcast with them.
      return_sign: whether to return the logarithm of the sum's size, and its sign; without it the
        logarithm of a negative sum is NaN.

    >>> import gpushard as gs
    >>> logsumexp(gs.numpy.asarray([1000.0, 1000.0])) - 1000
    Array(0.69314718, dtype=float64)
    """
    x = as_value(x, "logsumexp")
    operands = [x] if b is None else list(broadcast_arrays(x, as_value(b, "logsumexp")))
    axes = from_end(axis, operands[0].ndim, "logsumexp")
    to = wanted(out_sharding, *operands)
    logarithm = bind(LOGSUMEXP, operands, (axes, bool(keepdims), bool(return_sign)), to)
    if not return_sign:
        return settle(logarithm, out_sharding)
    kept = logarithm if keepdims else bind(LOGSUMEXP, operands, (axes, True, True))
    terms = ew.exp(operands[0] - ew.where(ew.isfinite(kept), kept.real, 0))
    terms = terms if b is None else operands[1] * terms
    total = terms.sum(axes, keepdims=keepdims)
    return settle((logarithm, ew.sign(total)), out_sharding)


def _inexact(x: Any) -> Any:
    """Return an array; integers in double precision."""
    return x if kind_of(x.dtype) in "fc" else x.astype(np.float64)


@public
def softmax(x: Any, /, axis: Any = None, *, out_sharding: Any = None) -> Array:
    """Return exponentials divided by their sum.

    Args:
      x: exponents.
      axis: the dims that are summed over; all by default.

    >>> import gpushard as gs
    >>> softmax(gs.numpy.asarray([0.0, 0.0]))
    Array([0.5, 0.5], dtype=float64)
    """
    x = _inexact(x)
    axes = from_end(axis, x.ndim, "softmax")
    if not x.size:
        return x
    terms = ew.exp(x - x.max(axes, keepdims=True))
    return terms / terms.sum(axes, keepdims=True)


@public
def log_softmax(x: Any, /, axis: Any = None, *, out_sharding: Any = None) -> Array:
    """Return the logarithm of `softmax`.

    Args:
      x: exponents.
      axis: the dims that are summed over; all by default.
    """
    x = _inexact(x)
    axes = from_end(axis, x.ndim, "log_softmax")
    if not x.size:
        return x
    most = x.max(axes, keepdims=True)
    less = x - ew.where(ew.isfinite(most), most, 0)
    return less - ew.log(ew.exp(less).sum(axes, keepdims=True))
