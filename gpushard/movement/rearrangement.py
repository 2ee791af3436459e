"""How an array is put together from parts of others, as numbers. Pure.

The coordinates of an array are written with *digits*: that of a dim is a start plus a mixed-radix
number. Where a part of the result comes from is said by giving both the source's and the result's
coordinates the same digits. A reshape cuts dims into the factors that both shapes share; a tile
has a digit for the repetition, which no source knows; a diagonal is one digit in two dims.
"""

from __future__ import annotations

import functools
import math

from gpushard.frozen import dataclass
from gpushard.movement.dim_map import Piece
from gpushard.typing import Shape

Bounds = tuple[tuple[int, int], ...]
"""(start, stop) of a box in each dim."""


@dataclass(frozen=True)
class Side:
    """The coordinates of an array as digits, and the digits as axes of a space.

    A point of the space is one element. For a source the space has an axis for all that says which
    element it is; for a result the same axes, and then some for the repetitions of an element.
    """

    sizes: Shape
    """How many values each digit has."""

    dims: tuple[tuple[int, tuple[int, ...]], ...]
    """For each dim its first coordinate, and its digits, most significant first."""

    axes: tuple[tuple[int, ...], ...]
    """For each axis its digits, likewise: one, or several where source and result cut a stretch of
    elements in ways that have no common factor; then the axis counts the elements of the stretch.
    """

    @functools.cached_property
    def space(self) -> Shape:
        """Length of each axis."""
        return tuple(math.prod(self.sizes[digit] for digit in axis) for axis in self.axes)

    @functools.cached_property
    def is_plain(self) -> bool:
        """Whether axes are dims."""
        return self == plain(self.space)


def plain(shape: Shape) -> Side:
    """Return the side whose axes are the dims of an array.

    >>> plain((4, 2)).dims
    ((0, (0,)), (0, (1,)))
    """
    return Side(
        shape,
        tuple((0, (dim,)) for dim in range(len(shape))),
        tuple((dim,) for dim in range(len(shape))),
    )


@dataclass(frozen=True)
class Part:
    """A box of the result that comes from one source."""

    source: int
    """Number of the source."""

    read: Side
    """How a point says which element of the source is read: one-to-one."""

    write: Side
    """How it says where in the result that goes."""

    begin: Shape
    """Which point of the source's space is the first one of the result's, in each axis."""


@dataclass(frozen=True, eq=False)
class Rearrangement:
    """Where the elements of a result come from.

    Rearrangements compare by identity, which keeps plan look-ups short; equal ones come from a
    cache.
    """

    sources: tuple[Shape, ...]
    """Shape of each source."""

    shape: Shape
    """Shape of the result."""

    parts: tuple[Part, ...]
    """They do not overlap; none of them is empty."""

    filled: tuple[Bounds, ...] = ()
    """Boxes of the result that hold a constant: all that no part covers."""

    piece: Piece | None = None
    """The same as a piece of the only source, if nothing moves."""

    along: int | None = None
    """The dim of the result in which whole sources follow one another, if they do: one that they
    have, or a new one."""

    @property
    def nbytes(self) -> int:
        """Bytes that this takes, about."""
        ndim = len(self.shape)
        return 1000 + 100 * len(self.sources) + (600 + 250 * ndim) * len(self.parts)
