"""Draw numbers for a block of elements, from their positions and a key."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from gpushard._frozen import dataclass
from gpushard._ops.aval import Dtype
from gpushard._ops.prng.error_functions import erfinv
from gpushard._ops.prng.threefry import threefry

_WORD = np.uint64(32)
_ZERO = np.uint32(0)


@functools.lru_cache(maxsize=1024)
def _fold_key(first: int, second: int, number: int) -> tuple[Any, Any]:
    """Fold a key with a number; cached, since every block of an array needs it."""
    words = [np.array([word], np.uint32) for word in (first, second, 0, number)]
    return threefry(np, (words[0], words[1]), words[2], words[3])


@dataclass(frozen=True, eq=False)
class Stream:
    """A stream of random numbers for every element of a block, by key and position.

    The layout of bits is that of JAX's partitionable Threefry: the counter of an element is its
    position, in 64 bits.
    """

    xp: Any  # NumPy or CuPy
    key: tuple[Any, Any]  # two arrays of uint32, with one element, or one for each position
    # The high word of the row-major position of each element in the whole array, uint32; a single
    # word if all are equal.
    high: Any
    low: Any  # the low word of each position
    count: int = 1  # the number of elements of the whole array, for each key

    def words(self) -> tuple[Any, Any]:
        """Draw two words of 32 bits for each element."""
        return threefry(self.xp, self.key, self.high, self.low)

    def fold(self, number: int) -> Stream:
        """Return the stream of these elements for the key folded with a number."""
        first, second = self.key
        if self.xp is np and first.size == 1:
            return dataclasses.replace(self, key=_fold_key(int(first[0]), int(second[0]), number))
        key = threefry(self.xp, self.key, _ZERO, np.uint32(number))
        return dataclasses.replace(self, key=key)

    def at(self, which: Any) -> Stream:
        """Return the stream of some of the elements."""
        key, high = self.key, self.high
        if key[0].size > 1:
            key = key[0][which], key[1][which]
        if high.size > 1:
            high = high[which]
        return dataclasses.replace(self, key=key, high=high, low=self.low[which])

    def stacked(self, number: int) -> Stream:
        """Return the stream of these elements if the whole array is one of several."""
        return self._at_positions(lambda positions: positions + np.uint64(number * self.count))

    def widened(self, number: int, count: int) -> Stream:
        """Return the stream of an array with one more dim at the end."""
        return self._at_positions(lambda p: p * np.uint64(count) + np.uint64(number))

    def _at_positions(self, change: Callable[[Any], Any]) -> Stream:
        positions = change((self.high.astype(np.uint64) << _WORD) + self.low.astype(np.uint64))
        high, low = (positions >> _WORD).astype(np.uint32), positions.astype(np.uint32)
        return dataclasses.replace(self, high=high, low=low)

    def bits(self, dtype: Dtype) -> Any:
        """Draw random bits as unsigned integers of a dtype."""
        high, low = self.words()
        if dtype.itemsize == 8:
            wide = high.astype(np.uint64)
            wide <<= _WORD
            wide |= low
            return wide
        high ^= low
        return high.astype(dtype, copy=False)

    def uniform(self, dtype: Dtype, low: Any = None, high: Any = None) -> Any:
        """Draw floats in [low, high), from as many bits as the mantissa has.

        Args:
          dtype: a type of floats; types of `ml_dtypes` are computed in float32.
          low: a number of that dtype, or an array with a number for each element; None for 0.
          high: a number or an array, like `low`; None for 1, if `low` is None.
        """
        if dtype.isbuiltin != 1:
            return self._narrow_uniform(dtype, low, high)
        info = np.finfo(dtype)
        unsigned = np.dtype(f"u{dtype.itemsize}")
        bits = self.bits(unsigned)
        bits >>= unsigned.type(info.bits - info.nmant)
        bits |= np.ones((), dtype).view(unsigned)[()]
        floats = bits.view(dtype)
        floats -= dtype.type(1)
        return floats if low is None else self._between(floats, low, high)

    def _narrow_uniform(self, dtype: Dtype, low: Any, high: Any) -> Any:
        """Draw bfloat16 and other narrow floats from 8 bits, as JAX does."""
        bits_of_one = np.ones((), dtype).view(f"u{dtype.itemsize}")
        after = np.asarray(bits_of_one + bits_of_one.dtype.type(1)).view(dtype).astype(np.float32)
        mantissa = -int(np.log2(after - 1))
        floats = (self.bits(np.dtype(np.uint8)) >> (8 - mantissa)).astype(np.float32)
        floats *= np.float32(2.0**-mantissa)
        if low is None:
            return floats
        return self._between(floats, low.astype(np.float32), high.astype(np.float32))

    def _between(self, floats: Any, low: Any, high: Any) -> Any:
        """Scale floats in [0, 1) to [low, high), in place."""
        floats *= high - low
        floats += low
        return self.xp.maximum(low, floats, out=floats)

    def sign(self) -> Any:
        """Draw 1 or -1, as int8."""
        return 1 - 2 * (self.uniform(np.dtype(np.float64)) >= 0.5).astype(np.int8)

    def normal(self, dtype: Dtype) -> Any:
        """Draw standard normal floats, by inversion."""
        low = np.nextafter(dtype.type(-1), dtype.type(0))
        numbers = erfinv(self.xp, self.uniform(dtype, low, dtype.type(1)))
        numbers *= dtype.type(np.sqrt(2))
        return numbers
