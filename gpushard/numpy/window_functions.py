"""Windows for signals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import integer
from gpushard._functions.docstrings import described
from gpushard._functions.element_types import number_of
from gpushard._placement.creation import kept_at, place_of
from gpushard.numpy import elementwise as ew
from gpushard.numpy.ranges import arange

__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]

_windows = described(
    M="the number of elements.",
    device="a device or a sharding for the array; by default the one for new arrays.",
    out_sharding="another name of `device`.",
)


def _turns(name: str, M: Any, place: Any) -> tuple[int, Any]:
    """Return the number of elements, and as many numbers from -(M - 1) to M - 1."""
    length = integer(M, name, "M")
    return length, arange(1 - length, length, 2, float, out_sharding=place)


def _window(name: str, M: Any, device: Any, out_sharding: Any, *weights: float) -> Any:
    """Create a weighted sum of cosines with whole waves over the window."""
    place = place_of(device, out_sharding)
    length, turns = _turns(name, M, place)
    window: Any = weights[0]
    for waves, weight in enumerate(weights[1:], 1):
        window = window + weight * ew.cos(turns * (math.pi * waves / max(length - 1, 1)))
    return kept_at(turns + 1 if length == 1 else window, place)


@_windows
def hanning(M: int, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Create a Hann window: one period of a cosine, from 0 to 1 and back."""
    return _window("hanning", M, device, out_sharding, 0.5, 0.5)


@_windows
def hamming(M: int, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Create a Hamming window: one period of a cosine, which does not reach 0."""
    return _window("hamming", M, device, out_sharding, 0.54, 0.46)


@_windows
def blackman(M: int, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Create a Blackman window: a sum of two cosines, from 0 to 1 and back."""
    return _window("blackman", M, device, out_sharding, 0.42, 0.5, 0.08)


@_windows
def bartlett(M: int, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Create a Bartlett window: a line from 0 to 1 and a line back."""
    place = place_of(device, out_sharding)
    length, turns = _turns("bartlett", M, place)
    window = 1 - ew.abs(turns) / max(length - 1, 1)
    return kept_at(window, place)


@_windows
def kaiser(M: int, beta: float, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Create a Kaiser window, which is computed from a Bessel function.

    Args:
      beta: the shape parameter, a number. 0 gives a rectangle, greater numbers give narrower
        windows.

    Raises:
      ArgumentTypeError: `beta` is not a number.
    """
    place = place_of(device, out_sharding)
    shape = float(number_of(beta, np.dtype(np.float64), "kaiser", "beta"))
    length, turns = _turns("kaiser", M, place)
    window = ew.i0(shape * ew.sqrt(1 - (turns / max(length - 1, 1)) ** 2)) / float(np.i0(shape)[()])
    return kept_at(window, place)
