"""What a function makes of constants alone is made once, when it is compiled, where it is small."""

from __future__ import annotations

import dataclasses
from typing import Any

from gpushard.movement.buffer import ShardedBuffer
from gpushard.transforms.graph.graph import Graph, Step, Var
from gpushard.transforms.graph.ops import Reshard, RowOp
from gpushard.transforms.tracing.executable import array_of, prepare

_MOST = 1 << 14
"""Bytes of all shards of such a value."""


def folded(graph: Graph) -> Graph:
    """Return a graph that has constants for small values which do not depend on arguments.

    Results are made each time: they belong to who asked for them.
    """
    held: dict[Var, ShardedBuffer] = {
        x: array._live() for x, array in graph.constants.items() if x.nbytes <= _MOST
    }
    made: dict[Var, ShardedBuffer] = {}
    results, steps = set(graph.results), []
    for step in graph.needed():
        if _is_constant(step, held) and results.isdisjoint(step.results):
            buffers = prepare(step.op, step).run([held[x] for x in step.arrays], step.op.numbers)
            new = dict(zip(step.results, buffers, strict=True))
            held |= new
            made |= new
        else:
            steps.append(step)
    if not made:
        return graph
    taken = {x for step in steps for x in step.arrays}
    constants: dict[Var, Any] = {
        x: array_of(buffer, x, keys=False) for x, buffer in made.items() if x in taken
    }
    return dataclasses.replace(graph, steps=steps, constants=graph.constants | constants)


def _is_constant(step: Step, held: dict[Var, ShardedBuffer]) -> bool:
    """Whether an operation is one on small constants, and makes small values."""
    return (
        isinstance(step.op, RowOp | Reshard)
        and all(x.nbytes <= _MOST for x in step.results)
        and all(isinstance(x, Var) and x in held for x in step.operands)
    )
