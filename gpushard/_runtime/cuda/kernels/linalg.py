"""CuPy's functions of matrices, with NaN or infinity for matrices that have no result.

For such matrices, CuPy's own functions leave intermediate numbers, which look like results.
"""

from __future__ import annotations

import functools
from typing import Any

import cupy
import numpy as np
from cupy.cuda import cublas, cusolver

_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
"""First letters of functions of the libraries, by dtype."""


def inv(a: Any) -> Any:
    """Invert matrices as NumPy's `inv`; singular matrices give NaN or infinity."""
    if a.ndim == 2 or not a.size:
        return cupy.linalg.inv(a)
    both = cupy.empty((2, *a.shape), _work_dtype(a))  # the matrices, to be overwritten; inverses
    both[0] = a
    n, letter, count = a.shape[-1], _LETTERS[both.dtype.char], a.size // a.shape[-1] ** 2
    handle = cupy.cuda.device.get_cublas_handle()
    matrices, out = _addresses(both).reshape(2, count)
    order, failed = cupy.empty((count, n), np.int32), cupy.empty(count, np.int32)
    pivots, singular = order.data.ptr, failed.data.ptr  # both functions report singular matrices
    factor, invert = (getattr(cublas, f"{letter}{name}Batched") for name in ("getrf", "getri"))
    factor(handle, n, matrices.data.ptr, n, pivots, singular, count)
    invert(handle, n, matrices.data.ptr, n, pivots, out.data.ptr, n, singular, count)
    return _finish_kernel()(both[1], failed, n, False)


def cholesky(a: Any) -> Any:
    """Factor matrices as NumPy's `cholesky`; matrices that are not positive definite give NaN."""
    x = a.astype(_work_dtype(a), order="C", copy=True)
    if not x.size:
        return x
    n, letter = x.shape[-1], _LETTERS[x.dtype.char]
    handle, upper = cupy.cuda.device.get_cusolver_handle(), cublas.CUBLAS_FILL_MODE_UPPER
    failed = cupy.empty(x.size // (n * n), np.int32)
    if x.ndim == 2:
        size = getattr(cusolver, f"{letter}potrf_bufferSize")(handle, upper, n, x.data.ptr, n)
        work = cupy.empty(size, x.dtype)
        factor = getattr(cusolver, f"{letter}potrf")
        factor(handle, upper, n, x.data.ptr, n, work.data.ptr, size, failed.data.ptr)
    else:
        factor = getattr(cusolver, f"{letter}potrfBatched")
        factor(handle, upper, n, _addresses(x).data.ptr, n, failed.data.ptr, failed.size)
    return _finish_kernel()(x, failed, n, True)


def _work_dtype(x: Any) -> Any:
    return x.dtype if x.dtype.kind in "fc" else np.dtype(np.float64)


def _addresses(x: Any) -> Any:
    """Compute the addresses of the matrices of a dense array, on the GPU."""
    step = x.shape[-1] * x.shape[-2] * x.itemsize
    return cupy.arange(x.data.ptr, x.data.ptr + x.nbytes, step, dtype=np.uintp)


@functools.cache
def _finish_kernel() -> Any:
    """Make the kernel that sets failed results to NaN, and if `lower` upper parts to 0."""
    return cupy.ElementwiseKernel(
        "T x, raw int32 failed, int64 n, bool lower",
        "T out",
        "out = failed[i / (n * n)] ? T(CUDART_NAN) : lower && i % n > i / n % n ? T(0) : x",
        "gpushard_finished",
        preamble="#include <cupy/math_constants.h>",
    )


def __getattr__(name: str) -> Any:
    return getattr(cupy.linalg, name)
