"""Cache the traced bodies of control flow that is called outside any traced function.

A second call with the same function, and with arguments of the same types and layouts, traces
nothing. A body that captures arrays is traced at every call, because the arrays may have changed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary, ref

from gpushard import tree
from gpushard._cache import BoundedCache
from gpushard._placement.default_placement import surroundings
from gpushard._transforms.control_flow.bodies import TracedControl, Value
from gpushard._transforms.tracing.trace import tracing
from gpushard._transforms.values.frames import innermost
from gpushard.tree.treedef import exact_structure


class BodyCache:
    """Cache of traced bodies for control flow called outside any traced or mapped function.

    Calls inside one are traced with it and are not cached. Neither are bodies that capture arrays.

    Args:
      functions: the functions of the user. The cache lives as long as the last one.
      *key: distinguishes the ways in which they are called, apart from their arguments.
    """

    def __init__(self, functions: Sequence[Any], *key: Any) -> None:
        self._cache: BoundedCache[Any] | None = None
        if innermost() is not None or tracing() is not None:
            return
        *others, last = functions
        with contextlib.suppress(TypeError):  # no hash, or no weak references: not cached
            exact = [exact_structure(x) if isinstance(x, tree.TreeDef) else x for x in key]
            self._key = (*exact, *surroundings(), *map(ref, others))
            hash(self._key)
            cache = _caches.get(last)
            if cache is None:
                cache = _caches.setdefault(last, BoundedCache(_CACHE_BYTES))
            self._cache = cache

    def get(self, values: Sequence[Value]) -> Any:
        """Look up the entry for values of these types and layouts; None if there is none."""
        if self._cache is None:
            return None
        return self._cache.get((*self._key, *map(kind_of, values)))

    def put(self, values: Sequence[Value], entry: Any, control: TracedControl) -> None:
        """Keep an entry for values of these types and layouts, unless a body captures arrays.

        Args:
          values: the values that the functions were called with.
          entry: what `get` returns from now on.
          control: the traced functions; its size counts as that of the entry.
        """
        if self._cache is not None and not any(body.captured for body in control.bodies):
            self._cache.put((*self._key, *map(kind_of, values)), entry, control.ready.nbytes)


def kind_of(x: Value) -> tuple[Any, ...]:
    """Return all that tracing depends on: layout, type, committed and weak type."""
    array = x.array
    return array._held().tiling, array._dtype, array._committed, array._weak_type


def clear_caches() -> None:
    """Clear the caches of all functions."""
    for cache in list(_caches.values()):
        cache.clear()


_CACHE_BYTES = 32 << 20


"""Most bytes of traced bodies that are kept for one function, approximately."""


_caches: WeakKeyDictionary[Any, BoundedCache[Any]] = WeakKeyDictionary()
