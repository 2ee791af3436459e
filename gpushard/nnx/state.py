"""States: the leaves of a graph in nested mappings that follow its paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Generic

from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.nnx.filters import Filter, predicates
from gpushard.nnx.variable import T, Variable, describe_value, put
from gpushard.tree.node import NODES, DictKey, Node

# fmt: off
__all__ = [
    "State", "filter_state", "from_flat_state", "map_state", "merge_state", "replace_by_pure_dict",
    "split_state", "to_flat_state", "to_pure_dict",
]
# fmt: on


def key_order(key: Any) -> tuple[Any, ...]:
    """Return a sort key for keys of a mapping: positions first, then names, then others."""
    kind = type(key)
    return (0, key) if kind is int else (1, key) if kind is str else (2, kind.__name__, repr(key))


class State(MutableMapping[Any, Any], Generic[T]):
    """A nested mapping of the leaves of a Module by their paths; a pytree.

    Keys are names of attributes, keys of dicts, and positions in lists and tuples. You can read and
    set entries with string keys as attributes, too.

    Args:
      mapping: nested mappings, or pairs of a key and a value. Leaves are Variables, arrays or any
        other values.

    >>> from gpushard import nnx
    >>> s = nnx.State({"layers": {0: {"kernel": 1.0}}})
    >>> s["layers"][0].kernel, s.layers[0]["kernel"]
    (1.0, 1.0)
    """

    __slots__ = ("_items",)

    __hash__ = None  # type: ignore[assignment]

    _items: dict[Any, Any]

    def __init__(self, mapping: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = (), /) -> None:
        put(self, "_items", {key: _as_states(value) for key, value in dict(mapping).items()})

    def __getitem__(self, key: Any) -> Any:
        """Return the leaf or the State at a key."""
        return self._items[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set the leaf or the State at a key."""
        self._items[key] = _as_states(value)

    def __delitem__(self, key: Any) -> None:
        """Remove the leaf or the State at a key."""
        del self._items[key]

    def __getattr__(self, name: str) -> Any:
        if name == "_items" or name not in self._items:
            raise AttributeError(f"State has no {name!r}")
        return self._items[name]

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        if name not in self._items:
            raise AttributeError(f"State has no {name!r}")
        del self[name]

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return the leaf or the State at a key; if the key is missing, set it to the default."""
        return self._items.setdefault(key, _as_states(default))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return self._text("")

    def _text(self, indent: str) -> str:
        if not self._items:
            return "State({})"
        inner = indent + "  "
        lines = [
            f"{inner}{key!r}: {x._text(inner) if isinstance(x, State) else _leaf_text(x)}"
            for key, x in self._items.items()
        ]
        return "State({\n" + ",\n".join(lines) + f"\n{indent}}})"

    def __or__(self, other: State) -> State:
        return merge_state(self, other)

    def __getstate__(self) -> dict[Any, Any]:
        return dict(self._items)

    def __setstate__(self, items: dict[Any, Any]) -> None:
        put(self, "_items", items)

    def flat_state(self) -> list[tuple[tuple[Any, ...], Any]]:
        """List pairs of a path and a leaf; see `to_flat_state`."""
        return to_flat_state(self)

    def filter(self, *filters: Filter) -> Any:
        """Return the leaves that filters select; see `filter_state`."""
        return filter_state(self, *filters)

    def split(self, *filters: Filter) -> Any:
        """Split the leaves by filters; see `split_state`."""
        return split_state(self, *filters)


def _leaf_text(x: Any) -> str:
    return repr(x) if isinstance(x, Variable) else describe_value(x)


def _as_states(value: Any) -> Any:
    return State(value) if isinstance(value, Mapping) and not isinstance(value, State) else value


def _flatten(state: State) -> tuple[list[Any], tuple[Any, ...]]:
    keys = tuple(sorted(state._items, key=key_order))
    return [state._items[key] for key in keys], keys


def _unflatten(cls: Any, keys: Any, children: list[Any]) -> State:
    new = State()
    new._items.update(zip(keys, children, strict=True))
    return new


NODES[State] = Node(
    _flatten,
    _unflatten,
    lambda cls, keys, size: [DictKey(key) for key in keys],
    lambda cls, keys, children: (
        "State({" + ", ".join(f"{k!r}: {c}" for k, c in zip(keys, children, strict=True)) + "})"
    ),
)


def to_flat_state(state: Mapping[Any, Any]) -> list[tuple[tuple[Any, ...], Any]]:
    """List pairs of a path and a leaf, sorted by path.

    Args:
      state: a State, or nested dicts.

    >>> from gpushard import nnx
    >>> nnx.to_flat_state(nnx.State({"b": 2, "a": {"c": 1}}))
    [(('a', 'c'), 1), (('b',), 2)]
    """
    flat: list[tuple[tuple[Any, ...], Any]] = []
    pending: list[tuple[tuple[Any, ...], Any]] = [((), state)]
    while pending:
        path, x = pending.pop()
        if isinstance(x, Mapping):
            keys = sorted(x, key=key_order, reverse=True)
            pending += [((*path, key), x[key]) for key in keys]
        else:
            flat.append((path, x))
    return flat


def from_flat_state(
    flat: Mapping[tuple[Any, ...], Any] | Iterable[tuple[tuple[Any, ...], Any]],
) -> State:
    """Build a State from pairs of a path and a leaf.

    Args:
      flat: the pairs, or a mapping from paths to leaves.

    Raises:
      ArgumentError: a path is empty, or is the beginning of another path, or occurs twice.

    >>> from gpushard import nnx
    >>> nnx.from_flat_state([(("a", "c"), 1)]).a.c
    1
    """
    state = State()
    for path, leaf in flat.items() if isinstance(flat, Mapping) else flat:
        node = state
        for key in path[:-1]:
            node = node._items.setdefault(key, State())
            if not isinstance(node, State):
                break
        if not path or not isinstance(node, State) or isinstance(node.get(path[-1]), State):
            raise ArgumentError(
                f"from_flat_state: {path!r} leads through a leaf, ends at a part of another path, "
                "or is empty; give each leaf its own path",
                argument="flat",
                path=path,
            )
        node._items[path[-1]] = leaf
    return state


def to_pure_dict(state: Mapping[Any, Any]) -> dict[Any, Any]:
    """Convert a State to nested dicts, with the values of Variables in place of Variables.

    Args:
      state: the State.

    >>> from gpushard import nnx
    >>> nnx.to_pure_dict(nnx.State({"a": {"c": nnx.Param(1)}}))
    {'a': {'c': 1}}
    """
    return {
        key: to_pure_dict(x)
        if isinstance(x, Mapping)
        else x.value
        if isinstance(x, Variable)
        else x
        for key, x in state.items()
    }


def replace_by_pure_dict(state: State, pure: Mapping[Any, Any]) -> None:
    """Set values of a State in place from nested dicts; other leaves do not change.

    Args:
      state: the State to change.
      pure: nested dicts of values, as `to_pure_dict` returns them. A key that is a string of digits
        stands for a position, as in files that store keys as text.

    Raises:
      ArgumentError: a key is not in the State, or a dict stands in place of a leaf. Nothing is
        changed then.
    """
    changes: list[tuple[State, Any, Any]] = []

    pending: list[tuple[tuple[Any, ...], Any, Mapping[Any, Any]]] = [((), state, pure)]
    while pending:
        path, node, values = pending.pop()
        for key, value in values.items():
            key = int(key) if isinstance(key, str) and key.isdigit() and key not in node else key
            at = (*path, key)
            if key not in node or isinstance(node[key], State) != isinstance(value, Mapping):
                keys = ", ".join(map(repr, node)) or "none"
                raise ArgumentError(
                    f"replace_by_pure_dict: {at!r} is no leaf of the State; its keys there: {keys}",
                    argument="pure",
                    path=at,
                )
            if isinstance(value, Mapping):
                pending.append((at, node[key], value))
            else:
                changes.append((node, key, value))
    for node, key, value in changes:
        leaf = node[key]
        node[key] = leaf.replace(value) if isinstance(leaf, Variable) else value


def map_state(f: Callable[[tuple[Any, ...], Any], Any], state: State) -> State:
    """Call a function for each leaf of a State, and return a State of the results.

    Args:
      f: the function; its arguments are the path and the leaf.
      state: the State.

    >>> from gpushard import nnx
    >>> nnx.map_state(lambda path, x: x + 1, nnx.State({"a": 1})).a
    2
    """
    return from_flat_state([(path, f(path, leaf)) for path, leaf in to_flat_state(state)])


def filter_state(state: State, *filters: Filter) -> Any:
    """Return the leaves of a State that filters select, one State for each filter.

    Args:
      state: the State.
      *filters: filters, as in `to_predicate`. A leaf goes to the first filter that selects it.

    Returns:
      A State; for several filters a tuple with a State for each.

    Raises:
      ArgumentError: `...` is not the last filter.
    """
    parts = divide_leaves(to_flat_state(state), filters, "filter_state")
    states = tuple([from_flat_state(part) for part in parts[:-1]])
    return states[0] if len(states) == 1 else states


def split_state(state: State, *filters: Filter) -> Any:
    """Split a State into one State for each filter; together, the filters must select all leaves.

    Args:
      state: the State.
      *filters: filters, as in `to_predicate`. A leaf goes to the first filter that selects it.

    Returns:
      A State; for several filters a tuple with a State for each.

    Raises:
      ArgumentError: no filter selects a leaf, or `...` is not the last filter.
    """
    parts = divide_leaves(to_flat_state(state), filters, "split_state")
    check_taken(parts[-1], "split_state")
    states = tuple([from_flat_state(part) for part in parts[:-1]])
    return states[0] if len(states) == 1 else states


def merge_state(state: State, /, *states: State) -> State:
    """Merge States into one State; if several have a path, the leaf of the last one counts.

    Args:
      state: the first State.
      *states: more States.
    """
    flat: dict[tuple[Any, ...], Any] = {}
    for each in (state, *states):
        flat |= to_flat_state(each)
    return from_flat_state(flat)


Flat = list[tuple[tuple[Any, ...], Any]]


def divide_leaves(flat: Flat, filters: tuple[Filter, ...], function: str) -> list[Flat]:
    """Divide leaves by the first filter that takes them; those that none takes come last."""
    wanted = predicates(filters, function)
    parts: list[Flat] = [[] for _ in range(len(wanted) + 1)]
    for path, leaf in flat:
        taken = (n for n, predicate in enumerate(wanted) if predicate(path, leaf))
        parts[next(taken, -1)].append((path, leaf))
    return parts


def check_taken(left: Flat, function: str) -> None:
    """Check that filters have left no leaves.

    Raises:
      ArgumentError: there are leaves that no filter takes; it lists their paths.
    """
    if left:
        paths = ", ".join("/".join(map(str, path)) for path, _ in left[:10])
        more = f" and {len(left) - 10} more" if len(left) > 10 else ""
        raise ArgumentError(
            f"{function}: no filter takes {paths}{more}; add a filter, or ... as the last one",
            argument="filters",
            paths=tuple(path for path, _ in left),
        )


def check_mapping(state: Any, function: str) -> None:
    """Check that an argument is a State or another mapping.

    Raises:
      ArgumentTypeError: it is none.
    """
    if not isinstance(state, Mapping):
        raise ArgumentTypeError.refusing(
            "state", state, "must be a State or nested dicts of leaves", function
        )
