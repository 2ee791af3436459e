"""A mapping that forgets what was not used lately once it holds too many bytes.

>>> cache = BoundedCache(limit=100)
>>> cache.put("a", "first", nbytes=60)
>>> cache.put("b", "second", nbytes=60)
>>> cache.get("a"), cache.get("b"), cache.nbytes
(None, 'second', 60)
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

V = TypeVar("V")
P = ParamSpec("P")


class Sized(Protocol):
    """What knows how much memory it takes."""

    @property
    def nbytes(self) -> int:
        """Bytes, about."""


S = TypeVar("S", bound=Sized)


class _Entry(Generic[V]):
    """A value, its bytes, and whether it was used since it last came up for removal."""

    __slots__ = ("nbytes", "used", "value")

    def __init__(self, value: V, nbytes: int) -> None:
        self.value = value
        self.nbytes = nbytes
        self.used = True


class BoundedCache(Generic[V]):
    """Values bounded by the bytes that they say they hold; a hit takes no lock.

    What came first goes first, unless it was used since: then it gets a second chance (the clock
    algorithm, Corbato, 1968), so that a hit only has to set a flag.

    Args:
      limit: bytes kept at most; a value larger than that is not kept at all.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.nbytes = 0
        # No OrderedDict: an interrupt in the hash of a key, where that is Python, ruins its order.
        self._entries: dict[Hashable, _Entry[V]] = {}
        self._torn = False  # whether an interrupt cut a change short, so that `nbytes` may be wrong
        self._changing = False  # whether somebody, maybe this very thread, is in the middle of one
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> V | None:
        """Return the value under `key` and mark it as just used, or None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        entry.used = True
        return entry.value

    def values(self) -> list[V]:
        """Return the values, none of which counts as used by that."""
        return [entry.value for entry in list(self._entries.values())]

    def put(self, key: Hashable, value: V, nbytes: int) -> None:
        """Keep `value`, which holds `nbytes`, and forget others beyond the limit."""
        with self._lock:
            if self._changing:  # a signal handler or a finalizer in the middle of a change
                return
            try:
                self._changing = True
                self._put(key, value, nbytes)
            finally:
                self._changing = False

    def get_or_make(
        self, key: Hashable, make: Callable[P, Any], *how: P.args, **more: P.kwargs
    ) -> V:
        """Return the value under `key`; what is not there is made, and kept."""
        value = self.get(key)
        if value is None:
            value = make(*how, **more)
            self.put(key, value, value.nbytes)
        return value

    def _put(self, key: Hashable, value: V, nbytes: int) -> None:
        if self._torn:
            self.nbytes = sum(entry.nbytes for entry in self._entries.values())
        self._torn = True
        before = self._entries.pop(key, None)
        if before is not None:
            self.nbytes -= before.nbytes
        if nbytes <= self.limit:
            self._entries[key] = _Entry(value, nbytes)
            self.nbytes += nbytes
        while self.nbytes > self.limit:
            self._forget_one()
        self._torn = False

    def _forget_one(self) -> None:
        """Remove what came first, or give it a second chance."""
        key = next(iter(self._entries))
        entry = self._entries.pop(key)
        if entry.used:
            entry.used = False
            self._entries[key] = entry
        else:
            self.nbytes -= entry.nbytes

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            if self._changing:
                return
            try:
                self._changing = self._torn = True
                self._entries.clear()  # what goes may have finalizers, which come here
                self.nbytes = 0
                self._torn = False
            finally:
                self._changing = False

    def renew_lock(self) -> None:
        """In a forked child: forget a thread that held the lock and is no more."""
        self._lock = threading.RLock()
        self._changing, self._torn = False, True


def remembering(limit: int) -> Callable[[Callable[P, S]], Callable[P, S]]:
    """Return a decorator for pure functions that keeps what they give, up to a number of bytes.

    `functools.lru_cache` counts results instead, and some are a thousand times larger than others.

    Args:
      limit: bytes for all functions that share the decorator. What they give has `nbytes`, about,
        with what they were given.

    >>> import numpy as np
    >>> remember = remembering(limit=1000)
    >>> zeros = remember(np.zeros)
    >>> zeros(10) is zeros(10), zeros(1000) is zeros(1000)
    (True, False)
    """
    kept: BoundedCache[Any] = BoundedCache(limit)
    os.register_at_fork(after_in_child=kept.renew_lock)

    def decorate(function: Callable[P, S]) -> Callable[P, S]:
        @functools.wraps(function)
        def remembered(*args: P.args, **kwargs: P.kwargs) -> S:
            key = (function, args, *kwargs.items())
            value: S = kept.get_or_make(key, function, *args, **kwargs)
            return value

        remembered.kept = kept  # type: ignore[attr-defined]
        return remembered

    return decorate


def hold_while_forking(lock: Any) -> None:
    """Let no fork happen while another thread holds a lock.

    Args:
      lock: one that is held for a moment only, and under which no other lock is taken. It lives as
        long as the process.
    """
    os.register_at_fork(
        before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
    )
