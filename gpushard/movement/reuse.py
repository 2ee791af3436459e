"""Which wanted blocks need no copy because their domain has them in memory already. Pure."""

from __future__ import annotations

import numpy as np

from gpushard.movement.dim_map import Piece
from gpushard.movement.overlap import Overlap
from gpushard.typing import IntArray

ALIAS, VIEW, COPY, EMPTY = range(4)
"""What becomes of a wanted pair."""

ALIGNMENT = 16
"""Bytes that every shard is aligned to, views included, so that kernels may use full vectors."""


def find_reuse(
    overlap: Overlap, piece: Piece, itemsize: int, root_nbytes: int
) -> tuple[IntArray, IntArray]:
    """Decide for every wanted pair whether it is an alias, a view, a copy or empty.

    A pair that is one whole block of its domain is an alias. One that is a dense and aligned part
    of a block is a view, if aliases and views together keep at least half of the root allocation
    useful.

    Args:
      overlap: the wanted and held pairs.
      piece: where the elements of the destination come from.
      itemsize: bytes of an element.
      root_nbytes: bytes of the largest root allocation of the source, if larger than a shard.

    Returns:
      The kind of each pair, and for aliases and views the held pair that is reused.
    """
    kind = np.where(overlap.volume > 0, COPY, EMPTY)
    reused = np.zeros(len(kind), np.int64)
    single = np.flatnonzero((overlap.cells == 1) & (overlap.volume > 0))
    if not len(single) or not piece.in_order:
        return kind, reused
    first, volume = overlap.first[:, single], overlap.volume[single]
    dense, offset, extent = _within_block(overlap, first)
    at, present = overlap.held.find(overlap.wanted.domain[single], overlap.source_block(first))
    whole = present & dense & (extent == volume)
    view = present & dense & ~whole & (offset * itemsize % ALIGNMENT == 0)
    useful = np.bincount(at, np.where(view | whole, volume, 0), len(overlap.held.key))
    view &= useful[at] * 2 >= np.maximum(extent, root_nbytes // itemsize)
    kind[single[whole]] = ALIAS if piece.same_dims else VIEW
    kind[single[view]] = VIEW
    reused[single] = np.where(whole | view, at, 0)
    return kind, reused


def _within_block(overlap: Overlap, runs: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return for each cell whether it is dense in its block, its offset, and the block's size."""
    cells = runs.shape[1]
    offset, extent = np.zeros(cells, np.int64), np.ones(cells, np.int64)
    dense, full_after = np.ones(cells, bool), np.ones(cells, bool)
    for dim in range(len(overlap.runs) - 1, -1, -1):
        run, at = overlap.runs[dim], runs[dim]
        if run.map.source is None:
            continue
        length, size = run.length[at], run.source_extent[at]
        dense &= run.whole_step[at] & (full_after | (length == 1))
        full_after &= length == size
        offset += run.source_offset[at] * extent
        extent *= size
    return dense, offset, extent
