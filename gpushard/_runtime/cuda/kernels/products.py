"""Cut products of matrices that are too large for a call of CuPy into parts. Pure.

CuPy passes sizes to cuBLAS with 32 bits and silently drops the higher bits. Its kernel for integers
counts the elements of a matrix with 32 bits, too. It has a block of threads for each 128 rows, in a
direction of the grid that is limited to `MOST_CALLS` blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from gpushard._runtime.cuda.kernels.limits import MOST_CALLS, is_wide
from gpushard._typing import LocalArray

_ROWS = 32 * MOST_CALLS  # most rows of integers, also if a block of threads has only 32 rows
_EASY = 1 << 15  # if operands have at most this many elements, the product has less than 2**31

Part = tuple[LocalArray, LocalArray, LocalArray, bool]
"""Two operands, their result, and whether the product is added to the result."""


def fits(x: LocalArray, y: LocalArray) -> bool:
    """Whether a product fits into one call."""
    if x.size <= _EASY and y.size <= _EASY:
        return True
    rows = x.shape[-2] if x.ndim > 1 else 1
    columns = y.shape[-1] if y.ndim > 1 else 1
    batch = math.prod(np.broadcast_shapes(x.shape[:-2], y.shape[:-2]))
    whole = not {x.dtype.kind, y.dtype.kind} & {*"fc"}
    return _counts(batch, rows, x.shape[-1], columns, whole=whole)


def parts(x: LocalArray, y: LocalArray, out: LocalArray) -> Iterator[Part]:
    """Cut a product of matrices in halves until each part fits into a call.

    All three arrays have two dims or more; dims before the last two broadcast.
    """
    (rows, depth), columns = x.shape[-2:], y.shape[-1]
    batch = out.shape[:-2]
    if _counts(math.prod(batch), rows, depth, columns, whole=out.dtype.kind not in "fc"):
        yield x, y, out, False
        return
    lengths = (*batch, rows, columns, depth)
    axis = max(range(len(lengths)), key=lengths.__getitem__) - len(lengths)
    half = lengths[axis] // 2
    for start, stop in (0, half), (half, lengths[axis]):
        if axis == -1:
            halves = parts(_cut(x, -1, start, stop), _cut(y, -2, start, stop), out)
            yield from ((a, b, to, adds or start > 0) for a, b, to, adds in halves)
            continue
        result_axis = axis + 1  # the result has no dim for the depth
        left = x if result_axis == -1 else _cut(x, result_axis, start, stop)
        right = y if result_axis == -2 else _cut(y, result_axis, start, stop)
        yield from parts(left, right, _cut(out, result_axis, start, stop))


def _counts(batch: int, rows: int, depth: int, columns: int, *, whole: bool) -> bool:
    """Whether CuPy can count a product; it may treat a batch as one matrix with more rows."""
    numbers = [batch * rows, batch * columns, depth]
    if whole:
        numbers += [rows * depth, depth * columns, rows * columns]
    return not is_wide(max(numbers)) and not (whole and max(numbers[:2]) > _ROWS)


def _cut(array: LocalArray, axis: int, start: int, stop: int) -> LocalArray:
    """Cut along an axis, counted from the end; an array that broadcasts there stays whole."""
    if array.ndim < -axis or array.shape[axis] == 1:
        return array
    part: LocalArray = array[(..., slice(start, stop), *[slice(None)] * (-axis - 1))]
    return part
