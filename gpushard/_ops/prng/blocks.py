"""Divide arrays into blocks of elements with their positions in the whole array.

A block is padded to a multiple of 64 elements. NumPy's loops may use other instructions for the
remaining elements at the end, and bits must not depend on where an array is cut.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gpushard._ops.prng.stream import Stream
from gpushard._runtime.work_sharing import share
from gpushard._typing import Shape

ELEMENTS = 32768  # elements of a block on the host: the few arrays of Threefry stay in cache
_EVEN = 64
_LOW = (1 << 32) - 1


def even(xp: Any, x: Any) -> Any:
    """Flatten an array and pad it to a multiple of 64 with its last element."""
    lacking = -len(x) % _EVEN
    return xp.concatenate([x, xp.repeat(x[-1:], lacking)]) if lacking else x


def evenly(xp: Any, function: Callable[[Any], Any], x: Any) -> Any:
    """Apply an elementwise function to an array, with bits that do not depend on its length."""
    return function(even(xp, x.ravel()))[: x.size].reshape(x.shape)


def words_of(keys: Any) -> Any:
    """Split keys of 64 bits into two words each, along a new last dim.

    >>> words_of(np.zeros((3, 4), np.uint64)).shape
    (3, 4, 2)
    """
    return keys[..., None].view(np.uint32)


def each_block(
    xp: Any,
    keys: Any,
    start: Shape,
    local: Shape,
    whole: Shape,
    work: Callable[[int, int, Stream], None],
) -> None:
    """Call a function for the blocks of an array; on the host idle threads help.

    Args:
      xp: NumPy or CuPy.
      keys: keys of shape (..., 2). The leading dims are those of `local`, and each key counts the
        elements of the other dims separately.
      start: the position of the array's first element in the whole array.
      local: shape of the array.
      whole: shape of the whole array.
      work: takes the start and end of a block in the array's row-major elements, and a stream.
    """
    batch, size = keys.ndim - 1, math.prod(local)
    if not size:
        return
    outer, inner, offset = _run(start, local, whole, batch)
    most = ELEMENTS if xp is np else size
    height, width = max(1, most // inner), min(inner, most)
    words = keys.reshape(-1, 2)

    def block(row: int, column: int) -> None:
        count, n = min(height, size // inner - row), min(width, inner - column)
        if count == 1:
            number, base = _rows(row, start, local, whole, batch, outer)
            high, low = _sequence(xp, base + offset + column, n)
            pair = words[number] if batch else words[0]
            key = pair[:1], pair[1:]
        else:  # several rows are whole: `column` is 0
            rows = xp.arange(row, row + count)
            numbers, bases = _rows(rows, start, local, whole, batch, outer)
            columns = xp.arange(offset, offset + n)
            high, low = _words(xp, bases, columns, math.prod(whole[batch:]))
            key = words[0, :1], words[0, 1:]
            if batch:
                first_words, second_words = words[numbers].T
                key = (even(xp, xp.repeat(first_words, n)), even(xp, xp.repeat(second_words, n)))
        first = row * inner + column
        stream = Stream(xp, key, high, low, math.prod(whole[batch:]))
        work(first, first + count * n, stream)

    if height >= size // inner and width >= inner:
        block(0, 0)
        return
    share(
        [
            functools.partial(block, row, column)
            for row in range(0, size // inner, height)
            for column in range(0, inner, width)
        ]
    )


def _sequence(xp: Any, first: int, count: int) -> tuple[Any, Any]:
    """Return the words of consecutive positions, padded to an even block."""
    count += -count % _EVEN
    if first >> 32 != first + count - 1 >> 32:
        return _words(xp, xp.arange(1), xp.arange(first, first + count), first + count)
    start = first & _LOW
    return xp.full(1, first >> 32, np.uint32), xp.arange(start, start + count, dtype=np.uint32)


def _words(xp: Any, bases: Any, columns: Any, size: int) -> tuple[Any, Any]:
    """Return the words of all sums of bases and columns below `size`."""
    if size <= _LOW:
        short = bases.astype(np.uint32)[:, None] + columns.astype(np.uint32)
        return xp.zeros(1, np.uint32), even(xp, short.ravel())
    positions = even(xp, (bases[:, None] + columns).ravel())
    return (positions >> 32).astype(np.uint32), positions.astype(np.uint32)


def _run(start: Shape, local: Shape, whole: Shape, batch: int) -> tuple[int, int, int]:
    """Find the runs of an array that are contiguous in the whole array.

    Returns:
      The number of leading dims that are not in a run, its length, and the position of its first
      element among those of these trailing dims.
    """
    dim, inner = len(local), 1
    while dim > batch and local[dim - 1] == whole[dim - 1]:
        dim -= 1
        inner *= local[dim]
    if dim == batch:
        return dim, inner, 0
    dim -= 1
    return dim, inner * local[dim], inner * start[dim]


def _rows(
    rows: Any, start: Shape, local: Shape, whole: Shape, batch: int, outer: int
) -> tuple[Any, Any]:
    """Return for each run the number of its key and the position of its first element."""
    left, base = rows, rows * 0
    for dim in range(outer - 1, batch - 1, -1):
        base = base + (left % local[dim] + start[dim]) * math.prod(whole[dim + 1 :])
        left = left // local[dim]
    return left, base
