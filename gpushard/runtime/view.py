"""Strided parts of dense arrays, as plain numbers. Pure."""

from __future__ import annotations

import dataclasses

import numpy as np

from gpushard.typing import LocalArray, Shape


@dataclasses.dataclass(frozen=True)
class View:
    """A strided part of an operand."""

    offset: int
    """Bytes from the operand's first element."""

    shape: Shape
    strides: tuple[int, ...]

    def is_dense(self, itemsize: int) -> bool:
        """Whether its elements lie one after the other in row-major order."""
        step = itemsize
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size > 1 and stride != step:
                return False
            step *= size
        return True

    def of(self, operand: LocalArray) -> LocalArray:
        """Return the part of an operand, which is dense.

        >>> View(8, (2, 2), (16, 0)).of(np.arange(6)).tolist()
        [[1, 1], [3, 3]]
        """
        if isinstance(operand, np.ndarray):
            return np.ndarray(self.shape, operand.dtype, operand, self.offset, self.strides)
        start = operand.data + self.offset  # CuPy's pointers know what they keep alive
        return type(operand)(self.shape, operand.dtype, start, self.strides)
