"""Elementwise functions, under the names of NumPy and of the Array API.

All broadcast their operands and return the dtypes of NumPy 2. `out_sharding` is a sharding to which
the result moves, or a `PartitionSpec` over the mesh of the result. `dtype` is the dtype of the
result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, overload

import numpy as np

from gpushard._array import Array
from gpushard._functions import elementwise
from gpushard._functions.argument_checks import refuse_out
from gpushard._functions.docstrings import named
from gpushard._functions.element_types import as_dtype
from gpushard._functions.nonzero_positions import nonzero
from gpushard._ops.bind import bind
from gpushard._ops.table.elementwise import I0
from gpushard._placement.arguments import as_value, operands, settle
from gpushard._placement.public_functions import public, public_array
from gpushard.dtypes import kind_of, result_type
from gpushard.errors import ArgumentError
from gpushard.numpy import ufuncs
from gpushard.numpy.ufunc_methods import UfuncMethods

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
  {operands}, or data that `asarray` converts.
  out: must be None: the result is always a new array.
  dtype: the dtype of the result; by default the one that NumPy would choose.
  out_sharding: the sharding or `PartitionSpec` of the result; gpushard chooses by default.
"""


class UnaryUfunc(Protocol):
    """A function of one operand, with the method `at` of a ufunc."""

    at: Callable[..., Any]

    def __call__(
        self, x: Any, /, out: Any = None, *, dtype: Any = None, out_sharding: Any = None
    ) -> Array:
        """Do the operation."""


class BinaryUfunc(Protocol):
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
    """Give a function its ufunc, which `gpushard.lax` knows it by, and the methods of that."""
    methods = UfuncMethods(function.__name__, function, ufunc.nin, ufunc.identity, ufunc)
    function.ufunc = ufunc
    binary = ("reduce", "accumulate", "outer", "reduceat") if ufunc.nin == 2 else ()
    for name in ("at", *binary) if ufunc.nout == 1 else ():
        setattr(function, name, getattr(methods, name))
    return function


def _unary(name: str, of: elementwise.Ufunc) -> UnaryUfunc:
    """Make the function of `numpy` of a ufunc of one operand."""
    ufunc = of.ufunc

    def function(
        x: Any, /, out: Any = None, *, dtype: Any = None, out_sharding: Any = None
    ) -> Array:
        if out is not None:
            refuse_out(name, out)
        result = ufuncs.call(ufunc, (x,), dtype, out_sharding=out_sharding)
        return result if out_sharding is None else settle(result, out_sharding)

    return _with_methods(
        named(function, name, of.text + _DETAILS.format(operands="x: an array")), ufunc
    )


def _binary(name: str, of: elementwise.Ufunc) -> BinaryUfunc:
    """Make the function of `numpy` of a ufunc of two operands."""
    ufunc = of.ufunc

    def function(
        x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None, out_sharding: Any = None
    ) -> Array:
        if out is not None:
            refuse_out(name, out)
        result = ufuncs.call(ufunc, (x1, x2), dtype, out_sharding=out_sharding)
        return result if out_sharding is None else settle(result, out_sharding)

    return _with_methods(
        named(function, name, of.text + _DETAILS.format(operands="x1, x2: arrays that broadcast")),
        ufunc,
    )


abs = absolute = _unary("abs", elementwise.abs)
acos = arccos = _unary("acos", elementwise.acos)
acosh = arccosh = _unary("acosh", elementwise.acosh)
add = _binary("add", elementwise.add)
asin = arcsin = _unary("asin", elementwise.asin)
asinh = arcsinh = _unary("asinh", elementwise.asinh)
atan = arctan = _unary("atan", elementwise.atan)
atan2 = arctan2 = _binary("atan2", elementwise.atan2)
atanh = arctanh = _unary("atanh", elementwise.atanh)
bitwise_and = _binary("bitwise_and", elementwise.bitwise_and)
bitwise_or = _binary("bitwise_or", elementwise.bitwise_or)
bitwise_xor = _binary("bitwise_xor", elementwise.bitwise_xor)
bitwise_invert = bitwise_not = invert = _unary("bitwise_invert", elementwise.bitwise_invert)
bitwise_count = _unary("bitwise_count", elementwise.bitwise_count)
bitwise_left_shift = left_shift = _binary("bitwise_left_shift", elementwise.bitwise_left_shift)
bitwise_right_shift = right_shift = _binary("bitwise_right_shift", elementwise.bitwise_right_shift)
cbrt = _unary("cbrt", elementwise.cbrt)
ceil = _unary("ceil", elementwise.ceil)
conj = conjugate = _unary("conj", elementwise.conj)
copysign = _binary("copysign", elementwise.copysign)
cos = _unary("cos", elementwise.cos)
cosh = _unary("cosh", elementwise.cosh)
deg2rad = radians = _unary("deg2rad", elementwise.deg2rad)
divide = true_divide = _binary("divide", elementwise.divide)
divmod = _binary("divmod", elementwise.divmod)
equal = _binary("equal", elementwise.equal)
exp = _unary("exp", elementwise.exp)
exp2 = _unary("exp2", elementwise.exp2)
expm1 = _unary("expm1", elementwise.expm1)
fabs = _unary("fabs", elementwise.fabs)
float_power = _binary("float_power", elementwise.float_power)
floor = _unary("floor", elementwise.floor)
floor_divide = _binary("floor_divide", elementwise.floor_divide)
fmax = _binary("fmax", elementwise.fmax)
fmin = _binary("fmin", elementwise.fmin)
fmod = _binary("fmod", elementwise.fmod)
frexp = _unary("frexp", elementwise.frexp)
gcd = _binary("gcd", elementwise.gcd)
greater = _binary("greater", elementwise.greater)
greater_equal = _binary("greater_equal", elementwise.greater_equal)
heaviside = _binary("heaviside", elementwise.heaviside)
hypot = _binary("hypot", elementwise.hypot)
isfinite = _unary("isfinite", elementwise.isfinite)
isinf = _unary("isinf", elementwise.isinf)
isnan = _unary("isnan", elementwise.isnan)
lcm = _binary("lcm", elementwise.lcm)
ldexp = _binary("ldexp", elementwise.ldexp)
less = _binary("less", elementwise.less)
less_equal = _binary("less_equal", elementwise.less_equal)
log = _unary("log", elementwise.log)
log10 = _unary("log10", elementwise.log10)
log1p = _unary("log1p", elementwise.log1p)
log2 = _unary("log2", elementwise.log2)
logical_and = _binary("logical_and", elementwise.logical_and)
logical_not = _unary("logical_not", elementwise.logical_not)
logical_or = _binary("logical_or", elementwise.logical_or)
logical_xor = _binary("logical_xor", elementwise.logical_xor)
maximum = _binary("maximum", elementwise.maximum)
minimum = _binary("minimum", elementwise.minimum)
modf = _unary("modf", elementwise.modf)
multiply = _binary("multiply", elementwise.multiply)
negative = _unary("negative", elementwise.negative)
nextafter = _binary("nextafter", elementwise.nextafter)
not_equal = _binary("not_equal", elementwise.not_equal)
positive = _unary("positive", elementwise.positive)
pow = power = _binary("pow", elementwise.power)
rad2deg = degrees = _unary("rad2deg", elementwise.rad2deg)
reciprocal = _unary("reciprocal", elementwise.reciprocal)
remainder = mod = _binary("remainder", elementwise.remainder)
rint = _unary("rint", elementwise.rint)
sign = _unary("sign", elementwise.sign)
signbit = _unary("signbit", elementwise.signbit)
sin = _unary("sin", elementwise.sin)
sinh = _unary("sinh", elementwise.sinh)
spacing = _unary("spacing", elementwise.spacing)
sqrt = _unary("sqrt", elementwise.sqrt)
square = _unary("square", elementwise.square)
subtract = _binary("subtract", elementwise.subtract)
tan = _unary("tan", elementwise.tan)
tanh = _unary("tanh", elementwise.tanh)
trunc = _unary("trunc", elementwise.trunc)


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
    """Choose elements of `x` where a condition is true, and elements of `y` where it is false.

    Args:
      condition: an array of booleans; numbers other than 0 count as true.
      x: an array or a number. Without `x` and `y`, `where` is `nonzero(condition)`.
      y: an array or a number.
      size: as in `nonzero`; only without `x` and `y`.
      fill_value: as in `nonzero`; only without `x` and `y`.
      out_sharding: the sharding or `PartitionSpec` of the result; gpushard chooses by default.

    Raises:
      ArgumentError: only one of `x` and `y` is given. Or `size` or `fill_value` is given together
        with `x` and `y`.
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
    return settle(elementwise.where(*operands("where", condition, x, y)), out_sharding)


def _log_of_sum(name: str, of: elementwise.Ufunc, scale: float) -> BinaryUfunc:
    """Make the logarithm of a sum of two powers, also of complex exponents.

    NumPy's ufuncs take real numbers only.

    Args:
      name: the name of the function.
      of: the ufunc of real numbers.
      scale: the natural logarithm of the base.
    """
    ufunc = of.ufunc

    def function(
        x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None, out_sharding: Any = None
    ) -> Array:
        refuse_out(name, out)
        pair = operands(name, x1, x2)
        kinds = "".join(kind_of(result_type(x)) for x in pair)
        if "c" not in kinds:
            total = ufuncs.call(ufunc, pair, dtype, out_sharding=out_sharding)
            return settle(total, out_sharding)
        total = _complex_log_of_sum(pair[0], pair[1], scale)
        total = total if dtype is None else total.astype(as_dtype(dtype))
        return settle(total, out_sharding)

    return _with_methods(
        named(function, name, of.text + _DETAILS.format(operands="x1, x2: arrays that broadcast")),
        ufunc,
    )


def _complex_log_of_sum(x1: Any, x2: Any, scale: float) -> Any:
    """Add powers relative to the greater one, so that they do not overflow."""
    first = greater_equal(real(x1), real(x2))
    high, low = where(first, x1, x2), where(first, x2, x1)
    ratio = exp(multiply(subtract(low, high), scale))
    none = isinf(real(high))  # of two powers that are 0, or infinite, the ratio is undefined
    total = where(none, high, add(high, divide(log1p(ratio), scale)))
    turns = 2 * np.pi / scale
    imaginary = subtract(total.imag, multiply(rint(divide(total.imag, turns)), turns))
    return add(total.real, multiply(imaginary, total.dtype.type(1j)))


logaddexp = _log_of_sum("logaddexp", elementwise.logaddexp, 1.0)
logaddexp2 = _log_of_sum("logaddexp2", elementwise.logaddexp2, float(np.log(2)))

clip = public_array(elementwise.clip)
round = around = public_array(elementwise.round)


@public
def real(val: Any, *, out_sharding: Any = None) -> Array:
    """Take the real part of each element."""
    return val.real


@public
def imag(val: Any, *, out_sharding: Any = None) -> Array:
    """Take the imaginary part of each element; 0 for real numbers."""
    return val.imag


@public
def angle(z: Any, deg: bool = False, *, out_sharding: Any = None) -> Array:
    """Compute the angles of complex numbers, in radians from -pi (excluded) to pi.

    Args:
      deg: whether to return the angles in degrees.
    """
    radians = atan2(z.imag, z.astype(np.float64) if z.dtype == np.bool_ else z.real)
    return radians * (180 / np.pi) if deg else radians


@public
def fix(x: Any, out: Any = None, *, out_sharding: Any = None) -> Array:
    """Round each element towards 0 to an integer; an older name of `trunc`.

    Args:
      x: an array of real numbers.
    """
    return trunc(x, out)


@public
def sinc(x: Any, *, out_sharding: Any = None) -> Array:
    """Compute sin(pi x) / (pi x), or 1 if x is 0."""
    scaled = x * np.pi
    zero = elementwise.equal(scaled, 0)
    safe = elementwise.where(zero, 1, scaled)
    return elementwise.where(zero, 1, elementwise.sin(safe) / safe)


@public
def i0(x: Any, *, out_sharding: Any = None) -> Array:
    """Compute the modified Bessel function of the first kind, of order 0.

    Args:
      x: an array of real numbers.

    Raises:
      ArgumentTypeError: the array is complex.

    >>> i0([0.0, 1.0])
    Array([1.        , 1.26606588], dtype=float64)
    """
    return bind(I0, (x,), (), out_sharding)
