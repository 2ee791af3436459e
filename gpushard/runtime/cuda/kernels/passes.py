"""Passes along a row: what each of them computes, and what threads keep between them. Pure.

A value of a row that depends on a reduction of the same row is known after one pass along it:

    softmax    pass 0: max(x)    pass 1: e = exp(x - max), sum(e)    pass 2: e / sum

Pass 1 needs `x` again, and pass 2 needs `e`. Threads that keep both in registers, `x` from pass 0
to 1 and `e` from pass 1 to 2, load and compute each of them once. Threads that keep none load `x`
in each pass and compute `e` twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gpushard.runtime.backend import Fused, FusedOp
from gpushard.typing import Dtype

MOST_KEPT = 256
"""Bytes of values that a thread keeps at once: 64 registers of 255."""

MOST_UNROLLED = 512
"""Operations of all elements that a thread keeps: each is a statement of its own."""

_REGISTER = 4
"""Bytes of a register, the least that a value takes."""

Spans = Mapping[int, tuple[int, int]]
"""By place: the pass that first has a value, and the last one that needs it."""


class Passes:
    """The passes of a function: each ends with reductions of what the threads of a row go along."""

    def __init__(self, fused: Fused) -> None:
        self._fused = fused
        self._first = len(fused.loads) + fused.numbers
        self.ops: dict[int, FusedOp] = {self._first + n: op for n, op in enumerate(fused.ops)}
        self.dtypes: dict[int, Dtype] = {}
        # Of each place: how many passes come before it.
        self.level = dict.fromkeys(range(self._first), 0)
        for place, op in self.ops.items():
            self.dtypes |= dict(zip(op.operands, op.types, strict=True))
            self.dtypes[place] = op.dtype
            level = max(self.level[at] for at in op.operands)
            self.level[place] = level + self.is_sum(place)

    @property
    def count(self) -> int:
        """How many passes there are."""
        return 1 + max(self.level.values(), default=0)

    def is_sum(self, place: int) -> bool:
        """Whether an operation reduces what the threads of a row go along."""
        return place in self.ops and not self._fused.along.isdisjoint(self.ops[place].reduced)

    def is_along(self, place: int) -> bool:
        """Whether a value varies along a row."""
        if place < len(self._fused.loads):
            return not self._fused.along.isdisjoint(self._fused.loads[place].dims)
        return place in self.ops and not self._fused.along.isdisjoint(self.ops[place].loops)

    def sums(self, level: int) -> list[int]:
        """Return the reductions at the end of a pass."""
        return [at for at in self.ops if self.is_sum(at) and self.level[at] == 1 + level]

    def results(self, level: int) -> list[int]:
        """Return the results that vary along a row and are known in a pass, but in none before."""
        every = {result.place for result in self._fused.results}
        return [
            at for at in self.ops if at in every and self.is_along(at) and self.level[at] == level
        ]

    def needed(self, level: int, known: Collection[int] = ()) -> set[int]:
        """Return the values along a row that a pass needs, back to loads and to `known` values."""
        rest = [at for place in self.sums(level) for at in self.ops[place].operands]
        rest += self.results(level)
        found: set[int] = set()
        while rest:
            place = rest.pop()
            if place not in found and self.is_along(place):
                found.add(place)
                if place in self.ops and place not in known:
                    rest += self.ops[place].operands
        return found

    def spans(self, elements: int) -> Spans:
        """Return the values that threads keep in registers, for so many elements of a row each.

        A pass takes the last values that passes before it had. If these are too many, it takes
        loads, and computes what follows from them again. There are none where these are too many,
        where the text becomes too long, and where no pass needs what another one had.
        """
        if elements * len(self.ops) > MOST_UNROLLED:
            return {}
        for loads_only in False, True:
            spans = self._spans(loads_only)
            if self._bytes(spans) * elements <= MOST_KEPT:
                return spans
        return {}

    def _spans(self, loads_only: bool) -> Spans:
        first: dict[int, int] = {}
        spans = {}
        for level in range(self.count):
            for place in self.needed(level, first):
                if place in first:
                    spans[place] = first[place], level
                elif place < self._first or not loads_only:
                    first[place] = level
        return spans

    def _bytes(self, spans: Spans) -> int:
        """Return the most bytes that are kept of an element between two passes."""
        sizes = {place: max(_REGISTER, self.dtypes[place].itemsize) for place in spans}
        return max(
            sum(sizes[at] for at, (first, last) in spans.items() if first <= level < last)
            for level in range(self.count)
        )
