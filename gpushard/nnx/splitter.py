"""Split graphs into a GraphDef, the values of leaves, and the objects that can be shared.

A Module keeps the recipe by which it was split. If only values of Variables have changed when it
is split again, only these values are read.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections import defaultdict, deque
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

from gpushard._cache import exact_key
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.nnx.graphdef import (
    ARRAY,
    ARRAYS,
    NODE,
    OBJECT,
    SAME,
    STATIC,
    TREE,
    VARIABLE,
    GraphDef,
    graphdef_of,
    path_text,
)
from gpushard.nnx.levels import Leveled
from gpushard.nnx.module import Module
from gpushard.nnx.variable import Variable, put
from gpushard.nnx.walk import MAPPINGS, Path, is_method, is_shared, items_of, keys_of, node_of

_is = operator.is_
_metadata_of = operator.attrgetter("_metadata")
_value_of = operator.attrgetter("_value")


Checks: TypeAlias = list[tuple[Any, list[Any], list[Any]]]
"""Containers that are filled in place, their keys in order, and their children."""


class Recipe:
    """A record of how a Module was split, and what must be unchanged to split it so again.

    The Module keeps it. It does not refer to the Module, so there is no reference cycle.
    """

    __slots__ = ("checks", "graphdef", "ids", "metadata", "objects", "places", "variables")

    def __init__(self, part: Part, checks: Checks) -> None:
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
            if isinstance(container, dict):
                if [*container] != keys or not all(map(_is, container.values(), values)):
                    return False
            elif not all(map(_is, container, values)):
                return False
        return all(map(_is, map(_metadata_of, self.variables), self.metadata))


class Part:
    """A split graph.

    Args:
      graphdef: its static part.
      leaves: the values of its leaves.
      variables: for each leaf the Variable, or None for an array.
      objects: the objects that can be shared, in order.
      root: the object that was split.
    """

    __slots__ = ("graphdef", "leaves", "objects", "recipe", "root", "variables")

    def __init__(
        self, graphdef: GraphDef, leaves: list[Any], variables: list[Any], objects: Any, root: Any
    ) -> None:
        self.graphdef = graphdef
        self.leaves = leaves
        self.variables = variables
        self.objects = objects
        self.root = root
        self.recipe: Recipe | None = None


class Splitter:
    """Splits graphs one after the other; an object that several graphs have is written once.

    Args:
      known: the numbers of objects that exist outside the function, by id.
    """

    def __init__(self, known: dict[int, int] | None = None) -> None:
        self.objects: list[Any] = []
        self.parts: list[Part] = []
        self._known = known
        self._numbers: dict[int, int] | None = {}
        """Numbers of objects by id; None if they have to be computed from `objects` first."""
        self._sets: list[frozenset[int]] = []

    def split(self, root: Any) -> Part:
        """Split a graph."""
        recipe: Recipe | None = root._nnx_recipe if isinstance(root, Module) else None
        part: Part
        if (
            recipe is not None
            and self._known is None
            and recipe.holds()
            and self._is_disjoint(recipe.ids)
        ):
            objects = [root, *recipe.objects]
            leaves = list(map(_value_of, recipe.variables))
            part = Part(recipe.graphdef, leaves, recipe.variables, objects, root)
            part.recipe = recipe
            self._numbers = None
            self._sets.append(recipe.ids)
            self.objects += objects
        else:
            part = self._walk(root)
        self.parts.append(part)
        return part

    def _is_disjoint(self, ids: frozenset[int]) -> bool:
        """Whether no graph so far has any of some objects."""
        if self._numbers is None:
            return all(map(ids.isdisjoint, self._sets))
        return ids.isdisjoint(self._numbers)

    def _walk(self, root: Any) -> Part:
        objects, known = self.objects, self._known
        if self._numbers is None:
            self._numbers = {id(x): n for n, x in enumerate(objects)}
        start = len(objects)
        walk = _Walk(objects, self._numbers)
        walk.run(root)
        part_known = None
        if known is not None:
            part_known = tuple([known.get(id(x), -1) for x in objects[start:]])
        graphdef = graphdef_of(tuple(walk.entries), part_known)
        part = Part(graphdef, walk.leaves, walk.variables, objects[start:], root)
        if walk.checks is not None and known is None and isinstance(root, Module):
            part.recipe = Recipe(part, walk.checks)
            self._sets.append(part.recipe.ids)
            put(root, "_nnx_recipe", part.recipe)
        else:
            self._sets.append(frozenset(map(id, part.objects)))
        return part


class _Walk:
    """Writes down the entries of one graph.

    Args:
      objects: the objects of graphs before it; those of this graph are appended.
      numbers: the numbers of these objects by id; those of this graph are added.
    """

    def __init__(self, objects: list[Any], numbers: dict[int, int]) -> None:
        self.entries: list[Any] = []
        self.leaves: list[Any] = []
        self.variables: list[Any] = []
        self.checks: Checks | None = []
        """What a later split compares; None if it is as quick to write the graph down again."""
        self._objects, self._numbers, self._start = objects, numbers, len(objects)
        self._unfinished: set[int] = set()
        self._pending: list[Any] = []

    def run(self, root: Any) -> None:
        """Write down everything that a root reaches."""
        entries, pending = self.entries, self._pending
        pending.append(root)
        while pending:
            x = pending.pop()
            cls = type(x)
            node = node_of(x)
            if isinstance(x, Leveled) or (node is not None and is_shared(x)):
                self._object(x, cls, node)
            elif cls is _End:
                self._unfinished.discard(x.number)
            elif node is not None:
                children, aux = node.flatten(x)
                entries.append((TREE, cls, aux, len(children)))
                pending += reversed(children)
            elif isinstance(x, ARRAYS):
                entries.append((ARRAY,))
                self.leaves.append(x)
                self.variables.append(None)
                self.checks = None
            else:
                entries.append((STATIC, exact_key(x), x))
                _check_static(x, entries)

    def _object(self, x: Any, cls: type, node: Any) -> None:
        """Write down an object that can be shared; only its number if it occurred before."""
        entries, objects = self.entries, self._objects
        number = self._numbers.get(id(x))
        if number is not None:
            if number in self._unfinished:
                raise _circle(x, entries)
            entries.append((SAME, number - self._start))
            if number < self._start:
                self.checks = None
            return
        self._numbers[id(x)] = number = len(objects)
        objects.append(x)
        if isinstance(x, Variable):
            entries.append((VARIABLE, cls, tuple(sorted(x._metadata.items()))))
            self.leaves.append(x._value)
            self.variables.append(x)
        elif cls is list or cls in MAPPINGS or isinstance(x, Leveled):
            self._pending += reversed(_enter(x, entries, self.checks))
            if cls is defaultdict:
                self.checks = None
        else:
            children, aux = node.flatten(x)
            entries.append((NODE, cls, aux, len(children)))
            self._unfinished.add(number)
            self._pending += [_End(number), *reversed(children)]
            self.checks = None


class _End:
    """Marks the end of the children of a node that is built from them."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


def _enter(x: Any, entries: list[Any], checks: Checks | None) -> list[Any]:
    """Write down a Module or a container that is filled in place, and return its children."""
    cls = type(x)
    if cls is list:
        entries.append((OBJECT, cls, tuple(range(len(x))), None))
        if checks is not None:
            checks.append((x, [], list(x)))
        return list(x)
    items, keys = items_of(x), keys_of(x)
    order = None if isinstance(x, Module) or keys == list(items) else tuple(items)
    factory = (x.default_factory,) if cls is defaultdict else ()
    entries.append((OBJECT, cls, tuple(keys), order, *factory))
    if checks is not None:
        checks.append((items, list(items), list(items.values())))
    return [items[key] for key in keys]


def _path(entries: list[Any]) -> Path:
    """Return the path of the last entry so far."""
    return list(GraphDef(tuple(entries)).paths())[-1]


def _circle(x: Any, entries: list[Any]) -> ArgumentError:
    path = _path([*entries, (STATIC,)])
    return ArgumentError(
        f"the graph leads at {path_text(path)} back into a {type(x).__name__}, which is built "
        "from its children; break the circle, or put them into a Module, a dict or a list",
        argument="node",
        path=path,
        type=type(x),
    )


def _check_static(x: Any, entries: list[Any]) -> None:
    """Check that a static value contains no leaf and no Module: copies of the graph would share it.

    Raises:
      ArgumentTypeError: it contains one.
    """
    parts: Any = ()
    if isinstance(x, Mapping):
        parts = x.values()
    elif isinstance(x, list | tuple | AbstractSet | deque):
        parts = x
    elif dataclasses.is_dataclass(x) and not isinstance(x, type):
        parts = [getattr(x, each.name, None) for each in dataclasses.fields(x)]
    elif isinstance(x, functools.partial):
        bound = [*x.args, *x.keywords.values(), x.func]
        parts = [each for each in bound if isinstance(each, Leveled) or is_method(each)]
    for part in parts:
        if isinstance(part, Leveled | ARRAYS) or is_method(part):
            path = _path(entries)
            raise ArgumentTypeError(
                f"the {type(x).__name__} at {path_text(path) or 'the root'} has a "
                f"{type(part).__name__}, and its type is no container here; use a dict, a list or "
                "a Module, or register the type. Try: gs.tree_util.register_dataclass, or "
                "gs.tree.register_node",
                argument="node",
                path=path,
                type=type(x),
            )
