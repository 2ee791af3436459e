"""NumPy's functions for arrays on GPUs: CuPy's functions, and replacements for some of them.

CuPy keeps plans of Fourier transforms for each thread and GPU, and a plan owns the work memory of
its transform. If a thread gave transforms of one size to two streams, both would use and overwrite
this memory. So here plans belong to streams.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np
from cupy.fft import config

from gpushard._runtime.cuda.driver.cupy_scope import current_stream
from gpushard._runtime.cuda.kernels import cupy_replacements, operations, products, scans
from gpushard._runtime.cuda.kernels import linalg as linalg


def with_plans_of_stream(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of CuPy use only the plans of the current stream.

    During the call, the plans of the current stream replace those of the thread in CuPy's cache,
    within its limits. Outside a scope the function uses the plans of the thread.
    """

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        stream = current_stream()
        if stream is None:
            return function(*args, **options)
        cache = config.get_plan_cache()
        outer = _exchange_plans(cache, stream.plans)
        try:
            return function(*args, **options)
        finally:
            stream.plans = _exchange_plans(cache, outer)

    return call


def _exchange_plans(cache: Any, plans: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Replace the plans in a cache, the oldest first, and return the former plans with keys."""
    before = [(key, node.plan) for key, node in cache][::-1]
    for key, _ in before:  # not clear(), which collects garbage
        del cache[key]
    for key, plan in plans:
        with contextlib.suppress(RuntimeError):  # a plan may be too large if limits have changed
            cache[key] = plan
    return before


own_kernels = operations
convolve = with_plans_of_stream(cupy.convolve)
correlate = with_plans_of_stream(cupy.correlate)
fft = types.SimpleNamespace(
    **{
        name: with_plans_of_stream(getattr(cupy.fft, name))
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
    }
)
exp2 = cupy_replacements.exp2
frexp = cupy_replacements.frexp
ldexp = cupy_replacements.ldexp
left_shift = cupy_replacements.left_shift
log = cupy_replacements.log
log10 = cupy_replacements.log10
log1p = cupy_replacements.log1p
log2 = cupy_replacements.log2
nextafter = cupy_replacements.nextafter
reciprocal = cupy_replacements.reciprocal
right_shift = cupy_replacements.right_shift
searchsorted = cupy_replacements.searchsorted
sign = cupy_replacements.sign
spacing = cupy_replacements.spacing


def matmul(x: Any, y: Any, out: Any = None) -> Any:
    """Multiply matrices as NumPy's `matmul`, in parts if CuPy cannot count that many elements."""
    dense = x.flags.c_contiguous and (out is None or out.flags.c_contiguous)
    if x.ndim > 2 == y.ndim and dense and x.size and y.size:
        # One product of matrices, where CuPy makes several, and a table of their addresses.
        to = None if out is None else out.reshape(-1, y.shape[-1])
        rows = matmul(x.reshape(-1, x.shape[-1]), y, to)
        return rows.reshape(*x.shape[:-1], -1) if out is None else out
    if products.fits(x, y):
        return cupy.matmul(x, y, out=out)
    left, right = x if x.ndim > 1 else x[None], y if y.ndim > 1 else y[:, None]
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    shape = (*batch, *x.shape[-2:-1], *(y.shape[-1:] if y.ndim > 1 else ()))
    result = cupy.empty(shape, np.result_type(x.dtype, y.dtype)) if out is None else out
    target = result if y.ndim > 1 else result[..., None]
    target = target if x.ndim > 1 else target[..., None, :]
    for a, b, to, adds in products.parts(left, right, target):
        if adds:
            to += cupy.matmul(a, b)
        else:
            cupy.matmul(a, b, out=to)
    return result


def cumsum(x: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Compute NumPy's `cumsum`, in parts if CuPy cannot count that many elements."""
    return _scan(cupy.cumsum, x, axis, dtype, out)


def cumprod(x: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Compute NumPy's `cumprod`, in parts if CuPy cannot count that many elements."""
    return _scan(cupy.cumprod, x, axis, dtype, out)


def _scan(function: Callable[..., Any], x: Any, axis: int | None, dtype: Any, out: Any) -> Any:
    if axis is None or x.ndim < 2 or scans.fits(x.shape):
        return function(x, axis, dtype, out)
    axis %= x.ndim
    if out is None:
        out = cupy.empty(x.shape, function(cupy.empty(0, x.dtype), None, dtype).dtype)
    for part in scans.parts(x.shape, axis):
        own_part = x[part]
        row = None if own_part.size == own_part.shape[axis] else axis
        out[part] = function(own_part, row, dtype).reshape(own_part.shape)
    return out


def sort(x: Any, axis: int = -1, kind: str | None = None) -> Any:
    """Sort as NumPy's `sort`; stable."""
    return cupy.sort(_drop_nan_signs(x), axis=axis)


def argsort(x: Any, axis: int = -1, kind: str | None = None) -> Any:
    """Argsort as NumPy's `argsort`; stable."""
    return cupy.argsort(_drop_nan_signs(x), axis=axis)


def _drop_nan_signs(x: Any) -> Any:
    """Replace all NaNs of floats by one positive NaN.

    NumPy sorts all NaNs to the end. CuPy calls Thrust, which sorts floats by their bits: a NaN with
    a sign would come first, and NaNs with different bits would not be equal for a stable sort.
    """
    return cupy.where(cupy.isnan(x), x.dtype.type("nan"), x) if x.dtype.kind == "f" else x


def __getattr__(name: str) -> Any:
    return getattr(cupy, name)
