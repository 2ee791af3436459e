"""`DeviceArray` and `ShardedDeviceArray`: the older classes of arrays on one or more devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from gpushard._array.array import Array
from gpushard._array.data import Data, is_gone
from gpushard._array.shape_dtype import ShapeDtypeStruct
from gpushard._geometry.older.pmap_gspmd_sharding import PmapSharding
from gpushard._geometry.older.sharding_spec import ShardingSpec, pmap_sharding_spec, spec_to_indices
from gpushard._placement.make_array import device_of_array, make_array_from_single_device_arrays
from gpushard._runtime.runtime import Device
from gpushard.errors import ArgumentTypeError, DeletedShardsError, ShardingError
from gpushard.legacy.older_array import Face, Kind


class DeviceArray(metaclass=Kind):
    """JAX's older class of arrays on one device, for `isinstance`.

    Create such an array with `make_device_array` or `device_put`, not with this class.

    >>> import gpushard as gs
    >>> isinstance(gs.device_put(1.0), DeviceArray)
    True
    """

    def __new__(cls, *args: Any, **named: Any) -> NoReturn:
        """Raise: an `Array` on one device is an instance."""
        raise ArgumentTypeError(
            "a DeviceArray is an Array on one device, and the class makes none. Try: "
            "device_put(x, device), or make_device_array",
            argument="DeviceArray",
        )

    @staticmethod
    def _matches(x: Array) -> bool:
        return x.is_fully_addressable and x.sharding.num_devices == 1


class ShardedDeviceArray(Face, metaclass=Kind):
    """An array with one shard on each device, and the attributes of JAX's older class.

    In older versions of JAX, `pmap` returned such arrays. Functions take a `ShardedDeviceArray`
    like an `Array`, and return an `Array`. `isinstance(x, ShardedDeviceArray)` is also true for any
    `Array` on several devices.

    Args:
      aval: the shape and dtype of the array, a `ShapeDtypeStruct`.
      sharding_spec: a `ShardingSpec`. None gives each device one element along axis 0. So does the
        call `ShardedDeviceArray(aval, device_buffers)`.
      device_buffers: the shards: an array on each device, in the order of the spec.
      indices: the result of `spec_to_indices`, if you have computed it.

    Raises:
      ArgumentTypeError: an argument has a wrong type, or a shard has another dtype.
      ShardingError: the spec or a shard does not fit the shape.

    >>> import gpushard as gs
    >>> import numpy as np
    >>> rows = [gs.device_put(np.full(3, d.id), d) for d in gs.devices()[:2]]
    >>> x = ShardedDeviceArray(gs.ShapeDtypeStruct((2, 3), int), rows)
    >>> x.indices[1], x.one_replica_buffer_indices
    ((1, slice(None, None, None)), [0, 1])
    >>> x.device_buffers[1]
    Array([1, 1, 1], dtype=int64)
    """

    __slots__ = ("_indices", "_spec")

    _spec: ShardingSpec | None
    _indices: tuple[Any, ...] | None

    def __init__(
        self,
        aval: ShapeDtypeStruct,
        sharding_spec: Any = None,
        device_buffers: Sequence[Array] | None = None,
        indices: Sequence[Any] | None = None,
    ) -> None:
        if device_buffers is None:
            sharding_spec, device_buffers = None, sharding_spec
        _check_aval(aval)
        if not isinstance(device_buffers, Sequence):
            raise ArgumentTypeError.refusing(
                "device_buffers", device_buffers, "must be a list with an Array for each device"
            )
        spec = _rows(aval) if sharding_spec is None else sharding_spec
        devices = [
            device_of_array(buffer, "device_buffers", n) for n, buffer in enumerate(device_buffers)
        ]
        sharding = PmapSharding(devices, spec)
        known = spec_to_indices(aval.shape, spec)
        if indices is not None and tuple(map(_as_tuple, indices)) != known:
            raise ShardingError(
                f"indices={tuple(indices)} differ from those of the spec, {known}; leave them out",
                argument="indices",
                expected=known,
            )
        self._adopt(
            make_array_from_single_device_arrays(
                aval.shape, sharding, device_buffers, dtype=aval.dtype
            )
        )
        self._spec, self._indices = spec, known

    @classmethod
    def _matches(cls, x: Array) -> bool:
        return x.is_fully_addressable and x.sharding.num_devices > 1

    def __reduce__(self) -> tuple[Any, ...]:
        aval = ShapeDtypeStruct(self._shape, self._dtype, weak_type=self._weak_type)
        return ShardedDeviceArray, (aval, self.sharding_spec, self.device_buffers)

    @property
    def sharding_spec(self) -> ShardingSpec:
        """The `ShardingSpec` of the array."""
        assert self._spec is not None
        return self._spec

    @property
    def device_buffers(self) -> list[Array]:
        """The array on each device.

        Raises:
          DeletedShardsError: the array was deleted.
        """
        return [self._shard(n) for n in range(len(self._held().tiling.devices))]

    @property
    def indices(self) -> tuple[Any, ...]:
        """For each device, the index of its shard in the array."""
        assert self._indices is not None
        return self._indices

    @property
    def one_replica_buffer_indices(self) -> list[int]:
        """Positions in `device_buffers` of shards that together have each element once."""
        replicas = self._sharding.tiling(self._shape).assignment.replicas
        return [position for position, replica in enumerate(replicas) if not replica]

    def _shard(self, position: int) -> Array:
        shard: Array = self._known_shards().array(position)
        return shard

    def _shard_at(self, box: tuple[tuple[int, int], ...]) -> Array | None:
        if self._held().host is not None:  # the copy on the host is nearer
            return None
        return super()._shard_at(box)

    def _held(self) -> Data:
        if is_gone(self._data):
            raise DeletedShardsError(
                f"the ShardedDeviceArray of shape {self._shape} and dtype {self._dtype} was "
                "deleted. Try: keep a copy, or don't delete it",
                shape=self._shape,
                dtype=self._dtype,
            )
        return super()._held()


def make_device_array(aval: ShapeDtypeStruct, device: Device | None, device_buffer: Array) -> Array:
    """Make an array on one device from another array there, without a copy.

    Args:
      aval: the shape and dtype of the array, a `ShapeDtypeStruct`.
      device: the device of the data, if the result should be committed; None for an uncommitted
        result.
      device_buffer: the other array, on one device.

    Returns:
      The array; it shares memory with `device_buffer`.

    Raises:
      ShardingError: `device_buffer` is on several devices, on another device, or has another shape.
      ArgumentTypeError: `device_buffer` is not an `Array`, or has another dtype.

    >>> import gpushard as gs
    >>> x = gs.device_put(1.0, gs.devices()[1])
    >>> make_device_array(gs.ShapeDtypeStruct((), float), None, x).committed
    False
    """
    _check_aval(aval)
    current = device_of_array(device_buffer, "device_buffer")
    if device is not None and device != current:
        raise ShardingError(
            f"device={device!r}, and device_buffer is on {current!r}. Try: move it first, with "
            "device_put(x, device)",
            argument="device",
            device=device,
            expected=current,
        )
    sharding = PmapSharding([current], ShardingSpec([None] * len(aval.shape), []))
    joined = make_array_from_single_device_arrays(
        aval.shape, sharding, [device_buffer], dtype=aval.dtype
    )
    array_on_device: Any = joined.addressable_data(0)
    array_on_device._committed = device is not None
    array: Array = array_on_device
    return array


def make_sharded_device_array(
    aval: ShapeDtypeStruct,
    sharding_spec: ShardingSpec | None,
    device_buffers: Sequence[Array],
    indices: Sequence[Any] | None = None,
) -> ShardedDeviceArray:
    """Make an array from its shards, without a copy.

    Args:
      aval: the shape and dtype of the array, a `ShapeDtypeStruct`.
      sharding_spec: a `ShardingSpec`; None gives each device one element along axis 0.
      device_buffers: the shards: an array on each device, in the order of the spec.
      indices: the result of `spec_to_indices`, if you have computed it.

    Raises:
      ArgumentTypeError: an argument has a wrong type, or a shard has another dtype.
      ShardingError: the spec or a shard does not fit the shape.
    """
    return ShardedDeviceArray(aval, sharding_spec, device_buffers, indices)


def _check_aval(aval: Any) -> None:
    if not isinstance(aval, ShapeDtypeStruct):
        raise ArgumentTypeError.refusing("aval", aval, "must be a ShapeDtypeStruct(shape, dtype)")


def _rows(aval: ShapeDtypeStruct) -> ShardingSpec:
    """Make the spec that gives each device one element of axis 0."""
    if not aval.shape:
        raise ShardingError(
            "aval has no axes, so none has an element for each device. Try: give a sharding_spec",
            argument="aval",
        )
    n = aval.shape[0]
    return pmap_sharding_spec(n, n, 1, None, ShapeDtypeStruct(aval.shape[1:], aval.dtype), 0)


def _as_tuple(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)
