"""Threefry-2x32 with 20 rounds.

Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._runtime.namespace import own_kernels

_PARITY = np.uint32(0x1BD11BDA)
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_SHIFTS = tuple(tuple((np.uint32(r), np.uint32(32 - r)) for r in group) for group in _ROTATIONS)
_HOST_SHIFTS = tuple(tuple((np.array(a), np.array(b)) for a, b in group) for group in _SHIFTS)
"""The shifts as arrays for NumPy: its ufuncs start twice as fast with arrays as with scalars."""


def threefry(xp: Any, key: tuple[Any, Any], high: Any, low: Any) -> tuple[Any, Any]:
    """Encrypt pairs of words.

    Every step works in place on three arrays, so blocks of some ten thousand words stay in cache.

    Args:
      xp: NumPy or CuPy.
      key: two arrays of uint32 with at least one dim: overflow of arrays is silent.
      high: the high words, uint32.
      low: the low words. They, or the key, have the broadcast shape of all arguments.

    >>> zero = np.zeros(1, np.uint32)
    >>> [hex(word[0]) for word in threefry(np, (zero, zero), zero, zero)]
    ['0x6b200159', '0x99ba4efe']
    """
    kernels = None if xp is np else own_kernels(xp)
    if kernels is not None:
        words: tuple[Any, Any] = kernels.threefry(key, high, low)
        return words
    keys = (*key, key[0] ^ key[1] ^ _PARITY)
    shifts = _HOST_SHIFTS if xp is np else _SHIFTS
    second = low + keys[1]
    first, scratch = xp.empty_like(second), xp.empty_like(second)
    start = high + keys[0]  # often a single word
    for group in range(5):
        for left, right in shifts[group % 2]:
            xp.add(start, second, first)
            start = first
            xp.left_shift(second, left, scratch)
            xp.right_shift(second, right, second)
            xp.bitwise_or(second, scratch, second)
            xp.bitwise_xor(second, first, second)
        xp.add(first, keys[(group + 1) % 3], first)
        xp.add(second, keys[(group + 2) % 3] + np.uint32(group + 1), second)
    return first, second
