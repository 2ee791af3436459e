"""Writing a part of an array: into its own memory if nothing else holds that, or into new blocks.

In place a domain writes the part and nothing else. Otherwise every block that the part touches is
made anew, from the old one unless the part covers it, and the others are shared with the old array.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpushard._cache import BoundedCache
from gpushard._frozen import dataclass
from gpushard._geometry.free_boxes import tiling_from_indices
from gpushard._geometry.tiling import Tiling
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.distinct_blocks import box_of
from gpushard._movement.execute import run, run_in_place, within_reach
from gpushard._movement.plan import Plan
from gpushard._movement.plan_cache import prepared_plan
from gpushard._movement.plan_streams import Prepared
from gpushard._movement.planning.dim_maps import Piece
from gpushard._movement.planning.update import Touched, make_update, touch
from gpushard._movement.reshard import move
from gpushard._runtime.backend import HOST_DOMAIN
from gpushard._runtime.runtime import Runtime
from gpushard._typing import HostArray


@dataclass(frozen=True, eq=False)
class Overlay:
    """New values for a part of an array, which lie where they can be written from."""

    touched: Touched  # the blocks that the part touches
    # The new values, or one element in every domain of the blocks; none for a constant.
    values: tuple[ShardedBuffer, ...] = ()
    constant: np.generic | None = None  # the constant


def update(
    base: ShardedBuffer, value: ShardedBuffer, piece: Piece, name: str = "update"
) -> ShardedBuffer:
    """Return the data of `base` with a part replaced; `base` itself stays as it is."""
    return rewrite(base, overlay_of(base, value, touched_by(base, piece)), name)


def rewrite(
    base: ShardedBuffer, overlay: Overlay, name: str, *, in_place: bool = False
) -> ShardedBuffer:
    """Write a part of an array, `in_place` where `ownership` allows that.

    If that raises `OutOfMemoryError` or `ExecutionError`, nothing has changed; after anything else
    nobody knows what is in it.

    Returns:
      The new data: `base` itself if it was written.
    """
    prepared = plan_for(base, overlay, in_place=in_place)
    if in_place:
        run_in_place(prepared, (base, *overlay.values), name, overlay.constant)
        return base
    return run(prepared, (base, *overlay.values), name, overlay.constant)


def overlay_of(base: ShardedBuffer, value: ShardedBuffer, touched: Touched) -> Overlay:
    """Return new values of a part, where the copies of an update can read them.

    Of `base` it matters only how it is laid out.
    """
    return Overlay(touched, (within_reach(value, base.tiling),) if touched.blocks else ())


def overlay_of_single(
    base: ShardedBuffer, touched: Touched, value: ShardedBuffer, name: str
) -> Overlay:
    """Return the one element of an array for a whole part; every domain receives it once."""
    homes = [base.tiling.devices[block.home] for block in touched.blocks]
    whole = tuple(slice(0, 1) for _ in value.tiling.shape)
    everywhere = tiling_from_indices(value.tiling.shape, dict.fromkeys(homes, whole))
    return Overlay(touched, (move(value, everywhere, name=name),))


def touched_by(base: ShardedBuffer, piece: Piece) -> Touched:
    """Return the blocks that a part touches; cached."""
    how = base.tiling, piece, base.dtype.itemsize
    plans: BoundedCache[Touched] = base.runtime.plans
    return plans.get_or_make((touch, *how), touch, *how)


def plan_for(base: ShardedBuffer, overlay: Overlay, *, in_place: bool = False) -> Prepared:
    """Return the cached plan of an update."""
    value = overlay.values[0].tiling if overlay.values else None
    how = base.tiling, value, overlay.touched, base.dtype.itemsize, in_place
    return prepared_plan(base.runtime, _plan, how)


def _plan(
    runtime: Runtime,
    base: Tiling,
    value: Tiling | None,
    touched: Touched,
    itemsize: int,
    in_place: bool,
    roots: Sequence[int],
) -> Plan:
    """Make a plan, which does not depend on the roots."""
    relay_bytes = runtime.settings.relay_bytes
    return make_update(base, value, touched, itemsize, in_place=in_place, relay_bytes=relay_bytes)


def fill_now(base: ShardedBuffer, touched: Touched, value: np.generic) -> None:
    """Fill a part of memory that nothing else holds or uses; `rewrite` without a plan."""
    backend, blocks, values = base.runtime.backend, touched.blocks, base.values
    for domain, numbers in touched.by_domain:
        boxes = [values[blocks[n].home][blocks[n].index] for n in numbers]
        backend.fill_boxes(boxes, value, domain)


def copy_now(base: ShardedBuffer, touched: Touched, data: HostArray) -> None:
    """Copy host data into a part of memory that the host can use and that nothing else does."""
    backend, values, added = base.runtime.backend, base.values, touched.added
    for domain, numbers in touched.by_domain:
        copies = []
        for number in numbers:
            block = touched.blocks[number]
            target = values[block.home][block.index][added]
            copies.append((target, box_of(data, block.box), HOST_DOMAIN))
        backend.copy_boxes(copies, domain)
