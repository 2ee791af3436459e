"""NumPy's functions for arrays on GPUs: CuPy's, but for those that are written again here."""

from __future__ import annotations

from typing import Any

import cupy

from gpushard.runtime.cuda.kernels import fft as fft
from gpushard.runtime.cuda.kernels import linalg as linalg
from gpushard.runtime.cuda.kernels import numbers, own
from gpushard.runtime.cuda.kernels.fft import with_plans_of_stream

own_kernels = own
convolve = with_plans_of_stream(cupy.convolve)
correlate = with_plans_of_stream(cupy.correlate)
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
