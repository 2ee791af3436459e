"""Remainders of integers by one number, on the host.

NumPy divides by one number in vector instructions, but takes remainders one by one. What is left
after as many divisors as fit is the same to the bit, as integers wrap around.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LEAST = 1 << 11
"""Fewer elements take less time one by one."""


def remainder(x: Any, y: Any, out: Any = None) -> Any:
    """Do what `np.remainder` does for integers.

    >>> remainder(np.arange(-4096, 4096), np.int64(-7))[:3]
    array([-1,  0, -6])
    """
    if x.size < LEAST or y.ndim or x.dtype != y.dtype or not y:
        return np.remainder(x, y, out=out)
    made = np.empty(x.shape, x.dtype) if out is None else out
    source = x
    if not x.flags.c_contiguous:  # one by one, too
        made[...] = source = x
        source = made
    np.floor_divide(source, y, out=made)
    np.multiply(made, y, out=made)
    return np.subtract(x, made, out=made)
