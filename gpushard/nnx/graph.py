"""Split, merge, update and search graphs of modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, TypeVar

from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.nnx.filters import Filter, predicates
from gpushard.nnx.graphdef import ARRAYS, GraphDef, build, path_text
from gpushard.nnx.levels import Leveled
from gpushard.nnx.module import Module
from gpushard.nnx.splitter import Part, Splitter
from gpushard.nnx.state import (
    check_mapping,
    check_taken,
    divide_leaves,
    from_flat_state,
    to_flat_state,
)
from gpushard.nnx.variable import Variable, copy_value, put
from gpushard.nnx.walk import Path, all_paths, children_of, is_container, is_shared, iter_graph

# fmt: off
__all__ = [
    "clone", "find_duplicates", "graphdef", "merge", "pop", "split", "state", "update", "variables",
]
# fmt: on

_T = TypeVar("_T")


def split(node: Any, *filters: Filter) -> tuple[Any, ...]:
    """Split a Module into its static part, a GraphDef, and the values of its leaves, a State.

    The State has new Variables with the same arrays. If you assign to a Variable of the Module, the
    State does not change, and vice versa.

    Args:
      node: a graph: a Module, a Variable, an array, or a container of these.
      *filters: a filter for each State; each leaf goes into the State of the first filter that
        selects it. Together they must select all leaves. Without filters there is one State.

    Returns:
      A tuple of the GraphDef and a State for each filter. If several paths lead to an object, it is
      one leaf, at the first of these paths: depth first, with names in sorted order.

    Raises:
      ArgumentError: no filter selects a leaf, or `...` is not the last filter.
      ArgumentTypeError: `node` is not a graph.

    >>> import gpushard as gs
    >>> from gpushard import nnx
    >>> m = nnx.Module()
    >>> m.kernel, m.mean = nnx.Param(gs.numpy.ones(2)), nnx.BatchStat(gs.numpy.zeros(2))
    >>> graphdef, params, rest = nnx.split(m, nnx.Param, ...)
    >>> list(params), list(rest)
    (['kernel'], ['mean'])
    """
    part = _take_apart(node, "split")
    parts = divide_leaves(_copy_leaves(part), filters or (...,), "split")
    check_taken(parts[-1], "split")
    return part.graphdef, *map(state_of, parts[:-1])


def merge(graphdef: GraphDef, state: Any, /, *states: Any) -> Any:
    """Build a new Module from a GraphDef and States; the inverse of `split`.

    Objects that were shared in the split Module are shared in the new one.

    Args:
      graphdef: the GraphDef.
      state: a State with all leaves, or with some of the leaves.
      *states: States with the other leaves, in any order.

    Raises:
      ArgumentError: leaves are missing, or the States have leaves that the graph does not have.
      ArgumentTypeError: `graphdef` is not a GraphDef, or a state is not a mapping.

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
            "graphdef", graphdef, "must be a GraphDef, the first result of nnx.split", "merge"
        )
    flat: dict[Path, Any] = {}
    for each in (state, *states):
        flat |= leaves_by_path(each, graphdef, "merge")
    leaves, metadata = leaves_in_order(graphdef, flat, "merge")
    return build(graphdef, leaves, [], metadata=metadata)


def state_of(flat: list[tuple[Path, Any]]) -> Any:
    """Build the State of some leaves; the leaf itself if the graph is a single leaf."""
    return flat[0][1] if flat and not flat[0][0] else from_flat_state(flat)


def leaves_by_path(state: Any, graphdef: GraphDef, function: str) -> dict[Path, Any]:
    """Return the leaves of a state by path; the inverse of `state_of`.

    Raises:
      ArgumentTypeError: the state is no mapping, and the graph is more than a leaf.
    """
    if graphdef.leaf_paths() == [()] and not isinstance(state, Mapping):
        return {(): state}
    check_mapping(state, function)
    return dict(to_flat_state(state))


def leaves_in_order(
    graphdef: GraphDef, flat: dict[Path, Any], function: str
) -> tuple[list[Any], list[Any]]:
    """Put leaves in the order of a graph; return them and the metadata of Variables.

    Raises:
      ArgumentError: leaves are missing, or the graph does not have some.
    """
    paths = graphdef.leaf_paths()
    missing = [path for path in paths if path not in flat]
    surplus = sorted(flat.keys() - set(paths), key=repr)
    if missing or surplus:
        problems = [
            f"{what} {', '.join('/'.join(map(str, path)) for path in some[:10])}"
            + (f" and {len(some) - 10} more" if len(some) > 10 else "")
            for what, some in (("lack", missing), ("have", surplus))
            if some
        ]
        raise ArgumentError(
            f"{function}: the states {', and '.join(problems)}, unlike the GraphDef; give each "
            "leaf of the graph once",
            argument="state",
            missing=tuple(missing),
            surplus=tuple(surplus),
        )
    leaves, metadata = [], []
    for path, known in zip(paths, graphdef.leaf_metadata(), strict=True):
        x = flat[path]
        if isinstance(x, Variable):
            known = x._metadata if known is not None else None
            x = x._value
        leaves.append(copy_value(x))
        metadata.append(known)
    return leaves, metadata


def _take_apart(node: Any, function: str) -> Part:
    """Split a graph without copying; the argument of a public function."""
    if not (isinstance(node, Leveled | ARRAYS) or is_container(node)):
        raise ArgumentTypeError.refusing(
            "node", node, "must be a Module, a Variable, an array or a container of these", function
        )
    return Splitter().split(node)


def _copy_leaves(part: Part) -> list[tuple[Path, Any]]:
    """Copy the leaves of a graph, with their paths; Variables become new ones."""
    return [
        (path, copy_value(value) if x is None else x.copy())
        for path, value, x in zip(
            part.graphdef.leaf_paths(), part.leaves, part.variables, strict=True
        )
    ]


def graphdef(node: Any) -> GraphDef:
    """Return the static part of a Module: all of it except the values of its leaves.

    Args:
      node: a Module, a Variable, an array, or a container of these.

    Raises:
      ArgumentTypeError: `node` is no graph.
    """
    return _take_apart(node, "graphdef").graphdef


def state(node: Any, *filters: Filter) -> Any:
    """Return the leaves of a Module, or the leaves that filters select, as new Variables.

    Args:
      node: a graph: a Module, a Variable, an array, or a container of these.
      *filters: filters of the leaves to return; without filters all leaves are returned.

    Returns:
      A State; for several filters a tuple with a State for each.

    Raises:
      ArgumentError: `...` is not the last filter.
      ArgumentTypeError: `node` is not a graph.

    >>> import gpushard as gs
    >>> from gpushard import nnx
    >>> m = nnx.Module()
    >>> m.kernel, m.mean = nnx.Param(gs.numpy.ones(2)), nnx.BatchStat(gs.numpy.zeros(2))
    >>> nnx.state(m, nnx.Param)
    State({
      'kernel': Param(float64[2])
    })
    """
    parts = divide_leaves(_copy_leaves(_take_apart(node, "state")), filters or (...,), "state")
    return _one_or_several(parts[:-1])


def _one_or_several(parts: list[Any]) -> Any:
    states = tuple(map(state_of, parts))
    return states[0] if len(states) == 1 else states


def variables(node: Any, *filters: Filter) -> Any:
    """Return the Variables of a Module by path, not copies of them.

    Args:
      node: a graph: a Module, a Variable, an array, or a container of these.
      *filters: filters of the Variables to return; without filters all Variables are returned.

    Returns:
      A State; for several filters a tuple with a State for each.

    Raises:
      ArgumentError: `...` is not the last filter.
      ArgumentTypeError: `node` is not a graph.
    """
    part = _take_apart(node, "variables")
    leaves = zip(part.graphdef.leaf_paths(), part.variables, strict=True)
    flat = [(path, x) for path, x in leaves if x is not None]
    return _one_or_several(divide_leaves(flat, filters or (...,), "variables")[:-1])


def clone(node: _T) -> _T:
    """Create a copy of a graph, with new objects and the same arrays; shared objects stay shared.

    Args:
      node: a graph: a Module, a Variable, or a container of these.
    """
    part = Splitter().split(node)
    new: _T = build(part.graphdef, list(map(copy_value, part.leaves)), [])
    return new


def update(node: Any, state: Any, /, *states: Any) -> None:
    """Replace leaves of a Module in place; leaves that are not in the states do not change.

    Args:
      node: a graph: a Module, a Variable, an array, or a container of these.
      state: the new leaves: a State or nested dicts of Variables or values. Attributes that the
        Module does not have are added.
      *states: more states; if several have a leaf, the last one counts.

    Raises:
      ArgumentError: a state has a leaf where the graph has a Module or a container, or the reverse.
        Or a tuple or list does not have a position. Nothing is changed then.
      ArgumentTypeError: `node` is not a graph, or a state is not a mapping.
      TraceContextError: `node` was created outside the traced or mapped function that makes this
        call.

    >>> import gpushard as gs
    >>> from gpushard import nnx
    >>> m = nnx.Module()
    >>> m.rate = nnx.Param(gs.numpy.ones(2))
    >>> nnx.update(m, {"rate": gs.numpy.zeros(2)})
    >>> m.rate.value
    Array([0., 0.], dtype=float64)
    """
    _take_apart(node, "update")
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
    """Check a state for a node, and append the changes that it makes.

    Args:
      node: a node.
      state: new values of its leaves.
      path: the path of the node, for errors.
      changes: the list of changes.
      owner: the Module that has the node, if the node is no Module.
    """
    owner = node if isinstance(node, Module) else owner
    items: Any = vars(node) if isinstance(node, Module) else node
    parts = dict(children_of(node))
    for key, value in state.items():
        at = (*path, key)
        nested = isinstance(value, Mapping)
        child = parts.get(key)
        if key not in parts:
            if not (_grows(items) or (isinstance(items, list) and key == len(items))):
                raise _mismatch(at, f"the {type(items).__name__} has {len(parts)} elements")
            _check_owner(owner, key)
            changes.append(lambda key=key, value=value: _add(items, key, _new(value)))
        elif isinstance(child, Variable):
            _update_variable(child, value, at, changes)
        elif isinstance(child, Module) or is_container(child):
            if not nested:
                raise _mismatch(at, f"the graph has a {type(child).__name__} there, not a leaf")
            _update(child, value, at, changes, owner)
        elif nested:
            raise _mismatch(at, f"the graph has a {type(child).__name__} there")
        elif not (_grows(items) or isinstance(items, list)):
            kind = type(items).__name__
            raise _mismatch(at, f"that is an element of a {kind}; use a Variable in it")
        else:
            _check_owner(owner, key)
            new = copy_value(_bare(value)) if isinstance(child, ARRAYS) else _new(value)
            changes.append(lambda key=key, new=new: items.__setitem__(key, new))


def _update_variable(variable: Variable, value: Any, path: Path, changes: list[Any]) -> None:
    """Check a value for a Variable, and append the assignment to the changes."""
    if isinstance(value, Mapping):
        raise _mismatch(path, f"the graph has a {type(variable).__name__} there")
    variable._check_level("an assignment to the value")
    changes.append(lambda: _assign(variable, value))


def _grows(items: Any) -> bool:
    """Whether children can be added to a node and removed from it by key."""
    return isinstance(items, MutableMapping)


def _check_owner(owner: Any, key: Any) -> None:
    if owner is not None:
        owner._check_level(f"an assignment to {key!r}")


def _mismatch(path: Path, why: str) -> ArgumentError:
    where = path_text(path) or "the root"
    return ArgumentError(
        f"update: the state does not fit at {where}: {why}; give nested mappings for nodes and "
        "values for leaves",
        argument="state",
        path=path,
    )


def _bare(x: Any) -> Any:
    return x._value if isinstance(x, Variable) else x


def _assign(variable: Variable, value: Any) -> None:
    if isinstance(value, Variable):
        put(variable, "_metadata", value._metadata)
    put(variable, "_value", copy_value(_bare(value)))


def _add(items: Any, key: Any, value: Any) -> None:
    if isinstance(items, list) and key == len(items):
        items.append(value)
    else:
        items[key] = value


def _new(value: Any) -> Any:
    """Copy a leaf, or a mapping of leaves, for a graph that lacks it."""
    if isinstance(value, Variable):
        return value.copy()
    if isinstance(value, Mapping):
        return {key: _new(part) for key, part in value.items()}
    return copy_value(value)


def pop(node: Any, *filters: Filter) -> Any:
    """Remove leaves from a Module, at all of their paths, and return them.

    Args:
      node: a Module, or a container of Modules and Variables.
      *filters: filters of the leaves to remove.

    Returns:
      A State; for several filters a tuple with a State for each. If several paths lead to a leaf,
      it is at the first path that a filter selects.

    Raises:
      ArgumentError: there is no filter, `...` is not the last filter, or a leaf is an element of a
        tuple. Nothing is changed then.
      ArgumentTypeError: `node` is not a graph.
      TraceContextError: `node` was created outside the traced or mapped function that makes this
        call.

    >>> import gpushard as gs
    >>> from gpushard import nnx
    >>> m = nnx.Module()
    >>> m.seen = nnx.Intermediate(gs.numpy.ones(2))
    >>> nnx.pop(m, nnx.Intermediate).seen.shape, hasattr(m, "seen")
    ((2,), False)
    """
    if not filters:
        raise ArgumentError(
            "pop: there is no filter; give the leaves to remove, or ... for all", argument="filters"
        )
    if isinstance(node, Variable | ARRAYS):
        raise ArgumentTypeError.refusing(
            "node",
            node,
            "is itself a leaf, which would be removed; give the Module that has it",
            "pop",
        )
    _take_apart(node, "pop")
    taken, popped = _first_paths(node, predicates(filters, "pop"))
    removed: list[tuple[Any, Any]] = []
    for path, x in iter_graph(node):
        for key, child in children_of(x):
            if _place_of(child, x, key) not in taken:
                continue
            if not (isinstance(x, Module | list) or _grows(x)):
                raise ArgumentError(
                    f"pop: {path_text((*path, key))} is an element of a {type(x).__name__}, "
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
        put(node, "_nnx_recipe", None)  # it would keep the removed leaves alive
    return _one_or_several(popped)


def _place_of(x: Any, parent: Any, key: Any) -> Any:
    """Identify a leaf: a Variable by itself, an array by the node and the key that have it."""
    return id(x) if isinstance(x, Variable) else (id(parent), key)


def _first_paths(node: Any, wanted: Sequence[Any]) -> tuple[set[Any], list[Any]]:
    """Find the leaves that predicates take, and list for each predicate its leaves with paths.

    A leaf has the first path that a predicate takes.
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
    """List all paths to each object to which a Module refers more than once.

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
