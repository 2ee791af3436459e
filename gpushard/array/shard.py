"""One device's part of an array."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpushard.typing import Device, Index

if TYPE_CHECKING:
    from gpushard.array.array import Array


class Shard:
    """The part of an array that one device holds.

    Args:
      device: the device.
      index: slices of the global array.
      replica_id: how many devices before this one hold the same part.
      data: the part as an array on the device; None if this process cannot reach it.
    """

    __slots__ = ("data", "device", "index", "replica_id")

    def __init__(self, device: Device, index: Index, replica_id: int, data: Array | None) -> None:
        self.device = device
        self.index = index
        self.replica_id = replica_id
        self.data = data

    def __repr__(self) -> str:
        return (
            f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, "
            f"data={self.data!r})"
        )
