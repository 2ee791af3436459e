"""Divide work along a row into passes, and choose the values that threads keep between them. Pure.

A value of a row that depends on a reduction of the same row is known after one pass along it:

    softmax    pass 0: max(x)    pass 1: e = exp(x - max), sum(e)    pass 2: e / sum

Pass 1 needs `x` again, and pass 2 needs `e`. Threads that keep both in registers, `x` from pass 0
to 1 and `e` from pass 1 to 2, load and compute each of them once. Threads that keep none load `x`
in each pass and compute `e` twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping

from gpushard._runtime.cuda.kernels.thread_nests import ThreadNest
from gpushard._runtime.nests import Op
from gpushard._typing import Dtype

MOST_KEPT = 256
"""Most bytes of values that a thread keeps at once: 64 registers of 255."""

MOST_UNROLLED = 512
"""Most operations on all elements that a thread keeps: each is a separate statement."""

_REGISTER = 4
"""Bytes of a register: a value takes at least one."""

Spans = Mapping[int, tuple[int, int]]
"""For each place: the first pass that has its value, and the last pass that needs it."""


class Passes:
    """The passes of a nest: each ends with reductions along the loops that threads share.

    The numbers of a kernel have places, too: behind those of loads.
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
        """The places of the operands of each operation."""
        self.result_places = [result.place + count for result in nest.results]
        """The places of results."""
        read = {at for op in nest.ops for at in op.places if at < loads}
        self.dtypes: dict[int, Dtype] = {at: nest.loads[at].dtype for at in read}
        self.dtypes |= {place: op.dtype for place, op in self.ops.items()}
        """The dtypes of operands and results of operations."""
        levels = nest.levels(dealt.along)
        self.level = dict(enumerate([*levels[:loads], *[0] * count, *levels[loads:]]))
        """Number of passes before each place is known."""

    @property
    def count(self) -> int:
        """Number of passes."""
        return 1 + max(self.level.values(), default=0)

    def is_sum(self, place: int) -> bool:
        """Whether an operation reduces a loop that the threads of a row share."""
        return place in self.ops and not self._along.isdisjoint(self.ops[place].reduced)

    def is_along(self, place: int) -> bool:
        """Whether a value varies along a row."""
        if place < len(self._loads):
            return not self._along.isdisjoint(self._loads[place].dims)
        return place in self.ops and not self._along.isdisjoint(self.ops[place].loops)

    def sums(self, level: int) -> list[int]:
        """List the reductions at the end of a pass."""
        return [at for at in self.ops if self.is_sum(at) and self.level[at] == 1 + level]

    def results(self, level: int) -> list[int]:
        """List the results that vary along a row and are first known in a pass."""
        return [
            at
            for at in self.ops
            if at in self.result_places and self.is_along(at) and self.level[at] == level
        ]

    def needed(self, level: int, known: Collection[int] = ()) -> set[int]:
        """Find the values along a row that a pass needs, back to loads and to `known` values."""
        rest = [at for place in self.sums(level) for at in self.operands[place]]
        rest += self.results(level)
        values: set[int] = set()
        while rest:
            place = rest.pop()
            if place not in values and self.is_along(place):
                values.add(place)
                if place in self.ops and place not in known:
                    rest += self.operands[place]
        return values

    def spans(self, elements: int) -> Spans:
        """Choose the values that threads keep in registers, for a number of elements of a row each.

        A pass uses the last values of earlier passes. If these take too many registers, it uses
        kept loads and computes the values again. Nothing is kept if loads take too many registers,
        if the text would be too long, or if no pass needs values of another one.
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
        """Compute the most bytes of an element that are kept between two passes."""
        sizes = {place: max(_REGISTER, self.dtypes[place].itemsize) for place in spans}
        return max(
            sum(sizes[at] for at, (first, last) in spans.items() if first <= level < last)
            for level in range(self.count)
        )
