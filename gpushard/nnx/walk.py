"""What a node of a graph is made of, and the walk from one to all that is reached from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from gpushard.nnx.levels import Leveled
from gpushard.nnx.state import key_order
from gpushard.nnx.variable import Variable
from gpushard.tree.node import NODES, namedtuple_node

__all__ = ["iter_graph"]

Path: TypeAlias = tuple[Any, ...]


def is_container(x: Any) -> bool:
    """Whether it is a pytree that has children, and no Variable."""
    return x is not None and (type(x) in NODES or namedtuple_node(type(x)) is not None)


def bare(key: Any) -> Any:
    """Return a step of a tree's path as a step of a graph's."""
    for name in ("name", "key", "idx"):
        if hasattr(key, name):
            return getattr(key, name)
    return key


def ordered(keys: list[Any]) -> list[Any]:
    """Return keys sorted."""
    try:
        return sorted(keys)
    except TypeError:
        return sorted(keys, key=key_order)


def children_of(x: Any) -> list[tuple[Any, Any]]:
    """Return keys and children of what may be a node, sorted by key."""
    cls = type(x)
    if isinstance(x, Variable):
        return []
    if cls is list:
        return list(enumerate(x))
    if cls is dict or isinstance(x, Leveled):
        items = x if cls is dict else vars(x)
        return [(key, items[key]) for key in ordered(list(items))]
    node = NODES.get(cls) or namedtuple_node(cls)
    if node is None or x is None:
        return []
    own, aux = node.flatten(x)
    return list(zip(map(bare, node.keys(cls, aux, len(own))), own, strict=True))


def iter_graph(node: Any, /) -> Iterator[tuple[Path, Any]]:
    """Yield path and object of what is in a graph, each once, and what is in it before a node.

    Args:
      node: a Module, or a container of Modules and Variables.

    >>> from gpushard import nnx
    >>> m = nnx.Module()
    >>> m.parts = [nnx.Param(1.0), 2]
    >>> [(path, type(x).__name__) for path, x in nnx.iter_graph(m)]
    [(('parts', 0), 'Param'), (('parts', 1), 'int'), (('parts',), 'list'), ((), 'Module')]
    """
    seen: set[int] = set()
    pending: list[tuple[Path, Any, bool]] = [((), node, False)]
    while pending:
        path, x, done = pending.pop()
        if done or not (isinstance(x, Leveled) or is_container(x)):
            yield path, x
            continue
        if isinstance(x, Leveled | dict | list):
            if id(x) in seen:
                continue
            seen.add(id(x))
        pending.append((path, x, True))
        pending += [((*path, key), child, False) for key, child in reversed(children_of(x))]
