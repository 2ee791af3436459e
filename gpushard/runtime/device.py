"""Devices and the memory domains that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from gpushard.frozen import dataclass
from gpushard.geometry.memory_kind import MEMORY_KINDS, checked_kind
from gpushard.runtime.memory import Account, Pool
from gpushard.runtime.stream import Stream

if TYPE_CHECKING:
    from gpushard.runtime.runtime import Runtime


class Domain:
    """Physical memory that several devices share, with the streams that move data.

    Args:
      index: its number.
      pool: its memory.
      ring: page-locked host memory that copies from and to the host go through; limited.
      copy: the stream of copies into it.
      feed: the stream of copies into it from the host.
      fetch: the stream of copies to the host.
      readable: whether the host can use its memory as it lies.
    """

    USES = ("copy", "feed", "fetch")
    """What its streams are for."""

    __slots__ = (
        "copy",
        "feed",
        "fetch",
        "index",
        "kind",
        "memories",
        "pool",
        "readable",
        "ring",
    )

    def __init__(
        self,
        index: int,
        pool: Pool,
        ring: Pool,
        copy: Stream,
        feed: Stream,
        fetch: Stream,
        *,
        readable: bool,
    ) -> None:
        self.index = index
        self.readable = readable
        self.pool = pool
        self.ring = ring
        self.copy = copy
        self.feed = feed
        self.fetch = fetch
        self.memories = dict.fromkeys(MEMORY_KINDS, self)
        """The domain of each kind of memory beside it."""
        self.kind = "device"
        """"device", or which kind of host memory beside devices it is. No stream reads or writes
        "unpinned_host"."""

    @property
    def streams(self) -> tuple[Stream, ...]:
        """All of its streams."""
        return self.copy, self.feed, self.fetch


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
        self.host_account = Account(f"page-locked memory of {account.owner}")
        """What its shards in host memory take."""

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

    @property
    def device(self) -> Device:
        """Itself, as the place where shards lie by default."""
        return self

    def memory(self, kind: str) -> Place:
        """Return one of its memories, where shardings of that `memory_kind` keep shards.

        Args:
          kind: "device", "pinned_host" or "unpinned_host".

        Raises:
          ArgumentError: there is no such kind.
        """
        return self if checked_kind(kind) == "device" else MemorySpace(self, kind)

    @property
    def kind(self) -> str:
        """What kind of memory it is where it stands for one: "device"."""
        return "device"

    def default_memory(self) -> Place:
        """Return the memory where shards lie if nothing is said: its own."""
        return self

    def addressable_memories(self) -> list[Place]:
        """Return all of its memories."""
        return [self.memory(kind) for kind in MEMORY_KINDS]

    def memory_stats(self) -> dict[str, int | None]:
        """Return what its memory is used for, in bytes.

        Returns:
          bytes_in_use, peak_bytes_in_use, bytes_limit (None without a quota), largest_alloc_size,
          num_allocs; and pool_bytes and pool_free_bytes of its memory domain.
        """
        account, pool = self.account, self.domain.pool
        return self.runtime.run_locked(
            lambda: {
                "bytes_in_use": account.in_use,
                "peak_bytes_in_use": account.peak,
                "bytes_limit": account.limit,
                "largest_alloc_size": account.largest,
                "num_allocs": account.allocations,
                "pool_bytes": pool.total,
                "pool_free_bytes": pool.free,
            }
        )

    def synchronize(self) -> None:
        """Wait until everything given to this device so far has run."""
        memories = set(self.domain.memories.values())
        streams = {self.stream, *(s for domain in memories for s in domain.streams)}
        for stream, tick in self.runtime.run_locked(lambda: [(s, s.issued) for s in streams]):
            stream.synchronize(tick)


@dataclass(frozen=True)
class MemorySpace:
    """Memory of the host beside a device; what a tiling has for a device whose shards lie there."""

    device: Device
    """The device."""

    kind: str
    """"pinned_host" or "unpinned_host"."""

    def __repr__(self) -> str:
        return f"{self.device!r}.memory({self.kind!r})"

    @property
    def id(self) -> int:
        """That of the device."""
        return self.device.id

    @property
    def runtime(self) -> Runtime:
        """The runtime of the device."""
        return self.device.runtime

    @property
    def platform(self) -> str:
        """That of the device."""
        return self.device.platform

    @property
    def process_index(self) -> int:
        """That of the device."""
        return self.device.process_index

    @property
    def is_addressable(self) -> bool:
        """Whether this process can reach it."""
        return self.device.is_addressable

    @property
    def domain(self) -> Domain:
        """The memory domain."""
        return self.device.domain.memories[self.kind]

    @property
    def memory_domain(self) -> int:
        """Number of the memory domain."""
        return self.domain.index

    @property
    def account(self) -> Account:
        """What is charged for shards in it."""
        shared = self.domain is self.device.domain
        return self.device.account if shared else self.device.host_account


Place: TypeAlias = Device | MemorySpace
"""Where a shard lies."""
