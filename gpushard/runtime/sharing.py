"""Work inside a kernel on the host that idle worker threads may help with."""

from __future__ import annotations

import contextvars
import functools
import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

Parts: TypeAlias = Sequence[Callable[[], None]]

_here = threading.local()


def share_with(sharer: Callable[[Parts], None]) -> None:
    """Let kernels that run on this thread share work: `sharer` returns when all parts have run."""
    _here.sharer = sharer


def share(parts: Parts) -> None:
    """Run independent parts of a kernel, on other threads too if this is a worker.

    They run in copies of the caller's context, and so warn of overflow and the like as it does.

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
