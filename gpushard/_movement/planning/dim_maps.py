"""Map destination dims to source dims, cut maps at block edges, and cut boxes into rows. Pure."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from gpushard._frozen import dataclass
from gpushard._typing import IntArray, Shape

_ONE_BLOCK = np.array([0, 1], np.int64)
_DENSE_TABLE = 1 << 18


@dataclass(frozen=True)
class DimMap:
    """Element t of a destination dim is element `start + step * t` of a source dim."""

    source: int | None  # source dim; None for a new dim of length 1
    destination: int | None  # destination dim; None for a dim that an integer index removes
    start: int  # source element of destination element 0
    step: int  # distance in the source between neighbours in the destination; not zero
    length: int  # length of the destination dim


@dataclass(frozen=True, eq=False)
class Piece:
    """Where all elements of a destination come from in one source: the product of one map per dim.

    Pieces compare by identity, which keeps plan look-ups short; equal pieces come from a cache.
    """

    # Every source dim and every destination dim occurs once, destination dims in order.
    maps: tuple[DimMap, ...]

    @functools.cached_property
    def shape(self) -> Shape:
        """Shape of the destination."""
        return tuple(m.length for m in self.maps if m.destination is not None)

    @functools.cached_property
    def order(self) -> tuple[int, ...]:
        """Source dims that the destination has, renumbered from 0, in the destination's order."""
        dims = [m.source for m in self.maps if m.source is not None and m.destination is not None]
        return tuple(sorted(dims).index(dim) for dim in dims)

    @property
    def in_order(self) -> bool:
        """Whether source dims have the same order in the destination."""
        return self.order == tuple(range(len(self.order)))


@functools.lru_cache(maxsize=4096)
def identity(shape: Shape) -> Piece:
    """Make the piece of a reshard: every element keeps its position.

    >>> identity((4,)).maps
    (DimMap(source=0, destination=0, start=0, step=1, length=4),)
    """
    return Piece(tuple(DimMap(dim, dim, 0, 1, size) for dim, size in enumerate(shape)))


@functools.lru_cache(maxsize=4096)
def permutation(shape: Shape, axes: tuple[int, ...]) -> Piece:
    """Make the piece of a transpose: destination dim i is source dim `axes[i]`.

    >>> permutation((4, 2), (1, 0)).shape
    (2, 4)
    """
    return Piece(tuple(DimMap(dim, i, 0, 1, shape[dim]) for i, dim in enumerate(axes)))


@functools.lru_cache(maxsize=4096)
def lift_piece(piece: Piece, front: Shape) -> Piece:
    """Add dims in front of a piece; they stay as they are.

    >>> lift_piece(permutation((4, 2), (1, 0)), (3,)).shape
    (3, 2, 4)
    """
    lead = len(front)

    def up(dim: int | None) -> int | None:
        return None if dim is None else lead + dim

    maps = (
        dataclasses.replace(m, source=up(m.source), destination=up(m.destination))
        for m in piece.maps
    )
    return Piece((*(DimMap(dim, dim, 0, 1, n) for dim, n in enumerate(front)), *maps))


@dataclass(frozen=True, eq=False)
class Runs:
    """A dim map, cut where a source block or a destination block ends; in destination order."""

    map: DimMap  # the map that was cut
    source_edges: IntArray  # edges of the source blocks
    destination_edges: IntArray  # edges of the destination blocks
    source_block: IntArray  # source block of each run
    destination_block: IntArray  # destination block of each run, ascending
    source_offset: IntArray  # first element of each run within its source block
    destination_offset: IntArray  # first element of each run within its destination block
    length: IntArray  # elements of each run
    counts: IntArray  # number of runs of each destination block
    first: IntArray  # first run of each destination block

    @functools.cached_property
    def source_extent(self) -> IntArray:
        """Length of the source block of each run."""
        edges = self.source_edges
        return np.asarray(edges[self.source_block + 1] - edges[self.source_block])

    def overlap(self, destination_block: IntArray | int, source_block: IntArray | int) -> IntArray:
        """Count the elements of each destination block that come from a source block."""
        sources = len(self.source_edges) - 1
        keys = self.destination_block * sources + self.source_block
        wanted = destination_block * sources + source_block
        size = (len(self.destination_edges) - 1) * sources
        if size <= _DENSE_TABLE:
            table = np.zeros(size, np.int64)
            table[keys] = self.length
            return table[wanted]
        order = np.argsort(keys)
        at = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
        run = order[at]
        return np.where(keys[run] == wanted, self.length[run], 0)


def cut_runs(
    dim_map: DimMap, source_edges: IntArray | None, destination_edges: IntArray | None
) -> Runs:
    """Cut a dim map at all block edges.

    Returns:
      Runs that each lie in one source block and one destination block.

    >>> runs = cut_runs(DimMap(0, 0, 4, -1, 5), np.array([0, 3, 5]), np.array([0, 4, 5]))
    >>> list(zip(runs.source_block.tolist(), runs.source_offset.tolist(), runs.length.tolist()))
    [(1, 1, 2), (0, 2, 2), (0, 0, 1)]
    """
    sources = _ONE_BLOCK if source_edges is None else source_edges
    destinations = _ONE_BLOCK if destination_edges is None else destination_edges
    start, step = dim_map.start, dim_map.step
    crossings = -((start - sources) // step) if step > 0 else (start - sources) // -step + 1
    cuts = np.concatenate((np.minimum(np.maximum(crossings, 0), dim_map.length), destinations))
    cuts.sort()
    lengths = cuts[1:] - cuts[:-1]
    nonempty = lengths > 0
    at, length = cuts[:-1][nonempty], lengths[nonempty]
    source_at = start + step * at
    destination_block = destinations.searchsorted(at, side="right") - 1
    source_block = sources.searchsorted(source_at, side="right") - 1
    counts = np.bincount(destination_block, minlength=len(destinations) - 1)
    return Runs(
        map=dim_map,
        source_edges=sources,
        destination_edges=destinations,
        source_block=source_block,
        destination_block=destination_block,
        source_offset=source_at - sources[source_block],
        destination_offset=at - destinations[destination_block],
        length=length,
        counts=counts,
        first=np.cumsum(counts) - counts,
    )


def cut_dim(length: IntArray, enough: int) -> IntArray:
    """Choose the dim along which to cut each box: the first that is long enough, else the longest.

    Args:
      length: length of each box in each dim, shape (dims, boxes); at least one dim.
      enough: a length that is long enough.

    >>> cut_dim(np.array([[2, 2], [5, 40], [99, 99]]), 16).tolist()
    [2, 1]
    """
    long = length >= enough
    return np.asarray(np.where(long.any(axis=0), long.argmax(axis=0), length.argmax(axis=0)))


def cut_rows(
    steps: IntArray, boxes: IntArray, dim: IntArray, low: IntArray, high: IntArray
) -> None:
    """Keep only some rows of boxes, in place.

    Args:
      steps: step of each mapped dim.
      boxes: source offset, destination offset and length of each box in each mapped dim.
      dim: the dim along which each box is cut.
      low: the first row to keep of each box.
      high: the row after the last one to keep.
    """
    column = np.arange(boxes.shape[2])
    boxes[0, dim, column] += steps[dim] * low
    boxes[1, dim, column] += low
    boxes[2, dim, column] = high - low
