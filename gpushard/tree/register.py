"""Register new node types, once for the whole process."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

from gpushard.errors import ArgumentTypeError, TreeError
from gpushard.tree.node import NODES, FlattenedIndexKey, Node, field_keys, show_fields

__all__ = [
    "register_dataclass", "register_node", "register_node_with_keys", "register_static", "static",
]  # fmt: skip

_T = TypeVar("_T")
_WithKeys: TypeAlias = Callable[[_T], tuple[Iterable[tuple[Any, Any]], Any]]


def _check_class(cls: Any, name: str) -> None:
    if not isinstance(cls, type):
        raise ArgumentTypeError.refusing("nodetype", cls, "must be a class", name)


def _register(cls: type, node: Node) -> None:
    # setdefault is atomic: if two threads register a class, one of them gets the error.
    if NODES.setdefault(cls, node) is not node:
        raise TreeError(
            f"{cls.__qualname__} is already registered; register a class once per process", cls=cls
        )


def register_node(
    nodetype: type[_T],
    flatten_func: Callable[[_T], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, tuple[Any, ...]], _T],
    flatten_with_keys_func: _WithKeys[_T] | None = None,
) -> None:
    """Register a class as a node type.

    Args:
      nodetype: the class. Its subclasses are not registered.
      flatten_func: a function instance -> (children, aux). The auxiliary data `aux` is part of the
        structure, so it must be hashable and comparable.
      unflatten_func: a function (aux, children) -> instance. Children may be any values, not only
        arrays.
      flatten_with_keys_func: a function that also returns keys, as for `register_node_with_keys`.
        If it is given, `flatten_func` is not called.

    Raises:
      TreeError: the class is already registered.

    >>> from gpushard import tree
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> tree.register_node(Pair, lambda p: ((p.a, p.b), None), lambda aux, ab: Pair(*ab))
    >>> tree.leaves([Pair(1, 2), 3])
    [1, 2, 3]
    """
    _check_class(nodetype, "register_node")
    if flatten_with_keys_func is not None:
        register_node_with_keys(nodetype, flatten_with_keys_func, unflatten_func)
        return

    def checked(tree: _T) -> tuple[Sequence[Any], Any]:
        result = flatten_func(tree)
        if not isinstance(result, tuple) or len(result) != 2:
            raise TreeError(
                f"the flatten function of {nodetype.__qualname__} returned a "
                f"{type(result).__name__}; return the tuple (children, aux)",
                cls=nodetype,
            )
        return tuple(result[0]), result[1]

    node = Node(
        checked,
        lambda cls, aux, children: unflatten_func(aux, tuple(children)),
        lambda cls, aux, size: [FlattenedIndexKey(i) for i in range(size)],
        lambda cls, aux, children: f"{cls.__name__}[{aux!r}]({', '.join(children)})",
    )
    _register(nodetype, node)


def register_node_with_keys(
    nodetype: type[_T],
    flatten_with_keys: _WithKeys[_T],
    unflatten_func: Callable[[Any, tuple[Any, ...]], _T],
    flatten_func: Callable[[_T], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Register a class as a node type with keys for its children.

    Args:
      nodetype: the class. Its subclasses are not registered.
      flatten_with_keys: a function instance -> (pairs of a key and a child, aux). Keys and the
        auxiliary data `aux` are part of the structure, so they must be hashable and comparable.
      unflatten_func: a function (aux, children) -> instance. Children may be any values, not only
        arrays.
      flatten_func: ignored; JAX has this argument.

    Raises:
      TreeError: the class is already registered.

    >>> from gpushard import tree
    >>> class Box:
    ...     def __init__(self, content):
    ...         self.content = content
    >>> tree.register_node_with_keys(
    ...     Box,
    ...     lambda b: ([(tree.GetAttrKey("content"), b.content)], None),
    ...     lambda aux, children: Box(*children),
    ... )
    >>> tree.keystr(tree.flatten_with_path(Box(1))[0][0][0])
    '.content'
    """
    _check_class(nodetype, "register_node_with_keys")

    def flatten(tree: _T) -> tuple[list[Any], tuple[tuple[Any, ...], Any]]:
        pairs, aux = flatten_with_keys(tree)
        keys, children = [], []
        for key, child in pairs:
            keys.append(key)
            children.append(child)
        return children, (tuple(keys), aux)

    node = Node(
        flatten,
        lambda cls, aux, children: unflatten_func(aux[1], tuple(children)),
        lambda cls, aux, size: aux[0],
        lambda cls, aux, children: f"{cls.__name__}[{aux[1]!r}]({', '.join(children)})",
        operator.itemgetter(1),
    )
    _register(nodetype, node)


def register_static(cls: type[_T]) -> type[_T]:
    """Register a class as static: instances are part of the structure; usable as a decorator.

    Args:
      cls: the class; its instances must be hashable and comparable.

    Returns:
      The class itself.

    Raises:
      TreeError: the class is already registered.
    """
    register_node(cls, lambda x: ((), x), lambda aux, _: aux)
    return cls


def register_dataclass(
    nodetype: type[_T],
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> type[_T]:
    """Register a dataclass as a node type; usable as a decorator.

    Args:
      nodetype: a dataclass. If you pass `data_fields` and `meta_fields`, any class with a
        constructor that takes the fields by name.
      data_fields: names of the fields with subtrees. By default all fields that are not marked by
        `gpushard.tree.static`.
      meta_fields: names of the fields that are part of the structure. Their values must be hashable
        and comparable. By default the marked fields.
      drop_fields: names of all other fields of a dataclass. A rebuilt instance has their defaults.

    Returns:
      The class itself.

    Raises:
      TreeError: the lists do not name each field of the constructor exactly once, or the class is
        already registered.

    >>> import dataclasses
    >>> from gpushard import tree
    >>> @tree.register_dataclass
    ... @dataclasses.dataclass
    ... class Layer:
    ...     weight: float
    ...     name: str = tree.static(default="out")
    >>> tree.flatten(Layer(0.5))
    ([0.5], TreeDef(Layer(weight=*, name='out')))
    """
    _check_class(nodetype, "register_dataclass")
    for argument, fields in (
        ("data_fields", data_fields),
        ("meta_fields", meta_fields),
        ("drop_fields", drop_fields),
    ):
        if fields is not None and not isinstance(fields, Iterable):
            raise ArgumentTypeError.refusing(
                argument, fields, "must be a sequence of names", "register_dataclass"
            )
    data, meta = _split_fields(nodetype, data_fields, meta_fields, tuple(drop_fields))
    names = data + meta

    def flatten(tree: _T) -> tuple[list[Any], tuple[Any, ...]]:
        return [getattr(tree, n) for n in data], tuple([getattr(tree, n) for n in meta])

    def unflatten(_: Any, aux: tuple[Any, ...], children: list[Any]) -> _T:
        return nodetype(**dict(zip(names, (*children, *aux), strict=True)))

    def show(_: Any, aux: tuple[Any, ...], children: list[str]) -> str:
        return show_fields(nodetype, names, (*children, *[repr(value) for value in aux]))

    _register(nodetype, Node(flatten, unflatten, lambda *_: field_keys(data), show))
    return nodetype


def static(**options: Any) -> Any:
    """Mark a dataclass field as part of the structure, for `register_dataclass`.

    Args:
      **options: options of `dataclasses.field`.

    Returns:
      The field.

    >>> import dataclasses
    >>> from gpushard import tree
    >>> @tree.register_dataclass
    ... @dataclasses.dataclass
    ... class Scale:
    ...     factor: float
    ...     unit: str = tree.static(default="m")
    >>> tree.leaves(Scale(2.0))
    [2.0]
    """
    metadata = {"static": True, **(options.pop("metadata", None) or {})}
    field: Any = dataclasses.field
    return field(metadata=metadata, **options)


def _split_fields(
    cls: type,
    data_fields: Sequence[str] | None,
    meta_fields: Sequence[str] | None,
    dropped: tuple[str, ...],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    declared = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else None
    if data_fields is not None and meta_fields is not None:
        data, meta = tuple(data_fields), tuple(meta_fields)
    elif declared is not None and data_fields is meta_fields is None:
        static = {f.name for f in declared if f.metadata.get("static", False)}
        names = [f.name for f in declared if f.name not in dropped]
        data = tuple(name for name in names if name not in static)
        meta = tuple(name for name in names if name in static)
    else:
        raise TreeError(
            f"{cls.__qualname__} was registered with {data_fields=} and {meta_fields=}; give both "
            "or, for a dataclass, neither",
            cls=cls,
        )
    if declared is not None:
        _check_fields(cls, data + meta, {f.name for f in declared if f.init}.difference(dropped))
    return data, meta


def _check_fields(cls: type, listed: tuple[str, ...], wanted: set[str]) -> None:
    missing = sorted(wanted.difference(listed))
    unexpected = sorted(set(listed) - wanted)
    repeated = sorted({name for name in listed if listed.count(name) > 1})
    if missing or unexpected or repeated:
        raise TreeError(
            f"data_fields and meta_fields must name each field that the constructor of "
            f"{cls.__qualname__} takes once: {missing=}, {unexpected=}, {repeated=}; list the "
            "missing ones, or name them in drop_fields, and leave out the others",
            cls=cls,
            missing=missing,
            unexpected=unexpected,
            repeated=repeated,
        )
