"""What the CUDA backend knows of each stream."""

from __future__ import annotations

from gpushard.runtime.cuda.driver import StreamHandle


class Queue:
    """The CUDA stream behind a stream."""

    __slots__ = ("chip", "domain", "handle", "launched", "recorded_at")

    def __init__(self, chip: int, domain: int, handle: StreamHandle) -> None:
        self.chip = chip
        self.domain = domain
        self.handle = handle
        self.launched = 0
        """The last item that was given to CUDA."""
        self.recorded_at = 0
        """When an event was recorded last."""
