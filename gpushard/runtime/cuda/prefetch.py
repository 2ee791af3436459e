"""A thread that fetches values ahead of whoever needs them."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable

_PATIENCE = 2.0
"""Seconds to wait for a call that hangs, when closing."""


class Prefetcher:
    """Calls methods in order, each unless its object is gone by then. Starts with the first."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[weakref.WeakMethod[Callable[[], object]] | None] = (
            queue.SimpleQueue()
        )
        self._thread: threading.Thread | None = None
        self._starting = threading.RLock()

    def put(self, method: Callable[[], object]) -> None:
        """Call a bound method, which must not raise, some time soon."""
        self._calls.put(weakref.WeakMethod(method))
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    name = "gpushard-prefetch"
                    self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
                    self._thread.start()

    def close(self) -> None:
        """End once the call at hand has returned; later ones are left undone."""
        self._calls.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_PATIENCE)

    def _serve(self) -> None:
        while (reference := self._calls.get()) is not None:
            method = reference()
            if method is not None:
                method()
            del method
