"""Replacing a part of an array: blocks that the part does not touch are shared with the old one.

A new block is a copy of the old one, into which the new values go straight from where they lie.
The complement of a part with steps is not made of boxes, so the old block is copied whole, unless
the part covers it. A domain writes what it has to keep, the part, and at worst the old elements
under the part once more; it receives exactly the new elements that it does not hold.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.geometry.free_boxes import tiling_from_indices
from gpushard.geometry.tiling import Tiling
from gpushard.movement.bridge import strangers
from gpushard.movement.buffer import ShardedBuffer, claim_nothing, devices_of
from gpushard.movement.dim_map import DimMap, Piece, identity
from gpushard.movement.execute import Targets, allocate, plan_for
from gpushard.movement.holdings import holdings
from gpushard.movement.move import move
from gpushard.movement.plan import Plan, make_plan
from gpushard.movement.steps import Step, source_index
from gpushard.runtime.backend import BoxIndex
from gpushard.runtime.runtime import Runtime
from gpushard.typing import LocalArray, Shape

KEPT, EMPTY = -1, -2
"""What becomes of a device's block that is not written."""


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """A block that is written anew."""

    home: int
    """Position of the device that pays for it, and whose old block it replaces."""

    shape: Shape
    """Its shape."""

    nbytes: int
    """Its bytes."""

    domain: int
    """The memory domain that it lies in."""

    kept: bool
    """Whether some of the old elements stay."""


Region = tuple[int, BoxIndex]
"""(block, index of the part within it)."""


@dataclasses.dataclass(frozen=True, eq=False)
class UpdatePlan:
    """How a part of an array is replaced. Make one with `make_update`."""

    part: Plan | None
    """Movement of the new values to where the part lies; None if the part has no elements."""

    blocks: tuple[Block, ...]
    """The blocks that are written."""

    of_device: tuple[int, ...]
    """For each device its new block, or KEPT where the old one stays, or EMPTY."""

    regions: tuple[Region, ...]
    """For each block that `part` would allocate, where it lies instead."""

    again: tuple[tuple[Region, Region, int], ...]
    """(written, read, domain): copies between blocks of a domain that overlap."""

    added: tuple[Any, ...]
    """Index that adds the new dims of the part to a region."""

    @functools.cached_property
    def total(self) -> int:
        """Bytes of the new blocks."""
        return sum(block.nbytes for block in self.blocks)

    @property
    def written(self) -> dict[int, int]:
        """Bytes that each domain writes."""
        written = {} if self.part is None else dict(self.part.written)
        for block in self.blocks:
            if block.kept:
                written[block.domain] += block.nbytes
        for (block_number, index), _, domain in self.again:
            block = self.blocks[block_number]
            written[domain] += np.empty(block.shape, np.bool_)[index].size * (
                block.nbytes // int(np.prod(block.shape))
            )
        return written

    @property
    def received(self) -> dict[int, int]:
        """Bytes that each domain receives from others: the least."""
        return {} if self.part is None else self.part.received

    @property
    def nbytes(self) -> int:
        """Bytes that this plan takes, about."""
        own = 2000 + 300 * len(self.of_device)
        return own if self.part is None else own + self.part.nbytes


def make_update(base: Tiling, value: Tiling, piece: Piece, itemsize: int) -> UpdatePlan:
    """Plan an update. Pure.

    Args:
      base: tiling of the array.
      value: tiling of the new values, of the piece's shape.
      piece: where the part lies in the array: as an index of the array gives it.
      itemsize: bytes of an element.

    Returns:
      The plan; its result has the tiling `base`.
    """
    intervals = [_part_box(base, position, piece) for position in range(len(base.devices))]
    touched = [position for position, box in enumerate(intervals) if box is not None]
    if not touched or 0 in piece.shape:
        return UpdatePlan(None, (), (KEPT,) * len(base.devices), (), (), ())
    boxes = {base.devices[i]: tuple(slice(*pair) for pair in intervals[i] or ()) for i in touched}
    there = tiling_from_indices(piece.shape, boxes)
    part = make_plan(value, there, identity(piece.shape), itemsize, reuse=False)
    held, wanted = holdings(base.assignment), part.overlap.wanted
    numbers: dict[int, int] = {}
    blocks: list[Block] = []
    regions: dict[int, Region] = {}  # by wanted pair
    again: list[tuple[Region, Region, int]] = []
    for i, position in enumerate(touched):
        pair, old = int(wanted.of_device[i]), int(held.of_device[position])
        if old in numbers:
            continue
        numbers[old] = len(blocks)
        home, domain = int(held.home[old]), int(held.domain[old])
        shape, elements = base.shard_shapes[home], int(base.volumes[home])
        kept = elements > int(part.overlap.volume[pair])
        blocks.append(Block(home, shape, elements * itemsize, domain, kept))
        region = numbers[old], _region(base, position, piece, intervals[position] or [])
        if pair in regions:
            again.append((region, regions[pair], domain))
        else:
            regions[pair] = region
    of_device = [
        numbers.get(old, KEPT if volume else EMPTY)
        for old, volume in zip(held.of_device.tolist(), base.volumes.tolist(), strict=True)
    ]
    return UpdatePlan(
        part=part,
        blocks=tuple(blocks),
        of_device=tuple(of_device),
        regions=tuple(regions[pair] for pair in part.copied.tolist()),
        again=tuple(again),
        added=(
            *(
                None if m.source is None else slice(None)
                for m in piece.maps
                if m.destination is not None
            ),
            ...,  # else NumPy gives a scalar for no dims
        ),
    )


def _part_box(base: Tiling, position: int, piece: Piece) -> list[tuple[int, int]] | None:
    """Return the box of the part that falls into the block of a device, or None."""
    box = []
    for m in piece.maps:
        start, stop = 0, 1
        if m.source is not None:
            low, high = int(base.starts[m.source, position]), int(base.stops[m.source, position])
            start, stop = _interval(m, low, high)
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


def update(
    base: ShardedBuffer, value: ShardedBuffer, piece: Piece, name: str = "update"
) -> ShardedBuffer:
    """Return the data of `base` with a part replaced; `base` itself stays as it is.

    Args:
      base: the old data.
      value: the new values of the part, of the piece's shape and base's dtype, laid out in any way.
      piece: where the part lies in the array: as an index of the array gives it.
      name: what it is, for errors.

    Raises:
      OutOfMemoryError: a device has no room; nothing has changed.
    """
    runtime, plan = base.runtime, update_for(base, value, piece)
    if plan.part is None:
        return ShardedBuffer(base.tiling, base.dtype, base.values, base.claims, base.settled)
    if _is_far(runtime, plan.part):
        value = move(value, plan_for(value, plan.part.destination), name)
        plan = update_for(base, value, piece)
    assert plan.part is not None
    streams = [runtime.domains[domain].copy for domain in plan.part.recipe.domains]
    run = _Update(runtime, plan, base, value, name)
    if run.by_host:
        base.wait()
        value.wait()
    targets = runtime.commit(run.submit, streams)
    if targets.inline or run.by_host:
        for step in plan.part.recipe.steps:
            run_update(runtime, plan, step, base.values, value.values, targets.values)
    values, claims = list(base.values), list(base.claims)
    nothing = None
    for device, block in enumerate(plan.of_device):
        if block == EMPTY:  # what made the old array may have failed there, too
            claims[device] = nothing = nothing or claim_nothing(devices_of(base.tiling)[0])
        elif block != KEPT:
            values[device], claims[device] = targets.values[block], targets.claims[block]
    return ShardedBuffer(base.tiling, base.dtype, values, claims)


def _is_far(runtime: Runtime, part: Plan) -> bool:
    """Whether the new values lie where the copies of an update cannot read them."""
    places = devices_of(part.source)[0], devices_of(part.destination)[0]
    return places[0].domain.kind != places[1].domain.kind or any(
        strangers(runtime, step) for step in part.recipe.steps
    )


def update_for(base: ShardedBuffer, value: ShardedBuffer, piece: Piece) -> UpdatePlan:
    """Return the cached plan of an update."""
    key = ("update", base.tiling, value.tiling, piece, base.dtype.itemsize)
    plan: UpdatePlan | None = base.runtime.plans.get(key)
    if plan is None:
        plan = make_update(base.tiling, value.tiling, piece, base.dtype.itemsize)
        base.runtime.plans.put(key, plan, plan.nbytes)
    return plan


@dataclasses.dataclass(frozen=True, eq=False)
class _Update:
    """One update that is about to be submitted."""

    runtime: Runtime
    plan: UpdatePlan
    base: ShardedBuffer
    value: ShardedBuffer
    name: str

    @property
    def by_host(self) -> bool:
        """Whether the memory is out of the reach of streams."""
        return devices_of(self.base.tiling)[0].domain.kind == "unpinned_host"

    def submit(self) -> Targets:
        """Allocate the new blocks; give the copies to streams unless the caller can run them."""
        base, value, plan = self.base, self.value, self.plan
        small = plan.total <= self.runtime.settings.inline_bytes
        readable = self.runtime.backend.host_readable
        inline = small and readable and base.is_settled() and value.is_settled()
        inline = inline or self.by_host
        blocks = [(block.home, block.shape, block.nbytes) for block in plan.blocks]
        devices = devices_of(base.tiling)
        largest = max(block.nbytes for block in plan.blocks)
        targets = allocate(self.runtime, devices, blocks, largest, base.dtype, inline)
        if not targets.inline and not self.by_host and plan.part is not None:
            for step in plan.part.recipe.steps:
                self._submit_step(step, targets)
        return targets

    def _submit_step(self, step: Step, targets: Targets) -> None:
        blocks = [(n, b) for n, b in enumerate(self.plan.blocks) if b.domain == step.domain]
        old = [self.base.claims[block.home].memory for _, block in blocks if block.kept]
        new = [self.value.claims[of].memory for of in step.reads]
        values = self.base.values, self.value.values, targets.values  # the item holds no claim
        self.runtime.submit(
            self.runtime.domains[step.domain].copy,
            self.name,
            functools.partial(run_update, self.runtime, self.plan, step, *values),
            tuple(dict.fromkeys((*old, *new))),
            [targets.claims[n].memory for n, _ in blocks],
        )


def run_update(
    runtime: Runtime,
    plan: UpdatePlan,
    step: Step,
    old: Sequence[LocalArray],
    new: Sequence[LocalArray],
    blocks: Sequence[LocalArray],
) -> None:
    """Make the copies of one step: the old blocks, over them the part, then what overlaps.

    Args:
      runtime: of the devices.
      plan: the update.
      step: one of the steps of its `part`.
      old: the old block of each device.
      new: the shards of the new values.
      blocks: the new blocks.
    """
    domain, copy = step.domain, runtime.backend.copy_boxes
    mine = [(n, block) for n, block in enumerate(plan.blocks) if block.domain == domain]
    copy([(blocks[n], old[block.home], domain) for n, block in mine if block.kept], domain)
    regions = [blocks[n][index][plan.added] for n, index in plan.regions]
    for phase in step.phases:
        copy(phase.copies([*new, *regions]), domain)
    copy(
        [
            (blocks[to][to_index], blocks[of][of_index], domain)
            for (to, to_index), (of, of_index), there in plan.again
            if there == domain
        ],
        domain,
    )
