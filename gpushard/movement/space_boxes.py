"""Blocks of an array as boxes of a space, and where in the block's memory these lie. Pure."""

from __future__ import annotations

import math

import numpy as np

from gpushard.frozen import dataclass
from gpushard.movement.digits import cut_intervals
from gpushard.movement.holdings import cells_of
from gpushard.movement.rearrangement import Side
from gpushard.typing import IntArray


@dataclass(frozen=True, eq=False)
class SpaceBoxes:
    """Boxes of a space, sorted by block; all places are counted in elements."""

    block: IntArray
    """The block that each box is of."""

    begin: IntArray
    """Its first point in each axis, shape (axes, boxes)."""

    length: IntArray
    """How many points it has, likewise."""

    offset: IntArray
    """Where its first element lies in the block."""

    stride: IntArray
    """How far apart neighbours lie in the block in each axis, shape (axes, boxes)."""


def strides_of(lengths: IntArray) -> IntArray:
    """Return the elements per step of each dim of dense blocks, of shape (dims, blocks).

    >>> strides_of(np.array([[2], [3], [4]])).ravel().tolist()
    [12, 4, 1]
    """
    strides = np.ones_like(lengths)
    for dim in range(len(lengths) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * lengths[dim + 1]
    return strides


def cut_blocks(side: Side, starts: IntArray, stops: IntArray) -> SpaceBoxes:
    """Cut blocks into boxes of a space.

    Args:
      side: the coordinates of the array.
      starts: where each block starts, shape (dims, blocks).
      stops: where it stops, likewise.

    >>> side = Side((2, 3), ((0, (0, 1)),), ((0,), (1,)))
    >>> boxes = cut_blocks(side, np.array([[0, 4]]), np.array([[4, 6]]))
    >>> boxes.block.tolist(), boxes.offset.tolist(), boxes.stride.T.tolist()
    ([0, 0, 1], [0, 3, 0], [[3, 1], [3, 1], [3, 1]])
    """
    strides = strides_of(stops - starts)
    block, begin, end = _in_digits(side, starts, stops)
    kept = (end > begin).all(axis=0)
    block, begin, end = block[kept], begin[:, kept], end[:, kept]
    stride = np.zeros_like(begin)
    offset = np.zeros(len(block), np.int64)
    for dim, (first, digits) in enumerate(side.dims):
        step = strides[dim][block]
        offset += (first - starts[dim][block]) * step
        for digit in reversed(digits):
            stride[digit] += step
            offset += begin[digit] * step
            step = step * side.sizes[digit]
    return _in_axes(side, SpaceBoxes(block, begin, end - begin, offset, stride))


def _in_digits(
    side: Side, starts: IntArray, stops: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the block, begin and end of boxes of digits: products over the dims."""
    blocks = starts.shape[1]
    counts = np.ones((len(side.dims), blocks), np.int64)
    dims = []
    for dim, (first, digits) in enumerate(side.dims):
        sizes = tuple(side.sizes[digit] for digit in digits)
        low = np.maximum(starts[dim] - first, 0)
        boxes = cut_intervals(low, np.minimum(stops[dim] - first, math.prod(sizes)), sizes)
        counts[dim] = np.bincount(boxes.owner, minlength=blocks)
        dims.append(boxes)
    total = counts.prod(axis=0)
    block = np.arange(blocks).repeat(total)
    chosen = cells_of(np.cumsum(counts, axis=1) - counts, counts, total)
    begin = np.zeros((len(side.sizes), len(block)), np.int64)
    end = np.array(side.sizes, np.int64)[:, None].repeat(len(block), axis=1)
    for (_, digits), boxes, at in zip(side.dims, dims, chosen, strict=True):
        for number, digit in enumerate(digits):  # one that two dims share lies in both
            begin[digit] = np.maximum(begin[digit], boxes.begin[number, at])
            end[digit] = np.minimum(end[digit], boxes.end[number, at])
    return block, begin, end


def _in_axes(side: Side, boxes: SpaceBoxes) -> SpaceBoxes:
    """Put digits together to axes."""
    axes: list[IntArray] = []
    for digits in side.axes:
        if len(digits) == 1:
            digit = digits[0]
            rows = np.stack((boxes.begin[digit], boxes.length[digit], boxes.stride[digit]))
        else:
            parent, boxes, rows = _in_runs(side, digits, boxes)
            axes = [axis[:, parent] for axis in axes]
        axes.append(rows)
    none = np.zeros((3, 0, len(boxes.block)), np.int64)
    begin, length, stride = np.stack(axes, axis=1) if axes else none
    return SpaceBoxes(boxes.block, begin, length, boxes.offset, stride)


def _in_runs(
    side: Side, digits: tuple[int, ...], boxes: SpaceBoxes
) -> tuple[IntArray, SpaceBoxes, IntArray]:
    """Cut boxes of the digits of one axis into runs of consecutive points.

    Returns:
      For each run the box that it is of; the boxes of digits again, one for each run; and begin,
      length and stride of the runs in the axis.
    """
    counts, length = _runs_of(side, digits, boxes)
    total = counts.prod(axis=0)
    parent = np.arange(len(boxes.block)).repeat(total)
    values = cells_of(boxes.begin[list(digits)], counts, total)
    offset, begin = boxes.offset[parent], np.zeros(len(parent), np.int64)
    weight = 1
    for digit, value in zip(reversed(digits), values[::-1], strict=True):
        offset += (value - boxes.begin[digit, parent]) * boxes.stride[digit, parent]
        begin += value * weight
        weight *= side.sizes[digit]
    runs = SpaceBoxes(
        boxes.block[parent],
        boxes.begin[:, parent],
        boxes.length[:, parent],
        offset,
        boxes.stride[:, parent],
    )
    return parent, runs, np.stack((begin, length[parent], boxes.stride[digits[-1], parent]))


def _runs_of(side: Side, digits: tuple[int, ...], boxes: SpaceBoxes) -> tuple[IntArray, IntArray]:
    """Return how many values of each digit start a run, and the length of each box's runs."""
    counts = boxes.length[list(digits)]
    length, stride = boxes.length[digits[-1]], boxes.stride[digits[-1]]
    whole = length == side.sizes[digits[-1]]
    counts[-1] = 1
    for row in range(len(digits) - 2, -1, -1):
        digit = digits[row]
        joined = whole & ((boxes.stride[digit] == stride * length) | (boxes.length[digit] == 1))
        length = np.where(joined, length * boxes.length[digit], length)
        counts[row] = np.where(joined, 1, counts[row])
        whole = joined & (boxes.length[digit] == side.sizes[digit])
    return counts, length
