"""Find the wanted blocks that need no copy because their domain has them in memory already. Pure.

A wanted block that is a whole held block of its domain becomes an alias of that. A dense and
aligned part of a held block becomes a view, if aliases and views together use at least half of the
root allocation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.distinct_columns import distinct_columns
from gpushard._geometry.tiling import Tiling
from gpushard._movement.planning.dim_maps import Piece
from gpushard._movement.planning.holdings import Overlap
from gpushard._movement.planning.strided import StridedCopies
from gpushard._typing import IntArray

ALIAS, VIEW, COPY, EMPTY = range(4)
"""What the plan does about a wanted pair (of domain and block)."""

ALIGNMENT = 16
"""Alignment of every shard in bytes, views included, so that kernels may use full vectors."""


@dataclass(frozen=True, eq=False)
class Aliases:
    """Which wanted pairs are written, and where aliases and views lie."""

    kind: IntArray  # ALIAS, VIEW, COPY or EMPTY for each wanted pair
    source: IntArray  # the source that has the alias or view; 0 for other pairs
    device: IntArray  # the position of the source's device with that shard; 0 for other pairs
    offset: IntArray  # the first element within that shard; 0 for other pairs
    by_roots: bool = False  # whether the choice depends on the sizes of the root allocations


def copy_all(volume: IntArray) -> Aliases:
    """Write all pairs that have elements, and share no memory."""
    none = np.zeros(len(volume), np.int64)
    return Aliases(np.where(volume > 0, COPY, EMPTY), none, none, none)


def find_reuse(overlap: Overlap, piece: Piece, itemsize: int, root_nbytes: int) -> Aliases:
    """Find the wanted pairs of a movement that are blocks of its source, or parts of them.

    If held blocks overlap, a pair is looked for in the largest block that has its first element.
    """
    aliases = copy_all(overlap.volume)
    if not piece.in_order:
        return aliases
    places = _places_in_boxes(overlap) if overlap.free else _places_in_blocks(overlap)
    pairs, at, present = places.pair, places.held, places.present
    if not len(pairs):
        return aliases
    volume = overlap.volume[pairs]
    dense, offset, extent = _within_block(overlap, places)
    whole = present & dense & (extent == volume)
    view = present & dense & ~whole & (offset * itemsize % ALIGNMENT == 0)
    by_roots = bool(view.any())
    if by_roots:
        useful = np.bincount(at, np.where(view | whole, volume, 0), len(overlap.held.key))
        view &= useful[at] * 2 >= np.maximum(extent, root_nbytes // itemsize)
    device, first = np.zeros_like(aliases.kind), np.zeros_like(aliases.kind)
    aliases.kind[pairs[whole]] = ALIAS
    aliases.kind[pairs[view]] = VIEW
    device[pairs] = np.where(whole | view, overlap.held.home[at], 0)
    first[pairs] = np.where(view, offset, 0)
    return Aliases(aliases.kind, aliases.source, device, first, by_roots)


def find_aliases(
    sources: Sequence[Tiling],
    tables: Sequence[tuple[int, StridedCopies]],
    volume: IntArray,
    itemsize: int,
    root_nbytes: Sequence[int],
) -> Aliases:
    """Find the wanted pairs of a rearrangement that are blocks of a source, or parts of them.

    All copies of such a pair read one shard, with the distances between elements of the new block.
    `tables` are the (source, copies) that would write all pairs.
    """
    source, device, offset, in_one_piece = _candidates(tables, volume)
    at = np.flatnonzero(in_one_piece)
    shard, root = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
    for number, tiling in enumerate(sources):
        mine = source[at] == number
        shard[mine] = tiling.volumes[device[at[mine]]]
        root[mine] = np.maximum(shard[mine], root_nbytes[number] // itemsize)
    whole = volume[at] == shard
    view = ~whole & (offset[at] * itemsize % ALIGNMENT == 0)
    by_roots = bool(view.any())
    if by_roots:
        view &= 2 * _useful(source[at], device[at], offset[at], (view | whole) * volume[at]) >= root
    aliases = copy_all(volume)
    aliases.kind[at[whole]] = ALIAS
    aliases.kind[at[view]] = VIEW
    held = (aliases.kind == ALIAS) | (aliases.kind == VIEW)
    source, device, offset = (np.where(held, values, 0) for values in (source, device, offset))
    return Aliases(aliases.kind, source, device, offset, by_roots)


def _candidates(
    tables: Sequence[tuple[int, StridedCopies]], volume: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Find pairs that lie in one piece in a shard: source, device, offset, and a mask of them."""
    block = np.concatenate([copies.block for _, copies in tables] or [volume[:0]])
    places = [
        np.stack(
            (
                np.full(len(copies.block), number),
                copies.device,
                copies.source_offset - copies.target_offset,
            )
        )
        for number, copies in tables
    ]
    place = np.concatenate(places or [np.zeros((3, 0), np.int64)], axis=1)
    low = np.full((3, len(volume)), np.iinfo(np.int64).max)
    high = np.full((3, len(volume)), -1)
    covered, in_order = np.zeros(len(volume), np.int64), np.ones(len(volume), bool)
    for row, (least, most) in enumerate(zip(low, high, strict=True)):
        np.minimum.at(least, block, place[row])
        np.maximum.at(most, block, place[row])
    for _, copies in tables:
        np.add.at(covered, copies.block, copies.volume)
        alike = (copies.length == 1) | (copies.target_stride == copies.source_stride)
        same = alike.all(axis=0) & (copies.device >= 0) & ~copies.remote
        in_order[copies.block[~same]] = False
    # An empty pair has no copies: its bounds stay as far apart as they begin.
    in_one_piece = in_order & (covered == volume) & (low == high).all(axis=0)
    source, device, offset = high
    return source, device, offset, in_one_piece


def _useful(source: IntArray, device: IntArray, offset: IntArray, volume: IntArray) -> IntArray:
    """Count for each pair the elements of its shard that aliases and views use."""
    rows = np.stack((source, device, offset, volume))
    first, _ = distinct_columns(rows)  # several pairs may be the same part: count it once
    _, shard = distinct_columns(rows[:2])
    return np.bincount(shard[first], volume[first])[shard].astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Places:
    """Held blocks in which wanted pairs may lie whole."""

    pair: IntArray  # the candidates among the wanted pairs, none of them empty
    held: IntArray  # the held pair that each may lie in
    present: IntArray  # whether the domain holds that block, and it contains the candidate
    offset: Sequence[IntArray]  # first element within the held block, for each mapped dim
    length: Sequence[IntArray]  # elements of the candidate, for each mapped dim
    extent: Sequence[IntArray]  # length of the held block, for each mapped dim


def _places_in_blocks(overlap: Overlap) -> _Places:
    """Locate candidates in a grid: pairs that read a single block."""
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
    """Locate candidates among any boxes: in an equal box, else in that of their first element."""
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
    """Compute whether each pair is dense in its held block, its offset, and the block's size."""
    pairs = len(places.pair)
    offset, extent = np.zeros(pairs, np.int64), np.ones(pairs, np.int64)
    dense, full_after = np.ones(pairs, bool), np.ones(pairs, bool)
    for dim in range(len(overlap.runs) - 1, -1, -1):
        length, size = places.length[dim], places.extent[dim]
        single = length == 1
        dense &= single | full_after if overlap.runs[dim].map.step == 1 else single
        full_after &= length == size
        offset += places.offset[dim] * extent
        extent *= size
    return dense, offset, extent
