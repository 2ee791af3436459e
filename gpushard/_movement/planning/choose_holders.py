"""Choose the holders that copies of a block read from: each sends an equal share of it. Pure."""

from __future__ import annotations

import numpy as np

from gpushard._movement.planning.dim_maps import cut_dim, cut_rows
from gpushard._movement.planning.holdings import Overlap, within
from gpushard._typing import IntArray

_ROWS_WORTH_CUTTING = 16


def share_among_holders(
    overlap: Overlap, remote: IntArray, block: IntArray, boxes: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Choose holders for the copies `remote`; cut copies that reach into the shares of several.

    Returns:
      The copy that each part belongs to, the held pair that it reads, and its box.
    """
    block, order, first, holders = overlap.held.holders(block)
    if (holders[block[remote]] == 1).all():
        return remote, order[first[block[remote]]], boxes[:, :, remote]
    copy = remote[np.argsort(block[remote], kind="stable")]
    volume = boxes[2][:, copy].prod(axis=0)
    start, total = _lines(block[copy], volume)
    shares = holders[block[copy]]
    low = start * shares // total
    parts = (start + volume - 1) * shares // total - low + 1
    part_copy = np.repeat(copy, parts)
    holder = np.repeat(low, parts) + within(parts)
    box = boxes[:, :, part_copy]
    if not overlap.runs:  # a scalar, which nothing can cut
        return part_copy, order[first[block[part_copy]] + holder], box
    dim = cut_dim(box[2], _ROWS_WORTH_CUTTING)
    rows = box[2, dim, np.arange(len(part_copy))]
    start, total = np.repeat(start, parts), np.repeat(total, parts)
    row_volume = np.repeat(volume, parts) // rows
    share = np.repeat(shares, parts)
    low_row = _row(holder, share, total, start, row_volume, rows)
    high_row = _row(holder + 1, share, total, start, row_volume, rows)
    cut_rows(overlap.map_steps, box, dim, low_row, high_row)
    nonempty = high_row > low_row
    part_copy, holder = part_copy[nonempty], holder[nonempty]
    return part_copy, order[first[block[part_copy]] + holder], box[:, :, nonempty]


def _lines(block: IntArray, volume: IntArray) -> tuple[IntArray, IntArray]:
    """Put the demands on each block in a line: where each starts, and the length of its line."""
    ends = np.cumsum(volume)
    starts = ends - volume
    new = np.flatnonzero(np.concatenate(([True], block[1:] != block[:-1])))
    sizes = np.diff(new, append=len(block))
    begin = np.repeat(starts[new], sizes)
    end = np.repeat(ends[np.append(new[1:], len(block)) - 1], sizes)
    return starts - begin, end - begin


def _row(
    holder: IntArray,
    shares: IntArray,
    total: IntArray,
    start: IntArray,
    row_volume: IntArray,
    rows: IntArray,
) -> IntArray:
    """Return the row of a box nearest to where the share of `holder` begins."""
    position = -(-holder * total // shares) - start
    return np.asarray(np.clip((2 * position + row_volume) // (2 * row_volume), 0, rows))
