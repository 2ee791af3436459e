"""What the checker remembers of one buffer: who wrote it, who reads it, who has it on loan."""

from __future__ import annotations

import dataclasses
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from gpushard.runtime.memory import Memory
from gpushard.runtime.stream import Clock, Stream


@dataclasses.dataclass(eq=False, slots=True)
class Access:
    """One use of a buffer."""

    stream: Stream | None  # the stream of the item; None for the host
    place: str  # what it is and where it was submitted, for people
    tick: int = 0  # the item
    part: int = 0  # the part of the buffer that the item is about; see `Runtime.submit`

    def is_of(self, stream: Stream, tick: int) -> bool:
        """Whether it is that of an item."""
        return self.stream is stream and self.tick == tick

    def before(self, clock: Clock) -> bool:
        """Whether it is over for whoever knows `clock`."""
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
        # The memory that it belongs to, once an item has used it as such.
        self.owner: Memory | None = None
        self.free = False  # whether it lies in its pool
        self.write: Access | None = None  # the last write
        # The last write of all of it; those since then added parts.
        self.whole: Access | None = None
        self.reads: list[Access] = []  # the reads since
        self.hosts: list[Access] = []  # what the host is doing with it at this moment
        self._loans: list[tuple[weakref.ref[Any], Access]] = []

    def accesses(self) -> Iterator[Access]:
        """All that a release has to know of."""
        if self.write is not None:
            yield self.write
        yield from self.reads

    def wrote(self, access: Access) -> None:
        """Note a write; the reads before it matter no more, unless it only adds a part."""
        if not access.part:
            self.reads, self.whole = [], access
        self.write = access

    def extends(self, access: Access) -> bool:
        """Whether a write adds a part to what the same stream wrote."""
        return self.write is not None and self.write.stream is access.stream

    def lend(self, view: Any, access: Access) -> None:
        """Note that the host may read the buffer as long as a view of it lives."""
        while isinstance(view, np.ndarray) and view.base is not None:
            view = view.base
        self._loans.append((weakref.ref(view), access))

    def on_loan(self) -> Access | None:
        """Return who has it on loan."""
        self._loans = [loan for loan in self._loans if loan[0]() is not None]
        return self._loans[0][1] if self._loans else None

    def lent(self) -> Access | None:
        """Return who has it on loan, or uses it at this moment."""
        return self.hosts[0] if self.hosts else self.on_loan()


def raise_to(clock: Clock, other: Clock) -> None:
    """Let a clock know all that another one knows."""
    for stream, tick in other.items():
        if tick > clock.get(stream, 0):
            clock[stream] = tick


def caller_place() -> str:
    """Return the file and line of the nearest caller outside of the package."""
    frame = sys._getframe()
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__")):
        frame = frame.f_back
    return f"at {frame.f_code.co_filename}:{frame.f_lineno}"


def _is_ours(module: object) -> bool:
    """Whether the package has a module of this name; any code may call itself as it likes."""
    return isinstance(module, str) and module.startswith("gpushard.")
