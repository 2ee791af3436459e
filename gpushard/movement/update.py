"""Replacing a part of an array by the values of another one, laid out in any way.

The new values go straight from where they lie to where they belong. Into new blocks a domain writes
what it has to keep, the part, and at worst the old elements under the part once more: the
complement of a part with steps is not made of boxes. Into the old blocks it writes just the part.
Either way it receives exactly the new elements that it does not hold.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.frozen import dataclass
from gpushard.geometry.tiling import Tiling
from gpushard.movement.bridge import strangers
from gpushard.movement.buffer import ShardedBuffer, devices_of
from gpushard.movement.dim_map import Piece, identity
from gpushard.movement.execute import plan_for
from gpushard.movement.move import move
from gpushard.movement.plan import Plan, make_plan
from gpushard.movement.rewrite import Overlay, Write, is_by_host, rewrite
from gpushard.movement.steps import Step
from gpushard.movement.touched import Touched, touch
from gpushard.runtime.backend import Backend
from gpushard.runtime.phase import BoxIndex
from gpushard.runtime.runtime import Runtime
from gpushard.typing import LocalArray

Region = tuple[int, BoxIndex]
"""(block, index of the part within it)."""


@dataclass(frozen=True, eq=False)
class UpdatePlan:
    """How a part of an array is replaced. Make one with `make_update`."""

    touched: Touched
    """The blocks that the part touches."""

    part: Plan | None
    """Movement of the new values to where the part lies; None if the part has no elements."""

    regions: tuple[Region, ...]
    """For each block that `part` would allocate, where it lies instead."""

    again: tuple[tuple[Region, Region, int], ...]
    """(written, read, domain): copies between blocks of a domain that overlap."""

    @property
    def written(self) -> dict[int, int]:
        """Bytes that each domain writes into new blocks."""
        written = self.written_in_place
        for block in self.touched.blocks:
            if block.kept:
                written[block.domain] += block.nbytes
        return written

    @property
    def written_in_place(self) -> dict[int, int]:
        """Bytes that each domain writes into its old blocks."""
        written = {} if self.part is None else dict(self.part.written)
        for (number, index), _, domain in self.again:
            block = self.touched.blocks[number]
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
        own = self.touched.nbytes + 300 * len(self.regions)
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
    return _planned(touch(base, piece, itemsize), value, itemsize)


def _planned(touched: Touched, value: Tiling, itemsize: int) -> UpdatePlan:
    if touched.part is None:
        return UpdatePlan(touched, None, (), ())
    part = make_plan(value, touched.part, identity(touched.part.shape), itemsize, reuse=False)
    wanted = part.overlap.wanted.of_device
    regions: dict[int, Region] = {}  # by wanted pair
    again: list[tuple[Region, Region, int]] = []
    for number, block in enumerate(touched.blocks):
        pair, region = int(wanted[touched.of_part[number]]), (number, block.index)
        if pair in regions:
            again.append((region, regions[pair], block.domain))
        else:
            regions[pair] = region
    copied = tuple(regions[pair] for pair in part.copied.tolist())
    return UpdatePlan(touched, part, copied, tuple(again))


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
      ExecutionError: some value is not there; only by the host, who waits for it.
    """
    overlay = overlay_of(base, value, piece, name)
    if is_by_host(base):
        base.wait()
    return rewrite(base, overlay, name)


def overlay_of(
    base: ShardedBuffer, value: ShardedBuffer, piece: Piece, name: str = "update"
) -> Overlay:
    """Return new values of a part, moved to where the copies of an update can read them.

    Args:
      base: what they are for; only how it is laid out matters.
      value: as of `update`.
      piece: as of `update`.
      name: what it is, for errors.

    Raises:
      OutOfMemoryError: a device has no room.
      ExecutionError: some value is not there; only by the host, who waits for it.
    """
    runtime, plan = base.runtime, update_for(base, value, piece)
    if plan.part is None:
        return Overlay(plan.touched, ())
    if _is_far(runtime, plan.part):
        value = move(value, plan_for(value, plan.part.destination), name)
        plan = update_for(base, value, piece)
    assert plan.part is not None
    if is_by_host(base):
        value.wait()
    writes = [_write(runtime, plan, step, value) for step in plan.part.recipe.steps]
    return Overlay(plan.touched, writes, value.is_settled())


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
        plan = _planned(touched_by(base, piece), value.tiling, base.dtype.itemsize)
        base.runtime.plans.put(key, plan, plan.nbytes)
    return plan


def touched_by(base: ShardedBuffer, piece: Piece) -> Touched:
    """Return the blocks that a part touches; cached."""
    key = ("touched", base.tiling, piece, base.dtype.itemsize)
    found: Touched | None = base.runtime.plans.get(key)
    if found is None:
        found = touch(base.tiling, piece, base.dtype.itemsize)
        base.runtime.plans.put(key, found, found.nbytes)
    return found


def _write(runtime: Runtime, plan: UpdatePlan, step: Step, value: ShardedBuffer) -> Write:
    claims = tuple(value.claims[of] for of in step.reads)
    run = functools.partial(run_update, runtime.backend, plan, step, value.values)
    return Write(step.domain, run, claims)


def run_update(
    backend: Backend,
    plan: UpdatePlan,
    step: Step,
    new: Sequence[LocalArray],
    blocks: Sequence[LocalArray],
) -> None:
    """Make the copies of one step: the part into the blocks, then what overlaps.

    Args:
      backend: of the devices.
      plan: the update.
      step: one of the steps of its `part`.
      new: the shards of the new values.
      blocks: the blocks.
    """
    domain, added = step.domain, plan.touched.added
    regions: list[Any] = [blocks[n][index][added] for n, index in plan.regions]
    for phase in step.phases:
        backend.copy_boxes(phase.copies([*new, *regions]), domain)
    again = [
        (blocks[to][to_index], blocks[of][of_index], domain)
        for (to, to_index), (of, of_index), there in plan.again
        if there == domain
    ]
    if again:
        backend.copy_boxes(again, domain)
