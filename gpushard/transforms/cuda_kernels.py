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

from gpushard.geometry.tiling import Tiling
from gpushard.ops.aval import Aval
from gpushard.ops.programs.calls import Work
from gpushard.ops.programs.launched import Launched, launched_together
from gpushard.runtime.backend import Fused, FusedLoad, FusedOp, FusedResult
from gpushard.transforms.nests import Nest, Op, merged

_MOST_KEPT = 128
"""Elements of a value that a thread keeps rather than computing others again and again."""

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
    fused = Fused(
        tuple(map(tuple, groups)),
        short.inner,
        tuple((loop, short.sizes[loop]) for loop in sorted(short.short)),
        tuple(FusedLoad(x.operand, x.dims, x.starts, x.more) for x in short.loads),
        tuple(ops),
        tuple(
            FusedResult(one.place + len(numbers), one.dims, whole.dims)
            for one, whole in zip(short.results, nest.results, strict=True)
        ),
    )
    return fused, numbers


def launched_nest(work: Work, nest: Nest, tilings: Sequence[Tiling]) -> tuple[Launched, Any] | None:
    """Return calls of a nest as launches, and the numbers that these take; None if there are none.

    Args:
      work: what there is to call.
      nest: what is computed.
      tilings: boxes of the operands.
    """
    found = fused_nest(nest)
    if found is None:
        return None
    fused, numbers = found
    dtypes = {load.operand: load.dtype for load in nest.loads}
    operands = [(dtypes[n], tiling) for n, tiling in enumerate(tilings)]
    lengths = [
        tuple(nest.lengths([Aval(x.shard_shapes[call.home], t) for t, x in operands]))
        for call in work.calls
    ]
    kernel: Any = fused
    work = dataclasses.replace(work, kernel=kernel)
    launched = launched_together(work, [x.dtype for x in numbers], operands, lengths)
    return None if launched is None else (launched, list(enumerate(numbers, len(operands))))


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
