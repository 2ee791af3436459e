"""Definitions of the functions of each element, by Python numbers."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from tests.lax.definitions.registry import (
    BFLOAT16,
    DEFINITIONS,
    kind_of,
    need,
    need_kind,
    one_dtype,
    wrapped,
)

INF, NAN = math.inf, math.nan

ACCEPTS: dict[str, str] = {}
"""The kinds that each function takes."""


def _dtype_of(x: Any, result: str | None) -> Any:
    """Return the dtype of a result: the operand's, booleans, or that of complex parts."""
    if result == "?":
        return np.dtype(bool)
    if result == "real":
        return (
            {8: np.dtype("f4"), 16: np.dtype("f8")}[x.dtype.itemsize]
            if x.dtype.kind == "c"
            else x.dtype
        )
    if result == "complex":
        return x.dtype if x.dtype.kind == "c" else np.dtype("c8" if x.dtype == "f4" else "c16")
    return x.dtype


def _enter(name: str, kinds: str, function: Callable[..., Any], result: str | None = None) -> None:
    """Enter a function of Python numbers as the definition of one of arrays."""

    def definition(*xs: Any) -> Any:
        arrays = one_dtype(*xs)
        need_kind(arrays[0], kinds)
        narrow = result == "complex" and arrays[0].dtype.itemsize < 4
        need(not narrow, "ArgumentTypeError")
        shapes = [x.shape for x in arrays]
        need(len({len(shape) for shape in shapes if shape}) <= 1)
        whole = np.broadcast_arrays(*arrays)
        to = _dtype_of(arrays[0], result)
        made = np.zeros(whole[0].shape, to)
        for index in np.ndindex(*made.shape):
            made[index] = wrapped(_called(function, [x[index] for x in whole]), to)
        return made

    assert name not in DEFINITIONS
    DEFINITIONS[name] = definition
    ACCEPTS[name] = kinds


def _called(function: Callable[..., Any], elements: list[Any]) -> Any:
    numbers = [float(x) if x.dtype == BFLOAT16 else x.item() for x in elements]
    bits = getattr(function, "bits", False)
    return function(*numbers, elements[0].dtype) if bits else function(*numbers)


def _with_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function have the dtype of its operands, too, as the last argument."""
    function.bits = True
    return function


def _by_kind(real: Callable[..., Any], of_complex: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: of_complex(*xs) if isinstance(xs[0], complex) else real(*xs)


def _sign(x: Any) -> Any:
    if isinstance(x, complex):
        return x / abs(x) if x else 0
    return x if x != x or x == 0 else -1 if x < 0 else 1


def _bit_count(x: int, dtype: Any) -> int:
    return f"{x & _ones(dtype):b}".count("1")


def _ones(dtype: Any) -> int:
    return (1 << (8 * dtype.itemsize)) - 1


def _leading_zeros(x: int, dtype: Any) -> int:
    return f"{x & _ones(dtype):0{8 * dtype.itemsize}b}".find("1") if x else 8 * dtype.itemsize


for _name in ["acos", "asin", "atan", "atanh", "cos", "cosh", "sin", "sinh", "tan", "tanh",
              "exp", "log", "sqrt", "asinh", "acosh"]:  # fmt: skip
    _enter(_name, "fc", _by_kind(getattr(math, _name), getattr(cmath, _name)))
_enter("exp2", "fc", lambda x: 2.0**x)
_enter("expm1", "fc", _by_kind(math.expm1, lambda x: cmath.exp(x) - 1))
_enter("log1p", "fc", _by_kind(math.log1p, lambda x: cmath.log(1 + x)))
_enter(
    "logistic", "fc", _by_kind(lambda x: 1 / (1 + math.exp(-x)), lambda x: 1 / (1 + cmath.exp(-x)))
)
_enter("reciprocal", "fc", lambda x: 1 / x if x else math.copysign(INF, x))
_enter("rsqrt", "fc", _by_kind(lambda x: 1 / math.sqrt(x), lambda x: 1 / cmath.sqrt(x)))
_enter("cbrt", "f", lambda x: math.copysign(abs(x) ** (1 / 3), x))
_enter("square", "iufc", lambda x: x * x)
_enter("abs", "ifc", abs, "real")
_enter("neg", "iufc", lambda x: -x)
_enter("sign", "iufc", _sign)
_enter(
    "conj",
    "fc",
    lambda x: complex(x).conjugate() if isinstance(x, complex) else complex(x),
    "complex",
)
_enter("real", "c", lambda x: x.real, "real")
_enter("imag", "c", lambda x: x.imag, "real")
_enter("is_finite", "f", math.isfinite, "?")
_enter("ceil", "f", lambda x: math.copysign(math.ceil(x), x) if math.isfinite(x) else x)
_enter("floor", "f", lambda x: math.copysign(math.floor(x), x) if math.isfinite(x) else x)
_enter("bitwise_not", "biu", lambda x: not x if isinstance(x, bool) else ~x)
_enter("clz", "iu", _with_dtype(_leading_zeros))
_enter("population_count", "iu", _with_dtype(_bit_count))


def _quotient(x: Any, y: Any) -> Any:
    if isinstance(x, int):
        return -1 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    if y == 0 and not isinstance(x, complex):
        return NAN if x == 0 or x != x else math.copysign(INF, x) * math.copysign(1, y)
    return x / y


def _remainder(x: Any, y: Any) -> Any:
    if isinstance(x, int):
        return x if y == 0 else int(math.copysign(1, x)) * (abs(x) % abs(y))
    return NAN if y == 0 or math.isinf(x) else math.fmod(x, y)


def _extreme(greater: bool) -> Callable[[Any, Any], Any]:
    def pick(x: Any, y: Any) -> Any:
        if x != x or y != y:
            return x if x != x else y
        a, b = ((z.real, z.imag) if isinstance(z, complex) else z for z in (x, y))
        return x if (a >= b if greater else a <= b) else y

    return pick


_enter("add", "iufc", lambda x, y: x + y)
_enter("sub", "iufc", lambda x, y: x - y)
_enter("mul", "iufc", lambda x, y: x * y)
_enter("div", "iufc", _quotient)
_enter("rem", "iuf", _remainder)
_enter("max", "biufc", _extreme(True))
_enter("min", "biufc", _extreme(False))
_enter("eq", "biufc", lambda x, y: x == y, "?")
_enter("ne", "biufc", lambda x, y: x != y, "?")
_enter("lt", "biuf", lambda x, y: x < y, "?")
_enter("le", "biuf", lambda x, y: x <= y, "?")
_enter("gt", "biuf", lambda x, y: x > y, "?")
_enter("ge", "biuf", lambda x, y: x >= y, "?")
_enter("atan2", "f", math.atan2)
_enter("complex", "f", complex, "complex")
_enter("bitwise_and", "biu", lambda x, y: x & y)
_enter("bitwise_or", "biu", lambda x, y: x | y)
_enter("bitwise_xor", "biu", lambda x, y: x ^ y)


def _shift(name: str) -> Callable[..., Any]:
    def shifted(x: int, by: int, dtype: Any) -> int:
        bits = 8 * dtype.itemsize
        by = by if 0 <= by < bits else bits  # a negative number is a large one
        if name == "left":
            return x << by
        raw = x & _ones(dtype)
        return (raw - (1 << bits) if raw >> (bits - 1) and name == "arithmetic" else raw) >> by

    return _with_dtype(shifted)


_enter("shift_left", "iu", _shift("left"))
_enter("shift_right_arithmetic", "iu", _shift("arithmetic"))
_enter("shift_right_logical", "iu", _shift("logical"))


@_with_dtype
def _next_after(x: float, y: float, dtype: Any) -> Any:
    """Return the neighbour of x among all numbers of a dtype, ordered as integers."""
    if x != x or y != y:
        return NAN
    if x == y:
        return y
    whole = {2: "i2", 4: "i4", 8: "i8"}[dtype.itemsize]
    if x == 0:
        tiny = np.array(1, whole).view(dtype).astype("f8").item()
        return math.copysign(tiny, y)
    bits = np.array(x, dtype).view(whole).item()
    step = 1 if (y > x) == (x > 0) else -1
    return np.array(bits + step, whole).view(dtype).astype("f8").item()


_enter("nextafter", "f", _next_after)


def _bessel(order: int) -> Callable[[float], float]:
    def scaled(x: float) -> float:
        terms = [(x / 2) ** (2 * k + order) / (math.factorial(k) * math.factorial(k + order))
                 for k in range(60)]  # fmt: skip
        return math.exp(-abs(x)) * math.fsum(terms)

    return scaled


def _digamma(x: float) -> float:
    below = math.fsum(1 / (x + k) for k in range(40))
    y = x + 40
    return math.log(y) - 1 / (2 * y) - 1 / (12 * y**2) + 1 / (120 * y**4) - 1 / (252 * y**6) - below


def _zeta(s: float, a: float) -> float:
    b = a + 40
    tail = b ** (1 - s) / (s - 1) + b**-s / 2 + s / 12 * b ** (-s - 1)
    return (
        math.fsum((a + k) ** -s for k in range(40))
        + tail
        - s * (s + 1) * (s + 2) / 720 * b ** (-s - 3)
    )


def _polygamma(n: float, x: float) -> float:
    return _digamma(x) if n == 0 else (-1) ** (int(n) + 1) * math.gamma(n + 1) * _zeta(n + 1, x)


def _igamma(a: float, x: float) -> float:
    if x == 0:
        return 0.0
    return math.fsum(
        math.exp(a * math.log(x) - x + n * math.log(x) - math.lgamma(a + n + 1)) for n in range(150)
    )


def _betainc(a: float, b: float, x: float) -> float:
    """Sum the series of DLMF 8.17.8."""
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    term = total = 1.0
    for n in range(2000):
        term *= (a + b + n) / (a + 1 + n) * x
        total += term
    return math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta) / a * total


def _erf_inv(y: float) -> float:
    low, high = -6.0, 6.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erf(middle) < y else (low, middle)
    return low


_enter("erf", "f", math.erf)
_enter("erfc", "f", math.erfc)
_enter("erf_inv", "f", _erf_inv)
_enter("lgamma", "f", math.lgamma)
_enter("digamma", "f", _digamma)
_enter("bessel_i0e", "f", _bessel(0))
_enter("bessel_i1e", "f", _bessel(1))
_enter("igamma", "f", _igamma)
_enter("igammac", "f", lambda a, x: 1 - _igamma(a, x))
_enter("polygamma", "f", _polygamma)
_enter("zeta", "f", _zeta)
_enter("betainc", "f", _betainc)


def _integer_pow(x: Any, y: Any) -> Any:
    x = np.asarray(x)
    need_kind(x, "iufc")
    need(isinstance(y, int | np.integer), "ArgumentTypeError")
    need(y >= 0 or kind_of(x) in "fc", "ArgumentTypeError")
    numbers = [each.item() ** y for each in x.ravel()]
    return np.array([wrapped(each, x.dtype) for each in numbers], x.dtype).reshape(x.shape)


def _pow(x: Any, y: Any) -> Any:
    x, y = (each if type(each) in (int, float, complex) else np.asarray(each) for each in (x, y))
    x = np.asarray(x)
    need_kind(x, "fc")
    if type(y) is int or getattr(y, "dtype", x.dtype).kind in "iu":
        y = np.asarray(y).astype(x.dtype)
    x, y = one_dtype(x, y)
    need(x.ndim == y.ndim or () in (x.shape, y.shape))
    x, y = np.broadcast_arrays(x, y)
    numbers = [a.item() ** b.item() for a, b in zip(x.ravel(), y.ravel(), strict=True)]
    return np.array(numbers).astype(x.dtype).reshape(x.shape)


def _round(x: Any, rounding_method: int = 0) -> Any:
    x = np.asarray(x)
    need_kind(x, "f")
    need(rounding_method in (0, 1))
    how = ROUND_HALF_EVEN if rounding_method == 1 else ROUND_HALF_UP

    def rounded(each: float) -> float:
        return float(Decimal(each).to_integral_value(how)) if math.isfinite(each) else each

    return np.array([rounded(float(each)) for each in x.ravel()]).astype(x.dtype).reshape(x.shape)


def _clamp(low: Any, x: Any, high: Any) -> Any:
    low, x, high = one_dtype(low, x, high)
    need(all(bound.shape in ((), x.shape) for bound in (low, high)))
    low, _, high = np.broadcast_arrays(low, x, high)
    lesser, greater = _extreme(False), _extreme(True)
    made = [lesser(greater(v, a), b)
            for a, v, b in zip(low.ravel(), x.ravel(), high.ravel(), strict=True)]  # fmt: skip
    return np.array(made, x.dtype).reshape(x.shape)


def _select_n(which: Any, *cases: Any) -> Any:
    need(cases)
    which, cases = np.asarray(which), one_dtype(*cases)
    need_kind(which, "biu")
    need(all(case.shape == cases[0].shape for case in cases))
    need(which.shape in ((), cases[0].shape))
    need(which.dtype != bool or len(cases) <= 2)
    which = np.broadcast_to(which, cases[0].shape)
    made = np.empty_like(cases[0])
    for index in np.ndindex(*made.shape):
        made[index] = cases[min(max(int(which[index]), 0), len(cases) - 1)][index]
    return made


def _convert(x: Any, to: Any) -> Any:
    x, to = np.asarray(x), np.dtype(to)

    def converted(value: Any) -> Any:
        if to.kind == "b":
            return bool(value)
        if to.kind == "c":
            return value
        value = value.real
        return wrapped(int(value) if to.kind in "iu" else value, to)

    return np.array([converted(each.item()) for each in x.ravel()], to).reshape(x.shape)


def _bitcast(x: Any, to: Any) -> Any:
    x, to = np.ascontiguousarray(x), np.dtype(to)
    ratio, shape = x.dtype.itemsize / to.itemsize, np.shape(x)
    if ratio > 1:
        shape = (*shape, int(ratio))
    elif ratio < 1:
        need(shape[-1:] == (round(1 / ratio),))
        shape = shape[:-1]
    return np.frombuffer(x.tobytes(), to).reshape(shape)


def _reduce_precision(x: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    x = np.asarray(x)
    need_kind(x, "f")
    need(exponent_bits >= 1 and mantissa_bits >= 0)
    nmant, iexp = {2: (10, 5), 4: (23, 8), 8: (52, 11)}[x.dtype.itemsize]
    if x.dtype == BFLOAT16:
        nmant, iexp = 7, 8

    def reduced(value: float) -> float:
        if value == 0 or not math.isfinite(value):
            return value
        exponent = max(math.frexp(value)[1] - 1, 2 - 2 ** (iexp - 1))
        step = Fraction(2) ** (exponent - min(mantissa_bits, nmant))
        exact = round(Fraction(value) / step) * step  # half to even
        if exponent_bits < iexp:
            most = 2 ** (exponent_bits - 1) - 1
            if abs(exact) >= Fraction(2) ** (most + 1):
                return math.copysign(INF, value)
            if abs(exact) < Fraction(2) ** (1 - most):
                return math.copysign(0.0, value)
        if abs(exact) >= Fraction(2) ** (2 ** (iexp - 1)):
            return math.copysign(INF, value)
        return math.copysign(float(exact), value)

    numbers = [reduced(float(each)) for each in x.ravel()]
    return np.array(numbers).astype(x.dtype).reshape(x.shape)


DEFINITIONS |= {
    "integer_pow": _integer_pow,
    "pow": _pow,
    "round": _round,
    "clamp": _clamp,
    "select": lambda pred, on_true, on_false: _select_n(pred, on_false, on_true),
    "select_n": _select_n,
    "convert_element_type": _convert,
    "bitcast_convert_type": _bitcast,
    "reduce_precision": _reduce_precision,
}
ACCEPTS |= {"integer_pow": "iufc", "pow": "fc", "round": "f", "reduce_precision": "f"}
