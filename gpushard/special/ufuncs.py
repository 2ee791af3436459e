"""Special functions of each element: SciPy's ufuncs.

SciPy decides their dtypes, except for float16 and bfloat16, which are computed in single precision
and keep their dtype. On the host SciPy computes them, on GPUs CuPy does.
"""

from __future__ import annotations

from typing import Any, Protocol

from gpushard._array import Array
from gpushard._functions import elementwise, special
from gpushard._functions.docstrings import named
from gpushard._functions.values import wanted
from gpushard._ops.bind import bind
from gpushard._ops.table.elementwise import ufunc_row
from gpushard._placement.arguments import operands, settle
from gpushard._runtime.namespace import special_ufunc

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
  {operands}, or data that `asarray` converts.
  out_sharding: the sharding or `PartitionSpec` of the result; gpushard chooses by default.

Raises:
  MissingLibraryError: SciPy is not installed.
"""


class SpecialUnary(Protocol):
    """A function of one operand."""

    def __call__(self, x: Any, /, *, out_sharding: Any = None) -> Array:
        """Do the operation."""


class SpecialBinary(Protocol):
    """A function of two operands."""

    def __call__(self, x1: Any, x2: Any, /, *, out_sharding: Any = None) -> Array:
        """Do the operation."""


class SpecialTernary(Protocol):
    """A function of three operands."""

    def __call__(self, x1: Any, x2: Any, x3: Any, /, *, out_sharding: Any = None) -> Array:
        """Do the operation."""


def _call(name: str, xs: tuple[Any, ...], out_sharding: Any) -> Any:
    row, arrays = ufunc_row(special_ufunc(name)), operands(name, *xs)
    place = None if out_sharding is None else wanted(out_sharding, *arrays)
    return settle(bind(row, arrays, (), place), out_sharding)


def _unary(name: str, text: str) -> SpecialUnary:
    """Make the public function of a ufunc of one operand."""

    def function(x: Any, /, *, out_sharding: Any = None) -> Array:
        return _call(name, (x,), out_sharding)

    return named(function, name, text + _DETAILS.format(operands="x: an array"))


def _binary(name: str, text: str) -> SpecialBinary:
    """Make the public function of a ufunc of two operands."""

    def function(x1: Any, x2: Any, /, *, out_sharding: Any = None) -> Array:
        return _call(name, (x1, x2), out_sharding)

    return named(function, name, text + _DETAILS.format(operands="x1, x2: arrays that broadcast"))


def _ternary(name: str, text: str) -> SpecialTernary:
    """Make the public function of a ufunc of three operands."""

    def function(x1: Any, x2: Any, x3: Any, /, *, out_sharding: Any = None) -> Array:
        return _call(name, (x1, x2, x3), out_sharding)

    return named(
        function, name, text + _DETAILS.format(operands="x1, x2, x3: arrays that broadcast")
    )


# fmt: off
erf = _unary("erf", special.erf.text)
erfc = _unary("erfc", special.erfc.text)
erfcx = _unary("erfcx", "Compute exp(x**2) * erfc(x), the scaled complementary error function.")
erfinv = _unary("erfinv", special.erfinv.text)
erfcinv = _unary("erfcinv", "Compute the inverse of `erfc`.")
gamma = _unary("gamma", special.gamma.text)
gammaln = _unary("gammaln", special.gammaln.text)
loggamma = _unary("loggamma", "Compute the principal branch of log(gamma(x)).")
rgamma = _unary("rgamma", "Compute 1 / gamma(x).")
gammasgn = _unary("gammasgn", "Compute the sign of the gamma function: -1, 0 or 1.")
digamma = _unary("digamma", special.digamma.text)
psi = digamma
poch = _binary("poch", "Compute gamma(x1 + x2) / gamma(x1).")
gammainc = _binary("gammainc", special.gammainc.text)
gammaincc = _binary("gammaincc", special.gammaincc.text)
gammaincinv = _binary("gammaincinv", "Compute x such that gammainc(x1, x) is x2.")
gammainccinv = _binary("gammainccinv", "Compute x such that gammaincc(x1, x) is x2.")
beta = _binary("beta", "Compute the beta function, gamma(x1) * gamma(x2) / gamma(x1 + x2).")
betaln = _binary("betaln", "Compute the logarithm of the absolute value of the beta function.")
betainc = _ternary("betainc", special.betainc.text)
betaincinv = _ternary("betaincinv", "Compute x such that betainc(x1, x2, x) is x3.")
binom = _binary("binom", "Compute the binomial coefficient \"x1 choose x2\" as a float.")
expit = _unary("expit", "Compute the logistic function, 1 / (1 + exp(-x)).")
logit = _unary("logit", "Compute log(x / (1 - x)), the inverse of `expit`.")
log_expit = _unary("log_expit", "Compute the logarithm of expit(x), without underflow.")
exp1 = _unary("exp1", "Compute the exponential integral E1 of each element.")
expi = _unary("expi", "Compute the exponential integral Ei of each element.")
exp2 = _unary("exp2", elementwise.exp2.text)
exp10 = _unary("exp10", "Compute 10 to the power of each element.")
expm1 = _unary("expm1", elementwise.expm1.text)
log1p = _unary("log1p", elementwise.log1p.text)
cbrt = _unary("cbrt", elementwise.cbrt.text)
xlogy = _binary("xlogy", "Compute x1 * log(x2), or 0 if x1 is 0.")
xlog1py = _binary("xlog1py", "Compute x1 * log(1 + x2), or 0 if x1 is 0.")
entr = _unary("entr", "Compute -x * log(x): 0 if x is 0, and -inf if x is negative.")
rel_entr = _binary("rel_entr", "Compute x1 * log(x1 / x2), a term of a relative entropy.")
kl_div = _binary("kl_div", "Compute x1 * log(x1 / x2) - x1 + x2.")
huber = _binary("huber", "Compute the Huber loss of x2: linear if abs(x2) is more than x1.")
pseudo_huber = _binary(
    "pseudo_huber", "Compute the pseudo-Huber loss of x2: smooth, with slopes up to x1."
)
ndtr = _unary("ndtr", "Compute the probability that a standard normal number is at most x.")
ndtri = _unary("ndtri", "Compute the inverse of `ndtr`.")
log_ndtr = _unary("log_ndtr", "Compute the logarithm of ndtr(x), without underflow.")
i0 = _unary("i0", "Compute the modified Bessel function of the first kind, of order 0.")
i0e = _unary("i0e", special.i0e.text)
i1 = _unary("i1", "Compute the modified Bessel function of the first kind, of order 1.")
i1e = _unary("i1e", special.i1e.text)
j0 = _unary("j0", "Compute the Bessel function of the first kind, of order 0.")
j1 = _unary("j1", "Compute the Bessel function of the first kind, of order 1.")
k0 = _unary("k0", "Compute the modified Bessel function of the second kind, of order 0.")
k0e = _unary("k0e", "Compute exp(x) * k0(x), the scaled modified Bessel function.")
k1 = _unary("k1", "Compute the modified Bessel function of the second kind, of order 1.")
k1e = _unary("k1e", "Compute exp(x) * k1(x), the scaled modified Bessel function.")
y0 = _unary("y0", "Compute the Bessel function of the second kind, of order 0.")
y1 = _unary("y1", "Compute the Bessel function of the second kind, of order 1.")
yn = _binary("yn", "Compute the Bessel function of the second kind, of integer order x1, at x2.")
expn = _binary("expn", "Compute the exponential integral of order x1 at x2.")
exprel = _unary("exprel", "Compute (exp(x) - 1) / x, or 1 if x is 0.")
zetac = _unary("zetac", "Compute the Riemann zeta function minus 1.")
spence = _unary("spence", "Compute Spence's function, the dilogarithm of 1 - x.")
ellipk = _unary(
    "ellipk",
    "Compute the complete elliptic integral of the first kind; x is k**2, the squared modulus.",
)
ellipkm1 = _unary("ellipkm1", "Compute ellipk(1 - x), precisely also near 0.")
hyp1f1 = _ternary("hyp1f1", "Compute the confluent hypergeometric function 1F1(x1, x2; x3).")
lpmv = _ternary("lpmv", "Compute the associated Legendre function of order x1 and degree x2 at x3.")
boxcox = _binary(
    "boxcox", "Compute the Box-Cox transform (x1**x2 - 1) / x2, or log(x1) if x2 is 0."
)
boxcox1p = _binary("boxcox1p", "Compute boxcox(1 + x1, x2), precisely also near 0.")
inv_boxcox = _binary("inv_boxcox", "Compute x such that boxcox(x, x2) is x1.")
inv_boxcox1p = _binary("inv_boxcox1p", "Compute x such that boxcox1p(x, x2) is x1.")
cosm1 = _unary("cosm1", "Compute cos(x) - 1, precisely also near 0.")
cosdg = _unary("cosdg", "Compute the cosine of each element, an angle in degrees.")
sindg = _unary("sindg", "Compute the sine of each element, an angle in degrees.")
tandg = _unary("tandg", "Compute the tangent of each element, an angle in degrees.")
cotdg = _unary("cotdg", "Compute the cotangent of each element, an angle in degrees.")
radian = _ternary("radian", "Convert angles of x1 degrees, x2 minutes and x3 seconds to radians.")
betaincc = _ternary("betaincc", "Compute 1 - betainc(x1, x2, x3).")
betainccinv = _ternary("betainccinv", "Compute x such that betaincc(x1, x2, x) is x3.")
bdtr = _ternary(
    "bdtr", "Compute the probability of at most x1 successes in x2 trials with probability x3."
)
bdtrc = _ternary("bdtrc", "Compute 1 - bdtr(x1, x2, x3).")
bdtri = _ternary("bdtri", "Compute the probability p such that bdtr(x1, x2, p) is x3.")
nbdtr = _ternary(
    "nbdtr",
    "Compute the probability of at most x1 failures before x2 successes, each with probability x3.",
)
nbdtrc = _ternary("nbdtrc", "Compute 1 - nbdtr(x1, x2, x3).")
nbdtri = _ternary("nbdtri", "Compute the probability p such that nbdtr(x1, x2, p) is x3.")
chdtr = _binary("chdtr", "Compute the chi-squared CDF with x1 degrees of freedom at x2.")
chdtrc = _binary("chdtrc", "Compute 1 - chdtr(x1, x2).")
chdtri = _binary("chdtri", "Compute x such that chdtrc(x1, x) is x2.")
fdtr = _ternary("fdtr", "Compute the F distribution's CDF with x1 and x2 degrees of freedom at x3.")
fdtrc = _ternary("fdtrc", "Compute 1 - fdtr(x1, x2, x3).")
fdtri = _ternary("fdtri", "Compute x such that fdtr(x1, x2, x) is x3.")
gdtr = _ternary("gdtr", "Compute the gamma distribution's CDF with rate x1 and shape x2 at x3.")
gdtrc = _ternary("gdtrc", "Compute 1 - gdtr(x1, x2, x3).")
pdtr = _binary("pdtr", "Compute the Poisson distribution's CDF with mean x2 at x1.")
pdtrc = _binary("pdtrc", "Compute 1 - pdtr(x1, x2).")
pdtri = _binary("pdtri", "Compute the mean m such that pdtr(x1, m) is x2.")
stdtr = _binary("stdtr", "Compute Student's t CDF with x1 degrees of freedom at x2.")
stdtrit = _binary("stdtrit", "Compute x such that stdtr(x1, x) is x2.")
# fmt: on
