"""Lay out operations of a graph again: for operands in other layouts than those recorded."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import UNCONSTRAINED, PartitionSpec
from gpushard._geometry.sharding import Sharding
from gpushard._geometry.tiling import Tiling
from gpushard._ops.aval import Aval
from gpushard._ops.dispatch import case_and_key, program_of
from gpushard._ops.operand import Hosted, Literal, Sharded
from gpushard._ops.programs.bring import lacking
from gpushard._ops.row import Case
from gpushard._ops.steps import Program
from gpushard._transforms.graph.graph import Operation, Var
from gpushard._transforms.graph.ops import Reshard, RowOp


def operand_of(x: Var | Literal) -> Sharded | Hosted:
    """Describe an operand for dispatch."""
    aval = Aval(x.shape, x.dtype, x.weak)
    if isinstance(x, Literal):
        return Hosted(aval)
    return Sharded(aval, x.tiling, x.sharding, x.committed)


def case_of(op: RowOp, operands: Sequence[Var | Literal], out: Sharding | None) -> Case:
    """Describe an operation for dispatch, on operands in any layout."""
    return case_and_key(op.row, op.args(operands), op.params, out, operand_of)[0]


def program_for(op: RowOp, operands: Sequence[Var | Literal]) -> Program:
    """Return the program that dispatch has for an operation on operands, or make it."""
    return program_of(*case_and_key(op.row, op.args(operands), op.params, op.out, operand_of))


def bound(
    step: Operation,
    operands: Sequence[Var | Literal],
    out: Sharding | None,
    moved: int | None = None,
) -> Operation:
    """Lay out an operation of the table for operands in any layout.

    Args:
      step: the operation.
      operands: its new operands.
      out: sharding of its results; None for the one that dispatch chooses.
      moved: bytes that devices receive; None for those that its program counts.
    """
    assert isinstance(step.op, RowOp)
    op = dataclasses.replace(step.op, out=out)
    program = program_for(op, operands)
    results = [
        Var(old.dtype, new.tiling, new.sharding, old.committed, old.weak)
        for old, new in zip(step.results, program.results, strict=True)
    ]
    moved = program.bytes_received if moved is None else moved
    return Operation(op, tuple(operands), tuple(results), moved, step.scope)


def resharded(
    x: Var, sharding: Sharding, wanted: Sharding | None = None, watch: str = ""
) -> Operation:
    """Make the operation that brings a value to a sharding.

    Args:
      x: the value.
      sharding: the sharding of the result.
      wanted: the sharding that a user asked for, which may leave dims open; None if no user did.
      watch: the message of a gather guard.
    """
    to = sharding.tiling(x.shape)
    chosen = wanted is not None or x.committed
    result = Var(x.dtype, to, sharding, committed=chosen, weak=x.weak)
    return Operation(Reshard(wanted, watch), (x,), (result,), received(x, to))


def received(x: Var, to: Tiling) -> int:
    """Count the bytes that devices receive to bring a value to a tiling, each its own domain."""
    return lacking(x.tiling, to) * x.dtype.itemsize


def closed(sharding: Sharding, lies: Sharding | None) -> Sharding:
    """Close the open dims of a sharding: split them as sharding `lies` does, if axes are left."""
    if not isinstance(sharding, NamedSharding) or not sharding.leaves_open:
        return sharding
    used = set(sharding.spec.all_axes())
    own = PartitionSpec()
    if isinstance(lies, NamedSharding) and lies.mesh == sharding.mesh:
        own = lies.spec
    entries: list[Any] = []
    for dim, entry in enumerate(sharding.spec):
        if entry is UNCONSTRAINED:
            entry = tuple([axis for axis in own.axes(dim) if axis not in used])
        entries.append(entry)
    return sharding.with_spec(PartitionSpec(*entries))


def keeps(sharding: Sharding, wanted: Sharding | None) -> bool:
    """Whether a sharding agrees with the one that a user wants, which may leave dims open."""
    return wanted is None or sharding == closed(wanted, sharding)
