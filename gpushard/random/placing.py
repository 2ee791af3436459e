"""Where random numbers go: each shard is made where it will live, and only the key moves there."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.frozen import dataclass
from gpushard.functions.checks import place_tiling
from gpushard.geometry.mesh import Mesh
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import PartitionSpec
from gpushard.geometry.sharding import Sharding, SingleDeviceSharding
from gpushard.placement.defaults import default_sharding
from gpushard.placement.device_put import as_sharding, device_put
from gpushard.typing import Shape


@dataclass(frozen=True)
class Place:
    """Where a result goes."""

    sharding: Sharding | None
    """How it is made, in the memory of devices; None for where its operands are."""

    end: Sharding | None = None
    """Where it goes after that, if that is another kind of memory."""

    committed: bool = True
    """Whether somebody chose it."""

    def finish(self, made: Array) -> Array:
        """Return what was made as it is wanted."""
        if self.end is not None:
            moved: Array = device_put(made, self.end)
            return moved
        return made if self.committed else uncommitted(made)


def result_place(out_sharding: Any, shape: Shape, key: Array, *parameters: Any) -> Place:
    """Return where a result goes.

    To `out_sharding`; else beside parameters that are arrays with dims; else where a committed key
    is; else where new data goes by default.

    Args:
      out_sharding: a sharding; a spec, over the mesh of the first parameter that has one, or that
        of `use_mesh`; or None.
      shape: of the result.
      key: its words.
      *parameters: of the distribution.

    Raises:
      ShardingError: the sharding does not fit the shape.
    """
    arrays = [x for x in parameters if isinstance(x, Array)]
    if out_sharding is not None:
        named = [x.sharding for x in arrays if isinstance(x.sharding, NamedSharding)]
        if isinstance(out_sharding, PartitionSpec) and named:
            wanted: Sharding = named[0].with_spec(out_sharding)
        else:
            wanted = as_sharding(out_sharding, len(shape), "out_sharding")
        place_tiling(wanted, shape)
        if wanted.memory_kind == "device":
            return Place(wanted)
        return Place(wanted.with_memory_kind("device"), wanted)
    traced = any(hasattr(x, "interpreter") for x in (key, *parameters))
    if traced or key.committed or any(x.shape for x in arrays):
        return Place(None)
    return Place(default_sharding(shape), committed=False)


def beside(key: Array, place: Place, *parameters: Any) -> Array:
    """Return a key on all devices that a result goes to; it stays where it decides itself."""
    if place.sharding is not None:
        target = replicated(place.sharding)
    else:
        others = [x for x in parameters if isinstance(x, Array) and x.shape]
        if key.committed or not others:
            return key
        target = replicated(others[0].sharding)
    if key.sharding == target and (key.committed or not place.committed):
        return key
    moved: Array = device_put(key, target)
    return moved if place.committed and place.sharding is not None else uncommitted(moved)


def replicated(sharding: Sharding) -> Sharding:
    """Return what puts an array whole on all devices of a sharding, in their own memory."""
    if isinstance(sharding, NamedSharding):
        return NamedSharding(sharding.mesh, PartitionSpec())
    devices: list[Any] = sorted(sharding.device_set, key=lambda device: device.id)
    if len(devices) == 1:
        return SingleDeviceSharding(devices[0])
    return NamedSharding(Mesh(np.array(devices, object), ("devices",)), PartitionSpec())


def uncommitted(x: Array) -> Array:
    """Return an array that follows others."""
    return Array(x._live(), x.sharding, committed=False) if x.committed else x


def follow(result: Any, out_sharding: Any, x: Any) -> Any:
    """Return a result in the sharding that was asked for; a spec is over the mesh of `x`."""
    place = result_place(out_sharding, result.shape, x, x)
    return result if place.sharding is None else device_put(result, place.end or place.sharding)
