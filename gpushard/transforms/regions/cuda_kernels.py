"""Loop nests in CUDA C: one launch for all devices of a GPU, whatever the nest does.

An operation is in such a kernel by the statement that the backend's own function is made of, so it
gives what it gives alone. Numbers, and lengths of loops, are parameters of the kernel: functions
that differ in these alone share it.

Here is decided what loops are to threads. What is reduced and long, the threads of a row go along
together; where nothing is long, so are short loops that all reductions have in common. Other short
ones that something reduces, or that some reduction lacks, are within a thread. All others are over
rows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.geometry.tiling import Tiling
from gpushard.ops.programs.calls import Work
from gpushard.ops.programs.launched import Launched, launched_together
from gpushard.runtime.backend import COUNTERS, Fused, FusedLoad, FusedOp, FusedResult
from gpushard.runtime.nests import Nest, Op, merged

_MOST_KEPT = 128
"""Elements of a value that a thread keeps rather than computing others again and again."""

_PART, _MOST_PARTS, _MOST_SLOTS = 1 << 10, 128, 1 << 15
"""Elements of a part of a row, how many parts there are at most, and what they may leave."""

_SLOT = np.dtype(np.complex128)  # 16 bytes: what any of them has

_BY_NAME = {"astype": "astype", "copy": "astype", "where": "where"}


def fused_op(op: Op, arrays: Sequence[Any], operands: Sequence[int] = ()) -> FusedOp:
    """Return an operation as backends know it.

    Args:
      op: the operation.
      arrays: types of the arrays among what it takes, in order.
      operands: places of all that it takes.
    """
    rest = iter(arrays)
    types = tuple([value.dtype if at is None else next(rest) for at, value in op.operands])
    reduction = op.name if op.kernel is None else None
    function = None if reduction else _BY_NAME.get(op.name) or op.kernel
    return FusedOp(function, tuple(operands), types, op.dtype, reduction, op.loops, op.reduced)


def fused_nest(nest: Nest) -> tuple[Fused, list[Any]] | None:
    """Return a nest as backends know it, and the numbers that it takes; None for what is none."""
    nest = _known(nest)
    along, within = _dealt_out(nest)
    if any(along.intersection(op.reduced) not in (along, set()) for op in nest.ops if op.reduced):
        return None
    short, groups = merged(dataclasses.replace(nest, short=within, inner=along))
    numbers = [value for op in nest.ops for at, value in op.operands if at is None]
    ahead, taken = len(nest.loads), iter(range(len(nest.loads), len(nest.loads) + len(numbers)))
    ops = []
    for op in short.ops:
        arrays = [nest.dtype(at) for at, _ in op.operands if at is not None]
        places = [
            next(taken) if at is None else at + len(numbers) * (at >= ahead)
            for at, _ in op.operands
        ]
        ops.append(fused_op(op, arrays, places))
    parts, _ = _parts(nest, along, within)
    met = (FusedResult(None, (), (len(nest.sizes),)),) if parts > 1 else ()
    fused = Fused(
        tuple(map(tuple, groups)),
        short.inner,
        parts,
        tuple((loop, short.sizes[loop]) for loop in sorted(short.short)),
        tuple(FusedLoad(x.operand, x.dims, x.starts, x.more) for x in short.loads),
        tuple(ops),
        tuple(
            FusedResult(one.place + len(numbers), one.dims, whole.dims)
            for one, whole in zip(short.results, nest.results, strict=True)
        )
        + met,
        len(numbers),
    )
    return fused, numbers


def _known(nest: Nest) -> Nest:
    """Return a nest whose short loops have lengths that are known."""
    return dataclasses.replace(nest, short=nest.short - nest.split, split=frozenset())


@dataclasses.dataclass(frozen=True, eq=False)
class LaunchedNest:
    """A nest, ready to be launched."""

    calls: Launched
    numbers: list[tuple[int, Any]]  # that the calls take: (position, value)
    scratch: int  # bytes that they hold while they run: a result behind all others


def launched_nest(work: Work, nest: Nest, tilings: Sequence[Tiling]) -> LaunchedNest | None:
    """Return calls of a nest as launches; None if there are none for it.

    Args:
      work: what there is to call.
      nest: what is computed.
      tilings: boxes of the operands.
    """
    found = fused_nest(nest)
    if found is None:
        return None
    nest, (fused, numbers) = _known(nest), found
    dtypes = {load.operand: load.dtype for load in nest.loads}
    operands = [(dtypes[n], tiling) for n, tiling in enumerate(tilings)]
    lengths = [
        nest.lengths([x.shard_shapes[call.home] for _, x in operands]) for call in work.calls
    ]
    kernel: Any = fused
    work = dataclasses.replace(work, kernel=kernel)
    scratch = 0
    if fused.parts > 1:
        along, within = _dealt_out(nest)
        _, kept = _parts(nest, along, within)
        calls = []
        for call, own in zip(work.calls, lengths, strict=True):
            rows = math.prod([n for x, n in enumerate(own) if x not in along | within])
            own.append(rows * (COUNTERS + fused.parts * kept))
            calls.append(dataclasses.replace(call, shapes=(*call.shapes, (own[-1],))))
            scratch += own[-1] * _SLOT.itemsize
        work = dataclasses.replace(
            work,
            calls=calls,
            dtypes=[*work.dtypes, _SLOT],
            tilings=[*work.tilings, work.tilings[0]],
        )
    types = [x.dtype for x in numbers]
    launched = launched_together(work, types, operands, list(map(tuple, lengths)))
    if launched is None:
        return None
    return LaunchedNest(launched, list(enumerate(numbers, len(operands))), scratch)


def _parts(nest: Nest, along: frozenset[int], within: frozenset[int]) -> tuple[int, int]:
    """Return into how many parts rows are cut, and how much is kept of each for the last one.

    That depends on the whole array alone, not on how other loops are split.
    """
    level = dict.fromkeys(range(len(nest.loads)), 0)
    kept = 0
    for place, op in enumerate(nest.ops, len(nest.loads)):
        level[place] = max((level[at] for at, _ in op.operands if at is not None), default=0)
        if level[place] and along.intersection((*op.loops, *op.reduced)):
            return 1, 0  # rows are gone along again
        if along.intersection(op.reduced):
            level[place] += 1
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
