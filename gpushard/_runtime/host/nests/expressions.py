"""Expressions in C of elementwise operations: what NumPy's function gives for each element.

Results have the bits of NumPy's but for those of `exp`, `expm1`, `log`, `log1p`, `tanh` and `erf`.
These are polynomials that keep below 4.5 units in the last place, `erf` of float below 7. They are
NaN, infinite and denormal where NumPy's and SciPy's are. `exp` and `expm1` have Taylor's series and
the coefficients of Moshier's Cephes library (1984 to 2000), which `tanh` and `log` of float have,
too. `log` of double has those of Sun's fdlibm (1993). `log1p` is `log` with a correction (Kahan).
`erf` of float is `x p(x * x) / q(x * x)`. `erf` of double is `x + x p(x * x)` up to 1. Beyond, it
is `1 - exp(-x * x) q(s)`, with `s` from -1 at 1 to 1 at 6. These are fits to Chebyshev's
points.

Functions of float choose between numbers by their bits (`gs_pickf`): where there are branches,
compilers follow each way for itself. Denormal results of `exp` are counted as integers, since
processors take long for products that are denormal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._runtime.kernel_tree import Atom, Expr
from gpushard._runtime.nests import REDUCTIONS
from gpushard._typing import Dtype

TYPES = {
    np.dtype(np.float32): "float",
    np.dtype(np.float64): "double",
    np.dtype(np.int32): "int32_t",
    np.dtype(np.int64): "int64_t",
    np.dtype(np.bool_): "uint8_t",
}
"""Types that expressions have."""

_CASTS = {np.dtype(np.bool_): "_Bool"}  # what is not 0 is True: an integer would be cut off

_INFIX = {
    "add": "+", "subtract": "-", "multiply": "*",
    "equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">",
    "greater_equal": ">=",
}  # fmt: skip

_OF_FLOATS = {
    "sqrt": "__builtin_sqrt{f}({0})", "exp": "gs_exp{f}({0})", "tanh": "gs_tanh{f}({0})",
    "expm1": "gs_expm1{f}({0})", "log": "gs_log{f}({0})", "log1p": "gs_log1p{f}({0})",
    "erf": "gs_erf{f}({0})",
    "divide": "{0} / {1}", "reciprocal": "1 / {0}", "isnan": "{0} != {0}",
    "floor": "__builtin_floor{f}({0})", "ceil": "__builtin_ceil{f}({0})",
    "trunc": "__builtin_trunc{f}({0})", "rint": "__builtin_rint{f}({0})",
    "absolute": "__builtin_fabs{f}({0})", "fabs": "__builtin_fabs{f}({0})",
    "sign": "{0} != {0} ? {0} : ({0} > 0) - ({0} < 0)",
}  # fmt: skip

_OF_NUMBERS = {
    "negative": "-{0}", "positive": "{0}", "square": "{0} * {0}", "conjugate": "{0}",
    "absolute": "{0} < 0 ? -{0} : {0}", "sign": "({0} > 0) - ({0} < 0)",
    "maximum": "({0} >= {1} || {0} != {0}) ? {0} : {1}",
    "minimum": "({0} <= {1} || {0} != {0}) ? {0} : {1}",
}  # fmt: skip

_OF_BOOLS = {
    "logical_and": "{0} & {1}", "logical_or": "{0} | {1}", "logical_xor": "{0} ^ {1}",
    "logical_not": "!{0}", "bitwise_and": "{0} & {1}", "bitwise_or": "{0} | {1}",
    "bitwise_xor": "{0} ^ {1}", "invert": "!{0}",
}  # fmt: skip


def literal(value: Any, dtype: Dtype) -> Expr | None:
    """Write a number in C; None where the type does not have it.

    >>> print(literal(0.5, np.dtype(np.float32)), literal(-3, np.dtype(np.int64)))
    ((float)0x1.0000000000000p-1) ((int64_t)-3LL)
    """
    name = TYPES.get(dtype)
    if name is None or (dtype.kind in "ib" and isinstance(value, np.floating)):  # out of range
        return None
    if dtype.kind in "ib":
        number = int(value)
        text = "(-9223372036854775807LL - 1)" if number == -(2**63) else f"{number}LL"
        return Atom(f"(({name}){text})")
    value = float(value)
    if math.isnan(value):
        return Atom(f'(({name})__builtin_nan(""))')
    if math.isinf(value):
        return Atom(f"(({name}){'-' * (value < 0)}__builtin_inf())")
    return Atom(f"(({name}){value.hex()})")


def cast(x: Expr, name: str) -> Expr:
    """Convert an expression to a type of C."""
    return Expr(f"({name}){{}}", (x,))


def expression(
    name: str,
    operands: Sequence[Expr],
    types: Sequence[Dtype],
    dtype: Dtype,
    numbers: Sequence[Any],
) -> Expr | None:
    """Write an operation in C; None where there is no expression for it.

    Args:
      name: the operation.
      operands: what it takes.
      types: their types, when the operation sees them.
      dtype: of the result.
      numbers: of each operand the value if it is a number, else None.

    >>> double = np.dtype(float)
    >>> print(expression("add", [Atom("a"), Atom("b")], [double] * 2, double, [None, None]))
    ((double)a) + ((double)b)
    """
    if dtype not in TYPES or any(t not in TYPES for t in types):
        return None
    typed = [cast(x, _CASTS.get(t, TYPES[t])) for x, t in zip(operands, types, strict=True)]
    kinds = {t.kind for t in types}
    suffix = "f" if types[0] == np.dtype(np.float32) else ""
    if name in ("astype", "copy"):
        if dtype.kind == "b":
            return Expr("{} != 0", (operands[0],))
        return None if types[0].kind == "f" and dtype.kind != "f" else operands[0]
    if name == "where":
        chosen = [cast(x, TYPES[dtype]) for x in operands[1:]]
        return Expr("{} ? {} : {}", (operands[0], *chosen))
    if name == "power":
        square = numbers[1] is not None and numbers[1] == 2 and kinds <= {"i", "f"}
        return Expr("{0} * {0}", (typed[0],)) if square else None
    if kinds == {"b"} and name not in _OF_BOOLS and _INFIX.get(name) not in ("==", "!="):
        return None
    form = f"{{0}} {_INFIX[name]} {{1}}" if name in _INFIX else None
    if form is None and kinds == {"f"}:
        form = _OF_FLOATS.get(name)
    if form is None and kinds <= {"i", "f"}:
        form = _OF_NUMBERS.get(name)
    if form is None and kinds == {"b"}:
        form = _OF_BOOLS.get(name)
    return None if form is None else Expr(form.replace("{f}", suffix), tuple(typed))


def is_reduction(name: str, own: Dtype, dtype: Dtype) -> bool:
    """Whether elements of a type are reduced to those of another one in C.

    >>> is_reduction("sum", np.dtype(np.int32), np.dtype(np.int64))
    True
    """
    reduction = REDUCTIONS[name]
    if reduction.combine is np.add:
        return own.kind + dtype.kind in ("ii", "if", "ff")
    extreme = reduction.start is None and own == dtype and own.kind != "b"
    return reduction.position or extreme


PRELUDE = r"""
#include <stdint.h>

#ifdef __FMA__
#define FMA(a, b, c) __builtin_fma(a, b, c)
#define FMAF(a, b, c) __builtin_fmaf(a, b, c)
#else
#define FMA(a, b, c) ((a) * (b) + (c))
#define FMAF(a, b, c) ((a) * (b) + (c))
#endif

static inline float gs_pickf(int32_t yes, float a, float b) {
  union { float f; int32_t i; } x = {a}, y = {b};
  x.i = (yes & x.i) | (~yes & y.i);
  return x.f;
}

static inline float gs_seriesf(float r) {  // exp(r) - 1 from -0.35 to 0.35
  float p = 1.9875691500e-4f;
  p = FMAF(p, r, 1.3981999507e-3f);
  p = FMAF(p, r, 8.3334519073e-3f);
  p = FMAF(p, r, 4.1665795894e-2f);
  p = FMAF(p, r, 1.6666665459e-1f);
  p = FMAF(p, r, 5.0000001201e-1f);
  return FMAF(p, r * r, r);
}

static inline float gs_expf(float x) {
  float c = gs_pickf(-(x > 89.0f), 89.0f, x);
  c = gs_pickf(-(x < -104.0f), -104.0f, c);
  union { float f; uint32_t i; } n = {FMAF(c, 0x1.715476p+0f, 0x1.8p+23f + 126.0f)};
  float k = n.f - (0x1.8p+23f + 126.0f);
  float r = FMAF(k, -0.693359375f, c);
  r = FMAF(k, 2.12194440e-4f, r);
  float p = gs_seriesf(r) + 1.0f;
  int32_t small = -(k < -125.0f);  // the result counts units of 2 to the power of -149
  union { uint32_t i; float f; } scale = {(n.i + (small & 150)) << 23};
  p = p * scale.f;
  union { int32_t i; float f; } units = {(int32_t)__builtin_rintf(p)};
  return gs_pickf(small, units.f, p + p);
}

static inline double gs_exp(double x) {
  double c = x > 710.0 ? 710.0 : x;
  c = x < -746.0 ? 0.0 : c;
  double n = __builtin_rint(c * 0x1.71547652b82fep+0);
  double r = FMA(n, -6.93147180369123816490e-01, c);
  r = FMA(n, -1.90821492927058770002e-10, r);
  double p = 1.0 / 6227020800.0;
  p = FMA(p, r, 1.0 / 479001600.0);
  p = FMA(p, r, 1.0 / 39916800.0);
  p = FMA(p, r, 1.0 / 3628800.0);
  p = FMA(p, r, 1.0 / 362880.0);
  p = FMA(p, r, 1.0 / 40320.0);
  p = FMA(p, r, 1.0 / 5040.0);
  p = FMA(p, r, 1.0 / 720.0);
  p = FMA(p, r, 1.0 / 120.0);
  p = FMA(p, r, 1.0 / 24.0);
  p = FMA(p, r, 1.0 / 6.0);
  p = FMA(p, r, 0.5);
  p = FMA(p, r * r, r) + 1.0;
  int k = (int)(n == n ? n : 0.0), half = k >> 1;
  union { int64_t i; double f; } a = {(int64_t)(half + 1023) << 52};
  union { int64_t i; double f; } b = {(int64_t)(k - half + 1023) << 52};
  return p * a.f * (x < -746.0 ? 0.0 : b.f);
}

static inline float gs_tanhf(float x) {
  float a = __builtin_fabsf(x);
  float c = a > 10.0f ? 10.0f : a;  // from there on it is 1
  union { float f; uint32_t i; } n = {FMAF(c, 0x1.715476p+1f, 0x1.8p+23f)};
  union { uint32_t i; float f; } scale = {(n.i + 127) << 23};
  float whole = n.f - 0x1.8p+23f;
  float r = FMAF(whole, -0.693359375f, c + c);
  r = FMAF(whole, 2.12194440e-4f, r);
  float e = gs_seriesf(r);
  float m = FMAF(e, scale.f, scale.f - 1.0f);  // exp(2a) - 1, with all digits near 0, too
  return __builtin_copysignf(m / (m + 2.0f), x);
}

static inline double gs_tanh(double x) {
  double z = x * x, a = __builtin_fabs(x);
  double p = -9.64399179425052238628e-1;
  p = FMA(p, z, -9.92877231001918586564e1);
  p = FMA(p, z, -1.61468768441708447952e3);
  double q = z + 1.12811678491632931402e2;
  q = FMA(q, z, 2.23548839060100448583e3);
  q = FMA(q, z, 4.84406305325125486048e3);
  double low = FMA(a * z, p / q, a);
  double high = 1.0 - 2.0 / (gs_exp(a + a) + 1.0);
  return __builtin_copysign(a < 0.625 ? low : high, x);
}

static inline float gs_logf(float x) {
  int32_t small = -(x < 0x1p-126f);
  union { float f; uint32_t i; } m = {gs_pickf(small, x * 0x1p+23f, x)};
  uint32_t at = m.i - 0x3f3504f3u + 0x3f800000u;
  float k = (float)((int32_t)(at >> 23) - 127 - (small & 23));
  m.i = (at & 0x7fffffu) + 0x3f3504f3u;
  float r = m.f - 1.0f, z = r * r;
  float p = 7.0376836292e-2f;
  p = FMAF(p, r, -1.1514610310e-1f);
  p = FMAF(p, r, 1.1676998740e-1f);
  p = FMAF(p, r, -1.2420140846e-1f);
  p = FMAF(p, r, 1.4249322787e-1f);
  p = FMAF(p, r, -1.6668057665e-1f);
  p = FMAF(p, r, 2.0000714765e-1f);
  p = FMAF(p, r, -2.4999993993e-1f);
  p = FMAF(p, r, 3.3333331174e-1f);
  p = FMAF(k, -2.12194440e-4f, p * r * z);
  p = FMAF(-0.5f, z, p) + r;
  p = FMAF(k, 0.693359375f, p);
  p = gs_pickf(-(x == __builtin_inff()), x, p);
  p = gs_pickf(-!(x > 0), __builtin_nanf(""), p);
  return gs_pickf(-(x == 0), -__builtin_inff(), p);
}

static inline double gs_log(double x) {
  double big = x < 0x1p-1022 ? x * 0x1p+52 : x;
  union { double f; uint64_t i; } m = {big}, n;
  uint64_t at = m.i - 0x3fe6a09e667f3bcdu + 0x3ff0000000000000u;
  n.i = (at >> 52) | 0x4330000000000000u;  // 2 to the power of 52, and the exponent
  double k = n.f - (0x1p+52 + 1023.0) - (x < 0x1p-1022 ? 52.0 : 0.0);
  m.i = (at & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu;
  double r = m.f - 1.0, s = r / (2.0 + r), z = s * s;
  double p = 1.479819860511658591e-01;
  p = FMA(p, z, 1.531383769920937332e-01);
  p = FMA(p, z, 1.818357216161805012e-01);
  p = FMA(p, z, 2.222219843214978396e-01);
  p = FMA(p, z, 2.857142874366239149e-01);
  p = FMA(p, z, 3.999999999940941908e-01);
  p = FMA(p, z, 6.666666666666735130e-01);
  double half = 0.5 * r * r;
  p = FMA(s, FMA(p, z, half), k * 1.90821492927058770002e-10);
  p = FMA(k, 6.93147180369123816490e-01, r - (half - p));
  p = x > 0 ? p : x == 0 ? -__builtin_inf() : __builtin_nan("");
  return x == __builtin_inf() ? x : p;
}

static inline float gs_log1pf(float x) {
  float u = 1.0f + x;
  float y = gs_logf(u) - ((u - 1.0f) - x) / u;
  y = x == -1.0f || x == __builtin_inff() ? gs_logf(u) : y;
  return u == 1.0f ? x : y;
}

static inline double gs_log1p(double x) {
  double u = 1.0 + x;
  double y = gs_log(u) - ((u - 1.0) - x) / u;
  y = x == -1.0 || x == __builtin_inf() ? gs_log(u) : y;
  return u == 1.0 ? x : y;
}

static inline float gs_expm1f(float x) {
  float c = gs_pickf(-(x > 89.0f), 89.0f, x);
  c = gs_pickf(-(x < -20.0f), -20.0f, c);
  union { float f; uint32_t i; } n = {FMAF(c, 0x1.715476p+0f, 0x1.8p+23f + 126.0f)};
  float k = n.f - (0x1.8p+23f + 126.0f);
  float r = FMAF(k, -0.693359375f, c);
  r = FMAF(k, 2.12194440e-4f, r);
  float p = gs_seriesf(r);
  union { uint32_t i; float f; } half = {n.i << 23};
  p = FMAF(p, half.f, half.f - 0.5f);
  return gs_pickf(-(x == 0.0f), x, p + p);
}

static inline double gs_expm1(double x) {
  double c = x > 710.0 ? 710.0 : x;
  c = c < -50.0 ? -50.0 : c;
  double n = __builtin_rint(c * 0x1.71547652b82fep+0);
  double r = FMA(n, -6.93147180369123816490e-01, c);
  r = FMA(n, -1.90821492927058770002e-10, r);
  double p = 1.0 / 87178291200.0;
  p = FMA(p, r, 1.0 / 6227020800.0);
  p = FMA(p, r, 1.0 / 479001600.0);
  p = FMA(p, r, 1.0 / 39916800.0);
  p = FMA(p, r, 1.0 / 3628800.0);
  p = FMA(p, r, 1.0 / 362880.0);
  p = FMA(p, r, 1.0 / 40320.0);
  p = FMA(p, r, 1.0 / 5040.0);
  p = FMA(p, r, 1.0 / 720.0);
  p = FMA(p, r, 1.0 / 120.0);
  p = FMA(p, r, 1.0 / 24.0);
  p = FMA(p, r, 1.0 / 6.0);
  p = FMA(p, r, 0.5);
  p = FMA(p, r * r, r);
  union { int64_t i; double f; } half = {(int64_t)((int)(n == n ? n : 0.0) + 1022) << 52};
  p = FMA(p, half.f, half.f - 0.5);
  return x == 0.0 ? x : p + p;
}

static inline float gs_erff(float x) {
  float a = __builtin_fabsf(x);
  a = gs_pickf(-(a > 4.0f), 4.0f, a);  // from there on it is 1
  float z = a * a;
  float p = 2.4095097614917904e-06f;
  p = FMAF(p, z, 0.0003385533345863223f);
  p = FMAF(p, z, 0.004528142977505922f);
  p = FMAF(p, z, 0.06287821382284164f);
  p = FMAF(p, z, 0.22777840495109558f);
  p = FMAF(p, z, 1.3418766260147095f);
  float q = 4.4992848415859044e-05f;
  q = FMAF(q, z, 0.0013921259669587016f);
  q = FMAF(q, z, 0.01790251024067402f);
  q = FMAF(q, z, 0.13622936606407166f);
  q = FMAF(q, z, 0.5982649326324463f);
  q = FMAF(q, z, 1.1892073154449463f);
  a = a * p / q;
  return __builtin_copysignf(gs_pickf(-(a > 1.0f), 1.0f, a), x);
}

static inline double gs_erf(double x) {
  double a = __builtin_fabs(x), z = x * x;
  double p = -7.795898827002142e-10;
  p = FMA(p, z, 1.3720064546777686e-08);
  p = FMA(p, z, -1.6208483801871705e-07);
  p = FMA(p, z, 1.6447424703317362e-06);
  p = FMA(p, z, -1.492473690741966e-05);
  p = FMA(p, z, 0.00012055294904839707);
  p = FMA(p, z, -0.0008548325975389692);
  p = FMA(p, z, 0.0052239776071164225);
  p = FMA(p, z, -0.02686617064323777);
  p = FMA(p, z, 0.11283791670945006);
  p = FMA(p, z, -0.37612638903183543);
  p = FMA(p, z, 0.12837916709551256);
  double c = a > 6.0 ? 6.0 : a;  // from there on it is 1
  double s = (13.0 * c - 33.0) / (5.0 * c + 15.0);
  double q = 6.0857915906870915e-12;
  q = FMA(q, s, 6.047405945991704e-12);
  q = FMA(q, s, -2.571511429603255e-10);
  q = FMA(q, s, -2.6381508985080735e-10);
  q = FMA(q, s, 1.1339538061744706e-08);
  q = FMA(q, s, -4.526700764248741e-09);
  q = FMA(q, s, -5.541274478467714e-07);
  q = FMA(q, s, 2.4255574719050315e-06);
  q = FMA(q, s, 1.9563583246137112e-05);
  q = FMA(q, s, -0.0003316029605764125);
  q = FMA(q, s, 0.002479314697078186);
  q = FMA(q, s, -0.012713147695692198);
  q = FMA(q, s, 0.04969844540339464);
  q = FMA(q, s, -0.15436117429436919);
  q = FMA(q, s, 0.20798329133342885);
  double low = FMA(x, p, x), high = __builtin_copysign(1.0 - gs_exp(-c * c) * q, x);
  return a < 1.0 ? low : high;
}
"""
"""What expressions call."""


def prelude(text: str) -> str:
    """Return the beginning of a source in C: what its text calls, and what that calls.

    >>> "gs_logf(float" in prelude("x = gs_log1pf(y);"), "gs_tanhf" in prelude("x = gs_logf(y);")
    (True, False)
    """
    head, *functions = PRELUDE.split("\nstatic inline ")
    called: list[str] = []
    for function in reversed(functions):  # a function calls earlier ones
        name = function.partition("(")[0].split()[-1]
        if any(f"{name}(" in other for other in (text, *called)):
            called.insert(0, function)
    return "\nstatic inline ".join([head, *called])
