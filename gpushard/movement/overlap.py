"""How the wanted blocks of a destination overlap the held blocks of a source. Pure.

The overlaps ("cells") of a wanted block are the product of its runs in every dim; they are never
listed here.
"""

from __future__ import annotations

import numpy as np

from gpushard.frozen import dataclass
from gpushard.geometry.tiling import Tiling
from gpushard.movement.dim_map import Piece, Runs, cut_runs
from gpushard.movement.holdings import Holdings, holdings
from gpushard.typing import IntArray


@dataclass(frozen=True, eq=False)
class Overlap:
    """Wanted and held pairs of (domain, block), and the runs that connect them."""

    source: Tiling
    """Tiling of the source."""

    destination: Tiling
    """Tiling of the destination."""

    held: Holdings
    """Who holds which source block."""

    wanted: Holdings
    """Who wants which destination block."""

    free: bool
    """Whether the boxes of the source or of the destination form no grid."""

    runs: tuple[Runs, ...]
    """The dim maps of the piece, cut at all block edges."""

    counts: IntArray
    """Runs of each wanted pair in each mapped dim, shape (maps, pairs)."""

    first: IntArray
    """The first of them, likewise."""

    volume: IntArray
    """Elements of each wanted pair."""

    cells: IntArray
    """Source blocks that each wanted pair overlaps."""

    strides: tuple[int, ...]
    """What one block of each mapped dim adds to the row-major number of a source block."""

    def source_block(self, runs: IntArray) -> IntArray:
        """Return the row-major source cell of cells given by one run per mapped dim."""
        block = np.zeros(runs.shape[1], np.int64)
        for run, at, stride in zip(self.runs, runs, self.strides, strict=True):
            block += run.source_block[at] * stride
        return block

    def volume_between(self, pair: IntArray, other: IntArray) -> IntArray:
        """Return how many elements each wanted pair reads from each held pair."""
        volume = np.ones(len(pair), np.int64)
        for runs in self.runs:
            to, of = runs.map.destination, runs.map.source
            volume *= runs.overlap(
                0 if to is None else self.wanted.coordinates[to][pair],
                0 if of is None else self.held.coordinates[of][other],
            )
        return volume


def overlap(source: Tiling, destination: Tiling, piece: Piece) -> Overlap:
    """Cut a piece at the blocks of both tilings."""
    held, wanted = holdings(source.assignment), holdings(destination.assignment)
    runs = tuple(
        cut_runs(
            m,
            None if m.source is None else source.edges[m.source],
            None if m.destination is None else destination.edges[m.destination],
        )
        for m in piece.maps
    )
    counts = np.ones((len(runs), len(wanted.key)), np.int64)
    first = np.zeros_like(counts)
    for dim, run in enumerate(runs):
        if run.map.destination is None:
            counts[dim] = len(run.length)
        else:
            block = wanted.coordinates[run.map.destination]
            if wanted.spans is None:
                counts[dim] = run.counts[block]
                first[dim] = run.first[block]
            else:
                ends = np.append(run.first, len(run.length))
                first[dim] = ends[block]
                counts[dim] = ends[block + wanted.spans[run.map.destination]] - first[dim]
    return Overlap(
        source=source,
        destination=destination,
        held=held,
        wanted=wanted,
        free=held.spans is not None or wanted.spans is not None,
        runs=runs,
        counts=counts,
        first=first,
        volume=volumes(wanted, destination),
        cells=counts.prod(axis=0),
        strides=tuple(
            0 if m.source is None else source.assignment.strides[m.source] for m in piece.maps
        ),
    )


def volumes(pairs: Holdings, tiling: Tiling) -> IntArray:
    """Return the elements of the block of each pair."""
    if pairs.spans is not None:
        return tiling.volumes[pairs.home]
    volume = np.ones(len(pairs.key), np.int64)
    for dim, edges in enumerate(tiling.edges):
        volume *= (edges[1:] - edges[:-1])[pairs.coordinates[dim]]
    return volume
