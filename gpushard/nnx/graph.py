"""Functions of graphs: taken apart, put together, updated, searched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, TypeVar

from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.nnx.filters import Filter, predicates
from gpushard.nnx.graphdef import ARRAYS, GraphDef, build, shown_path
from gpushard.nnx.levels import Leveled
from gpushard.nnx.module import Module
from gpushard.nnx.splitter import Part, Splitter
from gpushard.nnx.state import check_mapping, check_taken, divided, from_flat_state, to_flat_state
from gpushard.nnx.variable import Variable, put, shared
from gpushard.nnx.walk import Path, all_paths, children_of, is_container, is_shared, iter_graph

# fmt: off
__all__ = [
    "clone", "find_duplicates", "graphdef", "merge", "pop", "split", "state", "update", "variables",
]
# fmt: on

_T = TypeVar("_T")


def split(node: Any, *filters: Filter) -> tuple[Any, ...]:
    """Take a graph apart: into what is static, and the values of its leaves.

    The States hold Variables of their own over the same arrays: an assignment to one of the graph
    does not show in them, nor the other way round.

    Args:
      node: a Module, a Variable, an array, or a container of these.
      *filters: what each State has; together they take everything. One State without them.

    Returns:
      The GraphDef and a State for each filter. An object that is reached by several paths has one
      leaf, at the first of them, depth first with sorted names.

    Raises:
      ArgumentError: a leaf is taken by no filter, or `...` stands before other filters.
      ArgumentTypeError: node is no graph.

    >>> import gpushard as gs
    >>> from gpushard import nnx
    >>> m = nnx.Module()
    >>> m.kernel, m.mean = nnx.Param(gs.numpy.ones(2)), nnx.BatchStat(gs.numpy.zeros(2))
    >>> graphdef, params, rest = nnx.split(m, nnx.Param, ...)
    >>> list(params), list(rest)
    (['kernel'], ['mean'])
    """
    part = _taken_apart(node, "split")
    parts = divided(_copied(part), filters or (...,), "split")
    check_taken(parts[-1], "split")
    return part.graphdef, *map(state_of, parts[:-1])


def merge(graphdef: GraphDef, state: Any, /, *states: Any) -> Any:
    """Put a graph together of what `split` gave: new objects, shared as they were.

    Args:
      graphdef: what is static.
      state: the values of leaves, or some of them.
      *states: the others, in any order.

    Raises:
      ArgumentError: leaves are missing, or there are some that the graph does not have.
      ArgumentTypeError: graphdef is none, or a state is no mapping.

    >>> import gpushard as gs
    >>> from gpushard import nnx
    >>> m = nnx.Module()
    >>> m.a = m.b = nnx.Param(gs.numpy.ones(2))
    >>> new = nnx.merge(*nnx.split(m))
    >>> new.a is new.b, new.a is m.a
    (True, False)
    """
    if not isinstance(graphdef, GraphDef):
        raise ArgumentTypeError.refusing(
            "graphdef", graphdef, "must be a GraphDef, as nnx.split gives first", "merge"
        )
    flat: dict[Path, Any] = {}
    for each in (state, *states):
        flat |= flat_of(each, graphdef, "merge")
    leaves, metadata = of_graph(graphdef, flat, "merge")
    return build(graphdef, leaves, [], metadata=metadata)


def state_of(flat: list[tuple[Path, Any]]) -> Any:
    """Return the State of some leaves of a graph; the leaf itself if that is all of the graph."""
    return flat[0][1] if flat and not flat[0][0] else from_flat_state(flat)


def flat_of(state: Any, graphdef: GraphDef, function: str) -> dict[Path, Any]:
    """Return the leaves of a state by path, of which `state_of` made it.

    Raises:
      ArgumentTypeError: it is no mapping, and the graph is more than a leaf.
    """
    if graphdef.leaf_paths() == [()] and not isinstance(state, Mapping):
        return {(): state}
    check_mapping(state, function)
    return dict(to_flat_state(state))


def of_graph(
    graphdef: GraphDef, flat: dict[Path, Any], function: str
) -> tuple[list[Any], list[Any]]:
    """Return the leaves of a graph in order, and the metadata of Variables.

    Raises:
      ArgumentError: leaves are missing, or there are some that the graph does not have.
    """
    paths = graphdef.leaf_paths()
    missing = [path for path in paths if path not in flat]
    surplus = sorted(flat.keys() - set(paths), key=repr)
    if missing or surplus:
        said = [
            f"{what} {', '.join('/'.join(map(str, path)) for path in some[:10])}"
            + (f" and {len(some) - 10} more" if len(some) > 10 else "")
            for what, some in (("lack", missing), ("have", surplus))
            if some
        ]
        raise ArgumentError(
            f"{function}: the states {', and '.join(said)}, other than the GraphDef; give each "
            "leaf once",
            argument="state",
            missing=tuple(missing),
            surplus=tuple(surplus),
        )
    leaves, metadata = [], []
    for path, own in zip(paths, graphdef.leaf_metadata(), strict=True):
        x = flat[path]
        if isinstance(x, Variable):
            own = x._metadata if own is not None else None
            x = x._value
        leaves.append(shared(x))
        metadata.append(own)
    return leaves, metadata


def _taken_apart(node: Any, function: str) -> Part:
    if not (isinstance(node, Leveled | ARRAYS) or is_container(node)):
        raise ArgumentTypeError.refusing(
            "node", node, "must be a Module, a Variable, an array or a container of these", function
        )
    return Splitter().split(node)


def _copied(part: Part) -> list[tuple[Path, Any]]:
    """Return path and leaf of each leaf of a graph, as Variables of their own."""
    return [
        (path, shared(value) if x is None else x.copy())
        for path, value, x in zip(
            part.graphdef.leaf_paths(), part.leaves, part.variables, strict=True
        )
    ]


def graphdef(node: Any) -> GraphDef:
    """Return the static half of a graph.

    Args:
      node: a Module, a Variable, an array, or a container of these.

    Raises:
      ArgumentTypeError: node is no graph.
    """
    return _taken_apart(node, "graphdef").graphdef


def state(node: Any, *filters: Filter) -> Any:
    """Return the values of the leaves of a graph, as `split` does, or of some of them.

    Args:
      node: a Module, a Variable, an array, or a container of these.
      *filters: what is wanted; all without them.

    Returns:
      A State; of several filters a tuple of them.

    Raises:
      ArgumentError: `...` stands before other filters.
      ArgumentTypeError: node is no graph.

    >>> import gpushard as gs
    >>> from gpushard import nnx
    >>> m = nnx.Module()
    >>> m.kernel, m.mean = nnx.Param(gs.numpy.ones(2)), nnx.BatchStat(gs.numpy.zeros(2))
    >>> nnx.state(m, nnx.Param)
    State({
      'kernel': Param(float64[2])
    })
    """
    parts = divided(_copied(_taken_apart(node, "state")), filters or (...,), "state")
    return _several(parts[:-1])


def _several(parts: list[Any]) -> Any:
    states = tuple(map(state_of, parts))
    return states[0] if len(states) == 1 else states


def variables(node: Any, *filters: Filter) -> Any:
    """Return the Variables of a graph themselves, by path.

    Args:
      node: a Module, a Variable, an array, or a container of these.
      *filters: what is wanted; all without them.

    Returns:
      A State; of several filters a tuple of them.

    Raises:
      ArgumentError: `...` stands before other filters.
      ArgumentTypeError: node is no graph.
    """
    part = _taken_apart(node, "variables")
    own = zip(part.graphdef.leaf_paths(), part.variables, strict=True)
    flat = [(path, x) for path, x in own if x is not None]
    return _several(divided(flat, filters or (...,), "variables")[:-1])


def clone(node: _T) -> _T:
    """Return a graph of new objects, shared as those are, over the same arrays.

    Args:
      node: a Module, a Variable, or a container of these.
    """
    part = Splitter().split(node)
    new: _T = build(part.graphdef, list(map(shared, part.leaves)), [])
    return new


def update(node: Any, state: Any, /, *states: Any) -> None:
    """Set leaves of a graph, which stays the same objects.

    Args:
      node: a Module, a Variable, an array, or a container of these.
      state: a State, or nested dicts, of Variables or values; names that the graph does not have
        are added.
      *states: others; the last one's value counts.

    Raises:
      ArgumentError: a leaf stands where the graph has a part with leaves of its own, or the other
        way round, or a tuple or list lacks a position; then nothing is changed.
      ArgumentTypeError: node is no graph, or a state is no mapping.
      TraceContextError: node was made outside of the function that is traced or mapped here.

    >>> import gpushard as gs
    >>> from gpushard import nnx
    >>> m = nnx.Module()
    >>> m.rate = nnx.Param(gs.numpy.ones(2))
    >>> nnx.update(m, {"rate": gs.numpy.zeros(2)})
    >>> m.rate.value
    Array([0., 0.], dtype=float64)
    """
    _taken_apart(node, "update")
    changes: list[Callable[[], None]] = []
    for each in (state, *states):
        if isinstance(node, Variable):
            _update_variable(node, each, (), changes)
        else:
            check_mapping(each, "update")
            _update(node, each, (), changes)
    for change in changes:
        change()


def _update(
    node: Any, state: Mapping[Any, Any], path: Path, changes: list[Any], owner: Any = None
) -> None:
    """Add to a list what brings a node up to date.

    Args:
      node: a node.
      state: what its leaves are to hold.
      path: where the node is.
      changes: the list.
      owner: the Module that has the node, if it is none itself.
    """
    owner = node if isinstance(node, Module) else owner
    items: Any = vars(node) if isinstance(node, Module) else node
    parts = dict(children_of(node))
    for key, value in state.items():
        at = (*path, key)
        nested = isinstance(value, Mapping)
        own = parts.get(key)
        if key not in parts:
            if not (_grows(items) or (isinstance(items, list) and key == len(items))):
                raise _mismatch(at, f"the {type(items).__name__} has {len(parts)} elements")
            _check_owner(owner, key)
            changes.append(lambda key=key, value=value: _add(items, key, _new(value)))
        elif isinstance(own, Variable):
            _update_variable(own, value, at, changes)
        elif isinstance(own, Module) or is_container(own):
            if not nested:
                raise _mismatch(at, f"the graph has a {type(own).__name__} there, not a leaf")
            _update(own, value, at, changes, owner)
        elif nested:
            raise _mismatch(at, f"the graph has a {type(own).__name__} there")
        elif not (_grows(items) or isinstance(items, list)):
            kind = type(items).__name__
            raise _mismatch(at, f"that is an element of a {kind}; use a Variable in it")
        else:
            _check_owner(owner, key)
            new = shared(_bare(value)) if isinstance(own, ARRAYS) else _new(value)
            changes.append(lambda key=key, new=new: items.__setitem__(key, new))


def _update_variable(own: Variable, value: Any, path: Path, changes: list[Any]) -> None:
    """Add to a list what sets a Variable."""
    if isinstance(value, Mapping):
        raise _mismatch(path, f"the graph has a {type(own).__name__} there")
    own._check_level("an assignment to the value")
    changes.append(lambda: _take(own, value))


def _grows(items: Any) -> bool:
    """Whether children may be added to a node, and removed from it, by key."""
    return isinstance(items, MutableMapping)


def _check_owner(owner: Any, key: Any) -> None:
    if owner is not None:
        owner._check_level(f"an assignment to {key!r}")


def _mismatch(path: Path, why: str) -> ArgumentError:
    where = shown_path(path) or "the root"
    return ArgumentError(
        f"update: the state does not fit at {where}: {why}; give nested mappings for nodes and "
        "values for leaves",
        argument="state",
        path=path,
    )


def _bare(x: Any) -> Any:
    return x._value if isinstance(x, Variable) else x


def _take(own: Variable, value: Any) -> None:
    if isinstance(value, Variable):
        put(own, "_metadata", value._metadata)
    put(own, "_value", shared(_bare(value)))


def _add(items: Any, key: Any, value: Any) -> None:
    if isinstance(items, list) and key == len(items):
        items.append(value)
    else:
        items[key] = value


def _new(value: Any) -> Any:
    """Return what is added to a graph for a leaf or a mapping of leaves."""
    if isinstance(value, Variable):
        return value.copy()
    if isinstance(value, Mapping):
        return {key: _new(part) for key, part in value.items()}
    return shared(value)


def pop(node: Any, *filters: Filter) -> Any:
    """Remove leaves from a graph, wherever it refers to them, and return them.

    Args:
      node: a Module, or a container of Modules and Variables.
      *filters: what is removed.

    Returns:
      A State; of several filters a tuple of them. A leaf that several paths reach has the first of
      them that a filter takes.

    Raises:
      ArgumentError: there is no filter, `...` stands before other filters, or a leaf is an element
        of a tuple; then nothing is changed.
      ArgumentTypeError: node is no graph.
      TraceContextError: node was made outside of the function that is traced or mapped here.

    >>> import gpushard as gs
    >>> from gpushard import nnx
    >>> m = nnx.Module()
    >>> m.seen = nnx.Intermediate(gs.numpy.ones(2))
    >>> nnx.pop(m, nnx.Intermediate).seen.shape, hasattr(m, "seen")
    ((2,), False)
    """
    if not filters:
        raise ArgumentError("pop: no filter says what; give ... for everything", argument="filters")
    if isinstance(node, Variable | ARRAYS):
        raise ArgumentTypeError.refusing("node", node, "is what would be removed", "pop")
    _taken_apart(node, "pop")
    taken, popped = _first_paths(node, predicates(filters, "pop"))
    removed: list[tuple[Any, Any]] = []
    for path, x in iter_graph(node):
        for key, child in children_of(x):
            if _place_of(child, x, key) not in taken:
                continue
            if not (isinstance(x, Module | list) or _grows(x)):
                raise ArgumentError(
                    f"pop: {shown_path((*path, key))} is an element of a {type(x).__name__}, "
                    "which has a fixed length; use a list",
                    argument="filters",
                    path=(*path, key),
                )
            if isinstance(x, Module):
                x._check_level(f"the deletion of {key!r}")
            removed.append((x, key))
    for x, key in reversed(removed):
        del (vars(x) if isinstance(x, Module) else x)[key]
    if isinstance(node, Module):
        put(node, "_nnx_plan", None)  # which keeps what was removed
    return _several(popped)


def _place_of(x: Any, parent: Any, key: Any) -> Any:
    """Return what a leaf is known by: a Variable itself, an array by what has it."""
    return id(x) if isinstance(x, Variable) else (id(parent), key)


def _first_paths(node: Any, wanted: Sequence[Any]) -> tuple[set[Any], list[Any]]:
    """Return the leaves that predicates take, and for each predicate its leaves by path.

    A leaf goes by the first of its paths that a predicate takes.
    """
    taken: set[Any] = set()
    parts: list[list[tuple[Path, Any]]] = [[] for _ in wanted]
    for path, x, parent in all_paths(node):
        if isinstance(x, Variable | ARRAYS) and (place := _place_of(x, parent, path[-1])):
            number = next((n for n, takes in enumerate(wanted) if takes(path, x)), None)
            if number is not None and place not in taken:
                taken.add(place)
                parts[number].append((path, x))
    return taken, parts


def find_duplicates(node: Any, /) -> list[list[Path]]:
    """Return, for each object that a graph refers to more than once, all paths to it.

    Args:
      node: a Module, a Variable, an array, or a container of these.

    >>> from gpushard import nnx
    >>> m = nnx.Module()
    >>> m.a = m.b = nnx.Param(1.0)
    >>> nnx.find_duplicates(m)
    [[('a',), ('b',)]]
    """
    paths: dict[int, list[Path]] = {}
    pending: list[tuple[Path, Any]] = [((), node)]
    while pending:
        path, x = pending.pop()
        if is_shared(x):
            known = paths.setdefault(id(x), [])
            known.append(path)
            if len(known) > 1:
                continue
        pending += [((*path, key), child) for key, child in reversed(children_of(x))]
    return [each for each in paths.values() if len(each) > 1]
