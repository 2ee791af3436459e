"""Intervals of mixed-radix numbers as boxes of their digits. Pure."""

from __future__ import annotations

import math

import numpy as np

from gpushard.frozen import dataclass
from gpushard.typing import IntArray, Shape


@dataclass(frozen=True, eq=False)
class DigitBoxes:
    """Boxes of digits, sorted by the interval that they are of."""

    owner: IntArray
    """The interval of each box."""

    begin: IntArray
    """First value of each digit, shape (digits, boxes)."""

    end: IntArray
    """The value after the last one, likewise."""


def cut_intervals(low: IntArray, high: IntArray, sizes: Shape) -> DigitBoxes:
    """Cut intervals into boxes: each is a head, a middle of whole turns, and a tail.

    Args:
      low: the first number of each interval.
      high: the number after the last one; of an empty interval, not above `low`.
      sizes: how many values each digit has, the most significant one first.

    Returns:
      At most 2 * digits - 1 boxes of each interval, none of them empty.

    >>> boxes = cut_intervals(np.array([2]), np.array([11]), (3, 4))
    >>> list(zip(boxes.begin.T.tolist(), boxes.end.T.tolist()))
    [([1, 0], [2, 4]), ([0, 2], [1, 4]), ([2, 0], [3, 3])]
    """
    owner = np.flatnonzero(high > low)
    low, high = low[owner], high[owner]
    if not sizes:
        none = np.zeros((0, len(owner)), np.int64)
        return DigitBoxes(owner, none, none)
    if len(sizes) == 1:
        return DigitBoxes(owner, low[None], high[None])
    turn = math.prod(sizes[1:])
    first, start = np.divmod(low, turn)
    last, stop = np.divmod(high, turn)
    same = first == last
    whole = first + (start > 0)
    middle = np.flatnonzero(last > whole)
    head = np.flatnonzero(same | (start > 0))
    tail = np.flatnonzero(~same & (stop > 0))
    ends = np.concatenate((head, tail))
    rest = cut_intervals(
        np.concatenate((start[head], np.zeros_like(tail))),
        np.concatenate((np.where(same, stop, turn)[head], stop[tail])),
        sizes[1:],
    )
    value = np.concatenate((first[head], last[tail]))[rest.owner]
    turns = np.array(sizes[1:], np.int64)[:, None].repeat(len(middle), axis=1)
    return _sorted(
        np.concatenate((owner[middle], owner[ends[rest.owner]])),
        _joined(whole[middle], np.zeros_like(turns), value, rest.begin),
        _joined(last[middle], turns, value + 1, rest.end),
    )


def _joined(first: IntArray, rest: IntArray, value: IntArray, within: IntArray) -> IntArray:
    """Return the bounds of middles and of ends: those of the first digit above those of others."""
    middles, ends = np.concatenate((first[None], rest)), np.concatenate((value[None], within))
    return np.concatenate((middles, ends), axis=1)


def _sorted(owner: IntArray, begin: IntArray, end: IntArray) -> DigitBoxes:
    order = np.argsort(owner, kind="stable")
    return DigitBoxes(owner[order], begin[:, order], end[:, order])
