"""Trace a function: call it once with values that have no data, and record its operations.

Each result is laid out as dispatch lays it out, by the same programs from the same cache. So a
traced function moves the same bytes as its operations run one by one, unless the search in `graph`
finds a better layout afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from gpushard._array.array import Array, ConcreteArray
from gpushard._array.eager import host_data
from gpushard._array.key_array import OF_KEYS, elements_of, is_keys
from gpushard._array.shape_dtype import KEY
from gpushard._geometry.sharding import Sharding
from gpushard._geometry.tiling import Tiling
from gpushard._movement.sharding_devices import devices_of, place_tiling
from gpushard._ops.bind import bind, creating
from gpushard._ops.dispatch import as_they_lie, case_and_key, check_out, make_program
from gpushard._ops.operand import Literal, Scalar
from gpushard._ops.row import Params, Row
from gpushard._ops.scalars import WEAK_KINDS, is_number
from gpushard._ops.steps import Runnable
from gpushard._placement.device_put import implicitly_put
from gpushard._runtime.nests import LARGE
from gpushard._transforms.graph.graph import Graph, Op, Operation, Var
from gpushard._transforms.graph.layouts import closed, operand_of, resharded
from gpushard._transforms.graph.ops import Relabel, RowOp
from gpushard._transforms.tracing.executable import array_of, share_buffer, var_of
from gpushard._transforms.values.captured import Guard
from gpushard._transforms.values.frames import innermost
from gpushard._transforms.values.mapped import as_mapped
from gpushard._transforms.values.named_scope import scope
from gpushard._transforms.values.traced import TracedValue


class Tracer(TracedValue):
    """A traced value: an argument of a function that is being traced, or computed from one.

    It has a shape, a type and a layout, but no data. It must not outlive its trace: using it after
    the function has returned raises `TracedValueError`.
    """

    __slots__ = ("_committed", "_home", "_sharding", "_source", "_trace", "_var", "interpreter")

    interpreter: Trace
    _var: Var  # the value in the graph
    _trace: Trace  # the trace that records it
    _home: Trace | None  # the trace of the function that may assign to it
    _source: int | None  # the number of the argument that it comes from, if any

    def _origin(self) -> tuple[str, str]:
        what = self._trace.what
        value = "is traced: the function runs once, for all values of its arguments"
        if self._source is None:
            return f"no argument, in the {what}", value
        return f"{self._trace.label(self._source)} of the {what}", value

    def _check_open(self) -> None:
        self._trace.check_open(self)

    def _check_assigned(self, what: str) -> None:
        self._check_open()
        if self._home is not _innermost.get():
            raise self._nested_assignment_error(what, "traced")

    def _become(self, new: Any) -> None:
        self._var = new._var
        self._trace = self.interpreter = new._trace
        self._sharding, self._committed = new._sharding, new._committed
        self._weak_type = False

    def _held(self) -> Any:
        return self._var

    def _moved(self, sharding: Sharding, what: str) -> Any:
        return self._reshard(sharding, sharding)

    def constrain(self, sharding: Sharding) -> Any:
        """Constrain the layout of this value to a sharding, which may leave dims open."""
        return self._reshard(closed(sharding, self._var.sharding), sharding)

    def _reshard(self, sharding: Sharding, wanted: Sharding) -> Any:
        self._trace.check_open(self)
        place_tiling(sharding, self._shape)
        step = resharded(self._var, sharding, wanted)
        return self._trace.record(self, step.op, step.operands, step.results, step.moved)

    def _relabel(self, tiling: Tiling, sharding: Sharding, *, inside: bool = False) -> Any:
        """View the blocks of this array as those of an array of another shape."""
        var = self._var
        if self._committed and self._sharding == sharding and var.tiling is tiling:
            return self.__copy__()
        result = Var(var.dtype, tiling, sharding, committed=True, weak=var.weak)
        return self._trace.record(self, Relabel(), (var,), (result,))

    def _of(self, function: Callable[[Any], Any]) -> Any:
        """View keys as their elements, or elements as keys; the memory is the same."""
        return _new_tracer(self._var, self._trace, self._source, keys=function is not elements_of)

    def block_until_ready(self) -> Any:
        """Return this array; a traced value has nothing to wait for."""
        return self

    def copy_to_host_async(self) -> None:
        """Raise an error: a traced value has no data to copy."""
        raise self._refusal("a copy to the host")

    def __copy__(self) -> Any:
        return _new_tracer(self._var, self._trace, self._source, keys=is_keys(self))

    def __repr__(self) -> str:
        return f"Array(shape={self._shape}, dtype={self._dtype}, traced)"


def _new_tracer(var: Var, trace: Trace, source: int | None, *, keys: bool = False) -> Tracer:
    x: Tracer = _new(Tracer)
    x._var = var
    x._trace = x.interpreter = trace
    x._source = source
    x._home = _innermost.get()
    x._sharding = var.sharding
    x._committed = var.committed
    x._shape = var.tiling.shape
    x._dtype = KEY if keys else var.dtype
    x._weak_type = var.weak
    return x


_new: Any = object.__new__

Tracer.__name__ = "Array"  # in error messages that Python itself writes


class Trace:
    """Records one call of a function as a graph; it interprets the operations on its values.

    Args:
      what: the function, for errors, such as "jit of f".
      label: returns the name of an argument by its number, for errors.
    """

    def __init__(self, what: str, label: Callable[[int], str]) -> None:
        outer = _innermost.get()
        self.level: float = 5 if outer is None else outer.level + 1e-3
        self.what = what
        self.label = label
        self.graph = Graph(what.partition(" of ")[2], [], {}, [], [])
        self.is_open = True
        self._lifted: dict[
            int, tuple[Any, Var]
        ] = {}  # by id; the data is held, so that ids stay unique

    def input(self, var: Var, *, keys: bool = False) -> Tracer:
        """Add an argument to the graph, and return the traced value for the function."""
        self.graph.inputs.append(var)
        argument = _new_tracer(var, self, len(self.graph.inputs) - 1, keys=keys)
        argument._home = self
        return argument

    @contextmanager
    def activate(self, *, mapped: bool = False) -> Iterator[None]:
        """Record in this trace while the function runs; afterwards the trace is closed.

        Args:
          mapped: whether the function is mapped as well. If not, operations without operands, such
            as `zeros`, are recorded here, too.
        """
        enclosing = _innermost.set(self)
        creator = creating.set(creating.get() if mapped else self)
        try:
            with Guard():
                yield
        finally:
            self.is_open = False
            creating.reset(creator)
            _innermost.reset(enclosing)

    def check_open(self, x: Tracer) -> None:
        """Raise an error if a value is used after its function has returned."""
        if not self.is_open:
            raise x._leak_error(self.what)

    def lift(self, x: Any) -> Var:
        """Return the graph value for an array; arrays from outside the trace become constants."""
        if isinstance(x, Tracer):
            x._trace.check_open(x)
            if x._trace is self:
                return x._var
        elif not isinstance(x, ConcreteArray):
            x = implicitly_put(x, self.what)
        held = x._held()
        known = self._lifted.get(id(held))
        if known is not None:
            return known[1]
        var = var_of(x)
        self._lifted[id(held)] = held, var
        self.graph.constants[var] = x.__copy__()
        return var

    def record(
        self,
        x: Any,
        op: Op,
        operands: Sequence[Var | Literal],
        results: Sequence[Var],
        moved: int = 0,
    ) -> Any:
        """Record an operation, and return its result, or a tuple of several.

        Args:
          x: the first traced operand, or None. Results are keys if it is, and errors about them
            name the argument that it comes from.
          op: the operation.
          operands: its operands in the graph.
          results: its results in the graph.
          moved: bytes that devices receive.
        """
        source = getattr(x, "_source", None)
        self.graph.steps.append(Operation(op, tuple(operands), tuple(results), moved, scope()))
        arrays = tuple([_new_tracer(result, self, source) for result in results])
        keys = x is not None and is_keys(x)
        if keys:
            arrays = tuple([array._of(is_keys) for array in arrays])
        return arrays[0] if len(arrays) == 1 else arrays

    def bind(
        self, row: Row, args: Sequence[Any], params: Params, out_sharding: Sharding | None = None
    ) -> Any:
        """Record an operation of the table; see `ops.bind.bind`."""
        if any(map(is_keys, args)):
            return OF_KEYS.bind(row, args, params, out_sharding)
        if out_sharding is not None:
            check_out(row, out_sharding)
        if row.creates and out_sharding is not None:
            return self._create(row, args, params, out_sharding)
        if row.in_parts is not None and out_sharding is None and self._has_kernels(args[0], params):
            return row.in_parts(bind, args[0], params)
        first = next((arg for arg in args if isinstance(arg, Tracer)), None)
        args = as_written = [self._operand(row, arg) for arg in args]
        written_params = params
        if row.turned is not None:
            args, params = as_they_lie(row, args, params, _source)
        case, key = case_and_key(row, args, params, out_sharding, operand_of)
        program = case.runtime.plans.get(key)
        if program is None:
            if args is not as_written:  # errors are about the operands that the user wrote
                written, _ = case_and_key(row, as_written, written_params, None, operand_of)
                row.infer(written.avals, written_params)
            program = make_program(case, key)
        results = [
            Var(
                result.aval.dtype,
                result.tiling,
                result.sharding,
                program.committed,
                result.aval.weak,
            )
            for result in program.results
        ]
        if row.later and out_sharding is None:
            results[0].turned = args[0], params[0]
        scalars = tuple([at for at, x in enumerate(case.operands) if isinstance(x, Scalar)])
        numbers = tuple([args[at] for at in scalars])
        op = RowOp(row, params, numbers, scalars, out_sharding)
        operands = [x for at, x in enumerate(args) if at not in scalars]
        return self.record(first, op, operands, results, program.bytes_received)

    def _has_kernels(self, x: Any, params: Params) -> bool:
        """Whether kernels are faster for a reduction than the operation that it is in the table.

        They are for large arrays of floats, if every device has the whole of the axes, or shares
        its memory with all others. Otherwise the operation exchanges all its parts at once.
        """
        if not isinstance(x, Array) or x.size < LARGE or x.weak_type or x.dtype.char not in "fd":
            return False
        tiling = self.lift(x).tiling
        if len({place.memory_domain for place in devices_of(tiling)}) == 1:
            return True
        return all(
            (tiling.stops[axis] - tiling.starts[axis] == tiling.shape[axis]).all()
            for axis in params[0]
        )

    def _operand(self, row: Row, arg: Any) -> Any:
        """Convert an operand for the graph: to a value, a number, or data on the host."""
        if isinstance(arg, Array):
            return self.lift(arg)
        if row.takes_numbers and is_number(arg):
            return arg
        data = host_data(row, arg).copy()  # the user may change it after this
        return Literal(data, type(arg) in WEAK_KINDS)

    def _create(self, row: Row, args: Sequence[Any], params: Params, sharding: Sharding) -> Any:
        """Record an operation that creates an array with a sharding."""
        shape, dtype, committed = params
        var = Var(dtype, place_tiling(sharding, shape), sharding, committed, weak=False)
        return self.record(None, RowOp(row, params, tuple(args)), (), (var,))


def _source(x: Any) -> tuple[Var, tuple[int, ...]] | None:
    """Return the value that `x` is the transpose of and the axes; None if it is no transpose."""
    return x.turned if isinstance(x, Var) else None


_innermost: ContextVar[Trace | None] = ContextVar("innermost trace", default=None)


def tracing() -> Trace | None:
    """Return the innermost trace that is recording; None outside any traced function."""
    return _innermost.get()


def inline_argument(x: Any) -> Any:
    """Copy an argument for a traced function that becomes a part of the function calling it.

    The copy belongs to the calling function or map. Assignments to it leave the argument as it is.
    """
    frame, trace = innermost(), tracing()
    if frame is not None:
        return as_mapped(x, frame).__copy__()
    assert trace is not None
    if isinstance(x, Tracer):
        return x.__copy__()
    return _new_tracer(trace.lift(x), trace, None, keys=is_keys(x))


def run_or_record(
    op: Op,
    ready: Callable[[], Runnable],
    operands: Sequence[Any],
    results: Sequence[tuple[Var, bool]],
) -> list[Any]:
    """Run an operation on arrays, or record it if one of them is traced.

    Inside a traced function, an operation with effects is recorded whatever its operands are.

    Args:
      op: the operation.
      ready: returns the operation, prepared to run.
      operands: its operands, arrays.
      results: for each result its value in a graph, and whether it is keys.
    """
    trace = tracing()
    lifts = op.has_effect or any(isinstance(x, Tracer) for x in operands)
    if trace is None or not lifts:
        buffers = ready().run([x._live() for x in operands], op.numbers)
        return [
            array_of(share_buffer(buffer), var, buffer.runtime, keys=keys)
            for buffer, (var, keys) in zip(buffers, results, strict=True)
        ]
    traced = trace.record(None, op, [trace.lift(x) for x in operands], [var for var, _ in results])
    arrays = [traced] if len(results) == 1 else traced
    return [x._of(is_keys) if keys else x for x, (_, keys) in zip(arrays, results, strict=True)]
