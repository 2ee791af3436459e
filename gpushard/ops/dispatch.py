"""Eager dispatch: rows on sharded buffers or on none, compiled once for operands of a kind.

The first call chooses how the work is split, plans what has to move and makes the kernels; what it
finds is a program, which later calls only run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpushard.errors import ArgumentTypeError
from gpushard.geometry.sharding import Sharding
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer, devices_of
from gpushard.ops.aval import Aval, Dtype
from gpushard.ops.operand import Operand, Sharded
from gpushard.ops.programs.calls import LocalCalls, Work, calls_of
from gpushard.ops.row import Case, Params, Program, Row
from gpushard.ops.shardings import check_available, sharded_call
from gpushard.runtime.runtime import Runtime

_KEY_BYTES = 200  # bytes that an operand takes in a program's key and in its layout, about


def check_out(row: Row, out: Any) -> None:
    """Check that a place for results is one."""
    if not isinstance(out, Sharding):
        raise ArgumentTypeError(
            f"{row.name}: out_sharding={out!r} must be a Sharding; the functions of gpushard.numpy "
            "take a PartitionSpec, too",
            argument="out_sharding",
            value=out,
        )


def program_for(
    row: Row,
    key: tuple[Any, ...],
    operands: Sequence[Operand],
    params: Params,
    runtime: Runtime,
    out: Sharding | None = None,
) -> Program:
    """Make and keep the program of a row for operands of a kind."""
    for x in operands:
        if isinstance(x, Sharded) and devices_of(x.tiling)[0].runtime is not runtime:
            raise ArgumentTypeError(
                f"{row.name} got arrays of different runtimes; take all devices from one "
                "gpushard.devices()",
                argument="x",
            )
    case = Case(row, tuple(operands), params, runtime, out)
    strategy, call = sharded_call(case)
    program = strategy.compile(case, call)
    runtime.plans.put(key, program, program.nbytes + _KEY_BYTES * len(operands))
    return program


def create(row: Row, tiling: Tiling, dtype: Dtype, numbers: Sequence[Any]) -> ShardedBuffer:
    """Make an array of nothing but numbers, which the row's kernel takes after the site.

    Each shard is made where it will live.
    """
    runtime = devices_of(tiling)[0].runtime
    check_available(runtime, row.name, (Aval((), dtype),))
    key = (row, tiling, dtype)
    program: LocalCalls | None = runtime.plans.get(key)
    if program is None:
        kernel = row.kernel(runtime.backend.namespace, (), (tiling.shape, dtype))
        calls, of_device = calls_of(row, (), [tiling])
        work = Work(runtime, row.name, kernel, calls, of_device, [tiling], [dtype])
        program = LocalCalls(work, light=True)
        runtime.plans.put(key, program, 3000 + 500 * len(tiling.devices))
    (made,) = program.run((), list(enumerate(numbers)))
    return made
