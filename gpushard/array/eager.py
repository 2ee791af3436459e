"""Operations on plain arrays: they run at once, where their operands lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.array.array import Array
from gpushard.array.checks import check_dtype
from gpushard.array.guards import HOST_TO_DEVICE, check_transfer
from gpushard.errors import ArgumentTypeError
from gpushard.geometry.sharding import Sharding
from gpushard.movement.buffer import ShardedBuffer
from gpushard.ops.aval import Aval
from gpushard.ops.dispatch import Program, program_for
from gpushard.ops.operand import Hosted, Operand, Scalar, Sharded
from gpushard.ops.row import Params, Row
from gpushard.ops.scalars import KINDS
from gpushard.runtime.runtime import Runtime
from gpushard.typing import HostArray


class Eager:
    """The interpreter of plain arrays."""

    level = 0

    def bind(
        self, row: Row, args: Sequence[Any], params: Params, out_sharding: Sharding | None = None
    ) -> Any:
        """Run an operation and return its result, or a tuple of several."""
        key: list[Any] = [row, params, out_sharding]
        buffers: list[Any] = []
        numbers: list[Any] = []
        runtime: Runtime | None = None
        for arg in args:
            kind = type(arg)
            if kind is Array:
                held = arg._held()
                buffer, runtime = held.buffer, held.runtime
                buffers.append(buffer)
                key += (buffer.tiling, arg._dtype, arg._committed, arg._weak_type)
            elif kind in KINDS and row.reduction is None:
                numbers.append(arg)
                key.append(kind)
            elif isinstance(arg, np.generic) and row.reduction is None:
                numbers.append(arg)
                key.append(arg.dtype)
            else:
                data = _host_data(row, arg)
                buffers.append(data)
                key += (data.shape, data.dtype)
        cached = tuple(key)
        if runtime is None:
            raise ArgumentTypeError(
                f"{row.name} got no gpushard array; place its operands with device_put first",
                argument="x",
            )
        program: Program | None = runtime.plans.get(cached)
        if program is None:
            operands = [_operand(row, arg) for arg in args]
            if _moved_meanwhile(operands, buffers):
                return self.bind(row, args, params, out_sharding)
            program = program_for(row, cached, operands, params, runtime, out_sharding)
        made = program.run(buffers, numbers)
        if len(made) == 1:
            (result,) = program.results
            weak = result.aval.weak
            return Array(made[0], result.sharding, committed=program.committed, weak_type=weak)
        return tuple(
            Array(buffer, result.sharding, committed=program.committed, weak_type=result.aval.weak)
            for buffer, result in zip(made, program.results, strict=True)
        )


def _moved_meanwhile(operands: Sequence[Operand], buffers: Sequence[Any]) -> bool:
    """Whether an assignment on another thread has taken an operand to other devices."""
    arrays = (buffer for buffer in buffers if type(buffer) is ShardedBuffer)
    placed = (x for x in operands if isinstance(x, Sharded))
    return any(x.tiling is not buffer.tiling for x, buffer in zip(placed, arrays, strict=True))


def _host_data(row: Row, arg: Any) -> HostArray:
    """Return an operand that is on the host as a NumPy array."""
    if isinstance(arg, Array):  # of a subclass
        raise ArgumentTypeError(f"{row.name}: subclasses of Array are not supported", argument="x")
    numeric = isinstance(arg, np.ndarray | np.generic | list | tuple | bool | int | float | complex)
    if not numeric and not hasattr(arg, "__array__"):
        raise ArgumentTypeError(
            f"{row.name} got a {type(arg).__name__}; operands are arrays and numbers",
            argument="x",
            type=type(arg),
        )
    data = np.asarray(arg)
    check_dtype(data.dtype, "x")
    if data.ndim:
        check_transfer(HOST_TO_DEVICE, f"an operand of {row.name} on the host", explicit=False)
    return data


def _operand(row: Row, arg: Any) -> Operand:
    if type(arg) is Array:
        aval = Aval(arg.shape, arg.dtype, arg.weak_type)
        sharding, committed = arg.sharding, arg.committed  # before the data, which change last
        return Sharded(aval, arg._live().tiling, sharding, committed)
    if row.reduction is None:
        if type(arg) in KINDS:
            return Scalar(KINDS[type(arg)])
        if isinstance(arg, np.generic):
            return Scalar(Aval((), arg.dtype))
    data = np.asarray(arg)
    return Hosted(Aval(data.shape, data.dtype, type(arg) in KINDS and type(arg) is not bool))
