"""Numbers of a block of elements, from their positions and a key."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from gpushard.ops.aval import Dtype
from gpushard.ops.random.special import erfinv
from gpushard.ops.random.threefry import threefry

_WORD = np.uint64(32)


@dataclasses.dataclass(frozen=True, eq=False)
class Stream:
    """What gives every element of a block numbers of its own; they depend on nothing else.

    The layout of bits is that of JAX's partitionable Threefry: the counter of an element is its
    position, in 64 bits.
    """

    xp: Any
    """NumPy or CuPy."""

    key: tuple[Any, Any]
    """Two arrays of uint32: of one element, or with one for each position."""

    positions: Any
    """The row-major position of each element in the whole array, int64."""

    def words(self) -> tuple[Any, Any]:
        """Return two words of 32 bits for each element."""
        low = self.positions.astype(np.uint32)
        high = (self.positions >> 32).astype(np.uint32)
        threefry(self.xp, self.key, high, low)
        return high, low

    def fold(self, number: int) -> Stream:
        """Return another stream of the same elements: that of the key folded with a number."""
        high = self.xp.zeros_like(self.key[0])
        low = self.xp.full_like(self.key[0], number)
        threefry(self.xp, self.key, high, low)
        return dataclasses.replace(self, key=(high, low))

    def at(self, which: Any) -> Stream:
        """Return the stream of some of the elements."""
        key = self.key
        if key[0].size > 1:
            key = key[0][which], key[1][which]
        return dataclasses.replace(self, key=key, positions=self.positions[which])

    def bits(self, dtype: Dtype) -> Any:
        """Return random bits as unsigned integers of a dtype."""
        high, low = self.words()
        if dtype.itemsize == 8:
            return (high.astype(np.uint64) << _WORD) | low
        high ^= low
        return high.astype(dtype, copy=False)

    def uniform(self, dtype: Dtype, low: Any = None, high: Any = None) -> Any:
        """Return floats of [low, high), from as many bits as the mantissa has.

        Args:
          dtype: float16, float32 or float64.
          low: numbers of that dtype, or arrays of a number for each element; None for 0.
          high: likewise; None for 1 where `low` is None.
        """
        info = np.finfo(dtype)
        unsigned = np.dtype(f"u{dtype.itemsize}")
        bits = self.bits(unsigned)
        bits >>= unsigned.type(info.bits - info.nmant)
        bits |= np.ones((), dtype).view(unsigned)[()]
        floats = bits.view(dtype)
        floats -= dtype.type(1)
        if low is None:
            return floats
        return self.xp.maximum(low, floats * (high - low) + low)

    def normal(self, dtype: Dtype) -> Any:
        """Return standard normal floats, by inversion."""
        low = np.nextafter(dtype.type(-1), dtype.type(0))
        uniform = self.uniform(dtype, low, dtype.type(1))
        return erfinv(self.xp, uniform) * dtype.type(np.sqrt(2))
