"""Which mesh axes split which dim of an array."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gpushard.errors import ArgumentTypeError


class _Unconstrained:
    """The type of `UNCONSTRAINED`."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "UNCONSTRAINED"


UNCONSTRAINED: Final = _Unconstrained()
"""An entry of a `PartitionSpec` that leaves the choice for its dim to the library."""


class PartitionSpec(tuple[Any, ...]):
    """For each dim, the mesh axes that split it.

    An entry is an axis name, a tuple of names (one flat split, first name most significant), None
    (not split) or `UNCONSTRAINED`. Dims beyond the last entry are not split.

    Args:
      *entries: one per dim.

    Raises:
      ArgumentTypeError: an entry is none of these.

    >>> PartitionSpec("x", None, ("y", "z"))
    PartitionSpec('x', None, ('y', 'z'))
    >>> PartitionSpec(("x",)) == PartitionSpec("x")
    True
    >>> PartitionSpec("x") + PartitionSpec(None, "y")
    PartitionSpec('x', None, 'y')
    """

    UNCONSTRAINED = UNCONSTRAINED

    __slots__ = ()

    def __new__(cls, *entries: Any) -> PartitionSpec:
        """Check the entries and bring them into one form."""
        return super().__new__(cls, (_canonical(i, entry) for i, entry in enumerate(entries)))

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def __add__(self, other: tuple[Any, ...]) -> PartitionSpec:
        return PartitionSpec(*self, *other) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: tuple[Any, ...]) -> PartitionSpec:
        return PartitionSpec(*other, *self) if isinstance(other, tuple) else NotImplemented

    def __repr__(self) -> str:
        return f"PartitionSpec({', '.join(map(repr, self))})"

    def axes(self, dim: int) -> tuple[Any, ...]:
        """Return the mesh axes that split `dim`, major to minor; () for an unsplit one.

        >>> PartitionSpec("x", ("y", "z")).axes(1)
        ('y', 'z')
        """
        entry = self[dim] if dim < len(self) else None
        if entry is None or entry is UNCONSTRAINED:
            return ()
        return entry if isinstance(entry, tuple) else (entry,)

    def all_axes(self) -> Iterator[Any]:
        """Yield every mesh axis that splits some dim, in order."""
        for dim in range(len(self)):
            yield from self.axes(dim)


P = PartitionSpec


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
