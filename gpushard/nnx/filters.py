"""Filters: select leaves of a graph by type, tag, path or any condition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import TypeAlias

from gpushard._frozen import dataclass
from gpushard.errors import ArgumentError, ArgumentTypeError

# fmt: off
__all__ = [
    "All", "Any", "Everything", "Filter", "Not", "Nothing", "OfType", "PathContains", "PathIn",
    "WithTag", "to_predicate",
]
# fmt: on

Path: TypeAlias = tuple[object, ...]
Predicate: TypeAlias = Callable[[Path, object], bool]

Filter: TypeAlias = object
"""A type, a tag, or a function of path and leaf. `...` or True take all leaves, None or False none.
A list or tuple of filters takes the leaves that any of them takes."""


def to_predicate(filter: Filter) -> Predicate:
    """Convert a filter to a function of a path and a leaf: whether the filter selects the leaf.

    Args:
      filter: a type selects leaves of that type, and a string leaves with that `tag`. `...` and
        True select all leaves, None and False select none. A list or tuple of filters selects the
        leaves that any of them selects. A function of a path and a leaf is returned unchanged.

    Raises:
      ArgumentTypeError: the filter has another type.

    >>> import gpushard as gs
    >>> is_param = gs.nnx.to_predicate(gs.nnx.Param)
    >>> is_param(("kernel",), gs.nnx.Param(1.0)), is_param(("mean",), gs.nnx.BatchStat(1.0))
    (True, False)
    """
    if isinstance(filter, bool | EllipsisType | None):
        return Everything() if filter else Nothing()
    if isinstance(filter, str):
        return WithTag(filter)
    if isinstance(filter, type):
        return OfType(filter)
    if isinstance(filter, list | tuple):
        return Any(*filter)
    if callable(filter):
        return filter
    raise ArgumentTypeError.refusing(
        "filter",
        filter,
        "is no filter; use a type, a tag, ..., None, or a function of path and leaf",
    )


def predicates(filters: Sequence[Filter], function: str) -> list[Predicate]:
    """Convert filters that are tried one after the other to functions.

    Raises:
      ArgumentError: a filter that takes everything stands before others.
    """
    functions = [to_predicate(filter) for filter in filters]
    for number, each in enumerate(functions[:-1]):
        if isinstance(each, Everything) and not all(
            isinstance(other, Everything) for other in functions[number + 1 :]
        ):
            raise ArgumentError(
                f"{function}: `...` stands before other filters, as number {number} of "
                f"{len(functions)}, and leaves nothing for them; put it last",
                argument="filters",
                number=number,
            )
    return functions


class _Composed:
    """Base of filters that combine other filters."""

    __slots__ = ("predicates",)

    def __init__(self, *filters: Filter) -> None:
        self.predicates = tuple(map(to_predicate, filters))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.predicates == other.predicates

    def __hash__(self) -> int:
        return hash((type(self), self.predicates))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.predicates))})"


class All(_Composed):
    """A filter that selects a leaf if all of the given filters select it.

    Args:
      *filters: the filters.
    """

    def __call__(self, path: Path, leaf: object) -> bool:
        """Return whether the filter takes a leaf."""
        return all(each(path, leaf) for each in self.predicates)


class Any(_Composed):
    """A filter that selects a leaf if at least one of the given filters selects it.

    Args:
      *filters: the filters.
    """

    def __call__(self, path: Path, leaf: object) -> bool:
        """Return whether the filter takes a leaf."""
        return any(each(path, leaf) for each in self.predicates)


class Not(_Composed):
    """A filter that selects the leaves that another filter does not select.

    Args:
      filter: the filter.
    """

    def __init__(self, filter: Filter, /) -> None:
        super().__init__(filter)

    def __call__(self, path: Path, leaf: object) -> bool:
        """Return whether the filter takes a leaf."""
        return not self.predicates[0](path, leaf)


@dataclass(frozen=True)
class OfType:
    """A filter that selects leaves of a type.

    Args:
      type: the type.
    """

    type: type

    def __call__(self, path: Path, leaf: object) -> bool:
        """Return whether the filter takes a leaf."""
        return isinstance(leaf, self.type)


@dataclass(frozen=True)
class WithTag:
    """A filter that selects leaves with a `tag`, an entry of their metadata.

    Args:
      tag: the tag, a string.
    """

    tag: str

    def __call__(self, path: Path, leaf: object) -> bool:
        """Return whether the filter takes a leaf."""
        return bool(getattr(leaf, "tag", None) == self.tag)


@dataclass(frozen=True)
class PathContains:
    """A filter that selects leaves with a key in their path.

    Args:
      key: the name of an attribute, a key of a dict, or a position in a list or tuple.
      exact: whether a step of the path must equal the key. If False, it is enough that the text of
        a step contains the text of the key.
    """

    key: object
    exact: bool = True

    def __call__(self, path: Path, leaf: object) -> bool:
        """Return whether the filter takes a leaf."""
        if self.exact:
            return self.key in path
        return any(str(self.key) in str(step) for step in path)


class PathIn:
    """A filter that selects the leaves at given paths.

    Args:
      *paths: the paths: tuples of names of attributes, keys of dicts, and positions in lists and
        tuples.
    """

    __slots__ = ("paths",)

    def __init__(self, *paths: Path) -> None:
        self.paths = frozenset(map(tuple, paths))

    def __call__(self, path: Path, leaf: object) -> bool:
        """Return whether the filter takes a leaf."""
        return path in self.paths

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PathIn) and self.paths == other.paths

    def __hash__(self) -> int:
        return hash((PathIn, self.paths))

    def __repr__(self) -> str:
        return f"PathIn({', '.join(map(repr, sorted(self.paths, key=repr)))})"


class Everything(_Composed):
    """A filter that selects all leaves."""

    def __init__(self) -> None:
        super().__init__()

    def __call__(self, path: Path, leaf: object) -> bool:
        """Return whether the filter takes a leaf."""
        return True


class Nothing(_Composed):
    """A filter that selects no leaves."""

    def __init__(self) -> None:
        super().__init__()

    def __call__(self, path: Path, leaf: object) -> bool:
        """Return whether the filter takes a leaf."""
        return False
