"""Devices and the memory domains that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpushard.runtime.memory import Account, Pool
from gpushard.runtime.stream import Stream

if TYPE_CHECKING:
    from gpushard.runtime.runtime import Runtime


class Domain:
    """Physical memory that several devices share, with the streams that move data into it.

    Args:
      index: its number.
      pool: its memory.
      copy: the stream of copies between shards.
      fetch: the stream of copies to the host.
    """

    __slots__ = ("copy", "fetch", "index", "pool")

    def __init__(self, index: int, pool: Pool, copy: Stream, fetch: Stream) -> None:
        self.index = index
        self.pool = pool
        self.copy = copy
        self.fetch = fetch


class Device:
    """A place that holds shards and runs work: a GPU, a part of one, or a virtual CPU device.

    Devices are made by the library; get them from `gpushard.devices()`.
    """

    def __init__(
        self,
        runtime: Runtime,
        id: int,
        platform: str,
        device_kind: str,
        local_hardware_id: int,
        partition: int,
        domain: Domain,
        account: Account,
        stream: Stream,
    ) -> None:
        self.runtime = runtime
        self.id = id
        """Position among the devices of all processes."""
        self.platform = platform
        """"cpu" or "gpu"."""
        self.device_kind = device_kind
        """What the hardware calls itself."""
        self.process_index = 0
        """The process that drives it."""
        self.local_hardware_id = local_hardware_id
        """Position of the chip among those of its process."""
        self.partition = partition
        """Which part of the chip it is."""
        self.domain = domain
        self.account = account
        self.stream = stream
        """Its compute stream."""

    def __repr__(self) -> str:
        return f"{self.platform.capitalize()}Device(id={self.id})"

    @property
    def memory_domain(self) -> int:
        """Number of the memory domain; devices with equal numbers share physical memory."""
        return self.domain.index

    @property
    def is_addressable(self) -> bool:
        """Whether this process can reach its memory."""
        return True

    def memory_stats(self) -> dict[str, int | None]:
        """Return what its memory is used for, in bytes.

        Returns:
          bytes_in_use, peak_bytes_in_use, bytes_limit (None without a quota), largest_alloc_size,
          num_allocs; and pool_bytes and pool_free_bytes of its memory domain.
        """
        with self.runtime.lock:
            self.runtime.drain()
            account, pool = self.account, self.domain.pool
            return {
                "bytes_in_use": account.in_use,
                "peak_bytes_in_use": account.peak,
                "bytes_limit": account.limit,
                "largest_alloc_size": account.largest,
                "num_allocs": account.allocations,
                "pool_bytes": pool.total,
                "pool_free_bytes": pool.free,
            }

    def synchronize(self) -> None:
        """Wait until everything given to this device so far has run."""
        with self.runtime.lock:
            self.runtime.drain()
            ticks = [(stream, stream.issued) for stream in (self.stream, self.domain.copy)]
        for stream, tick in ticks:
            stream.synchronize(tick)
