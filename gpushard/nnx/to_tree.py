"""Convert graphs to pytrees and back, for transforms of your own: `to_tree`, `from_tree`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpushard import tree
from gpushard.nnx.argument_shardings import check_aliases, prefixes
from gpushard.nnx.filters import Filter
from gpushard.nnx.graph import state_of
from gpushard.nnx.graphdef import GraphDef, build
from gpushard.nnx.levels import Leveled
from gpushard.nnx.module_arguments import NodeStates, graph_leaves
from gpushard.nnx.splitter import Splitter
from gpushard.nnx.state import check_taken, divide_leaves
from gpushard.nnx.update_context import crossing_of

__all__ = ["from_tree", "to_tree"]


class SplitContext:
    """Splits the graphs of one call; `split_fn` of `to_tree` gets it."""

    def __init__(self, splitter: Splitter) -> None:
        self._splitter = splitter

    def flatten(self, node: Any, *filters: Filter) -> tuple[Any, ...]:
        """Split a graph into its GraphDef and a State for each filter, as `split` does.

        Objects that graphs before it have are no leaves of this one.
        """
        part = self._splitter.split(node)
        boxes = part.graphdef.as_variables(part.leaves)
        flat = list(zip(part.graphdef.leaf_paths(), boxes, strict=True))
        parts = divide_leaves(flat, filters or (...,), "flatten")
        check_taken(parts[-1], "flatten")
        return part.graphdef, *map(state_of, parts[:-1])


class MergeContext:
    """Merges the graphs of one call; `merge_fn` of `from_tree` gets it."""

    def __init__(self, objects: list[Any], outside: Sequence[Any]) -> None:
        self._objects = objects
        self._outside = outside

    def unflatten(self, graphdef: GraphDef, *states: Any) -> Any:
        """Merge a GraphDef and States into a graph, as `merge` does."""
        states_ = NodeStates(graphdef, states)
        return build(graphdef, states_.leaves, self._objects, self._outside)


def _is_node_states(x: Any) -> bool:
    return type(x) is NodeStates


def _split(context: SplitContext, path: Any, prefix: Any, leaf: Any) -> Any:
    filters = getattr(prefix, "filters", ())
    return NodeStates.from_split(*context.flatten(leaf, *filters), metadata=prefix)


def _merge(context: MergeContext, path: Any, prefix: Any, leaf: Any) -> Any:
    return context.unflatten(leaf.graphdef, *leaf.states)


def to_tree(
    node: Any,
    /,
    *,
    prefix: Any = None,
    split_fn: Callable[[SplitContext, Any, Any, Any], Any] = _split,
    check_aliasing: bool = True,
    ctxtag: Any = None,
) -> Any:
    """Split all Modules and Variables in a pytree, so that you can pass it to a transform.

    Args:
      node: the pytree; its Modules and Variables may share objects.
      prefix: a pytree that is a prefix of `node`, with an entry for each Module or Variable.
      split_fn: a function that returns a pytree for a Module or Variable. Its arguments are a
        context with the method `flatten`, the path, the entry of `prefix`, and the Module or
        Variable. By default it returns `NodeStates`, with a State for each filter in the entry.
      check_aliasing: whether to check that `prefix` has equal entries for all paths to a Variable.
      ctxtag: the tag of an enclosing `update_context`, in which objects keep their identity.

    Returns:
      The pytree with the results of `split_fn` in place of Modules and Variables.

    Raises:
      ArgumentError: two paths to a Variable have different entries, or no enclosing
        `update_context` has the tag.
      TreeError: `prefix` is not a prefix of `node`.

    >>> import gpushard as gs
    >>> from gpushard import nnx
    >>> m = nnx.Module()
    >>> m.rate = nnx.Param(gs.numpy.ones(2))
    >>> pure = nnx.to_tree((m, {"again": m}))
    >>> new, others = nnx.from_tree(pure)
    >>> len(gs.tree.leaves(pure)), others["again"] is new, new is m
    (1, True, False)
    """
    crossing = crossing_of(ctxtag)
    splitter = Splitter(None if crossing is None else crossing.known)
    leaves, structure = graph_leaves(node)
    paths = structure.leaf_paths()
    entries = prefixes(prefix, node, ("prefix", "tree"))
    if check_aliasing and prefix is not None:
        roots = [
            (tree.keystr(path), x, entry)
            for path, x, entry in zip(paths, leaves, entries, strict=True)
            if isinstance(x, Leveled)
        ]
        check_aliases(roots, "prefix")
    context = SplitContext(splitter)
    parts = [
        split_fn(context, path, entry, x) if isinstance(x, Leveled) else x
        for path, x, entry in zip(paths, leaves, entries, strict=True)
    ]
    if crossing is not None and crossing.known is None:
        crossing.outside = splitter.objects
    return structure.unflatten(parts)


def from_tree(
    node: Any,
    /,
    *,
    prefix: Any = None,
    merge_fn: Callable[[MergeContext, Any, Any, Any], Any] = _merge,
    is_inner: bool | None = None,
    ctxtag: Any = None,
) -> Any:
    """Build the Modules and Variables in a pytree that `to_tree` has split.

    Args:
      node: the pytree that `to_tree` returned.
      prefix: a pytree that is a prefix of `node`, with entries for `merge_fn`.
      merge_fn: a function that returns a Module or Variable. Its arguments are a context with the
        method `unflatten`, the path, the entry of `prefix`, and the `NodeStates`.
      is_inner: whether the call is inside the transformed function. If not, `from_tree` updates the
        objects that `to_tree` has split, in place.
      ctxtag: the tag of an enclosing `update_context`, in which objects keep their identity.

    Returns:
      The pytree with Modules and Variables.

    Raises:
      ArgumentError: no enclosing `update_context` has the tag.
    """
    crossing = crossing_of(ctxtag)
    outside: Sequence[Any] = ()
    if crossing is not None and not is_inner:
        outside = crossing.outside or ()
    objects: list[Any] = []
    context = MergeContext(objects, outside)
    leaves, structure = tree.flatten(node, _is_node_states)
    paths = structure.leaf_paths()
    entries: list[Any] = [None] * len(leaves)
    if prefix is not None:
        numbers = structure.unflatten(range(len(leaves)))
        entries = tree.broadcast_prefix(prefix, numbers, lambda x: x is None)
    parts = [
        merge_fn(context, path, entry, x) if type(x) is NodeStates else x
        for path, x, entry in zip(paths, leaves, entries, strict=True)
    ]
    if crossing is not None and is_inner:
        crossing.known = {id(x): n for n, x in enumerate(objects)}
    return structure.unflatten(parts)
