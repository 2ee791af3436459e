"""Which wanted blocks need no copy because their domain has them in memory already. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpushard.frozen import dataclass
from gpushard.movement.dim_map import Piece
from gpushard.movement.overlap import Overlap
from gpushard.typing import IntArray

ALIAS, VIEW, COPY, EMPTY = range(4)
"""What becomes of a wanted pair."""

ALIGNMENT = 16
"""Bytes that every shard is aligned to, views included, so that kernels may use full vectors."""


def copy_all(overlap: Overlap) -> tuple[IntArray, IntArray]:
    """Say that nothing is reused, in the form of `find_reuse`."""
    kind = np.where(overlap.volume > 0, COPY, EMPTY)
    return kind, np.zeros(len(kind), np.int64)


def find_reuse(
    overlap: Overlap, piece: Piece, itemsize: int, root_nbytes: int
) -> tuple[IntArray, IntArray]:
    """Decide for every wanted pair whether it is an alias, a view, a copy or empty.

    A pair that is one whole block of its domain is an alias. One that is a dense and aligned part
    of a block is a view, if aliases and views together keep at least half of the root allocation
    useful. Where held blocks overlap, that is the largest with the first element of the pair.

    Args:
      overlap: the wanted and held pairs.
      piece: where the elements of the destination come from.
      itemsize: bytes of an element.
      root_nbytes: bytes of the largest root allocation of the source, if larger than a shard.

    Returns:
      The kind of each pair, and for aliases and views the held pair that is reused.
    """
    kind, reused = copy_all(overlap)
    if not piece.in_order:
        return kind, reused
    places = _places_in_boxes(overlap) if overlap.free else _places_in_blocks(overlap)
    pairs, at, present = places.pair, places.held, places.present
    if not len(pairs):
        return kind, reused
    volume = overlap.volume[pairs]
    dense, offset, extent = _within_block(overlap, places)
    whole = present & dense & (extent == volume)
    view = present & dense & ~whole & (offset * itemsize % ALIGNMENT == 0)
    if view.any():
        useful = np.bincount(at, np.where(view | whole, volume, 0), len(overlap.held.key))
        view &= useful[at] * 2 >= np.maximum(extent, root_nbytes // itemsize)
    kind[pairs[whole]] = ALIAS if piece.same_dims else VIEW
    kind[pairs[view]] = VIEW
    reused[pairs] = np.where(whole | view, at, 0)
    return kind, reused


@dataclass(frozen=True, eq=False)
class _Places:
    """Where in held blocks wanted pairs may be found whole."""

    pair: IntArray
    """The wanted pairs in question, none of them empty."""

    held: IntArray
    """The held pair that each may lie in."""

    present: IntArray
    """Whether it does."""

    offset: Sequence[IntArray]
    """First element within the held block in each mapped dim."""

    length: Sequence[IntArray]
    """Elements in each mapped dim, likewise."""

    extent: Sequence[IntArray]
    """Length of the held block in each mapped dim, likewise."""


def _places_in_blocks(overlap: Overlap) -> _Places:
    """In a grid: pairs that read one block."""
    single = np.flatnonzero((overlap.cells == 1) & (overlap.volume > 0))
    if not len(single):
        return _Places(single, single, single, [], [], [])
    first = overlap.first[:, single]
    at, present = overlap.held.find(overlap.wanted.domain[single], overlap.source_block(first))
    rows = list(zip(overlap.runs, first, strict=True))
    return _Places(
        single,
        at,
        present,
        [runs.source_offset[run] for runs, run in rows],
        [runs.length[run] for runs, run in rows],
        [runs.source_extent[run] for runs, run in rows],
    )


def _places_in_boxes(overlap: Overlap) -> _Places:
    """Among any boxes: an equal one, or else that from which the first element would be copied."""
    pairs = np.flatnonzero(overlap.volume > 0)
    of, to = overlap.held.home, overlap.wanted.home[pairs]
    begin = np.zeros((len(overlap.runs), len(pairs)), np.int64)
    length = np.ones_like(begin)
    for dim, runs in enumerate(overlap.runs):
        begin[dim] = runs.map.start
        if runs.map.destination is not None:
            starts = overlap.destination.starts[runs.map.destination]
            stops = overlap.destination.stops[runs.map.destination]
            begin[dim] += runs.map.step * starts[to]
            length[dim] = (stops - starts)[to]
    first = overlap.first[:, pairs]
    at, present = overlap.held.find(overlap.wanted.domain[pairs], overlap.source_block(first))
    maps = [(dim, runs.map.source) for dim, runs in enumerate(overlap.runs)]
    dims = np.array([dim for dim, source in maps if source is not None], np.intp)
    sources = np.array([source for _, source in maps if source is not None], np.intp)
    held_begin = overlap.source.starts[sources][:, of]
    held_length = overlap.source.stops[sources][:, of] - held_begin
    equal = {
        key: pair for pair, key in enumerate(_keys(overlap.held.domain, held_begin, held_length))
    }
    wanted = _keys(overlap.wanted.domain[pairs], begin[dims], length[dims])
    same = np.array([equal.get(key, -1) for key in wanted], np.int64)
    at, present = np.where(same >= 0, same, at), present | (same >= 0)
    offset, extent = begin.copy(), np.ones_like(begin)
    offset[dims] -= held_begin[:, at]
    extent[dims] = held_length[:, at]
    inside = ((offset >= 0) & (offset + length <= extent))[dims].all(axis=0)
    return _Places(pairs, at, present & inside, list(offset), list(length), list(extent))


def _keys(domain: IntArray, begin: IntArray, length: IntArray) -> list[tuple[int, ...]]:
    return list(map(tuple, np.concatenate((domain[None], begin, length)).T.tolist()))


def _within_block(overlap: Overlap, places: _Places) -> tuple[IntArray, IntArray, IntArray]:
    """Return whether each pair is dense in its held block, its offset, and the block's size."""
    pairs = len(places.pair)
    offset, extent = np.zeros(pairs, np.int64), np.ones(pairs, np.int64)
    dense, full_after = np.ones(pairs, bool), np.ones(pairs, bool)
    for dim in range(len(overlap.runs) - 1, -1, -1):
        m = overlap.runs[dim].map
        if m.source is None:
            continue
        length, size = places.length[dim], places.extent[dim]
        single = length == 1
        dense &= single | full_after if m.step == 1 else single
        full_after &= length == size
        offset += places.offset[dim] * extent
        extent *= size
    return dense, offset, extent
