"""Special functions: the ufuncs of SciPy that `gpushard.lax` has, too.

On the host SciPy computes them, on GPUs CuPy does.
"""

from __future__ import annotations

from typing import Any

from gpushard._functions import elementwise as ew
from gpushard._functions.elementwise import Ufunc
from gpushard._ops.bind import bind
from gpushard._ops.table.special import ZETA
from gpushard.dtypes import kind_of

erf = Ufunc("erf", "Compute the error function.")
erfc = Ufunc("erfc", "Compute 1 - erf(x), the complementary error function.")
erfinv = Ufunc("erfinv", "Compute the inverse of the error function.")
gamma = Ufunc("gamma", "Compute the gamma function.")
gammaln = Ufunc("gammaln", "Compute the logarithm of the absolute value of the gamma function.")
digamma = Ufunc("psi", "Compute the derivative of the logarithm of the gamma function.")
gammainc = Ufunc("gammainc", "Compute the regularized lower incomplete gamma function P(x1, x2).")
gammaincc = Ufunc("gammaincc", "Compute the regularized upper incomplete gamma function Q(x1, x2).")
betainc = Ufunc("betainc", "Compute the regularized incomplete beta function I(x1, x2) at x3.")
i0e = Ufunc("i0e", "Compute exp(-abs(x)) * i0(x), the scaled modified Bessel function.")
i1e = Ufunc("i1e", "Compute exp(-abs(x)) * i1(x), the scaled modified Bessel function.")


def zeta(x: Any, q: Any = None) -> Any:
    """Compute the Hurwitz zeta function: the sum of (k + q) ** -x over k from 0; q is 1 if None."""
    return bind(ZETA, (x,) if q is None else (x, q))


def polygamma(n: Any, x: Any) -> Any:
    """Compute the n-th derivative of `digamma` in the type of `x`; both are arrays."""
    derivative = ew.float_power(-1.0, n + 1) * gamma(n + 1.0) * zeta(n + 1, x)
    return in_type_of(x, ew.where(ew.equal(n, 0), digamma(x), derivative))


def in_type_of(x: Any, result: Any) -> Any:
    """Round a result that was computed with more digits to the type of an array of floats."""
    return result.astype(x.dtype) if kind_of(x.dtype) == "f" else result
