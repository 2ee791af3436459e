"""Functions of each element, under the names of `jax.lax`.

Nothing is promoted, and nothing is broadcast but dims of length 1 and scalars: operands have one
dtype, and as many dims each. Python's numbers take the dtype of the arrays.
"""

from __future__ import annotations

import builtins
import enum
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from gpushard.array import Array
from gpushard.dtypes import finfo, kind_of
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.functions.checks import as_dtype, check_choice
from gpushard.functions.docstrings import named
from gpushard.lax.arguments import SAID, alike, as_arrays, check_kind, check_shape, integers
from gpushard.numpy import elementwise as ew
from gpushard.numpy.arguments import as_value
from gpushard.numpy.joining import stack
from gpushard.numpy.manipulation import broadcast_shapes, broadcast_to
from gpushard.numpy.public import public
from gpushard.special import composed, ufuncs

__all__ = [
    "RoundingMethod", "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh",
    "bessel_i0e", "bessel_i1e", "betainc", "bitcast_convert_type", "bitwise_and", "bitwise_not",
    "bitwise_or", "bitwise_xor", "cbrt", "ceil", "clamp", "clz", "complex", "conj",
    "convert_element_type", "cos", "cosh", "digamma", "div", "eq", "erf", "erf_inv", "erfc", "exp",
    "exp2", "expm1", "floor", "ge", "gt", "igamma", "igammac", "imag", "integer_pow", "is_finite",
    "le", "lgamma", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg",
    "nextafter", "polygamma", "population_count", "pow", "real", "reciprocal", "reduce_precision",
    "rem", "round", "rsqrt", "select", "select_n", "shift_left", "shift_right_arithmetic",
    "shift_right_logical", "sign", "sin", "sinh", "sqrt", "square", "sub", "tan", "tanh", "zeta",
]  # fmt: skip

_DETAILS = """

Args:
  {operands}: arrays of one dtype, of as many dims each, or scalars; {kinds}.

Raises:
  ArgumentTypeError: the dtype is another, or dtypes differ.
"""


class Unary(Protocol):
    """A function of one operand."""

    def __call__(self, x: Any, /) -> Array:
        """Do the operation."""


class Binary(Protocol):
    """A function of two operands."""

    def __call__(self, x: Any, y: Any, /) -> Array:
        """Do the operation."""


class Ternary(Protocol):
    """A function of three operands."""

    def __call__(self, x: Any, y: Any, z: Any, /) -> Array:
        """Do the operation."""


def _unary(name: str, kinds: str, compute: Callable[..., Any], text: str) -> Unary:
    def function(x: Any, /) -> Array:
        array = as_value(x, name, weak=True)
        check_kind(name, array, kinds)
        result: Array = compute(array)
        return result

    return named(function, name, text + _DETAILS.format(operands="x", kinds=SAID[kinds]))


def _binary(name: str, kinds: str, compute: Callable[..., Any], text: str) -> Binary:
    def function(x: Any, y: Any, /) -> Array:
        arrays = alike(name, x, y)
        check_kind(name, arrays[0], kinds)
        result: Array = compute(*arrays)
        return result

    return named(function, name, text + _DETAILS.format(operands="x, y", kinds=SAID[kinds]))


def _ternary(name: str, kinds: str, compute: Callable[..., Any], text: str) -> Ternary:
    def function(x: Any, y: Any, z: Any, /) -> Array:
        arrays = alike(name, x, y, z)
        check_kind(name, arrays[0], kinds)
        result: Array = compute(*arrays)
        return result

    return named(function, name, text + _DETAILS.format(operands="x, y, z", kinds=SAID[kinds]))


def _unsigned(x: Any) -> np.dtype[Any]:
    return np.dtype(f"u{x.dtype.itemsize}")


def _bits(x: Any) -> int:
    return 8 * builtins.int(x.dtype.itemsize)


def _div(x: Any, y: Any) -> Any:
    if kind_of(x.dtype) not in "iu":
        return ew.divide(x, y)
    divisor = ew.where(ew.equal(y, 0), 1, y)
    down = ew.floor_divide(x, divisor)
    if kind_of(x.dtype) == "i":
        inexact = ew.not_equal(ew.multiply(down, divisor), x)
        apart = ew.not_equal(ew.less(x, 0), ew.less(divisor, 0))
        down = ew.add(down, ew.logical_and(inexact, apart).astype(x.dtype))
    ones = -1 if kind_of(x.dtype) == "i" else np.iinfo(x.dtype).max
    return ew.where(ew.equal(y, 0), ones, down)


def _rem(x: Any, y: Any) -> Any:
    if kind_of(x.dtype) not in "iu":
        return ew.fmod(x, y)
    zero = ew.equal(y, 0)
    return ew.where(zero, x, ew.fmod(x, ew.where(zero, 1, y)))


def _logistic(x: Any) -> Any:
    return ew.reciprocal(ew.add(ew.exp(ew.negative(x)), 1))


def _population(x: Any) -> Any:
    return ew.bitwise_count(x.astype(_unsigned(x))).astype(x.dtype)


def _leading_zeros(x: Any) -> Any:
    filled, step = x.astype(_unsigned(x)), 1
    while step < _bits(x):
        filled = ew.bitwise_or(filled, ew.right_shift(filled, step))
        step *= 2
    return ew.subtract(_bits(x), ew.bitwise_count(filled).astype(x.dtype))


def _within(x: Any, y: Any) -> Any:
    """Whether numbers of bits to shift by are less than there are."""
    return ew.less(y.astype(_unsigned(y)), _bits(x))


def _left(x: Any, y: Any) -> Any:
    within = _within(x, y)
    return ew.where(within, ew.left_shift(x, ew.where(within, y, 0)), 0)


def _right(x: Any, y: Any) -> Any:
    steps = ew.where(_within(x, y), y, _bits(x) - 1)
    if kind_of(x.dtype) == "i":
        return ew.right_shift(x, steps)
    signed = np.dtype(f"i{x.dtype.itemsize}")  # whose first bit fills, as in XLA
    return ew.right_shift(x.astype(signed), steps.astype(signed)).astype(x.dtype)


def _right_logical(x: Any, y: Any) -> Any:
    within, to = _within(x, y), _unsigned(x)
    shifted = ew.right_shift(x.astype(to), ew.where(within, y, 0).astype(to))
    return ew.where(within, shifted, to.type(0)).astype(x.dtype)


def _joined(x: Any, y: Any) -> Any:
    """Return complex numbers of parts that may be infinite, which 1j must not be multiplied by."""
    to = _complex_type("complex", x)
    shape = broadcast_shapes(x.shape, y.shape)
    parts = [broadcast_to(part, shape) for part in (x, y)]
    return stack(parts, axis=-1).view(to).reshape(shape)


def _conjugate(x: Any) -> Any:
    return x.astype(_complex_type("conj", x)) if kind_of(x.dtype) == "f" else ew.conj(x)


def _complex_type(name: str, x: Any) -> np.dtype[Any]:
    """Return the complex type whose parts have the type of an array."""
    if x.dtype.itemsize < 4:
        raise ArgumentTypeError(
            f"lax.{name} does not take {x.dtype}; it takes float32 and float64: convert with "
            "convert_element_type",
            argument="x",
            dtype=x.dtype,
        )
    return np.dtype(f"c{2 * x.dtype.itemsize}")


# fmt: off
abs = _unary("abs", "ifc", ew.abs, "Return the absolute value of each element.")
acos = _unary("acos", "fc", ew.acos, "Return what has each element as cosine.")
acosh = _unary("acosh", "fc", ew.acosh, "Return what has each element as hyperbolic cosine.")
asin = _unary("asin", "fc", ew.asin, "Return what has each element as sine.")
asinh = _unary("asinh", "fc", ew.asinh, "Return what has each element as hyperbolic sine.")
atan = _unary("atan", "fc", ew.atan, "Return what has each element as tangent.")
atanh = _unary("atanh", "fc", ew.atanh, "Return what has each element as hyperbolic tangent.")
bitwise_not = _unary("bitwise_not", "biu", ew.invert, "Return elements with their bits inverted.")
cbrt = _unary("cbrt", "f", ew.cbrt, "Return the cube root of each element.")
ceil = _unary("ceil", "f", ew.ceil, "Return the least integer that is not below each element.")
clz = _unary("clz", "iu", _leading_zeros, "Return how many bits of each element are 0 in front.")
conj = _unary("conj", "fc", _conjugate, "Return the conjugates, as complex numbers.")
cos = _unary("cos", "fc", ew.cos, "Return the cosine of each element.")
cosh = _unary("cosh", "fc", ew.cosh, "Return the hyperbolic cosine of each element.")
exp = _unary("exp", "fc", ew.exp, "Return e to the power of each element.")
exp2 = _unary("exp2", "fc", ew.exp2, "Return 2 to the power of each element.")
expm1 = _unary("expm1", "fc", ew.expm1, "Return e to the power of each element, less 1.")
floor = _unary("floor", "f", ew.floor, "Return the greatest integer not above each element.")
imag = _unary("imag", "c", ew.imag, "Return the imaginary parts.")
is_finite = _unary("is_finite", "f", ew.isfinite, "Return whether elements are finite.")
log = _unary("log", "fc", ew.log, "Return the natural logarithm of each element.")
log1p = _unary("log1p", "fc", ew.log1p, "Return the natural logarithm of 1 and each element.")
logistic = _unary("logistic", "fc", _logistic, "Return 1 / (1 + exp(-x)).")
neg = _unary("neg", "iufc", ew.negative, "Return each element with the other sign.")
population_count = _unary(
    "population_count", "iu", _population, "Return how many bits of each element are 1."
)
real = _unary("real", "c", ew.real, "Return the real parts.")
reciprocal = _unary("reciprocal", "fc", ew.reciprocal, "Return 1 / x.")
rsqrt = _unary("rsqrt", "fc", lambda x: ew.reciprocal(ew.sqrt(x)), "Return 1 / sqrt(x).")
sign = _unary("sign", "iufc", ew.sign, "Return -1, 0 or 1; of complex numbers x / abs(x).")
sin = _unary("sin", "fc", ew.sin, "Return the sine of each element.")
sinh = _unary("sinh", "fc", ew.sinh, "Return the hyperbolic sine of each element.")
sqrt = _unary("sqrt", "fc", ew.sqrt, "Return the square root of each element.")
square = _unary("square", "iufc", ew.square, "Return the square of each element.")
tan = _unary("tan", "fc", ew.tan, "Return the tangent of each element.")
tanh = _unary("tanh", "fc", ew.tanh, "Return the hyperbolic tangent of each element.")
erf = _unary("erf", "f", ufuncs.erf, "Return the error function. SciPy computes it.")
erfc = _unary("erfc", "f", ufuncs.erfc, "Return 1 less the error function. SciPy computes it.")
erf_inv = _unary(
    "erf_inv", "f", ufuncs.erfinv, "Return the inverse of the error function. SciPy computes it."
)
lgamma = _unary(
    "lgamma", "f", ufuncs.gammaln, "Return the logarithm of gamma's size. SciPy computes it."
)
digamma = _unary("digamma", "f", ufuncs.digamma, "Return lgamma's derivative. SciPy computes it.")
bessel_i0e = _unary(
    "bessel_i0e", "f", ufuncs.i0e, "Return exp(-abs(x)) times Bessel's I0. SciPy computes it."
)
bessel_i1e = _unary(
    "bessel_i1e", "f", ufuncs.i1e, "Return exp(-abs(x)) times Bessel's I1. SciPy computes it."
)

add = _binary("add", "iufc", ew.add, "Return x + y.")
atan2 = _binary("atan2", "f", ew.atan2, "Return the angle of the point (y, x).")
bitwise_and = _binary("bitwise_and", "biu", ew.bitwise_and, "Return the bits that both have.")
bitwise_or = _binary("bitwise_or", "biu", ew.bitwise_or, "Return the bits that either has.")
bitwise_xor = _binary("bitwise_xor", "biu", ew.bitwise_xor, "Return the bits that one has.")
complex = _binary("complex", "f", _joined, "Return x + 1j * y, of infinite parts, too.")
div = _binary(
    "div", "iufc", _div,
    "Return x / y; of integers rounded towards 0, with all bits set where y is 0.",
)
eq = _binary("eq", "biufc", ew.equal, "Return whether x is y.")
ge = _binary("ge", "biuf", ew.greater_equal, "Return whether x is at least y.")
gt = _binary("gt", "biuf", ew.greater, "Return whether x is greater than y.")
igamma = _binary(
    "igamma", "f", ufuncs.gammainc,
    "Return the lower incomplete gamma function of order x, as a share. SciPy computes it.",
)
igammac = _binary("igammac", "f", ufuncs.gammaincc, "Return 1 less igamma. SciPy computes it.")
le = _binary("le", "biuf", ew.less_equal, "Return whether x is at most y.")
lt = _binary("lt", "biuf", ew.less, "Return whether x is less than y.")
max = _binary("max", "biufc", ew.maximum, "Return the greater element; NaN if one is.")
min = _binary("min", "biufc", ew.minimum, "Return the lesser element; NaN if one is.")
mul = _binary("mul", "iufc", ew.multiply, "Return x * y.")
ne = _binary("ne", "biufc", ew.not_equal, "Return whether x is not y.")
nextafter = _binary("nextafter", "f", ew.nextafter, "Return the next number after x towards y.")
polygamma = _binary(
    "polygamma", "f", composed.polygamma, "Return derivatives of digamma. SciPy computes them."
)
rem = _binary(
    "rem", "iuf", _rem, "Return the remainder of x / y, with x's sign; of integers x where y is 0."
)
shift_left = _binary(
    "shift_left", "iu", _left, "Return x shifted left; 0 where y is no less than the bits of x."
)
shift_right_arithmetic = _binary(
    "shift_right_arithmetic", "iu", _right, "Return x shifted right, filled with its first bit."
)
shift_right_logical = _binary(
    "shift_right_logical", "iu", _right_logical, "Return x shifted right, filled with 0."
)
sub = _binary("sub", "iufc", ew.subtract, "Return x - y.")
zeta = _binary("zeta", "f", composed.zeta, "Return Hurwitz' zeta function. SciPy computes it.")
betainc = _ternary(
    "betainc", "f", ufuncs.betainc,
    "Return the incomplete beta function of x and y up to z, as a share. SciPy computes it.",
)
# fmt: on


def pow(x: Any, y: Any) -> Array:
    """Return x to the power of y.

    Args:
      x: an array of floats or complex numbers.
      y: an array of the same dtype, or of integers.

    Raises:
      ArgumentTypeError: `x` has integers; use `integer_pow`.

    >>> import gpushard as gs
    >>> pow(gs.numpy.asarray([2.0, 3.0]), 2)
    Array([4., 9.], dtype=float64)
    """
    base, power = (as_value(each, "pow", weak=True) for each in (x, y))
    check_kind("pow", base, "fc")
    if kind_of(power.dtype) in "iu":
        power = power.astype(base.dtype)
    return ew.power(*alike("pow", base, power))


def integer_pow(x: Any, y: int) -> Array:
    """Return x to the power of an integer.

    Args:
      x: an array of numbers.
      y: the power; not negative if `x` has integers.

    Raises:
      ArgumentTypeError: a negative power of integers.

    >>> import gpushard as gs
    >>> integer_pow(gs.numpy.arange(3), 3)
    Array([0, 1, 8], dtype=int64)
    """
    array = as_value(x, "integer_pow", weak=True)
    check_kind("integer_pow", array, "iufc")
    (power,) = integers("integer_pow", "y", (y,))
    if power < 0 and kind_of(array.dtype) in "iu":
        raise ArgumentTypeError.refusing(
            "y", y, f"is negative, and {array.dtype} has no fractions", "lax.integer_pow"
        )
    return ew.power(array, power)


class RoundingMethod(enum.IntEnum):
    """How `round` rounds what is halfway between two integers."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round(x: Any, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """Return elements rounded to integers.

    Args:
      x: an array of floats.
      rounding_method: where what is halfway goes.

    >>> import gpushard as gs
    >>> round(gs.numpy.asarray([0.5, 1.5, -0.5]))
    Array([ 1.,  2., -1.], dtype=float64)
    """
    array = as_value(x, "round", weak=True)
    check_kind("round", array, "f")
    check_choice("lax.round", "rounding_method", rounding_method, [*RoundingMethod])
    if rounding_method == RoundingMethod.TO_NEAREST_EVEN:
        return ew.rint(array)
    whole = ew.trunc(array)
    up = ew.greater_equal(ew.abs(ew.subtract(array, whole)), 0.5)
    return ew.where(up, ew.add(whole, ew.sign(array)), whole)


def clamp(min: Any, x: Any, max: Any) -> Array:
    """Return elements that are not below `min` nor above `max`.

    Args:
      min: a scalar, or an array of the shape of `x`.
      x: an array.
      max: as `min`.

    >>> import gpushard as gs
    >>> clamp(1, gs.numpy.arange(4), 2)
    Array([1, 1, 2, 2], dtype=int64)
    """
    low, array, high = as_arrays("clamp", min, x, max)
    for argument, bound in (("min", low), ("max", high)):
        if bound.shape:
            check_shape("clamp", argument, bound.shape, array.shape)
    return ew.minimum(ew.maximum(array, low), high)


def select(pred: Any, on_true: Any, on_false: Any) -> Array:
    """Return elements of one array where booleans are true, else of another.

    Args:
      pred: booleans: a scalar, or an array of the same shape.
      on_true: an array.
      on_false: one of the same shape and dtype.

    >>> import gpushard as gs
    >>> select(gs.numpy.asarray([True, False]), gs.numpy.asarray([1, 2]), gs.numpy.asarray([3, 4]))
    Array([1, 4], dtype=int64)
    """
    return select_n(pred, on_false, on_true)


def select_n(which: Any, *cases: Any) -> Array:
    """Return for each element that of one of several arrays.

    Args:
      which: the number of the array, integers or, for two of them, booleans: a scalar, or an
        array of the same shape. Numbers beyond are those of the first, or the last.
      *cases: arrays of one shape and dtype.

    >>> import gpushard as gs
    >>> gs.lax.select_n(gs.numpy.asarray([2, 0]), *gs.numpy.arange(6).reshape(3, 2))
    Array([4, 1], dtype=int64)
    """
    if not cases:
        raise ArgumentError("lax.select_n needs one case at least", argument="cases")
    chosen, arrays = as_value(which, "select_n"), as_arrays("select_n", *cases)
    check_kind("select_n", chosen, "biu")
    for array in arrays[1:]:
        check_shape("select_n", "a case", array.shape, arrays[0].shape)
    if chosen.shape:
        check_shape("select_n", "which", chosen.shape, arrays[0].shape)
    if kind_of(chosen.dtype) == "b":
        if len(arrays) > 2:
            raise ArgumentError(
                f"lax.select_n: booleans choose among two cases, not {len(arrays)}; give integers",
                argument="which",
                size=len(arrays),
            )
        return ew.where(chosen, arrays[-1], arrays[0])
    picked: Array = arrays[-1]
    for number in reversed(range(len(arrays) - 1)):
        picked = ew.where(ew.less_equal(chosen, number), arrays[number], picked)
    return picked


@public(arrays=1, weak=True, operand="an array.")
def convert_element_type(operand: Any, new_dtype: Any) -> Array:
    """Return an array converted to a dtype; floats lose their fraction, complex numbers i.

    Args:
      new_dtype: the dtype.

    >>> import gpushard as gs
    >>> gs.lax.convert_element_type(gs.numpy.asarray([1.5, -1.5]), int)
    Array([ 1, -1], dtype=int64)
    """
    to = as_dtype(new_dtype, "new_dtype")
    real = kind_of(operand.dtype) == "c" and kind_of(to) not in "cb"
    converted: Array = (operand.real if real else operand).astype(to)
    return converted


@public(arrays=1, weak=True, operand="an array.")
def bitcast_convert_type(operand: Any, new_dtype: Any) -> Array:
    """Return an array whose bytes are taken for those of a dtype.

    Args:
      new_dtype: the dtype. Of a smaller one several come from each element, along a new last dim;
        of a larger one the last dim goes, and has to have as many as are needed.

    Raises:
      ArgumentError: the last dim has another length.

    >>> import gpushard as gs
    >>> gs.lax.bitcast_convert_type(gs.numpy.asarray([1, 256]), "int32")
    Array([[  1,   0],
           [256,   0]], dtype=int32)
    """
    to = as_dtype(new_dtype, "new_dtype")
    own, wanted = operand.dtype.itemsize, to.itemsize
    if own == wanted:
        seen: Array = operand.view(to)
    elif own > wanted:
        seen = operand.reshape((*operand.shape, 1)).view(to)
    else:
        check_shape("bitcast_convert_type", "the last dim", operand.shape[-1:], (wanted // own,))
        seen = operand.view(to).reshape(operand.shape[:-1])
    return seen


@public(arrays=1, weak=True, operand="an array of floats.")
def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Array:
    """Return floats rounded to what fewer bits can say, to even where they are halfway.

    Args:
      exponent_bits: how many bits the exponent has.
      mantissa_bits: how many bits come behind the point.

    >>> import gpushard as gs
    >>> gs.lax.reduce_precision(gs.numpy.asarray([1.2345678]), 5, 10)
    Array([1.234375], dtype=float64)
    """
    check_kind("reduce_precision", operand, "f")
    exponent, mantissa = integers("reduce_precision", "bits", (exponent_bits, mantissa_bits))
    if exponent < 1 or mantissa < 0:
        raise ArgumentError(
            f"lax.reduce_precision: exponent_bits={exponent} must be 1 at least, and "
            f"mantissa_bits={mantissa} 0 at least",
            argument="exponent_bits",
        )
    info = finfo(operand.dtype)
    mine = operand
    less = info.nmant - mantissa
    if less > 0:
        bits = operand.view(_unsigned(operand))
        last = ew.bitwise_and(ew.right_shift(bits, less), 1)
        bits = ew.add(bits, ew.add(last, (1 << (less - 1)) - 1))
        kept = (1 << _bits(operand)) - (1 << less)
        mine = ew.bitwise_and(bits, kept).view(operand.dtype)
        mine = ew.where(ew.isfinite(operand), mine, operand)
    if exponent < info.iexp:
        top = 2 ** (exponent - 1) - 1
        size = ew.abs(mine)
        most, least = 2.0**top * (2 - 2.0 ** -builtins.min(mantissa, info.nmant)), 2.0 ** (1 - top)
        mine = ew.where(ew.greater(size, most), ew.copysign(np.inf, mine), mine)
        mine = ew.where(ew.less(size, least), ew.copysign(0, mine), mine)
    return ew.where(ew.isnan(operand), operand, mine)
