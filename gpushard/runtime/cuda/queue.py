"""What the CUDA backend knows of each stream."""

from __future__ import annotations

from collections import deque

from gpushard.runtime.cuda.driver.driver import StreamHandle
from gpushard.runtime.memory import Claim


class Queue:
    """The CUDA stream behind a stream."""

    __slots__ = ("chip", "domain", "handle", "launched", "recorded_at", "returned", "spare")

    def __init__(self, chip: int, domain: int, handle: StreamHandle) -> None:
        self.chip = chip
        self.domain = domain
        self.handle = handle
        self.launched = 0
        """The last item that was given to CUDA."""
        self.recorded_at = 0
        """When an event was recorded last."""
        self.spare: dict[int, deque[Claim]] = {}
        """Memory that a library let go of in the item that is launched, by size."""
        self.returned: deque[Claim] = deque()
        """Memory that work of callers let go of, until the next item."""


class Lease:
    """Memory of the item that is launched, or of a caller's work, which may use it again later.

    Args:
      claim: holds it.
      spare: where that goes.
    """

    __slots__ = ("_spare", "claim")

    def __init__(self, claim: Claim, spare: deque[Claim]) -> None:
        self.claim = claim
        self._spare = spare

    def __del__(self) -> None:
        self._spare.append(self.claim)  # a call of C
