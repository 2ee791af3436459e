"""Copies that a backend makes in one call."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from gpushard.frozen import dataclass
from gpushard.runtime.view import View
from gpushard.typing import LocalArray, Shape

BoxIndex: TypeAlias = tuple[Any, ...]

BoxMove: TypeAlias = tuple[int, BoxIndex, int, BoxIndex, int]
"""(operand written, index within it, operand read, index within it, memory domain read)."""

ViewMove: TypeAlias = tuple[int, View, int, View, int]
"""The same with strided parts: (written, part of it, read, part of it, memory domain read)."""

BoxCopy: TypeAlias = tuple[LocalArray, LocalArray, int]
"""(destination view, source view of the same shape, memory domain of the source)."""


@dataclass(frozen=True, eq=False)
class Phase:
    """Copies that may run in any order, given to the backend in one call."""

    moves: tuple[BoxMove, ...]
    """The copies."""

    order: tuple[int, ...] | None
    """How what is read is transposed before it is copied; None for not at all."""

    @classmethod
    def of_rows(cls, moves: Sequence[BoxMove]) -> Phase:
        """Return a phase that is used once: what it selects is not compared with what there is."""
        phase = cls(tuple(moves), None)
        phase.__dict__["_rows"] = phase.moves
        return phase

    def copies(self, operands: Sequence[LocalArray]) -> list[BoxCopy]:
        """Return the copies of particular operands."""
        rows: Sequence[_Row] | None = self.__dict__.get("_rows")
        if rows is None:
            rows = self.__dict__["_rows"] = [_row(move, operands) for move in self.moves]
        order = self.order
        if order is None:
            return [
                (
                    operands[to] if index is None else operands[to][index],
                    operands[of] if of_index is None else operands[of][of_index],
                    domain,
                )
                for to, index, of, of_index, domain in rows
            ]
        return [
            (
                operands[to] if index is None else operands[to][index],
                (operands[of] if of_index is None else operands[of][of_index]).transpose(order),
                domain,
            )
            for to, index, of, of_index, domain in rows
        ]


_Row: TypeAlias = tuple[int, BoxIndex | None, int, BoxIndex | None, int]
"""A `BoxMove` with None for an index that selects all of an operand, which need not be taken."""


def _row(move: BoxMove, operands: Sequence[LocalArray]) -> _Row:
    to, index, of, of_index, domain = move
    indices = [
        None if (part := whole[at]).shape == whole.shape and part.strides == whole.strides else at
        for whole, at in ((operands[to], index), (operands[of], of_index))
    ]
    return to, indices[0], of, indices[1], domain


@dataclass(frozen=True, eq=False)
class StridedPhase(Phase):
    """A phase whose copies are given as strided parts, for boxes that no index selects.

    A dim of what is read may have stride 0: then one element is copied to many.
    """

    views: tuple[ViewMove, ...]
    """The copies; `moves` is empty."""

    itemsize: int
    """Bytes of an element."""

    shapes: Sequence[Shape]
    """Of the operands."""

    @functools.cached_property
    def links(self) -> dict[int, int]:
        """Bytes read from each memory domain."""
        links: dict[int, int] = {}
        for _, target, _, _, domain in self.views:
            links[domain] = links.get(domain, 0) + math.prod(target.shape) * self.itemsize
        return links

    @functools.cached_property
    def nbytes(self) -> int:
        """All of them."""
        return sum(self.links.values())

    @functools.cached_property
    def indexed(self) -> tuple[list[tuple[int, BoxIndex, int, BoxIndex]], list[ViewMove]]:
        """The copies that are between (operand, index) and (operand, index), and the others."""
        found, others = [], []
        for move in self.views:
            to, target, of, source, _ = move
            for sides in ((target, source), target.joined(source)):
                index = sides[0].index_in(self.shapes[to], self.itemsize)
                of_index = sides[1].index_in(self.shapes[of], self.itemsize)
                if index is not None and of_index is not None:
                    found.append((to, index, of, of_index))
                    break
            else:
                others.append(move)
        return found, others

    def copies(self, operands: Sequence[LocalArray]) -> list[BoxCopy]:
        """Return the copies of particular operands."""
        return [
            (target.of(operands[to]), source.of(operands[of]), source_domain)
            for to, target, of, source, source_domain in self.views
        ]
