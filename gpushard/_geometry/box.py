"""How a dim is cut into blocks.

A dim of length n over k blocks has blocks of ceil(n / k); trailing ones are short or empty.
"""

from __future__ import annotations

import numpy as np

from gpushard._typing import Index, IntArray, Shape


def block_bounds(size: int, blocks: int, position: int) -> tuple[int, int]:
    """Return the half-open range of one block of a dim.

    Args:
      size: length of the dim.
      blocks: the number of blocks.
      position: the number of the block, from 0.

    Returns:
      (start, stop). Trailing blocks are short or empty when `blocks` does not divide `size`.

    >>> [block_bounds(10, 4, i) for i in range(4)]
    [(0, 3), (3, 6), (6, 9), (9, 10)]
    """
    block = -(-size // blocks)
    return min(position * block, size), min((position + 1) * block, size)


def block_edges(size: int, blocks: int) -> IntArray:
    """Return the `blocks + 1` edges of a dim split into equal ceilings.

    Args:
      size: length of the dim.
      blocks: the number of blocks.

    Returns:
      Ascending edges; block j is [edges[j], edges[j + 1]).

    >>> block_edges(10, 4).tolist()
    [0, 3, 6, 9, 10]
    """
    block = -(-size // blocks)
    return np.minimum(
        np.arange(0, (blocks + 1) * block, block) if block else np.zeros(blocks + 1, np.int64), size
    )


def whole(shape: Shape) -> Index:
    """Return the index of a whole array.

    >>> whole((4, 2))
    (slice(0, 4, None), slice(0, 2, None))
    """
    return tuple(slice(0, size) for size in shape)
