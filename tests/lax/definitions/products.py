"""Definitions of products that sum over dims, and of transforms."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np

from tests.lax.definitions.registry import axes_of, defines, need, need_kind, one_dtype, wrapped


@defines("dot_general")
def dot_general(
    lhs: Any, rhs: Any, dimension_numbers: Any, precision: Any = None, preferred: Any = None
) -> Any:
    x, y = one_dtype(lhs, rhs)
    dtype = np.dtype(preferred or x.dtype)
    (summed, batch) = dimension_numbers
    (summed_x, summed_y), (batch_x, batch_y) = (
        [axes_of(axes, each.ndim) for axes, each in zip(pair, (x, y), strict=True)]
        for pair in (summed, batch)
    )
    need(len({*summed_x, *batch_x}) == len(summed_x) + len(batch_x))
    need(len({*summed_y, *batch_y}) == len(summed_y) + len(batch_y))
    need([x.shape[at] for at in summed_x] == [y.shape[at] for at in summed_y])
    need([x.shape[at] for at in batch_x] == [y.shape[at] for at in batch_y])
    free_x = [at for at in range(x.ndim) if at not in (*summed_x, *batch_x)]
    free_y = [at for at in range(y.ndim) if at not in (*summed_y, *batch_y)]
    x = x.transpose((*batch_x, *free_x, *summed_x))
    y = y.transpose((*batch_y, *free_y, *summed_y))
    b, n = len(batch_x), len(free_x)
    shape = (*x.shape[: b + n], *y.shape[b : b + len(free_y)])
    made = np.zeros(shape, dtype)
    for index in np.ndindex(*shape):
        left = x[index[: b + n]].ravel()
        right = y[(*index[:b], *index[b + n :])].ravel()
        products = [p.item() * q.item() for p, q in zip(left, right, strict=True)]
        made[index] = any(products) if dtype.kind == "b" else wrapped(sum(products), dtype)
    return made


@defines("dot")
def dot(
    lhs: Any, rhs: Any, *, dimension_numbers: Any = None, preferred_element_type: Any = None
) -> Any:
    if dimension_numbers is None:
        need(lhs.ndim in (1, 2) and rhs.ndim in (1, 2))
        dimension_numbers = (((lhs.ndim - 1,), (0,)), ((), ()))
    return dot_general(lhs, rhs, dimension_numbers, None, preferred_element_type)


@defines("batch_matmul")
def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Any:
    need(lhs.ndim == rhs.ndim >= 2)
    batch = [*range(lhs.ndim - 2)]
    return dot_general(lhs, rhs, (((lhs.ndim - 1,), (lhs.ndim - 2,)), (batch, batch)))


@defines("fft")
def fft(x: Any, fft_type: Any, fft_lengths: Any) -> Any:
    name = getattr(fft_type, "name", fft_type)
    need(str(name).upper() in ("FFT", "IFFT", "RFFT", "IRFFT"))
    name, many = name.upper(), len(fft_lengths)
    need_kind(x, "f" if name == "RFFT" else "c")
    need(many <= x.ndim)
    own = [*x.shape[x.ndim - many :]]
    halves = [*fft_lengths[:-1], fft_lengths[-1] // 2 + 1] if many else []
    need(own == (halves if name == "IRFFT" else [*fft_lengths]))
    if name == "IRFFT" and many:  # the other half are the conjugates of the first
        x = _whole(x, fft_lengths)
    sign = 1 if name in ("IFFT", "IRFFT") else -1
    made = np.zeros(x.shape, complex)
    for lead in np.ndindex(*x.shape[: x.ndim - many]):
        for to in np.ndindex(*fft_lengths):
            total = 0j
            for at in np.ndindex(*fft_lengths):
                turns = sum(i * k / n for i, k, n in zip(at, to, fft_lengths, strict=True))
                total += complex(x[(*lead, *at)]) * cmath.exp(sign * 2j * math.pi * turns)
            made[(*lead, *to)] = total / (math.prod(fft_lengths) if sign == 1 else 1)
    if name == "RFFT" and many:
        made = made[..., : fft_lengths[-1] // 2 + 1]
    single = x.dtype.char in "fF"
    if not many:
        return x
    return (
        made.real.astype("f4" if single else "f8")
        if name == "IRFFT"
        else made.astype("c8" if single else "c16")
    )


def _whole(x: Any, lengths: Any) -> Any:
    """Return all of a transform of real numbers of which half is there; the ends are real."""
    made = np.zeros((*x.shape[: x.ndim - len(lengths)], *lengths), x.dtype)
    n = lengths[-1]
    for index in np.ndindex(*made.shape):
        if index[-1] <= n // 2:
            made[index] = x[index]
        else:
            lead = index[: x.ndim - len(lengths)]
            inner = zip(index[len(lead) : -1], lengths[:-1], strict=True)
            made[index] = x[(*lead, *[-i % m for i, m in inner], n - index[-1])].conjugate()
    return made


@defines("stop_gradient", "optimization_barrier")
def stop_gradient(x: Any) -> Any:
    return x
