"""Blocks under other labels: dims that mesh axes split become named dims, and dims again.

A dim of n blocks on n devices is, to a function that sees one block, a dim with a name and the
rest. `x` of shape (8, 6) in `P("x")` over 4 devices is, with a name for the axis, of shape
(4, 2, 6): each device has the same 12 elements in the same memory. `relabel` says so, and copies
nothing.
"""

from __future__ import annotations

import copy
import functools
import math
import operator
from collections.abc import Callable
from typing import Any, cast

from gpushard.array.data import Data, handle
from gpushard.frozen import dataclass
from gpushard.geometry.mesh import Mesh
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import P, PartitionSpec
from gpushard.geometry.sharding import Sharding
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer
from gpushard.ops.rule import Splits
from gpushard.transforms.values.traced import Traced
from gpushard.typing import Shape


@dataclass(frozen=True, eq=False)
class Labels:
    """One array in three labellings; each device has the same elements in all of them."""

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
    """Compute how axes of a mesh that split dims become named dims. Pure.

    Args:
      mesh: the mesh.
      axes: the axes that get a name if they split a dim, in the order of the names.
      spec: the axes that split each dim after those of `lead`.
      shape: of the whole array, which the axes divide.
      lead: the axes of each dim in front that has a name already.
      others: for each other dim the axes that split it further, and get no name.
      chunk: None where the function sees what is left of a dim that is split. Else names take all
        of it: one for the axis, and one for the elements on a device, if this gives their number.
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
    if isinstance(x, Traced):
        x = cast("Any", x)
        same = x._committed and x._sharding == sharding and x._held().tiling is tiling
        return copy.copy(x) if same else x._relabelled(tiling, sharding)
    held = x._held()
    buffer, runtime = relabelled(held.buffer, tiling), held.runtime
    made = handle(
        type(x), Data(buffer, runtime), tiling.shape, x._dtype, sharding, True, x._weak_type
    )
    if not inside:
        runtime.register(made)
    return made


def relabelled(buffer: ShardedBuffer, tiling: Tiling) -> ShardedBuffer:
    """Return the same elements on the same devices, in blocks of other shapes, without a copy."""
    own = buffer.tiling
    if tiling is own:
        return buffer
    order, reshape = _relabelling(own, tiling)
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
def _relabelling(old: Tiling, new: Tiling) -> tuple[list[int] | None, Callable[[Any], Any] | None]:
    """Return the order of devices if it changes, and what reshapes blocks if they are alike."""
    order = None
    if new.devices != old.devices:
        at = {device: position for position, device in enumerate(old.devices)}
        order = [at[device] for device in new.devices]
    before, after = set(old.shard_shapes), set(new.shard_shapes)
    return order, _reshape(*before, *after) if len(before) == len(after) == 1 else None


def _reshape(old: Shape, new: Shape) -> Callable[[Any], Any]:
    """Return what gives a block another shape: for dims of one element in front that is an index.

    An index takes a third less time than a reshape.
    """
    more = len(new) - len(old)
    if new == (1,) * more + old:
        return operator.itemgetter((*(None,) * more, ...))
    if old == (1,) * -more + new:
        return operator.itemgetter((*(0,) * -more, ...))
    return operator.methodcaller("reshape", new)
