"""Views of blocks: dims that mesh axes split become named dims, and dims again.

A dim of n blocks on n devices is a named dim of n elements and a dim of one block. For example, `x`
has shape (8, 6) and lies in `P("x")` over 4 devices. With a name for the axis its shape is
(4, 2, 6): each device has the same 12 elements in the same memory. `relabel` makes this view
without a copy.
"""

from __future__ import annotations

import copy
import functools
import math
import operator
from collections.abc import Callable
from typing import Any, cast

from gpushard._array.data import Data, handle
from gpushard._frozen import dataclass
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import P, PartitionSpec
from gpushard._geometry.sharding import Sharding
from gpushard._geometry.tiling import Tiling
from gpushard._movement.buffer import ShardedBuffer
from gpushard._ops.rule import Splits
from gpushard._transforms.values.traced import TracedValue
from gpushard._typing import Shape


@dataclass(frozen=True, eq=False)
class Labels:
    """Three shardings of one array, with their shapes; each device has the same elements in all."""

    whole: NamedSharding  # over the mesh, with some dims split
    whole_tiling: Tiling
    named: NamedSharding  # with named dims in front for these splits
    named_tiling: Tiling
    shown: Sharding  # as users see the whole array
    shown_tiling: Tiling


@functools.lru_cache(maxsize=4096)
def labels(
    mesh: Mesh,
    axes: tuple[str, ...],
    spec: PartitionSpec,
    shape: Shape,
    lead: Splits,
    others: Splits,
    chunk: Shape | None = None,
) -> Labels:
    """Compute how the mesh axes that split dims become named dims. Pure.

    Args:
      mesh: the mesh.
      axes: the axes that get a name if they split a dim, in the order of the names.
      spec: the axes that split each dim after those of `lead`.
      shape: the shape of the whole array; the axes divide its dims.
      lead: for each dim in front that has a name already, the axes of its place.
      others: for each other dim, axes that split it further and get no name.
      chunk: None if the function sees the rest of a split dim, as in `shard_map`. Otherwise names
        take all of a split dim: () for a name of the axis alone, (n,) for a second name of n
        elements on each device.
    """
    named: list[Any] = [axis for axis in axes if axis in spec.all_axes()]
    body = shape[len(lead) :]
    rest = [
        (n // math.prod(mesh.shape[axis] for axis in spec.axes(dim)), others[dim])
        for dim, n in enumerate(body)
        if chunk is None or not spec.axes(dim)
    ]
    whole = [(*spec.axes(dim), *others[dim]) for dim in range(len(body))]
    while whole and not whole[-1] and len(whole) > len(spec):
        whole.pop()
    sharding = NamedSharding(mesh, spec if not (lead or any(others)) else P(*lead, *whole))
    sizes = [mesh.shape[axis] for axis in named]
    for n in chunk or ():
        named.append(())
        sizes.append(n)
    inner = NamedSharding(mesh, P(*lead, *named, *[axes for _, axes in rest]))
    parts = (*shape[: len(lead)], *sizes, *[n for n, _ in rest])
    tiling = sharding.tiling(shape)
    return Labels(sharding, tiling, inner, inner.tiling(parts), sharding, tiling)


def relabel(x: Any, tiling: Tiling, sharding: Sharding, *, inside: bool = False) -> Any:
    """Give the blocks of an array other shapes; they share their memory.

    Users do not see an array that is `inside` a function: `live_arrays` does not list it.
    """
    if isinstance(x, TracedValue):
        x = cast("Any", x)
        same = x._committed and x._sharding == sharding and x._held().tiling is tiling
        return copy.copy(x) if same else x._relabel(tiling, sharding)
    held = x._held()
    buffer, runtime = relabel_buffer(held.buffer, tiling), held.runtime
    array = handle(
        type(x), Data(buffer, runtime), tiling.shape, x._dtype, sharding, True, x._weak_type
    )
    if not inside:
        runtime.register(array)
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
