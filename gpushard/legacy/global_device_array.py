"""`GlobalDeviceArray`: an array over a mesh, made from the shards of this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from gpushard._array.array import Array
from gpushard._array.shard import Shard
from gpushard._functions.shapes import as_shape
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import PartitionSpec
from gpushard._placement.default_placement import make_mesh
from gpushard._placement.device_put import device_put
from gpushard._placement.make_array import (
    make_array_from_callback,
    make_array_from_single_device_arrays,
)
from gpushard._typing import Index, Shape
from gpushard.errors import ArgumentError, ArgumentTypeError, ShardingError, UnsupportedError
from gpushard.legacy.older_array import Face, Kind


class GlobalDeviceArray(Face, metaclass=Kind):
    """An array over a mesh, with the attributes of JAX's older `GlobalDeviceArray`.

    New programs use an `Array` with a `NamedSharding`. Functions take a `GlobalDeviceArray` like an
    `Array`, and return an `Array`. `isinstance(x, GlobalDeviceArray)` is also true for any `Array`
    with shards that this process cannot reach.

    Args:
      global_shape: the shape of the array.
      global_mesh: the mesh, with the devices of all processes.
      mesh_axes: for each array axis the mesh axis that splits it, a tuple of mesh axes, or None.
        Entries for the last axes may be left out.
      device_buffers: the shards: an `Array` on each of `global_mesh.local_devices`, in this order.

    Raises:
      ArgumentTypeError: an argument has a wrong type, or the dtypes of the shards differ.
      ShardingError: `mesh_axes` does not fit the mesh or the shape. Or a shard has a wrong shape,
        or is on a wrong device.

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
                    "Array on one device. Try: device_put(x, device)",
                    argument="device_buffers",
                    position=position,
                    type=type(buffer),
                )
        array = make_array_from_single_device_arrays(shape, sharding, buffers)
        order = [next(iter(buffer.devices())) for buffer in buffers]
        if order != global_mesh.local_devices:
            raise ShardingError(
                f"device_buffers are on {order}, in this order. Try: give them in the order of "
                f"global_mesh.local_devices: {global_mesh.local_devices}",
                argument="device_buffers",
                devices=order,
                expected=global_mesh.local_devices,
            )
        self._adopt(array)
        self._mesh_axes = tuple(mesh_axes)

    @classmethod
    def _of(cls, array: Array, mesh_axes: Sequence[Any]) -> GlobalDeviceArray:
        self: GlobalDeviceArray = object.__new__(cls)
        self._adopt(array)
        self._mesh_axes = tuple(mesh_axes)
        return self

    @classmethod
    def _matches(cls, x: Array) -> bool:
        return not x.is_fully_addressable

    @classmethod
    def from_callback(
        cls,
        global_shape: Any,
        global_mesh: Mesh,
        mesh_axes: Sequence[Any],
        data_callback: Callable[[Index], Any],
    ) -> GlobalDeviceArray:
        """Make an array from a function that returns the data of each shard.

        Args:
          global_shape: the shape of the array.
          global_mesh: the mesh.
          mesh_axes: for each array axis the mesh axes that split it, as for `GlobalDeviceArray`.
          data_callback: a function that takes the index of a shard, a tuple of slices, and returns
            the data there. The function is called once for each distinct shard of this process.

        Raises:
          ShardingError: `mesh_axes` does not fit the mesh or the shape, or data has another shape
            than its shard.
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
        """Make an array from a function that returns the data of all shards at once.

        Args:
          global_shape: the shape of the array.
          global_mesh: the mesh.
          mesh_axes: for each array axis the mesh axes that split it, as for `GlobalDeviceArray`.
          data_callback: a function that takes a list of indices, tuples of slices, one for each of
            `global_mesh.local_devices`. It returns a list of the data at these indices. Replicas
            have their own entries.

        Raises:
          ShardingError: `mesh_axes` does not fit the mesh or the shape, or data has another shape
            than its shard.
          ArgumentError: the list that `data_callback` returns has another length.
        """
        shape, sharding = _placement(global_shape, global_mesh, mesh_axes)
        indices = sharding.addressable_devices_indices_map(shape)
        data = _check_list(data_callback(list(indices.values())), len(indices))
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
        """Make an array from a function that puts the data of all shards on their devices.

        Args:
          global_shape: the shape of the array.
          global_mesh: the mesh.
          mesh_axes: for each array axis the mesh axes that split it, as for `GlobalDeviceArray`.
          data_callback: a function that takes a list of pairs (index, devices), one for each
            distinct shard. It returns a list with an `Array` for each of these devices, in the same
            order.

        Raises:
          ShardingError: `mesh_axes` does not fit the mesh or the shape. Or an array has another
            shape than its shard, or is on another device.
          ArgumentError: the list that `data_callback` returns has another length.
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
        data = _check_list(data_callback(asked), len(wanted))
        placed = dict(zip(wanted, data, strict=True))
        for device, array in placed.items():
            if not isinstance(array, Array) or array.devices() != {device}:
                raise ShardingError(
                    f"data_callback returned {_where(array)} for {device!r}. Try: return an Array "
                    "on each device, in the order of the devices in its argument",
                    argument="data_callback",
                    device=device,
                )
        return cls(global_shape, global_mesh, mesh_axes, [placed[device] for device in local])

    @property
    def mesh(self) -> Mesh:
        """The mesh of the array, with the devices of all processes."""
        sharding: Any = self._sharding
        mesh: Mesh = sharding.mesh
        return mesh

    @property
    def mesh_axes(self) -> tuple[Any, ...]:
        """For each array axis the mesh axes that split it, as you passed them."""
        return self._mesh_axes

    @property
    def local_shards(self) -> list[Shard[Any]]:
        """The shards that this process can reach; an older name of `addressable_shards`."""
        return self.addressable_shards

    def local_data(self, index: int) -> Array:
        """Return the data of one shard; an older name of `addressable_data`.

        Args:
          index: the position in `local_shards`.

        Raises:
          ArrayIndexError: `index` is out of range.
        """
        return self.addressable_data(index)

    def __eq__(self, other: object) -> NoReturn:
        raise UnsupportedError(
            "a GlobalDeviceArray cannot be compared with ==: no process has all of its elements. "
            "Try: compare its shards, or the Array that gs.numpy.copy(x) returns",
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
    """Make a mesh, which is the current mesh in a `with` block.

    Args:
      devices: an array of devices with a dimension for each mesh axis. Or the sizes of the mesh
        axes, as a dict by name or as a sequence; the mesh then has the first devices of
        `gpushard.devices()`.
      axis_names: the name of each mesh axis.

    Raises:
      MeshError: the number of dimensions or sizes differs from the number of names.

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
    """Check a shape and mesh axes, and make their sharding."""
    sizes = as_shape(shape, "global_shape")
    if not isinstance(mesh, Mesh):
        raise ArgumentTypeError.refusing("global_mesh", mesh, "must be a Mesh of devices")
    if isinstance(axes, str) or not isinstance(axes, Sequence):
        raise ArgumentTypeError(
            f"mesh_axes={axes!r} must be a sequence with a mesh axis, a tuple of them, or None for "
            "each axis of the array",
            argument="mesh_axes",
            type=type(axes),
        )
    return sizes, NamedSharding(mesh, PartitionSpec(*axes))


def _check_list(data: Any, needed: int) -> list[Any]:
    arrays = list(data)
    if len(arrays) != needed:
        raise ArgumentError(
            f"data_callback returned {len(arrays)} arrays, {needed} are needed: one per device",
            argument="data_callback",
            returned=len(arrays),
            needed=needed,
        )
    return arrays


def _where(x: Any) -> str:
    return f"an array on {list(x.devices())}" if isinstance(x, Array) else f"a {type(x).__name__}"
