"""Memory domains: physical memories that devices share."""

from __future__ import annotations

from gpushard._geometry.memory_kind import MEMORY_KINDS
from gpushard._runtime.pool import Pool
from gpushard._runtime.stream import Stream


class Domain:
    """A physical memory that several devices share, with the streams that move data.

    The stream `copy` does copies into the memory, `feed` those from the host, and `fetch` those to
    the host. Data from and to the host passes the `ring`, a limited amount of page-locked host
    memory, unless the host can read the memory directly (`readable`).
    """

    USES = ("copy", "feed", "fetch")  # the purposes of its streams
    __slots__ = ("copy", "feed", "fetch", "index", "kind", "memories", "pool", "readable", "ring")

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
        # For each memory kind the domain of that kind on the same chip.
        self.memories = dict.fromkeys(MEMORY_KINDS, self)
        # The memory kind: "device", or a kind of host memory. No stream reads or writes
        # "unpinned_host".
        self.kind = "device"

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The streams."""
        return self.copy, self.feed, self.fetch
