"""`GlobalDeviceArray`: an array over a mesh, made of the shards that a process has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from gpushard.array.array import Array
from gpushard.array.shard import Shard
from gpushard.errors import ArgumentError, ArgumentTypeError, ShardingError, UnsupportedError
from gpushard.functions.checks import as_shape
from gpushard.geometry.mesh import Mesh
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import PartitionSpec
from gpushard.legacy.face import Face, Kind
from gpushard.placement.defaults import make_mesh
from gpushard.placement.device_put import device_put
from gpushard.placement.make_array import (
    make_array_from_callback,
    make_array_from_single_device_arrays,
)
from gpushard.typing import Index, Shape


class GlobalDeviceArray(Face, metaclass=Kind):
    """An array over a mesh, made of the shards that this process has.

    Any `Array` with shards out of reach of this process is an instance; this makes one with the
    attributes that such an array had. Functions take it like an `Array`, and give `Array`s.

    Args:
      global_shape: shape of the array.
      global_mesh: the mesh, of all processes.
      mesh_axes: for each dim the mesh axis that splits it, a tuple of axes, or None; it may be
        shorter than the shape.
      device_buffers: an `Array` for each of `global_mesh.local_devices`, in that order.

    Raises:
      ArgumentTypeError: an argument has another type, or types of elements differ.
      ShardingError: axes do not fit the mesh or the shape, or the shards don't; or they are in
        another order.

    >>> import gpushard as gs
    >>> gs.legacy.GlobalDeviceArray.from_callback(
    ...     (4,), gs.make_mesh((2,), "x"), ["x"], lambda index: np.arange(4)[index]
    ... )
    GlobalDeviceArray(shape=(4,), dtype=int64, mesh=('x': 2), mesh_axes=('x',))
    """

    __slots__ = ("_mesh_axes",)

    pmap_takes = False

    _mesh_axes: tuple[Any, ...]
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        global_shape: Any,
        global_mesh: Mesh,
        mesh_axes: Sequence[Any],
        device_buffers: Sequence[Array],
    ) -> None:
        shape, sharding = _placement(global_shape, global_mesh, mesh_axes)
        buffers = list(device_buffers)
        for position, buffer in enumerate(buffers):
            if not isinstance(buffer, Array):
                raise ArgumentTypeError(
                    f"device_buffers[{position}] is a {type(buffer).__name__}; each must be an "
                    "Array on one device",
                    argument="device_buffers",
                    position=position,
                    type=type(buffer),
                )
        array = make_array_from_single_device_arrays(shape, sharding, buffers)
        order = [next(iter(buffer.devices())) for buffer in buffers]
        if order != global_mesh.local_devices:
            raise ShardingError(
                f"device_buffers are on {order}, in this order; give them in the order of "
                f"global_mesh.local_devices: {global_mesh.local_devices}",
                argument="device_buffers",
                devices=order,
                expected=global_mesh.local_devices,
            )
        self._adopt(array)
        self._mesh_axes = tuple(mesh_axes)

    @classmethod
    def _of(cls, array: Array, mesh_axes: Sequence[Any]) -> GlobalDeviceArray:
        made: GlobalDeviceArray = object.__new__(cls)
        made._adopt(array)
        made._mesh_axes = tuple(mesh_axes)
        return made

    @classmethod
    def _was(cls, x: Array) -> bool:
        return not x.is_fully_addressable

    @classmethod
    def from_callback(
        cls,
        global_shape: Any,
        global_mesh: Mesh,
        mesh_axes: Sequence[Any],
        data_callback: Callable[[Index], Any],
    ) -> GlobalDeviceArray:
        """Make an array from a function that gives the data of a box.

        Args:
          global_shape: shape of the array.
          global_mesh: the mesh.
          mesh_axes: for each dim the mesh axes that split it.
          data_callback: takes slices of the array and returns their data; called once for every
            distinct box that this process holds, not for each replica.

        Raises:
          ShardingError: axes do not fit, or data has not the shape of its box.
        """
        shape, sharding = _placement(global_shape, global_mesh, mesh_axes)
        return cls._of(make_array_from_callback(shape, sharding, data_callback), mesh_axes)

    @classmethod
    def from_batched_callback(
        cls,
        global_shape: Any,
        global_mesh: Mesh,
        mesh_axes: Sequence[Any],
        data_callback: Callable[[Sequence[Index]], Sequence[Any]],
    ) -> GlobalDeviceArray:
        """Make an array from a function that gives the data of all boxes at once.

        Args:
          global_shape: shape of the array.
          global_mesh: the mesh.
          mesh_axes: for each dim the mesh axes that split it.
          data_callback: takes a list with the slices of each of `global_mesh.local_devices`, also
            where several have the same, and returns a list of their data.

        Raises:
          ShardingError: axes do not fit, or data has not the shape of its box.
          ArgumentError: the list has another length.
        """
        shape, sharding = _placement(global_shape, global_mesh, mesh_axes)
        indices = sharding.addressable_devices_indices_map(shape)
        data = _checked_list(data_callback(list(indices.values())), len(indices))
        buffers = [device_put(x, device) for x, device in zip(data, indices, strict=True)]
        return cls(global_shape, global_mesh, mesh_axes, buffers)

    @classmethod
    def from_batched_callback_with_devices(
        cls,
        global_shape: Any,
        global_mesh: Mesh,
        mesh_axes: Sequence[Any],
        data_callback: Callable[[Sequence[tuple[Index, tuple[Any, ...]]]], Sequence[Array]],
    ) -> GlobalDeviceArray:
        """Make an array from a function that puts the data of all boxes on their devices.

        Args:
          global_shape: shape of the array.
          global_mesh: the mesh.
          mesh_axes: for each dim the mesh axes that split it.
          data_callback: takes a list of (slices, devices that hold them), each box once, and
            returns a list of `Array`s, one for each device, in the order of the devices there.

        Raises:
          ShardingError: axes do not fit, or an array has not the shape of its box, or is elsewhere.
          ArgumentError: the list has another length.
        """
        shape, sharding = _placement(global_shape, global_mesh, mesh_axes)
        tiling = sharding.tiling(shape)
        local = global_mesh.local_devices
        boxes: dict[int, list[int]] = {}
        for position in tiling.addressable:
            boxes.setdefault(int(tiling.assignment.flat[position]), []).append(position)
        asked = [
            (tiling.indices[group[0]], tuple(global_mesh.assignment[n] for n in group))
            for group in boxes.values()
        ]
        wanted = [device for _, group in asked for device in group]
        data = _checked_list(data_callback(asked), len(wanted))
        placed = dict(zip(wanted, data, strict=True))
        for device, array in placed.items():
            if not isinstance(array, Array) or array.devices() != {device}:
                raise ShardingError(
                    f"data_callback returned {_where(array)} for {device!r}; return an Array on "
                    "each device, in the order in which it was given them",
                    argument="data_callback",
                    device=device,
                )
        return cls(global_shape, global_mesh, mesh_axes, [placed[device] for device in local])

    @property
    def mesh(self) -> Mesh:
        """The mesh."""
        sharding: Any = self._sharding
        mesh: Mesh = sharding.mesh
        return mesh

    @property
    def mesh_axes(self) -> tuple[Any, ...]:
        """For each dim the mesh axes that split it, as they were given."""
        return self._mesh_axes

    @property
    def local_shards(self) -> list[Shard[Any]]:
        """The shards that this process can reach; today's name is `addressable_shards`."""
        return self.addressable_shards

    def local_data(self, index: int) -> Array:
        """Return the data of one shard; today's name is `addressable_data`.

        Args:
          index: position among `local_shards`.

        Raises:
          ArrayIndexError: there are not as many.
        """
        return self.addressable_data(index)

    def __eq__(self, other: object) -> NoReturn:
        raise UnsupportedError(
            "a GlobalDeviceArray is not compared with ==: no process has all of its elements. "
            "Compare its shards, or the Array that gs.numpy.copy(x) gives",
            argument="self",
        )

    __ne__ = __eq__

    def __reduce__(self) -> tuple[Any, ...]:
        buffers = [shard.data for shard in self.addressable_shards]
        return GlobalDeviceArray, (self._shape, self.mesh, self._mesh_axes, buffers)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name!r}: {size}" for name, size in self.mesh.shape.items())
        return (
            f"GlobalDeviceArray(shape={self._shape}, dtype={self._dtype.name}, mesh=({sizes}), "
            f"mesh_axes={self._mesh_axes})"
        )

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)


def mesh(devices: Any, axis_names: str | Sequence[str]) -> Mesh:
    """Return a mesh, which is the current one within `with`.

    Args:
      devices: an array of devices with a dim for each axis; or sizes of the axes, by name or in
        order, for as many of `gpushard.devices()`.
      axis_names: name of each axis.

    Raises:
      MeshError: devices and names do not match.

    >>> import gpushard as gs
    >>> with mesh({"x": 2, "y": 2}, ("x", "y")):
    ...     gs.get_mesh()
    Mesh('x': 2, 'y': 2)
    """
    if isinstance(devices, Mapping):
        devices = tuple(devices.values())
    if np.array(devices).dtype.kind in "iu":
        return make_mesh(devices, axis_names)
    return Mesh(devices, axis_names)


def _placement(shape: Any, mesh: Any, axes: Any) -> tuple[Shape, NamedSharding]:
    """Return what a shape, a mesh and names of its axes say."""
    sizes = as_shape(shape, "global_shape")
    if not isinstance(mesh, Mesh):
        raise ArgumentTypeError.refusing("global_mesh", mesh, "must be a Mesh of devices")
    if isinstance(axes, str) or not isinstance(axes, Sequence):
        raise ArgumentTypeError(
            f"mesh_axes={axes!r} must be a sequence with a mesh axis, a tuple of them, or None for "
            "each dim",
            argument="mesh_axes",
            type=type(axes),
        )
    return sizes, NamedSharding(mesh, PartitionSpec(*axes))


def _checked_list(data: Any, needed: int) -> list[Any]:
    found = list(data)
    if len(found) != needed:
        raise ArgumentError(
            f"data_callback returned {len(found)} arrays, {needed} are needed: one for each device",
            argument="data_callback",
            returned=len(found),
            needed=needed,
        )
    return found


def _where(x: Any) -> str:
    return f"an array on {list(x.devices())}" if isinstance(x, Array) else f"a {type(x).__name__}"
