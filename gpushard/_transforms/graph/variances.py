"""Variances over split axes read a large array once.

Batch normalization subtracts the mean over three axes, and reduces the squares of the differences.
Devices each have a part of the first axis. They have to merge their means first, so the variance
takes two passes over the array. If the last axes are reduced too, and are not split, one pass is
enough. The elements along these axes are a *strip*, such as one channel of an image. A strip stays
in a cache while a kernel computes its mean, and the squares of differences from that mean. What is
left to do takes one number for each strip (Chan, Golub and LeVeque, 1979):

    mean      the mean of the means of strips
    variance  the mean over strips of: variance of the strip + (mean of the strip - mean) ** 2

A variance is recognized as it is written: `mean((x - mean(x)) ** 2)`, or `sum` in front.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from gpushard._geometry.tiling import Tiling
from gpushard._ops.row import Row
from gpushard._ops.table.elementwise import ufunc_row
from gpushard._ops.table.moments import MEAN
from gpushard._ops.table.reductions import SUM
from gpushard._runtime.nests import LARGE
from gpushard._transforms.graph.graph import Graph, Operation, Var
from gpushard._transforms.graph.layouts import program_for
from gpushard._transforms.graph.ops import RowOp

_FLOATS = np.dtype(np.float32), np.dtype(np.float64)
_ADD, _SUBTRACT, _MULTIPLY, _SQUARE = (
    RowOp(ufunc_row(ufunc), ()) for ufunc in (np.add, np.subtract, np.multiply, np.square)
)

_STRIP = 64, 1 << 16
"""The fewest and the most elements of a strip. Shorter ones would be many, longer ones would not
stay in a cache."""


@dataclasses.dataclass(eq=False)
class _Variance:
    """A mean, and a reduction of the squares of distances from it."""

    mean: Operation
    squares: Operation
    axes: tuple[int, ...]  # those of a strip, from the end


def by_strips(graph: Graph) -> Graph:
    """Compute variances of large arrays strip by strip, where a reduced axis is split."""
    steps = graph.needed()
    variances = _variances(steps)
    if not variances:
        return graph
    of_mean: dict[Operation, list[_Variance]] = {}
    for variance in variances:
        of_mean.setdefault(variance.mean, []).append(variance)
    of_squares = {variance.squares: variance for variance in variances}
    strips: dict[Operation, Var] = {}  # for each mean and each sum of squares those of strips
    now: dict[Var, Var] = {}
    new: list[Operation] = []

    def add(op: RowOp, *operands: Var) -> Var:
        new.append(_laid_out(op, operands, step.scope))
        return new[-1].results[0]

    for step in steps:
        if step in of_mean:
            x, axes = _of(step.arrays[0], now), of_mean[step][0].axes
            strips[step] = add(RowOp(MEAN, (axes, True, None)), x)
            apart = add(_SUBTRACT, x, strips[step])
            squares = add(_MULTIPLY, apart, apart)
            for variance in of_mean[step]:
                op = RowOp(_op(variance.squares).row, (axes, True, None))
                strips[variance.squares] = add(op, squares)
            now[step.results[0]] = add(_op(step), strips[step])
        elif step in of_squares:
            variance = of_squares[step]
            apart = add(_SUBTRACT, strips[variance.mean], now[variance.mean.results[0]])
            squares = add(_MULTIPLY, apart, apart)
            if _op(step).row is SUM:
                size = math.prod(variance.mean.arrays[0].shape[axis] for axis in variance.axes)
                times = dataclasses.replace(_MULTIPLY, numbers=(float(size),), scalars=(1,))
                squares = add(times, squares)
            now[step.results[0]] = add(_op(step), add(_ADD, strips[step], squares))
        else:
            operands = tuple([_of(x, now) if isinstance(x, Var) else x for x in step.operands])
            new.append(dataclasses.replace(step, operands=operands))
    if not all(_lie_alike(old, x) for old, x in now.items()):
        return graph
    return dataclasses.replace(graph, steps=new, results=[_of(x, now) for x in graph.results])


def _variances(steps: Sequence[Operation]) -> list[_Variance]:
    """Find variances that are better computed by strips."""
    makers = {x: step for step in steps for x in step.results}
    variances = []
    for squares in steps:
        of_squares = _squared(squares, makers)
        apart = makers.get(of_squares) if of_squares is not None else None
        if apart is None or not _is(apart, _SUBTRACT) or len(apart.arrays) < 2:
            continue
        x, mean = apart.arrays[0], makers.get(apart.arrays[1])
        if mean is None or not _reduces(mean, (MEAN,)) or mean.arrays[0] is not x:
            continue
        axes, keepdims, _ = _op(mean).params
        if not keepdims or {*axes} != {*_op(squares).params[0]}:
            continue
        strip = _strip(x.tiling, axes)
        if math.prod(x.shape) >= LARGE and strip and apart.results[0].shape == x.shape:
            variances.append(_Variance(mean, squares, strip))
    return variances


def _squared(step: Operation, makers: dict[Var, Operation]) -> Var | None:
    """Return the value that is squared and then reduced by an operation; None for others."""
    maker = makers.get(step.arrays[0]) if _reduces(step, (MEAN, SUM)) else None
    if maker is not None and (_is(maker, _SQUARE) or _is(maker, _MULTIPLY)):
        x, *others = maker.operands
        if isinstance(x, Var) and all(other is x for other in others):
            return x
    return None


def _reduces(step: Operation, rows: Sequence[Row]) -> bool:
    """Whether an operation is one of some reductions, of floats, and lies as dispatch chooses."""
    op, results = step.op, step.results
    if not isinstance(op, RowOp) or op.row not in rows or op.out is not None:
        return False
    return bool(step.arrays) and step.arrays[0].dtype == results[0].dtype in _FLOATS


def _is(step: Operation, op: RowOp) -> bool:
    """Whether an operation is that of a row, and takes no number."""
    return isinstance(step.op, RowOp) and step.op.row is op.row and not step.op.numbers


def _strip(tiling: Tiling, axes: Sequence[int]) -> tuple[int, ...]:
    """Return the last axes that all are reduced, if none is split but another one is.

    Without a split axis, one kernel may do all. It keeps what it reads, not strips alone.
    """
    split = [
        axis
        for axis in range(-len(tiling.shape), 0)
        if (tiling.stops[axis] - tiling.starts[axis] < tiling.shape[axis]).any()
    ]
    last: list[int] = []
    while (axis := -1 - len(last)) in axes and axis not in split:
        last.insert(0, axis)
    least, most = _STRIP
    if least <= math.prod(tiling.shape[axis] for axis in last) <= most and {*split} & {*axes}:
        return tuple(last)
    return ()


def _op(step: Operation) -> RowOp:
    assert isinstance(step.op, RowOp)
    return step.op


def _of(x: Var, now: dict[Var, Var]) -> Var:
    return now.get(x, x)


def _laid_out(op: RowOp, operands: tuple[Var, ...], scope: str) -> Operation:
    """Make an operation that lies as dispatch chooses."""
    program = program_for(op, operands)
    results = [
        Var(x.aval.dtype, x.tiling, x.sharding, program.committed, x.aval.weak)
        for x in program.results
    ]
    return Operation(op, operands, tuple(results), program.bytes_received, scope)


def _lie_alike(x: Var, y: Var) -> bool:
    """Whether two values have one layout and type."""
    alike = x.tiling is y.tiling and x.sharding == y.sharding
    return alike and (x.committed, x.weak, x.dtype) == (y.committed, y.weak, y.dtype)
