"""Small sources on which the software GPU's compiler and NVRTC agree: both take them, or neither.

What NVRTC lacks makes a kernel fail on a GPU only. The software GPU must refuse it, too.
"""

from __future__ import annotations

CUPY = ("complex.cuh", "carray.cuh")
"""The headers that all of our kernels include."""


def kernel(body: str, headers: tuple[str, ...] = CUPY) -> str:
    """Return a source with a kernel of this body."""
    lines = [f"#include <cupy/{name}>" for name in headers]
    arguments = "float* a, double* b, int n, unsigned u, void* p"
    return "\n".join([*lines, f'extern "C" __global__ void f({arguments}) {{ {body} }}'])


ACCEPTED = {
    "half precision with its header": kernel(
        "a[0] = float(float16(a[1]));", (*CUPY, "float16.cuh")
    ),
    "constants of CuPy": kernel("b[0] = M_PI + CUDART_NAN;", (*CUPY, "math_constants.h")),
    "traits by CuPy's header": kernel(
        "n = std::is_signed<int>::value;", (*CUPY, "cuda_workaround.h")
    ),
    "functions of C": kernel('memcpy(a, b, 4); memset(a, 0, 4); printf(""); assert(n);'),
    "float or double": kernel(
        "a[0] = sin(a[1]); b[0] = sin(b[1]); n = isnan(a[0]) + signbit(b[0]);"
    ),
    "a power of a whole exponent": kernel("a[0] = pow(a[1], n); b[0] = pow(b[1], n);"),
    "mixed extremes": kernel("b[0] = max(a[0], b[1]); u = min(n, u); b[0] = fmax(b[0], n);"),
    "vectors": kernel("float4 v = make_float4(1, 2, 3, 4); a[0] = v.w;"),
    "lists": kernel("std::initializer_list<int> x = {1, 2}; n = x.size();"),
    "without any header": kernel("a[0] = rsqrt(a[1]) + size_t(n) + ptrdiff_t(u);", ()),
}
"""Sources that compile, by what is in them."""

REFUSED = {
    "half precision without its header": kernel("a[0] = float(float16(a[1]));"),
    "M_LN2": kernel("b[0] = M_LN2;"),
    "M_PI without CuPy's header": kernel("b[0] = M_PI;", ()),
    "NAN": kernel("a[0] = NAN;"),
    "INFINITY": kernel("a[0] = INFINITY;"),
    "INT_MAX": kernel("n = INT_MAX;"),
    "FLT_MAX without CuPy's header": kernel("a[0] = FLT_MAX;", ()),
    "CUDART_NAN without its header": kernel("b[0] = CUDART_NAN;"),
    "uint64_t": kernel("uint64_t x = n; a[0] = x;"),
    "std::min": kernel("n = std::min(n, 1);"),
    "std::sin": kernel("a[0] = std::sin(a[1]);"),
    "std::is_signed without its header": kernel("n = std::is_signed<int>::value;"),
    "strlen": kernel('n = strlen("");'),
    "rand": kernel("n = rand();"),
    "memcmp": kernel("n = memcmp(a, b, 4);"),
    "a function of an integer": kernel("b[0] = sin(n);"),
    "a power of integers": kernel("b[0] = pow(n, n);"),
    "float and double": kernel("b[0] = fmax(a[0], b[0]);"),
    "the absolute value of an unsigned number": kernel("n = abs(u);"),
    "a pointer of another type": kernel("float* x = p; x[0] = 1;"),
    "a name that nobody declares": kernel("missing(n);"),
}
"""Sources that do not, by what is wrong with them."""
