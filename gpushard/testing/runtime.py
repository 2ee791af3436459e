"""Runtimes that last for a `with` block."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from gpushard.config import Settings
from gpushard.runtime import current
from gpushard.runtime.runtime import Runtime


@contextlib.contextmanager
def runtime(**settings: Any) -> Iterator[Runtime]:
    """Use a runtime of one's own within a `with` block; nothing leaks out of it.

    Args:
      **settings: fields of `gpushard.Settings`; the environment plays no part.

    Yields:
      The runtime; module-level functions use it until the block ends.

    Raises:
      ConfigurationError: a setting makes no sense.

    >>> import gpushard as gs
    >>> with runtime(host_devices=2):
    ...     gs.device_count()
    2
    """
    made = current.make_runtime(Settings(**settings))
    before = current.swap(made)
    try:
        yield made
    finally:
        current.swap(before)
        made.close()
