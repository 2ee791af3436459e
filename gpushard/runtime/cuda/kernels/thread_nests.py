"""Deal out the loops of a nest to the threads of a GPU. Pure.

The threads of a row go together along the long loops that are reduced. If none is long, they go
along the short loops that all reductions have in common. Each thread goes by itself over the other
short loops that an operation reduces, or that a reduction lacks. All others are over rows:

    x - x.mean(1) of shape (4096, 1000)            rows 0, along 1
    ((p[:, None] - q) ** 2).sum(2), with p of      rows 0, within a thread 1 and 2
    shape (4096, 8) and q of shape (32, 8)
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from gpushard.frozen import dataclass
from gpushard.runtime.backend import ROOM, NestKernel
from gpushard.runtime.cuda.kernels.elementwise import Signature
from gpushard.runtime.nests import Nest, Op, merged
from gpushard.typing import Shape

COUNTERS = 16
"""Elements for each row at the start of the memory where parts of rows meet, for counters."""

_MOST_KEPT = 128
"""Elements of a value that a thread keeps rather than computing others again and again."""

_PART, _MOST_PARTS, _MOST_SLOTS = 1 << 10, 128, 1 << 15
"""Elements of a part of a row, how many parts there are at most, and what they may leave."""


@dataclass(frozen=True)
class ThreadNest:
    """A loop nest with its loops dealt out: along a row, within a thread, and others over rows."""

    whole: Nest  # as it was, whose loops calls have the lengths of
    # The same, with loops as one that all arrays have next to each other. Threads go along inner
    # loops together, and each thread goes over short loops by itself.
    nest: Nest
    loops: tuple[tuple[int, ...], ...]  # which loops of `whole` each of these stands for
    # Blocks of threads that share a row, and go along it once. If it is more than one, they meet in
    # memory behind all results.
    parts: int = 1
    kept: int = 0  # what each part has of a row there

    @property
    def along(self) -> frozenset[int]:
        """Loops that several threads go along together."""
        return self.nest.inner

    @property
    def within(self) -> dict[int, int]:
        """Loops that a thread goes over by itself, with their lengths."""
        return {loop: self.nest.sizes[loop] for loop in sorted(self.nest.short)}

    def lengths(self, lengths: Shape) -> Shape:
        """Return the lengths of the loops of `nest`, from those of `whole`."""
        return tuple([math.prod([lengths[loop] for loop in group]) for group in self.loops])

    def signature(self, calls: int, *, wide: bool = False) -> Signature:
        """Return what a kernel takes and gives; the arguments are those of `Signature`."""
        blocks, numbers = self.nest.operand_types, [x.dtype for x in self.nest.numbers]
        results = (*self.nest.result_types, *[ROOM] * (self.parts > 1))
        scalars = tuple(range(len(blocks), len(blocks) + len(numbers)))
        loops = max(1, len(self.loops))
        return Signature((*blocks, *numbers), scalars, results, calls, wide, loops)

    def room(self, lengths: Shape) -> int:
        """Return how many elements a call needs where parts meet, from lengths of `whole`."""
        own, inside = self.lengths(lengths), self.nest.inner | self.nest.short
        rows = math.prod([n for loop, n in enumerate(own) if loop not in inside])
        return rows * (COUNTERS + self.parts * self.kept)


def thread_nest(nest: Nest) -> ThreadNest | None:
    """Deal out the loops of a nest to threads; None if these would go along different ones."""
    nest = dataclasses.replace(nest, short=nest.short - nest.split, split=frozenset())
    along, within = _dealt_out(nest)
    if any(along.intersection(op.reduced) not in (along, set()) for op in nest.ops if op.reduced):
        return None
    short, groups = merged(dataclasses.replace(nest, short=within, inner=along))
    return ThreadNest(nest, short, tuple(map(tuple, groups)), *_parts(nest, along, within))


def launched_kernel(nest: Nest) -> NestKernel | None:
    """Return a nest as launches compute it; None if there is no way to deal out its loops."""
    dealt = thread_nest(nest)
    if dealt is None:
        return None
    room = dealt.room if dealt.parts > 1 else None
    return NestKernel(dealt, launched=True, numbers=nest.numbers, room=room)


def function_of(op: Op) -> Any:
    """Return the function of an elementwise operation, or the name of what is none of CuPy's."""
    return {"astype": "astype", "copy": "astype", "where": "where"}.get(op.name) or op.kernel


def _parts(nest: Nest, along: frozenset[int], within: frozenset[int]) -> tuple[int, int]:
    """Return into how many parts rows are cut, and how much is kept of each for the last one.

    That depends on the whole array alone, not on how other loops are split.
    """
    kept = 0
    for op, level in zip(nest.ops, nest.levels(along)[len(nest.loads) :], strict=True):
        sums = bool(along.intersection(op.reduced))
        if level > sums and along.intersection((*op.loops, *op.reduced)):
            return 1, 0  # rows are gone along again
        if sums:
            kept += math.prod([nest.sizes[loop] for loop in op.loops & within])
    if not kept:
        return 1, 0
    length = math.prod([nest.sizes[loop] for loop in along])
    rows = math.prod([n for x, n in enumerate(nest.sizes) if x not in along | within])
    parts = -(-length // _PART) if length >= 4 * _PART else 1
    return max(1, min(parts, _MOST_PARTS, _MOST_SLOTS // (rows * (kept + COUNTERS)))), kept


def _dealt_out(nest: Nest) -> tuple[frozenset[int], frozenset[int]]:
    """Return the loops that the threads of a row go along, and those within a thread."""
    reductions = [op for op in nest.ops if op.reduced]
    reduced = [frozenset(op.reduced) for op in reductions]
    every = frozenset[int]().union(*reduced)
    along = every - nest.short
    if len(set(reduced)) == 1:
        along = every
    spans = [op.loops.union(op.reduced) for op in reductions]
    lacking = frozenset(range(len(nest.sizes))) - frozenset.intersection(*spans) if spans else every
    long = frozenset(range(len(nest.sizes))) - nest.short
    if not along and not long <= lacking:  # what is reduced is done once for all that needs it
        along = lacking & long
    within = (every & nest.short) - along
    more = (lacking & nest.short) - along
    kept = [math.prod([nest.sizes[loop] for loop in op.loops & (within | more)]) for op in nest.ops]
    return along, within | more if max(kept) <= _MOST_KEPT else within
