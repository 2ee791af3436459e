"""GraphDefs: all of a graph but what its leaves hold; and graphs taken apart and put together.

A graph is written down depth first, names sorted: an entry for each node, Variable and leaf. An
object that was there already is the number of its first entry, relative to where the graph begins,
so that equal graphs have equal entries, and a graph may refer to objects of graphs before it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from gpushard.array.array import Array
from gpushard.array.aval import ShapeDtypeStruct
from gpushard.errors import ArgumentTypeError
from gpushard.nnx.levels import OUTSIDE, Leveled, level
from gpushard.nnx.module import Module
from gpushard.nnx.variable import Variable, made, put, shared
from gpushard.nnx.walk import Path, bare, ordered
from gpushard.transforms.arguments import types_of
from gpushard.tree.node import NODES, Node, known_node, namedtuple_node

__all__ = ["GraphDef"]

# The first of each entry, which says what it is.
_OBJECT, _VARIABLE, _TREE, _SAME, _STATIC, _ARRAY = range(6)

ARRAYS = Array | np.ndarray | ShapeDtypeStruct


class GraphDef:
    """The static half of a graph: types, names, static values, metadata, and what is shared.

    GraphDefs are equal if graphs differ in what leaves hold alone. They can be hashed, and pickled,
    and are pytrees without leaves, so that traced functions take and return them.

    >>> import gpushard as gs
    >>> m = gs.nnx.Module()
    >>> m.a = m.b = gs.nnx.Param(gs.numpy.ones(3))
    >>> gs.nnx.graphdef(m)
    GraphDef(Module: 1 node, 1 leaf)
    """

    __slots__ = ("__weakref__", "_hash", "_leaf_paths", "entries", "known")

    entries: tuple[Any, ...]
    known: tuple[int, ...] | None
    """For each object which one it is of those outside, or -1; None where there are none."""

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
        entries = [entry[::2] if entry[0] == _STATIC else entry for entry in self.entries]
        return _restored, (entries, self.known)

    def __repr__(self) -> str:
        root = self.entries[0]
        kind = root[1].__name__ if root[0] in (_OBJECT, _VARIABLE, _TREE) else "leaf"
        nodes = sum(entry[0] in (_OBJECT, _TREE) for entry in self.entries)
        counts = [(nodes, "node"), (self.num_leaves, "leaf")]
        ends = ["leaves" if name == "leaf" else name + "s" for _, name in counts]
        said = [
            f"{n} {name if n == 1 else end}" for (n, name), end in zip(counts, ends, strict=True)
        ]
        return f"GraphDef({kind}: {', '.join(said)})"

    @property
    def num_leaves(self) -> int:
        """How many leaves the graph has."""
        return sum(entry[0] in (_VARIABLE, _ARRAY) for entry in self.entries)

    @property
    def num_objects(self) -> int:
        """How many objects the graph has that can be shared."""
        return sum(entry[0] in (_OBJECT, _VARIABLE) for entry in self.entries)

    def leaf_paths(self) -> list[Path]:
        """Return the path of each leaf."""
        if self._leaf_paths is None:
            self._leaf_paths = [
                path
                for path, entry in zip(self.paths(), self.entries, strict=True)
                if entry[0] in (_VARIABLE, _ARRAY)
            ]
        return self._leaf_paths

    def difference(self, other: GraphDef) -> tuple[Path, str, str]:
        """Return where another one differs first, and what both have there; they are not equal."""
        pairs = zip(self.paths(), self.entries, other.entries, strict=False)
        path, own, there = next(found for found in pairs if found[1] != found[2])
        return path, _described(own), _described(there)

    def refers_to_others(self) -> bool:
        """Return whether it has objects of graphs before it."""
        return any(entry[0] == _SAME and entry[1] < 0 for entry in self.entries)

    def leaf_metadata(self) -> list[dict[str, Any] | None]:
        """Return the metadata of each leaf that is a Variable, and None for arrays."""
        return [
            dict(entry[2]) if entry[0] == _VARIABLE else None
            for entry in self.entries
            if entry[0] in (_VARIABLE, _ARRAY)
        ]

    def boxed(self, leaves: Sequence[Any]) -> list[Any]:
        """Return leaves as Variables where the graph has some, over the same values."""
        own = [entry for entry in self.entries if entry[0] in (_VARIABLE, _ARRAY)]
        return [
            made(entry[1], shared(leaf), dict(entry[2])) if entry[0] == _VARIABLE else shared(leaf)
            for entry, leaf in zip(own, leaves, strict=True)
        ]

    def paths(self) -> Iterator[Path]:
        """Yield the path of each entry."""
        pending: list[Path] = [()]
        for entry in self.entries:
            path = pending.pop()
            yield path
            if entry[0] in (_OBJECT, _TREE):
                pending += [(*path, key) for key in reversed(_keys(entry))]

    def check_hashable(self, what: str) -> None:
        """Check that static values and metadata have a hash.

        Raises:
          ArgumentTypeError: one has not; it names the path.
        """
        if self._hash is not None:
            return
        for path, entry in zip(self.paths(), self.entries, strict=True):
            try:
                hash(entry)
            except TypeError:
                where = shown_path(path)
                if entry[0] == _VARIABLE:
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
"""Equal ones are one object, so that comparing them is quick."""


def graphdef_of(entries: tuple[Any, ...], known: tuple[int, ...] | None = None) -> GraphDef:
    """Return the GraphDef of entries."""
    new = GraphDef(entries, known)
    return new if new._hash is None else _interned.setdefault((entries, known), new)


def _restored(entries: list[Any], known: tuple[int, ...] | None) -> GraphDef:
    """Return the GraphDef that was pickled."""
    own = [(x[0], _typed(x[1]), x[1]) if x[0] == _STATIC else x for x in entries]
    return graphdef_of(tuple(own), known)


def shown_path(path: Path) -> str:
    """Return a path as Python would write it after the name of an object."""
    return "".join(
        f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]" for key in path
    )


def _described(entry: Any) -> str:
    """Return an entry as text."""
    kind = entry[0]
    if kind == _STATIC:
        return repr(entry[2])
    if kind == _ARRAY:
        return "an array"
    if kind == _SAME:
        return "an object that was there before"
    name = entry[1].__name__
    if kind == _VARIABLE:
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in entry[2])})"
    keys = ", ".join(map(str, _keys(entry)))
    return f"{name} of {keys}" if keys else f"{name} of nothing"


def _keys(entry: Any) -> tuple[Any, ...]:
    """Return the keys of the children of an entry."""
    if entry[0] == _OBJECT:
        keys: tuple[Any, ...] = entry[2]
        return keys
    _, cls, aux, size = entry
    return tuple(map(bare, known_node(cls).keys(cls, aux, size)))


def _typed(value: Any) -> Any:
    """Return what tells values apart that are equal: 1 and True, 0.0 and -0.0."""
    return repr(value) if type(value) is float else types_of(value)


class Plan:
    """A Module taken apart, and what tells whether that still is how it is made up.

    It is kept with the Module, and so that it does not refer to that itself.
    """

    __slots__ = ("checks", "graphdef", "ids", "metadata", "objects", "places", "variables")

    def __init__(self, part: Part, checks: list[tuple[Any, list[Any], list[Any]]]) -> None:
        self.graphdef = part.graphdef
        self.objects = part.objects[1:]
        self.ids = frozenset(map(id, part.objects))
        self.variables = part.variables
        self.metadata = [x._metadata for x in part.variables]
        self.checks = checks
        self.places: Any = None

    def holds(self) -> bool:
        """Whether nothing has changed but the values of Variables."""
        for container, keys, values in self.checks:
            if len(container) != len(values):
                return False
            if type(container) is dict:
                if [*container] != keys or not all(map(_is, container.values(), values)):
                    return False
            elif not all(map(_is, container, values)):
                return False
        return all(map(_is, map(_metadata_of, self.variables), self.metadata))


_is = operator.is_
_metadata_of = operator.attrgetter("_metadata")
_value_of = operator.attrgetter("_value")


class Part:
    """A graph taken apart.

    Args:
      graphdef: all but what leaves hold.
      leaves: what they hold.
      variables: for each leaf the Variable, or None where it is an array.
      objects: what can be shared, in order.
      root: where it begins.
    """

    __slots__ = ("graphdef", "leaves", "objects", "plan", "root", "variables")

    def __init__(
        self, graphdef: GraphDef, leaves: list[Any], variables: list[Any], objects: Any, root: Any
    ) -> None:
        self.graphdef = graphdef
        self.leaves = leaves
        self.variables = variables
        self.objects = objects
        self.root = root
        self.plan: Plan | None = None


class Splitter:
    """Takes graphs apart, one after the other, whose objects may be the same.

    Args:
      known: by identity, the numbers of objects that are there outside.
    """

    def __init__(self, known: dict[int, int] | None = None) -> None:
        self.objects: list[Any] = []
        self.parts: list[Part] = []
        self._known = known
        self._numbers: dict[int, int] | None = {}
        """By identity; None where it has to be made of the objects."""
        self._sets: list[frozenset[int]] = []

    def split(self, root: Any) -> Part:
        """Take a graph apart."""
        plan: Plan | None = root._nnx_plan if isinstance(root, Module) else None
        part: Part
        if plan is not None and self._known is None and plan.holds() and self._apart(plan.ids):
            objects = [root, *plan.objects]
            leaves = list(map(_value_of, plan.variables))
            part = Part(plan.graphdef, leaves, plan.variables, objects, root)
            part.plan = plan
            self._numbers = None
            self._sets.append(plan.ids)
            self.objects += objects
        else:
            part = self._walk(root)
        self.parts.append(part)
        return part

    def _apart(self, ids: frozenset[int]) -> bool:
        if self._numbers is None:
            return all(map(ids.isdisjoint, self._sets))
        return ids.isdisjoint(self._numbers)

    def _walk(self, root: Any) -> Part:
        objects, known = self.objects, self._known
        if self._numbers is None:
            self._numbers = {id(x): n for n, x in enumerate(objects)}
        numbers = self._numbers
        start = len(objects)
        entries: list[Any] = []
        leaves: list[Any] = []
        variables: list[Any] = []
        checks: list[tuple[Any, list[Any], list[Any]]] | None = []
        pending = [root]
        while pending:
            x = pending.pop()
            cls = type(x)
            if isinstance(x, Leveled) or cls is dict or cls is list:
                number = numbers.get(id(x))
                if number is not None:
                    entries.append((_SAME, number - start))
                    if number < start:
                        checks = None
                    continue
                numbers[id(x)] = len(objects)
                objects.append(x)
                if isinstance(x, Variable):
                    entries.append((_VARIABLE, cls, tuple(sorted(x._metadata.items()))))
                    leaves.append(x._value)
                    variables.append(x)
                    continue
                if cls is list:
                    entries.append((_OBJECT, cls, tuple(range(len(x))), None))
                    children = list(x)
                    if checks is not None:
                        checks.append((x, [], children))
                    pending += reversed(children)
                    continue
                items = vars(x) if isinstance(x, Module) else x
                given = list(items)
                keys = ordered(given)
                order = None if cls is not dict or keys == given else tuple(given)
                entries.append((_OBJECT, cls, tuple(keys), order))
                if checks is not None:
                    checks.append((items, given, list(items.values())))
                pending += [items[key] for key in reversed(keys)]
            elif isinstance(x, ARRAYS):
                entries.append((_ARRAY,))
                leaves.append(x)
                variables.append(None)
                checks = None
            else:
                node = NODES.get(cls) or namedtuple_node(cls)
                if node is None or x is None:
                    entries.append((_STATIC, _typed(x), x))
                    continue
                own, aux = node.flatten(x)
                entries.append((_TREE, cls, aux, len(own)))
                pending += reversed(own)
                if cls is not tuple:
                    checks = None
        own_known = None
        if known is not None:
            own_known = tuple([known.get(id(x), -1) for x in objects[start:]])
        graphdef = graphdef_of(tuple(entries), own_known)
        part = Part(graphdef, leaves, variables, objects[start:], root)
        if checks is not None and known is None and isinstance(root, Module):
            part.plan = Plan(part, checks)
            self._sets.append(part.plan.ids)
            put(root, "_nnx_plan", part.plan)
        else:
            self._sets.append(frozenset(map(id, part.objects)))
        return part


def check_assignable(objects: Sequence[Any]) -> None:
    """Check that objects may be changed here.

    Raises:
      TraceContextError: one was made outside of the function that is traced or mapped here.
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
    """Put a graph together.

    Args:
      graphdef: all but what leaves hold.
      leaves: what they hold.
      objects: those of the graphs before it, in order; this one's are added.
      outside: objects that are there, which the GraphDef knows; they are brought up to date.
      metadata: of the Variable of each leaf, if not what the GraphDef says.
    """
    start = len(objects)
    number = 0
    for entry in graphdef.entries:
        kind = entry[0]
        if kind > _VARIABLE:
            continue
        known = -1 if graphdef.known is None else graphdef.known[number]
        number += 1
        if known >= 0:
            objects.append(outside[known])
        elif kind == _VARIABLE:
            objects.append(made(entry[1], None, dict(entry[2])))
        elif entry[1] is dict or entry[1] is list:
            objects.append(entry[1]())
        else:
            objects.append(Module.__new__(entry[1]))
    stack: list[Any] = []
    at, leaf = len(objects), len(leaves)
    for entry in reversed(graphdef.entries):
        kind = entry[0]
        if kind == _VARIABLE:
            at, leaf = at - 1, leaf - 1
            x = objects[at]
            own = dict(entry[2]) if metadata is None else metadata[leaf]
            if x._metadata != own:
                put(x, "_metadata", own)
            put(x, "_value", leaves[leaf])
            stack.append(x)
        elif kind == _ARRAY:
            leaf -= 1
            stack.append(leaves[leaf])
        elif kind == _STATIC:
            stack.append(entry[2])
        elif kind == _SAME:
            stack.append(objects[start + entry[1]])
        else:
            size = len(entry[2]) if kind == _OBJECT else entry[3]
            children = stack[: -size - 1 : -1]
            del stack[len(stack) - size :]
            if kind == _TREE:
                stack.append(known_node(entry[1]).unflatten(entry[1], entry[2], children))
                continue
            at -= 1
            stack.append(_fill(objects[at], entry, children))
    return stack[0]


def _fill(x: Any, entry: Any, children: list[Any]) -> Any:
    """Give an object its children, unless it has them."""
    if type(x) is list:
        if len(x) != len(children) or not all(map(_is, x, children)):
            x[:] = children
        return x
    items = x if type(x) is dict else vars(x)
    new = dict(zip(entry[2], children, strict=True))
    if type(x) is dict and entry[3] is not None:
        new = {key: new[key] for key in entry[3]}
    wanted = list(new) if type(x) is dict else sorted(new)
    if (list(items) if type(x) is dict else sorted(items)) == wanted:
        for key, value in new.items():
            if items[key] is not value:
                items[key] = value
    else:
        items.clear()
        items.update(new)
    return x
