"""Special functions of each element: those that SciPy has as ufuncs.

SciPy says what types they have, but for float16 and bfloat16, which stay what they are: they are
worked out in single precision. On the host SciPy computes them, on GPUs CuPy does.
"""

from __future__ import annotations

from typing import Any, Protocol

from gpushard.array import Array
from gpushard.functions.docstrings import named
from gpushard.numpy import ufuncs
from gpushard.numpy.arguments import settle
from gpushard.runtime.namespace import special_ufunc

__all__ = [
    "bdtr", "bdtrc", "bdtri", "beta", "betainc", "betaincc", "betainccinv", "betaincinv",
    "betaln", "binom", "boxcox", "boxcox1p", "cbrt", "chdtr", "chdtrc", "chdtri", "cosdg",
    "cosm1", "cotdg", "digamma", "ellipk", "ellipkm1", "entr", "erf", "erfc", "erfcinv",
    "erfcx", "erfinv", "exp1", "exp2", "exp10", "expi", "expit", "expm1", "expn", "exprel",
    "fdtr", "fdtrc", "fdtri", "gamma", "gammainc", "gammaincc", "gammainccinv", "gammaincinv",
    "gammaln", "gammasgn", "gdtr", "gdtrc", "huber", "hyp1f1", "i0", "i0e", "i1", "i1e",
    "inv_boxcox", "inv_boxcox1p", "j0", "j1", "k0", "k0e", "k1", "k1e", "kl_div", "log1p",
    "log_expit", "log_ndtr", "loggamma", "logit", "lpmv", "nbdtr", "nbdtrc", "nbdtri", "ndtr",
    "ndtri", "pdtr", "pdtrc", "pdtri", "poch", "pseudo_huber", "psi", "radian", "rel_entr",
    "rgamma", "sindg", "spence", "stdtr", "stdtrit", "tandg", "xlog1py", "xlogy", "y0", "y1",
    "yn", "zetac",
]  # fmt: skip

_DETAILS = """

Args:
  {operands}: arrays, or what `asarray` takes.
  out_sharding: where the result goes; by default it stays where it was made.

Raises:
  MissingLibraryError: SciPy is not installed.
"""


class Unary(Protocol):
    """A function of one operand."""

    def __call__(self, x: Any, /, *, out_sharding: Any = None) -> Array:
        """Do the operation."""


class Binary(Protocol):
    """A function of two operands."""

    def __call__(self, x1: Any, x2: Any, /, *, out_sharding: Any = None) -> Array:
        """Do the operation."""


class Ternary(Protocol):
    """A function of three operands."""

    def __call__(self, x1: Any, x2: Any, x3: Any, /, *, out_sharding: Any = None) -> Array:
        """Do the operation."""


def _call(name: str, xs: tuple[Any, ...], out_sharding: Any) -> Any:
    ufunc = special_ufunc(name)
    return settle(ufuncs.call(ufunc, xs, out_sharding=out_sharding), out_sharding)


def _unary(name: str, text: str) -> Unary:
    def function(x: Any, /, *, out_sharding: Any = None) -> Array:
        return _call(name, (x,), out_sharding)

    return named(function, name, text + _DETAILS.format(operands="x"))


def _binary(name: str, text: str) -> Binary:
    def function(x1: Any, x2: Any, /, *, out_sharding: Any = None) -> Array:
        return _call(name, (x1, x2), out_sharding)

    return named(function, name, text + _DETAILS.format(operands="x1, x2"))


def _ternary(name: str, text: str) -> Ternary:
    def function(x1: Any, x2: Any, x3: Any, /, *, out_sharding: Any = None) -> Array:
        return _call(name, (x1, x2, x3), out_sharding)

    return named(function, name, text + _DETAILS.format(operands="x1, x2, x3"))


erf = _unary("erf", "Return the error function.")
erfc = _unary("erfc", "Return 1 less the error function.")
erfcx = _unary("erfcx", "Return exp(x**2) times 1 less the error function.")
erfinv = _unary("erfinv", "Return the inverse of the error function.")
erfcinv = _unary("erfcinv", "Return the inverse of `erfc`.")
gamma = _unary("gamma", "Return the gamma function.")
gammaln = _unary("gammaln", "Return the logarithm of the size of the gamma function.")
loggamma = _unary("loggamma", "Return the principal branch of the logarithm of the gamma function.")
rgamma = _unary("rgamma", "Return 1 over the gamma function.")
gammasgn = _unary("gammasgn", "Return the sign of the gamma function.")
digamma = _unary("digamma", "Return the derivative of the logarithm of the gamma function.")
psi = digamma
poch = _binary("poch", "Return gamma(x1 + x2) / gamma(x1).")
gammainc = _binary(
    "gammainc", "Return the lower incomplete gamma function, as a share of gamma(x1), up to x2."
)
gammaincc = _binary("gammaincc", "Return 1 less `gammainc`.")
gammaincinv = _binary("gammaincinv", "Return the inverse of `gammainc` in its second operand.")
gammainccinv = _binary("gammainccinv", "Return the inverse of `gammaincc` in its second operand.")
beta = _binary("beta", "Return the beta function.")
betaln = _binary("betaln", "Return the logarithm of the size of the beta function.")
betainc = _ternary(
    "betainc", "Return the incomplete beta function of x1, x2, as a share of all, up to x3."
)
betaincinv = _ternary("betaincinv", "Return the inverse of `betainc` in its third operand.")
binom = _binary("binom", "Return the binomial coefficient of x1 over x2 as a float.")
expit = _unary("expit", "Return the logistic function, 1 / (1 + exp(-x)).")
logit = _unary("logit", "Return log(x / (1 - x)), the inverse of `expit`.")
log_expit = _unary("log_expit", "Return the logarithm of `expit`.")
exp1 = _unary("exp1", "Return the exponential integral E1.")
expi = _unary("expi", "Return the exponential integral Ei.")
exp2 = _unary("exp2", "Return 2 to the power of each element.")
exp10 = _unary("exp10", "Return 10 to the power of each element.")
expm1 = _unary("expm1", "Return e to the power of each element, less 1.")
log1p = _unary("log1p", "Return the logarithm of 1 plus each element.")
cbrt = _unary("cbrt", "Return the cube root of each element.")
xlogy = _binary("xlogy", "Return x1 * log(x2), and 0 where x1 is 0.")
xlog1py = _binary("xlog1py", "Return x1 * log(1 + x2), and 0 where x1 is 0.")
entr = _unary("entr", "Return -x * log(x), 0 for 0, and -inf for negative numbers.")
rel_entr = _binary("rel_entr", "Return x1 * log(x1 / x2), as relative entropy has it.")
kl_div = _binary("kl_div", "Return x1 * log(x1 / x2) - x1 + x2.")
huber = _binary("huber", "Return the Huber loss of x2, which is linear beyond x1.")
pseudo_huber = _binary("pseudo_huber", "Return the smooth Huber loss of x2, of slope x1.")
ndtr = _unary("ndtr", "Return the share of a normal distribution up to each element.")
ndtri = _unary("ndtri", "Return the inverse of `ndtr`.")
log_ndtr = _unary("log_ndtr", "Return the logarithm of `ndtr`.")
i0 = _unary("i0", "Return the modified Bessel function of the first kind, of order 0.")
i0e = _unary("i0e", "Return exp(-abs(x)) * i0(x).")
i1 = _unary("i1", "Return the modified Bessel function of the first kind, of order 1.")
i1e = _unary("i1e", "Return exp(-abs(x)) * i1(x).")
j0 = _unary("j0", "Return the Bessel function of the first kind, of order 0.")
j1 = _unary("j1", "Return the Bessel function of the first kind, of order 1.")
k0 = _unary("k0", "Return the modified Bessel function of the second kind, of order 0.")
k0e = _unary("k0e", "Return exp(x) * k0(x).")
k1 = _unary("k1", "Return the modified Bessel function of the second kind, of order 1.")
k1e = _unary("k1e", "Return exp(x) * k1(x).")
y0 = _unary("y0", "Return the Bessel function of the second kind, of order 0.")
y1 = _unary("y1", "Return the Bessel function of the second kind, of order 1.")
yn = _binary("yn", "Return the Bessel function of the second kind, of integer order x1.")
expn = _binary("expn", "Return the exponential integral of order x1.")
exprel = _unary("exprel", "Return (exp(x) - 1) / x, and 1 for 0.")
zetac = _unary("zetac", "Return the Riemann zeta function less 1.")
spence = _unary("spence", "Return Spence's function, the dilogarithm of 1 - x.")
ellipk = _unary("ellipk", "Return the complete elliptic integral of the first kind.")
ellipkm1 = _unary("ellipkm1", "Return `ellipk` of 1 - x, precise where x is near 0.")
hyp1f1 = _ternary("hyp1f1", "Return the confluent hypergeometric function 1F1(x1, x2; x3).")
lpmv = _ternary(
    "lpmv", "Return the associated Legendre function of integer order x1 and degree x2 at x3."
)
boxcox = _binary("boxcox", "Return (x1**x2 - 1) / x2, and log(x1) where x2 is 0.")
boxcox1p = _binary("boxcox1p", "Return `boxcox` of 1 + x1.")
inv_boxcox = _binary("inv_boxcox", "Return the inverse of `boxcox` in its first operand.")
inv_boxcox1p = _binary("inv_boxcox1p", "Return the inverse of `boxcox1p` in its first operand.")
cosm1 = _unary("cosm1", "Return the cosine of each element, less 1.")
cosdg = _unary("cosdg", "Return the cosine of degrees.")
sindg = _unary("sindg", "Return the sine of degrees.")
tandg = _unary("tandg", "Return the tangent of degrees.")
cotdg = _unary("cotdg", "Return the cotangent of degrees.")
radian = _ternary("radian", "Return x1 degrees, x2 minutes and x3 seconds as radians.")
betaincc = _ternary("betaincc", "Return 1 less `betainc`.")
betainccinv = _ternary("betainccinv", "Return the inverse of `betaincc` in its third operand.")
bdtr = _ternary("bdtr", "Return the share of a binomial distribution of x2, x3 up to x1.")
bdtrc = _ternary("bdtrc", "Return 1 less `bdtr`.")
bdtri = _ternary("bdtri", "Return the chance for which `bdtr` of x1 and x2 is x3.")
nbdtr = _ternary("nbdtr", "Return the share of a negative binomial distribution up to x1.")
nbdtrc = _ternary("nbdtrc", "Return 1 less `nbdtr`.")
nbdtri = _ternary("nbdtri", "Return the chance for which `nbdtr` of x1 and x2 is x3.")
chdtr = _binary("chdtr", "Return the share of a chi-squared distribution of x1 degrees up to x2.")
chdtrc = _binary("chdtrc", "Return 1 less `chdtr`.")
chdtri = _binary("chdtri", "Return the inverse of `chdtrc` in its second operand.")
fdtr = _ternary("fdtr", "Return the share of an F distribution of x1 and x2 degrees up to x3.")
fdtrc = _ternary("fdtrc", "Return 1 less `fdtr`.")
fdtri = _ternary("fdtri", "Return the inverse of `fdtr` in its third operand.")
gdtr = _ternary("gdtr", "Return the share of a gamma distribution of rate x1, shape x2 up to x3.")
gdtrc = _ternary("gdtrc", "Return 1 less `gdtr`.")
pdtr = _binary("pdtr", "Return the share of a Poisson distribution of mean x2 up to x1.")
pdtrc = _binary("pdtrc", "Return 1 less `pdtr`.")
pdtri = _binary("pdtri", "Return the mean for which `pdtr` of x1 is x2.")
stdtr = _binary("stdtr", "Return the share of Student's t distribution of x1 degrees up to x2.")
stdtrit = _binary("stdtrit", "Return the inverse of `stdtr` in its second operand.")
