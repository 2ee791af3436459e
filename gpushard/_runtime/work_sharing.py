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
