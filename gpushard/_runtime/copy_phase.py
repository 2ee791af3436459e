"""Copies that a backend makes in one call, in the one form that they have from planner to backend.

A copy goes from a strided part of an operand to one of another. Operands are numbered; whoever has
the plan's copies made says which arrays they are. A backend that wants indices keeps them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from gpushard._frozen import dataclass
from gpushard._runtime.stream import Stream
from gpushard._runtime.strided_view import View
from gpushard._typing import LocalArray, LocalArrays, Shape

Copy: TypeAlias = tuple[int, View, int, View, int]
"""(operand written, part of it, operand read, part of it, memory domain read)."""

BoxCopy: TypeAlias = tuple[LocalArray, LocalArray, int]
"""The same of arrays: (part written, part read, of the same shape, memory domain read)."""


@dataclass(frozen=True, slots=True)
class Message:
    """A dense array that is sent to one of the same bytes in another memory domain.

    It takes part in the order of two streams: no later item of either begins before it has arrived.
    """

    target: LocalArray
    receiver: Stream
    source: LocalArray
    sender: Stream


IndexedCopy: TypeAlias = tuple[int, Any, int, Any, int]
"""(operand written, index, operand read, index: None for all that it has, as it lies, memory domain
read)."""


@dataclass(frozen=True, eq=False)
class Phase:
    """Copies that may run in any order, between dense operands in row-major order.

    A dim of what is read may have stride 0: then one element is copied to many.
    """

    moves: tuple[Copy, ...]  # the copies
    itemsize: int  # bytes of an element
    shapes: Sequence[Shape]  # of the operands

    @functools.cached_property
    def kept(self) -> dict[Any, Any]:
        """What backends keep with it, each under a key of its own."""
        return {}

    @functools.cached_property
    def links(self) -> dict[int, int]:
        """Bytes read from each memory domain."""
        links: dict[int, int] = {}
        for _, target, _, _, domain in self.moves:
            links[domain] = links.get(domain, 0) + math.prod(target.shape) * self.itemsize
        return links

    @functools.cached_property
    def nbytes(self) -> int:
        """All of them."""
        return sum(self.links.values())

    def copies(self, operands: LocalArrays) -> list[BoxCopy]:
        """Return the copies of particular operands."""
        indexed, others = self.indices()
        arrays = [
            (
                operands[to][index],
                operands[of] if of_index is None else operands[of][of_index],
                domain,
            )
            for to, index, of, of_index, domain in indexed
        ]
        arrays += [
            (target.of(operands[to]), source.of(operands[of]), domain)
            for to, target, of, source, domain in others
        ]
        return arrays

    def indices(self) -> tuple[Sequence[IndexedCopy], Sequence[Copy]]:
        """Return the copies that are between (operand, index) and (operand, index), and the others.

        Indices are looked for in a phase that comes again: that takes longer than the copies once.
        """
        indices: tuple[Sequence[IndexedCopy], Sequence[Copy]] | None = self.__dict__.get("_indices")
        if indices is None:
            indices = self.__dict__["_indices"] = (), self.moves
        elif not self.__dict__.get("_again"):
            self.__dict__["_again"] = True
            indices = self.__dict__["_indices"] = self._indexed()
        return indices

    def _indexed(self) -> tuple[list[IndexedCopy], list[Copy]]:
        indexed: list[IndexedCopy] = []
        others = []
        for move in self.moves:
            to, target, of, source, domain = move
            for sides in ((target, source), target.merge_dims(source)):
                index = sides[0].index_in(self.shapes[to], self.itemsize)
                of_index = sides[1].index_in(self.shapes[of], self.itemsize)
                if index is not None and of_index is not None:
                    whole = sides[1].shape == self.shapes[of] and sides[1].is_dense(self.itemsize)
                    indexed.append((to, index, of, None if whole else of_index, domain))
                    break
            else:
                others.append(move)
        return indexed, others
