"""Shardings for the state of a module, by filters: `StateSharding`, a leaf of prefix pytrees."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping
from typing import Any

from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.nnx.filters import Filter, PathIn, predicates
from gpushard.nnx.graphdef import path_text
from gpushard.nnx.state import State, to_flat_state
from gpushard.nnx.variable import Variable, describe_value
from gpushard.nnx.walk import Path

__all__ = ["PrefixMapping", "StateSharding"]


class PrefixMapping(abc.ABC):
    """Base of objects that stand for a Module in a prefix pytree, with an entry for each leaf."""

    __slots__ = ()

    @abc.abstractmethod
    def map_prefix(self, path: Path, variable: Any) -> Any:
        """Return the entry for a leaf of the Module.

        Args:
          path: the path of the leaf in the Module.
          variable: the leaf: a Variable or an array.
        """


class StateSharding(PrefixMapping):
    """Shardings of the parts of a Module, for arguments such as `in_shardings` and `in_specs`.

    Args:
      spec: a mapping from filters to shardings, or pairs of a filter and a sharding. The first
        filter that selects a leaf decides. Or a State with shardings in place of leaves or of their
        values. A sharding is a `Sharding`, a `Format`, a `PartitionSpec` or None.

    Raises:
      ArgumentError: `...` is not the last filter.
      ArgumentTypeError: `spec` has another type, or a filter or a sharding has no hash.

    >>> import gpushard as gs
    >>> from gpushard import nnx
    >>> rows = nnx.StateSharding({nnx.Param: gs.P("x"), ...: None})
    >>> rows.map_prefix(("kernel",), nnx.Param(1.0))
    PartitionSpec('x')
    >>> nnx.StateSharding(nnx.State({"a": {"kernel": gs.P("x")}}))
    StateSharding({PathIn(('a', 'kernel')): PartitionSpec('x')})
    """

    __slots__ = ("_filters", "_predicates", "_shardings")

    def __init__(
        self, spec: State | Mapping[Filter, Any] | Iterable[tuple[Filter, Any]], /
    ) -> None:
        pairs = _pairs(spec)
        self._filters = tuple([filter for filter, _ in pairs])
        self._shardings = tuple([sharding for _, sharding in pairs])
        self._predicates = tuple(predicates(self._filters, "StateSharding"))
        for name, values in (("filter", self._filters), ("sharding", self._shardings)):
            for value in values:
                try:
                    hash(value)
                except TypeError:
                    raise ArgumentTypeError(
                        f"StateSharding: the {name} {value!r} is a {type(value).__name__}, which "
                        "has no hash; use a tuple, or a class with __hash__",
                        argument="spec",
                        value=value,
                    ) from None

    @property
    def filters(self) -> tuple[Filter, ...]:
        """The filters, in order."""
        return self._filters

    @property
    def shardings(self) -> tuple[Any, ...]:
        """The sharding for each filter, in order."""
        return self._shardings

    def map_prefix(self, path: Path, variable: Any) -> Any:
        """Return the sharding for a leaf: that of the first filter that selects the leaf.

        Args:
          path: the path of the leaf in the Module.
          variable: the leaf: a Variable or an array.

        Raises:
          ArgumentError: no filter selects the leaf.
        """
        for predicate, sharding in zip(self._predicates, self._shardings, strict=True):
            if predicate(path, variable):
                return sharding
        what = repr(variable) if isinstance(variable, Variable) else describe_value(variable)
        raise ArgumentError(
            f"StateSharding: no filter takes {path_text(path)}, a {what}; add a filter, or "
            "`...: None` as the last one",
            argument="spec",
            path=path,
            type=type(variable),
            shape=getattr(variable, "shape", None),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StateSharding):
            return False
        return self._filters == other._filters and self._shardings == other._shardings

    def __hash__(self) -> int:
        return hash((self._filters, self._shardings))

    def __repr__(self) -> str:
        pairs = zip(self._filters, self._shardings, strict=True)
        return f"StateSharding({{{', '.join(f'{f!r}: {s!r}' for f, s in pairs)}}})"


def _pairs(spec: Any) -> list[tuple[Filter, Any]]:
    if isinstance(spec, State):
        paths: dict[Any, list[Path]] = {}
        for path, leaf in to_flat_state(spec):
            sharding = leaf.value if isinstance(leaf, Variable) else leaf
            try:
                paths.setdefault(sharding, []).append(path)
            except TypeError:
                raise ArgumentTypeError(
                    f"StateSharding: the sharding {sharding!r} at {path_text(path)} is a "
                    f"{type(sharding).__name__}, which has no hash; use a PartitionSpec",
                    argument="spec",
                    value=sharding,
                ) from None
        return [(PathIn(*group), sharding) for sharding, group in paths.items()]
    try:
        pairs = [(f, s) for f, s in (spec.items() if isinstance(spec, Mapping) else spec)]
    except (TypeError, ValueError):
        raise ArgumentTypeError.refusing(
            "spec", spec, "must be a mapping of filters to shardings, pairs of them, or a State",
            "StateSharding",
        ) from None  # fmt: skip
    return pairs
