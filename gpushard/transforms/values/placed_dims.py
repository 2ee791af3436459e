"""How dims that mesh axes split become named dims, and back.

A dim of n blocks on n devices is, to a function that sees one of these, a dim with a name and the
rest. Only what is said of the blocks changes: each device has the same elements in the same memory,
in another shape. `relabel` does that, and nothing is copied. What lies otherwise is moved first.
"""

from __future__ import annotations

import copy
import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from gpushard.array.array import Array
from gpushard.array.data import Data, handle
from gpushard.errors import ArgumentError
from gpushard.frozen import dataclass
from gpushard.functions.values import is_traced
from gpushard.geometry.mesh import Mesh
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import P, PartitionSpec
from gpushard.geometry.sharding import Sharding
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer
from gpushard.ops.rule import Splits
from gpushard.placement.device_put import implicitly_put
from gpushard.transforms.values.frames import Frame, Names
from gpushard.transforms.values.mapped import Mapped, as_result, mapped, spread
from gpushard.typing import Shape


@dataclass(frozen=True, eq=False)
class Labels:
    """One array, said in two ways: with some dims split, and with named dims for these splits."""

    whole: NamedSharding  # how it lies without names
    whole_tiling: Tiling  # its boxes then
    named: NamedSharding  # how it lies with them
    named_tiling: Tiling  # its boxes then


@functools.lru_cache(maxsize=4096)
def labels(
    mesh: Mesh, axes: tuple[str, ...], spec: PartitionSpec, shape: Shape, lead: Splits, kept: Splits
) -> Labels:
    """Return how axes of a mesh that split dims become named dims. Pure.

    Args:
      mesh: the mesh.
      axes: those that are named where they split something, in their order.
      spec: which of them split which dim; its dims are those after `lead`.
      shape: of the array without names; all axes divide its dims.
      lead: for each dim in front the axes that it keeps.
      kept: for each other dim the axes that split it further, and do not become names.
    """
    named = [axis for axis in axes if axis in spec.all_axes()]
    body = shape[len(lead) :]
    blocks = [
        n // math.prod(mesh.shape[axis] for axis in spec.axes(dim)) for dim, n in enumerate(body)
    ]
    whole = [(*spec.axes(dim), *kept[dim]) for dim in range(len(body))]
    while whole and not whole[-1] and len(whole) > len(spec):
        whole.pop()
    sharding = NamedSharding(mesh, spec if not (lead or any(kept)) else P(*lead, *whole))
    inner = NamedSharding(mesh, P(*lead, *named, *kept))
    sizes = (*shape[: len(lead)], *(mesh.shape[axis] for axis in named), *blocks)
    return Labels(sharding, sharding.tiling(shape), inner, inner.tiling(sizes))


def relabel(x: Any, tiling: Tiling, sharding: Sharding, *, inside: bool = False) -> Any:
    """Return an array whose devices hold the same elements in blocks of other shapes.

    Nothing is copied: the blocks share memory with those of `x`. What is `inside` of a function is
    none of the arrays that users have.
    """
    if is_traced(x):
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


def _placed(x: Any, sharding: Sharding, tiling: Tiling) -> Any:
    """Return an array, or data on the host, where it is wanted."""
    if not isinstance(x, Array):
        return implicitly_put(x, "shard_map", sharding)
    if x._held().tiling is tiling:
        return x
    return x._moved(sharding, "what goes into or out of a mapped function")


def entered(x: Any, spec: PartitionSpec, names: Sequence[Any], frame: Frame, number: int) -> Mapped:
    """Return what a function sees of an argument, whose split dims get names.

    Args:
      x: an array, data on the host, or a value of the call around this one.
      spec: which axes split which dim.
      names: the names of the call, one for each of its axes, in their order.
      frame: the call.
      number: of the argument.
    """
    source: Any = (frame, number)
    outer: Names = ()
    if type(x) is Mapped:
        x._check_open()
        x, outer, source = x._value, x._names, x._source or source
    mesh, shape = frame.mesh, x.shape if hasattr(x, "shape") else ()
    assert mesh is not None
    lead = tuple([name.place or () for name in outer])
    both = outer and {axis for places in lead for axis in places} & set(spec.all_axes())
    if both:
        raise ArgumentError(
            f"{frame.what}: in_specs has {spec} for {frame.label(number)}, and {sorted(both)} "
            "split a dim that vmap maps around it (spmd_axis_name=); name other axes in one",
            argument="in_specs",
            axes=sorted(both),
        )
    axes = tuple([name.axes[0] for name in names])
    kept = _kept(x, len(outer), mesh, axes, shape, spec)
    way = labels(mesh, axes, spec, shape, lead, kept)
    value = _placed(x, way.whole, way.whole_tiling)
    named = tuple([name for name in names if name.axes[0] in spec.all_axes()])
    value = relabel(value, way.named_tiling, way.named, inside=True)
    frame.not_returned.add(id(value))
    return mapped(value, outer + named, frame, source)


def left(x: Mapped, spec: PartitionSpec, names: Sequence[Any], frame: Frame) -> Any:
    """Return a result of a function as an array whose dims are split as a spec says.

    Args:
      x: the value; it has no other of the names than the spec names.
      spec: which axes split which dim.
      names: the names of the call.
      frame: the call.

    Returns:
      An array; a value of the call around this one where it has names of that.
    """
    mesh = frame.mesh
    assert mesh is not None
    split = set(spec.all_axes())
    outer = tuple([name for name in x._names if name not in names])
    x = spread(x, outer + tuple([name for name in names if name.axes[0] in split]))
    value, body = x._value, x._shape
    sizes = [
        n * math.prod(mesh.shape[axis] for axis in spec.axes(dim)) for dim, n in enumerate(body)
    ]
    lead = tuple([name.place or () for name in outer])
    axes = tuple([name.axes[0] for name in names])
    kept = _kept(value, len(x._names), mesh, axes, value._shape, P())
    way = labels(mesh, axes, spec, value._shape[: len(outer)] + tuple(sizes), lead, kept)
    value = _placed(value, way.named, way.named_tiling)
    if split or value._sharding != way.whole:
        value = relabel(value, way.whole_tiling, way.whole)
    return as_result(value, outer, frame, x._source)


def _kept(
    x: Any, lead: int, mesh: Mesh, axes: tuple[str, ...], shape: Shape, spec: PartitionSpec
) -> Splits:
    """Return the other axes of the mesh that split each dim of an array after the first ones.

    They stay if they divide what is left of the dim.
    """
    none: Splits = ((),) * (len(shape) - lead)
    if len(axes) == len(mesh.axis_names):
        return none
    sharding = getattr(x, "_sharding", None)
    if not isinstance(sharding, NamedSharding) or sharding.mesh != mesh:
        return none
    found = []
    for dim in range(lead, len(shape)):
        own = tuple(axis for axis in sharding.spec.axes(dim) if axis not in axes)
        parts = math.prod(mesh.shape[axis] for axis in (*spec.axes(dim - lead), *own))
        found.append(own if shape[dim] % parts == 0 else ())
    return tuple(found)
