"""Views of the blocks of an array in other shapes, which share their memory.

The shards of an array of shape (8, 6) on 4 devices are blocks of shape (2, 6). In a function that
`shard_map` calls, they are blocks of shape (1, 2, 6) of an array of shape (4, 2, 6).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from gpushard._array.data import Data, Handle, handle
from gpushard._geometry.sharding import Sharding
from gpushard._geometry.tiling import Tiling
from gpushard._movement.buffer import ShardedBuffer
from gpushard._typing import Shape


def relabel(x: Handle, tiling: Tiling, sharding: Sharding, *, inside: bool = False) -> Any:
    """View the blocks of an array as those of an array of another shape.

    Users do not see an array that is `inside` a function: `live_arrays` does not list it.
    """
    held = x._held()
    data = Data(relabel_buffer(held.buffer, tiling), held.runtime)
    array = handle(type(x), data, tiling.shape, x._dtype, sharding, True, x._weak_type)
    if not inside:
        held.runtime.register(array)
    return array


def relabel_buffer(buffer: ShardedBuffer, tiling: Tiling) -> ShardedBuffer:
    """View the blocks of a buffer in the shapes of another tiling, without a copy."""
    old = buffer.tiling
    if tiling is old:
        return buffer
    order, reshape = _plan_relabel(old, tiling)
    values, claims = buffer.values, buffer.claims
    if order is not None:
        values, claims = [values[n] for n in order], [claims[n] for n in order]
    if reshape is not None:
        values = list(map(reshape, values))
    else:
        shapes = tiling.shard_shapes
        values = [value.reshape(shape) for value, shape in zip(values, shapes, strict=True)]
    return ShardedBuffer(tiling, buffer.dtype, values, claims, buffer.settled)


@functools.lru_cache(maxsize=1024)
def _plan_relabel(old: Tiling, new: Tiling) -> tuple[list[int] | None, Callable[[Any], Any] | None]:
    """Find the new order of devices, if it changes, and a reshape, if all blocks have one shape."""
    order = None
    if new.devices != old.devices:
        at = {device: position for position, device in enumerate(old.devices)}
        order = [at[device] for device in new.devices]
    before, after = set(old.shard_shapes), set(new.shard_shapes)
    return order, _reshape(*before, *after) if len(before) == len(after) == 1 else None


def _reshape(old: Shape, new: Shape) -> Callable[[Any], Any]:
    """Make a function that reshapes a block.

    If only dims of one element in front differ, it indexes: that takes a third less time.
    """
    more = len(new) - len(old)
    if new == (1,) * more + old:
        return operator.itemgetter((*(None,) * more, ...))
    if old == (1,) * -more + new:
        return operator.itemgetter((*(0,) * -more, ...))
    return operator.methodcaller("reshape", new)
