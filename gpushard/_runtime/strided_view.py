"""Describe strided parts of dense arrays by plain numbers. Pure."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gpushard._typing import LocalArray, Shape


class View(NamedTuple):
    """A strided part of a dense operand."""

    offset: int  # bytes from the operand's first element
    shape: Shape
    strides: tuple[int, ...]

    def is_dense(self, itemsize: int) -> bool:
        """Whether the elements are contiguous in row-major order."""
        step = itemsize
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size > 1 and stride != step:
                return False
            step *= size
        return True

    def index_in(self, shape: Shape, itemsize: int) -> tuple[Any, ...] | None:
        """Return the index that takes this part out of a dense array; None if there is none.

        >>> View(20, (2, 2), (16, 8)).index_in((3, 4), 4)
        (slice(1, 3, 1), slice(1, 4, 2), Ellipsis)
        >>> View(12, (4,), (-4,)).index_in((4,), 4)
        (slice(3, None, -1), Ellipsis)
        >>> View(16, (2, 4), (16, 4)).index_in((3, 4), 4)
        (slice(1, 3, 1), Ellipsis)
        """
        rest, step = self.offset, math.prod(shape) * itemsize
        steps, at = [], []
        for size in shape:
            step //= size
            steps.append(step)
            at.append(rest // step)
            rest %= step
        index: list[Any] = [*at]
        first = 0
        for extent, stride in zip(self.shape, self.strides, strict=True):
            for dim in range(first, len(shape)):
                by = stride // steps[dim]
                last = at[dim] + (extent - 1) * by
                if by and by * steps[dim] == stride and 0 <= last < shape[dim]:
                    stop = last + 1 if by > 0 else last - 1
                    index[dim] = slice(at[dim], None if stop < 0 else stop, by)
                    first = dim + 1
                    break
            else:
                return None
        while index and index[-1] == slice(0, shape[len(index) - 1], 1):
            index.pop()  # CuPy takes time for each entry
        return (*index, ...)

    def merge_dims(self, other: View) -> tuple[View, View]:
        """Merge dims of this part and one of the same shape, as far as both allow it.

        >>> dense, other = View(0, (2, 3, 4), (48, 16, 4)), View(0, (2, 3, 4), (96, 16, 4))
        >>> [view.shape for view in dense.merge_dims(other)]
        [(2, 12), (2, 12)]
        """
        dims: list[tuple[int, int, int]] = []
        for extent, step, of in zip(self.shape, self.strides, other.strides, strict=True):
            if dims and dims[-1][1:] == (extent * step, extent * of):
                extent *= dims.pop()[0]
            dims.append((extent, step, of))
        shape = tuple([extent for extent, _, _ in dims])
        return (
            View(self.offset, shape, tuple([step for _, step, _ in dims])),
            View(other.offset, shape, tuple([of for _, _, of in dims])),
        )

    def of(self, operand: LocalArray) -> LocalArray:
        """Take the part out of a dense operand, without a copy.

        >>> View(8, (2, 2), (16, 0)).of(np.arange(6)).tolist()
        [[1, 1], [3, 3]]
        """
        if isinstance(operand, np.ndarray):
            return np.ndarray(self.shape, operand.dtype, operand, self.offset, self.strides)
        if min(self.strides, default=0) < 0:  # the base has the bounds that CuPy checks
            turns = tuple([slice(None, None, -1 if step < 0 else 1) for step in self.strides])
            return self._ascending().of(operand)[turns]
        start = operand.data + self.offset  # a pointer of CuPy keeps its memory alive
        return type(operand)(self.shape, operand.dtype, start, self.strides)

    def _ascending(self) -> View:
        """Reverse the dims with negative strides, so that addresses ascend."""
        turned = zip(self.shape, self.strides, strict=True)
        back = sum([(size - 1) * step for size, step in turned if step < 0])
        return View(self.offset + back, self.shape, tuple(map(abs, self.strides)))


def dense_strides(shape: Shape, itemsize: int) -> tuple[int, ...]:
    """Compute the strides in bytes of a dense row-major array.

    >>> dense_strides((2, 3, 4), 8)
    (96, 32, 8)
    """
    strides = [itemsize]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * max(1, size))
    return tuple(reversed(strides[: len(shape)]))
