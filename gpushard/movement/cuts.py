"""Cutting boxes into rows along one of their dims. Pure."""

from __future__ import annotations

import numpy as np

from gpushard.movement.overlap import Overlap
from gpushard.typing import IntArray


def cut_dim(length: IntArray, enough: int) -> IntArray:
    """Return the dim along which each box is cut: the first that is long enough, else the longest.

    Args:
      length: of each box in each dim, shape (dims, boxes); at least one dim.
      enough: the length that is enough.

    >>> cut_dim(np.array([[2, 2], [5, 40], [99, 99]]), 16).tolist()
    [2, 1]
    """
    long = length >= enough
    return np.asarray(np.where(long.any(axis=0), long.argmax(axis=0), length.argmax(axis=0)))


def cut_rows(
    overlap: Overlap, boxes: IntArray, dim: IntArray, low: IntArray, high: IntArray
) -> None:
    """Keep only some rows of boxes, in place.

    Args:
      overlap: where the boxes come from.
      boxes: source offset, destination offset and length of each box in each mapped dim.
      dim: the dim that each is cut along.
      low: the first row that is kept of each.
      high: the row after the last one.
    """
    column = np.arange(boxes.shape[2])
    step = np.array([runs.map.step for runs in overlap.runs], np.int64)[dim]
    boxes[0, dim, column] += step * low
    boxes[1, dim, column] += low
    boxes[2, dim, column] = high - low
