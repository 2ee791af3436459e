"""Fourier transforms along one dim, which is whole on each device.

Parameters of all rows: (axis counted from the end, transformed length, norm).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._ops import rule
from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.narrow_floats import in_single
from gpushard._ops.programs.local import Local
from gpushard._ops.row import Kernel, Params, Row, broadcasting
from gpushard._ops.rule import Rule
from gpushard._ops.table.elementwise import writing
from gpushard._typing import LocalArray
from gpushard.errors import ArgumentTypeError


def _rule(avals: Sequence[Aval], params: Params) -> Rule:
    return rule.along([avals[0].shape], [params[0]])


@functools.lru_cache(maxsize=256)
def _dtype(name: str, dtype: Dtype) -> Dtype:
    """Return the type of NumPy's result, found by a small example."""
    try:
        result_dtype: Dtype = getattr(np.fft, name)(np.zeros(2, dtype)).dtype
    except TypeError:
        raise ArgumentTypeError(
            f"{name} is not defined for {dtype}: it takes real numbers; take the real part, or use "
            "a transform of complex numbers",
            argument="x",
            dtype=dtype,
        ) from None
    return result_dtype


def _transform(name: str, length: Callable[[int], int]) -> Row:
    def infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
        axis, n, _ = params
        (x,) = avals
        dim = len(x.shape) + axis
        shape = (*x.shape[:dim], length(n), *x.shape[dim + 1 :])
        return (Aval(shape, _dtype(name, x.dtype)),)

    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        axis, n, norm = params
        function, dtype = getattr(xp.fft, name), _dtype(name, avals[0].dtype)

        def transform(x: LocalArray) -> LocalArray:
            if not x.shape[
                axis
            ]:  # NumPy's irfft and hfft read out of bounds without elements: pass a zero
                x = xp.zeros((*x.shape[: x.ndim + axis], 1, *x.shape[x.ndim + axis + 1 :]), x.dtype)
            return xp.ascontiguousarray(function(x, n=n, axis=axis, norm=norm), dtype)

        return writing(transform)

    return in_single(
        Row(
            name,
            infer,
            _rule,
            kernel,
            (Local("each frequency needs all elements along the axis"),),
            stacked=broadcasting,
        )
    )


FFT = _transform("fft", lambda n: n)
IFFT = _transform("ifft", lambda n: n)
RFFT = _transform("rfft", lambda n: n // 2 + 1)
IRFFT = _transform("irfft", lambda n: n)
"""The length is that of the result, as in NumPy."""
HFFT = _transform("hfft", lambda n: n)
"""The length is that of the result, as in NumPy."""
IHFFT = _transform("ihfft", lambda n: n // 2 + 1)
