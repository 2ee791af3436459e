"""Fold constants: compute small values that depend on no argument when a graph is compiled."""

from __future__ import annotations

import dataclasses
from typing import Any

from gpushard._movement.buffer import ShardedBuffer
from gpushard._transforms.graph.graph import Graph, Operation, Var
from gpushard._transforms.graph.ops import Reshard, RowOp
from gpushard._transforms.tracing.executable import array_of, prepare

_MOST = 1 << 14
"""Most bytes of such a value, all shards together."""


def fold_constants(graph: Graph) -> Graph:
    """Replace operations on small constants by their results, as constants of a new graph.

    Results of the graph are computed at each call, since the caller may change them.
    """
    held: dict[Var, ShardedBuffer] = {
        x: array._live() for x, array in graph.constants.items() if x.nbytes <= _MOST
    }
    computed: dict[Var, ShardedBuffer] = {}
    results, steps = set(graph.results), []
    for step in graph.needed():
        if _is_constant(step, held) and results.isdisjoint(step.results):
            buffers = prepare(step.op, step).run([held[x] for x in step.arrays], step.op.numbers)
            new = dict(zip(step.results, buffers, strict=True))
            held |= new
            computed |= new
        else:
            steps.append(step)
    if not computed:
        return graph
    taken = {x for step in steps for x in step.arrays}
    constants: dict[Var, Any] = {
        x: array_of(buffer, x, buffer.runtime, keys=False)
        for x, buffer in computed.items()
        if x in taken
    }
    return dataclasses.replace(graph, steps=steps, constants=graph.constants | constants)


def _is_constant(step: Operation, held: dict[Var, ShardedBuffer]) -> bool:
    """Whether all operands of an operation are small constants, and its results are small."""
    return (
        isinstance(step.op, RowOp | Reshard)
        and all(x.nbytes <= _MOST for x in step.results)
        and all(isinstance(x, Var) and x in held for x in step.operands)
    )
