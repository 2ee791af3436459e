"""Tracing: a function is called once with values that have no data, and what it does is recorded.

What records lays out each result as dispatch does, by the same programs from the same cache. So a
function that is traced moves what it moves when its operations run one by one, unless something
better is found afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from gpushard.array.array import Array, ConcreteArray
from gpushard.array.aval import KEY
from gpushard.array.eager import host_data
from gpushard.array.key_array import OF_KEYS, elements_of, is_keys
from gpushard.functions.checks import place_tiling
from gpushard.geometry.sharding import Sharding
from gpushard.geometry.tiling import Tiling
from gpushard.ops.bind import creating
from gpushard.ops.dispatch import as_they_lie, case_and_key, check_out, make_program
from gpushard.ops.operand import Literal, Scalar
from gpushard.ops.row import Params, Row, Runnable
from gpushard.ops.scalars import WEAK_KINDS, is_number
from gpushard.placement.device_put import implicitly_put
from gpushard.transforms.graph.graph import Graph, Op, Step, Var
from gpushard.transforms.graph.ops import Relabel, RowOp
from gpushard.transforms.graph.steps import closed, operand_of, resharded
from gpushard.transforms.tracing.executable import alone, array_of, var_of
from gpushard.transforms.values.captured import Guard
from gpushard.transforms.values.frames import innermost
from gpushard.transforms.values.mapped import as_mapped
from gpushard.transforms.values.scopes import scope
from gpushard.transforms.values.traced import Traced


class Tracer(Traced):
    """What a function sees of an argument that is being traced, and what it makes of it.

    Args:
      var: the value in the graph.
      trace: which records.
      source: the number of the argument that it comes from, if any.
    """

    __slots__ = ("_committed", "_home", "_sharding", "_source", "_trace", "_var", "interpreter")

    interpreter: Trace
    _var: Var
    _trace: Trace
    _home: Trace | None  # the function that it is a variable of, which may assign to it
    _source: int | None

    def _origin(self) -> tuple[str, str]:
        what = self._trace.what
        value = "is not computed yet: the function is traced, once for all values"
        if self._source is None:
            return f"no argument, in the {what}", value
        return f"{self._trace.label(self._source)} of the {what}", value

    def _check_open(self) -> None:
        self._trace.check_open(self)

    def _check_assigned(self, what: str) -> None:
        self._check_open()
        if self._home is not _innermost.get():
            raise self._assigned_within(what, "traced")

    def _become(self, new: Any) -> None:
        self._var = new._var
        self._trace = self.interpreter = new._trace
        self._sharding, self._committed = new._sharding, new._committed
        self._weak_type = False

    def _held(self) -> Any:
        return self._var

    def _moved(self, sharding: Sharding, what: str) -> Any:
        return self._laid_out(sharding, sharding)

    def constrained(self, sharding: Sharding) -> Any:
        """Return this value where a sharding says, which may leave dims open."""
        return self._laid_out(closed(sharding, self._var.sharding), sharding)

    def _laid_out(self, sharding: Sharding, wanted: Sharding) -> Any:
        self._trace.check_open(self)
        place_tiling(sharding, self._shape)
        step = resharded(self._var, sharding, wanted)
        return self._trace.record(self, step.op, step.operands, step.results, step.moved)

    def _relabelled(self, tiling: Tiling, sharding: Sharding) -> Any:
        """Return an array whose devices hold the same elements in blocks of other shapes."""
        var = self._var
        made = Var(var.dtype, tiling, sharding, committed=True, weak=var.weak)
        return self._trace.record(self, Relabel(), (var,), (made,))

    def _of(self, function: Callable[[Any], Any]) -> Any:
        """Return keys as their elements, or these as keys: the memory is the same."""
        return _tracer(self._var, self._trace, self._source, keys=function is not elements_of)

    def block_until_ready(self) -> Any:
        """Return this array: there is nothing to wait for yet."""
        return self

    def copy_to_host_async(self) -> None:
        """Raise: there is nothing to copy yet."""
        raise self._refusal("a copy to the host")

    def __copy__(self) -> Any:
        return _tracer(self._var, self._trace, self._source, keys=is_keys(self))

    def __repr__(self) -> str:
        return f"Array(shape={self._shape}, dtype={self._dtype}, traced)"


def _tracer(var: Var, trace: Trace, source: int | None, *, keys: bool = False) -> Tracer:
    made: Tracer = _new(Tracer)
    made._var = var
    made._trace = made.interpreter = trace
    made._source = source
    made._home = _innermost.get()
    made._sharding = var.sharding
    made._committed = var.committed
    made._shape = var.tiling.shape
    made._dtype = KEY if keys else var.dtype
    made._weak_type = var.weak
    return made


_new: Any = object.__new__

Tracer.__name__ = "Array"  # in messages of Python's own


class Trace:
    """Records what one call of a function does; the interpreter of its values.

    Args:
      what: the function, for errors: "jit of f".
      label: gives the name of an argument by its number, for errors.
    """

    def __init__(self, what: str, label: Callable[[int], str]) -> None:
        outer = _innermost.get()
        self.level: float = 5 if outer is None else outer.level + 1e-3
        self.what = what
        self.label = label
        self.graph = Graph(what.partition(" of ")[2], [], {}, [], [])
        self.is_open = True
        self._lifted: dict[int, tuple[Any, Var]] = {}  # by identity, the array of outside is kept

    def input(self, var: Var, *, keys: bool = False) -> Tracer:
        """Return what the function sees of its next argument."""
        self.graph.inputs.append(var)
        made = _tracer(var, self, len(self.graph.inputs) - 1, keys=keys)
        made._home = self
        return made

    @contextmanager
    def entered(self, *, mapped: bool = False) -> Iterator[None]:
        """Have operations without operands in this trace, unless the function is mapped, too."""
        inside = _innermost.set(self)
        around = creating.set(creating.get() if mapped else self)
        try:
            with Guard():
                yield
        finally:
            self.is_open = False
            creating.reset(around)
            _innermost.reset(inside)

    def check_open(self, x: Tracer) -> None:
        """Check that a value is used while its function runs."""
        if not self.is_open:
            raise x._leaked(self.what)

    def lift(self, x: Any) -> Var:
        """Return the value that stands for an array in the graph: a constant where it is none."""
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
        """Record an operation on a value, and return its result, or a tuple of several.

        Args:
          x: the value, or None.
          op: what is done.
          operands: what it takes.
          results: what it makes.
          moved: bytes that devices receive.
        """
        source = getattr(x, "_source", None)
        self.graph.steps.append(Step(op, tuple(operands), tuple(results), moved, scope()))
        made = tuple([_tracer(result, self, source) for result in results])
        keys = x is not None and is_keys(x)
        if keys:
            made = tuple([one._of(is_keys) for one in made])
        return made[0] if len(made) == 1 else made

    def bind(
        self, row: Row, args: Sequence[Any], params: Params, out_sharding: Sharding | None = None
    ) -> Any:
        """Record one operation."""
        if any(map(is_keys, args)):
            return OF_KEYS.bind(row, args, params, out_sharding)
        if out_sharding is not None:
            check_out(row, out_sharding)
        if row.creates and out_sharding is not None:
            return self._create(row, args, params, out_sharding)
        first = next((arg for arg in args if isinstance(arg, Tracer)), None)
        args = given = [self._operand(row, arg) for arg in args]
        given_params = params
        if row.turned is not None:
            args, params = as_they_lie(row, args, params, _source)
        case, key = case_and_key(row, args, params, out_sharding, operand_of)
        program = case.runtime.plans.get(key)
        if program is None:
            if args is not given:  # errors are about operands as they were given
                as_given, _ = case_and_key(row, given, given_params, None, operand_of)
                row.infer(as_given.avals, given_params)
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

    def _operand(self, row: Row, arg: Any) -> Any:
        """Return an operand as the graph has it: a value, a number, or data of the host."""
        if isinstance(arg, Array):
            return self.lift(arg)
        if row.takes_numbers and is_number(arg):
            return arg
        data = host_data(row, arg).copy()  # which may change after this
        return Literal(data, type(arg) in WEAK_KINDS)

    def _create(self, row: Row, args: Sequence[Any], params: Params, sharding: Sharding) -> Any:
        """Record what makes an array of numbers."""
        shape, dtype, committed = params
        var = Var(dtype, place_tiling(sharding, shape), sharding, committed, weak=False)
        return self.record(None, RowOp(row, params, tuple(args)), (), (var,))


def _source(x: Any) -> tuple[Var, tuple[int, ...]] | None:
    """Return the value that one is the transpose of, if it is one, and the axes."""
    return x.turned if isinstance(x, Var) else None


_innermost: ContextVar[Trace | None] = ContextVar("innermost trace", default=None)


def tracing() -> Trace | None:
    """Return the innermost trace that this code runs in."""
    return _innermost.get()


def inside(x: Any) -> Any:
    """Return what a function sees of an argument which becomes a part of the one that calls it.

    What it assigns to that stays its own.
    """
    frame, trace = innermost(), tracing()
    if frame is not None:
        return as_mapped(x, frame).__copy__()
    assert trace is not None
    if isinstance(x, Tracer):
        return x.__copy__()
    return _tracer(trace.lift(x), trace, None, keys=is_keys(x))


def done(
    op: Op,
    ready: Callable[[], Runnable],
    operands: Sequence[Any],
    results: Sequence[tuple[Var, bool]],
) -> list[Any]:
    """Do an operation on arrays now, or record it where one of them is traced.

    One whose bodies have effects is recorded in a traced function whatever it takes.

    Args:
      op: the operation.
      ready: returns what runs it.
      operands: arrays.
      results: of each what it is, and whether it is keys.
    """
    trace = tracing()
    lifts = op.has_effect or any(isinstance(x, Tracer) for x in operands)
    if trace is None or not lifts:
        buffers = ready().run([x._live() for x in operands], op.numbers)
        return [
            array_of(alone(buffer), var, keys=keys)
            for buffer, (var, keys) in zip(buffers, results, strict=True)
        ]
    made = trace.record(None, op, [trace.lift(x) for x in operands], [var for var, _ in results])
    arrays = [made] if len(results) == 1 else made
    return [x._of(is_keys) if keys else x for x, (_, keys) in zip(arrays, results, strict=True)]
