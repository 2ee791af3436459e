"""Find the blocks that each memory domain holds and wants, and how they overlap. Pure.

The overlaps of a wanted block with held blocks ("cells") are the product of its runs in each dim.
They are never listed here.
"""

from __future__ import annotations

import functools
import math
import weakref

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.distinct_columns import distinct_columns
from gpushard._geometry.tiling import Assignment, Tiling
from gpushard._movement.planning.dim_maps import Piece, Runs, cut_runs
from gpushard._typing import IntArray, Shape


@dataclass(frozen=True, eq=False)
class Holdings:
    """The distinct (memory domain, block) pairs of an assignment, sorted.

    Devices of a domain that hold the same block share one copy of it. Its home is the device that
    is charged for its memory. In a grid each block is one cell. For boxes that form no grid there
    is `FreeHoldings`.
    """

    blocks: int  # number of blocks
    key: IntArray  # domain * blocks + block of each pair, ascending
    domain: IntArray  # domain of each pair
    block: IntArray  # block number of each pair; row-major in a grid
    # Position of the device that is charged for each pair: holder number (block mod holders).
    home: IntArray
    of_device: IntArray  # the pair of each device
    device_domain: IntArray  # the domain of each device
    coordinates: IntArray  # first cell of each pair in each dim, shape (ndim, pairs)
    # Number of cells of each pair in each dim, of that shape; None for a grid, where it is one.
    spans: IntArray | None

    def find(self, domain: IntArray, cell: IntArray) -> tuple[IntArray, IntArray]:
        """Look up pairs by a row-major cell.

        Returns:
          The number of each pair, and whether the domain holds the cell at all.
        """
        wanted = domain * self.blocks + cell
        at = np.minimum(self.key.searchsorted(wanted), len(self.key) - 1)
        return at, np.asarray(self.key[at] == wanted)

    @functools.cached_property
    def by_block(self) -> tuple[IntArray, IntArray, IntArray]:
        """Pairs sorted by block, the first of each block, and the number of its holders."""
        order = np.argsort(self.block, kind="stable")
        counts = np.bincount(self.block, minlength=self.blocks)
        return order, np.cumsum(counts) - counts, counts

    def holders(self, cell: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Group cells that have the same holders.

        Returns:
          The group of each cell; the pairs of all groups in one row; the first pair of each group,
          and its number of pairs.
        """
        return cell, *self.by_block

    def in_domains(self, domains: IntArray) -> tuple[IntArray, IntArray]:
        """Return the first pair of each domain, and its number of pairs."""
        start = self.domain.searchsorted(domains, side="left")
        return start, self.domain.searchsorted(domains, side="right") - start


@dataclass(frozen=True, eq=False)
class FreeHoldings(Holdings):
    """Holdings of boxes that form no grid: look-ups by cell go through a table of all cells."""

    counts: Shape  # number of cells of each dim

    def find(self, domain: IntArray, cell: IntArray) -> tuple[IntArray, IntArray]:
        """Look up pairs by a row-major cell; of several pairs take that with the largest box."""
        keys, pairs = self._table
        wanted = domain * math.prod(self.counts) + cell
        at = np.minimum(keys.searchsorted(wanted), len(keys) - 1)
        return pairs[at], np.asarray(keys[at] == wanted)

    def holders(self, cell: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Group cells that have the same holders; results are as in `Holdings.holders`."""
        group, pairs, first, counts = self._groups
        return group[cell], pairs, first, counts

    @functools.cached_property
    def _table(self) -> tuple[IntArray, IntArray]:
        """Each (domain, cell) that is held, ascending, and its pair: that with the largest box."""
        assert self.spans is not None
        total = self.spans.prod(axis=0)
        pair = np.repeat(np.arange(len(total)), total)
        position = cells_of(self.coordinates, self.spans, total)
        cells = math.prod(self.counts)
        keys = self.domain[pair] * cells + np.ravel_multi_index(tuple(position), self.counts)
        keys, at = np.unique(keys, return_index=True)
        return keys, pair[at]

    @functools.cached_property
    def _groups(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        keys, pairs = self._table
        cells = math.prod(self.counts)
        cell = keys % cells
        order = np.argsort(cell, kind="stable")
        domains = np.bincount(cell, minlength=cells)
        holder = np.full((cells, domains.max()), -1, np.int64)  # as wide as the most that hold one
        holder[cell[order], within(domains)] = pairs[order]
        first, group = distinct_columns(holder.T)
        groups = holder[first]
        counts = (groups >= 0).sum(axis=1)
        return group, groups[groups >= 0], np.cumsum(counts) - counts, counts


def cells_of(first: IntArray, counts: IntArray, total: IntArray) -> IntArray:
    """List the cells of boxes, row-major: the members of products of ranges.

    Args:
      first: first cell of each box in each dim, shape (dims, boxes).
      counts: number of cells of each box in each dim, of that shape.
      total: number of cells of each box: the product of its counts.

    Returns:
      The position of each cell, shape (dims, cells).

    >>> cells_of(np.array([[4, 0]]), np.array([[2, 1]]), np.array([2, 1]))
    array([[4, 5, 0]])
    """
    number = within(total)
    position = np.empty((len(counts), len(number)), np.int64)
    for dim in range(len(counts) - 1, -1, -1):
        radix = counts[dim].repeat(total)
        rest = number // radix
        position[dim] = first[dim].repeat(total) + number - rest * radix
        number = rest
    return position


def within(counts: IntArray) -> IntArray:
    """Number the members of consecutive groups from 0.

    >>> within(np.array([2, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)


_holdings: weakref.WeakKeyDictionary[Assignment, Holdings] = weakref.WeakKeyDictionary()


def holdings(assignment: Assignment) -> Holdings:
    """List the distinct (domain, block) pairs of an assignment; cached as long as it lives.

    The domain of a device is its `memory_domain`. A device without that is a domain by itself.
    """
    pairs = _holdings.get(assignment)
    if pairs is None:
        pairs = _holdings[assignment] = _make_holdings(assignment)
    return pairs


def held_elements(tiling: Tiling) -> int:
    """Count the elements that all domains hold; devices that share a domain share blocks."""
    return int(tiling.volumes[holdings(tiling.assignment).home].sum())


def _make_holdings(assignment: Assignment) -> Holdings:
    devices = assignment.devices
    domain = np.array(
        [getattr(device, "memory_domain", i) for i, device in enumerate(devices)], np.int64
    )
    blocks = assignment.boxes
    keys = domain * blocks + assignment.flat
    order = np.argsort(keys, kind="stable")
    in_order = keys[order]
    first = np.concatenate(([True], in_order[1:] != in_order[:-1]))
    starts = np.flatnonzero(first)
    of_device = np.empty(len(devices), np.int64)
    of_device[order] = np.cumsum(first) - 1
    members = np.diff(starts, append=len(devices))
    block = in_order[starts] % blocks
    home = order[starts + block % members]
    key = in_order[starts]
    pairs = (blocks, key, key // blocks, block, home, of_device, domain)
    if assignment.spans is not None:
        cells, spans = assignment.blocks[:, home], assignment.spans[:, home]
        return FreeHoldings(*pairs, cells, spans, assignment.counts)
    strides = np.array(assignment.strides, np.int64)[:, None]
    counts = np.array(assignment.counts, np.int64)[:, None]
    return Holdings(*pairs, block // strides % counts, None)


@dataclass(frozen=True, eq=False)
class Overlap:
    """Wanted and held pairs of (domain, block), and the runs that connect them."""

    source: Tiling  # tiling of the source
    destination: Tiling  # tiling of the destination
    held: Holdings  # domains and the source blocks that they hold
    wanted: Holdings  # domains and the destination blocks that they want
    free: bool  # whether the boxes of the source or of the destination form no grid
    runs: tuple[Runs, ...]  # the dim maps of the piece, cut at all block edges
    counts: IntArray  # runs of each wanted pair in each mapped dim, shape (maps, pairs)
    first: IntArray  # the first of these runs, of that shape
    volume: IntArray  # elements of each wanted pair
    cells: IntArray  # source blocks that each wanted pair overlaps
    # What one block of each mapped dim adds to the row-major number of a source block.
    strides: tuple[int, ...]

    @functools.cached_property
    def map_steps(self) -> IntArray:
        """Step of each mapped dim."""
        return np.array([runs.map.step for runs in self.runs], np.int64)

    def source_block(self, runs: IntArray) -> IntArray:
        """Compute the row-major source cell of cells that are given by one run per mapped dim."""
        block = np.zeros(runs.shape[1], np.int64)
        for run, at, stride in zip(self.runs, runs, self.strides, strict=True):
            block += run.source_block[at] * stride
        return block

    def volume_between(self, pair: IntArray, other: IntArray) -> IntArray:
        """Count the elements that wanted pairs read from held pairs."""
        volume = np.ones(len(pair), np.int64)
        for runs in self.runs:
            to, of = runs.map.destination, runs.map.source
            volume *= runs.overlap(
                0 if to is None else self.wanted.coordinates[to][pair],
                0 if of is None else self.held.coordinates[of][other],
            )
        return volume


def overlap(source: Tiling, destination: Tiling, piece: Piece) -> Overlap:
    """Cut a piece at the block edges of both tilings."""
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
    """Count the elements of the block of each pair."""
    if pairs.spans is not None:
        return tiling.volumes[pairs.home]
    volume = np.ones(len(pairs.key), np.int64)
    for dim, edges in enumerate(tiling.edges):
        volume *= (edges[1:] - edges[:-1])[pairs.coordinates[dim]]
    return volume
