"""Walk graphs: the children of a node, and everything that a node reaches."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator
from types import MethodType
from typing import Any, TypeAlias

from gpushard.nnx.levels import Leveled
from gpushard.nnx.state import State, key_order
from gpushard.nnx.variable import Variable
from gpushard.tree.node import NODES, GetAttrKey, Node, known_node, namedtuple_node

__all__ = ["iter_graph"]

Path: TypeAlias = tuple[Any, ...]

MAPPINGS = frozenset({dict, OrderedDict, defaultdict, State})
"""Containers with children that have keys and can be set one by one, as in Modules and lists."""

_VISITS = 64
"""Most paths to an object that are followed. The number of paths can be exponential."""


_METHOD = Node(
    lambda x: ((x.__self__,), x.__func__),
    lambda cls, function, children: MethodType(function, children[0]),
    lambda cls, function, size: [GetAttrKey("__self__")],
    lambda cls, function, children: f"{children[0]}.{function.__name__}",
)


def is_method(x: Any) -> bool:
    """Whether an object is a method that is bound to a Module."""
    return type(x) is MethodType and isinstance(x.__self__, Leveled)


def node_of(x: Any) -> Node | None:
    """Return the functions for a pytree with children, or a method of a Module; None for others."""
    if x is None:
        return None
    return NODES.get(type(x)) or namedtuple_node(type(x)) or (_METHOD if is_method(x) else None)


def node_of_type(cls: type) -> Node:
    """Return the functions for nodes of a type, as an entry of a GraphDef names it."""
    return _METHOD if cls is MethodType else known_node(cls)


def is_container(x: Any) -> bool:
    """Whether an object is a node with children, but no Module."""
    return node_of(x) is not None


def is_shared(x: Any) -> bool:
    """Whether a graph tracks the identity of an object: it is no tuple and no leaf value."""
    cls = type(x)
    return isinstance(x, Leveled) or (cls in NODES and cls is not tuple and x is not None)


def graph_key(key: Any) -> Any:
    """Convert a step of the path in a tree to a step of the path in a graph."""
    for name in ("name", "key", "idx"):
        if hasattr(key, name):
            return getattr(key, name)
    return key


def sort_keys(keys: list[Any]) -> list[Any]:
    """Sort keys, also of different types."""
    try:
        return sorted(keys)
    except TypeError:
        return sorted(keys, key=key_order)


def items_of(x: Any) -> dict[Any, Any]:
    """Return the dict with the children of a Module or a mapping."""
    if isinstance(x, Leveled):
        return vars(x)
    items: dict[Any, Any] = x._items if type(x) is State else x
    return items


def keys_of(x: Any) -> list[Any]:
    """Return the keys of the children of a Module or a mapping, in the order of paths.

    Methods come last, so that a Module is reached as an attribute rather than through a method.
    """
    items = items_of(x)
    keys = list(items) if type(x) is OrderedDict else sort_keys(list(items))
    methods = [key for key in keys if type(items[key]) is MethodType]
    return [key for key in keys if key not in methods] + methods if methods else keys


def children_of(x: Any) -> list[tuple[Any, Any]]:
    """List keys and children of an object, in the order of paths; [] if it is no node."""
    cls = type(x)
    if isinstance(x, Variable):
        return []
    if cls is list:
        return list(enumerate(x))
    if cls in MAPPINGS or isinstance(x, Leveled):
        items = items_of(x)
        return [(key, items[key]) for key in keys_of(x)]
    node = node_of(x)
    if node is None:
        return []
    children, aux = node.flatten(x)
    return list(zip(map(graph_key, node.keys(cls, aux, len(children))), children, strict=True))


def all_paths(root: Any, visits: int = _VISITS) -> Iterator[tuple[Path, Any, Any]]:
    """Yield each path to each object of a graph, the object, and the node that has it.

    Args:
      root: the object where paths begin.
      visits: the most paths by which a node is entered. It is never entered from within itself.
    """
    new_level: Counter[int] = Counter()
    pending: list[tuple[Path, Any, Any, tuple[int, ...]]] = [((), root, None, ())]
    while pending:
        path, x, parent, above = pending.pop()
        yield path, x, parent
        if is_shared(x):
            new_level[id(x)] += 1
            if id(x) in above or new_level[id(x)] > visits:
                continue
            above = (*above, id(x))
        pending += [((*path, key), child, x, above) for key, child in reversed(children_of(x))]


def iter_graph(node: Any, /) -> Iterator[tuple[Path, Any]]:
    """Yield the path and the object of each node and leaf of a Module, children before parents.

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
        if is_shared(x):
            if id(x) in seen:
                continue
            seen.add(id(x))
        pending.append((path, x, True))
        pending += [((*path, key), child, False) for key, child in reversed(children_of(x))]
