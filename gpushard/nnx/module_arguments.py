"""Modules as arguments of functions of arrays, such as `jit` makes them.

1. `Outside.pure` splits each argument: Modules become `NodeStates`, pytrees of arrays with a static
   GraphDef.
2. Within the function, `Inside.build_graphs` builds new objects from these. The function may
   change them, and no caller sees it.
3. `Inside.results` splits the objects again, and says which of them are arguments.
4. `Outside.update` writes their new values into the objects of the caller, which keep their
   identity. If the function raises, step 4 does not happen, and nothing has changed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from gpushard import tree
from gpushard._array.array import ConcreteArray
from gpushard._transforms.tracing.trace import Tracer
from gpushard._transforms.values.mapped import Mapped
from gpushard.nnx.graph import leaves_by_path, leaves_in_order, state_of
from gpushard.nnx.graphdef import GraphDef, build, check_assignable, path_text
from gpushard.nnx.levels import OUTSIDE, Leveled, level, new_level
from gpushard.nnx.splitter import Part, Splitter
from gpushard.nnx.state import State
from gpushard.nnx.variable import Variable, put
from gpushard.nnx.walk import Path
from gpushard.tree.node import NODES, GetAttrKey, Node

__all__ = ["NodeStates", "clear_non_graph_nodes"]


class NodeStates:
    """A split Module as a pytree: its arrays are the leaves.

    Args:
      graphdef: the static part of the Module, a GraphDef.
      states: a sequence of States that together have the values of all leaves.
      metadata: any hashable value, which is kept unchanged.

    Raises:
      ArgumentError: the states do not have a leaf of the graph, or have a leaf that the graph does
        not have.

    >>> import gpushard as gs
    >>> from gpushard import nnx
    >>> m = nnx.Module()
    >>> m.rate = nnx.Param(gs.numpy.ones(2))
    >>> graphdef, state = nnx.split(m)
    >>> doubled = gs.tree.map(lambda x: 2 * x, nnx.NodeStates(graphdef, (state,)))
    >>> nnx.merge(doubled.graphdef, *doubled.states).rate.value
    Array([2., 2.], dtype=float64)
    """

    __slots__ = ("_parts", "graphdef", "leaves", "metadata")

    def __init__(self, graphdef: GraphDef, states: Sequence[Any], metadata: Any = None) -> None:
        flat: dict[Path, Any] = {}
        numbers: dict[Path, int] = {}
        for number, each in enumerate(states):
            flat_state = leaves_by_path(each, graphdef, "NodeStates")
            flat |= flat_state
            numbers |= dict.fromkeys(flat_state, number)
        self.graphdef = graphdef
        self.leaves: Sequence[Any] = leaves_in_order(graphdef, flat, "NodeStates")[0]
        self._parts: tuple[int, ...] | None = None
        if len(states) != 1:
            each = tuple([numbers[path] for path in graphdef.leaf_paths()])
            self._parts = (len(states), *each)
        self.metadata = metadata

    @classmethod
    def from_split(cls, graphdef: GraphDef, *states: Any, metadata: Any = None) -> NodeStates:
        """Make a `NodeStates` from the results of `split`."""
        return cls(graphdef, states, metadata)

    @property
    def states(self) -> tuple[State, ...]:
        """The States with the values of all leaves, in Variables if the Module has Variables."""
        paths = self.graphdef.leaf_paths()
        boxes = self.graphdef.as_variables(self.leaves)
        count, *numbers = self._parts or (1, *[0] * len(paths))
        pairs = list(zip(numbers, paths, boxes, strict=True))
        return tuple(
            [
                state_of([(p, x) for n, p, x in pairs if n == state_number])
                for state_number in range(count)
            ]
        )

    def __repr__(self) -> str:
        return f"NodeStates({self.graphdef!r}, {self.states!r})"


def _states(graphdef: GraphDef, leaves: Sequence[Any], parts: Any = None, more: Any = None) -> Any:
    new = object.__new__(NodeStates)
    new.graphdef, new.leaves, new._parts, new.metadata = graphdef, leaves, parts, more
    return new


NODES[NodeStates] = Node(
    lambda x: (x.leaves, (x.graphdef, x._parts, x.metadata)),
    lambda cls, aux, children: _states(aux[0], children, *aux[1:]),
    lambda cls, aux, size: [GetAttrKey(_name(path)) for path in aux[0].leaf_paths()],
    lambda cls, aux, children: repr(aux[0]),
)


def _name(path: Path) -> str:
    """Name a leaf for errors, after the name of its argument."""
    return path_text(path)[1:] or "value"


class _Updated:
    """New values of some Variables of an argument that has changed in nothing else."""

    __slots__ = ("at", "leaves", "number", "paths")

    def __init__(
        self, number: int, at: tuple[int, ...], paths: tuple[str, ...], leaves: Sequence[Any]
    ) -> None:
        self.number = number  # the number of the graph among all arguments
        self.at = at  # the numbers of changed leaves
        self.paths = paths
        self.leaves = leaves

    def __repr__(self) -> str:
        return f"Updated({', '.join(self.paths)})"


NODES[_Updated] = Node(
    lambda x: (x.leaves, (x.number, x.at, x.paths)),
    lambda cls, aux, children: _Updated(aux[0], aux[1], aux[2], children),
    lambda cls, aux, size: [GetAttrKey(path) for path in aux[2]],
    lambda cls, aux, children: f"Updated({', '.join(aux[2])})",
)


def _is_variable(x: Any) -> bool:
    return isinstance(x, Variable)


def is_states(x: Any) -> bool:
    """Whether a value is a split graph."""
    return type(x) is NodeStates or type(x) is _Updated


def graph_leaves(x: Any) -> tuple[list[Any], Any]:
    """Flatten a pytree, with Modules and Variables as leaves."""
    return tree.flatten(x, _is_variable)


def clear_non_graph_nodes(x: Any) -> Any:
    """Replace all leaves of a pytree by None, except Modules and Variables.

    Args:
      x: a pytree; Modules and Variables are leaves.

    >>> from gpushard import nnx
    >>> nnx.clear_non_graph_nodes((nnx.Param(1.0), 2, {"a": 3}))
    (Param(1.0), None, {'a': None})
    """
    leaves, structure = graph_leaves(x)
    return structure.unflatten([leaf if isinstance(leaf, Leveled) else None for leaf in leaves])


class Outside:
    """The arguments of one call, on the side of the caller."""

    __slots__ = ("moved", "splitter")

    def __init__(self) -> None:
        self.splitter = Splitter()
        self.moved: list[Any] = []
        """Donated arrays; the function gets copies of these on other devices."""

    def pure(self, x: Any) -> Any:
        """Split the Modules and Variables of an argument."""
        if isinstance(x, Leveled):
            part = self.splitter.split(x)
            part.graphdef.check_hashable("an argument")
            return _states(part.graphdef, part.leaves)
        if type(x) not in NODES and not isinstance(x, tuple):
            return x
        leaves, structure = graph_leaves(x)
        if not any(isinstance(leaf, Leveled) for leaf in leaves):
            return x
        return structure.unflatten([self.pure(leaf) for leaf in leaves])

    def update(self, results: Any) -> Any:
        """Update the objects of the caller, and build the result of the function."""
        args, kwargs, out = results
        if level() is not OUTSIDE:
            self._check(args, kwargs)
        objects: list[Any] = []
        for x in args:
            self._decode(x, objects)
        if kwargs:
            self._decode(kwargs, objects)
        return self._decode(out, objects)

    def _decode(self, x: Any, objects: list[Any]) -> Any:
        kind = type(x)
        if kind is _Updated:
            part = self.splitter.parts[x.number]
            variables = part.variables
            for n, leaf in zip(x.at, x.leaves, strict=True):
                put(variables[n], "_value", leaf)
            objects += part.objects
            return None
        if kind is NodeStates:
            return build(x.graphdef, x.leaves, objects, self.splitter.objects)
        if kind not in NODES and not isinstance(x, tuple):
            return x
        leaves, structure = tree.flatten(x, is_states)
        return structure.unflatten([self._decode(leaf, objects) for leaf in leaves])

    def _check(self, args: Any, kwargs: Any) -> None:
        """Check that this code may change the Variables that have changed."""
        for x in tree.leaves((args, kwargs), is_states):
            if type(x) is _Updated:
                variables = self.splitter.parts[x.number].variables
                check_assignable([variables[n] for n in x.at])
            elif type(x) is NodeStates:
                objects = self.splitter.objects
                check_assignable([objects[n] for n in x.graphdef.known or () if n >= 0])


class _Argument:
    """A graph among the arguments of a function."""

    __slots__ = ("graphdef", "held", "keeps", "leaves", "number", "size", "start")

    def __init__(self, number: int, states: Any, start: int, size: int, keeps: bool) -> None:
        self.number = number
        self.graphdef = states.graphdef
        self.leaves = states.leaves
        self.held = list(map(_held, self.leaves))
        self.start = start
        self.size = size
        self.keeps = keeps


def _held(x: Any) -> Any:
    """Get the identity of a traced or mapped value, which an assignment changes; else None."""
    if isinstance(x, Tracer):
        return x._held()
    return x._value if isinstance(x, Mapped) else None


class Inside:
    """The arguments of one call, on the side of the called function."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self._arguments: list[_Argument] = []

    def build_graphs(self, x: Any, keeps: bool) -> Any:
        """Build the Modules and Variables of an argument.

        Args:
          x: the argument.
          keeps: whether all of its values return, even those that have not changed.
        """
        if type(x) is NodeStates:
            start = len(self.objects)
            x.leaves = [
                copy.copy(leaf) if type(leaf) is ConcreteArray else leaf for leaf in x.leaves
            ]
            root = build(x.graphdef, x.leaves, self.objects)
            number, size = len(self._arguments), len(self.objects) - start
            self._arguments.append(_Argument(number, x, start, size, keeps))
            return root
        if type(x) not in NODES and not isinstance(x, tuple):
            return x
        leaves, structure = tree.flatten(x, is_states)
        if not any(type(leaf) is NodeStates for leaf in leaves):
            return x
        return structure.unflatten([self.build_graphs(leaf, keeps) for leaf in leaves])

    def results(self, passed: Any, out: Any, lay: Callable[..., Any] | None) -> Any:
        """Split the graphs of arguments and of the result.

        Args:
          passed: positional and keyword arguments, with None for leaves that are no graphs.
          out: the result of the function.
          lay: moves leaves: it takes positional arguments, keyword arguments and the result, with a
            `Part` for each graph, and returns the leaves of all three.
        """
        splitter = Splitter({id(x): n for n, x in enumerate(self.objects)})
        leaves, structure = graph_leaves((passed, out))
        split_leaves = [splitter.split(x) if isinstance(x, Leveled) else x for x in leaves]
        for x in split_leaves:
            if type(x) is Part:
                x.graphdef.check_hashable("a result")
        if lay is not None:
            (args, kwargs), own_out = structure.unflatten(split_leaves)
            split_leaves = lay(args, kwargs, own_out)
        arguments = iter(self._arguments)
        before = True  # whether all graphs before it are unchanged: it may refer to their objects
        encoded = []
        for x in split_leaves:
            if type(x) is not Part:
                encoded.append(x)
                continue
            argument = next(arguments, None)
            same = argument is not None and self._is_same(x, argument)
            same = same and (before or not x.graphdef.refers_to_others())
            before = before and same
            encoded.append(
                self._take_updates(x, argument) if same else _states(x.graphdef, x.leaves)
            )
        (args_out, kwargs_out), own_out = structure.unflatten(encoded)
        return args_out, kwargs_out, own_out

    def _is_same(self, part: Part, argument: _Argument) -> bool:
        """Whether only values of a graph have changed."""
        known = tuple(range(argument.start, argument.start + argument.size))
        return (
            all(x is not None for x in part.variables)
            and part.graphdef.known == known
            and part.graphdef.entries == argument.graphdef.entries
        )

    def _take_updates(self, part: Part, argument: Any) -> _Updated:
        at = [
            n
            for n, (x, old, held) in enumerate(
                zip(part.leaves, argument.leaves, argument.held, strict=True)
            )
            if argument.keeps or held is None or x is not old or _held(x) is not held
        ]
        paths = argument.graphdef.leaf_paths()
        changed_names = tuple([_name(paths[n]) for n in at])
        return _Updated(argument.number, tuple(at), changed_names, [part.leaves[n] for n in at])


def call_with_graphs(
    f: Any,
    args: Any,
    kwargs: Any,
    *,
    keeps: Callable[[Any], bool] = lambda name: True,
    lay: Callable[..., Any] | None = None,
) -> Any:
    """Call a function of Modules with arguments that `Outside.pure` has split.

    Args:
      f: the function.
      args: the positional arguments.
      kwargs: the keyword arguments.
      keeps: takes the number or name of an argument, and says whether all of its values return,
        even those that have not changed.
      lay: see `Inside.results`.

    Returns:
      Positional arguments, keyword arguments and the result, with split graphs.
    """
    with new_level():
        inside = Inside()
        own_args = [inside.build_graphs(x, keeps(n)) for n, x in enumerate(args)]
        own_kwargs = {
            name: inside.build_graphs(x, keeps(name)) for name, x in sorted(kwargs.items())
        }
        passed = clear_non_graph_nodes((tuple(own_args), own_kwargs))
        out = f(*own_args, **own_kwargs)
        return inside.results(passed, out, lay)
