"""Copies between boxes that form no grid. Pure.

Such boxes are cut into cells at the edges of all boxes. Cells are found and shared out like the
blocks of a grid; here they get their places within boxes, and are put together again.
"""

from __future__ import annotations

import numpy as np

from gpushard.geometry.columns import distinct_columns
from gpushard.movement.overlap import Overlap
from gpushard.typing import IntArray


def to_positions(overlap: Overlap, run: IntArray, boxes: IntArray) -> None:
    """Change offsets within cells to positions in the arrays, in place.

    Args:
      overlap: what is moved.
      run: the run of each cell in each mapped dim, shape (maps, cells).
      boxes: source offset, destination offset and length, shape (3, maps, cells).
    """
    for dim, runs in enumerate(overlap.runs):
        boxes[0, dim] += runs.source_edges[runs.source_block[run[dim]]]
        boxes[1, dim] += runs.destination_edges[runs.destination_block[run[dim]]]


def received_before(overlap: Overlap, pair: IntArray, run: IntArray, local: IntArray) -> IntArray:
    """Find what a domain would receive twice, for boxes that overlap.

    Args:
      overlap: what is moved.
      pair: the wanted pair of each cell, ascending.
      run: the run of each cell in each mapped dim.
      local: whether the domain holds the cell.

    Returns:
      For each cell the first wanted pair of the domain that receives it; -1 if that is its own.
    """
    made = np.full(len(pair), -1, np.int64)
    remote = np.flatnonzero(~local)
    if overlap.wanted.spans is None or not len(remote):
        return made
    counts = tuple(len(runs.length) for runs in overlap.runs)
    cell = np.ravel_multi_index(tuple(run[:, remote]), counts)
    keys = np.stack((overlap.wanted.domain[pair[remote]], cell))
    first, inverse = distinct_columns(keys)
    receiver = first[inverse]
    again = receiver != np.arange(len(remote))
    made[remote[again]] = pair[remote[receiver[again]]]
    return made


def merged(
    overlap: Overlap, pair: IntArray, held: IntArray, made: IntArray, boxes: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Put cells together that lie side by side and come from the same place.

    Args:
      overlap: what is moved.
      pair: the wanted pair that each cell is written to.
      held: the held pair that it is read from, unless
      made: is the wanted pair that it is read from.
      boxes: source position, destination position and length, shape (3, maps, cells).

    Returns:
      The same of the copies, sorted by pair; offsets are within the blocks.
    """
    held = np.where(made < 0, held, 0)
    rows = np.concatenate((np.stack((pair, held, made)), *boxes))
    maps = len(overlap.runs)
    for dim in range(maps - 1, -1, -1):
        rows = _joined(rows, 3 + maps + dim, 3 + 2 * maps + dim)
    pair, held, made = rows[:3]
    boxes = rows[3:].reshape(3, maps, -1).copy()
    _to_offsets(overlap, pair, held, made, boxes)
    return pair, held, made, boxes


def _joined(rows: IntArray, start: int, length: int) -> IntArray:
    """Join columns that continue one another along a dim and agree in all else.

    Args:
      rows: facts about each box; one column for each.
      start: the row of its position in the dim. The row of its source position in the same dim
        follows from the others, and is that of the first of the columns that are joined.
      length: the row of its length in the dim.
    """
    maps = (len(rows) - 3) // 3
    source = start - maps
    others = [row for at, row in enumerate(rows) if at not in (start, length, source)]
    order = np.lexsort((rows[start], *reversed(others)))
    rows = rows[:, order]
    alike = np.ones(max(rows.shape[1] - 1, 0), bool)
    for at, row in enumerate(rows):
        if at not in (start, length, source):
            alike &= row[1:] == row[:-1]
    alike &= rows[start, 1:] == (rows[start] + rows[length])[:-1]
    first = np.flatnonzero(np.concatenate(([True], ~alike)))[: rows.shape[1]]
    result = rows[:, first]
    if len(first):
        result[length] = np.add.reduceat(rows[length], first)
    return result


def _to_offsets(
    overlap: Overlap, pair: IntArray, held: IntArray, made: IntArray, boxes: IntArray
) -> None:
    """Change positions in the arrays to offsets within blocks, in place."""
    of, to = overlap.held.home[held], overlap.wanted.home
    again = made >= 0
    for dim, runs in enumerate(overlap.runs):
        if runs.map.destination is not None:
            starts = overlap.destination.starts[runs.map.destination]
            offset = boxes[1, dim] - starts[to[made]]
            boxes[1, dim] -= starts[to[pair]]
        else:
            offset = boxes[1, dim]
        if runs.map.source is not None:
            boxes[0, dim] -= overlap.source.starts[runs.map.source][of]
        boxes[0, dim] = np.where(again, offset, boxes[0, dim])
