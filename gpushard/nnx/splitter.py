"""Graphs taken apart: into a GraphDef, what leaves hold, and the objects that can be shared.

How a Module was taken apart is kept with it: as long as it is made up in the same way, only the
values of its Variables are read.
"""

from __future__ import annotations

import operator
from typing import Any

from gpushard.cache import exact_key
from gpushard.nnx.graphdef import (
    ARRAY,
    ARRAYS,
    OBJECT,
    SAME,
    STATIC,
    TREE,
    VARIABLE,
    GraphDef,
    graphdef_of,
)
from gpushard.nnx.levels import Leveled
from gpushard.nnx.module import Module
from gpushard.nnx.variable import Variable, put
from gpushard.nnx.walk import ordered
from gpushard.tree.node import NODES, namedtuple_node

_is = operator.is_
_metadata_of = operator.attrgetter("_metadata")
_value_of = operator.attrgetter("_value")


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
                    entries.append((SAME, number - start))
                    if number < start:
                        checks = None
                    continue
                numbers[id(x)] = len(objects)
                objects.append(x)
                if isinstance(x, Variable):
                    entries.append((VARIABLE, cls, tuple(sorted(x._metadata.items()))))
                    leaves.append(x._value)
                    variables.append(x)
                    continue
                if cls is list:
                    container, given, keys, order = x, [], list(range(len(x))), None
                else:
                    container = vars(x) if isinstance(x, Module) else x
                    given = list(container)
                    keys = ordered(given)
                    order = None if cls is not dict or keys == given else tuple(given)
                entries.append((OBJECT, cls, tuple(keys), order))
                if checks is not None:
                    values = list(x) if cls is list else list(container.values())
                    checks.append((container, given, values))
                pending += [container[key] for key in reversed(keys)]
            elif isinstance(x, ARRAYS):
                entries.append((ARRAY,))
                leaves.append(x)
                variables.append(None)
                checks = None
            else:
                node = NODES.get(cls) or namedtuple_node(cls)
                if node is None or x is None:
                    entries.append((STATIC, exact_key(x), x))
                    continue
                own, aux = node.flatten(x)
                entries.append((TREE, cls, aux, len(own)))
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
