"""Run operations on plain arrays immediately, where their operands lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._array.array import Array, ConcreteArray
from gpushard._array.data import Data, Handle, Turned, array_of_buffer, data_of
from gpushard._array.guards import HOST_TO_DEVICE, check_transfer
from gpushard._functions.element_types import check_dtype
from gpushard._geometry.sharding import Sharding
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.reshard import move
from gpushard._movement.sharding_devices import place_tiling
from gpushard._ops.aval import Aval
from gpushard._ops.dispatch import as_they_lie, case_and_key, check_out, create, make_program
from gpushard._ops.operand import Hosted, Sharded
from gpushard._ops.row import Case, Params, Row
from gpushard._ops.scalars import KINDS, WEAK_KINDS
from gpushard._ops.steps import Program
from gpushard._runtime.reclaim import name_operation
from gpushard._runtime.runtime import Runtime
from gpushard._typing import HostArray
from gpushard.errors import ArgumentTypeError


class Eager:
    """The interpreter of plain arrays."""

    level = 0

    def bind(
        self, row: Row, args: Sequence[Any], params: Params, out_sharding: Sharding | None = None
    ) -> Any:
        """Run an operation and return its result, or a tuple of several."""
        if out_sharding is not None:
            check_out(row, out_sharding)
        given_args, given_params = args, params
        if row.turned is not None:
            for arg in args:  # most are in order: no call needed
                if type(arg) is ConcreteArray and type(arg._data) is Turned:
                    args, params = as_they_lie(row, args, params, _source)
                    break
        key: list[Any] = [row, row.key(params) if row.exact else params, out_sharding]
        buffers: list[Any] = []
        numbers: list[Any] = []
        held: Any = None
        for arg in args:  # must make the key that `case_and_key` makes
            if type(arg) is ConcreteArray:
                held = arg._data
                if type(held) is not Data:
                    held = data_of(arg)
                buffer = held.buffer
                buffers.append(buffer)
                key += (buffer.tiling, arg._dtype, arg._committed, arg._weak_type)
            elif (kind := type(arg)) in KINDS and row.takes_numbers:
                numbers.append(arg)
                key.append(kind)
            elif isinstance(arg, np.generic) and row.takes_numbers:
                numbers.append(arg)
                key.append(arg.dtype)
            else:
                data = host_data(row, arg)
                buffers.append(data)
                key += (data.shape, data.dtype, kind in WEAK_KINDS)
        cached = tuple(key)
        if held is None:
            if row.creates and out_sharding is not None:
                try:
                    return _create(row, numbers, params, out_sharding)
                except MemoryError as error:
                    raise name_operation(error, row.name, None) from None
            raise ArgumentTypeError(
                f"{row.name} got no gpushard array; place its operands with device_put first",
                argument="x",
            )
        runtime = held.runtime
        program: Program | None = runtime.plans.get(cached)
        if program is None:
            case, fresh_key = case_and_key(row, args, params, out_sharding, _operand_of(buffers))
            if fresh_key != cached:  # another thread assigned to an operand meanwhile
                return self.bind(row, args, params, out_sharding)
            if args is not given_args:
                _check_given(case, given_args, given_params)
            program = make_program(case, cached)
        if row.later and out_sharding is None:
            return _transpose_later(args[0], buffers[0], params[0], program, runtime)
        try:
            result = program.run(buffers, numbers)
        except MemoryError as error:  # maybe from a library that a kernel calls
            raise name_operation(error, row.name, getattr(program, "moves", None)) from None
        if len(result) > 1:
            return _arrays(result, program, runtime)
        form = program.results[0]
        aval, committed = form.aval, program.committed
        return array_of_buffer(
            ConcreteArray, result[0], runtime, aval.dtype, form.sharding, committed, aval.weak
        )


EAGER = Eager()
"""The interpreter of plain arrays; callers that know their operands call it directly."""


def _arrays(
    buffers: Sequence[ShardedBuffer], program: Program, runtime: Runtime
) -> tuple[ConcreteArray, ...]:
    """Wrap several results as arrays.

    Not a part of `bind`, since a closure would make its variables slower to read.
    """
    return tuple([
        array_of_buffer(
            ConcreteArray, buffer, runtime, form.aval.dtype, form.sharding, program.committed,
            form.aval.weak,
        )
        for buffer, form in zip(buffers, program.results, strict=True)
    ])  # fmt: skip


def _create(row: Row, numbers: Sequence[Any], params: Params, sharding: Sharding) -> ConcreteArray:
    """Run an operation on numbers, and place the result."""
    shape, dtype, committed = params
    tiling = place_tiling(sharding, shape)
    if sharding.memory_kind == "device":
        return ConcreteArray(create(row, tiling, dtype, numbers), sharding, committed=committed)
    inside = sharding.with_memory_kind("device").tiling(shape)
    buffer = create(row, inside, dtype, numbers)
    return ConcreteArray(move(buffer, tiling), sharding, committed=committed)


def _transpose_later(
    x: ConcreteArray, data: ShardedBuffer, axes: tuple[int, ...], program: Program, runtime: Runtime
) -> ConcreteArray:
    """Transpose an array, without moving data until they are needed in order."""
    (result,) = program.results
    source = x._handle(Data(data, runtime), x._sharding, registered=False)
    turned = Turned(
        source, axes, lambda buffer: program.run([buffer], ())[0], result.tiling, runtime
    )
    return x._handle(turned, result.sharding)


def _check_given(case: Case, args: Sequence[Any], params: Params) -> None:
    """Check operands in the order of the call, so errors refer to that order."""
    pairs = zip(args, case.avals, strict=True)
    avals = [_aval(arg) if type(arg) is ConcreteArray else aval for arg, aval in pairs]
    case.row.infer(avals, params)


def _source(arg: Any) -> tuple[Handle, tuple[int, ...]] | None:
    """Return the source of a transposed operand and the axes, or the operand itself."""
    if type(arg) is ConcreteArray and type(data := arg._data) is Turned:
        return data.source, data.axes
    return None


def _operand_of(buffers: Sequence[Any]) -> Callable[[Any], Sharded | Hosted]:
    """Return the function `operand_of` for plain arrays.

    It is called once for each operand that is not a number, in order. `buffers` has their data.
    """
    remaining = iter(buffers)

    def operand_of(arg: Any) -> Sharded | Hosted:
        data = next(remaining)
        if type(arg) is ConcreteArray:
            sharding, committed = arg.sharding, arg.committed  # before the data, which change last
            return Sharded(_aval(arg), arg._live().tiling, sharding, committed)
        return Hosted(Aval(data.shape, data.dtype, type(arg) in WEAK_KINDS))

    return operand_of


def _aval(x: ConcreteArray) -> Aval:
    return Aval(x.shape, x.dtype, x.weak_type)


def host_data(row: Row, arg: Any) -> HostArray:
    """Convert an operand on the host to a NumPy array."""
    if isinstance(arg, Array):  # a subclass
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
