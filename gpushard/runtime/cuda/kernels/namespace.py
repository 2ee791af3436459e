"""NumPy's functions for arrays on GPUs: CuPy's, but for those that are written again here.

CuPy keeps plans of Fourier transforms for each thread and GPU, and a plan owns memory that its
transform works in. Two streams that one thread gives transforms of the same size would share it,
and overwrite what the other one has there. So here plans belong to streams.
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

from gpushard.runtime.cuda.driver.cupy_scope import current_stream
from gpushard.runtime.cuda.kernels import linalg as linalg
from gpushard.runtime.cuda.kernels import numbers, own, products, scans


def with_plans_of_stream(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of CuPy's that finds the plans of the current stream, and no others.

    Those that the thread has for its own use are set aside meanwhile, within CuPy's cache and its
    limits; outside of a scope it uses these.
    """

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        stream = current_stream()
        if stream is None:
            return function(*args, **options)
        cache = config.get_plan_cache()
        outer = _exchange(cache, stream.plans)
        try:
            return function(*args, **options)
        finally:
            stream.plans = _exchange(cache, outer)

    return call


def _exchange(cache: Any, plans: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Put plans with their keys into a cache, the oldest first, and return those it had."""
    before = [(key, node.plan) for key, node in cache][::-1]
    for key, _ in before:  # not clear(), which collects garbage
        del cache[key]
    for key, plan in plans:
        with contextlib.suppress(RuntimeError):  # too large by now, if the limits have changed
            cache[key] = plan
    return before


own_kernels = own
convolve = with_plans_of_stream(cupy.convolve)
correlate = with_plans_of_stream(cupy.correlate)
fft = types.SimpleNamespace(
    **{
        name: with_plans_of_stream(getattr(cupy.fft, name))
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
    }
)
exp2 = numbers.exp2
frexp = numbers.frexp
ldexp = numbers.ldexp
left_shift = numbers.left_shift
log = numbers.log
log10 = numbers.log10
log1p = numbers.log1p
log2 = numbers.log2
nextafter = numbers.nextafter
reciprocal = numbers.reciprocal
right_shift = numbers.right_shift
searchsorted = numbers.searchsorted
sign = numbers.sign
spacing = numbers.spacing


def matmul(x: Any, y: Any, out: Any = None) -> Any:
    """Do what NumPy's `matmul` does, in parts where CuPy cannot count that many elements."""
    if products.fits(x, y):
        return cupy.matmul(x, y, out=out)
    left, right = x if x.ndim > 1 else x[None], y if y.ndim > 1 else y[:, None]
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    shape = (*batch, *x.shape[-2:-1], *(y.shape[-1:] if y.ndim > 1 else ()))
    made = cupy.empty(shape, np.result_type(x.dtype, y.dtype)) if out is None else out
    target = made if y.ndim > 1 else made[..., None]
    target = target if x.ndim > 1 else target[..., None, :]
    for a, b, to, adds in products.parts(left, right, target):
        if adds:
            to += cupy.matmul(a, b)
        else:
            cupy.matmul(a, b, out=to)
    return made


def cumsum(x: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Do what NumPy's `cumsum` does, in parts where CuPy cannot count that many elements."""
    return _scanned(cupy.cumsum, x, axis, dtype, out)


def cumprod(x: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Any:
    """Do what NumPy's `cumprod` does, in parts where CuPy cannot count that many elements."""
    return _scanned(cupy.cumprod, x, axis, dtype, out)


def _scanned(function: Callable[..., Any], x: Any, axis: int | None, dtype: Any, out: Any) -> Any:
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
    """Do what NumPy's `sort` does; it is stable."""
    return cupy.sort(_without_signs(x), axis=axis)


def argsort(x: Any, axis: int = -1, kind: str | None = None) -> Any:
    """Do what NumPy's `argsort` does; it is stable."""
    return cupy.argsort(_without_signs(x), axis=axis)


def _without_signs(x: Any) -> Any:
    """Return floats whose NaNs are all the same, positive one.

    NumPy sorts them to the end whatever they are. Thrust, which CuPy calls for floats with its own
    `less`, takes a radix sort for those, which goes by bits: a NaN with a sign would come first,
    and two that differ in others would not be equal to a stable sort.
    """
    return cupy.where(cupy.isnan(x), x.dtype.type("nan"), x) if x.dtype.kind == "f" else x


def __getattr__(name: str) -> Any:
    return getattr(cupy, name)
