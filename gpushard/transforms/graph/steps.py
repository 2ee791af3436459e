"""Operations of a graph, for values that lie elsewhere than when they were recorded."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import UNCONSTRAINED, PartitionSpec
from gpushard.geometry.sharding import Sharding
from gpushard.geometry.tiling import Tiling
from gpushard.ops.aval import Aval
from gpushard.ops.dispatch import case_and_key, program_of
from gpushard.ops.operand import Hosted, Literal, Sharded
from gpushard.ops.row import Case, Program
from gpushard.transforms.graph.graph import Step, Var
from gpushard.transforms.graph.ops import Move, RowOp
from gpushard.typing import IntArray


def operand_of(x: Var | Literal) -> Sharded | Hosted:
    """Return an operand as dispatch sees it."""
    aval = Aval(x.shape, x.dtype, x.weak)
    if isinstance(x, Literal):
        return Hosted(aval)
    return Sharded(aval, x.tiling, x.sharding, x.committed)


def case_of(op: RowOp, operands: Sequence[Var | Literal], out: Sharding | None) -> Case:
    """Return an operation as dispatch sees it, of operands that may lie elsewhere."""
    return case_and_key(op.row, op.args(operands), op.params, out, operand_of)[0]


def program_for(op: RowOp, operands: Sequence[Var | Literal]) -> Program:
    """Return the program of an operation on operands, made if there is none yet."""
    return program_of(*case_and_key(op.row, op.args(operands), op.params, op.out, operand_of))


def bound(
    step: Step, operands: Sequence[Var | Literal], out: Sharding | None, moved: int | None = None
) -> Step:
    """Return an operation of the table, of operands that may lie elsewhere.

    Args:
      step: the operation.
      operands: its operands.
      out: where its results go; None for as they come.
      moved: bytes that devices receive; None for as many as its program says.
    """
    assert isinstance(step.op, RowOp)
    op = dataclasses.replace(step.op, out=out)
    program = program_for(op, operands)
    results = [
        Var(old.dtype, new.tiling, new.sharding, old.committed, old.weak)
        for old, new in zip(step.results, program.results, strict=True)
    ]
    moved = program.bytes_received if moved is None else moved
    return Step(op, tuple(operands), tuple(results), moved)


def resharded(x: Var, sharding: Sharding, wanted: Sharding | None = None, watch: str = "") -> Step:
    """Return what brings a value to a sharding.

    Args:
      x: the value.
      sharding: where it goes.
      wanted: what a user asked for, where dims may be open; None where no user did.
      watch: what a gather guard says of it.
    """
    to = sharding.tiling(x.shape)
    chosen = wanted is not None or x.committed
    result = Var(x.dtype, to, sharding, committed=chosen, weak=x.weak)
    return Step(Move(wanted, watch), (x,), (result,), received(x, to))


def received(x: Var, to: Tiling) -> int:
    """Return the bytes that devices receive as a value goes to other boxes, each a domain."""
    return lacking(x.tiling, to) * x.dtype.itemsize


def lacking(own: Tiling, to: Tiling) -> int:
    """Return the elements that devices need of other boxes and do not have."""
    return 0 if own is to else int(lacking_each(own, to).sum())


@functools.lru_cache(maxsize=4096)
def lacking_each(own: Tiling, to: Tiling) -> IntArray:
    """Return the same for each device."""
    at = {device: n for n, device in enumerate(own.devices)}
    places = np.array([at.get(device, -1) for device in to.devices], np.int64)
    common: IntArray = np.asarray(places >= 0, np.int64)
    for dim in range(len(own.shape)):
        low = np.maximum(own.starts[dim][places], to.starts[dim])
        high = np.minimum(own.stops[dim][places], to.stops[dim])
        common = common * np.maximum(high - low, 0)
    return np.asarray(to.volumes - common)


def closed(sharding: Sharding, lies: Sharding | None) -> Sharding:
    """Return a sharding whose open dims are split as a value lies, where axes are left for them."""
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
    """Whether a sharding splits dims as a user wants who may have left dims open."""
    return wanted is None or sharding == closed(wanted, sharding)
