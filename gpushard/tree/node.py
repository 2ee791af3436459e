"""What a container type is made of: children, the keys that lead to them, and aux data."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from types import NoneType
from typing import Any, TypeAlias

from gpushard.errors import TreeError


@dataclasses.dataclass(frozen=True, slots=True)
class KeyEntry:
    """One step of a key path: from a node to one of its children."""

    key: Hashable
    """Position, dictionary key or field name."""
    text: str
    """The step as Python would write it: `[0]`, `['a']`, `.b`."""


KeyPath: TypeAlias = tuple[KeyEntry, ...]


def keystr(path: KeyPath) -> str:
    """Return a key path as Python would write it after the name of the tree.

    >>> from gpushard import tree
    >>> [(path, leaf)], treedef = tree.flatten_with_path([{"a": 1}])
    >>> tree.keystr(path)
    "[0]['a']"
    """
    return "".join(entry.text for entry in path)


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """What to do with one container type. Aux is all of a container but its children."""

    flatten: Callable[[Any], tuple[Sequence[Any], Any]]
    """tree -> (children, aux)."""
    unflatten: Callable[[Any, Any, list[Any]], Any]
    """(class, aux, children) -> tree."""
    keys: Callable[[Any, Any, int], Sequence[KeyEntry]]
    """(class, aux, number of children) -> a key for each child."""
    show: Callable[[Any, Any, list[str]], str]
    """(class, aux, children as text) -> text."""


def show_fields(cls: type, names: Iterable[str], values: Iterable[str]) -> str:
    """Return the text of an object that is built from fields by name."""
    fields = (f"{name}={value}" for name, value in zip(names, values, strict=True))
    return f"{cls.__name__}({', '.join(fields)})"


def field_keys(names: Iterable[str]) -> list[KeyEntry]:
    """Return the key entries of children that are attributes."""
    return [KeyEntry(name, f".{name}") for name in names]


def _item_keys(keys: Iterable[Any]) -> list[KeyEntry]:
    return [KeyEntry(key, f"[{key!r}]") for key in keys]


def _positions(cls: Any, aux: Any, size: int) -> list[KeyEntry]:
    return [KeyEntry(i, f"[{i}]") for i in range(size)]


def _show_items(keys: Iterable[Any], children: list[str]) -> str:
    return "{" + ", ".join(f"{k!r}: {c}" for k, c in zip(keys, children, strict=True)) + "}"


def _flatten_dict(tree: dict[Any, Any]) -> tuple[list[Any], tuple[Any, ...]]:
    try:
        keys = tuple(sorted(tree))
    except TypeError as error:
        types = ", ".join(sorted({type(key).__name__ for key in tree}))
        raise TreeError(
            f"cannot sort the {len(tree)} keys of a {type(tree).__name__}, of type {types} "
            f"({error}); leaves are ordered by key: use keys that compare with each other, or an "
            "OrderedDict, which keeps its own order",
            keys=tuple(tree),
        ) from None
    return [tree[key] for key in keys], keys


def _flatten_defaultdict(tree: defaultdict[Any, Any]) -> tuple[list[Any], Any]:
    children, keys = _flatten_dict(tree)
    return children, (tree.default_factory, keys)


NODES: dict[type, Node] = {
    NoneType: Node(
        lambda tree: ((), None),
        lambda cls, aux, children: None,
        _positions,
        lambda cls, aux, children: "None",
    ),
    tuple: Node(
        lambda tree: (tree, None),
        lambda cls, aux, children: tuple(children),
        _positions,
        lambda cls, aux, children: f"({', '.join(children)}{',' * (len(children) == 1)})",
    ),
    list: Node(
        # A copy: is_leaf or another thread may change the list while it is walked.
        lambda tree: (tuple(tree), None),
        lambda cls, aux, children: children,
        _positions,
        lambda cls, aux, children: f"[{', '.join(children)}]",
    ),
    dict: Node(
        _flatten_dict,
        lambda cls, aux, children: dict(zip(aux, children, strict=True)),
        lambda cls, aux, size: _item_keys(aux),
        lambda cls, aux, children: _show_items(aux, children),
    ),
    OrderedDict: Node(
        lambda tree: (tuple(tree.values()), tuple(tree)),
        lambda cls, aux, children: OrderedDict(zip(aux, children, strict=True)),
        lambda cls, aux, size: _item_keys(aux),
        lambda cls, aux, children: f"OrderedDict({_show_items(aux, children)})",
    ),
    defaultdict: Node(
        _flatten_defaultdict,
        lambda cls, aux, children: defaultdict(aux[0], zip(aux[1], children, strict=True)),
        lambda cls, aux, size: _item_keys(aux[1]),
        lambda cls, aux, children: f"defaultdict({aux[0]!r}, {_show_items(aux[1], children)})",
    ),
}
"""Node types, built in and registered. Entries are added, never changed or removed."""

_NAMEDTUPLE = Node(
    lambda tree: (tree, None),
    lambda cls, aux, children: cls(*children),
    lambda cls, aux, size: field_keys(cls._fields),
    lambda cls, aux, children: show_fields(cls, cls._fields, children),
)


def namedtuple_node(cls: type) -> Node | None:
    """Return the node of a named tuple's class, None for any other.

    Named tuples are not kept in the table: it would hold every such class for ever.
    """
    return _NAMEDTUPLE if issubclass(cls, tuple) and hasattr(cls, "_fields") else None


def known_node(cls: type) -> Node:
    """Return the node of a class that a structure names.

    Raises:
      TreeError: it has none here, as after unpickling without the registration.
    """
    node = NODES.get(cls) or namedtuple_node(cls)
    if node is None:
        raise TreeError(
            f"{cls.__qualname__} is no node in this process; call register_node or "
            "register_dataclass before using structures that contain it",
            cls=cls,
        )
    return node
