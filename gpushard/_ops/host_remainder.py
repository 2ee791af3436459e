"""Compute remainders of integers by one number, on the host.

NumPy divides by one number in vector instructions, but computes remainders one by one. Subtracting
quotient times divisor gives equal bits, since integers wrap around.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LEAST = 1 << 11
"""The fewest elements for this way; fewer are faster one by one."""


def remainder(x: Any, y: Any, out: Any = None) -> Any:
    """Compute `np.remainder` of integers.

    >>> remainder(np.arange(-4096, 4096), np.int64(-7))[:3]
    array([-1,  0, -6])
    """
    if x.size < LEAST or y.ndim or x.dtype != y.dtype or not y:
        return np.remainder(x, y, out=out)
    result = np.empty(x.shape, x.dtype) if out is None else out
    source = x
    if not x.flags.c_contiguous:  # would also be one by one
        result[...] = source = x
        source = result
    np.floor_divide(source, y, out=result)
    np.multiply(result, y, out=result)
    return np.subtract(x, result, out=result)
