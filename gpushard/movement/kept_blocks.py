"""Which new blocks need no copy, as they lie in one block of a source already. Pure.

The rules are those of `gpushard.movement.reuse`; here they are applied to strided copies: a new
block may be reused if all of its copies read one shard, and every element lies as far from the
first one there as it would in the new block.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpushard.frozen import dataclass
from gpushard.geometry.columns import distinct_columns
from gpushard.geometry.tiling import Tiling
from gpushard.movement.reuse import ALIGNMENT
from gpushard.movement.strided_copies import StridedCopies
from gpushard.typing import IntArray


@dataclass(frozen=True, eq=False)
class Kept:
    """For every wanted pair where it lies, if it is not written."""

    source: IntArray
    """The source; -1 if the pair is written or empty."""

    device: IntArray
    """The position of the device whose shard has it."""

    offset: IntArray
    """Its first element within that shard."""

    by_roots: bool
    """Whether that depends on how much memory the shards keep alive."""


def find_kept(
    sources: Sequence[Tiling],
    tables: Sequence[tuple[int, StridedCopies]],
    volume: IntArray,
    itemsize: int,
    root_nbytes: Sequence[int],
) -> Kept:
    """Find the wanted pairs that are blocks of a source, or dense and aligned parts of them.

    Args:
      sources: their tilings.
      tables: (source, copies) that would write all pairs.
      volume: elements of each wanted pair.
      itemsize: bytes of an element.
      root_nbytes: bytes of the largest root allocation of each source, if larger than a shard.
    """
    source, device, offset, found = _candidates(tables, volume)
    at = np.flatnonzero(found)
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
    written = at[~(whole | view)]
    found[written] = False
    source, device, offset = (np.where(found, values, -1) for values in (source, device, offset))
    return Kept(source, device, offset, by_roots)


def _candidates(
    tables: Sequence[tuple[int, StridedCopies]], volume: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return source, device and offset of pairs in one piece there, and which these are."""
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
    found = in_order & (covered == volume) & (volume > 0) & (low == high).all(axis=0)
    source, device, offset = high
    return source, device, offset, found


def _useful(source: IntArray, device: IntArray, offset: IntArray, volume: IntArray) -> IntArray:
    """Return for each pair how many elements of its shard stay useful."""
    rows = np.stack((source, device, offset, volume))
    first, _ = distinct_columns(rows)  # several may be the same part
    _, shard = distinct_columns(rows[:2])
    return np.bincount(shard[first], volume[first])[shard].astype(np.int64)
