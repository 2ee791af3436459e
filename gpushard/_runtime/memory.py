"""Memory: root allocations that know who wrote and who uses them.

A `Memory` is one root allocation with its clocks. It keeps them when it goes back to its pool. So
the next taker waits for every earlier user, and a release never waits for anyone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from gpushard._runtime.stream import Clock, Stream, Tick

BLOCK_ALIGNMENT = 256
"""Bytes that blocks in one memory are aligned to, as those of CUDA's own allocations are."""


def packed(sizes: Iterable[int], alignment: int = BLOCK_ALIGNMENT) -> tuple[tuple[int, ...], int]:
    """Return where blocks of so many bytes begin in one memory, and the bytes of that.

    >>> packed([256, 4, 0, 300])
    ((0, 256, 512, 512), 1024)
    """
    starts, end = [], 0
    for nbytes in sizes:
        starts.append(end)
        end += -(-nbytes // alignment) * alignment
    return tuple(starts), end


class Account:
    """What one device is charged for, up to a limit in bytes."""

    __slots__ = ("allocations", "in_use", "largest", "limit", "owner", "peak")

    def __init__(self, owner: str, limit: int | None = None) -> None:
        self.owner = owner
        self.limit = limit
        self.in_use = 0
        self.peak = 0
        self.allocations = 0
        self.largest = 0

    def restart(self, limit: int | None) -> None:
        """Be as if nothing was ever charged."""
        self.limit = limit
        self.in_use = self.peak = self.allocations = self.largest = 0

    def fits(self, nbytes: int) -> bool:
        """Whether the quota leaves room for `nbytes` more."""
        return self.limit is None or self.in_use + nbytes <= self.limit


class Passing:
    """Memory that a call takes and lets go of before it returns; several pieces, one by one.

    Args:
      charges: for each account the most bytes at once, the number of pieces that go, and the bytes
        of the largest of these.
    """

    __slots__ = ("_charges",)

    def __init__(self, charges: Iterable[tuple[Account, int, int, int]]) -> None:
        self._charges = tuple(charges)

    def charge(self) -> None:
        """Let accounts pay for it; only the records of what they paid change."""
        for account, most, count, largest in self._charges:
            account.allocations += count
            account.peak = max(account.peak, account.in_use + most)
            account.largest = max(account.largest, largest)


class Keeper(Protocol):
    """What memory comes from, and goes back to."""

    def charge(self, memory: Memory) -> None:
        """Let the accounts of a memory pay for it."""

    def release(self, memory: Memory) -> None:
        """Take back memory that nobody claims any more."""


class Memory:
    """One root allocation.

    Args:
      raw: the backend's buffer; None when the shards of a small array own theirs.
      nbytes: bytes asked for.
      capacity: bytes that the pool holds for it; 0 when it is not pooled.
      charges: the accounts that pay, with the bytes.
      pool: where it goes back to.
    """

    __slots__ = (
        "borrower",
        "capacity",
        "charges",
        "error",
        "home",
        "nbytes",
        "pool",
        "raw",
        "released",
        "used",
        "written",
    )

    def __init__(
        self,
        raw: Any,
        nbytes: int,
        capacity: int,
        charges: tuple[tuple[Account, int], ...],
        pool: Keeper,
    ) -> None:
        self.raw = raw
        self.nbytes = nbytes
        self.capacity = capacity
        self.charges = charges
        self.pool = pool
        # The item that writes the current content; None when it is known to be there.
        self.written: Tick | None = None
        # The last item of each stream that reads it, or that used it before it was freed.
        self.used: Clock = {}
        self.error: BaseException | None = None  # why the content will never be there
        # When it was freed, as a number that grows with every release to its pool; 0 for never.
        self.released = 0
        self.home: Stream | None = None  # once freed: the stream that wrote it last
        # The stream whose items a library uses it in, without a tick that says which.
        self.borrower: Stream | None = None

    def pending(self) -> bool:
        """Whether its content is still to be written."""
        written = self.written
        return written is not None and not written[0].finished(written[1])

    def busy(self) -> bool:
        """Whether some item still reads or writes it; under the lock, forgets what is over."""
        if self.written is None and not self.used:
            return False
        self.used = {s: n for s, n in self.used.items() if not s.finished(n)}
        if not self.pending():
            self.written = None
        return self.written is not None or bool(self.used)

    def wait_idle(self) -> None:
        """Wait until no item reads or writes it, so that the host may write it."""
        for stream, tick in list(self.clock()):
            stream.synchronize(tick)
        self.written, self.used = None, {}

    def clock(self) -> tuple[Tick, ...]:
        """The ticks that whoever overwrites it has to wait for."""
        written, used = self.written, self.used
        if used:
            return tuple(used.items()) if written is None else (written, *used.items())
        return () if written is None else (written,)

    def covered(self, stream: Stream) -> bool:
        """Whether `stream` may overwrite it without a wait."""
        written = self.written
        if written is not None and written[0] is not stream and not stream.covers(*written):
            return False
        for other, tick in self.used.items():
            if other is not stream and not stream.covers(other, tick):
                return False
        return True
