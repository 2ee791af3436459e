"""Record the uses of a buffer for the checker: its writer, its readers, and loans."""

from __future__ import annotations

import dataclasses
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from gpushard._runtime.memory import Memory
from gpushard._runtime.stream import Clock, Stream


@dataclasses.dataclass(eq=False, slots=True)
class Access:
    """A use of a buffer."""

    stream: Stream | None  # the stream of the item; None for the host
    place: str  # the item and where it was submitted, for error messages
    tick: int = 0  # the tick of the item
    part: int = 0  # the part of the buffer that the item uses; see `Runtime.submit`

    def is_of(self, stream: Stream, tick: int) -> bool:
        """Whether the use is by an item."""
        return self.stream is stream and self.tick == tick

    def before(self, clock: Clock) -> bool:
        """Whether the use is over for work with a clock."""
        return self.stream is None or self.tick <= clock.get(self.stream, 0)


class Shadow:
    """The uses of one buffer, from the address `start` up to `stop`."""

    __slots__ = (
        "_loans",
        "free",
        "hosts",
        "owner",
        "raw",
        "reads",
        "start",
        "stop",
        "whole",
        "write",
    )

    def __init__(self, raw: Any, start: int, stop: int) -> None:
        self.raw = raw
        self.start = start
        self.stop = stop
        # The memory to which the buffer belongs, once an item has used it.
        self.owner: Memory | None = None
        self.free = False  # whether it is free, in its pool
        self.write: Access | None = None  # the last write
        # The last write of the whole buffer; later writes added parts.
        self.whole: Access | None = None
        self.reads: list[Access] = []  # the reads since that
        self.hosts: list[Access] = []  # uses by the host at this moment
        self._loans: list[tuple[weakref.ref[Any], Access]] = []

    def accesses(self) -> Iterator[Access]:
        """Yield the uses that must be over before a release."""
        if self.write is not None:
            yield self.write
        yield from self.reads

    def wrote(self, access: Access) -> None:
        """Note a write. Earlier reads no longer matter, unless the write only adds a part."""
        if not access.part:
            self.reads, self.whole = [], access
        self.write = access

    def extends(self, access: Access) -> bool:
        """Whether a write adds a part to what the same stream wrote."""
        return self.write is not None and self.write.stream is access.stream

    def lend(self, view: Any, access: Access) -> None:
        """Note that the host may read the buffer as long as a view of it exists."""
        while isinstance(view, np.ndarray) and view.base is not None:
            view = view.base
        self._loans.append((weakref.ref(view), access))

    def on_loan(self) -> Access | None:
        """Return a loan of the buffer, or None."""
        self._loans = [loan for loan in self._loans if loan[0]() is not None]
        return self._loans[0][1] if self._loans else None

    def lent(self) -> Access | None:
        """Return a use by the host at this moment, or a loan, or None."""
        return self.hosts[0] if self.hosts else self.on_loan()


def raise_to(clock: Clock, other: Clock) -> None:
    """Raise the ticks of a clock to those of another one."""
    for stream, tick in other.items():
        if tick > clock.get(stream, 0):
            clock[stream] = tick


def caller_place() -> str:
    """Return file and line of the nearest caller outside the package."""
    frame = sys._getframe()
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__")):
        frame = frame.f_back
    return f"at {frame.f_code.co_filename}:{frame.f_lineno}"


def _is_ours(module: object) -> bool:
    """Whether a module of this name is in the package; the name may be any object."""
    return isinstance(module, str) and module.startswith("gpushard.")
