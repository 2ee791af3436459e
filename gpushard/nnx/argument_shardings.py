"""Prefix trees of shardings or specs for arguments with Modules: the place of each leaf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpushard import tree
from gpushard._array.array import Array
from gpushard._placement.device_put import implicitly_put
from gpushard._transforms.tracing.constraints import apply_shardings
from gpushard._transforms.values.leaves import check_leaf
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.nnx.graphdef import path_text
from gpushard.nnx.levels import Leveled
from gpushard.nnx.module_arguments import NodeStates, graph_leaves
from gpushard.nnx.splitter import Part
from gpushard.nnx.state_sharding import PrefixMapping
from gpushard.nnx.variable import Variable
from gpushard.nnx.walk import all_paths


class Places:
    """The places of the leaves of arguments or results, by a prefix tree.

    Args:
      prefix: the prefix tree, of shardings or specs.
      full: a pytree of arrays and graphs, which may be split.
      argument: the argument that has the prefix, for errors.
      subject: the name of `full`, for errors.
      default: replaces None in the prefix.

    Raises:
      ArgumentTypeError: the prefix has a `StateSharding` for an array.
    """

    def __init__(
        self, prefix: Any, full: Any, argument: str, subject: str, default: Any = None
    ) -> None:
        self.leaves, structure = tree.flatten(full, _is_graph)
        self._paths = structure.leaf_paths()
        numbers = structure.unflatten(range(len(self.leaves)))
        entries = prefixes(prefix, numbers, (argument, subject))
        self._entries = [default if x is None else x for x in entries]
        self._argument, self._subject, self._default = argument, subject, default
        for leaf, entry in zip(self.leaves, self._entries, strict=True):
            if not _is_graph(leaf) and type(leaf) is not Part:
                _check_no_mapping(entry, leaf, argument)

    def roots(self) -> list[tuple[str, Any, Any]]:
        """List name, root and prefix of each graph, for `check_aliases`."""
        return [
            (self._subject + tree.keystr(path), getattr(leaf, "root", leaf), entry)
            for path, leaf, entry in zip(self._paths, self.leaves, self._entries, strict=True)
            if type(leaf) is Part or isinstance(leaf, Leveled)
        ]

    def agree(self) -> bool:
        """Whether all paths to a Variable are known to give it one place."""
        pairs = zip(self.leaves, self._entries, strict=True)
        return all(_known_to_agree(entry, leaf) for leaf, entry in pairs if type(leaf) is Part)

    def each(self) -> list[Any]:
        """List the place of each array."""
        places: list[Any] = []
        for leaf, entry in zip(self.leaves, self._entries, strict=True):
            if type(leaf) is Part:
                places += _repeat_for_arrays(_of_part(entry, leaf), leaf.leaves)
            elif type(leaf) is NodeStates:
                places += _repeat_for_arrays(_of_states(entry, leaf), leaf.leaves)
            else:
                places.append(entry)
        return [self._default if x is None else x for x in places]

    def laid_out(self) -> list[Any]:
        """Move the leaves to their places, within a traced function."""
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
    """Check that all paths to a Variable give it one place.

    Args:
      roots: for each graph its name for errors, its root, and its entry in a prefix tree.
      what: the argument that has the prefix tree, for errors.

    Raises:
      ArgumentError: two paths give a Variable different places.
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
            place = prefix.map_prefix(path, x) if maps else prefix
            text = name + path_text(path)
            other, before = known.setdefault(id(x), (text, place))
            if before != place:
                raise ArgumentError(
                    f"{what}: a {type(x).__name__} is {other} with {before!r}, and {text} with "
                    f"{place!r}. Try: say the same of both, or give it once",
                    argument=what,
                    type=type(x),
                    paths=(other, text),
                    specs=(before, place),
                )


def prefixes(prefix: Any, full: Any, names: tuple[str, str]) -> list[Any]:
    """Find the entry of a prefix tree for each leaf of a tree of graphs and arrays.

    A Variable in the prefix stands for its value, as in results of `get_named_sharding`.
    """
    leaves, structure = graph_leaves(full)
    if prefix is None or isinstance(prefix, PrefixMapping):
        return [prefix] * len(leaves)
    numbers = structure.unflatten(range(len(leaves)))
    entries = tree.broadcast_prefix(
        prefix, numbers, lambda x: x is None or isinstance(x, Variable), names=names
    )
    return [x._value if isinstance(x, Variable) else x for x in entries]


def _of_part(prefix: Any, part: Part) -> list[Any]:
    """List the place of each leaf of a graph, by its entry in a prefix tree."""
    if not isinstance(prefix, PrefixMapping):
        return [prefix] * len(part.leaves)
    recipe = part.recipe
    if recipe is not None and recipe.places is not None and recipe.places[0] is prefix:
        known: list[Any] = recipe.places[1]
        return known
    leaves_at = zip(part.graphdef.leaf_paths(), part.variables, part.leaves, strict=True)
    places = [prefix.map_prefix(path, leaf if x is None else x) for path, x, leaf in leaves_at]
    if recipe is not None:
        recipe.places = prefix, places
    return places


def _known_to_agree(prefix: Any, part: Part) -> bool:
    """Whether an earlier call has checked that all paths to a Variable give it one place.

    A graph with a recipe shares no objects with the graphs before it.
    """
    if part.recipe is None or not isinstance(prefix, PrefixMapping):
        return part.recipe is not None
    return part.recipe.places is not None and part.recipe.places[0] is prefix


def _repeat_for_arrays(places: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
    """Repeat the place of each leaf for its arrays: a leaf may be a pytree."""
    spread: list[Any] = []
    for place, leaf in zip(places, leaves, strict=True):
        count = 1 if isinstance(leaf, Array) else tree.structure(leaf).num_leaves
        spread += [place] * count
    return spread


def _check_no_mapping(prefix: Any, leaf: Any, argument: str) -> None:
    """Check that the entry for an array is no `StateSharding`, which is for Modules."""
    if isinstance(prefix, PrefixMapping):
        raise ArgumentTypeError(
            f"{argument} has {prefix!r} for a {type(leaf).__name__}, and it is for Modules. Try: "
            "give the array a sharding of its own",
            argument=argument,
        )


def _of_states(prefix: Any, states: NodeStates) -> list[Any]:
    """List the place of each leaf of a split graph, by its entry in a prefix tree."""
    if not isinstance(prefix, PrefixMapping):
        return [prefix] * len(states.leaves)
    boxes = states.graphdef.as_variables(states.leaves)
    paths = states.graphdef.leaf_paths()
    return [prefix.map_prefix(path, x) for path, x in zip(paths, boxes, strict=True)]
