"""Passes along a row: what each of them computes, and what threads keep between them. Pure.

A value of a row that depends on a reduction of the same row is known after one pass along it:

    softmax    pass 0: max(x)    pass 1: e = exp(x - max), sum(e)    pass 2: e / sum

Pass 1 needs `x` again, and pass 2 needs `e`. Threads that keep both in registers, `x` from pass 0
to 1 and `e` from pass 1 to 2, load and compute each of them once. Threads that keep none load `x`
in each pass and compute `e` twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping

from gpushard.runtime.cuda.kernels.thread_nests import ThreadNest
from gpushard.runtime.nests import Op
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
    """The passes of a nest: each ends with reductions of what the threads of a row go along.

    A kernel is given its numbers, and has places for them: behind those of loads.
    """

    def __init__(self, dealt: ThreadNest) -> None:
        self._along, self._loads = dealt.along, dealt.nest.loads
        nest, loads = dealt.nest, len(dealt.nest.loads)
        numbers, count = itertools.count(loads), len(nest.numbers)
        self.first = loads + count
        """The place of the first operation."""
        self.ops: dict[int, Op] = dict(enumerate(nest.ops, self.first))
        self.operands: dict[int, tuple[int, ...]] = {
            place: tuple([
                next(numbers) if at is None else at + count * (at >= loads)
                for at, _ in op.operands
            ])
            for place, op in self.ops.items()
        }  # fmt: skip
        """The places of what each operation takes."""
        self.result_places = [result.place + count for result in nest.results]
        """Those of results."""
        read = {at for op in nest.ops for at in op.places if at < loads}
        self.dtypes: dict[int, Dtype] = {at: nest.loads[at].dtype for at in read}
        self.dtypes |= {place: op.dtype for place, op in self.ops.items()}
        """The types of what operations read and give."""
        levels = nest.levels(dealt.along)
        self.level = dict(enumerate([*levels[:loads], *[0] * count, *levels[loads:]]))
        """How many passes come before each place."""

    @property
    def count(self) -> int:
        """How many passes there are."""
        return 1 + max(self.level.values(), default=0)

    def is_sum(self, place: int) -> bool:
        """Whether an operation reduces what the threads of a row go along."""
        return place in self.ops and not self._along.isdisjoint(self.ops[place].reduced)

    def is_along(self, place: int) -> bool:
        """Whether a value varies along a row."""
        if place < len(self._loads):
            return not self._along.isdisjoint(self._loads[place].dims)
        return place in self.ops and not self._along.isdisjoint(self.ops[place].loops)

    def sums(self, level: int) -> list[int]:
        """Return the reductions at the end of a pass."""
        return [at for at in self.ops if self.is_sum(at) and self.level[at] == 1 + level]

    def results(self, level: int) -> list[int]:
        """Return the results that vary along a row and are known in a pass, but in none before."""
        return [
            at
            for at in self.ops
            if at in self.result_places and self.is_along(at) and self.level[at] == level
        ]

    def needed(self, level: int, known: Collection[int] = ()) -> set[int]:
        """Return the values along a row that a pass needs, back to loads and to `known` values."""
        rest = [at for place in self.sums(level) for at in self.operands[place]]
        rest += self.results(level)
        found: set[int] = set()
        while rest:
            place = rest.pop()
            if place not in found and self.is_along(place):
                found.add(place)
                if place in self.ops and place not in known:
                    rest += self.operands[place]
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
                elif place < self.first or not loads_only:
                    first[place] = level
        return spans

    def _bytes(self, spans: Spans) -> int:
        """Return the most bytes that are kept of an element between two passes."""
        sizes = {place: max(_REGISTER, self.dtypes[place].itemsize) for place in spans}
        return max(
            sum(sizes[at] for at, (first, last) in spans.items() if first <= level < last)
            for level in range(self.count)
        )
