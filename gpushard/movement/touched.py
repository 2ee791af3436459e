"""Which blocks of an array a part of it touches, and where the part lies in each. Pure."""

from __future__ import annotations

import functools
import math

from gpushard.frozen import dataclass
from gpushard.geometry.free_boxes import tiling_from_indices
from gpushard.geometry.tiling import Tiling
from gpushard.movement.dim_map import DimMap, Piece
from gpushard.movement.holdings import holdings
from gpushard.movement.steps import source_index
from gpushard.runtime.phase import BoxIndex
from gpushard.typing import Device, Index, Shape

KEPT, EMPTY = -1, -2
"""What becomes of a device's block that is not written."""


@dataclass(frozen=True, eq=False)
class Block:
    """A block that the part touches: one for all devices of a domain that hold the same box."""

    home: int
    """Position of the device that pays for it, and whose old block it replaces."""

    sharers: tuple[int, ...]
    """Positions of all devices that hold it, the home among them."""

    shape: Shape
    """Its shape."""

    nbytes: int
    """Its bytes."""

    domain: int
    """The memory domain that it lies in."""

    kept: bool
    """Whether some of the old elements stay."""

    index: BoxIndex
    """Where the part lies in it, without the part's new dims."""

    box: Index
    """Which elements of the part these are."""


@dataclass(frozen=True, eq=False)
class Touched:
    """The blocks that a part touches. Make one with `touch`."""

    piece: Piece
    """Where the part lies in the array."""

    boxes: tuple[tuple[Device, Index], ...]
    """Which elements of the part lie on each device that has some; none if there are none."""

    blocks: tuple[Block, ...]
    """The blocks, in the order of the first device of each."""

    of_part: tuple[int, ...]
    """For each block, the position of its first device within `part`."""

    of_device: tuple[int, ...]
    """For each device its block, or KEPT where the part has nothing, or EMPTY."""

    written: int
    """Bytes of the part in all blocks."""

    @functools.cached_property
    def part(self) -> Tiling | None:
        """How the part lies on the devices that have some of it; None if it has no elements."""
        return tiling_from_indices(self.piece.shape, dict(self.boxes)) if self.boxes else None

    @functools.cached_property
    def added(self) -> BoxIndex:
        """Index that adds the new dims of the part to where it lies in a block."""
        dims = [m for m in self.piece.maps if m.destination is not None]
        entries = [None if m.source is None else slice(None) for m in dims]
        return (*entries, ...)  # else NumPy gives a scalar for no dims

    @functools.cached_property
    def by_domain(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """(domain, its blocks) for each domain, ascending."""
        found: dict[int, list[int]] = {}
        for number, block in enumerate(self.blocks):
            found.setdefault(block.domain, []).append(number)
        return tuple((domain, tuple(found[domain])) for domain in sorted(found))

    @property
    def nbytes(self) -> int:
        """Bytes that this takes, about."""
        return 1000 + 100 * len(self.of_device) + 800 * len(self.blocks)


def touch(base: Tiling, piece: Piece, itemsize: int) -> Touched:
    """Find the blocks that a part touches. Pure.

    Args:
      base: tiling of the array.
      piece: where the part lies in the array: as an index of the array gives it.
      itemsize: bytes of an element.
    """
    boxes = {} if 0 in piece.shape else _part_boxes(base, piece)
    if not boxes:
        return Touched(piece, (), (), (), (KEPT,) * len(base.devices), 0)
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
            Block(
                home=home,
                sharers=tuple(positions),
                shape=base.shard_shapes[home],
                nbytes=elements * itemsize,
                domain=int(held.domain[pair]),
                kept=elements > new,
                index=_region(base, positions[0], piece, box),
                box=slices[positions[0]],
            )
        )
    numbers = {pair: number for number, pair in enumerate(sharers)}
    order = {position: i for i, position in enumerate(boxes)}
    return Touched(
        piece=piece,
        boxes=tuple((base.devices[position], box) for position, box in slices.items()),
        blocks=tuple(blocks),
        of_part=tuple(order[positions[0]] for positions in sharers.values()),
        of_device=tuple(
            numbers.get(pair, KEPT if volume else EMPTY)
            for pair, volume in zip(held.of_device.tolist(), base.volumes.tolist(), strict=True)
        ),
        written=written,
    )


def _part_boxes(base: Tiling, piece: Piece) -> dict[int, list[tuple[int, int]]]:
    """Return the box of the part that falls into the block of each device that has some of it."""
    rows = zip(base.starts.T.tolist(), base.stops.T.tolist(), strict=True)
    found = ((position, _part_box(low, high, piece)) for position, (low, high) in enumerate(rows))
    return {position: box for position, box in found if box is not None}


def _part_box(low: list[int], high: list[int], piece: Piece) -> list[tuple[int, int]] | None:
    """Return the box of the part that falls into a block, or None."""
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
    """Return which elements of a mapped dim lie in the block [low, high) of its source.

    >>> _interval(DimMap(0, 0, 9, -3, 4), 2, 7)
    (1, 3)
    """
    if m.step > 0:
        start, stop = -((m.start - low) // m.step), -((m.start - high) // m.step)
    else:
        start, stop = (m.start - high) // -m.step + 1, (m.start - low) // -m.step + 1
    return max(start, 0), min(stop, m.length)


def _region(base: Tiling, position: int, piece: Piece, box: list[tuple[int, int]]) -> BoxIndex:
    """Return the index of a box of the part within the block of a device."""
    offsets, lengths = [], []
    for m in piece.maps:
        start, stop = (0, 1) if m.destination is None else box[m.destination]
        low = 0 if m.source is None else int(base.starts[m.source, position])
        offsets.append(m.start + m.step * start - low)
        lengths.append(stop - start)
    return source_index(piece, offsets, lengths)
