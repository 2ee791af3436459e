"""Cut blocks into boxes of a space: coordinates are mixed-radix numbers, its axes digits. Pure.

A block is a product of intervals, one for each dim. An interval of mixed-radix numbers is a few
boxes of digits, so a block is a few boxes of the space.

An example: a vector of 12 elements is to be reshaped to (3, 4). Its coordinate is 4 * a + b, with
digits a below 3 and b below 4. A device has the block [2, 11) of the vector, which is three boxes:

    head     a = 0, b = 2 to 3       2 elements from offset 0 of the block
    middle   a = 1, b = 0 to 3       4 elements from offset 2
    tail     a = 2, b = 0 to 2       3 elements from offset 6

If the middle has several whole turns of b, it is still one box. In the memory of the block, a step
in b is 1 element and a step in a is 4 elements.
"""

from __future__ import annotations

import math

import numpy as np

from gpushard._frozen import dataclass
from gpushard._movement.planning.holdings import cells_of
from gpushard._movement.planning.rearrangements import Side
from gpushard._typing import IntArray, Shape


@dataclass(frozen=True, eq=False)
class DigitBoxes:
    """Boxes of digits, sorted by interval."""

    owner: IntArray  # the interval of each box
    begin: IntArray  # first value of each digit, shape (digits, boxes)
    end: IntArray  # the value after the last one of each digit, of that shape


def cut_intervals(low: IntArray, high: IntArray, sizes: Shape) -> DigitBoxes:
    """Cut intervals into boxes: each is a head, a middle of whole turns, and a tail.

    Args:
      low: the first number of each interval.
      high: the number after the last one; not above `low` if the interval is empty.
      sizes: number of values of each digit, the most significant digit first.

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
    return _sort_boxes(
        np.concatenate((owner[middle], owner[ends[rest.owner]])),
        _concat_bounds(whole[middle], np.zeros_like(turns), value, rest.begin),
        _concat_bounds(last[middle], turns, value + 1, rest.end),
    )


def _concat_bounds(first: IntArray, rest: IntArray, value: IntArray, within: IntArray) -> IntArray:
    """Concatenate bounds of middles and ends; rows: the first digit, then the other digits."""
    middles, ends = np.concatenate((first[None], rest)), np.concatenate((value[None], within))
    return np.concatenate((middles, ends), axis=1)


def _sort_boxes(owner: IntArray, begin: IntArray, end: IntArray) -> DigitBoxes:
    order = np.argsort(owner, kind="stable")
    return DigitBoxes(owner[order], begin[:, order], end[:, order])


@dataclass(frozen=True, eq=False)
class SpaceBoxes:
    """Boxes of a space, sorted by block; offsets and strides are counted in elements."""

    block: IntArray  # the block of each box
    begin: IntArray  # its first point in each axis, shape (axes, boxes)
    length: IntArray  # number of points in each axis, shape (axes, boxes)
    offset: IntArray  # offset of its first element in the block
    stride: IntArray  # distance of neighbours in the block, in each axis, shape (axes, boxes)


def strides_of(lengths: IntArray) -> IntArray:
    """Compute the strides of dense blocks in elements, shape (dims, blocks).

    >>> strides_of(np.array([[2], [3], [4]])).ravel().tolist()
    [12, 4, 1]
    """
    strides = np.ones_like(lengths)
    for dim in range(len(lengths) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * lengths[dim + 1]
    return strides


def cut_blocks(side: Side, starts: IntArray, stops: IntArray) -> SpaceBoxes:
    """Cut blocks into boxes of a space; starts and stops are of shape (dims, blocks).

    >>> side = Side((2, 3), ((0, (0, 1)),), ((0,), (1,)))
    >>> boxes = cut_blocks(side, np.array([[0, 4]]), np.array([[4, 6]]))
    >>> boxes.block.tolist(), boxes.offset.tolist(), boxes.stride.T.tolist()
    ([0, 0, 1], [0, 3, 0], [[3, 1], [3, 1], [3, 1]])
    """
    strides = strides_of(stops - starts)
    block, begin, end = _cut_into_digits(side, starts, stops)
    nonempty = (end > begin).all(axis=0)
    block, begin, end = block[nonempty], begin[:, nonempty], end[:, nonempty]
    stride = np.zeros_like(begin)
    offset = np.zeros(len(block), np.int64)
    for dim, (first, digits) in enumerate(side.dims):
        step = strides[dim][block]
        offset += (first - starts[dim][block]) * step
        for digit in reversed(digits):
            stride[digit] += step
            offset += begin[digit] * step
            step = step * side.sizes[digit]
    return _join_digits(side, SpaceBoxes(block, begin, end - begin, offset, stride))


def _cut_into_digits(
    side: Side, starts: IntArray, stops: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Cut blocks into boxes of digits, products over the dims: block, begin and end of each box."""
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
        for number, digit in enumerate(digits):  # two dims may share a digit: intersect its bounds
            begin[digit] = np.maximum(begin[digit], boxes.begin[number, at])
            end[digit] = np.minimum(end[digit], boxes.end[number, at])
    return block, begin, end


def _join_digits(side: Side, boxes: SpaceBoxes) -> SpaceBoxes:
    """Join the digits of each axis, so that boxes have bounds in axes."""
    axes: list[IntArray] = []
    for digits in side.axes:
        if len(digits) == 1:
            digit = digits[0]
            rows = np.stack((boxes.begin[digit], boxes.length[digit], boxes.stride[digit]))
        else:
            parent, boxes, rows = _cut_into_runs(side, digits, boxes)
            axes = [axis[:, parent] for axis in axes]
        axes.append(rows)
    none = np.zeros((3, 0, len(boxes.block)), np.int64)
    begin, length, stride = np.stack(axes, axis=1) if axes else none
    return SpaceBoxes(boxes.block, begin, length, boxes.offset, stride)


def _cut_into_runs(
    side: Side, digits: tuple[int, ...], boxes: SpaceBoxes
) -> tuple[IntArray, SpaceBoxes, IntArray]:
    """Cut boxes of the digits of one axis into runs of consecutive points.

    Returns:
      The box that each run comes from; the boxes of digits, one for each run; and begin, length and
      stride of the runs in the axis.
    """
    counts, length = _count_runs(side, digits, boxes)
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


def _count_runs(
    side: Side, digits: tuple[int, ...], boxes: SpaceBoxes
) -> tuple[IntArray, IntArray]:
    """Count the values of each digit that start a run, and the length of each box's runs."""
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
