"""Where a source goes first that the new blocks' domains cannot read. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gpushard.geometry.free_boxes import tiling_of_boxes
from gpushard.geometry.tiling import Tiling
from gpushard.movement.rearrangement import Part
from gpushard.movement.space_boxes import SpaceBoxes, cut_blocks
from gpushard.typing import IntArray, Shape


def nearby_tiling(shape: Shape, parts: Iterable[Part], destination: Tiling) -> Tiling:
    """Return a tiling of a source on the devices of the result.

    Every device has the least box with all that its shard of the result reads.

    Args:
      shape: of the source.
      parts: all that is read of it.
      destination: tiling of the result.
    """
    low = np.array(shape, np.int64)[:, None].repeat(len(destination.devices), axis=1)
    high = np.zeros_like(low)
    for part in parts:
        boxes = cut_blocks(part.write, destination.starts, destination.stops)
        begin, end = _read_by(part, boxes)
        for dim in range(len(shape)):
            np.minimum.at(low[dim], boxes.block, begin[dim])
            np.maximum.at(high[dim], boxes.block, end[dim])
    low = np.minimum(low, high)
    return tiling_of_boxes(shape, destination.devices, low, high)


def _read_by(part: Part, boxes: SpaceBoxes) -> tuple[IntArray, IntArray]:
    """Return the least boxes of the source with all that boxes of the space read."""
    side = part.read
    first = np.zeros((len(side.sizes), len(boxes.block)), np.int64)
    last = first + np.array(side.sizes, np.int64)[:, None] - 1
    for axis, digits in enumerate(side.axes):
        if len(digits) == 1:  # of others, every value may occur
            first[digits[0]] = boxes.begin[axis] + part.begin[axis]
            last[digits[0]] = first[digits[0]] + boxes.length[axis] - 1
    begin = np.zeros((len(side.dims), len(boxes.block)), np.int64)
    end = np.zeros_like(begin)
    for dim, (start, digits) in enumerate(side.dims):
        weight = 1
        for digit in reversed(digits):
            begin[dim] += first[digit] * weight
            end[dim] += last[digit] * weight
            weight *= side.sizes[digit]
        begin[dim] += start
        end[dim] += start + 1
    return begin, end
