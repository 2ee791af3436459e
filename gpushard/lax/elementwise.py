"""Functions of each element, under the names of `jax.lax`.

Nothing is promoted, and nothing is broadcast but dims of length 1 and scalars: operands have one
dtype, and as many dims each. Python's numbers take the dtype of the arrays.
"""

from __future__ import annotations

import builtins
import enum
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import numpy as np

from gpushard._array import Array
from gpushard._functions import elementwise as ew
from gpushard._functions import special
from gpushard._functions.argument_checks import check_choice
from gpushard._functions.docstrings import named
from gpushard._functions.element_types import as_dtype, number_of
from gpushard._functions.elementwise import Ufunc, where
from gpushard._functions.manipulation import broadcast_to
from gpushard._functions.shapes import broadcast
from gpushard._functions.values import Value
from gpushard._ops.bind import bind
from gpushard._ops.scalars import KINDS
from gpushard._ops.table.manipulation import STACK
from gpushard._placement.arguments import as_value
from gpushard._placement.public_functions import public
from gpushard.dtypes import finfo, kind_of
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.lax.arguments import (
    ELEMENTS,
    as_arrays,
    as_operand,
    as_operands,
    check_kind,
    check_ranks,
    check_shape,
    integers,
)

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

_OF_ONE = """

Args:
  x: an array of {elements}, or a scalar of the same kind.

Raises:
  ArgumentTypeError: `x` has a dtype that the function does not support.
"""

_OF_SEVERAL = """

Args:
  {operands}: arrays of {elements} with equal dtypes and equal numbers of axes.
    Each may also be a 0-d array of this dtype, or a Python scalar of the same kind (bool, int,
    float or complex).

Raises:
  ArgumentError: the arrays have different numbers of axes, or do not broadcast.
  ArgumentTypeError: the operands have different dtypes, or a dtype that the function does not
    support.
"""

_BY_SCIPY = frozenset([
    "bessel_i0e", "bessel_i1e", "betainc", "digamma", "erf", "erf_inv", "erfc", "igamma", "igammac",
    "lgamma", "polygamma", "zeta",
])  # fmt: skip


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


def _unary(name: str, kinds: str, compute: Callable[..., Any], text: str = "") -> Unary:
    """Make the function of `lax` of a function of values; `text` replaces the text of a ufunc."""

    def function(x: Any, /) -> Array:
        array: Any = x if isinstance(x, Value) else as_value(x, name, weak=True)
        check_kind(name, array, kinds)
        return compute(array)

    return named(function, name, _text(name, compute, text, _OF_ONE, "x", kinds))


def _binary(name: str, kinds: str, compute: Callable[..., Any], text: str = "") -> Binary:
    """Make a function of two operands as `_unary` does; numbers next to arrays stay numbers."""

    def function(x: Any, y: Any, /) -> Array:
        return compute(*_operands(name, kinds, x, y))

    return named(function, name, _text(name, compute, text, _OF_SEVERAL, "x, y", kinds))


def _ternary(name: str, kinds: str, compute: Callable[..., Any], text: str = "") -> Ternary:
    """Make a function of three operands as `_binary` does."""

    def function(x: Any, y: Any, z: Any, /) -> Array:
        return compute(*_operands(name, kinds, x, y, z))

    return named(function, name, _text(name, compute, text, _OF_SEVERAL, "x, y, z", kinds))


def _text(
    name: str, compute: Callable[..., Any], text: str, details: str, operands: str, kinds: str
) -> str:
    """Return the docstring of a function; `text` is its first line if `compute` is no ufunc."""
    first = text or cast(Ufunc, compute).text
    scipy = "  MissingLibraryError: SciPy is not installed.\n" if name in _BY_SCIPY else ""
    return first + details.format(operands=operands, elements=ELEMENTS[kinds]) + scipy


def _operands(name: str, kinds: str, *xs: Any) -> Sequence[Any]:
    operands = as_operands(name, xs)
    check_ranks(name, operands)
    check_kind(name, operands[0], kinds)
    return operands


def _unsigned(x: Any) -> np.dtype[Any]:
    return np.dtype(f"u{x.dtype.itemsize}")


def _bits(x: Any) -> int:
    return 8 * builtins.int(x.dtype.itemsize)


def _div(x: Any, y: Any) -> Any:
    if kind_of(x.dtype) not in "iu":
        return ew.divide(x, y)
    x, y = as_arrays("div", x, y)
    divisor = where(ew.equal(y, 0), 1, y)
    down = ew.floor_divide(x, divisor)
    if kind_of(x.dtype) == "i":
        inexact = ew.not_equal(ew.multiply(down, divisor), x)
        apart = ew.not_equal(ew.less(x, 0), ew.less(divisor, 0))
        down = ew.add(down, ew.logical_and(inexact, apart).astype(x.dtype))
    ones = -1 if kind_of(x.dtype) == "i" else np.iinfo(x.dtype).max
    return where(ew.equal(y, 0), ones, down)


def _rem(x: Any, y: Any) -> Any:
    if kind_of(x.dtype) not in "iu":
        return ew.fmod(x, y)
    x, y = as_arrays("rem", x, y)
    zero = ew.equal(y, 0)
    return where(zero, x, ew.fmod(x, where(zero, 1, y)))


def _logistic(x: Any) -> Any:
    return ew.reciprocal(ew.add(ew.exp(ew.negative(x)), 1))


def _population(x: Any) -> Any:
    return ew.bitwise_count(x.astype(_unsigned(x))).astype(x.dtype)


def _leading_zeros(x: Any) -> Any:
    filled, step = x.astype(_unsigned(x)), 1
    while step < _bits(x):
        filled = ew.bitwise_or(filled, ew.bitwise_right_shift(filled, step))
        step *= 2
    return ew.subtract(_bits(x), ew.bitwise_count(filled).astype(x.dtype))


def _within(x: Any, y: Any) -> Any:
    """Whether numbers of bits to shift by are less than there are."""
    return ew.less(y.astype(_unsigned(y)), _bits(x))


def _left(x: Any, y: Any) -> Any:
    x, y = as_arrays("shift_left", x, y)
    within = _within(x, y)
    return where(within, ew.bitwise_left_shift(x, where(within, y, 0)), 0)


def _right(x: Any, y: Any) -> Any:
    x, y = as_arrays("shift_right_arithmetic", x, y)
    steps = where(_within(x, y), y, _bits(x) - 1)
    if kind_of(x.dtype) == "i":
        return ew.bitwise_right_shift(x, steps)
    signed = np.dtype(f"i{x.dtype.itemsize}")  # whose first bit fills, as in XLA
    return ew.bitwise_right_shift(x.astype(signed), steps.astype(signed)).astype(x.dtype)


def _right_logical(x: Any, y: Any) -> Any:
    x, y = as_arrays("shift_right_logical", x, y)
    within, to = _within(x, y), _unsigned(x)
    shifted = ew.bitwise_right_shift(x.astype(to), where(within, y, 0).astype(to))
    return where(within, shifted, to.type(0)).astype(x.dtype)


def _complex(x: Any, y: Any) -> Any:
    """Join real and imaginary parts that may be infinite: 1j must not be multiplied by these."""
    x, y = as_arrays("complex", x, y)
    to = _complex_type("complex", x)
    shape = broadcast("lax.complex", [x.shape, y.shape])
    parts = [broadcast_to(part, shape) for part in (x, y)]
    return bind(STACK, parts, (-1,)).view(to).reshape(shape)


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
abs = _unary("abs", "ifc", ew.abs)
acos = _unary("acos", "fc", ew.acos)
acosh = _unary("acosh", "fc", ew.acosh)
asin = _unary("asin", "fc", ew.asin)
asinh = _unary("asinh", "fc", ew.asinh)
atan = _unary("atan", "fc", ew.atan)
atanh = _unary("atanh", "fc", ew.atanh)
bessel_i0e = _unary("bessel_i0e", "f", special.i0e)
bessel_i1e = _unary("bessel_i1e", "f", special.i1e)
bitwise_not = _unary("bitwise_not", "biu", ew.bitwise_invert)
cbrt = _unary("cbrt", "f", ew.cbrt)
ceil = _unary("ceil", "f", ew.ceil)
clz = _unary("clz", "iu", _leading_zeros, "Count the leading zero bits of each element.")
conj = _unary(
    "conj", "fc", _conjugate, "Compute the complex conjugate of each element, as a complex number."
)
cos = _unary("cos", "fc", ew.cos)
cosh = _unary("cosh", "fc", ew.cosh)
digamma = _unary("digamma", "f", special.digamma)
erf = _unary("erf", "f", special.erf)
erf_inv = _unary("erf_inv", "f", special.erfinv)
erfc = _unary("erfc", "f", special.erfc)
exp = _unary("exp", "fc", ew.exp)
exp2 = _unary("exp2", "fc", ew.exp2)
expm1 = _unary("expm1", "fc", ew.expm1)
floor = _unary("floor", "f", ew.floor)
imag = _unary("imag", "c", lambda x: x.imag, "Take the imaginary part of each element.")
is_finite = _unary("is_finite", "f", ew.isfinite)
lgamma = _unary("lgamma", "f", special.gammaln)
log = _unary("log", "fc", ew.log)
log1p = _unary("log1p", "fc", ew.log1p)
logistic = _unary("logistic", "fc", _logistic, "Compute 1 / (1 + exp(-x)), element by element.")
neg = _unary("neg", "iufc", ew.negative)
population_count = _unary(
    "population_count", "iu", _population, "Count the bits that are 1 in each element."
)
real = _unary("real", "c", lambda x: x.real, "Take the real part of each element.")
reciprocal = _unary("reciprocal", "fc", ew.reciprocal)
rsqrt = _unary(
    "rsqrt", "fc", lambda x: ew.reciprocal(ew.sqrt(x)), "Compute 1 / sqrt(x), element by element."
)
sign = _unary("sign", "iufc", ew.sign)
sin = _unary("sin", "fc", ew.sin)
sinh = _unary("sinh", "fc", ew.sinh)
sqrt = _unary("sqrt", "fc", ew.sqrt)
square = _unary("square", "iufc", ew.square)
tan = _unary("tan", "fc", ew.tan)
tanh = _unary("tanh", "fc", ew.tanh)

add = _binary("add", "iufc", ew.add)
atan2 = _binary("atan2", "f", ew.atan2)
bitwise_and = _binary("bitwise_and", "biu", ew.bitwise_and)
bitwise_or = _binary("bitwise_or", "biu", ew.bitwise_or)
bitwise_xor = _binary("bitwise_xor", "biu", ew.bitwise_xor)
complex = _binary("complex", "f", _complex, "Join real and imaginary parts, x + 1j * y.")
div = _binary(
    "div", "iufc", _div,
    "Divide x by y.\n\n"
    "Quotients of integers round towards 0. Division of an integer by 0 gives -1, or the maximum\n"
    "if the dtype is unsigned.",
)
eq = _binary("eq", "biufc", ew.equal)
ge = _binary("ge", "biuf", ew.greater_equal)
gt = _binary("gt", "biuf", ew.greater)
igamma = _binary(
    "igamma", "f", special.gammainc,
    "Compute the regularized lower incomplete gamma function P(x, y).",
)
igammac = _binary(
    "igammac", "f", special.gammaincc,
    "Compute the regularized upper incomplete gamma function Q(x, y), 1 - igamma(x, y).",
)

le = _binary("le", "biuf", ew.less_equal)
lt = _binary("lt", "biuf", ew.less)
max = _binary("max", "biufc", ew.maximum)
min = _binary("min", "biufc", ew.minimum)
mul = _binary("mul", "iufc", ew.multiply)
ne = _binary("ne", "biufc", ew.not_equal)
nextafter = _binary("nextafter", "f", ew.nextafter)
polygamma = _binary(
    "polygamma", "f", lambda n, x: special.polygamma(*as_arrays("polygamma", n, x)),
    "Compute the x-th derivative of digamma at y.",
)
rem = _binary(
    "rem", "iuf", _rem,
    "Compute the remainder of x / y, with the sign of x; x if y is the integer 0.",
)
shift_left = _binary(
    "shift_left", "iu", _left,
    "Shift x left by y bits; the result is 0 if y is at least the number of bits of x.",
)
shift_right_arithmetic = _binary(
    "shift_right_arithmetic", "iu", _right,
    "Shift x right by y bits, and fill the highest bits with the sign bit.",
)
shift_right_logical = _binary(
    "shift_right_logical", "iu", _right_logical,
    "Shift x right by y bits, and fill the highest bits with zeros.",
)
sub = _binary("sub", "iufc", ew.subtract)
zeta = _binary(
    "zeta", "f", special.zeta,
    "Compute the Hurwitz zeta function: the sum of (k + y) ** -x over all k from 0.",
)
betainc = _ternary(
    "betainc", "f", special.betainc,
    "Compute the regularized incomplete beta function I(x, y) at z.",
)
# fmt: on


def pow(x: Any, y: Any) -> Array:
    """Raise x to the power of y.

    Args:
      x: an array of floats or complex numbers.
      y: an array with the dtype of `x`, or of integers.

    Raises:
      ArgumentTypeError: `x` has integers; use `integer_pow` for these.

    >>> import gpushard as gs
    >>> pow(gs.numpy.asarray([2.0, 3.0]), 2)
    Array([4., 9.], dtype=float64)
    """
    base = as_operand("pow", x)
    check_kind("pow", base, "fc")
    power = y if isinstance(y, Value) or type(y) in KINDS else as_value(y, "pow")
    if type(power) is int:
        power = number_of(power, base.dtype, "pow", "y")
    elif type(power) not in KINDS and kind_of(power.dtype) in "iu":
        power = power.astype(base.dtype)
    return ew.power(*_operands("pow", "fc", base, power))


def integer_pow(x: Any, y: int) -> Array:
    """Raise each element to the power of an integer.

    Args:
      x: an array of numbers.
      y: the power, a Python integer; not negative if `x` has integers.

    Raises:
      ArgumentTypeError: the power is negative, and `x` has integers.

    >>> import gpushard as gs
    >>> integer_pow(gs.numpy.arange(3), 3)
    Array([0, 1, 8], dtype=int64)
    """
    array = as_operand("integer_pow", x)
    check_kind("integer_pow", array, "iufc")
    (power,) = integers("integer_pow", "y", (y,))
    if power < 0 and kind_of(array.dtype) in "iu":
        raise ArgumentTypeError.refusing(
            "y", y, f"is negative, and {array.dtype} has no fractions", "lax.integer_pow"
        )
    return ew.power(array, power)


class RoundingMethod(enum.IntEnum):
    """The direction in which `round` rounds ties: numbers halfway between two integers."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round(x: Any, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """Round each element to the nearest integer.

    Args:
      x: an array of floats.
      rounding_method: where ties, such as 0.5, go: away from zero, or to the nearest even integer.

    >>> import gpushard as gs
    >>> round(gs.numpy.asarray([0.5, 1.5, -0.5]))
    Array([ 1.,  2., -1.], dtype=float64)
    """
    array = as_operand("round", x)
    check_kind("round", array, "f")
    check_choice("lax.round", "rounding_method", rounding_method, [*RoundingMethod])
    if rounding_method == RoundingMethod.TO_NEAREST_EVEN:
        return ew.rint(array)
    whole = ew.trunc(array)
    up = ew.greater_equal(ew.abs(ew.subtract(array, whole)), 0.5)
    rounded = where(up, ew.add(whole, ew.sign(array)), whole)
    return rounded


def clamp(min: Any, x: Any, max: Any) -> Array:
    """Limit each element to the range from `min` to `max`.

    Args:
      min: the lower bound, a scalar or an array of the shape of `x`.
      x: an array.
      max: the upper bound, a scalar or an array of the shape of `x`.

    Raises:
      ArgumentError: a bound is neither a scalar nor of the shape of `x`.
      ArgumentTypeError: the dtypes of the bounds and of `x` differ.

    >>> import gpushard as gs
    >>> clamp(1, gs.numpy.arange(4), 2)
    Array([1, 1, 2, 2], dtype=int64)
    """
    low, array, high = as_operands("clamp", (min, x, max))
    for argument, bound in (("min", low), ("max", high)):
        if bound.shape:
            check_shape("clamp", argument, bound.shape, array.shape)
    return ew.minimum(ew.maximum(as_operand("clamp", array), low), high)


def select(pred: Any, on_true: Any, on_false: Any) -> Array:
    """Choose elements of one array where booleans are true, and of another where they are false.

    Args:
      pred: booleans: a scalar, or an array of the shape of `on_true`.
      on_true: an array; its elements are chosen where `pred` is true.
      on_false: an array with the shape and dtype of `on_true`.

    >>> import gpushard as gs
    >>> select(gs.numpy.asarray([True, False]), gs.numpy.asarray([1, 2]), gs.numpy.asarray([3, 4]))
    Array([1, 4], dtype=int64)
    """
    return select_n(pred, on_false, on_true)


def select_n(which: Any, *cases: Any) -> Array:
    """Choose each element from one of several arrays, by the number of the array.

    Args:
      which: for each element the position of its array in `cases`, an integer; or a boolean if
        there are two arrays. A scalar, or an array with the shape of the cases. Numbers out of
        range mean the first or the last array.
      *cases: arrays of one shape and dtype.

    Raises:
      ArgumentError: there are no cases, shapes differ, or `which` is boolean and there are more
        than two cases.
      ArgumentTypeError: dtypes differ, or `which` has neither integers nor booleans.

    >>> import gpushard as gs
    >>> gs.lax.select_n(gs.numpy.asarray([2, 0]), *gs.numpy.arange(6).reshape(3, 2))
    Array([4, 1], dtype=int64)
    """
    if not cases:
        raise ArgumentError("lax.select_n needs one case at least", argument="cases")
    number = as_operand("select_n", which)
    operands = as_operands("select_n", cases)
    check_kind("select_n", number, "biu")
    for case in operands[1:]:
        check_shape("select_n", "a case", case.shape, operands[0].shape)
    if number.shape:
        check_shape("select_n", "which", number.shape, operands[0].shape)
    if kind_of(number.dtype) == "b":
        if len(operands) > 2:
            raise ArgumentError(
                f"lax.select_n: booleans choose among two cases, not {len(operands)}; give "
                "integers",
                argument="which",
                size=len(operands),
            )
        return where(number, operands[-1], operands[0])
    chosen = as_value(operands[-1], "select_n")
    for at in reversed(range(len(operands) - 1)):
        chosen = where(ew.less_equal(number, at), operands[at], chosen)
    return chosen


@public(arrays=1, weak=True, operand="an array.")
def convert_element_type(operand: Any, new_dtype: Any) -> Array:
    """Convert an array to a dtype; from complex to real, the imaginary part is dropped.

    Args:
      new_dtype: the dtype.

    >>> import gpushard as gs
    >>> gs.lax.convert_element_type(gs.numpy.asarray([1.5, -1.5]), int)
    Array([ 1, -1], dtype=int64)
    """
    to = as_dtype(new_dtype, "new_dtype")
    real = kind_of(operand.dtype) == "c" and kind_of(to) not in "cb"
    return (operand.real if real else operand).astype(to)


@public(arrays=1, weak=True, operand="an array.")
def bitcast_convert_type(operand: Any, new_dtype: Any) -> Array:
    """Read the bytes of an array as elements of another dtype.

    Args:
      new_dtype: the dtype. If it has fewer bytes, each element becomes several, along a new last
        axis. If it has more bytes, the elements along the last axis become one, and the result does
        not have this axis.

    Raises:
      ArgumentError: the elements along the last axis do not make up one element of a larger dtype.

    >>> import gpushard as gs
    >>> gs.lax.bitcast_convert_type(gs.numpy.asarray([1, 256]), "int32")
    Array([[  1,   0],
           [256,   0]], dtype=int32)
    """
    to = as_dtype(new_dtype, "new_dtype")
    old, new = operand.dtype.itemsize, to.itemsize
    if old == new:
        viewed: Array = operand.view(to)
    elif old > new:
        viewed = operand.reshape((*operand.shape, 1)).view(to)
    else:
        check_shape("bitcast_convert_type", "the last axis", operand.shape[-1:], (new // old,))
        viewed = operand.view(to).reshape(operand.shape[:-1])
    return viewed


@public(arrays=1, weak=True, operand="an array of floats.")
def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Array:
    """Round floats to the precision of a narrower float type; the dtype stays. Ties go to even.

    Args:
      exponent_bits: the number of bits of the exponent in the narrower type.
      mantissa_bits: the number of bits of the mantissa in the narrower type, without the leading 1.

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
    rounded = operand
    surplus = info.nmant - mantissa
    if surplus > 0:
        bits = operand.view(_unsigned(operand))
        last = ew.bitwise_and(ew.bitwise_right_shift(bits, surplus), 1)
        bits = ew.add(bits, ew.add(last, (1 << (surplus - 1)) - 1))
        mask = (1 << _bits(operand)) - (1 << surplus)
        rounded = ew.bitwise_and(bits, mask).view(operand.dtype)
        rounded = where(ew.isfinite(operand), rounded, operand)
    if exponent < info.iexp:
        top = 2 ** (exponent - 1) - 1
        size = ew.abs(rounded)
        most, least = 2.0**top * (2 - 2.0 ** -builtins.min(mantissa, info.nmant)), 2.0 ** (1 - top)
        rounded = where(ew.greater(size, most), ew.copysign(np.inf, rounded), rounded)
        rounded = where(ew.less(size, least), ew.copysign(0, rounded), rounded)
    rounded = where(ew.isnan(operand), operand, rounded)
    return cast(Array, rounded)
