"""Fourier transforms, under the name of `jax.lax.fft`."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from gpushard._array import Array
from gpushard._functions.argument_checks import check_choice
from gpushard._ops.bind import bind
from gpushard._ops.table import fft as rows
from gpushard._placement.arguments import as_value
from gpushard.errors import ArgumentError
from gpushard.lax.arguments import check_kind, integers

__all__ = ["FftType", "fft"]


class FftType(enum.IntEnum):
    """The transforms that `fft` can compute."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


_TRANSFORMS = {
    FftType.FFT: (rows.FFT, rows.FFT, "c"),
    FftType.IFFT: (rows.IFFT, rows.IFFT, "c"),
    FftType.RFFT: (rows.RFFT, rows.FFT, "f"),
    FftType.IRFFT: (rows.IRFFT, rows.IFFT, "c"),
}


"""For each transform the rows for the last dim and for the others, and the kinds of elements."""


def fft(x: Any, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Array:
    """Compute the discrete Fourier transform along the last axes.

    Args:
      x: an array of real numbers for RFFT, of complex numbers otherwise.
      fft_type: the transform: FFT, IFFT, RFFT or IRFFT.
      fft_lengths: the lengths of the last axes, which are transformed. For RFFT and IRFFT, the
        lengths in the real array.

    Raises:
      ArgumentError: the transform is unknown, or the lengths do not match the array.

    >>> import gpushard as gs
    >>> fft(gs.numpy.ones(4), "RFFT", (4,))
    Array([4.+0.j, 0.+0.j, 0.+0.j], dtype=complex128)
    """
    array = as_value(x, "fft")
    if isinstance(fft_type, str):
        check_choice("lax.fft", "fft_type", fft_type.upper(), [each.name for each in FftType])
        fft_type = FftType[fft_type.upper()]
    check_choice("lax.fft", "fft_type", fft_type, [*FftType])
    last, others, kinds = _TRANSFORMS[fft_type]
    check_kind("fft", array, kinds)
    lengths = integers("fft", "fft_lengths", fft_lengths)
    sizes = array.shape[array.ndim - len(lengths) :]
    if fft_type == FftType.IRFFT and sizes:
        sizes = (*sizes[:-1], lengths[-1] if sizes[-1] == lengths[-1] // 2 + 1 else None)
    if sizes != lengths or 0 in lengths:
        raise ArgumentError.refusing(
            "fft_lengths", fft_lengths, f"do not fit an array of shape {array.shape}", "lax.fft"
        )
    steps = [(last if at == -1 else others, at, lengths[at]) for at in range(-len(lengths), 0)]
    transformed: Array = array
    for row, at, length in steps if fft_type == FftType.IRFFT else steps[::-1]:
        transformed = bind(row, (transformed,), (at, length, None))
    return transformed
