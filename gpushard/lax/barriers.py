"""Functions of `jax.lax` that return values unchanged: nothing is derived or reordered here."""

from __future__ import annotations

from typing import Any

from gpushard import tree
from gpushard._functions.values import is_value
from gpushard._placement.arguments import as_value

__all__ = ["optimization_barrier", "stop_gradient"]


def stop_gradient(x: Any) -> Any:
    """Return values unchanged: there are no derivatives to stop.

    Args:
      x: a pytree.

    >>> stop_gradient({"a": 1})
    {'a': 1}
    """
    return tree.map(lambda leaf: as_value(leaf, "stop_gradient") if is_value(leaf) else leaf, x)


def optimization_barrier(operand: Any, /) -> Any:
    """Return values unchanged: operations are never reordered in a way that changes bits.

    Args:
      operand: a pytree.

    >>> optimization_barrier((1, 2))
    (1, 2)
    """
    return stop_gradient(operand)
