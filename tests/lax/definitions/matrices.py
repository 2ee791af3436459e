"""What sums over segments and products of ragged groups of rows mean."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.lax.definitions.registry import defines


def _segments(data: Any, ids: Any, count: Any, start: Any, combine: Any) -> Any:
    """Combine rows of one number; numbers that no segment has are left out."""
    count = int(ids.max(initial=-1)) + 1 if count is None else count
    result = np.full((count, *data.shape[1:]), start, data.dtype)
    for row, n in zip(data, ids, strict=True):
        if 0 <= n < count:
            result[n] = combine(result[n], row)
    return result


def _limit(data: Any, least: bool) -> Any:
    if data.dtype.kind == "f":
        return -np.inf if least else np.inf
    return np.iinfo(data.dtype).min if least else np.iinfo(data.dtype).max


@defines("segment_sum")
def segment_sum(data: Any, ids: Any, num_segments: Any = None) -> Any:
    return _segments(data, ids, num_segments, 0, np.add)


@defines("segment_prod")
def segment_prod(data: Any, ids: Any, num_segments: Any = None) -> Any:
    return _segments(data, ids, num_segments, 1, np.multiply)


@defines("segment_max")
def segment_max(data: Any, ids: Any, num_segments: Any = None) -> Any:
    return _segments(data, ids, num_segments, _limit(data, True), np.maximum)


@defines("segment_min")
def segment_min(data: Any, ids: Any, num_segments: Any = None) -> Any:
    return _segments(data, ids, num_segments, _limit(data, False), np.minimum)


@defines("ragged_dot")
def ragged_dot(lhs: Any, rhs: Any, sizes: Any) -> Any:
    """Multiply the first rows by the first matrix, those behind them by the second, and so on."""
    result = np.zeros((lhs.shape[0], rhs.shape[2]), np.result_type(lhs, rhs))
    first = 0
    for matrix, size in zip(rhs, sizes, strict=True):
        result[first : first + size] = lhs[first : first + size] @ matrix
        first += size
    return result
