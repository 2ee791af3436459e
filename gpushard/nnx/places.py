"""Places of values: what a prefix tree of shardings or specs says of each leaf of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpushard import tree
from gpushard.array.array import Array
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.nnx.boundary import NodeStates, graph_leaves
from gpushard.nnx.graphdef import path_text
from gpushard.nnx.levels import Leveled
from gpushard.nnx.splitter import Part
from gpushard.nnx.state_sharding import PrefixMapping
from gpushard.nnx.variable import Variable
from gpushard.nnx.walk import all_paths
from gpushard.placement.device_put import implicitly_put
from gpushard.transforms.tracing.constraints import apply_shardings
from gpushard.transforms.values.signature import check_leaf


class Places:
    """What a prefix tree says of arguments or results.

    Args:
      prefix: a prefix of them, of shardings or specs.
      full: a pytree of arrays and graphs, as they are or taken apart.
      argument: how errors call the prefix.
      subject: how errors call what it is of.
      default: stands for None in the prefix.

    Raises:
      ArgumentTypeError: what stands for an array is a mapping for modules.
    """

    def __init__(
        self, prefix: Any, full: Any, argument: str, subject: str, default: Any = None
    ) -> None:
        self.leaves, structure = tree.flatten(full, _is_graph)
        self._paths = structure.leaf_paths()
        numbers = structure.unflatten(range(len(self.leaves)))
        said = prefixes(prefix, numbers, (argument, subject))
        self._said = [default if x is None else x for x in said]
        self._argument, self._subject, self._default = argument, subject, default
        for leaf, own in zip(self.leaves, self._said, strict=True):
            if not _is_graph(leaf) and type(leaf) is not Part:
                _check_no_mapping(own, leaf, argument)

    def roots(self) -> list[tuple[str, Any, Any]]:
        """Return name, root and prefix of each graph, for `check_aliases`."""
        return [
            (self._subject + tree.keystr(path), getattr(leaf, "root", leaf), own)
            for path, leaf, own in zip(self._paths, self.leaves, self._said, strict=True)
            if type(leaf) is Part or isinstance(leaf, Leveled)
        ]

    def agree(self) -> bool:
        """Whether it is known that all paths to a Variable say the same of it."""
        pairs = zip(self.leaves, self._said, strict=True)
        return all(_known_to_agree(own, leaf) for leaf, own in pairs if type(leaf) is Part)

    def each(self) -> list[Any]:
        """Return the place of each array; graphs are taken apart."""
        places: list[Any] = []
        for leaf, own in zip(self.leaves, self._said, strict=True):
            if type(leaf) is Part:
                places += _spread(_of_part(own, leaf), leaf.leaves)
            elif type(leaf) is NodeStates:
                places += _spread(_of_states(own, leaf), leaf.leaves)
            else:
                places.append(own)
        return [self._default if x is None else x for x in places]

    def laid_out(self) -> list[Any]:
        """Return the leaves where they are to lie, in the function that is traced."""
        parts = [x.leaves if type(x) is Part else x for x in self.leaves]
        arrays, structure = tree.flatten(parts)
        places = self.each()
        for number, x in enumerate(arrays):
            if not isinstance(x, Array) and places[number] is not None:
                check_leaf(x, "jit", f"leaf {number} of {self._subject}")
                arrays[number] = implicitly_put(x, "jit")
        moved = apply_shardings(arrays, tuple(arrays), tuple(places), self._argument)
        leaves: list[Any] = structure.unflatten(moved)
        for n, x in enumerate(self.leaves):
            if type(x) is Part:
                x.leaves, leaves[n] = leaves[n], x
        return leaves


def _is_graph(x: Any) -> bool:
    return type(x) is NodeStates or isinstance(x, Leveled)


def check_aliases(roots: Sequence[tuple[str, Any, Any]], what: str) -> None:
    """Check that all paths to a Variable say the same of it.

    Args:
      roots: for each graph how errors call it, its root, and what stands for it in a prefix tree.
      what: what is said, for errors.

    Raises:
      ArgumentError: two paths say different things.
    """
    prefixes = [prefix for _, _, prefix in roots]
    mapping = any(isinstance(prefix, PrefixMapping) for prefix in prefixes)
    if not mapping and all(prefix == prefixes[0] for prefix in prefixes[1:]):
        return
    known: dict[int, tuple[str, Any]] = {}
    for name, root, prefix in roots:
        maps = isinstance(prefix, PrefixMapping)
        for path, x, _ in all_paths(root) if maps else all_paths(root, visits=1):
            if not isinstance(x, Variable):
                continue
            said = prefix.map_prefix(path, x) if maps else prefix
            text = name + path_text(path)
            other, before = known.setdefault(id(x), (text, said))
            if before != said:
                raise ArgumentError(
                    f"{what}: a {type(x).__name__} is {other} with {before!r}, and {text} with "
                    f"{said!r}; say the same of both, or give it once",
                    argument=what,
                    type=type(x),
                    paths=(other, text),
                    specs=(before, said),
                )


def prefixes(prefix: Any, full: Any, names: tuple[str, str]) -> list[Any]:
    """Return the leaf of a prefix tree that stands for each leaf of a tree of graphs and arrays.

    Variables in the prefix stand for what they hold, as in what `get_named_sharding` returns.
    """
    leaves, structure = graph_leaves(full)
    if prefix is None or isinstance(prefix, PrefixMapping):
        return [prefix] * len(leaves)
    numbers = structure.unflatten(range(len(leaves)))
    found = tree.broadcast_prefix(
        prefix, numbers, lambda x: x is None or isinstance(x, Variable), names=names
    )
    return [x._value if isinstance(x, Variable) else x for x in found]


def _of_part(prefix: Any, part: Part) -> list[Any]:
    """Return what a leaf of a prefix tree says of each leaf of a graph."""
    if not isinstance(prefix, PrefixMapping):
        return [prefix] * len(part.leaves)
    recipe = part.recipe
    if recipe is not None and recipe.places is not None and recipe.places[0] is prefix:
        known: list[Any] = recipe.places[1]
        return known
    own = zip(part.graphdef.leaf_paths(), part.variables, part.leaves, strict=True)
    found = [prefix.map_prefix(path, leaf if x is None else x) for path, x, leaf in own]
    if recipe is not None:
        recipe.places = prefix, found
    return found


def _known_to_agree(prefix: Any, part: Part) -> bool:
    """Whether all paths to a Variable say the same of it, as was found in an earlier call.

    Graphs with a plan have no objects of graphs before them.
    """
    if part.recipe is None or not isinstance(prefix, PrefixMapping):
        return part.recipe is not None
    return part.recipe.places is not None and part.recipe.places[0] is prefix


def _spread(places: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
    """Return the place of each array, where leaves may be pytrees of several."""
    found: list[Any] = []
    for place, leaf in zip(places, leaves, strict=True):
        count = 1 if isinstance(leaf, Array) else tree.structure(leaf).num_leaves
        found += [place] * count
    return found


def _check_no_mapping(prefix: Any, leaf: Any, argument: str) -> None:
    """Check that what stands for a single array is no mapping for modules."""
    if isinstance(prefix, PrefixMapping):
        raise ArgumentTypeError(
            f"{argument} has {prefix!r} for a {type(leaf).__name__}; it stands for modules, give "
            "arrays a sharding of their own",
            argument=argument,
        )


def _of_states(prefix: Any, states: NodeStates) -> list[Any]:
    """Return what a leaf of a prefix tree says of each leaf of a graph that was taken apart."""
    if not isinstance(prefix, PrefixMapping):
        return [prefix] * len(states.leaves)
    boxes = states.graphdef.as_variables(states.leaves)
    paths = states.graphdef.leaf_paths()
    return [prefix.map_prefix(path, x) for path, x in zip(paths, boxes, strict=True)]
