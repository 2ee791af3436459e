"""Find elements by rank, without sorting all: on the host.

A sorted sample says between which bounds an element of a rank probably is. A few passes count the
elements below these bounds, and collect the elements within. So only few elements are sorted.

Take rank 2 of [5, 1, 4, 2, 3], with the bounds 2 and 4 from a sample. One element is below, and
[4, 2, 3] are within. The result is number 2 - 1 of them in order, which is 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from gpushard._typing import IntArray, LocalArray, LocalArrays

LEAST = 1 << 16
"""Fewer elements are sorted in less time."""

MOST = 8
"""For more ranks apart, sorting takes less time."""

_SAMPLE = 1 << 15
"""Elements of a sample."""

_PIECE = 1 << 15
"""Elements per piece, so temporary arrays stay in cache."""

_WIDTH = 3
"""Distance of the bounds, in standard deviations of the rank of an element of the sample."""

_Bounds: TypeAlias = tuple[Any, Any]
"""The least and the greatest value; None without a bound, since a sample lacks the ends."""


def select(chunks: LocalArrays, ranks: IntArray) -> tuple[LocalArray, bool] | None:
    """Return the elements of some ranks among all elements of several vectors of real numbers.

    NaNs rank last; the second result says whether there are any. Return None if sorting takes less
    time, or if the sample misleads.

    >>> halves = np.arange(1 << 17)[::-1].reshape(2, -1)
    >>> select(list(halves), np.array([5, 70000]))
    (array([    5, 70000]), False)
    """
    count = sum(map(len, chunks))
    wanted, back = np.unique(ranks, return_inverse=True)
    starts = [0, *(np.flatnonzero(np.diff(wanted) > 1) + 1).tolist()]
    groups = np.split(wanted, starts[1:])  # ranks in a row have the same bounds
    if count < LEAST or len(groups) > MOST or chunks[0].dtype.kind not in "iuf":
        return None
    sample = _sample(chunks, count)
    bounds = [_bounds(sample, group, count) for group in groups]
    elements, has_nan = [], False
    for group, (below, within) in zip(groups, _divide(chunks, bounds), strict=True):
        if group[0] < below or group[-1] >= below + len(within):
            return None
        within.sort()
        elements.append(within[group - below])
        has_nan = bool(within[-1] != within[-1])  # NaNs are within any bounds
    return np.concatenate(elements)[back.reshape(ranks.shape)], has_nan


def _sample(chunks: LocalArrays, count: int) -> LocalArray:
    rng = np.random.default_rng(0)
    parts = [
        chunk[rng.integers(0, len(chunk), 1 + _SAMPLE * len(chunk) // count)]
        for chunk in chunks
        if len(chunk)
    ]
    return np.sort(np.concatenate(parts))


def _bounds(sample: LocalArray, group: IntArray, count: int) -> _Bounds:
    """Return the least and the greatest value that elements of ranks in a row probably have."""
    last = len(sample) - 1
    shares = (group[[0, -1]] + 0.5) / count
    spread = _WIDTH * np.sqrt(shares * (1 - shares) * last) + 1
    low, high = shares[0] * last - spread[0], shares[1] * last + spread[1]
    least = None if low < 0 else sample[int(low)]
    return least, None if high > last else sample[int(np.ceil(high))]


def _divide(chunks: LocalArrays, bounds: Sequence[_Bounds]) -> list[tuple[int, LocalArray]]:
    """Count the elements below bounds, and collect the elements within; NaNs are within."""
    below = [0] * len(bounds)
    within: list[list[LocalArray]] = [[] for _ in bounds]
    outside, above = np.empty((2, _PIECE), bool)
    for chunk in chunks:
        for start in range(0, len(chunk), _PIECE):
            piece = chunk[start : start + _PIECE]
            out, over = outside[: len(piece)], above[: len(piece)]
            for number, (least, greatest) in enumerate(bounds):
                if least is None:
                    out[...] = False
                else:
                    np.less(piece, least, out)
                    below[number] += int(np.count_nonzero(out))
                if greatest is not None:
                    out |= np.greater(piece, greatest, over)
                np.logical_not(out, out)
                within[number].append(piece[out.nonzero()[0]])
    return [(n, np.concatenate(parts)) for n, parts in zip(below, within, strict=True)]
