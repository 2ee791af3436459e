"""The error function and its inverse, which NumPy lacks, by operations of NumPy and CuPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._ops.prng import erfinv_coefficients


def _polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """Evaluate a polynomial, highest power first, in the type of `x`."""
    value = x * x.dtype.type(coefficients[0])
    value += x.dtype.type(coefficients[1])
    for coefficient in coefficients[2:]:
        value *= x
        value += x.dtype.type(coefficient)
    return value


def erfinv(xp: Any, x: Any) -> Any:
    """Compute the inverse error function of float32 or float64.

    Source: Giles, "Approximating the erfinv function" (GPU Computing Gems, 2012), with XLA's
    logarithm, so normal numbers equal JAX's.
    """
    w = x * x
    xp.negative(w, w)
    xp.log1p(w, w)
    xp.negative(w, w)
    near, *tails = (
        erfinv_coefficients.SINGLE if x.dtype == np.float32 else erfinv_coefficients.DOUBLE
    )
    value = _polynomial(near.coefficients, w - x.dtype.type(near.shift))
    for tail in tails:
        shift = x.dtype.type(tail.shift)
        if xp is np:  # only if needed; on a GPU the test would stop the stream
            which = np.flatnonzero(w >= tail.edge)
            value[which] = _polynomial(tail.coefficients, np.sqrt(w[which]) - shift)
        else:
            far = _polynomial(tail.coefficients, xp.sqrt(w) - shift)
            value = xp.where(w >= tail.edge, far, value)
    value *= x
    infinity = x.dtype.type(np.inf)
    if xp is np:
        ends = np.flatnonzero(w == infinity)
        value[ends] = x[ends] * infinity
        return value
    return xp.where(w == infinity, x * infinity, value)


def erf(xp: Any, x: Any) -> Any:
    """Compute the error function in float64.

    Near 0 it uses the series of positive terms, elsewhere Laplace's continued fraction (Abramowitz
    and Stegun, 7.1.6 and 7.1.14).
    """
    size = xp.minimum(abs(x).astype(np.float64), 6.0)
    near = xp.minimum(size, 1.5)
    term = total = near
    for n in range(1, 40):
        term = term * (2 * near * near / (2 * n + 1))
        total = total + term
    inner = total * xp.exp(-near * near) * (2 / math.sqrt(math.pi))
    far = xp.maximum(size, 1.0)
    fraction = far
    for n in range(100, 0, -1):
        fraction = far + (n / 2) / fraction
    outer = 1 - xp.exp(-far * far) / (fraction * math.sqrt(math.pi))
    return (xp.sign(x) * xp.where(size < 1.5, inner, outer)).astype(x.dtype)
