"""Containers around a traced or mapped function, which the function may read but not change.

Python runs such a function once, for the values of many calls. If the function appends to a list of
a captured object, the list gets one traced value, which is dead after the call. A list cannot
refuse an append. So the code that reads a container from such an object notes its contents, and the
end of the function compares.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from contextvars import ContextVar
from typing import Any

CONTAINERS: Any = (list, tuple, MutableMapping, set, deque)
"""Types that programs can change in place, and tuples, which may hold such containers."""


class Guard:
    """Watches containers while a function is traced or mapped; a context manager.

    At its end it undoes all changes. If the function has raised no other error, it then raises the
    error that belongs to the first changed container.
    """

    __slots__ = ("_outer_guard", "seen")

    seen: dict[int, tuple[Any, Any, Callable[[], Exception]]] | None
    """By identity: a container, its contents, and a maker of the error; None before the first."""

    def __enter__(self) -> None:
        self.seen = None
        self._outer_guard = innermost_guard.set(self)

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        innermost_guard.reset(self._outer_guard)
        if self.seen is not None:
            self.undo(kind)

    def undo(self, kind: Any) -> None:
        """Undo changes of containers; raise the first error unless one of `kind` is raised."""
        assert self.seen is not None
        refusals = [refuse for x, before, refuse in self.seen.values() if _undo_changes(x, before)]
        if refusals and kind is None:
            raise refusals[0]()


innermost_guard: ContextVar[Guard | None] = ContextVar("innermost guard", default=None)
"""The guard of the innermost function that is traced or mapped here; `Guard` sets and resets it."""

guard = innermost_guard.get
"""Get the guard of the innermost function that is traced or mapped here; None outside."""


def watch(x: Any, refuse: Callable[[], Exception]) -> None:
    """Note the contents of a container, and of the containers within it.

    Args:
      x: any value; a value that is no container is ignored.
      refuse: makes the error for a change.
    """
    innermost = guard()
    if innermost is None:
        return
    if innermost.seen is None:
        innermost.seen = {}
    pending = [x]
    while pending:
        x = pending.pop()
        if not isinstance(x, CONTAINERS) or id(x) in innermost.seen:
            continue
        contents = _contents(x)
        innermost.seen[id(x)] = x, contents, refuse
        pending += contents


def _contents(x: Any) -> tuple[Any, ...]:
    """List the contents of a container; of a mapping, keys and values by turns."""
    if isinstance(x, Mapping):
        return tuple([part for item in x.items() for part in item])
    return tuple(x)


def _undo_changes(x: Any, before: tuple[Any, ...]) -> bool:
    """Undo the changes of a container, and say whether there were any."""
    now = _contents(x)
    if len(now) == len(before) and all(map(operator.is_, now, before)):
        return False
    x.clear()
    items: Iterable[Any] = before
    if isinstance(x, MutableMapping):
        items = zip(before[::2], before[1::2], strict=True)
    (x.extend if isinstance(x, list | deque) else x.update)(items)
    return True
