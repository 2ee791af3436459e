"""What a graph becomes to be run: a flat list of operations that are ready to run.

`prepare` says for each kind of operation what runs it. It is the only place that does.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.array.array import Array, ConcreteArray
from gpushard.array.aval import KEY, KeyDType
from gpushard.array.data import Data, handle
from gpushard.array.key_array import ELEMENT, KeyArray
from gpushard.errors import OutOfMemoryError
from gpushard.movement.buffer import ShardedBuffer, devices_of
from gpushard.movement.host import read_host
from gpushard.movement.reshard import Mover
from gpushard.ops.bind import bind
from gpushard.ops.dispatch import create
from gpushard.ops.gather_guard import check_gather
from gpushard.ops.row import Run, Runnable
from gpushard.ops.table.movement import CONCATENATE, STACK
from gpushard.placement.device_put import device_put
from gpushard.runtime.reclaim import of_operation
from gpushard.transforms.graph.costs import received
from gpushard.transforms.graph.graph import Graph, Op, Step, Var, lines
from gpushard.transforms.graph.ops import (
    Branch,
    Callback,
    For,
    Inline,
    Region,
    Relabel,
    Reshard,
    RowOp,
    Scan,
    Segment,
    Stacked,
    While,
)
from gpushard.transforms.graph.steps import program_for
from gpushard.transforms.regions.regions import fused
from gpushard.transforms.regions.segments import in_segments
from gpushard.transforms.values.relabel import relabelled

SEVERAL = 64
"""So many arrays are put together at once."""


class Executable:
    """A graph that is ready to run.

    Args:
      graph: it; what nobody needs is left out.
    """

    def __init__(self, graph: Graph) -> None:
        self.steps = steps = fused(graph)
        """Operations, regions as one each."""
        self.ready = {step: prepare(step.op, step) for step in steps}
        """What runs each of them, and each of `parts`."""
        self.parts = in_segments(graph, steps, self.ready)
        """What of these is given to devices at once, as one each."""
        self.ready |= {part: prepare(part.op) for part in self.parts if part not in self.ready}
        self.graph = graph
        places: dict[Var, int] = {}

        def place(x: Any) -> int:
            if not isinstance(x, Var):  # data of the host
                hosted.append(x.data)
                return -len(hosted)
            return places.setdefault(x, len(places))

        hosted: list[Any] = []
        for var in (*graph.inputs, *graph.constants):
            place(var)
        calls = [
            (self.ready[step], [place(x) for x in step.operands], step.op.numbers, step.results)
            for step in self.parts
        ]
        results = [place(x) for x in graph.results]
        last: dict[int, int] = {}
        for number, (_, operands, _, made) in enumerate(calls):
            for at in (*operands, *map(place, made)):
                last[at] = number
        kept = {*results, *(places[var] for var in graph.constants)}
        self._calls: list[tuple[Run, list[int], tuple[Any, ...], list[int], list[int]]] = []
        for number, (ready, operands, numbers, made) in enumerate(calls):
            to = [place(x) for x in made]
            ended = {at for at in (*operands, *to) if at >= 0 and last[at] == number} - kept
            self._calls.append((ready.run, operands, numbers, to, sorted(ended)))
        self._results = results
        self._constants = [x._live() for x in graph.constants.values()]
        self._rest = [None] * (len(places) - len(graph.inputs) - len(self._constants))
        self._hosted = hosted[::-1]  # the last places, counted from the end

    @property
    def nbytes(self) -> int:
        """Bytes that it takes with its graph, about; without the arrays that are constants."""
        steps = dict.fromkeys((*self.graph.steps, *self.steps))
        return 4000 + 5000 * len(steps) + sum(ready.nbytes for ready in self.ready.values())

    def text(self) -> str:
        """Return what is run, a line each, and what each moves and launches."""
        return "\n".join(lines(self.graph, self.steps, shardings=True, note=self._noted))

    def launches(self, step: Step) -> int | None:
        """Return how many kernels are launched for an operation; None if it does more than that.

        On the host there are none: each device calls a function.
        """
        ready = self.ready.get(step)
        if ready is None and not step.op.bodies:  # of a loop's text, which has no regions
            ready = prepare(step.op, step)
        launches = None if ready is None else ready.launches(step.op.numbers)
        if launches is not None:
            return len(launches[0].groups)
        host = (
            not step.results or devices_of(step.results[0].tiling)[0].runtime.backend.host_readable
        )
        return 0 if host else None

    def captured(self) -> list[tuple[int, int]]:
        """Return of each segment how many launches it is, and how many a replay of them is."""
        return [part.op.kernels.counts for part in self.parts if isinstance(part.op, Segment)]

    def run(self, inputs: list[Any]) -> list[ShardedBuffer]:
        """Run it.

        Args:
          inputs: buffers of the arguments, in order. The list is used up: those that no array holds
            are let go of as soon as nothing needs them.

        Returns:
          Buffers of the results; some may be among the inputs.

        Raises:
          OutOfMemoryError: a device has no room; what arrays hold has not changed.
        """
        held: list[Any] = inputs  # not a copy, which would keep all of them until the end
        held += (*self._constants, *self._rest, *self._hosted)
        for run, operands, numbers, to, ended in self._calls:
            try:
                made = run([held[at] for at in operands], numbers)
            except MemoryError as error:  # also of a library that a kernel calls
                raise self._explained(error, run) from None
            for at, buffer in zip(to, made, strict=True):
                held[at] = buffer
            made = buffer = None  # type: ignore[assignment]
            for at in ended:
                held[at] = None
        return [held[at] for at in self._results]

    def _explained(self, error: MemoryError, run: Run) -> OutOfMemoryError:
        """Return the error of an operation, which says what operation it is."""
        step, ready = next(x for x in self.ready.items() if x[1].run == run)
        return of_operation(error, step.name, ready.moves)

    def _noted(self, step: Step) -> str:
        """Return what is known of an operation that is not seen from its name."""
        moved = sum(received(step).values())
        launches = self.launches(step)
        notes = [
            step.scope,
            f"{moved:,} bytes received" if moved else "",
            f"launches: {launches}" if launches else "",
        ]
        return "; ".join(filter(None, notes))


def prepare(op: Op, step: Step | None = None) -> Runnable:
    """Return what runs an operation.

    Args:
      op: what it does.
      step: the operation of a graph, for what depends on where operands and results lie.
    """
    match op:
        case RowOp() if step is not None:
            return _Created(op, step) if op.row.creates else program_for(op, step.operands)
        case Reshard() if step is not None:
            return _Resharded(op, step)
        case Relabel() if step is not None:
            return _Relabelled(step)
        case While():
            return _WhileLoop(op)
        case For():
            return _ForLoop(op)
        case Scan():
            return _ScanLoop(op)
        case Branch():
            return _Branches(op)
        case Inline():
            return _Inlined(op)
        case Callback():
            return _Called(op)
        case Region():
            return op.kernel
        case Segment():
            return op.kernels
    raise NotImplementedError(type(op))


class _Created(Runnable):
    """Makes an array of numbers."""

    def __init__(self, op: RowOp, step: Step) -> None:
        (x,) = step.results
        self._row, self._dtype = op.row, x.dtype
        self._tiling, self._mover = x.tiling, None
        if x.sharding.memory_kind != "device":
            self._tiling = x.sharding.with_memory_kind("device").tiling(x.shape)
        if self._tiling is not x.tiling:
            runtime, itemsize = devices_of(x.tiling)[0].runtime, x.dtype.itemsize
            self._mover = Mover(runtime, self._tiling, x.tiling, itemsize, op.name)

    def run(self, operands: Sequence[Any], numbers: Sequence[Any]) -> list[ShardedBuffer]:
        """Make the array."""
        made = create(self._row, self._tiling, self._dtype, numbers)
        return [made if self._mover is None else self._mover(made)]


class _Resharded(Runnable):
    """Brings a value to another sharding."""

    def __init__(self, op: Reshard, step: Step) -> None:
        (x,), (result,) = step.arrays, step.results
        self._mover = None
        if result.tiling is not x.tiling:
            runtime = devices_of(x.tiling)[0].runtime
            self._mover = Mover(runtime, x.tiling, result.tiling, x.dtype.itemsize, op.name)
            self.moves = op.watch or None

    @property
    def nbytes(self) -> int:
        """Bytes that it takes itself, about."""
        return 0 if self._mover is None else self._mover.nbytes

    def run(self, operands: Sequence[Any], numbers: Sequence[Any]) -> list[ShardedBuffer]:
        """Reshard the value."""
        if self._mover is None:
            return [operands[0]]
        if self.moves is not None:
            check_gather(self.moves)
        return [self._mover(operands[0])]


class _Relabelled(Runnable):
    """Reads the memory of a value as blocks of other shapes."""

    def __init__(self, step: Step) -> None:
        self._tiling = step.results[0].tiling

    def run(self, operands: Sequence[Any], numbers: Sequence[Any]) -> list[ShardedBuffer]:
        """Return a buffer of the same memory."""
        return [relabelled(operands[0], self._tiling)]


class _Called(Runnable):
    """Calls a function on the host."""

    def __init__(self, op: Callback) -> None:
        self._call = op.call

    def run(self, operands: Sequence[Any], numbers: Sequence[Any]) -> Sequence[ShardedBuffer]:
        """Call the function."""
        return self._call(operands)


class Control(Runnable):
    """Runs graphs."""

    def __init__(self, op: Op) -> None:
        self.executables = [Executable(body) for body in op.bodies]
        """The graphs, ready to run."""

    @property
    def nbytes(self) -> int:
        """Bytes that it takes itself, about."""
        return sum(own.nbytes for own in self.executables)


class _WhileLoop(Control):
    """Runs a graph as long as another one returns True."""

    def __init__(self, op: While) -> None:
        super().__init__(op)
        self._carries = len(op.body.carried)
        self._ahead = self._carries + op.test.captured

    def run(self, operands: Sequence[Any], numbers: Sequence[Any]) -> list[ShardedBuffer]:
        """Run the loop."""
        test, body = self.executables
        carry = list(operands[: self._carries])
        of_test, of_body = operands[self._carries : self._ahead], operands[self._ahead :]
        while read_host(test.run([*carry, *of_test])[0]).any():
            carry += of_body  # the same list, so that nothing else holds the old values
            carry = body.run(carry)
        return carry


class _ForLoop(Control):
    """Runs a graph a number of times."""

    def __init__(self, op: For) -> None:
        super().__init__(op)
        self._carries = len(op.body.carried)

    def run(self, operands: Sequence[Any], numbers: Sequence[Any]) -> list[ShardedBuffer]:
        """Run the loop as often as a number says, or the first two operands."""
        (body,) = self.executables
        first = 0 if numbers else 1
        ahead = first + self._carries
        carry, captured = list(operands[first:ahead]), operands[ahead:]
        times = numbers[0] if numbers else int(read_host(operands[0])) - int(read_host(carry[0]))
        for _ in range(times):
            carry += captured  # the same list, so that nothing else holds the old values
            carry = body.run(carry)
        return carry[1:]


class _ScanLoop(Control):
    """Runs a graph on each part of arrays."""

    def __init__(self, op: Scan) -> None:
        super().__init__(op)
        self._carries, self._count, self._stacked = op.carries, op.count, op.stacked
        self._arrays = op.carries + len(op.slices)
        # One program for all parts of an array: where a part begins is a number.
        self._slices = [prepare(step.op, step).run for step in op.slices]
        self._order = range(op.count - 1, -1, -1) if op.reverse else range(op.count)

    def run(self, operands: Sequence[Any], numbers: Sequence[Any]) -> list[ShardedBuffer]:
        """Run the loop."""
        (body,), carries = self.executables, self._carries
        carry: Sequence[Any] = operands[:carries]
        wholes, captured = operands[carries : self._arrays], operands[self._arrays :]
        rows: list[Any] = [None] * self._count
        for i in self._order:
            parts = [take([x], (i,))[0] for take, x in zip(self._slices, wholes, strict=True)]
            results = body.run([*carry, *parts, *captured])
            carry, rows[i] = results[:carries], results[carries:]
        columns = [[row[n] for row in rows] for n in range(len(self._stacked))]
        return [*carry, *map(self._whole, self._stacked, columns)]

    def _whole(self, x: Stacked, column: Sequence[ShardedBuffer]) -> ShardedBuffer:
        """Return what the body returned each time, stacked."""
        if not column:
            whole: Any = device_put(np.empty(x.whole.shape, x.whole.dtype), x.whole.sharding)
        else:
            whole = stack([array_of(alone(each), x.each, keys=x.keys) for each in column], x.dim)
        buffer: ShardedBuffer = whole._live()
        return buffer


def stack(column: Sequence[Any], dim: int) -> Any:
    """Put arrays together along a new dim, some at once."""
    axis = dim - column[0].ndim
    blocks = [
        bind(STACK, column[n : n + SEVERAL], (axis - 1,)) for n in range(0, len(column), SEVERAL)
    ]
    while len(blocks) > 1:
        blocks = [
            bind(CONCATENATE, blocks[n : n + SEVERAL], (axis - 1,))
            for n in range(0, len(blocks), SEVERAL)
        ]
    return blocks[0]


class _Branches(Control):
    """Runs one of several graphs."""

    def __init__(self, op: Branch) -> None:
        super().__init__(op)
        self._by_truth = op.name == "cond"
        self._first = 1 + len(op.branches[0].carried)  # operand that the first graph captures
        ends = [*itertools.accumulate([x.captured for x in op.branches], initial=self._first)]
        self._captured = [*map(slice, ends, ends[1:])]

    def run(self, operands: Sequence[Any], numbers: Sequence[Any]) -> list[ShardedBuffer]:
        """Run the graph of the number."""
        value = read_host(operands[0])
        number = int(value != 0) if self._by_truth else int(value)
        number = min(max(number, 0), len(self.executables) - 1)
        captured = operands[self._captured[number]]
        return self.executables[number].run([*operands[1 : self._first], *captured])


class _Inlined(Control):
    """Runs a graph."""

    def run(self, operands: Sequence[Any], numbers: Sequence[Any]) -> list[ShardedBuffer]:
        """Run it."""
        return self.executables[0].run(list(operands))


def alone(buffer: ShardedBuffer) -> ShardedBuffer:
    """Return another buffer of the same memory: of several results that may be one."""
    return ShardedBuffer(buffer.tiling, buffer.dtype, buffer.values, buffer.claims, buffer.settled)


def var_of(x: Any, sharding: Any = None) -> Var:
    """Return the value of a graph that stands for an array, or for what has a shape and a type.

    Args:
      x: an array, or what has a shape and a dtype.
      sharding: where it lies, unless it says so itself.
    """
    dtype = ELEMENT if isinstance(x.dtype, KeyDType) else np.dtype(x.dtype)
    if isinstance(x, Array):
        return Var(dtype, x._held().tiling, x._sharding, x._committed, x._weak_type)
    chosen = getattr(x, "sharding", None)
    lies, weak = chosen or sharding, bool(getattr(x, "weak_type", False))
    return Var(dtype, lies.tiling(x.shape), lies, chosen is not None, weak)


def array_of(buffer: ShardedBuffer, var: Var, *, keys: bool) -> ConcreteArray:
    """Return an array of what a graph made."""
    runtime = buffer.runtime
    array = handle(
        KeyArray if keys else ConcreteArray,
        Data(buffer, runtime),
        var.tiling.shape,
        KEY if keys else var.dtype,
        var.sharding,
        var.committed,
        var.weak,
    )
    if runtime.settings.enable_checks:
        buffer.check()
    runtime.register(array)
    return array
