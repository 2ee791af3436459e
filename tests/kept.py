"""All caches that have a bound, for tests of what caches hold."""

from __future__ import annotations

import functools
import gc
from typing import Any

import gpushard as gs
from gpushard._cache import BoundedCache


class Caches:
    """The caches of this process: those that are known when this is made, and later ones.

    Only this looks at what the collector is spared, as that takes seconds where many tests ran.
    """

    def __init__(self) -> None:
        gc.unfreeze()
        gc.collect()
        self._known = _found()
        gc.freeze()

    def bounded(self) -> list[BoundedCache]:
        """List the library's own."""
        return [x for x in self._every() if isinstance(x, BoundedCache)]

    def forget_results(self) -> None:
        """Empty the caches of pure functions, whose bounds are in entries."""
        for x in self._every():
            if not isinstance(x, BoundedCache):
                x.cache_clear()

    def empty(self) -> None:
        """Empty every cache."""
        gs.clear_caches()
        for x in self.bounded():
            x.clear()
        self.forget_results()

    def _every(self) -> list[Any]:
        return [*self._known, *_found()]


def _found() -> list[Any]:
    return [
        x
        for x in gc.get_objects()
        if isinstance(x, BoundedCache)
        or (isinstance(x, functools._lru_cache_wrapper) and x.cache_info().maxsize is not None)
    ]
