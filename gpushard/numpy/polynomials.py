"""Polynomials as vectors of coefficients, from the highest power down, and their roots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import count
from gpushard._functions.host_reads import concrete
from gpushard._functions.shapes import check_vector
from gpushard._functions.values import is_traced, is_value
from gpushard._ops.bind import bind
from gpushard._ops.table.polynomials import POLY, POLYDIV
from gpushard._placement.arguments import as_value, host_data
from gpushard._placement.creation import zeros, zeros_like
from gpushard._placement.public_functions import public
from gpushard.dtypes import finfo, kind_of
from gpushard.errors import ArgumentError
from gpushard.numpy import elementwise as ew
from gpushard.numpy import statistical
from gpushard.numpy.adding_removing import trim_zeros
from gpushard.numpy.convolutions import convolve
from gpushard.numpy.joining import concat
from gpushard.numpy.linalg.decompositions import eigvals
from gpushard.numpy.linalg.solving import inv, lstsq
from gpushard.numpy.matrices import eye, vander
from gpushard.numpy.padding import pad

__all__ = [
    "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub",
    "polyval", "roots",
]  # fmt: skip


_MOST_ORDERS = 1 << 20
"""`polyint` makes one array for each order."""


def _coefficients(name: str, p: Any, argument: str) -> Any:
    """Read coefficients as a vector; a number is a constant polynomial."""
    if p.ndim > 1:
        raise ArgumentError(
            f"{name}: {argument} of shape {p.shape} must be a vector",
            argument=argument,
            shape=p.shape,
        )
    return p.ravel()


def _alike(name: str, a1: Any, a2: Any) -> list[Any]:
    """Pad the coefficients of two polynomials to one length."""
    vectors = [_coefficients(name, a, f"a{n}") for n, a in enumerate((a1, a2), 1)]
    length = max(a.shape[0] for a in vectors)
    return [pad(a, (length - a.shape[0], 0)) for a in vectors]


def _trims(trim_leading_zeros: bool | None, polynomials: Sequence[Any]) -> bool:
    """Return whether to remove leading zeros."""
    if trim_leading_zeros is None:
        return not any(map(is_traced, polynomials))
    return trim_leading_zeros


_polynomials = public(
    arrays=2,
    a1="the coefficients of the first polynomial, highest power first.",
    a2="the coefficients of the second polynomial, highest power first.",
)


@_polynomials
def polyadd(a1: Any, a2: Any, *, out_sharding: Any = None) -> Array:
    """Add two polynomials.

    >>> polyadd([1, 2], [9, 5, 4])
    Array([9, 6, 6], dtype=int64)
    """
    return ew.add(*_alike("polyadd", a1, a2))


@_polynomials
def polysub(a1: Any, a2: Any, *, out_sharding: Any = None) -> Array:
    """Subtract the second polynomial from the first."""
    return ew.subtract(*_alike("polysub", a1, a2))


@_polynomials
def polymul(
    a1: Any, a2: Any, *, trim_leading_zeros: bool | None = None, out_sharding: Any = None
) -> Array:
    """Multiply two polynomials.

    Args:
      trim_leading_zeros: whether to remove leading zeros of the operands first; the host then waits
        to count them. None removes them unless an operand is traced, since the shape of a traced
        result cannot depend on values.

    >>> polymul([1, 2], [1, -2])
    Array([ 1,  0, -4], dtype=int64)
    """
    factors = [_coefficients("polymul", a, f"a{n}") for n, a in enumerate((a1, a2), 1)]
    if _trims(trim_leading_zeros, factors):
        factors = [trim_zeros(a, "f") for a in factors]
    first, second = (a if a.shape[0] else zeros(1, a.dtype) for a in factors)
    return convolve(first, second)


@public(arrays=2)
def polydiv(
    u: Any, v: Any, *, trim_leading_zeros: bool | None = None, out_sharding: Any = None
) -> tuple[Array, Array]:
    """Divide two polynomials.

    Args:
      u: the coefficients of the dividend, highest power first.
      v: the coefficients of the divisor, highest power first; the first must not be 0.
      trim_leading_zeros: whether to remove leading zeros of the remainder; the host then waits to
        count them. None removes them unless an operand is traced, since the shape of a traced
        result cannot depend on values.

    Returns:
      The coefficients of the quotient and of the remainder. If zeros are not removed, the remainder
      is as long as `u`.

    Raises:
      ArgumentError: an operand has no coefficients.

    >>> polydiv([3, 5, 2], [2, 1])
    (Array([1.5 , 1.75], dtype=float64), Array([0.25], dtype=float64))
    """
    vectors = [_coefficients("polydiv", p, name) for p, name in ((u, "u"), (v, "v"))]
    for p, name in zip(vectors, "uv", strict=True):
        if not p.shape[0]:
            raise ArgumentError(
                f"polydiv: {name} has no coefficients; give one at least", argument=name
            )
    quotient, rest = bind(POLYDIV, [p + 0.0 for p in vectors])
    if _trims(trim_leading_zeros, vectors) and rest.shape[0] > 1:
        large = ew.abs(rest) > 1e-8
        first = ew.where(statistical.any(large), statistical.argmax(large), rest.shape[0] - 1)
        rest = rest[concrete(first, "polydiv").item() :]
    return quotient, rest


@public
def polyder(p: Any, m: int = 1, *, out_sharding: Any = None) -> Array:
    """Differentiate a polynomial.

    Args:
      p: the coefficients, highest power first.
      m: how often to differentiate.

    Raises:
      ArgumentError: `m` is negative.

    >>> polyder([1, 1, 1, 1])
    Array([3, 2, 1], dtype=int64)
    """
    derivative = _coefficients("polyder", p, "p")
    times = count(m, "polyder", "m")
    for _ in range(min(times, max(derivative.shape[0], 1))):  # after so many there is no term left
        derivative = derivative[:-1] * np.arange(derivative.shape[0] - 1, 0, -1)
    return derivative


@public
def polyint(p: Any, m: int = 1, k: Any = None, *, out_sharding: Any = None) -> Array:
    """Integrate a polynomial.

    Args:
      p: the coefficients, highest power first.
      m: how often to integrate.
      k: the constants of integration, one for each integration, or one for all; 0 by default.

    Raises:
      ArgumentError: `m` is negative or more than 2**20, or there are too few constants.

    >>> polyint([3, 2, 1])
    Array([1., 1., 1., 0.], dtype=float64)
    """
    integral = _coefficients("polyint", p, "p")
    times = count(m, "polyint", "m")
    if times > _MOST_ORDERS:
        raise ArgumentError.refusing(
            "m",
            times,
            f"is more than {_MOST_ORDERS}, and the result has a term for each; use a smaller order",
            "polyint",
            most=_MOST_ORDERS,
        )
    constants = _coefficients("polyint", as_value(0.0 if k is None else k, "polyint"), "k")
    if constants.shape[0] != 1 and constants.shape[0] < times:
        raise ArgumentError(
            f"polyint: k has {constants.shape[0]} constants for m={times}; give one, or {times}",
            argument="k",
            shape=constants.shape,
        )
    several = constants.shape[0] > 1
    for n in range(times):
        constant = constants[n : n + 1] if several else constants
        integral = concat([integral / np.arange(integral.shape[0], 0, -1), constant])
    return integral


@public()
def polyval(p: Any, x: Any, *, out_sharding: Any = None) -> Array:
    """Evaluate a polynomial by Horner's rule.

    Args:
      p: the coefficients, a vector, highest power first.
      x: the points at which to evaluate, an array.

    Raises:
      ArgumentError: the coefficients are not a vector.

    >>> polyval([1, 0, 2], [3, 4])
    Array([11, 18], dtype=int64)
    """
    coefficients = p if is_value(p) else host_data(p, "polyval")
    check_vector("polyval", "p", coefficients)
    x = as_value(x, "polyval")
    values = zeros_like(x)
    for at in np.arange(coefficients.shape[0]).tolist():
        values = values * x + coefficients[at]
    return values


@public(arrays=2)
def polyfit(
    x: Any,
    y: Any,
    deg: int,
    rcond: Any = None,
    full: bool = False,
    w: Any = None,
    cov: Any = False,
    *,
    out_sharding: Any = None,
) -> Any:
    """Fit a polynomial to points by least squares.

    gpushard does not warn if the points do not determine the polynomial. To check that, compare the
    rank that `full=True` returns with deg + 1.

    Args:
      x: the positions of the points, a vector.
      y: the values at these positions: a vector, or a matrix with a column for each polynomial to
        fit.
      deg: the highest power.
      rcond: singular values below this number times the greatest one count as 0. The default
        is the number of points times `finfo(dtype).eps`, for the floating-point dtype of `x`.
      full: whether to also return the sums of squared residuals, the rank, the singular values and
        `rcond`.
      w: weights of the points, a vector.
      cov: whether to also return the covariance matrix of the coefficients, scaled by the variance
        of the residuals. Pass "unscaled" to omit this scaling, if each weight is 1 / standard
        deviation of its point.

    Raises:
      ArgumentError: the shapes do not match, `deg` is negative, or there are too few points for
        `cov`.

    >>> x = np.arange(4.0)
    >>> np.asarray(polyfit(x, 2 * x + 1, 1)).round(6).tolist()
    [2.0, 1.0]
    """
    order = count(deg, "polyfit", "deg") + 1
    x, y = x + 0.0, y + 0.0
    _check_points(x, y)
    left, right = vander(x, order), y
    if w is not None:
        heavy = _coefficients("polyfit", as_value(w, "polyfit"), "w") + 0.0
        if heavy.shape != x.shape:
            raise ArgumentError(
                f"polyfit: w of shape {heavy.shape} must have a weight for each of {x.shape[0]} "
                "points",
                argument="w",
                shape=heavy.shape,
            )
        left = left * heavy[:, None]
        right = right * (heavy if right.ndim == 1 else heavy[:, None])
    scale = ew.sqrt((left * left).sum(0))
    left = left / scale
    share = x.shape[0] * float(finfo(x.dtype).eps) if rcond is None else rcond
    solution, sums, rank, values = lstsq(left, right, share)
    solution = (solution.T / scale).T
    if full:
        return (*(solution, sums, rank, values), share)
    if not cov:
        return solution
    spread = inv(left.T @ left) / (scale[:, None] * scale)
    spread = spread if y.ndim == 1 else spread[:, :, None]
    if isinstance(cov, str) and cov == "unscaled":
        return (solution, spread)
    if x.shape[0] <= order:
        raise ArgumentError(
            f"polyfit: {x.shape[0]} points are too few for the covariance of {order} coefficients; "
            'give more points, or cov="unscaled"',
            argument="cov",
            shape=x.shape,
        )
    return (solution, spread * (sums / (x.shape[0] - order)))


def _check_points(x: Any, y: Any) -> None:
    if x.ndim != 1 or y.ndim not in (1, 2) or x.shape[0] != y.shape[0] or not x.shape[0]:
        raise ArgumentError(
            f"polyfit: x of shape {x.shape} and y of shape {y.shape} must be a vector of points, "
            "and their values, one in each row",
            argument="y",
            shapes=(x.shape, y.shape),
        )


@public
def poly(seq_of_zeros: Any, *, out_sharding: Any = None) -> Array:
    """Compute the coefficients of the polynomial with given roots, highest power first.

    For complex roots, the coefficients are always complex; NumPy may return real ones.

    Args:
      seq_of_zeros: the roots, a vector; or a square matrix, to compute its characteristic
        polynomial.

    Raises:
      ArgumentError: the array is neither a vector nor a square matrix.

    >>> poly([1.0, 2.0])
    Array([ 1., -3.,  2.], dtype=float64)
    """
    zeros = seq_of_zeros
    if zeros.ndim == 2 and zeros.shape[0] == zeros.shape[1] and zeros.shape[0]:
        zeros = eigvals(zeros)
    if zeros.ndim != 1:
        raise ArgumentError(
            f"poly: roots of shape {zeros.shape} must be a vector, or a square matrix",
            argument="seq_of_zeros",
            shape=zeros.shape,
        )
    return bind(POLY, (zeros if kind_of(zeros.dtype) in "fc" else zeros.astype(np.float64),))


@public
def roots(p: Any, *, strip_zeros: bool = True, out_sharding: Any = None) -> Array:
    """Compute the complex roots of a polynomial, as eigenvalues of its companion matrix.

    Args:
      p: the coefficients, highest power first.
      strip_zeros: whether to remove leading and trailing zeros first; the host then waits to count
        them. If False, the first coefficient must not be 0.

    Raises:
      ArgumentError: the coefficients are not a vector.

    >>> np.sort_complex(np.asarray(roots([1, -3, 2]))).tolist()
    [(1+0j), (2+0j)]
    """
    p = _coefficients("roots", p, "p")
    p = p if kind_of(p.dtype) in "fc" else p.astype(np.float64)
    zero = 0
    if strip_zeros:
        p = trim_zeros(p, "f")
        zero = p.shape[0]
        p = trim_zeros(p, "b")
        zero -= p.shape[0]
    degree = max(p.shape[0] - 1, 0)
    complex_type = np.result_type(p.dtype, np.complex64)
    if not degree:
        return zeros(zero, complex_type)
    companion = concat([(-p[1:] / p[0])[None], eye(degree - 1, degree, dtype=p.dtype)])
    values = eigvals(companion)
    return pad(values, (0, zero)) if zero else values
