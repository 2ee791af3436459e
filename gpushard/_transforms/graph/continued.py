"""Find the argument that a result continues: in `x + f(x)`, the result continues `x`.

A result continues an argument if operations that keep dims, shape and type lead from one to the
other. Such a result is often the argument of the next call: a residual stream, or parameters after
a step of training.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpushard._transforms.graph.graph import Graph, Operation, Var
from gpushard._transforms.graph.ops import RowOp


def continued(graph: Graph, steps: Sequence[Operation]) -> dict[Var, Var]:
    """Return the arguments that results continue, for results that lie in another way.

    Args:
      graph: the graph.
      steps: those of its operations that are needed.
    """
    makers = {x: step for step in steps for x in step.results}
    arguments = set(graph.inputs)
    kinds = {(x.shape, x.dtype) for x in arguments}
    arguments_of: dict[Var, Var] = {}
    for x in graph.results:
        argument = _first(x, makers, arguments) if (x.shape, x.dtype) in kinds else None
        if argument is not None and _lie_apart(x, argument):
            arguments_of[x] = argument
    return arguments_of


def _lie_apart(x: Var, y: Var) -> bool:
    """Whether two values lie in different ways in the memory of the same devices."""
    kinds = {x.sharding.memory_kind, y.sharding.memory_kind}
    same_devices = set(x.tiling.devices) == set(y.tiling.devices)
    return x.tiling is not y.tiling and same_devices and kinds == {"device"}


def _first(x: Var, makers: dict[Var, Operation], arguments: set[Var]) -> Var | None:
    """Return the argument that a value continues: by the first operand that continues one."""
    waiting, seen = [x], set[Var]()
    while waiting:
        x = waiting.pop()
        if x in arguments:
            return x
        if x not in seen and x in makers:
            seen.add(x)
            waiting += reversed(_continued_operands(x, makers[x]))
    return None


def _continued_operands(x: Var, step: Operation) -> list[Var]:
    """Return the operands with the dims, the shape and the type of a result."""
    if not isinstance(step.op, RowOp) or step.op.row.creates or not step.arrays:
        return []
    rule = step.op.row.rule_for(step.op.avals(step.operands), step.op.params)
    (number,) = [n for n, y in enumerate(step.results) if y is x]
    others = [dims for n, dims in enumerate(rule.operands) if n not in step.op.scalars]
    return [
        y
        for y, dims in zip(step.operands, others, strict=True)
        if isinstance(y, Var)
        and (y.shape, y.dtype) == (x.shape, x.dtype)
        and dims == rule.results[number]
    ]
