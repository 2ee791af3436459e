"""Replace functions that CuPy lacks, or that differ from NumPy at the ends of the range.

CuPy's functions of complex numbers give NaN at zero or infinity. Its shifts by negative numbers, or
by more bits than a number has, depend on the hardware. Its functions of bits lose the smallest
floats: CuPy compiles kernels with -ftz=true, so single precision treats subnormal numbers as zero.
That does not affect integers and double precision.
"""

from __future__ import annotations

import functools
from typing import Any

import cupy
import numpy as np

from gpushard._runtime.cuda.driver import cupy_private
from gpushard._typing import Dtype

_SINGLE = np.dtype(np.float32)
_UNSIGNED = {n: np.dtype(f"u{n}") for n in (2, 4, 8)}
_FRACTION_BITS = {2: 10, 4: 23, 8: 52}


@functools.cache
def _nextafter() -> Any:
    """Make the kernel of `nextafter` for the bits of single precision."""
    return cupy.ElementwiseKernel(
        "uint32 x, uint32 y",
        "uint32 z",
        """
        const unsigned int size = x & 0x7fffffffu, limit = y & 0x7fffffffu;
        const bool opposed = (x ^ y) >> 31;
        if (size > 0x7f800000u || limit > 0x7f800000u) {
          z = 0x7fc00000u;
        } else if (x == y || (size | limit) == 0) {
          z = y;
        } else if (size == 0) {
          z = (y & 0x80000000u) | 1u;
        } else {
          z = opposed || size > limit ? x - 1 : x + 1;
        }
        """,
        "gpushard_nextafter",
    )


@functools.lru_cache(maxsize=16)
def _ldexp(powers: str) -> Any:
    """Make the kernel of `ldexp` for the bits of single precision, exact by double precision."""
    return cupy.ElementwiseKernel(
        f"uint32 x, {powers} n",
        "uint32 z",
        """
        const unsigned int sign = x & 0x80000000u, size = x & 0x7fffffffu;
        const int power = size >> 23;
        if (power == 255 || size == 0) {
          z = x;
        } else {
          const double whole = (power ? size & 0x7fffffu | 0x800000u : size);
          const long long most = n > 1000 ? 1000 : n < -1000 ? -1000 : (long long)n;
          const double found = ldexp(whole, (power ? power : 1) - 150 + (int)most);
          if (found >= 0x1p-126) {
            z = sign | __float_as_uint((float)found);
          } else {  // the bits of a subnormal are how many of the smallest ones it is
            z = sign | (unsigned int)rint(found * 0x1p149);
          }
        }
        """,
        "gpushard_ldexp",
    )


@functools.cache
def _frexp() -> Any:
    """Make the kernel of `frexp` for the bits of single precision."""
    return cupy.ElementwiseKernel(
        "uint32 x",
        "uint32 z, int32 n",
        """
        const unsigned int sign = x & 0x80000000u, size = x & 0x7fffffffu;
        const int power = size >> 23;
        if (power == 255 || size == 0) {
          z = x;
          n = 0;
        } else {
          const int lead = power ? 0 : __clz(size) - 8;  // zeros before the bits of a subnormal
          z = sign | ((size << lead) & 0x7fffffu) | (126u << 23);
          n = (power ? power : 1) - 126 - lead;
        }
        """,
        "gpushard_frexp",
    )


@functools.cache
def _spacing() -> Any:
    """Make the kernel of `spacing` for the bits of floats; it takes the bits of the fraction.

    NumPy's spacing points away from zero and has the sign of the number. For half precision it
    points up.
    """
    return cupy.ElementwiseKernel(
        "T x, int32 bits",
        "T z",
        """
        const T one = 1, sign = one << (sizeof(T) * 8 - 1);
        const T size = x & (T)~sign, fraction = (one << bits) - 1;
        const T infinite = (T)(sign - 1) & (T)~fraction;
        const bool down = x & sign, up = sizeof(T) == 2;
        long long power = size >> bits;
        if (up && down && power > 1 && !(size & fraction)) {
          --power;
        }
        const T signs = up || !size ? 0 : x & sign;
        if (size >= infinite) {
          z = infinite | (one << (bits - 1));
        } else if (size + one == infinite && !(up && down)) {
          z = signs | infinite;
        } else if (power > bits) {
          z = signs | (T)((T)(power - bits) << bits);
        } else {
          z = signs | (T)(one << (power > 1 ? power - 1 : 0));
        }
        """,
        "gpushard_spacing",
    )


def nextafter(x: Any, y: Any, out: Any = None) -> Any:
    """Compute NumPy's `nextafter`."""
    if not _is_single(x, y):
        return cupy.nextafter(x, y, out=out)
    operands = [_bits(cupy.asarray(value, _SINGLE)) for value in (x, y)]
    return _call_kernel(_nextafter(), operands, (_SINGLE,), out)


def ldexp(x: Any, n: Any, out: Any = None) -> Any:
    """Compute NumPy's `ldexp`."""
    if not _is_single(x):
        return cupy.ldexp(x, n, out=out)
    return _call_kernel(_ldexp(n.dtype.name), (_bits(x), n), (_SINGLE,), out)


def frexp(x: Any, out: Any = None) -> Any:
    """Compute NumPy's `frexp`."""
    if not _is_single(x):
        return cupy.frexp(x, out=out) if out is None else cupy.frexp(x, *out)
    return _call_kernel(_frexp(), (_bits(x),), (_SINGLE, np.dtype(np.int32)), out)


def spacing(x: Any, out: Any = None) -> Any:
    """Compute NumPy's `spacing`, which CuPy lacks."""
    bits = np.int32(_FRACTION_BITS[x.dtype.itemsize])
    return _call_kernel(_spacing(), (_bits(x), bits), (x.dtype,), out)


def _is_single(*values: Any) -> bool:
    return np.result_type(*(value.dtype for value in values)) == _SINGLE


def _bits(x: Any) -> Any:
    return x.view(_UNSIGNED[x.dtype.itemsize])


@functools.cache
def _searchsorted() -> Any:
    """Make the kernel of `searchsorted` for complex numbers."""
    return cupy.ElementwiseKernel(
        "T x, raw T sorted, int64 n, bool right",
        "int64 y",
        """
        long long least = 0, most = n;
        while (least < most) {
          const long long middle = (least + most) / 2;
          const T at = sorted[middle];
          if (right ? !is_before(x, at) : is_before(at, x)) {
            least = middle + 1;
          } else {
            most = middle;
          }
        }
        y = least;
        """,
        "gpushard_searchsorted",
        preamble="""
        template <typename T>
        __device__ bool is_before(const T& a, const T& b) {
          const auto x = a.real(), y = b.real(), x1 = a.imag(), y1 = b.imag();
          const bool nan = x1 != x1, other_nan = y1 != y1;
          if (x < y) return !nan || other_nan;
          if (x > y) return !nan && other_nan;
          if (x == y || (x != x && y != y)) return x1 < y1 || (!nan && other_nan);
          return y != y;
        }
        """,
    )


def searchsorted(a: Any, v: Any, side: str = "left") -> Any:
    """Search as NumPy's `searchsorted`.

    Complex numbers with a NaN in a part come last, in NumPy's order for them.
    """
    if a.dtype.kind != "c":
        return cupy.searchsorted(a, v, side=side)
    return _searchsorted()(v, a, a.size, side == "right")


def _call_kernel(kernel: Any, operands: Any, types: tuple[Dtype, ...], out: Any) -> Any:
    """Call a kernel of bits; it fills `out`, or new arrays."""
    shape = np.broadcast_shapes(*(np.shape(x) for x in operands))
    targets = (None,) * len(types) if out is None else out if isinstance(out, tuple) else (out,)
    results = tuple(
        cupy.empty(shape, dtype) if target is None or target.dtype != dtype else target
        for target, dtype in zip(targets, types, strict=True)
    )
    kernel(*operands, *(x if x.dtype.kind == "i" else _bits(x) for x in results))
    if out is None:
        return results if len(results) > 1 else results[0]
    for target, result in zip(targets, results, strict=True):
        if target is not result:  # its dtype is narrow, and the kernel worked in single precision
            target[...] = result
    return out


def _replace_statement(ufunc: Any, kinds: str, statement: str) -> Any:
    """Make a ufunc of CuPy with another statement for some kinds of numbers."""
    loops = []
    for op in cupy_private.ufunc_loops(ufunc):
        is_of_kind = np.dtype(op.in_types[0]).kind in kinds
        routine = statement if is_of_kind else op.routine or op.error_func
        loops.append(([op.in_types, op.out_types], routine))
    name = f"gpushard_{ufunc.__name__.removeprefix('cupy_')}"
    preamble = f"{cupy_private.ufunc_preamble(ufunc)}\n#include <cupy/math_constants.h>"
    return cupy_private.names().create_ufunc(name, loops, preamble=preamble)


exp2 = _replace_statement(
    cupy.exp2,
    "c",
    "typedef typename in0_type::value_type real; const real scale = 0.6931471805599453;"
    "out0 = exp(in0_type(in0.real() * scale, in0.imag() * scale))",
)


def _logarithm(ufunc: Any, logarithm: str) -> Any:
    """Make a logarithm with an infinite real part if one part is infinite, even if one is NaN."""
    return _replace_statement(
        ufunc,
        "c",
        "typedef typename in0_type::value_type real; const real x = in0.real(), y = in0.imag();"
        f"const in0_type found = {logarithm};"
        "out0 = (isinf(x) || isinf(y)) && found.real() != found.real()"
        " ? in0_type(fabs(isinf(x) ? x : y), CUDART_NAN) : found",
    )


log = _logarithm(cupy.log, "log(in0)")
log10 = _logarithm(cupy.log10, "log10(in0)")
log1p = _logarithm(  # CuPy's adds +0, which loses the sign of the angle left of -1
    cupy.log1p, "in0_type(log1p(in0).real(), copysign(log1p(in0).imag(), y))"
)
log2 = _logarithm(
    cupy.log2,
    "in0_type(log(in0).real() * real(1.4426950408889634),"
    " log(in0).imag() * real(1.4426950408889634))",
)
reciprocal = _replace_statement(
    cupy.reciprocal,
    "c",
    "typedef typename in0_type::value_type real; const real x = in0.real(), y = in0.imag();"
    "const bool wide = fabs(y) <= fabs(x);"
    "const real ratio = wide ? y / x : x / y, size = wide ? x + y * ratio : y + x * ratio;"
    "out0 = wide ? in0_type(1 / size, -ratio / size) : in0_type(ratio / size, -1 / size)",
)
sign = _replace_statement(
    cupy.sign,
    "c",
    "typedef typename in0_type::value_type real; const real x = in0.real(), y = in0.imag();"
    "const real size = hypot(x, y); const bool far = isinf(size);"
    "const real a = far ? isinf(x) ? copysign(real(1), x) : real(0) : x;"
    "const real b = far ? isinf(y) ? copysign(real(1), y) : real(0) : y;"
    "out0 = size != size || (isinf(x) && isinf(y)) ? in0_type(CUDART_NAN, CUDART_NAN)"
    " : far ? in0_type(a, b) : size == 0 ? in0_type(0, 0) : in0_type(a / size, b / size)",
)
left_shift = _replace_statement(
    cupy.left_shift,
    "iu",
    "out0 = (unsigned long long)in1 < 8 * sizeof(in0_type) ? in0_type(in0 << in1) : in0_type(0)",
)
right_shift = _replace_statement(
    cupy.right_shift,
    "iu",
    "out0 = (unsigned long long)in1 < 8 * sizeof(in0_type) ? in0_type(in0 >> in1)"
    " : in0_type(in0 < in0_type(0) ? -1 : 0)",
)
