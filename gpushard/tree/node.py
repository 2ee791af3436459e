"""Node types: how to take a container apart into children, their keys and aux data, and back."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from types import NoneType
from typing import Any, TypeAlias

from gpushard._frozen import dataclass
from gpushard.errors import ArgumentTypeError, TreeError

__all__ = [
    "DictKey", "FlattenedIndexKey", "GetAttrKey", "KeyEntry", "KeyPath", "SequenceKey", "is_node",
    "keystr",
]  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class SequenceKey:
    """A step of a key path: to an element of a list or a tuple."""

    idx: int
    """The position of the element."""

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclasses.dataclass(frozen=True, slots=True)
class DictKey:
    """A step of a key path: to a value of a dictionary."""

    key: Hashable
    """The key of the value."""

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclasses.dataclass(frozen=True, slots=True)
class GetAttrKey:
    """A step of a key path: to an attribute."""

    name: str
    """The name of the attribute."""

    def __str__(self) -> str:
        return f".{self.name}"


@dataclasses.dataclass(frozen=True, slots=True)
class FlattenedIndexKey:
    """A step of a key path: to a child of a node type that has no keys."""

    key: int
    """The position of the child among all children."""

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


KeyEntry: TypeAlias = SequenceKey | DictKey | GetAttrKey | FlattenedIndexKey
"""One step of a key path, from a node to one of its children; its text is Python code."""

KeyPath: TypeAlias = tuple[Any, ...]
"""Steps from the root of a tree: `KeyEntry`s, or the keys of registered classes."""


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """Convert a key path to text: Python code that follows the name of the tree.

    Args:
      keys: the key path, a sequence of steps.
      simple: whether to write only keys, positions and names, without brackets and quotes.
      separator: the text between two steps.

    >>> from gpushard import tree
    >>> [(path, leaf)], treedef = tree.flatten_with_path([{"a": 1}])
    >>> tree.keystr(path), tree.keystr(path, simple=True, separator="/")
    ("[0]['a']", '0/a')
    """
    if not isinstance(separator, str):
        raise ArgumentTypeError.refusing("separator", separator, "must be a string", "keystr")
    if not isinstance(keys, Iterable):
        raise ArgumentTypeError.refusing("keys", keys, "must be a sequence of steps", "keystr")
    return separator.join(map(_bare if simple else str, keys))


def _bare(key: Any) -> str:
    match key:
        case SequenceKey(bare) | DictKey(bare) | GetAttrKey(bare) | FlattenedIndexKey(bare):
            return str(bare)
    return str(key)


@dataclass(frozen=True, slots=True)
class Node:
    """The functions of a node type. Aux is all data of a container except its children."""

    flatten: Callable[[Any], tuple[Sequence[Any], Any]]  # tree -> (children, aux)
    unflatten: Callable[[Any, Any, list[Any]], Any]  # (class, aux, children) -> tree
    # (class, aux, number of children) -> a key for each child.
    keys: Callable[[Any, Any, int], Sequence[Any]]
    show: Callable[[Any, Any, list[str]], str]  # (class, aux, children as text) -> text
    data: Callable[[Any], Any] = lambda aux: aux  # aux -> the argument of the class's own functions


def show_fields(cls: type, names: Iterable[str], values: Iterable[str]) -> str:
    """Write an object that is built from fields by name."""
    fields = (f"{name}={value}" for name, value in zip(names, values, strict=True))
    return f"{cls.__name__}({', '.join(fields)})"


def field_keys(names: Iterable[str]) -> list[GetAttrKey]:
    """Return the keys of children that are attributes."""
    return [GetAttrKey(name) for name in names]


def _item_keys(keys: Iterable[Any]) -> list[DictKey]:
    return [DictKey(key) for key in keys]


def _positions(cls: Any, aux: Any, size: int) -> list[SequenceKey]:
    return [SequenceKey(i) for i in range(size)]


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

    Named tuples are not in the table, which would hold every such class forever.
    """
    return _NAMEDTUPLE if issubclass(cls, tuple) and hasattr(cls, "_fields") else None


def is_node(typ: type) -> bool:
    """Test whether instances of a class are nodes of pytrees.

    Args:
      typ: the class.

    Raises:
      ArgumentTypeError: `typ` is not a class.

    >>> from gpushard import tree
    >>> tree.is_node(dict), tree.is_node(int)
    (True, False)
    """
    if not isinstance(typ, type):
        raise ArgumentTypeError.refusing("typ", typ, "must be a class; give type(x)", "is_node")
    return typ in NODES or namedtuple_node(typ) is not None


def known_node(cls: type) -> Node:
    """Return the node type of a class in a structure, or raise `TreeError`."""
    node = NODES.get(cls) or namedtuple_node(cls)
    if node is None:
        raise TreeError(
            f"{cls.__qualname__} is not registered in this process; call register_node or "
            "register_dataclass before using structures that contain it",
            cls=cls,
        )
    return node
