"""Containers of objects around a traced or mapped function, which it may read and not change.

Such a function runs once for many values. What it puts into a list of an object that it captures
would happen once, with a value that is gone afterwards. Lists cannot refuse that themselves. So who
reads one from such an object notes what is in it, and the end of the function compares.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from contextvars import ContextVar
from typing import Any

CONTAINERS: Any = (list, tuple, MutableMapping, set, deque)
"""Types of what has parts that Python programs put in and take out, or holds such in turn."""


class Guard:
    """Watches containers while a function is traced or mapped, as a context manager.

    Changes are undone. If the function has not failed otherwise, the error follows that belongs to
    the first of them.
    """

    __slots__ = ("_outer_guard", "seen")

    seen: dict[int, tuple[Any, Any, Callable[[], Exception]]] | None
    """Each container, what was in it, and what makes the error; None until there is one."""

    def __enter__(self) -> None:
        self.seen = None
        self._outer_guard = innermost_guard.set(self)

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        innermost_guard.reset(self._outer_guard)
        if self.seen is not None:
            self.undo(kind)

    def undo(self, kind: Any) -> None:
        """Undo changes of the containers; raise the first error unless there is one of a `kind`."""
        assert self.seen is not None
        refusals = [refuse for x, before, refuse in self.seen.values() if _undone(x, before)]
        if refusals and kind is None:
            raise refusals[0]()


innermost_guard: ContextVar[Guard | None] = ContextVar("innermost guard", default=None)
"""The guard of the innermost function that is traced or mapped here, which sets and resets it."""

guard = innermost_guard.get
"""Return the guard of the innermost function that is traced or mapped here; None outside."""


def watch(x: Any, refuse: Callable[[], Exception]) -> None:
    """Note what is in a container, and in those within it, if it is one.

    Args:
      x: any value.
      refuse: makes the error for a change.
    """
    own = guard()
    if own is None:
        return
    if own.seen is None:
        own.seen = {}
    pending = [x]
    while pending:
        x = pending.pop()
        if not isinstance(x, CONTAINERS) or id(x) in own.seen:
            continue
        contents = _contents(x)
        own.seen[id(x)] = x, contents, refuse
        pending += contents


def _contents(x: Any) -> tuple[Any, ...]:
    """Return what is in a container: of a mapping keys and values."""
    if isinstance(x, Mapping):
        return tuple([part for item in x.items() for part in item])
    return tuple(x)


def _undone(x: Any, before: tuple[Any, ...]) -> bool:
    """Undo changes of a container; return whether there were any."""
    now = _contents(x)
    if len(now) == len(before) and all(map(operator.is_, now, before)):
        return False
    x.clear()
    items: Iterable[Any] = before
    if isinstance(x, MutableMapping):
        items = zip(before[::2], before[1::2], strict=True)
    (x.extend if isinstance(x, list | deque) else x.update)(items)
    return True
