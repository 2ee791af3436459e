"""Plan the replacement of a part of an array: the blocks that it touches, and their copies. Pure.

The new values go straight from where they lie to where they belong. If new blocks are written, a
domain copies each touched block whole and then writes the part over it: the complement of a part
with steps does not consist of boxes. If old blocks are written in place, it writes only the part.
Either way it receives exactly the new values that it does not hold.

An example: `x.at[2:6].set(v)`, `x` of 8 elements of 4 bytes, split over two devices, each a memory
domain. The new values `v` all lie on device 0.

1. The part touches both blocks. In that of device 0 it is elements 2 and 3, in that of device 1
   elements 0 and 1 (of the block).
2. Into new blocks, each device writes 6 elements: the 4 old ones, and 2 of the part. That is 24
   bytes each. In place, it writes 2 elements, 8 bytes.
3. Device 1 receives 2 elements of `v`, 8 bytes. Device 0 receives nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.free_boxes import tiling_from_indices
from gpushard._geometry.tiling import Tiling
from gpushard._movement.plan import Fill, Plan, Table
from gpushard._movement.planning.aliasing import ALIAS, COPY, EMPTY, Aliases
from gpushard._movement.planning.digit_boxes import strides_of
from gpushard._movement.planning.dim_maps import DimMap, Piece, identity
from gpushard._movement.planning.holdings import holdings, overlap, volumes
from gpushard._movement.planning.reshard import Reshard, place_copies
from gpushard._movement.planning.strided import StridedCopies
from gpushard._runtime.strided_view import View
from gpushard._typing import Device, Index, IntArray, Shape


@dataclass(frozen=True, eq=False)
class Tile:
    """A block that the part touches: one for all devices of a domain that hold the same box."""

    home: int  # position of the device that is charged for it; it replaces that device's old block
    sharers: tuple[int, ...]  # positions of all devices that hold it, the home among them
    shape: Shape
    nbytes: int
    domain: int  # the memory domain that it lies in
    kept: bool  # whether some of the old elements stay
    pair: int  # its number among the distinct (domain, block) pairs of the array
    index: tuple[Any, ...]  # index of the part in this block, without the part's new dims
    box: Index  # the elements of the part that lie in this block


@dataclass(frozen=True, eq=False)
class Touched:
    """The blocks that a part touches. Make one with `touch`."""

    piece: Piece  # where the part lies in the array
    # Each device that has elements of the part, and its box of the part.
    boxes: tuple[tuple[Device, Index], ...]
    blocks: tuple[Tile, ...]  # the touched blocks, in the order of the first device of each
    of_part: tuple[int, ...]  # for each block, the position of its first device within `part`
    written: int  # bytes of the part in all blocks

    @functools.cached_property
    def homes(self) -> tuple[int, ...]:
        """The positions of the devices that are charged for the blocks."""
        return tuple(block.home for block in self.blocks)

    @functools.cached_property
    def part(self) -> Tiling | None:
        """Tiling of the part on devices that have elements of it; None for an empty part."""
        return tiling_from_indices(self.piece.shape, dict(self.boxes)) if self.boxes else None

    @functools.cached_property
    def added(self) -> tuple[Any, ...]:
        """Index that adds the part's new dims to a view of a block."""
        dims = [m for m in self.piece.maps if m.destination is not None]
        entries = [None if m.source is None else slice(None) for m in dims]
        return (*entries, ...)  # without `...`, NumPy gives a scalar if there are no dims

    @functools.cached_property
    def by_domain(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """(domain, its blocks) for each domain, ascending."""
        numbers: dict[int, list[int]] = {}
        for number, block in enumerate(self.blocks):
            numbers.setdefault(block.domain, []).append(number)
        return tuple((domain, tuple(numbers[domain])) for domain in sorted(numbers))

    @property
    def nbytes(self) -> int:
        """Bytes of memory of this object, about."""
        return 1000 + 100 * len(self.boxes) + 800 * len(self.blocks)


def touch(base: Tiling, piece: Piece, itemsize: int) -> Touched:
    """Find the blocks that a part touches."""
    boxes = {} if 0 in piece.shape else _part_boxes(base, piece)
    if not boxes:
        return Touched(piece, (), (), (), 0)
    slices = {position: tuple(slice(*pair) for pair in box) for position, box in boxes.items()}
    held = holdings(base.assignment)
    sharers: dict[int, list[int]] = {}  # by pair, the touched ones
    for position in boxes:
        sharers.setdefault(int(held.of_device[position]), []).append(position)
    blocks, written = [], 0
    for pair, positions in sharers.items():
        home, box = int(held.home[pair]), boxes[positions[0]]
        elements, new = int(base.volumes[home]), math.prod(stop - start for start, stop in box)
        written += new * itemsize
        blocks.append(
            Tile(
                home=home,
                sharers=tuple(positions),
                shape=base.shard_shapes[home],
                nbytes=elements * itemsize,
                domain=int(held.domain[pair]),
                kept=elements > new,
                pair=pair,
                index=_index_in_block(base, positions[0], piece, box),
                box=slices[positions[0]],
            )
        )
    order = {position: i for i, position in enumerate(boxes)}
    return Touched(
        piece=piece,
        boxes=tuple((base.devices[position], box) for position, box in slices.items()),
        blocks=tuple(blocks),
        of_part=tuple(order[positions[0]] for positions in sharers.values()),
        written=written,
    )


def _part_boxes(base: Tiling, piece: Piece) -> dict[int, list[tuple[int, int]]]:
    """Find the box of the part in the block of each device, for devices that have some of it."""
    rows = zip(base.starts.T.tolist(), base.stops.T.tolist(), strict=True)
    boxes = ((position, _part_box(low, high, piece)) for position, (low, high) in enumerate(rows))
    return {position: box for position, box in boxes if box is not None}


def _part_box(low: list[int], high: list[int], piece: Piece) -> list[tuple[int, int]] | None:
    """Find the box of the part in a block; None if it has no elements there."""
    box = []
    for m in piece.maps:
        start, stop = 0, 1
        if m.source is not None:
            start, stop = _interval(m, low[m.source], high[m.source])
            if start >= stop:
                return None
        if m.destination is not None:
            box.append((start, stop))
    return box


def _interval(m: DimMap, low: int, high: int) -> tuple[int, int]:
    """Find the elements of a mapped dim that lie in the block [low, high) of its source.

    >>> _interval(DimMap(0, 0, 9, -3, 4), 2, 7)
    (1, 3)
    """
    if m.step > 0:
        start, stop = -((m.start - low) // m.step), -((m.start - high) // m.step)
    else:
        start, stop = (m.start - high) // -m.step + 1, (m.start - low) // -m.step + 1
    return max(start, 0), min(stop, m.length)


def _index_in_block(
    base: Tiling, position: int, piece: Piece, box: list[tuple[int, int]]
) -> tuple[Any, ...]:
    """Make the index of a box of the part within the block of a device."""
    index: dict[int, Any] = {}
    for m in piece.maps:
        if m.source is None:
            continue
        start, stop = (0, 1) if m.destination is None else box[m.destination]
        at = m.start + m.step * start - int(base.starts[m.source, position])
        if m.destination is None:
            index[m.source] = at
        else:
            end = at + m.step * (stop - start)
            index[m.source] = slice(at, end if end >= 0 else None, m.step)
    return (*(index[dim] for dim in range(len(index))), ...)


@dataclass(frozen=True, eq=False)
class _Regions:
    """The memory of the part in each of the touched blocks."""

    offset: IntArray  # the first element of the part in each block
    # Elements between neighbours in the block, in each dim of the part, shape (dims, blocks).
    strides: IntArray
    lengths: IntArray  # elements of each dim of the part, of that shape

    def take(self, at: IntArray) -> _Regions:
        """Take the regions of some blocks."""
        return _Regions(self.offset[at], self.strides[:, at], self.lengths[:, at])


def _regions(base: Tiling, touched: Touched) -> _Regions:
    homes = np.array([block.home for block in touched.blocks], np.int64)
    starts = base.starts[:, homes]
    steps = strides_of(base.stops[:, homes] - starts)
    boxes = np.array(
        [[(part.start, part.stop) for part in block.box] for block in touched.blocks], np.int64
    ).reshape(len(homes), len(touched.piece.shape), 2)
    strides = np.zeros((boxes.shape[1], len(homes)), np.int64)
    offset = np.zeros(len(homes), np.int64)
    for m in touched.piece.maps:
        if m.source is None:
            continue
        first = 0 if m.destination is None else boxes[:, m.destination, 0]
        offset += (m.start + m.step * first - starts[m.source]) * steps[m.source]
        if m.destination is not None:
            strides[m.destination] = m.step * steps[m.source]
    return _Regions(offset, strides, (boxes[:, :, 1] - boxes[:, :, 0]).T)


@dataclass(frozen=True, eq=False)
class UpdateCopies:
    """The copies of an update: old elements, the part, and repetitions within a domain."""

    base: Tiling  # tiling of the array
    touched: Touched  # the blocks that the part touches
    # Movement of the new values to the places of the part; None if the value is one element.
    part: Reshard | None
    value: Tiling | None  # tiling of the new values; None for a constant
    in_place: bool  # whether the old blocks are written

    @property
    def count(self) -> int:
        """Number of copies, about."""
        return 2 * len(self.touched.blocks) + (0 if self.part is None else self.part.count)

    def received(self) -> IntArray:
        """Count the elements that each wanted pair receives from other domains."""
        received = np.zeros(len(holdings(self.base.assignment).key), np.int64)
        if self.part is not None:
            of_block, first = self._part_pairs
            received[self._pairs[first]] = self.part.received()[of_block[first]]
        return received

    def tables(self) -> Sequence[Table]:
        """List (source, copies)."""
        return self._tables

    @functools.cached_property
    def _pairs(self) -> IntArray:
        """The wanted pair of each block."""
        return np.array([block.pair for block in self.touched.blocks], np.int64)

    @functools.cached_property
    def _part_pairs(self) -> tuple[IntArray, IntArray]:
        """The pair of the part in each block, and the first block of each pair."""
        assert self.part is not None
        of_block = self.part.overlap.wanted.of_device[list(self.touched.of_part)]
        return of_block, np.unique(of_block, return_index=True)[1]

    @functools.cached_property
    def _tables(self) -> Sequence[Table]:
        regions, none = _regions(self.base, self.touched), np.zeros(len(self._pairs), np.int64)
        tables: list[Table] = []
        if not self.in_place:
            stays = np.array([block.kept for block in self.touched.blocks], bool)
            elements = self.base.volumes[self._homes][None]
            old = _Regions(none, np.ones_like(elements), elements)
            tables.append((0, self._copy_locally(stays, old, old, self._homes, phase=0)))
        if self.value is None:
            return tables
        if self.part is None:
            having = holdings(self.value.assignment).device_domain.tolist()
            device = np.array([having.index(domain) for domain in self._domains], np.int64)
            element = _Regions(none, np.zeros_like(regions.strides), regions.lengths)
            tables.append((1, self._copy_locally(none == 0, regions, element, device, phase=1)))
            return tables
        of_block, first = self._part_pairs
        new = place_copies(self.part, regions.offset[first], regions.strides[:, first])
        of = self._pairs[first]
        pair, phase = np.where(new.read_pair < 0, -1, of[new.read_pair]), new.phase + 1
        new = dataclasses.replace(new, block=of[new.block], read_pair=pair, phase=phase)
        tables.append((1, new))
        source = first[of_block]  # several blocks of a domain may have equal boxes of the part
        again, read = source != np.arange(len(source)), regions.take(source)
        pair, wave = self._pairs[source], int(new.wave.max(initial=0))
        copies = self._copy_locally(again, regions, read, none - 1, pair, phase=3, wave=wave)
        tables.append((0, copies))
        return tables

    @functools.cached_property
    def _homes(self) -> IntArray:
        return np.array([block.home for block in self.touched.blocks], np.int64)

    @functools.cached_property
    def _domains(self) -> list[int]:
        return [block.domain for block in self.touched.blocks]

    def _copy_locally(
        self,
        which: IntArray,
        write: _Regions,
        read: _Regions,
        device: IntArray,
        read_pair: IntArray | None = None,
        *,
        phase: int,
        wave: int = 0,
    ) -> StridedCopies:
        """List copies within domains into some of the blocks.

        Device -1 stands for a block that was written before: that of the wanted pair `read_pair`.
        """
        at = np.flatnonzero(which)
        none = np.zeros(len(at), np.int64)
        return StridedCopies(
            block=self._pairs[at],
            device=device[at],
            read_pair=none - 1 if read_pair is None else read_pair[at],
            source_domain=np.array(self._domains, np.int64)[at],
            remote=np.zeros_like(none, bool),
            target_offset=write.offset[at],
            source_offset=read.offset[at],
            length=write.lengths[:, at],
            target_stride=write.strides[:, at],
            source_stride=read.strides[:, at],
            wave=none + wave,
            phase=none + phase,
            point=none[None, :][:0],
        )


def make_update(
    base: Tiling,
    value: Tiling | None,
    touched: Touched,
    itemsize: int,
    *,
    in_place: bool = False,
    relay_bytes: int | None = None,
) -> Plan:
    """Plan an update.

    Args:
      base: tiling of the array.
      value: tiling of the new values: of the part's shape, or of one element that each memory
        domain of the blocks holds; None for a constant.
      touched: the blocks that the part touches.
      itemsize: bytes of an element.
      in_place: whether the old blocks are written. Otherwise touched blocks are new and all others
        are shared with the old array.
      relay_bytes: as for `make_plan`.

    Returns:
      The plan; its result has the tiling `base`.
    """
    wanted = holdings(base.assignment)
    volume = volumes(wanted, base)
    written, new = np.zeros(len(volume), np.int64), np.zeros(len(volume), bool)
    for block in touched.blocks:
        new[block.pair] = True
        written[block.pair] = math.prod(part.stop - part.start for part in block.box)
        if block.kept and not in_place:
            written[block.pair] += volume[block.pair]
    kind = np.where(new, COPY, np.where(volume > 0, ALIAS, EMPTY))
    none = np.zeros(len(volume), np.int64)
    part, fills = None, []
    if value is None:
        fills = _list_fills(base, touched, itemsize)
    elif value.shape == touched.piece.shape and touched.part is not None:
        cut = overlap(value, touched.part, identity(value.shape))
        latency = None if relay_bytes is None else relay_bytes / itemsize
        part = Reshard(identity(value.shape), cut, np.flatnonzero(cut.volume), latency)
    return Plan(
        verb="update",
        sources=(base,) if value is None else (base, value),
        destination=base,
        itemsize=itemsize,
        kept=Aliases(kind, none, wanted.home, none),
        volume=volume,
        written_elements=written,
        how=UpdateCopies(base, touched, part, value, in_place),
        filled=fills,
        in_place=in_place,
    )


def _list_fills(base: Tiling, touched: Touched, itemsize: int) -> list[Fill]:
    """List (wanted pair, part of its block) for all blocks that a part touches."""
    regions = _regions(base, touched)
    rows = zip(
        touched.blocks,
        (regions.offset * itemsize).tolist(),
        regions.lengths.T.tolist(),
        (regions.strides * itemsize).T.tolist(),
        strict=True,
    )
    return [
        (block.pair, View(offset, tuple(shape), tuple(steps)))
        for block, offset, shape, steps in rows
    ]
