"""CuPy's functions of matrices, with NaN or infinite numbers where there is no result.

CuPy's own leave there what the library had come to, which are numbers like any other.
"""

from __future__ import annotations

import functools
from typing import Any

import cupy
import numpy as np
from cupy.cuda import cublas, cusolver

_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
"""What functions for a type begin with in the libraries."""


def inv(a: Any) -> Any:
    """Do what NumPy's `inv` does; singular matrices give NaN or infinite numbers."""
    if a.ndim == 2 or not a.size:
        return cupy.linalg.inv(a)
    both = cupy.empty((2, *a.shape), _working(a))  # the matrices, which are changed, and inverses
    both[0] = a
    n, letter, count = a.shape[-1], _LETTERS[both.dtype.char], a.size // a.shape[-1] ** 2
    handle, (own, out) = cupy.cuda.device.get_cublas_handle(), _addresses(both).reshape(2, count)
    order, failed = cupy.empty((count, n), np.int32), cupy.empty(count, np.int32)
    pivots, singular = order.data.ptr, failed.data.ptr  # which both functions say
    factor, invert = (getattr(cublas, f"{letter}{name}Batched") for name in ("getrf", "getri"))
    factor(handle, n, own.data.ptr, n, pivots, singular, count)
    invert(handle, n, own.data.ptr, n, pivots, out.data.ptr, n, singular, count)
    return _finished()(both[1], failed, n, False)


def cholesky(a: Any) -> Any:
    """Do what NumPy's `cholesky` does; matrices that are not positive definite give NaN."""
    x = a.astype(_working(a), order="C", copy=True)
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
    return _finished()(x, failed, n, True)


def _working(x: Any) -> Any:
    return x.dtype if x.dtype.kind in "fc" else np.dtype(np.float64)


def _addresses(x: Any) -> Any:
    """Return where the matrices of a dense array lie."""
    step = x.shape[-1] * x.shape[-2] * x.itemsize
    return cupy.arange(x.data.ptr, x.data.ptr + x.nbytes, step, dtype=np.uintp)


@functools.cache
def _finished() -> Any:
    """Return the kernel that gives results where the library had any, maybe without upper parts."""
    return cupy.ElementwiseKernel(
        "T x, raw int32 failed, int64 n, bool lower",
        "T out",
        "out = failed[i / (n * n)] ? T(CUDART_NAN) : lower && i % n > i / n % n ? T(0) : x",
        "gpushard_finished",
        preamble="#include <cupy/math_constants.h>",
    )


def __getattr__(name: str) -> Any:
    return getattr(cupy.linalg, name)
