"""What a node of a graph is made of, and the walk from one to all that is reached from it."""

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
"""Containers whose children have keys, and are set one by one, as those of Modules and lists."""

_VISITS = 64
"""Paths to an object that are followed, of which there may be as many as numbers have digits."""


_METHOD = Node(
    lambda x: ((x.__self__,), x.__func__),
    lambda cls, function, children: MethodType(function, children[0]),
    lambda cls, function, size: [GetAttrKey("__self__")],
    lambda cls, function, children: f"{children[0]}.{function.__name__}",
)


def is_method(x: Any) -> bool:
    """Whether it is a method that is bound to a Module."""
    return type(x) is MethodType and isinstance(x.__self__, Leveled)


def node_of(x: Any) -> Node | None:
    """Return what to do with a pytree that has children, or with a method of a Module."""
    if x is None:
        return None
    return NODES.get(type(x)) or namedtuple_node(type(x)) or (_METHOD if is_method(x) else None)


def node_of_type(cls: type) -> Node:
    """Return what to do with the node that an entry names."""
    return _METHOD if cls is MethodType else known_node(cls)


def is_container(x: Any) -> bool:
    """Whether it is a node with children, and no Module."""
    return node_of(x) is not None


def is_shared(x: Any) -> bool:
    """Whether it is an object of which a graph may have several references: no tuple, no leaf."""
    cls = type(x)
    return isinstance(x, Leveled) or (cls in NODES and cls is not tuple and x is not None)


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


def items_of(x: Any) -> dict[Any, Any]:
    """Return the dict that holds the children of a Module or a mapping."""
    if isinstance(x, Leveled):
        return vars(x)
    items: dict[Any, Any] = x._items if type(x) is State else x
    return items


def keys_of(x: Any) -> list[Any]:
    """Return the keys of the children of a Module or a mapping, in the order of paths.

    Methods come last: they lead to Modules that are rather found where these are attributes.
    """
    items = items_of(x)
    keys = list(items) if type(x) is OrderedDict else ordered(list(items))
    methods = [key for key in keys if type(items[key]) is MethodType]
    return [key for key in keys if key not in methods] + methods if methods else keys


def children_of(x: Any) -> list[tuple[Any, Any]]:
    """Return keys and children of what may be a node, in the order of paths."""
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
    own, aux = node.flatten(x)
    return list(zip(map(bare, node.keys(cls, aux, len(own))), own, strict=True))


def all_paths(root: Any, visits: int = _VISITS) -> Iterator[tuple[Path, Any, Any]]:
    """Yield each path to each object of a graph, the object, and the node that has it.

    Args:
      root: where paths begin.
      visits: by how many paths a node is entered at most; it is never entered within itself.
    """
    entered: Counter[int] = Counter()
    pending: list[tuple[Path, Any, Any, tuple[int, ...]]] = [((), root, None, ())]
    while pending:
        path, x, parent, above = pending.pop()
        yield path, x, parent
        if is_shared(x):
            entered[id(x)] += 1
            if id(x) in above or entered[id(x)] > visits:
                continue
            above = (*above, id(x))
        pending += [((*path, key), child, x, above) for key, child in reversed(children_of(x))]


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
        if is_shared(x):
            if id(x) in seen:
                continue
            seen.add(id(x))
        pending.append((path, x, True))
        pending += [((*path, key), child, False) for key, child in reversed(children_of(x))]
