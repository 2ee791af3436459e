"""`PartitionSpec`: which mesh axes split which dim of an array."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from typing import Any, Final

from gpushard.errors import ArgumentError, ArgumentTypeError, ShardingError


class _Unconstrained:
    """The type of `UNCONSTRAINED`."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "UNCONSTRAINED"


UNCONSTRAINED: Final = _Unconstrained()
"""An entry of a `PartitionSpec` that leaves the split of its dim to gpushard."""


class PartitionSpec(tuple[Any, ...]):
    """The mesh axes that split each dim of an array.

    An entry is the name of a mesh axis, a tuple of names, or None for a dim that is not split. A
    tuple splits the dim over all of these axes; the first is the major one. Dims beyond the last
    entry are not split. `UNCONSTRAINED` lets `lax.with_sharding_constraint` choose.

    Args:
      *entries: an entry for each dim.
      unreduced: mesh axes over which JAX has not summed yet. A spec stores them, but shardings
        refuse them, since gpushard's arrays hold complete sums.
      reduced: mesh axes that JAX uses for derivatives. A spec stores and ignores them.

    Raises:
      ArgumentTypeError: an entry has another type, or `unreduced` or `reduced` is not a set of
        names.
      ArgumentError: an axis is in two of the entries, `unreduced` and `reduced`.

    >>> PartitionSpec("x", None, ("y", "z"))
    PartitionSpec('x', None, ('y', 'z'))
    >>> PartitionSpec(("x",)) == PartitionSpec("x")
    True
    >>> PartitionSpec("x") + PartitionSpec(None, "y")
    PartitionSpec('x', None, 'y')
    """

    UNCONSTRAINED = UNCONSTRAINED
    unreduced: frozenset[str] = frozenset()
    reduced: frozenset[str] = frozenset()

    __slots__ = ()

    def __new__(
        cls,
        *entries: Any,
        unreduced: Collection[str] = frozenset(),
        reduced: Collection[str] = frozenset(),
    ) -> PartitionSpec:
        """Check the entries and normalize them."""
        cls = _Marked if unreduced or reduced else PartitionSpec
        spec = super().__new__(cls, (_canonical(i, entry) for i, entry in enumerate(entries)))
        if isinstance(spec, _Marked):
            spec.unreduced = _axes_in(unreduced, "unreduced")
            spec.reduced = _axes_in(reduced, "reduced")
            _check_axes_differ(spec)
        return spec

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def __add__(self, other: tuple[Any, ...]) -> PartitionSpec:
        return _concat_specs(self, other) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: tuple[Any, ...]) -> PartitionSpec:
        return _concat_specs(other, self) if isinstance(other, tuple) else NotImplemented

    def __repr__(self) -> str:
        return f"PartitionSpec({', '.join(map(repr, self))})"

    @property
    def partitions(self) -> tuple[Any, ...]:
        """The entries, as a plain tuple."""
        return tuple(self)

    def update(self, **changes: Any) -> PartitionSpec:
        """Return a copy of the spec with some fields replaced.

        Args:
          **changes: new values of `partitions` (the entries), `unreduced` or `reduced`.

        >>> PartitionSpec("x", None).update(partitions=("y",))
        PartitionSpec('y')
        """
        same = {"partitions": self, "unreduced": self.unreduced, "reduced": self.reduced}
        unknown = sorted(set(changes) - set(same))
        if unknown:
            raise ArgumentTypeError(
                f"update() of a PartitionSpec has no argument {unknown[0]!r}; use partitions, "
                "unreduced or reduced",
                argument=unknown[0],
            )
        chosen: dict[str, Any] = same | changes
        return PartitionSpec(*chosen.pop("partitions"), **chosen)

    def axes(self, dim: int) -> tuple[Any, ...]:
        """Return the mesh axes that split dim number `dim`, major axis first; () if none does.

        >>> PartitionSpec("x", ("y", "z")).axes(1)
        ('y', 'z')
        """
        entry = self[dim] if dim < len(self) else None
        if entry is None or entry is UNCONSTRAINED:
            return ()
        return entry if isinstance(entry, tuple) else (entry,)

    def all_axes(self) -> Iterator[Any]:
        """Yield every mesh axis that splits a dim, in order."""
        for dim in range(len(self)):
            yield from self.axes(dim)


P = PartitionSpec


class _Marked(PartitionSpec):
    """A spec with axes in `unreduced` or `reduced`."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PartitionSpec):
            return False
        ours, theirs = [(x.partitions, x.unreduced, x.reduced) for x in (self, other)]
        return ours == theirs

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.partitions, self.unreduced, self.reduced))

    def __reduce__(self) -> tuple[Any, ...]:
        return _marked, (self.partitions, self.unreduced, self.reduced)

    def __repr__(self) -> str:
        marks = [
            f"{name}={{{', '.join(map(repr, sorted(axes)))}}}"
            for name, axes in (("unreduced", self.unreduced), ("reduced", self.reduced))
            if axes
        ]
        return f"PartitionSpec({', '.join([*map(repr, self), *marks])})"


def _marked(entries: tuple[Any, ...], unreduced: Any, reduced: Any) -> PartitionSpec:
    return PartitionSpec(*entries, unreduced=unreduced, reduced=reduced)


def _concat_specs(first: tuple[Any, ...], last: tuple[Any, ...]) -> PartitionSpec:
    """Concatenate the entries of two specs, and unite their marked axes."""
    specs = [x for x in (first, last) if isinstance(x, PartitionSpec)]
    return PartitionSpec(
        *first,
        *last,
        unreduced=frozenset().union(*[x.unreduced for x in specs]),
        reduced=frozenset().union(*[x.reduced for x in specs]),
    )


def _axes_in(axes: Any, argument: str) -> frozenset[str]:
    if not isinstance(axes, set | frozenset) or not all(isinstance(x, str) for x in axes):
        raise ArgumentTypeError.refusing(argument, axes, "must be a set of names of mesh axes")
    return frozenset(axes)


def _check_axes_differ(spec: PartitionSpec) -> None:
    """Check that no axis is in two of the entries, `unreduced` and `reduced`."""
    places = {"entries": set(spec.all_axes()), "unreduced": spec.unreduced, "reduced": spec.reduced}
    for first, second in itertools.combinations(places, 2):
        both = sorted(places[first] & places[second])
        if both:
            raise ArgumentError(
                f"{spec!r} names the mesh axis {both[0]!r} in {first} and in {second}; name it "
                "in one of them",
                argument=second,
                axis=both[0],
            )


def _canonical(position: int, entry: Any) -> Any:
    if entry is None or entry is UNCONSTRAINED or isinstance(entry, str):
        return entry
    if isinstance(entry, tuple | list):
        names = tuple(entry)
        for name in names:
            if not isinstance(name, str):
                raise _bad_entry(position, entry)
        return None if not names else names[0] if len(names) == 1 else names
    raise _bad_entry(position, entry)


def _bad_entry(position: int, entry: Any) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"entry {position} of the PartitionSpec is {entry!r}; each entry must be a mesh axis name, "
        "a tuple of them, None or UNCONSTRAINED",
        argument="entries",
        position=position,
        entry=entry,
    )


def refuse_unreduced(spec: PartitionSpec) -> None:
    """Check that a spec has no axes in `unreduced`.

    Raises:
      ShardingError: it has some.
    """
    if spec.unreduced:
        raise ShardingError(
            f"{spec!r} leaves sums over mesh axes open; arrays hold complete sums. Leave unreduced "
            "out, and where a shard_map gives parts of a sum, add them with lax.psum",
            argument="spec",
            spec=spec,
            unreduced=spec.unreduced,
        )
