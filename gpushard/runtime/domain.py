"""Memory domains: physical memory that devices share."""

from __future__ import annotations

from gpushard.geometry.memory_kind import MEMORY_KINDS
from gpushard.runtime.pool import Pool
from gpushard.runtime.stream import Stream


class Domain:
    """Physical memory that several devices share, with the streams that move data.

    `copy` is the stream of copies into it, `feed` of those from the host, `fetch` of those to the
    host. These go through the `ring`, limited page-locked host memory, unless memory is `readable`
    by the host as it lies.
    """

    USES = ("copy", "feed", "fetch")  # what its streams are for
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
        # The domain of each kind of memory beside it.
        self.memories = dict.fromkeys(MEMORY_KINDS, self)
        # "device", or which kind of host memory beside devices it is. No stream reads or writes
        # "unpinned_host".
        self.kind = "device"

    @property
    def streams(self) -> tuple[Stream, ...]:
        """All of its streams."""
        return self.copy, self.feed, self.fetch
