"""Events whose answers the checker hears."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpushard.runtime.stream import Event, Stream


class CheckedEvent:
    """An event that tells what the host has learnt from it.

    Args:
      learn: hears that a tick of a stream is known to be finished.
      event: the event.
      stream: whose it is.
    """

    __slots__ = ("_event", "_learn", "_stream", "tick")

    def __init__(self, learn: Callable[[Stream, int], None], event: Event, stream: Stream) -> None:
        self._learn = learn
        self._event = event
        self._stream = stream
        self.tick = event.tick

    def __getattr__(self, name: str) -> Any:
        return getattr(self._event, name)

    def query(self) -> bool:
        """Whether it has come."""
        over = self._event.query()
        if over:
            self._learn(self._stream, self.tick)
        return over

    def synchronize(self) -> None:
        """Wait for it."""
        self._event.synchronize()
        self._learn(self._stream, self.tick)
