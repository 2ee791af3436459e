"""A mapping that forgets what was used longest ago once it holds too many bytes.

>>> cache = BoundedCache(limit=100)
>>> cache.put("a", "first", nbytes=60)
>>> cache.put("b", "second", nbytes=60)
>>> cache.get("a"), cache.get("b"), cache.nbytes
(None, 'second', 60)
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class BoundedCache(Generic[V]):
    """Least-recently-used values, bounded by the bytes that they say they hold.

    Args:
      limit: bytes kept at most; a value larger than that is not kept at all.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.nbytes = 0
        self._entries: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> V | None:
        """Return the value under `key` and mark it as just used, or None."""
        try:
            value, _ = self._entries[key]
            self._entries.move_to_end(key)
        except KeyError:  # absent, or evicted by another thread between the two calls
            return None
        return value

    def put(self, key: Hashable, value: V, nbytes: int) -> None:
        """Keep `value`, which holds `nbytes`, and forget the oldest beyond the limit."""
        with self._lock:
            _, before = self._entries.pop(key, (None, 0))
            self.nbytes -= before
            if nbytes <= self.limit:
                self._entries[key] = (value, nbytes)
                self.nbytes += nbytes
            while self.nbytes > self.limit:
                _, (_, freed) = self._entries.popitem(last=False)
                self.nbytes -= freed

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self.nbytes = 0
