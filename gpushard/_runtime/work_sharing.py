"""Share the work of a host kernel with idle worker threads."""

from __future__ import annotations

import contextvars
import functools
import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

Parts: TypeAlias = Sequence[Callable[[], None]]

_here = threading.local()


def share_with(sharer: Callable[[Parts], None]) -> None:
    """Set how kernels on this thread share work: `sharer` returns when all parts have run."""
    _here.sharer = sharer


def share(parts: Parts) -> None:
    """Run independent parts of a kernel; on a worker thread, idle threads help.

    Parts run in copies of the context of the caller, so NumPy's warnings, such as those of
    overflow, are as it has set them.

    >>> seen = []
    >>> share([lambda: seen.append(1), lambda: seen.append(2)])
    >>> seen
    [1, 2]
    """
    sharer = getattr(_here, "sharer", None)
    if sharer is None or len(parts) < 2:
        for part in parts:
            part()
    else:
        sharer([functools.partial(contextvars.copy_context().run, part) for part in parts])


_RARELY = 63


"""So many times in a row calls count as long, at most, before they are measured again."""


class Pace:
    """Whether calls of one kind take long enough for other threads to help, as far as is known.

    It is measured while no other thread helps: each time where calls turn out to be short, and ever
    more rarely where they are long. The first calls of all are not measured so: what they need is
    not in a cache yet, nor in memory.

    Args:
      steps: about how many functions of NumPy's a call uses; before each threads may have to wait
        for one another.

    >>> pace = Pace()
    >>> for long in (True, True, False, False):
    ...     while pace.is_long():
    ...         print("not measured")
    ...     pace.note(long)
    not measured
    not measured
    not measured
    not measured
    not measured
    """

    __slots__ = ("_left", "_most", "steps")

    def __init__(self, steps: int = 1) -> None:
        self.steps = steps
        self._left = 1  # so many more times they count as long without being measured
        self._most = 0  # what that was when they had been measured last

    def is_long(self) -> bool:
        """Whether they count as long without being measured."""
        self._left -= 1
        return self._left >= 0

    def note(self, long: bool) -> None:
        """Note what was measured."""
        self._most = min(2 * self._most + 1, _RARELY) if long else 0
        self._left = self._most
