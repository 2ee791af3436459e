"""Kernels of regions on GPUs: one launch for all devices of a chip, whatever the region does.

An operation is in such a kernel by the statement that the backend's own function is made of, so it
gives what it gives alone. Numbers, and lengths of blocks, are parameters of the kernel: functions
that differ in these alone share it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import devices_of
from gpushard.ops.aval import Aval, Dtype
from gpushard.ops.programs.calls import Work, calls_of
from gpushard.ops.programs.launched import launched_together
from gpushard.ops.programs.local import Local
from gpushard.ops.row import Row
from gpushard.ops.scalars import converter
from gpushard.ops.table.elementwise import ASTYPE, COPY, WHERE
from gpushard.runtime.backend import Fused, FusedOp
from gpushard.runtime.runtime import Runtime
from gpushard.transforms.graph import Step, Var

_BY_NAME = {ASTYPE: "astype", COPY: "astype", WHERE: "where"}


def launches(step: Step, runtime: Runtime, reduced: Sequence[int]) -> bool:
    """Whether an operation can be in a kernel with others; `reduced` are dims that it reduces."""
    made = _operation(step, runtime)
    if made is None:
        return False
    length = math.prod(step.operands[0].shape[dim] for dim in reduced)
    return runtime.backend.fuses(made[0], length)


def launched_region(
    tiling: Tiling,
    reduced: int,
    steps: Sequence[Step],
    operands: Sequence[Var],
    results: Sequence[Var],
) -> Step | None:
    """Return operations as one that is one launch; None if the backend has none for them.

    Args:
      tiling: of the domain.
      reduced: how many of its last dims are reduced.
      steps: the operations.
      operands: what they take from outside.
      results: what they give.
    """
    runtime = devices_of(tiling)[0].runtime
    shape = tiling.shape
    numbers: list[Any] = []
    made: list[tuple[FusedOp, Sequence[Any]]] = []
    for step in steps:
        found = _operation(step, runtime)
        if found is None:
            return None
        made.append(found)
        numbers += found[1]
    places = {x: n for n, x in enumerate(operands)}
    at_number = len(operands)
    ops: list[FusedOp] = []
    for step, (op, _) in zip(steps, made, strict=True):
        arrays = iter(step.operands)
        given = []
        for at in range(len(op.types)):
            if at in step.scalars:
                given.append(at_number)
                at_number += 1
            else:
                given.append(places[next(arrays)])  # type: ignore[index]
        (result,) = step.results
        places[result] = len(operands) + len(numbers) + len(ops)
        full = op.reduction is None and result.shape == shape
        ops.append(FusedOp(op.function, tuple(given), op.types, op.dtype, op.reduction, full))
    loops, dims, inner = _loops(shape, reduced, operands)
    ends = tuple(places[x] for x in results)
    fused: Any = Fused(loops, dims, inner, tuple(ops), ends)
    name = "fused " + " ".join(step.name for step in steps)
    tilings = [x.tiling for x in results]
    read = [(x.tiling, x.dtype.itemsize) for x in operands]
    calls, of_device = calls_of(_REGION, read, tilings)
    work = Work(runtime, name, fused, calls, of_device, tilings, [x.dtype for x in results])
    taken = [(x.dtype, x.tiling) for x in operands]
    launched = launched_together(work, [number.dtype for number in numbers], taken, tiling)
    if launched is None:
        return None
    run, scalars = launched.run, list(enumerate(numbers, len(operands)))
    scope = " ".join(dict.fromkeys(step.scope for step in steps if step.scope))
    return Step(
        name, lambda given, _: run(given, scalars), tuple(operands), tuple(results), scope=scope
    )


def _operation(step: Step, runtime: Runtime) -> tuple[FusedOp, Sequence[np.generic]] | None:
    """Return an operation, with places that do not matter, and the numbers that it is given."""
    row, avals = step.row, step.avals()
    assert row is not None
    types: list[Dtype] = [aval.dtype for aval in avals]
    numbers: list[np.generic] = []
    found = row.infer(avals, step.params)
    for at, number in zip(step.scalars, step.numbers, strict=True):
        numbers.append(converter(row, found, avals, at)(number))
        types[at] = numbers[-1].dtype
    if row.loop is not None:
        own = row.loop(avals)
        if any(types[at] != own[at] for at in step.scalars):  # beyond the type: as infinite
            return None
        avals = [
            Aval((), types[at]) if at in step.scalars else aval for at, aval in enumerate(avals)
        ]
    function: Any = None
    reduces = len(row.strategies) > 1
    if not reduces:
        function = _BY_NAME.get(row) or row.kernel(runtime.backend.namespace, avals, step.params)
    dtype = step.results[0].dtype
    reduction = row.name if reduces else None
    return FusedOp(function, tuple(range(len(types))), tuple(types), dtype, reduction), numbers


def _loops(
    shape: Sequence[int], reduced: int, operands: Sequence[Var]
) -> tuple[tuple[tuple[bool, ...], ...], tuple[int, ...], int]:
    """Return the loops over a domain: dims next to each other that all have, or lack, as one."""
    kept = len(shape) - reduced
    patterns: list[tuple[bool, ...]] = []
    counts: list[int] = []
    inner = 0
    for dim, n in enumerate(shape):
        ahead = [dim - len(shape) + len(x.shape) for x in operands]
        own = tuple(at >= 0 and x.shape[at] != 1 for at, x in zip(ahead, operands, strict=True))
        joins = dim not in (0, kept) and (n == 1 or patterns[-1] == own)
        if joins:
            counts[-1] += 1
            continue
        patterns.append(own)
        counts.append(1)
        inner += dim >= kept
    return tuple(patterns), tuple(counts), inner


_REGION = Row("fused", lambda avals, params: (), "", lambda xp, avals, params: len, (Local(),))
"""What stands for regions where calls are listed."""
