"""Setting a part of an array to one value, or to values of the host."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from gpushard.geometry.free_boxes import tiling_from_indices
from gpushard.movement.blocks import box_of
from gpushard.movement.buffer import ShardedBuffer
from gpushard.movement.execute import plan_for
from gpushard.movement.move import move
from gpushard.movement.rewrite import Overlay, Write, is_by_host
from gpushard.movement.touched import Touched
from gpushard.runtime.backend import HOST_DOMAIN, Backend
from gpushard.typing import HostArray, LocalArray


def overlay_of_element(base: ShardedBuffer, touched: Touched, value: np.generic) -> Overlay:
    """Return one value for a whole part, which moves no byte.

    Args:
      base: what it is for; only how it is laid out matters.
      touched: the blocks that the part touches.
      value: an element, of the dtype of `base`.
    """
    backend = base.runtime.backend
    writes = [
        Write(domain, functools.partial(run_fill, backend, touched, domain, value))
        for domain, _ in touched.by_domain
    ]
    return Overlay(touched, writes)


def run_fill(
    backend: Backend,
    touched: Touched,
    domain: int,
    value: np.generic,
    blocks: Sequence[LocalArray],
) -> None:
    """Fill the part in the blocks of a domain."""
    numbers = dict(touched.by_domain)[domain]
    backend.fill_boxes([blocks[n][touched.blocks[n].index] for n in numbers], value, domain)


def overlay_of_single(
    base: ShardedBuffer, touched: Touched, value: ShardedBuffer, name: str
) -> Overlay:
    """Return the one element of an array for a whole part; every domain receives it once.

    Args:
      base: what it is for; only how it is laid out matters.
      touched: the blocks that the part touches; some.
      value: an array of size 1 and of base's dtype, laid out in any way.
      name: what it is, for errors.

    Raises:
      OutOfMemoryError: a device has no room.
      ExecutionError: the value is not there; only by the host, who waits for it.
    """
    homes = [base.tiling.devices[block.home] for block in touched.blocks]
    whole = tuple(slice(0, 1) for _ in value.tiling.shape)
    everywhere = tiling_from_indices(value.tiling.shape, dict.fromkeys(homes, whole))
    value = move(value, plan_for(value, everywhere), name)
    if is_by_host(base):
        value.wait()
    writes = []
    for domain, numbers in touched.by_domain:
        at = homes.index(homes[numbers[0]])
        run = functools.partial(
            _run_spread, base.runtime.backend, touched, domain, value.values[at]
        )
        writes.append(Write(domain, run, (value.claims[at],)))
    return Overlay(touched, writes, value.is_settled())


def _run_spread(
    backend: Backend,
    touched: Touched,
    domain: int,
    element: LocalArray,
    blocks: Sequence[LocalArray],
) -> None:
    """Copy an element to all places of the part in the blocks of a domain."""
    copies = []
    for number in dict(touched.by_domain)[domain]:
        target = blocks[number][touched.blocks[number].index]
        copies.append((target, np.broadcast_to(element.reshape(()), target.shape), domain))
    backend.copy_boxes(copies, domain)


def fill_now(base: ShardedBuffer, touched: Touched, value: np.generic) -> None:
    """Fill a part of memory that nothing else holds or uses; `fill` without what that needs not."""
    backend, blocks, values = base.runtime.backend, touched.blocks, base.values
    for domain, numbers in touched.by_domain:
        boxes = [values[blocks[n].home][blocks[n].index] for n in numbers]
        backend.fill_boxes(boxes, value, domain)


def copy_now(base: ShardedBuffer, touched: Touched, data: HostArray) -> None:
    """Copy host data into a part of memory that the host can use and that nothing else does.

    Args:
      base: the data that is written.
      touched: the blocks that the part touches.
      data: of the part's shape and the dtype of `base`.
    """
    backend, values, added = base.runtime.backend, base.values, touched.added
    for domain, numbers in touched.by_domain:
        copies = []
        for number in numbers:
            block = touched.blocks[number]
            target = values[block.home][block.index][added]
            copies.append((target, box_of(data, block.box), HOST_DOMAIN))
        backend.copy_boxes(copies, domain)
