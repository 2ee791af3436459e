"""Threefry-2x32 with 20 rounds.

Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

from __future__ import annotations

from typing import Any

import numpy as np

_PARITY = np.uint32(0x1BD11BDA)
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_SHIFTS = tuple(tuple((np.uint32(r), np.uint32(32 - r)) for r in group) for group in _ROTATIONS)


def threefry(xp: Any, key: tuple[Any, Any], first: Any, second: Any) -> None:
    """Encrypt pairs of words in place.

    Every step works in place on a few arrays, so that blocks of some ten thousand words stay in
    the cache.

    Args:
      xp: NumPy or CuPy.
      key: two arrays of uint32 that broadcast to the words, of one dim at least: overflow of arrays
        is silent.
      first: the high words, uint32.
      second: the low words.

    >>> words = [np.zeros(1, np.uint32) for _ in range(4)]
    >>> threefry(np, (words[0], words[1]), words[2], words[3])
    >>> [hex(word[0]) for word in words[2:]]
    ['0x6b200159', '0x99ba4efe']
    """
    keys = (*key, key[0] ^ key[1] ^ _PARITY)
    scratch = xp.empty_like(second)
    first += keys[0]
    second += keys[1]
    for group in range(5):
        for left, right in _SHIFTS[group % 2]:
            first += second
            xp.left_shift(second, left, out=scratch)
            xp.right_shift(second, right, out=second)
            second |= scratch
            second ^= first
        first += keys[(group + 1) % 3]
        second += keys[(group + 2) % 3] + np.uint32(group + 1)
