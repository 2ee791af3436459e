"""The parts of an array that devices hold."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

from gpushard._array.data import KnownShards
from gpushard._functions.values import Value
from gpushard._geometry.memory_kind import device_of
from gpushard._typing import Device, Index
from gpushard.errors import ArrayIndexError

A = TypeVar("A")  # the class of the array


class Shard(Generic[A]):
    """The part of an array on one device; immutable.

    Args:
      device: the device.
      index: the index of the part in the global array: a slice per axis. An axis that shards do not
        have, as with `PmapSharding`, gets an integer.
      replica_id: how many devices before this one, in device order, hold the same part.
      data: the part as an array on the device, or a function that returns that array at the first
        access. None if this process cannot reach the device.
    """

    __slots__ = ("_array", "_data", "_device", "_index", "_replica_id")

    def __init__(
        self, device: Device, index: Index, replica_id: int, data: A | Callable[[], A] | None
    ) -> None:
        self._device = device
        self._index = index
        self._replica_id = replica_id
        self._data = data
        self._array: dict[None, A] = {}

    @property
    def device(self) -> Device:
        """The device that holds the part."""
        return self._device

    @property
    def index(self) -> Index:
        """The index of the part in the global array."""
        return self._index

    @property
    def replica_id(self) -> int:
        """How many devices before this one, in device order, hold the same part."""
        return self._replica_id

    @property
    def data(self) -> A | None:
        """The part as an array on the device; None if this process cannot reach the device."""
        data = self._data
        if not callable(data):
            return data
        array = self._array.get(None)
        return (
            self._array.setdefault(None, data()) if array is None else array
        )  # one for all threads

    def __repr__(self) -> str:
        return (
            f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, "
            f"data={self.data!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Shard, (self.device, self.index, self.replica_id, self.data)


class Shards(Value, abc.ABC):
    """Access to the shards of an array."""

    __slots__ = ()

    @abc.abstractmethod
    def _known_shards(self) -> KnownShards:
        """Return the shards of the present value, which become arrays at first access."""

    @property
    def addressable_shards(self) -> list[Shard[Self]]:
        """The shards that this process can reach, in device order."""
        known = self._known_shards()
        return [_shard(known, position) for position in known.tiling.addressable]

    @property
    def global_shards(self) -> list[Shard[Self]]:
        """All shards, in device order; `data` is None for shards of other processes."""
        known = self._known_shards()
        reachable = set(known.tiling.addressable)
        return [
            _shard(known, position, reachable=position in reachable)
            for position in range(len(known.tiling.devices))
        ]

    def addressable_data(self, index: int) -> Self:
        """Return the data of one addressable shard.

        Args:
          index: the position of the shard in `addressable_shards`; ignored for a replicated array.

        Raises:
          ArrayIndexError: there is no such shard.
        """
        known = self._known_shards()
        tiling = known.tiling
        addressable = tiling.addressable
        if tiling.assignment.is_replicated:
            index = 0
        if not -len(addressable) <= index < len(addressable):
            raise ArrayIndexError(
                f"index={index} is out of bounds; this process addresses {len(addressable)} shards",
                argument="index",
                index=index,
                shards=len(addressable),
            )
        return known.array(addressable[index])


def _shard(known: KnownShards, position: int, *, reachable: bool = True) -> Shard[Any]:
    """Return the shard of one device."""
    tiling = known.tiling
    return Shard(
        device_of(tiling.devices[position]),
        known.sharding.shard_index(tiling.indices[position]),
        tiling.assignment.replicas[position],
        functools.partial(known.array, position) if reachable else None,
    )
