"""Arrays put together from several others, or whose dims are cut into factors. Pure.

It meets the bounds of `gpushard.movement.plan`: a domain writes its distinct new blocks once, and
receives every element that it lacks once, however often these blocks have it.

A space has one point for every element of a source that is read. What a domain holds and what its
new blocks want are boxes of it, so that a movement to boxes that form no grid says who copies what
from whom, and what several boxes of a domain want is received once. A wanted box stands for a
*region* of a new block, and for as many elements of it as there are repetitions of each point.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from gpushard.frozen import dataclass
from gpushard.geometry.free_boxes import tiling_of_boxes
from gpushard.geometry.tiling import Tiling
from gpushard.movement.plan import Fill, Plan, Table
from gpushard.movement.planning.aliasing import COPY, find_kept
from gpushard.movement.planning.copies import Copies, expand
from gpushard.movement.planning.digits import SpaceBoxes, cut_blocks, strides_of
from gpushard.movement.planning.dims import identity
from gpushard.movement.planning.holders import Holdings, holdings, overlap, volumes, within
from gpushard.movement.planning.maps import Bounds, Part, Rearrangement, Side
from gpushard.movement.planning.strided import StridedCopies, concatenated, joined
from gpushard.runtime.view import View
from gpushard.typing import IntArray, Shape


@dataclass(frozen=True, eq=False)
class Rearranged:
    """The copies of a rearrangement."""

    copies: tuple[Table, ...]  # (source, copies), listed
    pairs: int  # how many wanted pairs there are

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(len(copies.block) for _, copies in self.copies)

    def tables(self) -> Sequence[Table]:
        """Return the copies."""
        return self.copies

    def received(self) -> IntArray:
        """Return the elements that each wanted pair receives from other domains."""
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
    """Plan a rearrangement; `numbers` tell which of the distinct sources each source of `how` is.

    What several domains want of a source may be relayed: `relay_bytes` is as for `make_plan`.

    >>> from gpushard.geometry.mesh import Mesh
    >>> from gpushard.geometry.partition_spec import P
    >>> from gpushard.geometry.named_sharding import NamedSharding
    >>> from gpushard.movement.planning.maps import roll
    >>> tiling = NamedSharding(Mesh(["a", "b"], "x"), P("x")).tiling((8,))
    >>> plan = make_rearrange(roll((8,), (1,), (0,)), [tiling], [0], tiling, 4, [0])
    >>> plan.written, plan.received
    ({0: 16, 1: 16}, {0: 4, 1: 4})
    """
    wanted = holdings(destination.assignment)
    volume = volumes(wanted, destination)
    latency = None if relay_bytes is None else relay_bytes / itemsize
    tables = _tables(how.parts, sources, numbers, destination, np.flatnonzero(volume), latency)
    kept = find_kept(sources, tables, volume, itemsize, root_nbytes)
    new = kept.kind == COPY
    tables = [(number, copies.take(np.flatnonzero(new[copies.block]))) for number, copies in tables]
    return Plan(
        verb="rearrange",
        sources=tuple(sources),
        destination=destination,
        itemsize=itemsize,
        kept=kept,
        volume=volume,
        written_elements=volume * new,
        how=Rearranged(tuple(tables), len(volume)),
        filled=_fills(how.filled, destination, wanted.home, np.flatnonzero(new), itemsize),
    )


def _tables(
    parts: Sequence[Part],
    sources: Sequence[Tiling],
    numbers: Sequence[int],
    destination: Tiling,
    pairs: IntArray,
    latency: float | None,
) -> list[Table]:
    """Return (source, copies) for each space in which sources are read."""
    spaces: dict[tuple[int, Side], list[Part]] = {}
    for part in parts:
        spaces.setdefault((numbers[part.source], part.read), []).append(part)
    return [
        (number, _copy_space(sources[number], group, destination, pairs, latency))
        for (number, _), group in spaces.items()
    ]


def _fills(
    filled: Sequence[Bounds], destination: Tiling, homes: IntArray, blocks: IntArray, itemsize: int
) -> list[Fill]:
    """Return (wanted pair, part of its block) for all that gets a constant."""
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
    """Stands for whoever has a box in a memory domain."""

    memory_domain: int


def _copy_space(
    source: Tiling,
    parts: Sequence[Part],
    destination: Tiling,
    pairs: IntArray,
    latency: float | None,
) -> StridedCopies:
    """Plan the copies of all parts that read one source through the same space."""
    read, wanted = parts[0].read, holdings(destination.assignment)
    regions = _regions(parts, destination, wanted, pairs)
    held_in, held = _held(source, read)
    wanted_in = _tiling(read.space, wanted.domain[regions.block], regions)
    cut = overlap(held_in, wanted_in, identity(read.space))
    copies = expand(cut, np.flatnonzero(cut.volume > 0), latency)
    picked = _picked(copies, cut.wanted.of_device)
    rows = _rows(copies, held, regions, cut.held.home[copies.held], picked)
    ndim, repeats = len(read.space), regions.length[len(read.space) :, picked.region]
    more = range(ndim, len(rows.length))
    domain = copies.domain[picked.copy]
    rows = concatenated([rows, *(_spread(rows, axis, ndim, repeats, domain) for axis in more)])
    for axis, digits in enumerate(read.axes):
        if len(digits) > 1:
            rows = joined(rows, axis)
    return rows


def _regions(
    parts: Sequence[Part], destination: Tiling, wanted: Holdings, pairs: IntArray
) -> SpaceBoxes:
    """Return the regions of wanted pairs as boxes of the space; repetitions are the last axes."""
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


@dataclass(frozen=True, eq=False)
class _Picked:
    """Copies once for every region that what they write stands for."""

    copy: IntArray  # the box copy
    region: IntArray  # the region that is written
    # Whether it comes from another domain; then it is the first region with what is received.
    received: IntArray
    again: IntArray  # whether it is read where its own domain received it
    # Whether a new block is read: that, or what another domain has received and passes on.
    made: IntArray
    of: IntArray  # then, the region that is read
    of_offset: IntArray  # and the first point within that in each axis


def _picked(copies: Copies, pair_of: IntArray) -> _Picked:
    """List what has to be written, and what of it is read in a new block."""
    order = np.argsort(pair_of, kind="stable")
    counts = np.bincount(pair_of)
    first = np.cumsum(counts) - counts
    times = counts[copies.pair]
    copy = np.arange(len(copies)).repeat(times)
    number = within(times)
    made = np.full(len(copies), -1) if copies.made is None else copies.made
    made, pair = made[copy], copies.pair[copy]
    remote = (copies.source_domain != copies.domain)[copy]
    own = (made < 0) | (remote & (number > 0))
    offset = np.where(own, copies.destination_offset[:, copy], copies.source_offset[:, copy])
    received = remote & (number == 0)
    return _Picked(
        copy=copy,
        region=order[first[pair] + number],
        received=received,
        again=~received & (remote | (made >= 0)),
        made=(made >= 0) | (remote & (number > 0)),
        of=order[first[np.where(own, pair, made)]],
        of_offset=offset,
    )


def _rows(
    copies: Copies, held: SpaceBoxes, regions: SpaceBoxes, boxes: IntArray, picked: _Picked
) -> StridedCopies:
    """Turn box copies into strided ones."""
    ndim, copy, region, of = len(copies.length), picked.copy, picked.region, picked.of
    again, made, shard = picked.again, picked.made, boxes[copy]
    length = regions.length[:, region]
    length[:ndim] = copies.length[:, copy]
    length[ndim:, picked.received] = 1
    stride = np.zeros_like(length)
    stride[:ndim] = np.where(made, regions.stride[:ndim, of], held.stride[:, shard])
    start = np.where(made, regions.offset[of], held.offset[shard])
    of_offset = np.where(made, picked.of_offset, copies.source_offset[:, copy])
    to_offset = copies.destination_offset[:, copy] * regions.stride[:ndim, region]
    return StridedCopies(
        block=regions.block[region],
        device=np.where(made, -1, held.block[shard]),
        made=np.where(made, regions.block[of], -1),
        source_domain=np.where(again, copies.domain[copy], copies.source_domain[copy]),
        remote=picked.received,
        target_offset=regions.offset[region] + to_offset.sum(axis=0),
        source_offset=start + (of_offset * stride[:ndim]).sum(axis=0),
        point=regions.begin[:ndim, region] + copies.destination_offset[:, copy],
        length=length,
        target_stride=regions.stride[:, region],
        source_stride=stride,
        wave=np.zeros_like(region) if copies.wave is None else copies.wave[copy],
        phase=again.astype(np.int64),
    )


def _spread(
    rows: StridedCopies, axis: int, ndim: int, repeats: IntArray, domain: IntArray
) -> StridedCopies:
    """Return the copies that repeat what was received, of which the first repetition has come.

    Args:
      rows: all copies.
      axis: those repetitions are made that are not the first in this axis, but in those before.
      ndim: how many axes come before those of repetitions.
      repeats: how often what each of `rows` writes is repeated, for each axis of repetitions.
      domain: the domain that each is in.
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
        made=some.block,
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
