"""Windows for signals, and polynomials."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.errors import ArgumentError
from gpushard.numpy import elementwise as ew
from gpushard.numpy.arguments import as_value, host_data, integer, is_value, settle
from gpushard.numpy.creation import zeros_like
from gpushard.numpy.making import kept_at, place_of
from gpushard.numpy.ranges import arange


def _turns(name: str, M: Any, place: Any) -> tuple[int, Any]:
    """Return how many elements there are, and numbers from -(M - 1) to M - 1 for them."""
    many = integer(M, name, "M")
    return many, arange(1 - many, max(many, 1 - many), 2, float, out_sharding=place)


def _window(name: str, M: Any, device: Any, out_sharding: Any, *weights: float) -> Any:
    """Return a sum of cosines: of whole waves over the window, weighted."""
    place = place_of(device, out_sharding)
    many, turns = _turns(name, M, place)
    found: Any = weights[0]
    for waves, weight in enumerate(weights[1:], 1):
        found = found + weight * ew.cos(turns * (math.pi * waves / max(many - 1, 1)))
    return kept_at(turns + 1 if many == 1 else found, place)


def hanning(M: int, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Return the Hann window: one wave of a cosine, from 0 to 1 and back.

    Args:
      M: how many elements.
      device: where it goes.
      out_sharding: the same.
    """
    return _window("hanning", M, device, out_sharding, 0.5, 0.5)


def hamming(M: int, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Return the Hamming window: one wave of a cosine, which does not reach 0.

    Args:
      M: how many elements.
      device: where it goes.
      out_sharding: the same.
    """
    return _window("hamming", M, device, out_sharding, 0.54, 0.46)


def blackman(M: int, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Return the Blackman window: two waves of cosines.

    Args:
      M: how many elements.
      device: where it goes.
      out_sharding: the same.
    """
    return _window("blackman", M, device, out_sharding, 0.42, 0.5, 0.08)


def bartlett(M: int, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Return the Bartlett window: a line from 0 to 1 and another one back.

    Args:
      M: how many elements.
      device: where it goes.
      out_sharding: the same.
    """
    place = place_of(device, out_sharding)
    many, turns = _turns("bartlett", M, place)
    found = 1 - ew.abs(turns) / max(many - 1, 1)
    return kept_at(found, place)


def polyval(p: Any, x: Any, *, out_sharding: Any = None) -> Array:
    """Return the values of a polynomial, by Horner's rule.

    Args:
      p: its coefficients, a vector, that of the highest power first.
      x: where, an array.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: coefficients are no vector.

    >>> polyval([1, 0, 2], [3, 4])
    Array([11, 18], dtype=int64)
    """
    given = p if is_value(p) else host_data(p, "polyval")
    if given.ndim != 1:
        raise ArgumentError(
            f"polyval: p of shape {given.shape} must be a vector", argument="p", shape=given.shape
        )
    x = as_value(x, "polyval")
    found = zeros_like(x)
    for at in np.arange(given.shape[0]).tolist():
        found = found * x + given[at]
    return settle(found, out_sharding)
