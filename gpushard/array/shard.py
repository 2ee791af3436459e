"""The parts of an array that devices hold."""

from __future__ import annotations

import abc
import dataclasses
from typing import TYPE_CHECKING

from gpushard.errors import ArrayIndexError
from gpushard.geometry.memory_kind import device_of
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer
from gpushard.typing import Device, Index

if TYPE_CHECKING:
    from gpushard.array.array import Array


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Shard:
    """The part of an array that one device holds; cannot be changed.

    Args:
      device: the device.
      index: slices of the global array.
      replica_id: how many devices before this one hold the same part.
      data: the part as an array on the device, a value of its own; None if this process cannot
        reach it.
    """

    device: Device
    index: Index
    replica_id: int
    data: Array | None


class Shards(abc.ABC):
    """What gives access to the shards of an array."""

    __slots__ = ()

    @abc.abstractmethod
    def _live(self) -> ShardedBuffer:
        """Return the data, unless the array was deleted."""

    @abc.abstractmethod
    def _data_of(self, position: int) -> Array:
        """Return the shard of one device as an array."""

    @property
    def addressable_shards(self) -> list[Shard]:
        """The shards that this process can reach, in device order."""
        tiling = self._live().tiling
        return [self._shard(tiling, position) for position in tiling.addressable]

    @property
    def global_shards(self) -> list[Shard]:
        """All shards, in device order; `data` is None where this process cannot reach it."""
        tiling = self._live().tiling
        reachable = set(tiling.addressable)
        return [
            self._shard(tiling, position, with_data=position in reachable)
            for position in range(len(tiling.devices))
        ]

    def addressable_data(self, index: int) -> Array:
        """Return the data of one addressable shard.

        Args:
          index: position among `addressable_shards`; any, for a fully replicated array.

        Raises:
          ArrayIndexError: there are not as many shards.
        """
        tiling = self._live().tiling
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
        return self._data_of(addressable[index])

    def _shard(self, tiling: Tiling, position: int, *, with_data: bool = True) -> Shard:
        return Shard(
            device_of(tiling.devices[position]),
            tiling.indices[position],
            int(tiling.assignment.replica_ids[position]),
            self._data_of(position) if with_data else None,
        )
