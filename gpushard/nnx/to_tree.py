"""Graphs as pytrees, for transforms that others write: `to_tree`, `from_tree` and their context."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from gpushard import tree
from gpushard.errors import ArgumentError
from gpushard.nnx.boundary import NodeStates, graph_leaves
from gpushard.nnx.filters import Filter
from gpushard.nnx.graph import state_of
from gpushard.nnx.graphdef import GraphDef, build
from gpushard.nnx.levels import Leveled
from gpushard.nnx.places import check_aliases, prefixes
from gpushard.nnx.splitter import Splitter
from gpushard.nnx.state import check_taken, divided

__all__ = ["from_tree", "to_tree", "update_context"]


class SplitContext:
    """Takes the graphs of one call apart; what `split_fn` of `to_tree` gets."""

    def __init__(self, splitter: Splitter) -> None:
        self._splitter = splitter

    def flatten(self, node: Any, *filters: Filter) -> tuple[Any, ...]:
        """Return the GraphDef of a graph, and a State for each filter, as `split` does.

        Objects that graphs before it have are no leaves of it.
        """
        part = self._splitter.split(node)
        boxes = part.graphdef.boxed(part.leaves)
        flat = list(zip(part.graphdef.leaf_paths(), boxes, strict=True))
        parts = divided(flat, filters or (...,), "flatten")
        check_taken(parts[-1], "flatten")
        return part.graphdef, *map(state_of, parts[:-1])


class MergeContext:
    """Puts the graphs of one call together; what `merge_fn` of `from_tree` gets."""

    def __init__(self, objects: list[Any], outside: Sequence[Any]) -> None:
        self._objects = objects
        self._outside = outside

    def unflatten(self, graphdef: GraphDef, *states: Any) -> Any:
        """Return the graph of a GraphDef and States, as `merge` does."""
        states_ = NodeStates(graphdef, states)
        return build(graphdef, states_.leaves, self._objects, self._outside)


class _Crossing:
    """What `to_tree` and `from_tree` know of one call."""

    __slots__ = ("known", "outside")

    def __init__(self) -> None:
        self.outside: list[Any] | None = None
        self.known: dict[int, int] | None = None


_crossings: ContextVar[dict[Any, _Crossing] | None] = ContextVar("update contexts", default=None)


@contextmanager
def update_context(tag: Any) -> Iterator[None]:
    """Have `to_tree` and `from_tree` with a tag speak of the same objects within a block.

    Args:
      tag: anything that can be hashed.
    """
    token = _crossings.set({**(_crossings.get() or {}), tag: _Crossing()})
    try:
        yield
    finally:
        _crossings.reset(token)


def _crossing(tag: Any) -> _Crossing | None:
    if tag is None:
        return None
    found = (_crossings.get() or {}).get(tag)
    if found is None:
        raise ArgumentError(
            f"ctxtag={tag!r} is not that of an update_context around; call it within one",
            argument="ctxtag",
        )
    return found


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
    """Return a pytree with its graphs taken apart, as what can be an argument of a transform.

    Args:
      node: the pytree, whose Modules and Variables may share objects.
      prefix: a prefix of it, which says something of each graph.
      split_fn: takes a context with `flatten`, a path, what the prefix says and a graph, and gives
        a pytree; by default `NodeStates`, in as many States as the prefix has filters.
      check_aliasing: whether all paths to a Variable must say the same of it.
      ctxtag: the tag of an `update_context`, within which objects keep their identity.

    Returns:
      The pytree.

    Raises:
      ArgumentError: two paths to a Variable say different things.
      TreeError: prefix is none.

    >>> import gpushard as gs
    >>> from gpushard import nnx
    >>> m = nnx.Module()
    >>> m.rate = nnx.Param(gs.numpy.ones(2))
    >>> pure = nnx.to_tree((m, {"again": m}))
    >>> new, others = nnx.from_tree(pure)
    >>> len(gs.tree.leaves(pure)), others["again"] is new, new is m
    (1, True, False)
    """
    crossing = _crossing(ctxtag)
    splitter = Splitter(None if crossing is None else crossing.known)
    leaves, structure = graph_leaves(node)
    paths = structure.leaf_paths()
    said = prefixes(prefix, node, ("prefix", "tree"))
    if check_aliasing and prefix is not None:
        roots = [
            (tree.keystr(path), x, own)
            for path, x, own in zip(paths, leaves, said, strict=True)
            if isinstance(x, Leveled)
        ]
        check_aliases(roots, "prefix")
    context = SplitContext(splitter)
    made = [
        split_fn(context, path, own, x) if isinstance(x, Leveled) else x
        for path, x, own in zip(paths, leaves, said, strict=True)
    ]
    if crossing is not None and crossing.known is None:
        crossing.outside = splitter.objects
    return structure.unflatten(made)


def from_tree(
    node: Any,
    /,
    *,
    prefix: Any = None,
    merge_fn: Callable[[MergeContext, Any, Any, Any], Any] = _merge,
    is_inner: bool | None = None,
    ctxtag: Any = None,
) -> Any:
    """Return a pytree with graphs put together that `to_tree` took apart.

    Args:
      node: the pytree.
      prefix: a prefix of it, for `merge_fn`.
      merge_fn: takes a context with `unflatten`, a path, what the prefix says and `NodeStates`, and
        gives a graph.
      is_inner: whether this is in the function that is transformed; else objects that were there
        when `to_tree` was called are brought up to date.
      ctxtag: the tag of an `update_context`, within which objects keep their identity.

    Returns:
      The pytree.

    Raises:
      ArgumentError: there is no such context.
    """
    crossing = _crossing(ctxtag)
    outside: Sequence[Any] = ()
    if crossing is not None and not is_inner:
        outside = crossing.outside or ()
    objects: list[Any] = []
    context = MergeContext(objects, outside)
    leaves, structure = tree.flatten(node, _is_node_states)
    paths = structure.leaf_paths()
    said: list[Any] = [None] * len(leaves)
    if prefix is not None:
        numbers = structure.unflatten(range(len(leaves)))
        said = tree.broadcast_prefix(prefix, numbers, lambda x: x is None)
    made = [
        merge_fn(context, path, own, x) if type(x) is NodeStates else x
        for path, x, own in zip(paths, leaves, said, strict=True)
    ]
    if crossing is not None and is_inner:
        crossing.known = {id(x): n for n, x in enumerate(objects)}
    return structure.unflatten(made)
