"""Shardings: how the elements of an array are laid out over devices."""

from __future__ import annotations

import abc
import os
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from gpushard._cache import BoundedCache
from gpushard._geometry.free_boxes import tiling_from_indices
from gpushard._geometry.memory_kind import check_kind, device_of, place_on
from gpushard._geometry.mesh import is_addressable
from gpushard._geometry.tiling import Assignment, Tiling, check_shape
from gpushard._typing import Device, Index, Shape, shown_as
from gpushard.errors import ArgumentError, ShardingError

_tilings: BoundedCache[Tiling] = BoundedCache(limit=64 << 20)
os.register_at_fork(after_in_child=_tilings.renew_lock)


class Sharding(abc.ABC):
    """Base of shardings: a sharding says which box of an array each device holds.

    To make your own, derive from this class and define `device_set` and `devices_indices_map`.
    Define `__eq__` and `__hash__` too if instances should compare by value. The order of the dict
    that `devices_indices_map` returns is the order of the devices.

    A box is a slice per dim. Boxes may have unequal sizes, form no grid, overlap, or be empty. It
    is only an error if an element is in no box. Devices with equal boxes hold replicas. An element
    in several different boxes is written in each of them, and read from any of them.

    >>> class LastDeviceTakesAll(Sharding):
    ...     def __init__(self, devices):
    ...         self.devices = devices
    ...     @property
    ...     def device_set(self):
    ...         return set(self.devices)
    ...     def devices_indices_map(self, global_shape):
    ...         n = global_shape[0]
    ...         return {d: (slice(0 if d == self.devices[-1] else n, n),) for d in self.devices}
    >>> LastDeviceTakesAll("ab").tiling((5,)).shard_shapes
    [(0,), (5,)]
    """

    @property
    @abc.abstractmethod
    def device_set(self) -> set[Device]:
        """The devices that hold blocks of an array with this sharding."""

    @abc.abstractmethod
    def devices_indices_map(self, global_shape: Shape) -> dict[Device, Index]:
        """Map each device to the slices of the global array that it holds.

        Args:
          global_shape: shape of the array.

        Returns:
          One tuple of slices per device, in device order.

        Raises:
          ShardingError: an array of this shape cannot have this sharding.
        """

    def tiling(self, global_shape: Shape) -> Tiling:
        """Compute the boxes of all devices for arrays of a shape, as integer arrays; cached.

        Args:
          global_shape: shape of the array.

        Raises:
          ShardingError: an array of this shape cannot have this sharding.
          ArgumentError: the shape has too many elements or dims.
        """
        shape = tuple(global_shape)
        key = (self, shape)
        tiling = _tilings.get(key)
        if tiling is None:
            check_shape(shape)
            tiling = self._make_tiling(shape)
            _tilings.put(key, tiling, tiling.nbytes)
        return tiling

    def _make_tiling(self, global_shape: Shape) -> Tiling:
        indices = self.devices_indices_map(global_shape)
        if set(indices) != self.device_set:
            raise ShardingError(
                f"devices_indices_map of {self!r} and its device_set name different devices; map "
                "every device of the set",
                argument="devices_indices_map",
            )
        return tiling_from_indices(global_shape, indices)

    @property
    def num_devices(self) -> int:
        """Number of devices."""
        return len(self.device_set)

    @property
    def addressable_devices(self) -> set[Device]:
        """The devices with memory that this process can reach."""
        return {device for device in self.device_set if is_addressable(device)}

    def addressable_devices_indices_map(self, global_shape: Shape) -> dict[Device, Index]:
        """Map each addressable device to the slices of the global array that it holds."""
        indices = self.devices_indices_map(global_shape)
        return {device: index for device, index in indices.items() if is_addressable(device)}

    def shard_shape(self, global_shape: Shape) -> Shape:
        """Return the shape of the largest shard.

        Args:
          global_shape: shape of the array.

        Returns:
          The length of the longest shard along each dim. If the number of blocks does not divide
          the length of a dim, the last shards are shorter.
        """
        tiling = self.tiling(global_shape)
        longest: list[int] = (tiling.stops - tiling.starts).max(axis=1, initial=0).tolist()
        return self.stacked(longest)

    @property
    def beside(self) -> Sharding:
        """A sharding on the same devices for arrays of any number of dims."""
        return self

    @property
    def unstacked(self) -> tuple[int, ...]:
        """The dims of the array that shards do not have; () except for `PmapSharding`."""
        return ()

    def stacked(self, sizes: Sequence[int]) -> Shape:
        """Convert the shape of a box to the shape of its shard, without unstacked dims."""
        dropped = self.unstacked
        return tuple([n for dim, n in enumerate(sizes) if dim not in dropped])

    def shard_index(self, box: Index) -> tuple[Any, ...]:
        """Convert the slices of a box to the index of its shard; unstacked dims get integers."""
        dropped = self.unstacked
        if not dropped:
            return box
        return tuple((s.start or 0) if dim in dropped else s for dim, s in enumerate(box))

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array, whatever its shape."""
        return self.num_devices == 1

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process can reach every device."""
        return all(is_addressable(device) for device in self.device_set)

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Test whether both shardings give each device the same box of any array of `ndim` dims."""
        return self == other

    @property
    def memory_kind(self) -> str:
        """The memory of each device that holds its shard, such as "device" or "pinned_host"."""
        return "device"

    def with_memory_kind(self, kind: str) -> Sharding:
        """Return a copy of this sharding with shards in another memory of the devices."""
        raise ArgumentError(
            f"{type(self).__name__} has no memory kinds; use a NamedSharding or override "
            "with_memory_kind",
            argument="kind",
            kind=kind,
        )


class GridSharding(Sharding):
    """Base of shardings that number the blocks of each device without knowing the array's shape."""

    _memory_kind: str

    @abc.abstractmethod
    def assignment(self, ndim: int) -> Assignment:
        """Return the number of each device's block along every dim, for arrays of `ndim` dims."""

    def _make_tiling(self, global_shape: Shape) -> Tiling:
        return Tiling.regular(global_shape, self.assignment(len(global_shape)))

    def devices_indices_map(self, global_shape: Shape) -> dict[Device, Index]:
        """Map each device to the slices of the global array that it holds."""
        tiling = self.tiling(tuple(global_shape))
        indices = map(self.shard_index, tiling.indices)
        return dict(zip(map(device_of, tiling.devices), indices, strict=True))

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Test whether both shardings give each device the same box of any array of `ndim` dims."""
        if self == other:
            return True
        if not isinstance(other, GridSharding) or self._memory_kind != other._memory_kind:
            return False
        mine, theirs = self.assignment(ndim), other.assignment(ndim)
        return (
            mine.devices == theirs.devices
            and self.unstacked == other.unstacked
            and mine.counts == theirs.counts
            and np.array_equal(mine.blocks, theirs.blocks)
        )

    @property
    def memory_kind(self) -> str:
        """The memory of each device that holds its shard, such as "device" or "pinned_host"."""
        return self._memory_kind


class SingleDeviceSharding(GridSharding):
    """A sharding that keeps a whole array on one device.

    Args:
      device: the device.
      memory_kind: the memory of the device that holds the array: "device" (the default),
        "pinned_host" or "unpinned_host".

    >>> SingleDeviceSharding("a").devices_indices_map((5,))
    {'a': (slice(None, None, None),)}
    """

    def __init__(self, device: Device, *, memory_kind: str | None = None) -> None:
        self._device = device
        self._memory_kind = check_kind(memory_kind)
        self._hash = hash((device, self._memory_kind))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(other) is SingleDeviceSharding
            and self._device == other._device
            and self._memory_kind == other._memory_kind
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return _single_device_sharding, (self._device, self._memory_kind)

    def __repr__(self) -> str:
        kind = "" if self._memory_kind == "device" else f", memory_kind={self._memory_kind!r}"
        return f"SingleDeviceSharding(device={self._device!r}{kind})"

    @property
    def device_set(self) -> set[Device]:
        """A set with the device."""
        return {self._device}

    @property
    def num_devices(self) -> int:
        """Number of devices: 1."""
        return 1

    @property
    def is_fully_replicated(self) -> bool:
        """Always True."""
        return True

    def with_memory_kind(self, kind: str) -> Self:
        """Return a copy of this sharding with the array in another memory of the device."""
        return type(self)(self._device, memory_kind=kind)

    def assignment(self, ndim: int) -> Assignment:
        """Return the number of the device's block along every dim: always 0."""
        place = place_on(self._device, self._memory_kind)
        return Assignment((place,), (1,) * ndim, np.zeros((ndim, 1), np.int64))


def _single_device_sharding(device: Device, kind: str) -> SingleDeviceSharding:
    return SingleDeviceSharding(device, memory_kind=kind)


shown_as("Sharding", GridSharding)
