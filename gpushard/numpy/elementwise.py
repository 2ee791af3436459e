"""Elementwise functions, under the names of NumPy and of the Array API.

All broadcast their operands and give the types that NumPy 2 gives. They take `out_sharding`: a
sharding, or a `PartitionSpec` on the mesh of the result, that it is moved to; and `dtype`: the type
of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, overload

import numpy as np

from gpushard.array import Array
from gpushard.dtypes import kind_of, result_type
from gpushard.errors import ArgumentError
from gpushard.functions import elementwise
from gpushard.functions.checks import as_dtype, refuse_out
from gpushard.functions.docstrings import named
from gpushard.functions.indexing import nonzero
from gpushard.numpy import ufuncs
from gpushard.numpy.arguments import as_value, operands, settle
from gpushard.numpy.public import public, public_array
from gpushard.numpy.ufunc_methods import UfuncMethods
from gpushard.ops.bind import bind
from gpushard.ops.table import elementwise as rows
from gpushard.ops.table.elementwise import I0

__all__ = [
    "abs", "absolute", "acos", "acosh", "add", "angle", "arccos", "arccosh", "arcsin",
    "arcsinh", "arctan", "arctan2", "arctanh", "around", "asin", "asinh", "atan", "atan2",
    "atanh", "bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift",
    "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "cbrt", "ceil", "clip",
    "conj", "conjugate", "copysign", "cos", "cosh", "deg2rad", "degrees", "divide", "divmod",
    "equal", "exp", "exp2", "expm1", "fabs", "fix", "float_power", "floor", "floor_divide",
    "fmax", "fmin", "fmod", "frexp", "gcd", "greater", "greater_equal", "heaviside", "hypot",
    "i0", "imag", "invert", "isfinite", "isinf", "isnan", "lcm", "ldexp", "left_shift", "less",
    "less_equal", "log", "log1p", "log2", "log10", "logaddexp", "logaddexp2", "logical_and",
    "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "mod", "modf", "multiply",
    "negative", "nextafter", "not_equal", "positive", "pow", "power", "rad2deg", "radians",
    "real", "reciprocal", "remainder", "right_shift", "rint", "round", "sign", "signbit", "sin",
    "sinc", "sinh", "spacing", "sqrt", "square", "subtract", "tan", "tanh", "true_divide",
    "trunc", "where",
]  # fmt: skip

_DETAILS = """

Args:
  {operands}: arrays, or what `asarray` takes.
  out: must be None; results are values.
  dtype: type of the result; what NumPy gives by default.
  out_sharding: where the result goes; by default it stays where it was made.
"""


class Unary(Protocol):
    """A function of one operand."""

    at: Callable[..., Any]

    def __call__(
        self, x: Any, /, out: Any = None, *, dtype: Any = None, out_sharding: Any = None
    ) -> Array:
        """Do the operation."""


class Binary(Protocol):
    """A function of two operands, with the methods of a ufunc."""

    reduce: Callable[..., Array]
    accumulate: Callable[..., Array]
    outer: Callable[[Any, Any], Array]
    at: Callable[..., Any]
    reduceat: Callable[..., Array]

    def __call__(
        self, x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None, out_sharding: Any = None
    ) -> Array:
        """Do the operation."""


def _with_methods(function: Any, ufunc: np.ufunc) -> Any:
    """Give a function the methods of its ufunc."""
    methods = UfuncMethods(function.__name__, function, ufunc.nin, ufunc.identity, ufunc)
    binary = ("reduce", "accumulate", "outer", "reduceat") if ufunc.nin == 2 else ()
    for name in ("at", *binary) if ufunc.nout == 1 else ():
        setattr(function, name, getattr(methods, name))
    return function


def _unary(name: str, ufunc: np.ufunc, text: str) -> Unary:
    def function(
        x: Any, /, out: Any = None, *, dtype: Any = None, out_sharding: Any = None
    ) -> Array:
        if out is not None:
            refuse_out(name, out)
        result = ufuncs.call(ufunc, (x,), dtype, out_sharding=out_sharding)
        return result if out_sharding is None else settle(result, out_sharding)

    return _with_methods(named(function, name, text + _DETAILS.format(operands="x")), ufunc)


def _binary(name: str, ufunc: np.ufunc, text: str) -> Binary:
    def function(
        x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None, out_sharding: Any = None
    ) -> Array:
        if out is not None:
            refuse_out(name, out)
        result = ufuncs.call(ufunc, (x1, x2), dtype, out_sharding=out_sharding)
        return result if out_sharding is None else settle(result, out_sharding)

    return _with_methods(named(function, name, text + _DETAILS.format(operands="x1, x2")), ufunc)


abs = absolute = _unary("abs", np.absolute, "Return the absolute value of each element.")
acos = arccos = _unary(
    "acos", np.arccos, "Return the angle in [0, pi] whose cosine is each element."
)
acosh = arccosh = _unary("acosh", np.arccosh, "Return what has each element as hyperbolic cosine.")
add = _binary("add", np.add, "Return the sum of the elements of two arrays.")
asin = arcsin = _unary(
    "asin", np.arcsin, "Return the angle in [-pi/2, pi/2] whose sine is each element."
)
asinh = arcsinh = _unary("asinh", np.arcsinh, "Return what has each element as hyperbolic sine.")
atan = arctan = _unary("atan", np.arctan, "Return the angle whose tangent is each element.")
atan2 = arctan2 = _binary(
    "atan2", np.arctan2, "Return the angle of the point (x2, x1), in [-pi, pi]."
)
atanh = arctanh = _unary("atanh", np.arctanh, "Return what has each element as hyperbolic tangent.")
bitwise_and = _binary("bitwise_and", np.bitwise_and, "Return the bits that both elements have.")
bitwise_or = _binary("bitwise_or", np.bitwise_or, "Return the bits that either element has.")
bitwise_xor = _binary("bitwise_xor", np.bitwise_xor, "Return the bits that one element has.")
bitwise_invert = bitwise_not = invert = _unary(
    "bitwise_invert", np.invert, "Return each element with its bits inverted."
)
bitwise_count = _unary("bitwise_count", np.bitwise_count, "Return how many bits of abs(x) are 1.")
bitwise_left_shift = left_shift = _binary(
    "bitwise_left_shift", np.left_shift, "Return the bits of x1 shifted left by x2."
)
bitwise_right_shift = right_shift = _binary(
    "bitwise_right_shift", np.right_shift, "Return the bits of x1 shifted right by x2."
)
cbrt = _unary("cbrt", np.cbrt, "Return the cube root of each element.")
ceil = _unary("ceil", np.ceil, "Return the least integer that is not below each element.")
conj = conjugate = _unary("conj", np.conjugate, "Return the complex conjugate of each element.")
copysign = _binary("copysign", np.copysign, "Return x1 with the sign of x2.")
cos = _unary("cos", np.cos, "Return the cosine of each element, in radians.")
cosh = _unary("cosh", np.cosh, "Return the hyperbolic cosine of each element.")
deg2rad = radians = _unary(
    "deg2rad", np.deg2rad, "Return each angle, given in degrees, in radians."
)
divide = true_divide = _binary("divide", np.divide, "Return x1 divided by x2.")
divmod = _binary("divmod", np.divmod, "Return the quotient, rounded down, and the remainder.")
equal = _binary("equal", np.equal, "Return whether elements are equal.")
exp = _unary("exp", np.exp, "Return e to the power of each element.")
exp2 = _unary("exp2", np.exp2, "Return 2 to the power of each element.")
expm1 = _unary("expm1", np.expm1, "Return e to the power of each element, less 1.")
fabs = _unary("fabs", np.fabs, "Return the absolute value of each element as a float.")
float_power = _binary("float_power", np.float_power, "Return x1 to the power of x2 as a float.")
floor = _unary("floor", np.floor, "Return the greatest integer that is not above each element.")
floor_divide = _binary("floor_divide", np.floor_divide, "Return x1 divided by x2, rounded down.")
fmax = _binary("fmax", np.fmax, "Return the greater element; NaN gives way.")
fmin = _binary("fmin", np.fmin, "Return the lesser element; NaN gives way.")
fmod = _binary("fmod", np.fmod, "Return the remainder of x1 / x2 with the sign of x1.")
frexp = _unary("frexp", np.frexp, "Return the mantissa and the exponent of each element.")
gcd = _binary("gcd", np.gcd, "Return the greatest common divisor.")
greater = _binary("greater", np.greater, "Return whether x1 is greater than x2.")
greater_equal = _binary("greater_equal", np.greater_equal, "Return whether x1 is at least x2.")
heaviside = _binary("heaviside", np.heaviside, "Return 0, x2 or 1 where x1 is < 0, 0 or > 0.")
hypot = _binary("hypot", np.hypot, "Return the length of the vector (x1, x2).")
isfinite = _unary("isfinite", np.isfinite, "Return whether elements are finite numbers.")
isinf = _unary("isinf", np.isinf, "Return whether elements are infinite.")
isnan = _unary("isnan", np.isnan, "Return whether elements are NaN.")
lcm = _binary("lcm", np.lcm, "Return the least common multiple.")
ldexp = _binary("ldexp", np.ldexp, "Return x1 times 2 to the power of x2.")
less = _binary("less", np.less, "Return whether x1 is less than x2.")
less_equal = _binary("less_equal", np.less_equal, "Return whether x1 is at most x2.")
log = _unary("log", np.log, "Return the natural logarithm of each element.")
log10 = _unary("log10", np.log10, "Return the logarithm to base 10 of each element.")
log1p = _unary("log1p", np.log1p, "Return the natural logarithm of 1 and each element.")
log2 = _unary("log2", np.log2, "Return the logarithm to base 2 of each element.")
logical_and = _binary("logical_and", np.logical_and, "Return whether both elements are true.")
logical_not = _unary("logical_not", np.logical_not, "Return whether elements are false.")
logical_or = _binary("logical_or", np.logical_or, "Return whether an element is true.")
logical_xor = _binary("logical_xor", np.logical_xor, "Return whether one element alone is true.")
maximum = _binary("maximum", np.maximum, "Return the greater element; NaN if one is.")
minimum = _binary("minimum", np.minimum, "Return the lesser element; NaN if one is.")
modf = _unary("modf", np.modf, "Return the fractional and the integral part of each element.")
multiply = _binary("multiply", np.multiply, "Return the product of the elements of two arrays.")
negative = _unary("negative", np.negative, "Return each element with the other sign.")
nextafter = _binary("nextafter", np.nextafter, "Return the next number after x1 towards x2.")
not_equal = _binary("not_equal", np.not_equal, "Return whether elements differ.")
positive = _unary("positive", np.positive, "Return each element.")
pow = power = _binary("pow", np.power, "Return x1 to the power of x2.")
rad2deg = degrees = _unary(
    "rad2deg", np.rad2deg, "Return each angle, given in radians, in degrees."
)
reciprocal = _unary("reciprocal", np.reciprocal, "Return 1 divided by each element.")
remainder = mod = _binary(
    "remainder", np.remainder, "Return what x1 // x2 leaves; of the sign of x2."
)
rint = _unary("rint", np.rint, "Return the nearest integer, the even one if there are two.")
sign = _unary("sign", np.sign, "Return -1, 0 or 1; of complex numbers x / abs(x).")
signbit = _unary("signbit", np.signbit, "Return whether the sign bit is set.")
sin = _unary("sin", np.sin, "Return the sine of each element, in radians.")
sinh = _unary("sinh", np.sinh, "Return the hyperbolic sine of each element.")
spacing = _unary("spacing", np.spacing, "Return the distance to the next number.")
sqrt = _unary("sqrt", np.sqrt, "Return the square root of each element.")
square = _unary("square", np.square, "Return the square of each element.")
subtract = _binary("subtract", np.subtract, "Return the difference of the elements of two arrays.")
tan = _unary("tan", np.tan, "Return the tangent of each element, in radians.")
tanh = _unary("tanh", np.tanh, "Return the hyperbolic tangent of each element.")
trunc = _unary("trunc", np.trunc, "Return each element without its fraction.")


@overload
def where(condition: Any, x: Any, y: Any, /, *, out_sharding: Any = None) -> Array: ...


@overload
def where(
    condition: Any, /, *, size: int | None = None, fill_value: Any = None, out_sharding: Any = None
) -> tuple[Array, ...]: ...


def where(
    condition: Any,
    x: Any = None,
    y: Any = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return elements of `x` where a condition holds, else those of `y`.

    Args:
      condition: booleans; of numbers those that are not 0.
      x: an array or a number. Without `x` and `y` the result is that of `nonzero(condition)`.
      y: likewise.
      size: as for `nonzero`; not with `x` and `y`.
      fill_value: likewise.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: only one of `x` and `y` is given, or both and `size` or `fill_value`, too.
    """
    if x is None and y is None:
        places = nonzero(as_value(condition, "where"), size=size, fill_value=fill_value)
        return settle(places, out_sharding)
    if x is None or y is None:
        raise ArgumentError("where: give both x and y, or none", argument="y")
    if size is not None or fill_value is not None:
        raise ArgumentError(
            "where: size= and fill_value= are for the positions that where(condition) gives; with "
            "x and y leave them out",
            argument="size",
            size=size,
        )
    return settle(bind(rows.WHERE, operands("where", condition, x, y)), out_sharding)


def _log_of_sum(name: str, ufunc: np.ufunc, scale: float, text: str) -> Binary:
    """Make the logarithm of a sum of two powers, also of complex exponents.

    NumPy's ufuncs take real numbers only.

    Args:
      name: the function's.
      ufunc: of real numbers.
      scale: the natural logarithm of the base.
      text: the first line of its documentation.
    """

    def function(
        x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None, out_sharding: Any = None
    ) -> Array:
        refuse_out(name, out)
        pair = operands(name, x1, x2)
        kinds = "".join(kind_of(result_type(x)) for x in pair)
        if "c" not in kinds:
            made = ufuncs.call(ufunc, pair, dtype, out_sharding=out_sharding)
            return settle(made, out_sharding)
        made = _complex_log_of_sum(pair[0], pair[1], scale)
        made = made if dtype is None else made.astype(as_dtype(dtype))
        return settle(made, out_sharding)

    return _with_methods(named(function, name, text + _DETAILS.format(operands="x1, x2")), ufunc)


def _complex_log_of_sum(x1: Any, x2: Any, scale: float) -> Any:
    """Add powers relative to the greater one, so that they do not overflow."""
    first = greater_equal(real(x1), real(x2))
    high, low = where(first, x1, x2), where(first, x2, x1)
    ratio = exp(multiply(subtract(low, high), scale))
    none = isinf(real(high))  # of two powers that are 0, or infinite, the ratio is undefined
    total = add(high, divide(log1p(ratio), scale))
    made = where(none, high, total)
    turns = 2 * np.pi / scale
    imaginary = subtract(made.imag, multiply(rint(divide(made.imag, turns)), turns))
    return add(made.real, multiply(imaginary, made.dtype.type(1j)))


logaddexp = _log_of_sum(
    "logaddexp", np.logaddexp, 1.0, "Compute log(exp(x1) + exp(x2)), element by element."
)
logaddexp2 = _log_of_sum(
    "logaddexp2", np.logaddexp2, float(np.log(2)), "Compute log2(2**x1 + 2**x2) of each element."
)

clip = public_array(elementwise.clip)
round = around = public_array(elementwise.round)


@public
def real(val: Any, *, out_sharding: Any = None) -> Array:
    """Return the real parts."""
    return val.real


@public
def imag(val: Any, *, out_sharding: Any = None) -> Array:
    """Return the imaginary parts; zeros for real numbers."""
    return val.imag


@public
def angle(z: Any, deg: bool = False, *, out_sharding: Any = None) -> Array:
    """Return the angles of complex numbers, in (-pi, pi].

    Args:
      deg: whether they are in degrees.
    """
    radians = atan2(z.imag, z.astype(np.float64) if z.dtype == np.bool_ else z.real)
    return radians * (180 / np.pi) if deg else radians


@public
def fix(x: Any, out: Any = None, *, out_sharding: Any = None) -> Array:
    """Return each element without its fraction.

    Args:
      x: an array of real numbers.
    """
    return trunc(x, out)


@public
def sinc(x: Any, *, out_sharding: Any = None) -> Array:
    """Return sin(pi x) / (pi x); 1 at 0."""
    turned = x * np.pi
    zero = equal(turned, 0)
    safe = bind(rows.WHERE, (zero, 1, turned))
    return bind(rows.WHERE, (zero, 1, sin(safe) / safe))


@public
def i0(x: Any, *, out_sharding: Any = None) -> Array:
    """Return the modified Bessel function of the first kind, of order 0.

    Args:
      x: an array of real numbers.

    Raises:
      ArgumentTypeError: the array is complex.

    >>> i0([0.0, 1.0])
    Array([1.        , 1.26606588], dtype=float64)
    """
    return bind(I0, (x,), (), out_sharding)
