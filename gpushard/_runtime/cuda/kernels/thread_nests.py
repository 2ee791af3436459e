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

from gpushard._frozen import dataclass
from gpushard._runtime.backend import ROOM, NestKernel
from gpushard._runtime.cuda.kernels.elementwise import Signature
from gpushard._runtime.nests import Nest, Op, merged
from gpushard._typing import Shape

COUNTERS = 16
"""Elements for each row at the start of the memory where parts of rows meet, for counters."""

_MOST_KEPT = 128
"""Elements of a value that a thread keeps rather than computing others again and again."""

_PART, _MOST_PARTS, _MOST_SLOTS = 1 << 10, 128, 1 << 15
"""Elements of a part of a row, how many parts there are at most, and what they may leave."""


@dataclass(frozen=True)
class ThreadNest:
    """A loop nest with its loops dealt out: along a row, within a thread, and others over rows."""

    whole: Nest  # the nest before loops were merged; calls give the lengths of its loops
    # The nest after adjacent loops of all arrays were merged. Threads go along inner loops
    # together, and each thread goes over short loops by itself.
    nest: Nest
    loops: tuple[tuple[int, ...], ...]  # for each loop of `nest`, the loops of `whole` merged in it
    # Blocks of threads that share a row and go along it once. If there are several, they combine
    # their parts of the row in memory behind all results.
    parts: int = 1
    kept: int = 0  # elements that each part of a row has in that memory

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
        """Make the signature of the kernel; arguments are as for `Signature`."""
        blocks, numbers = self.nest.operand_types, [x.dtype for x in self.nest.numbers]
        results = (*self.nest.result_types, *[ROOM] * (self.parts > 1))
        scalars = tuple(range(len(blocks), len(blocks) + len(numbers)))
        loops = max(1, len(self.loops))
        return Signature((*blocks, *numbers), scalars, results, calls, wide, loops)

    def room(self, lengths: Shape) -> int:
        """Count the elements that a call needs to combine parts, from lengths of `whole`."""
        merged_lengths, inside = self.lengths(lengths), self.nest.inner | self.nest.short
        rows = math.prod([n for loop, n in enumerate(merged_lengths) if loop not in inside])
        return rows * (COUNTERS + self.parts * self.kept)


def thread_nest(nest: Nest) -> ThreadNest | None:
    """Deal out the loops of a nest to threads; None if these would go along different ones."""
    nest = dataclasses.replace(nest, short=nest.short - nest.split, split=frozenset())
    along, within = _deal_out(nest)
    if any(along.intersection(op.reduced) not in (along, set()) for op in nest.ops if op.reduced):
        return None
    short, groups = merged(dataclasses.replace(nest, short=within, inner=along))
    return ThreadNest(nest, short, tuple(map(tuple, groups)), *_parts(nest, along, within))


def launched_kernel(nest: Nest) -> NestKernel | None:
    """Make the kernel of a nest for launches; None if its loops cannot be dealt out."""
    dealt = thread_nest(nest)
    if dealt is None:
        return None
    room = dealt.room if dealt.parts > 1 else None
    return NestKernel(dealt, launched=True, numbers=nest.numbers, room=room)


def function_of(op: Op) -> Any:
    """Return the function of an elementwise operation; a name if CuPy has no function for it."""
    return {"astype": "astype", "copy": "astype", "where": "where"}.get(op.name) or op.kernel


def _parts(nest: Nest, along: frozenset[int], within: frozenset[int]) -> tuple[int, int]:
    """Choose the number of parts of a row, and count the elements that each part leaves in memory.

    Both depend only on the whole array, not on how other loops are split.
    """
    slots = 0
    for op, level in zip(nest.ops, nest.levels(along)[len(nest.loads) :], strict=True):
        sums = bool(along.intersection(op.reduced))
        if level > sums and along.intersection((*op.loops, *op.reduced)):
            return 1, 0  # rows are gone along again
        if sums:
            slots += math.prod([nest.sizes[loop] for loop in op.loops & within])
    if not slots:
        return 1, 0
    length = math.prod([nest.sizes[loop] for loop in along])
    rows = math.prod([n for x, n in enumerate(nest.sizes) if x not in along | within])
    parts = -(-length // _PART) if length >= 4 * _PART else 1
    return max(1, min(parts, _MOST_PARTS, _MOST_SLOTS // (rows * (slots + COUNTERS)))), slots


def _deal_out(nest: Nest) -> tuple[frozenset[int], frozenset[int]]:
    """Choose the loops that the threads of a row go along, and the loops within a thread."""
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
    inside = within | more
    sizes = [math.prod([nest.sizes[loop] for loop in op.loops & inside]) for op in nest.ops]
    return along, inside if max(sizes) <= _MOST_KEPT else within
