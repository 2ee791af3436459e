"""The default placement of new data: a device, or a mesh and a spec."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gpushard._frozen import dataclass
from gpushard._functions.shapes import as_shape
from gpushard._geometry.mesh import (
    AxisType,
    Mesh,
    check_devices,
    create_device_mesh,
    current_mesh,
    mesh_around,
    provide_mesh,
)
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import PartitionSpec
from gpushard._geometry.sharding import Sharding, SingleDeviceSharding
from gpushard._options import Option, offer
from gpushard._placement.devices import default_backend, local_devices
from gpushard._runtime import current_runtime
from gpushard._runtime.runtime import Device
from gpushard._typing import Shape
from gpushard.errors import ArgumentTypeError, MeshError


@dataclass(frozen=True)
class OverMesh:
    """A mesh as the default placement of new data."""

    mesh: Mesh
    spec: PartitionSpec | None  # the split of data; None chooses one by its shape


_default = Option("default_placement", None)
"""The default placement: a device or a mesh; None for the first device."""

_REPLICATED = PartitionSpec()


@contextlib.contextmanager
def default_device(device: Device | str | None) -> Iterator[None]:
    """Put new arrays on a device in a `with` block, unless a call chooses another place.

    Args:
      device: one of `devices()`. "cpu" or "gpu" means the first device of that platform, None the
        first of all devices.

    Raises:
      ArgumentTypeError: `device` is neither a device, nor a platform, nor None.
      NoDeviceError: the platform has no devices.

    >>> import gpushard as gs
    >>> with default_device(gs.devices()[1]):
    ...     gs.device_put(1.0).device.id
    1
    """
    with _default.within(_chosen(device)):
        yield


def _chosen(device: Device | str | None) -> Device | None:
    """Return a device, the first device of a platform, or None."""
    if isinstance(device, str):
        return local_devices(device)[0]
    if device is not None and not isinstance(device, Device):
        raise ArgumentTypeError.refusing(
            "device", device, 'must be one of gpushard.devices(), "cpu" or "gpu", or None'
        )
    return device


offer("default_device", lambda: _default.get(), lambda device: _default.set(_chosen(device)))


@contextlib.contextmanager
def use_mesh(mesh: Mesh, spec: PartitionSpec | str = _REPLICATED) -> Iterator[Mesh]:
    """Put new arrays on all devices of a mesh in a `with` block, unless a call chooses others.

    This applies to `device_put`, `gpushard.numpy.asarray` and the functions that create arrays.
    Their results are uncommitted: an operation moves them to the devices of its committed operands.
    The innermost `use_mesh` or `default_device` decides. A `PartitionSpec` without a mesh refers to
    this mesh, too, unless a `with mesh:` block is active.

    Args:
      mesh: the mesh.
      spec: the mesh axes that split each axis of a new array. Entries for axes that the array does
        not have, or that have length 0 or 1, are ignored. "auto" splits the longest axes over the
        largest axes. By default every device has a replica.

    Raises:
      ArgumentTypeError: `mesh` is not a mesh of devices, or `spec` is neither a spec nor "auto".
      ShardingError: the mesh does not have an axis in `spec`.

    >>> import gpushard as gs
    >>> with use_mesh(gs.make_mesh((4,), "x"), "auto"):
    ...     gs.numpy.zeros((3, 8)).sharding.spec
    PartitionSpec(None, 'x')
    """
    if not isinstance(mesh, Mesh):
        raise ArgumentTypeError.refusing(
            "mesh", mesh, "must be a Mesh of devices, such as make_mesh gives"
        )
    if spec != "auto" and not isinstance(spec, PartitionSpec):
        raise ArgumentTypeError.refusing("spec", spec, 'must be a PartitionSpec or "auto"')
    named = spec if isinstance(spec, PartitionSpec) else None
    NamedSharding(mesh, named or _REPLICATED)  # raises for unknown axes
    with _default.within(OverMesh(mesh, named)):
        yield mesh


def surroundings() -> tuple[Any, ...]:
    """Return the settings that traced functions depend on: default placement and current mesh.

    Both are hashable. The mesh that a bare `PartitionSpec` refers to follows from them.
    """
    return _default.get(), current_mesh()


def default_mesh() -> Mesh | None:
    """Return the mesh that new data goes to, or None if it goes to a device."""
    default = _default.get()
    return default.mesh if isinstance(default, OverMesh) else None


provide_mesh(default_mesh)


def get_default_device() -> Device:
    """Return the device that new data goes to; the first device of a mesh."""
    default = _default.get()
    if isinstance(default, OverMesh):
        first: Any = default.mesh.assignment[0]
        device: Device = first
        return device
    chosen: Device = default or current_runtime.current().devices[0]
    return chosen


def default_sharding(shape: Shape) -> Sharding:
    """Return the default sharding of new data of a shape."""
    default = _default.get()
    if isinstance(default, OverMesh):
        if default.spec is None:
            return NamedSharding(default.mesh, spread(shape, default.mesh.shape))
        return NamedSharding(default.mesh, cut_spec(default.spec, shape))
    return SingleDeviceSharding(get_default_device())


def everywhere(sharding: Sharding) -> Sharding:
    """Return the replicated sharding on the devices of a sharding, for arrays of any rank.

    Arrays in it lie in the memory of the devices, for all memory kinds of the sharding.
    """
    if isinstance(sharding, NamedSharding):
        return NamedSharding(sharding.mesh, _REPLICATED)
    if isinstance(sharding, SingleDeviceSharding) and sharding.memory_kind == "device":
        return sharding
    devices: list[Any] = sorted(sharding.device_set, key=lambda device: device.id)
    if len(devices) == 1:
        return SingleDeviceSharding(devices[0])
    return NamedSharding(Mesh(np.array(devices, object), ("devices",)), _REPLICATED)


def get_mesh() -> Mesh | None:
    """Return the current mesh, to which a `PartitionSpec` without a mesh refers, or None.

    >>> import gpushard as gs
    >>> with gs.set_mesh(gs.make_mesh((4,), "x")):
    ...     gs.get_mesh()
    Mesh('x': 4)
    """
    return mesh_around()


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: str | Sequence[str],
    axis_types: Sequence[AxisType] | None = None,
    *,
    devices: Sequence[Any] | None = None,
) -> Mesh:
    """Arrange devices in a grid with named axes.

    Args:
      axis_shapes: size of each axis.
      axis_names: name of each axis.
      axis_types: as for `Mesh`, but by default `AxisType.Explicit`.
      devices: the devices, in row-major order of the grid; by default as many of
        `gpushard.devices()` as the grid has positions.

    Returns:
      The mesh.

    Raises:
      MeshError: there are too few devices, or sizes and names do not match.

    >>> make_mesh((4, 2), ("x", "y"))
    Mesh('x': 4, 'y': 2)
    """
    chosen: Sequence[Any]
    chosen = current_runtime.current().devices if devices is None else check_devices(devices)
    sizes = as_shape(axis_shapes, "axis_shapes")
    needed = math.prod(sizes)
    if not needed:
        raise MeshError.refusing(
            "axis_shapes",
            sizes,
            "must be positive; leave out axes that you do not need",
            sizes=sizes,
        )
    if devices is not None and needed != len(chosen):
        raise MeshError(
            f"axis_shapes={sizes} needs {needed} devices, got {len(chosen)}; change the sizes or "
            "pass that many devices",
            argument="axis_shapes",
            sizes=sizes,
            devices=len(chosen),
        )
    if needed > len(chosen):
        more = {
            "cpu": f"start with GPUSHARD_HOST_DEVICES={needed}",
            "gpu": "divide each GPU into devices with GPUSHARD_PARTITIONS",
        }
        raise MeshError(
            f"axis_shapes={sizes} needs {needed} devices, there are {len(chosen)}; use a smaller "
            f"mesh, or {more[default_backend()]}",
            argument="axis_shapes",
            sizes=sizes,
            devices=len(chosen),
        )
    types = (AxisType.Explicit,) * len(sizes) if axis_types is None else axis_types
    return Mesh(create_device_mesh(sizes, chosen[:needed]), axis_names, types)


def cut_spec(spec: PartitionSpec, shape: Shape) -> PartitionSpec:
    """Drop the entries of a spec beyond the rank, and those of dims of length 1 or 0.

    >>> cut_spec(PartitionSpec("x", "y", "z"), (8, 1))
    PartitionSpec('x', None)
    """
    return PartitionSpec(*(e if n > 1 else None for e, n in zip(spec, shape, strict=False)))


def spread(shape: Shape, axes: Mapping[str, int]) -> PartitionSpec:
    """Return a spec that cuts the longest dims by the largest mesh axes.

    Each axis, the largest first, cuts the dim with the longest blocks so far. If these are shorter
    than the axis, some devices get nothing. If all blocks have one element, the axis is left out.

    >>> spread((8, 6), {"x": 2, "y": 4}), spread((3, 1), {"x": 4}), spread((), {"x": 4})
    (PartitionSpec('y', 'x'), PartitionSpec('x', None), PartitionSpec())
    """
    blocks = list(shape)
    names: list[tuple[str, ...]] = [()] * len(shape)
    for name, size in sorted(axes.items(), key=lambda item: -item[1]):
        longest = max(blocks, default=0)
        if longest <= 1 or size == 1:
            continue
        dim = blocks.index(longest)
        names[dim] += (name,)
        blocks[dim] = -(-longest // size)
    return PartitionSpec(*names)
