"""Dispatch: rows on sharded buffers or on none, compiled once for operands of a kind.

The first call chooses how the work is split, plans what has to move and makes the kernels; what it
finds is a program, which later calls only run. `case_and_key` says which calls have one program in
common: those with the same key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpushard.errors import ArgumentTypeError
from gpushard.geometry.sharding import Sharding
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer, devices_of
from gpushard.ops.aval import Aval, Dtype
from gpushard.ops.operand import Hosted, Operand, Scalar, Sharded
from gpushard.ops.programs.calls import LocalCalls, Work, calls_of
from gpushard.ops.row import Case, Params, Program, Row
from gpushard.ops.scalars import aval_of_number, is_number, kind_of_number
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


def case_and_key(
    row: Row,
    args: Sequence[Any],
    params: Params,
    out: Sharding | None,
    operand_of: Callable[[Any], Sharded | Hosted],
) -> tuple[Case, tuple[Any, ...]]:
    """Return an operation as dispatch sees it, and the key of its program.

    The interpreter of plain arrays makes the same key for itself, in a loop that is fast.

    Args:
      row: the operation.
      args: its operands, numbers among them.
      params: its parameters.
      out: how its results are laid out; None for as they come.
      operand_of: returns what dispatch sees of an operand that is no number.
    """
    key: list[Any] = [row, row.key(params), out]
    operands: list[Operand] = []
    runtime: Runtime | None = None
    for arg in args:
        if row.takes_numbers and is_number(arg):
            operands.append(Scalar(aval_of_number(arg)))
            key.append(kind_of_number(arg))
            continue
        x = operand_of(arg)
        operands.append(x)
        if isinstance(x, Sharded):
            key += (x.tiling, x.aval.dtype, x.committed, x.aval.weak)
            runtime = devices_of(x.tiling)[0].runtime
        else:
            key += (x.aval.shape, x.aval.dtype, x.aval.weak)
    assert runtime is not None
    return Case(row, tuple(operands), params, runtime, out), tuple(key)


def as_they_lie(
    row: Row,
    args: Sequence[Any],
    params: Params,
    source: Callable[[Any], tuple[Any, tuple[int, ...]] | None],
) -> tuple[Sequence[Any], Params]:
    """Return transposed operands as they were before that, and parameters for these.

    Args:
      row: the operation; it says what becomes of its parameters.
      args: the operands.
      params: the parameters.
      source: of an operand that is a transposed array, that array, and the axes from the end.
    """
    assert row.turned is not None
    for position, arg in enumerate(args):
        if (found := source(arg)) is not None:
            args = [*args[:position], found[0], *args[position + 1 :]]
            params = row.turned(params, position, found[1])
    return args, params


def program_of(case: Case, key: tuple[Any, ...]) -> Program:
    """Return the program of an operation, made if there is none yet."""
    program: Program | None = case.runtime.plans.get(key)
    return make_program(case, key) if program is None else program


def make_program(case: Case, key: tuple[Any, ...]) -> Program:
    """Make and keep the program of an operation."""
    row, runtime = case.row, case.runtime
    for x in case.operands:
        if isinstance(x, Sharded) and devices_of(x.tiling)[0].runtime is not runtime:
            raise ArgumentTypeError(
                f"{row.name} got arrays of different runtimes; take all devices from one "
                "gpushard.devices()",
                argument="x",
            )
    strategy, call = sharded_call(case)
    program = strategy.compile(case, call)
    runtime.plans.put(key, program, program.nbytes + _KEY_BYTES * len(case.operands))
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
