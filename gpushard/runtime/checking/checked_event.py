"""Events that tell who asks them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpushard.runtime.stream import Event, Stream


class CheckedEvent:
    """An event whose answers somebody hears.

    Args:
      learn: told the stream and the tick that the host has seen finished.
      event: gives the answers.
      stream: whose tick it is.
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
        """Wait until it has."""
        self._event.synchronize()
        self._learn(self._stream, self.tick)
