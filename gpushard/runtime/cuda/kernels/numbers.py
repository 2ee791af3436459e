"""Functions that CuPy lacks, or whose results at the ends of the range are not NumPy's.

Those of complex numbers give NaN at zero or infinity. Those that look at bits lose the smallest
floats: CuPy compiles its kernels with -ftz=true, so that single precision takes subnormal numbers
for zero, and gives none. Integers are not touched by that, nor is double precision.
"""

from __future__ import annotations

import functools
from typing import Any

import cupy
import numpy as np

_SINGLE = np.dtype(np.float32)
_UNSIGNED = {n: np.dtype(f"u{n}") for n in (2, 4, 8)}
_FRACTION_BITS = {2: 10, 4: 23, 8: 52}


@functools.cache
def _nextafter() -> Any:
    """Return the kernel of `nextafter` for the bits of single precision."""
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


@functools.cache
def _ldexp() -> Any:
    """Return the kernel of `ldexp` for the bits of single precision; double precision is exact."""
    return cupy.ElementwiseKernel(
        "uint32 x, N n",
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
    """Return the kernel of `frexp` for the bits of single precision."""
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
    """Return the kernel of `spacing` for the bits of floats with so many bits in the fraction.

    NumPy's goes away from zero, and has the sign of the number; that of half precision goes up.
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
    """Do what NumPy's `nextafter` does."""
    if not _is_single(x, y):
        return cupy.nextafter(x, y, out=out)
    given = [_bits(cupy.asarray(value, _SINGLE)) for value in (x, y)]
    return _filled(_nextafter(), given, (_SINGLE,), out)


def ldexp(x: Any, n: Any, out: Any = None) -> Any:
    """Do what NumPy's `ldexp` does."""
    if not _is_single(x):
        return cupy.ldexp(x, n, out=out)
    return _filled(_ldexp(), (_bits(x), n), (_SINGLE,), out)


def frexp(x: Any, out: Any = None) -> Any:
    """Do what NumPy's `frexp` does."""
    if not _is_single(x):
        return cupy.frexp(x, out=out) if out is None else cupy.frexp(x, *out)
    return _filled(_frexp(), (_bits(x),), (_SINGLE, np.dtype(np.int32)), out)


def spacing(x: Any, out: Any = None) -> Any:
    """Do what NumPy's `spacing` does, which CuPy lacks."""
    bits = np.int32(_FRACTION_BITS[x.dtype.itemsize])
    return _filled(_spacing(), (_bits(x), bits), (x.dtype,), out)


def _is_single(*values: Any) -> bool:
    return np.result_type(*(value.dtype for value in values)) == _SINGLE


def _bits(x: Any) -> Any:
    return x.view(_UNSIGNED[x.dtype.itemsize])


def _filled(kernel: Any, given: Any, types: tuple[np.dtype[Any], ...], out: Any) -> Any:
    """Call a kernel for bits, and return what it fills: `out`, or fresh arrays."""
    if out is None:
        shape = np.broadcast_shapes(*(np.shape(x) for x in given))
        made = tuple(cupy.empty(shape, dtype) for dtype in types)
    else:
        made = out if isinstance(out, tuple) else (out,)
    kernel(*given, *(x if x.dtype.kind == "i" else _bits(x) for x in made))
    return made if len(made) > 1 else made[0]


def _with_complex(ufunc: Any, statement: str) -> Any:
    """Return a ufunc of CuPy's with another statement for complex numbers."""
    loops = []
    for op in ufunc._ops.ops:
        is_complex = np.dtype(op.in_types[0]).kind == "c"
        routine = statement if is_complex else op.routine or op.error_func
        loops.append(([op.in_types, op.out_types], routine))
    name = f"gpushard_{ufunc.__name__.removeprefix('cupy_')}"
    return cupy._core.create_ufunc(name, loops, preamble=ufunc._preamble)


exp2 = _with_complex(
    cupy.exp2,
    "typedef typename in0_type::value_type real; const real scale = M_LN2;"
    "out0 = exp(in0_type(in0.real() * scale, in0.imag() * scale))",
)
log2 = _with_complex(
    cupy.log2,
    "typedef typename in0_type::value_type real; const real scale = M_LOG2E;"
    "const in0_type found = log(in0); out0 = in0_type(found.real() * scale, found.imag() * scale)",
)
reciprocal = _with_complex(
    cupy.reciprocal,
    "typedef typename in0_type::value_type real; const real x = in0.real(), y = in0.imag();"
    "const bool wide = fabs(y) <= fabs(x);"
    "const real ratio = wide ? y / x : x / y, size = wide ? x + y * ratio : y + x * ratio;"
    "out0 = wide ? in0_type(1 / size, -ratio / size) : in0_type(ratio / size, -1 / size)",
)
sign = _with_complex(
    cupy.sign,
    "typedef typename in0_type::value_type real; const real x = in0.real(), y = in0.imag();"
    "const real size = hypot(x, y); const bool far = isinf(size);"
    "const real a = far ? isinf(x) ? copysign(real(1), x) : real(0) : x;"
    "const real b = far ? isinf(y) ? copysign(real(1), y) : real(0) : y;"
    "out0 = size != size || (isinf(x) && isinf(y)) ? in0_type(NAN, NAN)"
    " : far ? in0_type(a, b) : size == 0 ? in0_type(0, 0) : in0_type(a / size, b / size)",
)
