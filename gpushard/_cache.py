"""Caches bounded by bytes, and exact keys for them.

>>> cache = BoundedCache(limit=100)
>>> cache.put("a", "first", nbytes=60)
>>> cache.put("b", "second", nbytes=60)
>>> cache.get("a"), cache.get("b"), cache.nbytes
(None, 'second', 60)
"""

from __future__ import annotations

import dataclasses
import functools
import os
import struct
import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

import numpy as np

V = TypeVar("V")
P = ParamSpec("P")


class Sized(Protocol):
    """A value that knows its size in memory."""

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes."""


S = TypeVar("S", bound=Sized)


class _Entry(Generic[V]):
    """A value, its bytes, and whether it was used since it last came up for removal."""

    __slots__ = ("nbytes", "used", "value")

    def __init__(self, value: V, nbytes: int) -> None:
        self.value = value
        self.nbytes = nbytes
        self.used = True


class BoundedCache(Generic[V]):
    """A cache of at most `limit` bytes; a hit takes no lock.

    It evicts the oldest entry first, unless the entry was used since: then it gets a second chance
    (the clock algorithm, Corbato, 1968). So a hit only has to set a flag.

    Args:
      limit: the most bytes of all values; a larger value is not stored.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.nbytes = 0
        # No OrderedDict: an interrupt in a key's hash, if that is Python code, ruins its order.
        self._entries: dict[Hashable, _Entry[V]] = {}
        self._torn = False  # whether an interrupt cut a change short, so `nbytes` may be wrong
        self._changing = False  # whether a thread, maybe this one, is in the middle of a change
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

    def put(self, key: Hashable, value: V, nbytes: int) -> None:
        """Store `value`, which has `nbytes`, and evict other values beyond the limit."""
        with self._lock:
            if self._changing:  # a signal handler or a finalizer in the middle of a change
                return
            try:
                self._changing = True
                self._put(key, value, nbytes)
            finally:
                self._changing = False

    def values(self) -> list[V]:
        """Return the cached values, the oldest first."""
        return [entry.value for entry in list(self._entries.values())]

    def get_or_make(
        self, key: Hashable, make: Callable[P, Any], *how: P.args, **more: P.kwargs
    ) -> V:
        """Return the value under `key`; on a miss, make and store it."""
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
        """Evict the oldest entry, or give it a second chance."""
        key = next(iter(self._entries))
        entry = self._entries.pop(key)
        if entry.used:
            entry.used = False
            self._entries[key] = entry
        else:
            self.nbytes -= entry.nbytes

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            if self._changing:
                return
            try:
                self._changing = self._torn = True
                self._entries.clear()  # finalizers of values may use this cache
                self.nbytes = 0
                self._torn = False
            finally:
                self._changing = False

    def renew_lock(self) -> None:
        """Replace the lock in a forked child, where the thread that held it is gone."""
        self._lock = threading.RLock()
        self._changing, self._torn = False, True


_PLAIN = frozenset({bool, int, str, bytes, type(None)})
"""Types with values that are identical if they are equal."""


def exact_key(x: Any) -> Any:
    """Make a key for a value that tells numbers apart by their types and bits.

    In Python 1, True and 1.0 are equal, 0.0 and -0.0 are equal, and NaN is unequal to itself. The
    keys of tuples, frozen sets, slices and frozen dataclasses compare their elements exactly.
    Values of any other class compare by their own equality.

    Args:
      x: a hashable value.

    Returns:
      A hashable key; two keys are equal if and only if the values are identical.

    >>> exact_key((1, 0.0)) == exact_key((1, -0.0)), exact_key((1,)) == exact_key((True,))
    (False, False)
    >>> exact_key((float("nan"), "x")) == exact_key((float("nan"), "x"))
    True
    """
    cls: Any = type(x)
    if cls in _PLAIN:
        return cls, x
    if isinstance(x, np.generic):
        return cls, x.dtype, x.tobytes()
    if cls.__eq__ is float.__eq__:
        return cls, struct.pack("d", x)
    if cls.__eq__ is complex.__eq__:
        return cls, struct.pack("dd", x.real, x.imag)
    if cls.__eq__ is tuple.__eq__:
        return cls, *map(exact_key, x)
    if cls.__eq__ is frozenset.__eq__:
        return cls, frozenset(map(exact_key, x))
    if cls is slice:
        return cls, exact_key(x.start), exact_key(x.stop), exact_key(x.step)
    if _is_record(cls):
        fields = [field for field in dataclasses.fields(x) if field.compare]
        if all(field.hash is not False for field in fields):
            return cls, *[exact_key(getattr(x, field.name)) for field in fields]
    return cls, x


def has_lookalikes(x: Any) -> bool:
    """Test whether a value may equal another one with a different `exact_key`.

    >>> has_lookalikes(("a", None)), has_lookalikes(("a", 0.0))
    (False, True)
    """
    cls: Any = type(x)
    if cls is str or x is None:
        return False
    if cls.__eq__ is tuple.__eq__:
        return any(map(has_lookalikes, x))
    return isinstance(x, int | float | complex | np.generic | frozenset | slice) or _is_record(cls)


def _is_record(cls: type) -> bool:
    """Test whether the fields of a class determine its values."""
    declared = vars(cls).get("__dataclass_params__")
    return declared is not None and declared.frozen and declared.eq


def remembering(limit: int) -> Callable[[Callable[P, S]], Callable[P, S]]:
    """Return a decorator that caches the results of pure functions, up to a number of bytes.

    `functools.lru_cache` counts results instead, and some results are a thousand times larger than
    others.

    Args:
      limit: bytes for all functions that share the decorator. Their results have an attribute
        `nbytes`, the approximate size of result and arguments.

    >>> import numpy as np
    >>> remember = remembering(limit=1000)
    >>> zeros = remember(np.zeros)
    >>> zeros(10) is zeros(10), zeros(1000) is zeros(1000)
    (True, False)
    """
    cache: BoundedCache[Any] = BoundedCache(limit)
    os.register_at_fork(after_in_child=cache.renew_lock)

    def decorate(function: Callable[P, S]) -> Callable[P, S]:
        @functools.wraps(function)
        def remembered(*args: P.args, **kwargs: P.kwargs) -> S:
            key = (function, args, *kwargs.items())
            value: S = cache.get_or_make(key, function, *args, **kwargs)
            return value

        remembered.cache = cache  # type: ignore[attr-defined]
        return remembered

    return decorate


def hold_while_forking(lock: Any) -> None:
    """Prevent forks while another thread holds a lock.

    Args:
      lock: a lock that is held only for a moment, lives as long as the process, and under which no
        other lock is taken.
    """
    os.register_at_fork(
        before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
    )
