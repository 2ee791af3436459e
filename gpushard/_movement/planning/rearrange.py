"""Plan arrays put together from several sources, or with dims cut into factors. Pure.

Plans meet the bounds of `gpushard._movement.plan`: a domain writes its distinct new blocks once. It
receives every element that it lacks once, however often its blocks repeat it.

A space has one point for every element of a source that is read. Held blocks and new blocks are
boxes of it. So a movement to boxes that form no grid gives the copies, and a domain receives the
points that several of its boxes want once. A wanted box stands for a *region* of a new block. The
region has as many elements for each point as there are repetitions.

An example: `roll(x, 1)` of 8 elements of 4 bytes, split over two devices, each a memory domain.
Device 0 holds points 0 to 3 and device 1 points 4 to 7. Two boxes of the result come from `x`:
elements 1 to 7 are points 0 to 6, and element 0 is point 7.

    new block of device 0: elements 0 to 3    points 0 to 2, its own; point 7, of device 1
    new block of device 1: elements 4 to 7    points 3, of device 0; points 4 to 6, its own

So there are four copies. Each device writes 16 bytes and receives 4.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.free_boxes import tiling_of_boxes
from gpushard._geometry.tiling import Tiling
from gpushard._movement.plan import Fill, Plan, Table
from gpushard._movement.planning.aliasing import COPY, find_aliases
from gpushard._movement.planning.copies import Copies, expand
from gpushard._movement.planning.digit_boxes import SpaceBoxes, cut_blocks, strides_of
from gpushard._movement.planning.dim_maps import identity
from gpushard._movement.planning.holdings import Holdings, holdings, overlap, volumes, within
from gpushard._movement.planning.rearrangements import Bounds, MappedBox, Rearrangement, Side
from gpushard._movement.planning.strided import StridedCopies, concat_copies, join_copies
from gpushard._runtime.strided_view import View
from gpushard._typing import IntArray, Shape


@dataclass(frozen=True, eq=False)
class RearrangeCopies:
    """The copies of a rearrangement, all listed."""

    copies: tuple[Table, ...]  # (source, copies)
    pairs: int  # number of wanted pairs

    @property
    def count(self) -> int:
        """Number of copies."""
        return sum(len(copies.block) for _, copies in self.copies)

    def tables(self) -> Sequence[Table]:
        """List (source, copies)."""
        return self.copies

    def received(self) -> IntArray:
        """Count the elements that each wanted pair receives from other domains."""
        received = np.zeros(self.pairs, np.int64)
        for _, copies in self.copies:
            np.add.at(received, copies.block, copies.volume * copies.remote)
        return received


def make_rearrange(
    how: Rearrangement,
    sources: Sequence[Tiling],
    numbers: Sequence[int],
    destination: Tiling,
    itemsize: int,
    root_nbytes: Sequence[int],
    relay_bytes: int | None = None,
) -> Plan:
    """Plan a rearrangement; source n of `how` is number `numbers[n]` of the distinct `sources`.

    Boxes that several domains want may be relayed; `relay_bytes` is as for `make_plan`.

    >>> from gpushard._geometry.mesh import Mesh
    >>> from gpushard._geometry.partition_spec import P
    >>> from gpushard._geometry.named_sharding import NamedSharding
    >>> from gpushard._movement.planning.rearrangements import roll
    >>> tiling = NamedSharding(Mesh(["a", "b"], "x"), P("x")).tiling((8,))
    >>> plan = make_rearrange(roll((8,), (1,), (0,)), [tiling], [0], tiling, 4, [0])
    >>> plan.written, plan.received
    ({0: 16, 1: 16}, {0: 4, 1: 4})
    """
    wanted = holdings(destination.assignment)
    volume = volumes(wanted, destination)
    latency = None if relay_bytes is None else relay_bytes / itemsize
    tables = _list_tables(how.parts, sources, numbers, destination, np.flatnonzero(volume), latency)
    aliases = find_aliases(sources, tables, volume, itemsize, root_nbytes)
    new = aliases.kind == COPY
    tables = [(number, copies.take(np.flatnonzero(new[copies.block]))) for number, copies in tables]
    return Plan(
        verb="rearrange",
        sources=tuple(sources),
        destination=destination,
        itemsize=itemsize,
        kept=aliases,
        volume=volume,
        written_elements=volume * new,
        how=RearrangeCopies(tuple(tables), len(volume)),
        filled=_list_fills(how.filled, destination, wanted.home, np.flatnonzero(new), itemsize),
    )


def _list_tables(
    parts: Sequence[MappedBox],
    sources: Sequence[Tiling],
    numbers: Sequence[int],
    destination: Tiling,
    pairs: IntArray,
    latency: float | None,
) -> list[Table]:
    """List (source, copies) for each space in which sources are read."""
    spaces: dict[tuple[int, Side], list[MappedBox]] = {}
    for part in parts:
        spaces.setdefault((numbers[part.source], part.read), []).append(part)
    return [
        (number, _copy_space(sources[number], group, destination, pairs, latency))
        for (number, _), group in spaces.items()
    ]


def _list_fills(
    filled: Sequence[Bounds], destination: Tiling, homes: IntArray, blocks: IntArray, itemsize: int
) -> list[Fill]:
    """List (wanted pair, part of its block) for the parts that get a constant."""
    starts, stops = destination.starts[:, homes[blocks]], destination.stops[:, homes[blocks]]
    strides = strides_of(stops - starts)
    fills = []
    for bounds in filled:
        low, high = np.array(bounds, np.int64).T[:, :, None]
        begin, end = np.maximum(starts, low), np.minimum(stops, high)
        offsets = ((begin - starts) * strides).sum(axis=0)
        for at in np.flatnonzero((end > begin).all(axis=0)).tolist():
            steps = tuple((strides[:, at] * itemsize).tolist())
            shape = tuple((end - begin)[:, at].tolist())
            fills.append((int(blocks[at]), View(int(offsets[at]) * itemsize, shape, steps)))
    return fills


@dataclass(frozen=True)
class _Holder:
    """Stands for any device that has a box in a memory domain."""

    memory_domain: int


def _copy_space(
    source: Tiling,
    parts: Sequence[MappedBox],
    destination: Tiling,
    pairs: IntArray,
    latency: float | None,
) -> StridedCopies:
    """Plan the copies of all parts that read a source in one space."""
    read, wanted = parts[0].read, holdings(destination.assignment)
    regions = _regions(parts, destination, wanted, pairs)
    held_in, held = _cut_held(source, read)
    wanted_in = _tiling(read.space, wanted.domain[regions.block], regions)
    cut = overlap(held_in, wanted_in, identity(read.space))
    copies = expand(cut, np.flatnonzero(cut.volume > 0), latency)
    writes = _list_writes(copies, cut.wanted.of_device)
    rows = _make_strided(copies, held, regions, cut.held.home[copies.held], writes)
    ndim, repeats = len(read.space), regions.length[len(read.space) :, writes.region]
    more = range(ndim, len(rows.length))
    domain = copies.domain[writes.copy]
    repetitions = [_repeat_received(rows, axis, ndim, repeats, domain) for axis in more]
    rows = concat_copies([rows, *repetitions])
    for axis, digits in enumerate(read.axes):
        if len(digits) > 1:
            rows = join_copies(rows, axis)
    return rows


def _regions(
    parts: Sequence[MappedBox], destination: Tiling, wanted: Holdings, pairs: IntArray
) -> SpaceBoxes:
    """Cut wanted pairs into regions, boxes of the space; repetitions are the last axes."""
    homes = wanted.home[pairs]
    starts, stops = destination.starts[:, homes], destination.stops[:, homes]
    axes = max(len(part.write.axes) for part in parts)
    rows_of_parts = []
    for part in parts:
        boxes = cut_blocks(part.write, starts, stops)
        boxes.begin[: len(part.begin)] += np.array(part.begin, np.int64)[:, None]
        more = np.ones((axes - len(boxes.begin), len(boxes.block)), np.int64)
        rows_of_parts.append(
            (
                pairs[boxes.block],
                np.concatenate((boxes.begin, more)),
                np.concatenate((boxes.length, more)),
                boxes.offset,
                np.concatenate((boxes.stride, more)),
            )
        )
    return SpaceBoxes(*(np.concatenate(rows, axis=-1) for rows in zip(*rows_of_parts, strict=True)))


def _cut_held(source: Tiling, read: Side) -> tuple[Tiling, SpaceBoxes]:
    """Cut held blocks into boxes of the space: the tiling of the space, and the box of each device.

    The `block` of a box is the device that has the shard.
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


@dataclass(frozen=True, eq=False)
class _Writes:
    """Box copies, each listed once for every region that it is written to."""

    copy: IntArray  # the box copy
    region: IntArray  # the region that is written
    # Whether it comes from another domain: so it is for the first region only.
    received: IntArray
    again: IntArray  # whether it reads elements that its own domain received for another region
    # Whether it reads a new block: that of its own domain, or one that another domain passes on.
    reads_new: IntArray
    of: IntArray  # the region that it reads, if it reads a new block
    of_offset: IntArray  # the first point within that region, in each axis


def _list_writes(copies: Copies, pair_of: IntArray) -> _Writes:
    """List the regions that copies write, and choose those that read a new block."""
    order = np.argsort(pair_of, kind="stable")
    counts = np.bincount(pair_of)
    first = np.cumsum(counts) - counts
    times = counts[copies.pair]
    copy = np.arange(len(copies)).repeat(times)
    number = within(times)
    none = np.full(len(copies), -1)
    read_pair = (none if copies.read_pair is None else copies.read_pair)[copy]
    pair = copies.pair[copy]
    remote = (copies.source_domain != copies.domain)[copy]
    reads_own_pair = (read_pair < 0) | (remote & (number > 0))
    offset = np.where(
        reads_own_pair, copies.destination_offset[:, copy], copies.source_offset[:, copy]
    )
    received = remote & (number == 0)
    return _Writes(
        copy=copy,
        region=order[first[pair] + number],
        received=received,
        again=~received & (remote | (read_pair >= 0)),
        reads_new=(read_pair >= 0) | (remote & (number > 0)),
        of=order[first[np.where(reads_own_pair, pair, read_pair)]],
        of_offset=offset,
    )


def _make_strided(
    copies: Copies, held: SpaceBoxes, regions: SpaceBoxes, boxes: IntArray, writes: _Writes
) -> StridedCopies:
    """Turn box copies into strided copies; `boxes` has the held box that each copy reads."""
    ndim, copy, region, of = len(copies.length), writes.copy, writes.region, writes.of
    again, reads_new, shard = writes.again, writes.reads_new, boxes[copy]
    length = regions.length[:, region]
    length[:ndim] = copies.length[:, copy]
    length[ndim:, writes.received] = 1
    stride = np.zeros_like(length)
    stride[:ndim] = np.where(reads_new, regions.stride[:ndim, of], held.stride[:, shard])
    start = np.where(reads_new, regions.offset[of], held.offset[shard])
    of_offset = np.where(reads_new, writes.of_offset, copies.source_offset[:, copy])
    to_offset = copies.destination_offset[:, copy] * regions.stride[:ndim, region]
    return StridedCopies(
        block=regions.block[region],
        device=np.where(reads_new, -1, held.block[shard]),
        read_pair=np.where(reads_new, regions.block[of], -1),
        source_domain=np.where(again, copies.domain[copy], copies.source_domain[copy]),
        remote=writes.received,
        target_offset=regions.offset[region] + to_offset.sum(axis=0),
        source_offset=start + (of_offset * stride[:ndim]).sum(axis=0),
        point=regions.begin[:ndim, region] + copies.destination_offset[:, copy],
        length=length,
        target_stride=regions.stride[:, region],
        source_stride=stride,
        wave=np.zeros_like(region) if copies.wave is None else copies.wave[copy],
        phase=again.astype(np.int64),
    )


def _repeat_received(
    rows: StridedCopies, axis: int, ndim: int, repeats: IntArray, domain: IntArray
) -> StridedCopies:
    """List copies that repeat received elements; only their first repetition was received.

    Args:
      rows: all copies.
      axis: an axis of repetitions. The copies are for repetitions that are not the first along this
        axis, but are the first along axes of repetitions before it.
      ndim: number of axes before those of repetitions.
      repeats: number of repetitions of each copy of `rows`, for each axis of repetitions.
      domain: the domain of each copy.
    """
    at = np.flatnonzero(rows.remote & (repeats[axis - ndim] > 1))
    some, length = rows.take(at), rows.length[:, at]
    length[axis] = repeats[axis - ndim, at] - 1
    length[axis + 1 :] = repeats[axis - ndim + 1 :, at]
    stride = some.target_stride.copy()
    stride[ndim:] = 0
    return StridedCopies(
        block=some.block,
        device=np.full_like(some.device, -1),
        read_pair=some.block,
        source_domain=domain[at],
        remote=np.zeros_like(some.remote),
        target_offset=some.target_offset + some.target_stride[axis],
        source_offset=some.target_offset,
        point=some.point,
        length=length,
        target_stride=some.target_stride,
        source_stride=stride,
        wave=some.wave,
        phase=np.ones_like(some.block),
    )
