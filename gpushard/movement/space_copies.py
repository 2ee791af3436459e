"""Copies between blocks that meet in a space: held ones of a source, wanted ones of a result. Pure.

The space has one point for every element of the source that is read. What a domain holds and what
its new blocks want are boxes of it, so that a movement to boxes that form no grid says who copies
what from whom, and what several boxes of a domain want is received once. A wanted box stands for a
*region* of a new block, and for as many elements of it as there are repetitions of each point.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from gpushard.geometry.free_boxes import tiling_of_boxes
from gpushard.geometry.tiling import Tiling
from gpushard.movement.copies import Copies, expand
from gpushard.movement.dim_map import identity
from gpushard.movement.holdings import Holdings, holdings, within
from gpushard.movement.overlap import overlap
from gpushard.movement.rearrangement import Part, Side
from gpushard.movement.space_boxes import SpaceBoxes, cut_blocks, strides_of
from gpushard.typing import IntArray, Shape


@dataclasses.dataclass(frozen=True, eq=False)
class SpaceCopies:
    """Strided copies into new blocks; places are counted in elements."""

    block: IntArray
    """The wanted pair whose new block is written."""

    device: IntArray
    """The source's device whose shard is read; -1 where a new block is."""

    made: IntArray
    """The wanted pair of the same domain whose new block is read, after what is copied from shards
    was written; -1 where a shard is."""

    source_domain: IntArray
    """Domain that is read."""

    remote: IntArray
    """Whether that is another one than the block's."""

    target_offset: IntArray
    """First element within the new block."""

    source_offset: IntArray
    """First element within what is read."""

    length: IntArray
    """Elements in each axis, shape (axes, copies)."""

    target_stride: IntArray
    """Elements between neighbours in the new block, likewise."""

    source_stride: IntArray
    """And in what is read; 0 in axes of repetitions."""

    @property
    def volume(self) -> IntArray:
        """Elements of each copy."""
        return np.asarray(self.length.prod(axis=0))

    def take(self, at: IntArray) -> SpaceCopies:
        """Return some of the copies."""
        return SpaceCopies(
            **{field.name: getattr(self, field.name)[..., at] for field in dataclasses.fields(self)}
        )


@dataclasses.dataclass(frozen=True)
class _Holder:
    """Stands for whoever has a box in a memory domain."""

    memory_domain: int


def copy_space(
    source: Tiling, parts: Sequence[Part], destination: Tiling, pairs: IntArray
) -> SpaceCopies:
    """Plan the copies of all parts that read one source through the same space.

    Args:
      source: tiling of the source.
      parts: what becomes of it.
      destination: tiling of the result.
      pairs: the wanted pairs of the result that have elements.
    """
    read, wanted = parts[0].read, holdings(destination.assignment)
    regions = _regions(parts, destination, wanted, pairs)
    held_in, held = _held(source, read)
    wanted_in = _tiling(read.space, wanted.domain[regions.block], regions)
    cut = overlap(held_in, wanted_in, identity(read.space))
    copies = expand(cut, np.flatnonzero(cut.volume > 0))
    boxes = cut.held.home[copies.held]
    return _rows(copies, held, boxes, regions, cut.wanted.of_device)


def _regions(
    parts: Sequence[Part], destination: Tiling, wanted: Holdings, pairs: IntArray
) -> SpaceBoxes:
    """Return the regions of wanted pairs as boxes of the space; repetitions are the last axes."""
    homes = wanted.home[pairs]
    starts, stops = destination.starts[:, homes], destination.stops[:, homes]
    axes = max(len(part.write.axes) for part in parts)
    found = []
    for part in parts:
        boxes = cut_blocks(part.write, starts, stops)
        boxes.begin[: len(part.begin)] += np.array(part.begin, np.int64)[:, None]
        more = np.ones((axes - len(boxes.begin), len(boxes.block)), np.int64)
        found.append(
            (
                pairs[boxes.block],
                np.concatenate((boxes.begin, more)),
                np.concatenate((boxes.length, more)),
                boxes.offset,
                np.concatenate((boxes.stride, more)),
            )
        )
    return SpaceBoxes(*(np.concatenate(rows, axis=-1) for rows in zip(*found, strict=True)))


def _held(source: Tiling, read: Side) -> tuple[Tiling, SpaceBoxes]:
    """Return the tiling of the space, and for each of its devices the box of a shard.

    The block of a box is the device that has the shard.
    """
    if read.is_plain:
        lengths = source.stops - source.starts
        devices = np.arange(lengths.shape[1])
        start = np.zeros_like(devices)
        return source, SpaceBoxes(devices, source.starts, lengths, start, strides_of(lengths))
    held = holdings(source.assignment)
    homes = held.home
    boxes = cut_blocks(read, source.starts[:, homes], source.stops[:, homes])
    tiling = _tiling(read.space, held.domain[boxes.block], boxes)
    return tiling, dataclasses.replace(boxes, block=homes[boxes.block])


def _tiling(space: Shape, domain: IntArray, boxes: SpaceBoxes) -> Tiling:
    ndim = len(space)
    holders = {number: _Holder(number) for number in np.unique(domain).tolist()}
    devices = tuple(holders[number] for number in domain.tolist())
    begin = boxes.begin[:ndim]
    return tiling_of_boxes(space, devices, begin, begin + boxes.length[:ndim])


def _rows(
    copies: Copies, held: SpaceBoxes, boxes: IntArray, regions: SpaceBoxes, pair_of: IntArray
) -> SpaceCopies:
    """Turn box copies into strided ones, for every region that a box stands for.

    Args:
      copies: between boxes of the space.
      held: the boxes of shards.
      boxes: which of them each copy reads.
      regions: the wanted boxes.
      pair_of: which of the distinct ones among these each is.
    """
    order = np.argsort(pair_of, kind="stable")
    counts = np.bincount(pair_of)
    first = np.cumsum(counts) - counts
    times = counts[copies.pair]
    copy = np.arange(len(copies)).repeat(times)
    number = within(times)
    region = order[first[copies.pair[copy]] + number]
    made = np.full(len(copies), -1) if copies.made is None else copies.made
    received = (made < 0) & (copies.source_domain != copies.domain)
    again = (made >= 0)[copy] | (received[copy] & (number > 0))
    begun = np.where(made < 0, copies.pair, made)[copy]  # the pair whose first region is read
    of = order[first[begun]]
    ndim = len(copies.length)
    length = regions.length[:, region]
    length[:ndim] = copies.length[:, copy]
    length[ndim:, received[copy] & ~again] = 1
    offset = copies.destination_offset[:, copy]
    of_offset = np.where(made[copy] < 0, offset, copies.source_offset[:, copy])
    source_stride = np.zeros_like(length)
    source_stride[:ndim] = np.where(again, regions.stride[:ndim, of], held.stride[:, boxes[copy]])
    shard_offset = held.offset[boxes] + (held.stride[:, boxes] * copies.source_offset).sum(axis=0)
    block_offset = regions.offset[of] + (regions.stride[:ndim, of] * of_offset).sum(axis=0)
    rows = SpaceCopies(
        block=regions.block[region],
        device=np.where(again, -1, held.block[boxes[copy]]),
        made=np.where(again, regions.block[of], -1),
        source_domain=np.where(again, copies.domain[copy], copies.source_domain[copy]),
        remote=received[copy] & ~again,
        target_offset=regions.offset[region] + (regions.stride[:ndim, region] * offset).sum(axis=0),
        source_offset=np.where(again, block_offset, shard_offset[copy]),
        length=length,
        target_stride=regions.stride[:, region],
        source_stride=source_stride,
    )
    return _spread(rows, regions.length[ndim:, region], copies.domain[copy])


def _spread(rows: SpaceCopies, repeats: IntArray, domain: IntArray) -> SpaceCopies:
    """Add copies that repeat what was received, of which the first repetition has come.

    Args:
      rows: the copies.
      repeats: how often what each of them writes is repeated, for each axis of repetitions.
      domain: the domain that each is in.
    """
    tables = [rows]
    ndim = len(rows.length) - len(repeats)
    for axis in range(len(repeats)):
        at = np.flatnonzero(rows.remote & (repeats[axis] > 1))
        some = rows.take(at)
        length = some.length.copy()
        length[ndim + axis] = repeats[axis, at] - 1
        length[ndim + axis + 1 :] = repeats[axis + 1 :, at]
        of_stride = some.target_stride.copy()
        of_stride[ndim:] = 0
        tables.append(
            SpaceCopies(
                block=some.block,
                device=np.full_like(some.device, -1),
                made=some.block,
                source_domain=domain[at],
                remote=np.zeros_like(some.remote),
                target_offset=some.target_offset + some.target_stride[ndim + axis],
                source_offset=some.target_offset,
                length=length,
                target_stride=some.target_stride,
                source_stride=of_stride,
            )
        )
    return SpaceCopies(
        **{
            field.name: np.concatenate([getattr(table, field.name) for table in tables], axis=-1)
            for field in dataclasses.fields(rows)
        }
    )
