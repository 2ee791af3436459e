"""Elementwise functions: NumPy's ufuncs, `where`, `clip` and `round`.

Each ufunc has here the line that documents it; `gpushard.numpy` and `gpushard.lax` make public
functions of it, each with its own conventions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._functions.argument_checks import ranged, refuse_out
from gpushard._functions.values import Array, view
from gpushard._ops.bind import bind
from gpushard._ops.table import elementwise as rows
from gpushard._runtime.namespace import special_ufunc
from gpushard.dtypes import iinfo, kind_of


class Ufunc:
    """A ufunc as a function of values.

    Args:
      ufunc: NumPy's, or the name of SciPy's, which is imported when it is first needed.
      text: the first line of the docstrings of its public functions.
    """

    __slots__ = ("_ufunc", "text")

    def __init__(self, ufunc: np.ufunc | str, text: str) -> None:
        self._ufunc = ufunc
        self.text = text

    def __call__(self, *operands: Any) -> Any:
        """Apply it to values, element by element."""
        return bind(rows.ufunc_row(self.ufunc), operands)

    @property
    def ufunc(self) -> np.ufunc:
        """The ufunc of NumPy or SciPy.

        Raises:
          MissingLibraryError: SciPy is not installed.
        """
        if isinstance(self._ufunc, str):
            self._ufunc = special_ufunc(self._ufunc)
        return self._ufunc


# fmt: off
abs = Ufunc(np.absolute, "Compute the absolute value of each element.")
acos = Ufunc(np.arccos, "Compute the arc cosine of each element, in radians from 0 to pi.")
acosh = Ufunc(np.arccosh, "Compute the inverse hyperbolic cosine of each element.")
add = Ufunc(np.add, "Add two arrays, element by element.")
asin = Ufunc(np.arcsin, "Compute the arc sine of each element, in radians from -pi/2 to pi/2.")
asinh = Ufunc(np.arcsinh, "Compute the inverse hyperbolic sine of each element.")
atan = Ufunc(np.arctan, "Compute the arc tangent of each element, in radians from -pi/2 to pi/2.")
atan2 = Ufunc(
    np.arctan2, "Compute the angle of points from y (first) and x (second), in radians, -pi to pi."
)
atanh = Ufunc(np.arctanh, "Compute the inverse hyperbolic tangent of each element.")
bitwise_and = Ufunc(np.bitwise_and, "Compute the bitwise AND of two arrays, element by element.")
bitwise_count = Ufunc(np.bitwise_count, "Count the 1 bits in the absolute value of each element.")
bitwise_invert = Ufunc(np.invert, "Invert the bits of each element.")
bitwise_left_shift = Ufunc(np.left_shift, "Shift the bits of x1 left by x2 positions.")
bitwise_or = Ufunc(np.bitwise_or, "Compute the bitwise OR of two arrays, element by element.")
bitwise_right_shift = Ufunc(np.right_shift, "Shift the bits of x1 right by x2 positions.")
bitwise_xor = Ufunc(np.bitwise_xor, "Compute the bitwise XOR of two arrays, element by element.")
cbrt = Ufunc(np.cbrt, "Compute the cube root of each element.")
ceil = Ufunc(np.ceil, "Round each element up to an integer.")
conj = Ufunc(np.conjugate, "Compute the complex conjugate of each element.")
copysign = Ufunc(np.copysign, "Give each element of the first operand the sign of the second.")
cos = Ufunc(np.cos, "Compute the cosine of each element, an angle in radians.")
cosh = Ufunc(np.cosh, "Compute the hyperbolic cosine of each element.")
deg2rad = Ufunc(np.deg2rad, "Convert each element from degrees to radians.")
divide = Ufunc(np.divide, "Divide the first operand by the second, element by element.")
divmod = Ufunc(np.divmod, "Divide x1 by x2; return the quotient, rounded down, and the remainder.")
equal = Ufunc(np.equal, "Test whether two arrays are equal, element by element.")
exp = Ufunc(np.exp, "Compute e to the power of each element.")
exp2 = Ufunc(np.exp2, "Compute 2 to the power of each element.")
expm1 = Ufunc(np.expm1, "Compute exp(x) - 1 for each element, precisely also near 0.")
fabs = Ufunc(np.fabs, "Compute the absolute value of each element as a float.")
float_power = Ufunc(np.float_power, "Raise x1 to the power of x2, in float64 or wider.")
floor = Ufunc(np.floor, "Round each element down to an integer.")
floor_divide = Ufunc(np.floor_divide, "Divide the first operand by the second, and round down.")
fmax = Ufunc(np.fmax, "Choose the greater of two elements; if one is NaN, the other.")
fmin = Ufunc(np.fmin, "Choose the lesser of two elements; if one is NaN, the other.")
fmod = Ufunc(np.fmod, "Compute the remainder of x1 / x2, with the sign of x1.")
frexp = Ufunc(np.frexp, "Split each element into mantissa and exponent: mantissa * 2**exponent.")
gcd = Ufunc(np.gcd, "Compute the greatest common divisor of two arrays, element by element.")
greater = Ufunc(np.greater, "Test whether the first operand is greater than the second.")
greater_equal = Ufunc(np.greater_equal, "Test whether the first operand is at least the second.")
heaviside = Ufunc(np.heaviside, "Compute a step: 0 if x1 < 0, 1 if x1 > 0, and x2 if x1 is 0.")
hypot = Ufunc(np.hypot, "Compute the hypotenuse, sqrt(x1**2 + x2**2), element by element.")
isfinite = Ufunc(np.isfinite, "Test whether each element is a finite number.")
isinf = Ufunc(np.isinf, "Test whether each element is infinite.")
isnan = Ufunc(np.isnan, "Test whether each element is NaN.")
lcm = Ufunc(np.lcm, "Compute the least common multiple of two arrays, element by element.")
ldexp = Ufunc(np.ldexp, "Multiply the first operand by 2 to the power of the second.")
less = Ufunc(np.less, "Test whether the first operand is less than the second.")
less_equal = Ufunc(np.less_equal, "Test whether the first operand is at most the second.")
log = Ufunc(np.log, "Compute the natural logarithm of each element.")
log10 = Ufunc(np.log10, "Compute the logarithm to base 10 of each element.")
log1p = Ufunc(np.log1p, "Compute log(1 + x) for each element, precisely also near 0.")
log2 = Ufunc(np.log2, "Compute the logarithm to base 2 of each element.")
logaddexp = Ufunc(np.logaddexp, "Compute log(exp(x1) + exp(x2)), element by element.")
logaddexp2 = Ufunc(np.logaddexp2, "Compute log2(2**x1 + 2**x2), element by element.")
logical_and = Ufunc(np.logical_and, "Test whether both elements are true.")
logical_not = Ufunc(np.logical_not, "Test whether each element is false.")
logical_or = Ufunc(np.logical_or, "Test whether at least one of two elements is true.")
logical_xor = Ufunc(np.logical_xor, "Test whether exactly one of two elements is true.")
maximum = Ufunc(np.maximum, "Choose the greater of two elements; NaN if either is NaN.")
minimum = Ufunc(np.minimum, "Choose the lesser of two elements; NaN if either is NaN.")
modf = Ufunc(np.modf, "Split each element into its fractional part and its integral part.")
multiply = Ufunc(np.multiply, "Multiply two arrays, element by element.")
negative = Ufunc(np.negative, "Change the sign of each element.")
nextafter = Ufunc(np.nextafter, "Find the next float after the first operand, towards the second.")
not_equal = Ufunc(np.not_equal, "Test whether two arrays differ, element by element.")
positive = Ufunc(np.positive, "Return the elements unchanged, as a new array.")
power = Ufunc(np.power, "Raise the first operand to the power of the second.")
rad2deg = Ufunc(np.rad2deg, "Convert each element from radians to degrees.")
reciprocal = Ufunc(np.reciprocal, "Compute 1 / x for each element.")
remainder = Ufunc(np.remainder, "Compute the remainder of x1 / x2, with the sign of x2.")
rint = Ufunc(np.rint, "Round each element to the nearest integer; ties go to the even one.")
sign = Ufunc(np.sign, "Compute the sign of each element: -1, 0 or 1; x / abs(x) if complex.")
signbit = Ufunc(np.signbit, "Test whether the sign bit of each element is set.")
sin = Ufunc(np.sin, "Compute the sine of each element, an angle in radians.")
sinh = Ufunc(np.sinh, "Compute the hyperbolic sine of each element.")
spacing = Ufunc(np.spacing, "Compute the distance from each element to the next float.")
sqrt = Ufunc(np.sqrt, "Compute the square root of each element.")
square = Ufunc(np.square, "Compute the square of each element.")
subtract = Ufunc(np.subtract, "Subtract the second operand from the first, element by element.")
tan = Ufunc(np.tan, "Compute the tangent of each element, an angle in radians.")
tanh = Ufunc(np.tanh, "Compute the hyperbolic tangent of each element.")
trunc = Ufunc(np.trunc, "Round each element towards 0 to an integer.")
# fmt: on


def where(condition: Any, x: Any, y: Any) -> Any:
    """Choose the elements of `x` where a condition holds, and those of `y` elsewhere."""
    return bind(rows.WHERE, (condition, x, y))


def clip(
    a: Array, min: Any = None, max: Any = None, out: Any = None, *, out_sharding: Any = None
) -> Array:
    """Limit each element to the range from `min` to `max`.

    Args:
      min: the lower bound, a number or an array; None for no lower bound.
      max: the upper bound, a number or an array; None for no upper bound.
    """
    refuse_out("clip", out)
    if kind_of(a.dtype) in "iu":  # Python's integers that nothing is beyond need not fit
        limits = iinfo(a.dtype)
        min = None if type(min) is int and min <= limits.min else min
        max = None if type(max) is int and max >= limits.max else max
    if min is None and max is None:
        return view(a, None, (), out_sharding)
    bounds = [bound for bound in (min, max) if bound is not None]
    present = min is not None, max is not None
    return bind(rows.CLIP, (a, *bounds), present, out_sharding)


def round(a: Array, decimals: int = 0, out: Any = None, *, out_sharding: Any = None) -> Array:
    """Round each element to a number of decimals; ties go to the even digit.

    Args:
      decimals: the number of digits to keep after the decimal point. A negative number -n rounds to
        multiples of 10**n.
    """
    refuse_out("round", out)
    return bind(rows.ROUND, (a,), (ranged(decimals, "round", "decimals", 32),), out_sharding)
