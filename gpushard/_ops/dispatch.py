"""Dispatch: compile a row once for operands of the same shapes, types and shardings.

The first call chooses the split of the work, plans moves and makes kernels. The result is a
program, which later calls only run. Calls with the same key, from `case_and_key`, share a program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpushard._geometry.sharding import Sharding
from gpushard._geometry.tiling import Tiling
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.sharding_devices import devices_of
from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.operand import Hosted, Operand, Scalar, Sharded
from gpushard._ops.programs.calls import CallPlan, LocalCalls, calls_of
from gpushard._ops.row import Case, Params, Row
from gpushard._ops.scalars import aval_of_number, is_number, kind_of_number
from gpushard._ops.shardings import check_available, sharded_call
from gpushard._ops.steps import Program
from gpushard._runtime.runtime import Runtime
from gpushard.errors import ArgumentTypeError

_KEY_BYTES = 200  # approximate bytes of an operand in a program's key and layout


def check_out(row: Row, out: Any) -> None:
    """Check that `out_sharding` is a sharding."""
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
    """Return the case of an operation, and the key of its program.

    The interpreter of plain arrays makes the same key in its own, faster loop.

    Args:
      row: the operation.
      args: its operands, including numbers.
      params: its parameters.
      out: the sharding of its results; None does not move them.
      operand_of: converts an operand that is not a number for dispatch.
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
            runtime = runtime or devices_of(x.tiling)[0].runtime
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
    """Replace transposed operands by their sources, and convert the parameters.

    Args:
      row: the operation, which converts its parameters.
      args: the operands.
      params: the parameters.
      source: returns the source of a transposed operand, and the axes from the end.
    """
    assert row.turned is not None
    for position, arg in enumerate(args):
        if (transposed := source(arg)) is not None:
            args = [*args[:position], transposed[0], *args[position + 1 :]]
            params = row.turned(params, position, transposed[1])
    return args, params


def program_of(case: Case, key: tuple[Any, ...]) -> Program:
    """Return the program of an operation; make it if there is none yet."""
    program: Program | None = case.runtime.plans.get(key)
    return make_program(case, key) if program is None else program


def make_program(case: Case, key: tuple[Any, ...]) -> Program:
    """Make and cache the program of an operation."""
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
    """Create an array from numbers, which the row's kernel takes after the site.

    Each device computes its own shard.
    """
    runtime = devices_of(tiling)[0].runtime
    check_available(runtime, row.name, (Aval((), dtype),))
    key = (row, tiling, dtype)
    program: LocalCalls | None = runtime.plans.get(key)
    if program is None:
        kernel = row.kernel(runtime.backend.namespace, (), (tiling.shape, dtype))
        calls, of_device = calls_of(row, (), [tiling])
        plan = CallPlan(runtime, row.name, kernel, calls, of_device, [tiling], [dtype])
        program = LocalCalls(plan, light=True)
        runtime.plans.put(key, program, 3000 + 500 * len(tiling.devices))
    (buffer,) = program.run((), list(enumerate(numbers)))
    return buffer
