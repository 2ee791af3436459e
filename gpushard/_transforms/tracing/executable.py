"""Run a graph: prepare its operations once, and call them in a flat list.

`prepare` is the only place that decides how an operation of a graph runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._array.array import Array, ConcreteArray
from gpushard._array.data import array_of_buffer, relabel_buffer
from gpushard._array.key_array import ELEMENT, KeyArray
from gpushard._array.shape_dtype import KEY, KeyDType
from gpushard._frozen import dataclass
from gpushard._geometry.tiling import Tiling
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.planning.holdings import held_elements
from gpushard._movement.sharding_devices import devices_of
from gpushard._movement.to_host import read_host
from gpushard._ops.aval import Dtype
from gpushard._ops.bind import bind
from gpushard._ops.dispatch import create
from gpushard._ops.programs.at_once import AtOnce
from gpushard._ops.programs.bring import bring
from gpushard._ops.row import Row
from gpushard._ops.steps import Draft, Run, Runnable, Steps
from gpushard._ops.table.manipulation import CONCATENATE, STACK
from gpushard._placement.device_put import device_put
from gpushard._runtime.reclaim import name_operation
from gpushard._runtime.runtime import Runtime
from gpushard._transforms.fusion.fuse import fuse_regions
from gpushard._transforms.fusion.segments import group_into_segments
from gpushard._transforms.graph.costs import received
from gpushard._transforms.graph.graph import Graph, Op, Operation, Var, lines
from gpushard._transforms.graph.layouts import program_for
from gpushard._transforms.graph.ops import (
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
from gpushard.errors import OutOfMemoryError

SEVERAL = 64
"""Most arrays that are put together at once."""


@dataclass(frozen=True, eq=False)
class _Step:
    """Work on numbered values."""

    work: Runnable
    numbers: Sequence[Any]  # the Python numbers of its operation
    takes: list[int]
    gives: list[int]
    operation: Operation  # the operation that it belongs to

    @property
    def values(self) -> list[int]:
        """The numbers of all values that it takes or gives."""
        return [*self.takes, *self.gives]


def _group_small(steps: Sequence[_Step], permanent: set[int], inputs: int) -> list[_Step]:
    """Merge small calls that follow one another.

    A run ends where a value from outside ends that no caller holds, so that its memory is free.

    Args:
      steps: the steps.
      permanent: the values that stay to the end.
      inputs: the number of inputs, which are the first values.
    """
    last = {n: number for number, step in enumerate(steps) for n in step.takes}
    grouped: list[_Step] = []
    run: list[_Step] = []
    inside: set[int] = set()  # the values that steps of the run give

    def close(end: int) -> None:
        """Put the run of steps that ends before a number into one step."""
        if len(run) > 1:
            takes = dict.fromkeys(n for step in run for n in step.takes)
            taken = [n for n in takes if n not in inside]
            results = [n for step in run for n in step.gives]
            results = [n for n in results if n in permanent or last.get(n, -1) >= end]
            works = [(step.work, step.numbers, step.takes, step.gives) for step in run]
            together = AtOnce(works, taken, results)
            run[:] = [_Step(together, (), taken, results, run[0].operation)]
        grouped.extend(run)
        run.clear()
        inside.clear()

    for number, step in enumerate(steps):
        small = step.work.small(step.numbers) is not None
        if not small:
            close(number)
        run.append(step)
        ended = [n for n in step.takes if n >= inputs and n not in inside and last[n] == number]
        inside.update(step.gives)
        if not small or not permanent.issuperset(ended):
            close(number + 1)
    close(len(steps))
    return grouped


class Executable:
    """A graph, prepared to run. Operations that no result or effect needs are left out.

    Args:
      graph: the graph.
    """

    def __init__(self, graph: Graph) -> None:
        self.steps = steps = fuse_regions(graph)
        """The operations; a region counts as one."""
        self.ready = {step: prepare(step.op, step) for step in steps}
        """Each operation of `steps` and `parts`, prepared to run."""
        self.parts = group_into_segments(graph, steps, self.ready)
        """The same operations, those of a segment as one: a GPU is given them at once."""
        self.ready |= {part: prepare(part.op) for part in self.parts if part not in self.ready}
        self.graph = graph
        self.runtime: Any = None
        """The runtime of the results; None if there are none."""
        if graph.results:
            self.runtime = devices_of(graph.results[0].tiling)[0].runtime
        hosted: list[Any] = []
        numbered, results, count = self._number_values(hosted)
        # Constants come after the inputs.
        permanent = {*results, *range(len(graph.inputs), len(graph.inputs) + len(graph.constants))}
        runs = _group_small(numbered, permanent, len(graph.inputs))
        last = {n: number for number, step in enumerate(runs) for n in step.values}
        self._calls: list[tuple[Run, list[int], Sequence[Any], list[int], list[int]]] = []
        for number, step in enumerate(runs):
            ended = {n for n in step.values if n >= 0 and last[n] == number} - permanent
            run = step.work.run
            self._calls.append((run, step.takes, step.numbers, step.gives, sorted(ended)))
        self._operations = [step.operation for step in runs]
        """The operation of each call, for errors; of several, the first."""
        self._results = results
        constants = [x._live() for x in graph.constants.values()]
        unset = [None] * (count - len(graph.inputs) - len(constants))
        # Data on the host have negative places, which count from the end.
        self._others = [*constants, *unset, *hosted[::-1]]

    def _number_values(self, hosted: list[Any]) -> tuple[list[_Step], list[int], int]:
        """Number all values, and list the steps of all operations.

        Args:
          hosted: gets data on the host, which have negative numbers: -1 for the first.

        Returns:
          The steps, the numbers of the results, and the count of values that are not on the host.
        """
        places: dict[Var, int] = {}
        fresh = itertools.count()

        def place(x: Any) -> int:
            if not isinstance(x, Var):  # data on the host
                hosted.append(x.data)
                return -len(hosted)
            if x not in places:
                places[x] = next(fresh)
            return places[x]

        for var in (*self.graph.inputs, *self.graph.constants):
            place(var)
        steps: list[_Step] = []
        for operation in self.parts:
            work, numbers = self.ready[operation], operation.op.numbers
            takes = [place(x) for x in operation.operands]
            if not isinstance(work, Steps) or work.moves is not None:
                gives = [place(x) for x in operation.results]
                steps.append(_Step(work, numbers, takes, gives, operation))
                continue
            values = dict(enumerate(takes))
            for step in work.steps:
                values |= {n: next(fresh) for n in step.gives}
                inner, outer = ([values[n] for n in each] for each in (step.takes, step.gives))
                steps.append(_Step(step.work, numbers, inner, outer, operation))
            ends = [values[n] for n in work.ends]
            places |= dict(zip(operation.results, ends, strict=True))
        results = [place(x) for x in self.graph.results]
        return steps, results, next(fresh)

    @property
    def nbytes(self) -> int:
        """Approximate bytes of this object and its graph, without the arrays of constants."""
        steps = dict.fromkeys((*self.graph.steps, *self.steps))
        return 4000 + 5000 * len(steps) + sum(ready.nbytes for ready in self.ready.values())

    def text(self) -> str:
        """List the operations as text, one a line, with the bytes they move and their launches."""
        return "\n".join(lines(self.graph, self.steps, shardings=True, note=self._note))

    def launches(self, step: Operation) -> int | None:
        """Count the kernel launches of an operation; None if the count is not known.

        On the host it is 0: each device calls a function.
        """
        ready = self.ready.get(step)
        if (
            ready is None and not step.op.bodies
        ):  # an operation in the text of a loop: not in a region
            ready = prepare(step.op, step)
        launches = None if ready is None else ready.launches(step.op.numbers)
        if launches is not None:
            return len(launches[0].groups)
        host = (
            not step.results or devices_of(step.results[0].tiling)[0].runtime.backend.host_readable
        )
        return 0 if host else None

    def graph_launches(self) -> list[tuple[int, int]]:
        """Return for each segment its number of launches, and that of a replay of it."""
        return [part.op.kernels.counts for part in self.parts if isinstance(part.op, Segment)]

    def run(self, inputs: list[Any]) -> list[ShardedBuffer]:
        """Run the graph.

        Args:
          inputs: buffers of the arguments, in order. The list is used up. A buffer that no array
            holds is freed after the last operation that needs it.

        Returns:
          Buffers of the results; some may be among the inputs.

        Raises:
          OutOfMemoryError: a device has no room. No array has changed.
        """
        held: list[Any] = inputs  # not a copy, which would keep all of them until the end
        held += self._others
        value_of = held.__getitem__
        for run, operands, numbers, to, ended in self._calls:
            try:
                produced = run(list(map(value_of, operands)), numbers)
            except MemoryError as error:  # from the pool, or from a library that a kernel calls
                raise self._explain(error, run) from None
            for at, buffer in zip(to, produced, strict=True):
                held[at] = buffer
            produced = buffer = None  # type: ignore[assignment]  # else they hold memory
            for at in ended:
                held[at] = None
        return list(map(value_of, self._results))

    def _explain(self, error: MemoryError, run: Run) -> OutOfMemoryError:
        """Return the error for an operation without room, with the name of the operation."""
        number = next(n for n, call in enumerate(self._calls) if call[0] == run)
        step = self._operations[number]
        return name_operation(error, step.name, self.ready[step].moves)

    def _note(self, step: Operation) -> str:
        """Return a note for the text of an operation: its scope, bytes received, and launches."""
        moved = sum(received(step).values())
        launches = self.launches(step)
        notes = [
            step.scope,
            f"{moved:,} bytes received" if moved else "",
            f"launches: {launches}" if launches else "",
        ]
        return "; ".join(filter(None, notes))


def prepare(op: Op, step: Operation | None = None) -> Runnable:
    """Prepare an operation to run.

    Args:
      op: the kind of operation, and its parameters.
      step: the operation in its graph, for kinds that depend on the layout of operands and results.
    """
    match op:
        case RowOp() if step is not None:
            return _creation(op, step) if op.row.creates else program_for(op, step.operands)
        case Reshard() if step is not None:
            return _resharding(op, step)
        case Relabel() if step is not None:
            return _Relabeling(step)
        case While():
            return _WhileLoop(op)
        case For():
            return _ForLoop(op)
        case Scan():
            return _ScanLoop(op)
        case Branch():
            return _OneBranch(op)
        case Inline():
            return _InlineCall(op)
        case Callback():
            return _HostCall(op)
        case Region():
            return op.kernel
        case Segment():
            return op.kernels
    raise NotImplementedError(type(op))


def _creation(op: RowOp, step: Operation) -> Steps:
    """Make the steps that create an array of numbers."""
    (x,) = step.results
    runtime, tiling = devices_of(x.tiling)[0].runtime, x.tiling
    if x.sharding.memory_kind != "device":
        tiling = x.sharding.with_memory_kind("device").tiling(x.shape)
    draft = Draft(0)
    (value,) = draft.add(_Create(op.row, tiling, x.dtype), [])
    end = bring(draft, value, runtime, tiling, x.tiling, x.dtype.itemsize, op.name)
    return Steps(draft, [end])


class _Create(Runnable):
    """Creates an array of numbers on devices."""

    def __init__(self, row: Row, tiling: Tiling, dtype: Dtype) -> None:
        self._row, self._tiling, self._dtype = row, tiling, dtype
        self.writes = (held_elements(tiling) * dtype.itemsize,)

    def run(self, operands: Sequence[Any], numbers: Sequence[Any]) -> list[ShardedBuffer]:
        """Create the array."""
        return [create(self._row, self._tiling, self._dtype, numbers)]


def _resharding(op: Reshard, step: Operation) -> Steps:
    """Make the steps that bring a value to another sharding."""
    (x,), (result,) = step.arrays, step.results
    draft, runtime = Draft(1), devices_of(x.tiling)[0].runtime
    end = bring(draft, 0, runtime, x.tiling, result.tiling, x.dtype.itemsize, op.name)
    return Steps(draft, [end], (op.watch or None) if draft.steps else None)


class _Relabeling(Runnable):
    """Reads the memory of a value as blocks of other shapes."""

    def __init__(self, step: Operation) -> None:
        self._tiling = step.results[0].tiling

    def run(self, operands: Sequence[Any], numbers: Sequence[Any]) -> list[ShardedBuffer]:
        """Wrap the memory in a buffer with the other shapes."""
        return [relabel_buffer(operands[0], self._tiling)]


class _HostCall(Runnable):
    """Calls a function on the host."""

    def __init__(self, op: Callback) -> None:
        self._call = op.call

    def run(self, operands: Sequence[Any], numbers: Sequence[Any]) -> Sequence[ShardedBuffer]:
        """Call the function."""
        return self._call(operands)


class GraphRunner(Runnable):
    """Runs graphs: the bodies of a loop or a branch."""

    def __init__(self, op: Op) -> None:
        self.executables = [Executable(body) for body in op.bodies]
        """The graphs, prepared to run."""

    @property
    def nbytes(self) -> int:
        """Approximate bytes of this object."""
        return sum(executable.nbytes for executable in self.executables)


class _WhileLoop(GraphRunner):
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
            carry += of_body  # the same list, so that `run` can free the old values
            carry = body.run(carry)
        return carry


class _ForLoop(GraphRunner):
    """Runs a graph a number of times."""

    def __init__(self, op: For) -> None:
        super().__init__(op)
        self._carries = len(op.body.carried)

    def run(self, operands: Sequence[Any], numbers: Sequence[Any]) -> list[ShardedBuffer]:
        """Run the loop. A number says how often, or else the first two operands: end and start."""
        (body,) = self.executables
        first = 0 if numbers else 1
        ahead = first + self._carries
        carry, captured = list(operands[first:ahead]), operands[ahead:]
        times = numbers[0] if numbers else int(read_host(operands[0])) - int(read_host(carry[0]))
        for _ in range(times):
            carry += captured  # the same list, so that `run` can free the old values
            carry = body.run(carry)
        return carry[1:]


class _ScanLoop(GraphRunner):
    """Runs a graph on each slice of arrays."""

    def __init__(self, op: Scan) -> None:
        super().__init__(op)
        self._carries, self._count, self._stacked = op.carries, op.count, op.stacked
        self._arrays = op.carries + len(op.slices)
        # One program takes all slices of an array: its number says which.
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
        """Stack the results of all turns."""
        if not column:
            whole: Any = device_put(np.empty(x.whole.shape, x.whole.dtype), x.whole.sharding)
        else:
            whole = stack(
                [
                    array_of(share_buffer(each), x.each, each.runtime, keys=x.keys)
                    for each in column
                ],
                x.dim,
            )
        buffer: ShardedBuffer = whole._live()
        return buffer


def stack(column: Sequence[Any], dim: int) -> Any:
    """Stack arrays along a new dim, `SEVERAL` at a time."""
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


class _OneBranch(GraphRunner):
    """Runs one of several graphs."""

    def __init__(self, op: Branch) -> None:
        super().__init__(op)
        self._by_truth = op.name == "cond"
        self._first = 1 + len(op.branches[0].carried)  # the first operand that a graph captures
        ends = [*itertools.accumulate([x.captured for x in op.branches], initial=self._first)]
        self._captured = [*map(slice, ends, ends[1:])]

    def run(self, operands: Sequence[Any], numbers: Sequence[Any]) -> list[ShardedBuffer]:
        """Run the graph that the first operand chooses."""
        value = read_host(operands[0])
        number = int(value != 0) if self._by_truth else int(value)
        number = min(max(number, 0), len(self.executables) - 1)
        captured = operands[self._captured[number]]
        return self.executables[number].run([*operands[1 : self._first], *captured])


class _InlineCall(GraphRunner):
    """Runs a graph."""

    def run(self, operands: Sequence[Any], numbers: Sequence[Any]) -> list[ShardedBuffer]:
        """Run the graph."""
        return self.executables[0].run(list(operands))


def share_buffer(buffer: ShardedBuffer) -> ShardedBuffer:
    """Wrap the memory of a buffer in another one, for results that may be the same buffer."""
    return ShardedBuffer(buffer.tiling, buffer.dtype, buffer.values, buffer.claims, buffer.settled)


def var_of(x: Any, sharding: Any = None) -> Var:
    """Create a value of a graph for an array, or for any object with a shape and a dtype.

    Args:
      x: the array, or the object.
      sharding: its sharding, unless it has one itself.
    """
    dtype = ELEMENT if isinstance(x.dtype, KeyDType) else np.dtype(x.dtype)
    if isinstance(x, Array):
        return Var(dtype, x._held().tiling, x._sharding, x._committed, x._weak_type)
    chosen = getattr(x, "sharding", None)
    lies, weak = chosen or sharding, bool(getattr(x, "weak_type", False))
    return Var(dtype, lies.tiling(x.shape), lies, chosen is not None, weak)


def array_of(buffer: ShardedBuffer, var: Var, runtime: Runtime, *, keys: bool) -> ConcreteArray:
    """Create an array of a buffer that a graph has computed for a value.

    Args:
      buffer: the buffer.
      var: the value.
      runtime: the runtime of its devices.
      keys: whether the elements are random keys.
    """
    kind, form = form_of(var, keys=keys)
    return array_of_buffer(kind, buffer, runtime, *form)


def form_of(var: Var, *, keys: bool) -> tuple[type[ConcreteArray], tuple[Any, ...]]:
    """Return the class of the array of a value, and what `array_of_buffer` takes at its end."""
    kind, dtype = (KeyArray, KEY) if keys else (ConcreteArray, var.dtype)
    return kind, (dtype, var.sharding, var.committed, var.weak)
