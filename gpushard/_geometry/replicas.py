"""Number devices that hold equal blocks: replica 0, 1 and so on, in the order of the sharding."""

from __future__ import annotations

import numpy as np

from gpushard._typing import IntArray


def replica_numbers(keys: IntArray) -> IntArray:
    """Number equal keys from 0, in order.

    >>> replica_numbers(np.array([5, 7, 5, 5])).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(keys, kind="stable")
    in_order = keys[order]
    first = np.r_[True, in_order[1:] != in_order[:-1]] if keys.size else np.zeros(0, bool)
    positions = np.arange(keys.size)
    starts = np.maximum.accumulate(np.where(first, positions, 0))
    numbers = np.empty(keys.size, np.int64)
    numbers[order] = positions - starts
    return numbers
