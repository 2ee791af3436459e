"""Arrays of several processes: this process reaches only a part of their shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from gpushard._array.array import Array, ConcreteArray
from gpushard._array.data import KnownShards
from gpushard._array.text import describe_deleted
from gpushard._functions.host_reads import Concrete
from gpushard._geometry.sharding import Sharding
from gpushard._geometry.tiling import Tiling
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.sharding_devices import devices_of
from gpushard._ops.row import Params, Row
from gpushard._runtime.runtime import Device
from gpushard._typing import HostArray, Index, Shape, shown_as
from gpushard.errors import AddressError


class _Local(Sharding):
    """The part of a sharding on this process, which need not cover all elements."""

    def __init__(self, whole: Sharding) -> None:
        self._whole = whole

    def __eq__(self, other: object) -> bool:
        return type(other) is _Local and self._whole == other._whole

    def __hash__(self) -> int:
        return hash((_Local, self._whole))

    @property
    def device_set(self) -> set[Any]:
        return self._whole.addressable_devices

    def devices_indices_map(self, global_shape: Shape) -> dict[Any, Index]:
        return self._whole.addressable_devices_indices_map(global_shape)

    def _make_tiling(self, global_shape: Shape) -> Tiling:
        return self._whole.tiling(global_shape).local

    @property
    def unstacked(self) -> tuple[int, ...]:
        return self._whole.unstacked

    @property
    def memory_kind(self) -> str:
        return self._whole.memory_kind


class _Elsewhere:
    """The interpreter of arrays of several processes: it refuses every operation."""

    level = 10

    def bind(
        self, row: Row, args: Sequence[Any], params: Params, out_sharding: Sharding | None = None
    ) -> NoReturn:
        """Raise `AddressError`."""
        array = next(x for x in args if isinstance(x, PartialArray))
        raise array._without_data(row.name)


class _Known(KnownShards):
    """The shards of this process, by their positions among all shards."""

    __slots__ = ("_local", "_positions")

    def __init__(self, local: KnownShards, sharding: Sharding, tiling: Tiling) -> None:
        self.tiling, self.sharding = tiling, sharding
        self._local = local
        self._positions = {position: n for n, position in enumerate(tiling.addressable)}

    def array(self, position: int) -> Any:
        """Return a new handle on the shard of one device."""
        return self._local.array(self._positions[position])


class PartialArray(Array, Concrete):
    """An array on devices of several processes.

    It can be read if the devices of this process have every element. All other functions that need
    data raise.

    Args:
      local: the part of this process.
      sharding: the sharding of the whole array.
    """

    __slots__ = ("__weakref__", "_dtype", "_local", "_shape", "_sharding", "_weak_type")
    interpreter = _Elsewhere()

    def __init__(self, local: ConcreteArray, sharding: Sharding) -> None:
        self._local = local
        self._sharding = sharding
        self._shape, self._dtype, self._weak_type = local.shape, local.dtype, local.weak_type
        local._live().runtime.register(self)

    @property
    def sharding(self) -> Sharding:
        """The sharding of the array: which device holds which part."""
        return self._sharding

    @property
    def committed(self) -> bool:
        """Always True."""
        return True

    def devices(self) -> set[Device]:
        """Return the set of devices that hold the array."""
        return {place.device for place in devices_of(self._tiling)}

    def platform(self) -> str:
        """Return the platform of the devices: "cpu" or "gpu"."""
        return devices_of(self._tiling)[0].platform

    def on_device_size_in_bytes(self) -> int:
        """Return the bytes of all shards, replicas included."""
        return int(self._tiling.volumes.sum()) * self.itemsize

    def copy_to_host_async(self) -> None:
        """Start to copy the value to the host, if this process can read it; never waits."""
        self._readable("copy_to_host_async()").copy_to_host_async()

    def delete(self) -> None:
        """Free the memory of this process's shards; a second call has no effect."""
        self._local.delete()

    def is_deleted(self) -> bool:
        """Test whether the array was deleted."""
        return self._local.is_deleted()

    def __repr__(self) -> str:
        if self.is_deleted():
            return describe_deleted(self._shape, self._dtype)
        return f"Array(shape={self._shape}, dtype={self._dtype.name}, sharding={self._sharding!r})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)

    def __copy__(self) -> Array:
        """Return another handle on this array's memory; arrays are values."""
        local: Any = self._local.__copy__()
        return PartialArray(local, self._sharding)

    def __deepcopy__(self, memo: Any) -> Array:
        return self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise self._without_data("pickling")

    @property
    def _tiling(self) -> Tiling:
        return self._sharding.tiling(self._shape)

    def _read(self) -> ShardedBuffer:
        return self._local._read()

    def _known_shards(self) -> KnownShards:
        return _Known(self._local._known_shards(), self._sharding, self._tiling)

    def _concrete(self, why: str, explicit: bool | None) -> HostArray:
        return self._readable(why)._concrete(why, explicit)

    def _at_hand(self, why: str) -> HostArray | None:
        return self._readable(why)._at_hand(why)

    def _readable(self, why: str) -> ConcreteArray:
        """Return the part of this process, if it has every element."""
        tiling = self._tiling
        boxes, held = tiling.assignment.flat, list(tiling.addressable)
        if np.setdiff1d(boxes[tiling.volumes > 0], boxes[held]).size:
            raise self._without_data(why)
        return self._local

    def _without_data(self, name: str) -> AddressError:
        local, every = len(self._tiling.addressable), len(self._tiling.devices)
        return AddressError(
            f"{name} needs shards that other processes hold: this one addresses {local} of the "
            f"{every} devices. gpushard.multihost.process_allgather(x) brings all to the host; "
            "x.addressable_shards is what is here",
            argument="self",
            addressable=local,
            devices=every,
        )


def array_of(
    kind: type[ConcreteArray], buffer: ShardedBuffer, sharding: Sharding, **how: bool
) -> Array:
    """Create an array from the part of this process; a sharding may have only its devices.

    Args:
      kind: the class of the part.
      buffer: the data of the part, on the devices of this process.
      sharding: the sharding of the whole array.
      **how: more arguments of the class.
    """
    tiling = buffer.tiling
    if tiling is sharding.tiling(tiling.shape) or sharding.is_fully_addressable:
        return kind(buffer, sharding, **how)
    local = kind(buffer, _Local(sharding))
    return PartialArray(local._handle(local._held(), local.sharding, registered=False), sharding)


shown_as("Array", PartialArray)
PartialArray.__name__ = PartialArray.__qualname__ = "Array"  # the name that users know
