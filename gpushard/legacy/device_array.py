"""`DeviceArray` and `ShardedDeviceArray`: what arrays on one and on several devices once were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from gpushard.array.array import Array
from gpushard.array.aval import ShapeDtypeStruct
from gpushard.array.data import Data, is_gone
from gpushard.errors import ArgumentTypeError, DeletedShardsError, ShardingError
from gpushard.geometry.older.listed_sharding import PmapSharding
from gpushard.geometry.older.sharding_spec import ShardingSpec, pmap_sharding_spec, spec_to_indices
from gpushard.legacy.face import Face, Kind
from gpushard.placement.make_array import device_of_array, make_array_from_single_device_arrays
from gpushard.runtime.runtime import Device


class DeviceArray(metaclass=Kind):
    """What an array on one device is an instance of; `make_device_array` makes one.

    >>> import gpushard as gs
    >>> isinstance(gs.device_put(1.0), DeviceArray)
    True
    """

    def __new__(cls, *args: Any, **named: Any) -> NoReturn:
        """Refuse: there are only arrays that are instances of it."""
        raise ArgumentTypeError(
            "a DeviceArray is an Array on one device; make it with device_put(x, device), or with "
            "make_device_array",
            argument="DeviceArray",
        )

    @staticmethod
    def _was(x: Array) -> bool:
        return x.is_fully_addressable and x.sharding.num_devices == 1


class ShardedDeviceArray(Face, metaclass=Kind):
    """An array of which each device has a shard, as `pmap` once took and gave them.

    Any `Array` on several devices is an instance; this makes one with the attributes that such an
    array had. Functions take it like an `Array`, and give `Array`s.

    Args:
      aval: shape and type: a `ShapeDtypeStruct`.
      sharding_spec: how it is laid out; None for one element of the first dim on each device, which
        may also be left out: `ShardedDeviceArray(aval, device_buffers)`.
      device_buffers: for each device the array that it holds, in the order of the spec.
      indices: what `spec_to_indices` gives, if it is known.

    Raises:
      ArgumentTypeError: an argument has another type, or the type of elements differs.
      ShardingError: the spec does not fit the shape, or the shards don't.

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
    def _was(cls, x: Array) -> bool:
        return x.is_fully_addressable and x.sharding.num_devices > 1

    def __reduce__(self) -> tuple[Any, ...]:
        aval = ShapeDtypeStruct(self._shape, self._dtype, weak_type=self._weak_type)
        return ShardedDeviceArray, (aval, self.sharding_spec, self.device_buffers)

    @property
    def sharding_spec(self) -> ShardingSpec:
        """How it is laid out."""
        assert self._spec is not None
        return self._spec

    @property
    def device_buffers(self) -> list[Array]:
        """For each device the array that it holds.

        Raises:
          DeletedShardsError: the array was deleted.
        """
        return [self._shard(n) for n in range(len(self._held().tiling.devices))]

    @property
    def indices(self) -> tuple[Any, ...]:
        """For each device what gives its shard from the array."""
        assert self._indices is not None
        return self._indices

    @property
    def one_replica_buffer_indices(self) -> list[int]:
        """Positions of `device_buffers` that have every element once."""
        replicas = self._sharding.tiling(self._shape).assignment.replicas
        return [position for position, replica in enumerate(replicas) if not replica]

    def _shard(self, position: int) -> Array:
        shard: Array = self._known_shards().array(position)
        return shard

    def _shard_at(self, box: tuple[tuple[int, int], ...]) -> Array | None:
        if self._held().host is not None:  # which is nearer
            return None
        return super()._shard_at(box)

    def _held(self) -> Data:
        if is_gone(self._data):
            raise DeletedShardsError(
                f"the ShardedDeviceArray of shape {self._shape} and dtype {self._dtype} was "
                "deleted; keep a copy, or don't delete it",
                shape=self._shape,
                dtype=self._dtype,
            )
        return super()._held()


def make_device_array(aval: ShapeDtypeStruct, device: Device | None, device_buffer: Array) -> Array:
    """Return an array on one device; nothing is copied.

    Args:
      aval: shape and type: a `ShapeDtypeStruct`.
      device: the device, on which the result stays; None for one that follows other arrays.
      device_buffer: the data: an array on one device.

    Returns:
      The array; it shares memory with `device_buffer`.

    Raises:
      ShardingError: the data is on several devices, on another one, or has another shape.
      ArgumentTypeError: the data is no `Array`, or its elements have another type.

    >>> import gpushard as gs
    >>> x = gs.device_put(1.0, gs.devices()[1])
    >>> make_device_array(gs.ShapeDtypeStruct((), float), None, x).committed
    False
    """
    _check_aval(aval)
    there = device_of_array(device_buffer, "device_buffer")
    if device is not None and device != there:
        raise ShardingError(
            f"device={device!r}, and device_buffer is on {there!r}; move it first, with "
            "device_put(x, device)",
            argument="device",
            device=device,
            expected=there,
        )
    sharding = PmapSharding([there], ShardingSpec([None] * len(aval.shape), []))
    joined = make_array_from_single_device_arrays(
        aval.shape, sharding, [device_buffer], dtype=aval.dtype
    )
    made: Any = joined.addressable_data(0)
    made._committed = device is not None
    array: Array = made
    return array


def make_sharded_device_array(
    aval: ShapeDtypeStruct,
    sharding_spec: ShardingSpec | None,
    device_buffers: Sequence[Array],
    indices: Sequence[Any] | None = None,
) -> ShardedDeviceArray:
    """Return an array of shards; nothing is copied.

    Args:
      aval: shape and type: a `ShapeDtypeStruct`.
      sharding_spec: how it is laid out; None for one element of the first dim on each device.
      device_buffers: for each device the array that it holds, in the order of the spec.
      indices: what `spec_to_indices` gives, if it is known.

    Raises:
      ArgumentTypeError: an argument has another type, or the type of elements differs.
      ShardingError: the spec does not fit the shape, or the shards don't.
    """
    return ShardedDeviceArray(aval, sharding_spec, device_buffers, indices)


def _check_aval(aval: Any) -> None:
    if not isinstance(aval, ShapeDtypeStruct):
        raise ArgumentTypeError.refusing("aval", aval, "must be a ShapeDtypeStruct(shape, dtype)")


def _rows(aval: ShapeDtypeStruct) -> ShardingSpec:
    """Return the spec of one element of the first dim for each device."""
    if not aval.shape:
        raise ShardingError(
            "aval has no dims, so none has an element for each device; give a sharding_spec",
            argument="aval",
        )
    n = aval.shape[0]
    return pmap_sharding_spec(n, n, 1, None, ShapeDtypeStruct(aval.shape[1:], aval.dtype), 0)


def _as_tuple(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)
