"""Trace the functions that control flow runs.

`cond`, `while_loop`, `scan` and others call functions of the user: their bodies. Each body is
traced once and becomes a graph. One operation runs the graphs as often as values say. It runs at
once, or is recorded if a traced function makes the call. A mapped value is an array and the names
of its mapped dims, so bodies work on it as on any array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from gpushard import tree
from gpushard._array.array import Array
from gpushard._array.key_array import is_keys
from gpushard._array.shape_dtype import KeyDType
from gpushard._frozen import dataclass
from gpushard._ops.bind import bind
from gpushard._ops.steps import Runnable
from gpushard._ops.table.elementwise import COPY, WHERE
from gpushard._ops.table.manipulation import RESHAPE
from gpushard._placement.default_placement import default_sharding
from gpushard._placement.device_put import implicitly_put
from gpushard._transforms.graph.graph import Graph, Var
from gpushard._transforms.graph.layout_search import optimized
from gpushard._transforms.tracing.executable import var_of
from gpushard._transforms.tracing.trace import Trace, Tracer
from gpushard._transforms.values.frames import Frame, Names, innermost
from gpushard._transforms.values.leaves import check_leaf
from gpushard._transforms.values.mapped import Mapped, as_mapped, broadcast_along, mapped
from gpushard.errors import ArgumentError, ArgumentTypeError


@dataclass(frozen=True, eq=False)
class Value:
    """A value that control flow works on: an array, concrete or traced, and its named dims."""

    array: Any
    names: Names

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dims that the user sees: all but the named ones."""
        shape: tuple[int, ...] = self.array.shape[len(self.names) :]
        return shape

    def __repr__(self) -> str:
        return f"{self.array.dtype.name}{list(self.shape)}"


def value_of(x: Any, what: str, frame: Frame | None) -> Value:
    """Convert an argument or result of the user to a `Value`; `what` names it in errors."""
    check_leaf(x, what, "a value")
    if frame is not None:
        x = as_mapped(x, frame)
        return Value(x._value, x._names)
    return Value(x if isinstance(x, Array) else implicitly_put(x, what), ())


def as_array(x: Value, frame: Frame | None) -> Any:
    """Convert a `Value` to what the calling function sees: an array, or a mapped value."""
    return x.array if frame is None else mapped(x.array, x.names, frame, None)


@dataclass(frozen=True, eq=False)
class Body:
    """A traced function that control flow runs."""

    graph: Graph
    captured: tuple[Any, ...]  # enclosing arrays that it reads, after its arguments
    structure: Any  # of its results
    results: tuple[Value, ...]  # the leaves of its results, as traced


def trace_body(f: Any, args: Any, leaves: Sequence[Value], what: str, finish: Any = None) -> Body:
    """Trace a function that control flow runs.

    Args:
      f: the function.
      args: the structure of its arguments, a tuple.
      leaves: the leaves of the arguments.
      what: the function, for errors.
      finish: takes the results of `f` as values, and their structure; returns the values to record.
    """
    frame = innermost()
    trace = Trace(what, lambda number: f"operand {number}")
    inputs = [
        as_array(Value(trace.input(var, keys=isinstance(x.array.dtype, KeyDType)), x.names), frame)
        for x, var in [(x, var_of(x.array, default_sharding(x.array.shape))) for x in leaves]
    ]
    with trace.activate(mapped=frame is not None):
        out, structure = tree.flatten(f(*tree.unflatten(args, inputs)))
        values = [value_of(x, f"{what}: its result", frame) for x in out]
        if finish is not None:
            values = finish(values, structure)
        graph = trace.graph
        graph.results = [trace.lift(x.array) for x in values]
    captured = tuple(graph.constants.values())
    graph.inputs += list(graph.constants)
    graph.constants = {}
    graph = optimized(graph)
    graph.captured = len(captured)
    return Body(graph, captured, structure, tuple(values))


def scalar(x: Any, function: str, argument: str, kinds: str) -> Value:
    """Convert an argument that has to be a scalar of one of some kinds of types."""
    x = getattr(x, "raw_value", x)  # an nnx.Variable
    value = value_of(x, f"{function}: {argument}", innermost())
    if value.shape or value.array.dtype.kind not in kinds:
        way = "" if kinds == "iu" else ". Try: numpy.where, to choose for each element"
        raise ArgumentTypeError(
            f"{function}: {argument} is {value!r}; give a scalar that is "
            f"{'an integer' if kinds == 'iu' else 'a boolean'}{way}",
            argument=argument,
            shape=value.shape,
        )
    return value


def check_unroll(unroll: Any, function: str) -> None:
    """Check `unroll`, which changes nothing here, as other libraries check it."""
    if not isinstance(unroll, int | np.integer) or unroll < 0:
        raise ArgumentError.refusing(
            "unroll", unroll, "must be a boolean or an integer, 0 or more", function
        )


def where(condition: Any, x: Any, y: Any) -> Any:
    """Choose elements of `x` where a condition holds, else of `y`.

    The condition has the leading dims of `x` and is repeated along the others. If both sides are
    weakly typed, the result is, too.
    """
    ones = (*condition.shape, *(1,) * (x.ndim - condition.ndim))
    if ones != condition.shape:
        condition = bind(RESHAPE, (condition,), (ones,))
    result = bind(WHERE, (condition, x, y))
    if x._weak_type and y._weak_type:
        _set_weak(result, weak=True)
    return result


def _set_weak(array: Any, *, weak: bool) -> None:
    """Make the type of a new array weak or strong; nothing else may hold the array yet."""
    array._weak_type = weak
    if isinstance(array, Tracer):
        array._var.weak = weak
    elif isinstance(array, Mapped):
        _set_weak(array._value, weak=weak)


def result_vars(body: Body) -> list[tuple[Var, bool]]:
    """Describe each result of a body: a new value of the calling graph, and whether it is keys."""
    return [
        (Var(var.dtype, var.tiling, var.sharding, var.committed, var.weak), is_keys(x.array))
        for var, x in zip(body.graph.results, body.results, strict=True)
    ]


def make_like(x: Value, other: Value) -> Value:
    """Give a value the named dims, the strong type and the layout of another one."""
    array, to = add_names(x, other.names), other.array
    if array._weak_type and not to._weak_type:
        array = make_strong(array)
    if not lie_alike(array, to) or (to._committed and not array._committed):
        array = array._moved(to._sharding, "control flow")
    return Value(array, other.names)


def lie_alike(x: Any, y: Any) -> bool:
    return x._held().tiling is y._held().tiling


def fits(x: Value, other: Value) -> bool:
    """Whether a value has the weak type, the named dims and the layout of another one."""
    weak = x.array._weak_type == other.array._weak_type
    return weak and x.names == other.names and lie_alike(x.array, other.array)


def check_same(
    what: str, results: Sequence[Value], structure: Any, wanted: Sequence[Value], form: Any, of: str
) -> None:
    """Check that results of a function have the structure, shapes and types of other values.

    Args:
      what: the function, for errors.
      results: the leaves of its results.
      structure: their structure.
      wanted: the leaves of the other values.
      form: their structure.
      of: the other values, for errors.
    """
    same = structure == form and all(
        a.shape == b.shape and a.array.dtype == b.array.dtype
        for a, b in zip(results, wanted, strict=True)
    )
    if not same:
        raise ArgumentTypeError(
            f"{what} returns {tree.unflatten(structure, results)}, and {of} is "
            f"{tree.unflatten(form, wanted)}; both must have the same structure, shapes and types",
            argument="function",
        )


def add_names(x: Value, names: Names) -> Any:
    """Return the array of a value with more named dims, along which it is repeated."""
    if x.names == names:
        return x.array
    frame = innermost()
    assert frame is not None
    return broadcast_along(mapped(x.array, x.names, frame, None), names)._value


def make_strong(array: Any) -> Any:
    """Copy an array, so that its type is no longer weak."""
    copied = bind(COPY, (array,))
    _set_weak(copied, weak=False)
    return copied


def make_all_like(wanted: Sequence[Value], results: list[Value], structure: Any) -> list[Value]:
    """Make the first results of a function like other values; keep the rest. See `trace_body`."""
    return [*map(make_like, results, wanted), *results[len(wanted) :]]


class TracedControl(Protocol):
    """A call of control flow with its functions traced."""

    @property
    def bodies(self) -> Sequence[Body]:
        """The traced functions."""

    @property
    def ready(self) -> Runnable:
        """The operation, prepared to run."""
