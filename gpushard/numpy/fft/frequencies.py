"""Frequencies of transforms, and shifting the zero frequency to the middle."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.errors import ArgumentError
from gpushard.functions.checks import as_dtype, integer, number_of
from gpushard.functions.docstrings import described
from gpushard.numpy import elementwise as ew
from gpushard.numpy.arguments import settle
from gpushard.numpy.making import place_of
from gpushard.numpy.manipulation import roll
from gpushard.numpy.public import public
from gpushard.numpy.ranges import arange
from gpushard.ops.axes import from_end

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


_frequencies = described(device="where it goes.", out_sharding="the same.")


@_frequencies
def fftfreq(
    n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None, out_sharding: Any = None
) -> Array:
    """Return the frequencies of what `fft` gives: 0 and positive ones, then negative ones.

    Args:
      n: how many.
      d: the distance of samples.
      dtype: type of the elements; float64 by default.

    Raises:
      ArgumentError: `n` is not positive.

    >>> fftfreq(4)
    Array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float64)
    """
    length, unit = _unit("fftfreq", n, d)
    place = place_of(device, out_sharding)
    at = arange(length, out_sharding=place)
    signed = ew.where(at < (length + 1) // 2, at, at - length)
    return _finished(signed * unit, dtype, None if place is None else at.sharding)


@_frequencies
def rfftfreq(
    n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None, out_sharding: Any = None
) -> Array:
    """Return the frequencies of what `rfft` gives, from 0.

    Args:
      n: how many samples there are.
      d: the distance of samples.
      dtype: type of the elements; float64 by default.

    Raises:
      ArgumentError: `n` is not positive.

    >>> rfftfreq(4)
    Array([0.  , 0.25, 0.5 ], dtype=float64)
    """
    length, unit = _unit("rfftfreq", n, d)
    place = place_of(device, out_sharding)
    at = arange(length // 2 + 1, out_sharding=place)
    return _finished(at * unit, dtype, None if place is None else at.sharding)


def _unit(name: str, n: Any, d: Any) -> tuple[int, float]:
    """Return the length, and the frequency of element 1."""
    length = integer(n, name, "n")
    distance = float(number_of(d, np.dtype(np.float64), name, "d"))
    if length < 1 or not distance:
        raise ArgumentError(
            f"{name}: n={length} must be positive, and d={d} not 0", argument="n", n=length, d=d
        )
    return length, 1.0 / (length * distance)


def _finished(x: Any, dtype: Any, place: Any) -> Any:
    """Return frequencies in the type and the place that were asked for."""
    return settle(x if dtype is None else x.astype(as_dtype(dtype)), place)


@public
def fftshift(x: Any, axes: Any = None, *, out_sharding: Any = None) -> Array:
    """Return an array with the zero frequency moved from the first element to the middle.

    Args:
      axes: along which dims; all by default.
    """
    dims = from_end(axes, x.ndim, "fftshift", "axes")
    shifts = tuple(x.shape[dim] // 2 for dim in dims)
    return roll(x, shifts, dims)


@public
def ifftshift(x: Any, axes: Any = None, *, out_sharding: Any = None) -> Array:
    """Return an array with the zero frequency moved from the middle to the first element.

    Args:
      axes: along which dims; all by default.
    """
    dims = from_end(axes, x.ndim, "ifftshift", "axes")
    shifts = tuple(-(x.shape[dim] // 2) for dim in dims)
    return roll(x, shifts, dims)
