"""GraphDefs: the static part of graphs, and graphs built from it.

A graph is written down depth first with names sorted: an entry for each node, Variable and leaf. An
object that occurs again is written as a number: its position among the objects, counted from the
first object of this graph. So equal graphs have equal entries, and a negative number refers to an
object of a graph that was split before.

An example: a Module with `a = b = Param(...)` and `n = 3`. Its entries are the Module with the keys
a, b, n; the Param; object number 1, which is that Param; and the static value 3.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any, Generic
from weakref import WeakValueDictionary

import numpy as np

from gpushard._array.array import Array
from gpushard._array.shape_dtype import ShapeDtypeStruct
from gpushard._cache import exact_key
from gpushard.errors import ArgumentTypeError
from gpushard.nnx.levels import OUTSIDE, Leveled, level
from gpushard.nnx.module import Module
from gpushard.nnx.variable import T, Variable, copy_value, new_variable, put, slots_of
from gpushard.nnx.walk import MAPPINGS, Path, graph_key, items_of, node_of_type
from gpushard.tree.node import NODES, Node

__all__ = ["GraphDef"]

# The first element of each entry: its kind.
OBJECT, VARIABLE, NODE, TREE, SAME, STATIC, ARRAY = range(7)
"""A Module or a container that is filled in place, a Variable, another node that can be shared, a
node that cannot (a tuple), an object that occurred before, a static value, and an array."""

_PARENTS = {OBJECT, NODE, TREE}

ARRAYS = Array | np.ndarray | ShapeDtypeStruct


class GraphDef(Generic[T]):
    """The static part of a Module: types, names, static values, metadata, and shared objects.

    Two Modules have equal GraphDefs if they differ only in the values of leaves. A GraphDef can be
    hashed and pickled. It is a pytree without leaves, so traced functions can take and return it.
    In annotations, `GraphDef[T]` is the GraphDef of a `T`.

    >>> import gpushard as gs
    >>> m = gs.nnx.Module()
    >>> m.a = m.b = gs.nnx.Param(gs.numpy.ones(3))
    >>> gs.nnx.graphdef(m)
    GraphDef(Module: 1 node, 1 leaf)
    """

    __slots__ = ("__weakref__", "_hash", "_leaf_paths", "entries", "known")

    entries: tuple[Any, ...]
    known: tuple[int, ...] | None
    """The number of each object among the objects outside a traced function, or -1 for a new one;
    None outside results of traced functions.
    """

    def __init__(self, entries: tuple[Any, ...], known: tuple[int, ...] | None = None) -> None:
        self.entries = entries
        self.known = known
        self._leaf_paths: list[Path] | None = None
        try:
            self._hash: int | None = hash((entries, known))
        except TypeError:
            self._hash = None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, GraphDef) or self._hash != other._hash:
            return False
        return self.entries == other.entries and self.known == other.known

    def __hash__(self) -> int:
        if self._hash is None:
            self.check_hashable("hash")
        assert self._hash is not None
        return self._hash

    def __reduce__(self) -> Any:
        entries = [entry[::2] if entry[0] == STATIC else entry for entry in self.entries]
        return _unpickle, (entries, self.known)

    def __repr__(self) -> str:
        root = self.entries[0]
        kind = root[1].__name__ if root[0] <= TREE else "leaf"
        nodes = sum(entry[0] in _PARENTS for entry in self.entries)
        counts = [(nodes, "node"), (self.num_leaves, "leaf")]
        ends = ["leaves" if name == "leaf" else name + "s" for _, name in counts]
        parts = [
            f"{n} {name if n == 1 else end}" for (n, name), end in zip(counts, ends, strict=True)
        ]
        return f"GraphDef({kind}: {', '.join(parts)})"

    @property
    def num_leaves(self) -> int:
        """Number of leaves of the Module."""
        return sum(entry[0] in (VARIABLE, ARRAY) for entry in self.entries)

    @property
    def num_objects(self) -> int:
        """Number of objects in the Module that can be shared: Modules and Variables."""
        return sum(entry[0] <= NODE for entry in self.entries)

    def leaf_paths(self) -> list[Path]:
        """List the paths of all leaves."""
        if self._leaf_paths is None:
            self._leaf_paths = [
                path
                for path, entry in zip(self.paths(), self.entries, strict=True)
                if entry[0] in (VARIABLE, ARRAY)
            ]
        return self._leaf_paths

    def difference(self, other: GraphDef) -> tuple[Path, str, str]:
        """Find the first difference from another GraphDef: its path, and a text for both."""
        pairs = zip(self.paths(), self.entries, other.entries, strict=False)
        path, entry, differing = next(pair for pair in pairs if pair[1] != pair[2])
        return path, _describe(entry), _describe(differing)

    def refers_to_others(self) -> bool:
        """Whether the graph refers to objects of other graphs that were split before."""
        return any(entry[0] == SAME and entry[1] < 0 for entry in self.entries)

    def leaf_metadata(self) -> list[dict[str, Any] | None]:
        """List the metadata of all leaves: a dict for a Variable, None for an array."""
        return [
            dict(entry[2]) if entry[0] == VARIABLE else None
            for entry in self.entries
            if entry[0] in (VARIABLE, ARRAY)
        ]

    def as_variables(self, leaves: Sequence[Any]) -> list[Any]:
        """Convert values of leaves to new Variables, if the leaves are Variables in the graph."""
        entries = [entry for entry in self.entries if entry[0] in (VARIABLE, ARRAY)]
        return [
            new_variable(entry[1], copy_value(leaf), dict(entry[2]))
            if entry[0] == VARIABLE
            else copy_value(leaf)
            for entry, leaf in zip(entries, leaves, strict=True)
        ]

    def paths(self) -> Iterator[Path]:
        """Yield the paths of all Modules, containers and leaves."""
        pending: list[Path] = [()]
        for entry in self.entries:
            path = pending.pop()
            yield path
            if entry[0] in _PARENTS:
                pending += [(*path, key) for key in reversed(_keys(entry))]

    def check_hashable(self, what: str) -> None:
        """Check that all static values and metadata have a hash.

        Raises:
          ArgumentTypeError: a value has no hash; the message names its path.
        """
        if self._hash is not None:
            return
        for path, entry in zip(self.paths(), self.entries, strict=True):
            try:
                hash(entry)
            except TypeError:
                where = path_text(path)
                if entry[0] == VARIABLE:
                    names = [name for name, value in entry[2] if not _has_hash(value)]
                    where, value = f"{where}.{names[0]}", dict(entry[2])[names[0]]
                else:
                    value = entry[-1]
                raise ArgumentTypeError(
                    f"{what}: the static value at {where} is a {type(value).__name__}, which has "
                    "no hash; make it a tuple, an array or a Variable",
                    argument="node",
                    path=path,
                    type=type(value),
                ) from None


def _has_hash(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


NODES[GraphDef] = Node(
    lambda x: ((), x),
    lambda cls, aux, children: aux,
    lambda cls, aux, size: [],
    lambda cls, aux, children: repr(aux),
)


_interned: WeakValueDictionary[Any, GraphDef] = WeakValueDictionary()
"""Equal GraphDefs are one object, so that comparing them is quick."""


def graphdef_of(entries: tuple[Any, ...], known: tuple[int, ...] | None = None) -> GraphDef:
    """Return the GraphDef with some entries: a new one, or an equal one that exists."""
    new = GraphDef(entries, known)
    return new if new._hash is None else _interned.setdefault((entries, known), new)


def _unpickle(entries: list[Any], known: tuple[int, ...] | None) -> GraphDef:
    """Rebuild a pickled GraphDef."""
    restored = [(x[0], exact_key(x[1]), x[1]) if x[0] == STATIC else x for x in entries]
    return graphdef_of(tuple(restored), known)


def path_text(path: Path) -> str:
    """Format a path as Python code that follows the name of an object: `.layers[0].kernel`."""
    return "".join(
        f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]" for key in path
    )


def _describe(entry: Any) -> str:
    """Describe an entry, for errors."""
    kind = entry[0]
    if kind == STATIC:
        return repr(entry[2])
    if kind == ARRAY:
        return "an array"
    if kind == SAME:
        return "an object that occurred before"
    name = entry[1].__name__
    if kind == VARIABLE:
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in entry[2])})"
    keys = ", ".join(map(str, _keys(entry)))
    return f"{name} of {keys}" if keys else f"{name} of nothing"


def _keys(entry: Any) -> tuple[Any, ...]:
    """Return the keys of the children of an entry."""
    if entry[0] == OBJECT:
        keys: tuple[Any, ...] = entry[2]
        return keys
    _, cls, aux, size = entry
    return tuple(map(graph_key, node_of_type(cls).keys(cls, aux, size)))


def check_assignable(objects: Sequence[Any]) -> None:
    """Check that objects may be changed here.

    Raises:
      TraceContextError: an object was created outside the traced or mapped function that runs here.
    """
    if level() is not OUTSIDE:
        for x in objects:
            if isinstance(x, Leveled):
                x._check_level(
                    "an assignment to the value" if isinstance(x, Variable) else "a change"
                )


def build(
    graphdef: GraphDef,
    leaves: Sequence[Any],
    objects: list[Any],
    outside: Sequence[Any] = (),
    metadata: Sequence[Any] | None = None,
) -> Any:
    """Build a graph from its GraphDef and the values of its leaves.

    Args:
      graphdef: the GraphDef.
      leaves: the values of the leaves, in order.
      objects: the objects of graphs built before it, in order; those of this graph are appended.
      outside: existing objects that `graphdef.known` refers to; they are updated in place.
      metadata: for each leaf the metadata of its Variable, if not those of the GraphDef.
    """
    start, at = len(objects), len(objects)
    objects += _allocate(graphdef, outside)
    values = iter(leaves)
    more = graphdef.leaf_metadata() if metadata is None else metadata
    own_metadata = iter(more)
    parents: list[tuple[Any, int, list[Any]]] = []  # entry, number of the object, children so far
    for entry in graphdef.entries:
        kind = entry[0]
        x: Any
        if kind in _PARENTS:
            parents.append((entry, at, []))
            at += kind != TREE
            if _size(entry):
                continue
            x = _finish_node(*parents.pop(), objects)
        elif kind == VARIABLE:
            x = objects[at]
            at += 1
            _set(x, next(values), next(own_metadata))
        elif kind == ARRAY:
            x = next(values)
            next(own_metadata)
        else:
            x = entry[2] if kind == STATIC else objects[start + entry[1]]
        while parents:
            parents[-1][2].append(x)
            if len(parents[-1][2]) < _size(parents[-1][0]):
                break
            x = _finish_node(*parents.pop(), objects)
    return x


def _allocate(graphdef: GraphDef, outside: Sequence[Any]) -> list[Any]:
    """List the objects of a graph: existing ones from outside, and new ones that are empty."""
    objects: list[Any] = []
    for entry in graphdef.entries:
        kind = entry[0]
        if kind > NODE:
            continue
        number = -1 if graphdef.known is None else graphdef.known[len(objects)]
        if number >= 0:
            objects.append(outside[number])
        elif kind == VARIABLE:
            objects.append(new_variable(entry[1], None, dict(entry[2])))
        elif kind == NODE:
            objects.append(None)  # it is built from its children
        elif entry[1] is list or entry[1] in MAPPINGS:
            objects.append(entry[1]())
        else:
            objects.append(Module.__new__(entry[1]))
    return objects


def _size(entry: Any) -> int:
    """Count the children of a node."""
    size: int = len(entry[2]) if entry[0] == OBJECT else entry[3]
    return size


def _set(x: Any, value: Any, metadata: Any) -> None:
    """Set value and metadata of a Variable."""
    if x._metadata != metadata:
        put(x, "_metadata", metadata)
    put(x, "_value", value)


def _finish_node(entry: Any, at: int, children: list[Any], objects: list[Any]) -> Any:
    """Fill a node with its children, or build it from them."""
    if entry[0] == OBJECT:
        return _fill(objects[at], entry, children)
    _, cls, aux, _ = entry
    node = node_of_type(cls)
    if entry[0] == TREE:
        return node.unflatten(cls, aux, children)
    before = objects[at]
    if before is not None:
        old, old_aux = node.flatten(before)
        if old_aux == aux and len(old) == len(children) and all(map(operator.is_, old, children)):
            return before
    new = node.unflatten(cls, aux, children)
    objects[at] = new if before is None else _become(before, new)
    return objects[at]


_SETATTR: Any = object.__setattr__


def _become(x: Any, new: Any) -> Any:
    """Change an object in place to equal a new one; return the new one if that cannot be done."""
    cls = type(x)
    if type(new) is not cls or cls.__setattr__ is not _SETATTR:
        return new
    if isinstance(x, MutableMapping):
        x.clear()
        x.update(new)
    elif isinstance(x, list):
        x[:] = new
    if hasattr(x, "__dict__"):
        vars(x).clear()
        vars(x).update(vars(new))
    for name in slots_of(cls):
        if hasattr(new, name):
            setattr(x, name, getattr(new, name))
        elif hasattr(x, name):
            delattr(x, name)
    return x


def _fill(x: Any, entry: Any, children: list[Any]) -> Any:
    """Set the children of an object; children that it has already are not assigned again."""
    if type(x) is list:
        if len(x) != len(children) or not all(map(operator.is_, x, children)):
            x[:] = children
        return x
    items = items_of(x)
    new = dict(zip(entry[2], children, strict=True))
    if entry[3] is not None:
        new = {key: new[key] for key in entry[3]}
    if type(x) is defaultdict:
        x.default_factory = entry[4]
    wanted = sorted(new) if isinstance(x, Module) else list(new)
    if (sorted(items) if isinstance(x, Module) else list(items)) == wanted:
        for key, value in new.items():
            if items[key] is not value:
                items[key] = value
    else:
        items.clear()
        items.update(new)
    return x
