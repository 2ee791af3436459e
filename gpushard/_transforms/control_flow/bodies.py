"""Trace the functions that control flow runs, and keep them for the next call.

`cond`, `while_loop`, `scan` and others call functions of the user: their bodies. Each body is
traced once and becomes a graph. One operation runs the graphs as often as values say. It runs at
once, or is recorded if a traced function makes the call. A mapped value is an array and the names
of its mapped dims, so bodies work on it as on any array.

A loop calls its body with the values that the body returned last. One graph serves all calls if the
body returns values of the same types, named dims and layouts as it takes. `settle_loop` changes the
first values until this is so. An example, where `w` holds one float32 number on each of 4 devices:

    fori_loop(0, 3, lambda i, x: x * w, 1)

1. The body is traced for `x = 1`, a weak int64 on one device, and returns a float32. The type of a
   Python number gives way to that, so the loop begins with a float32.
2. The body is traced for a float32 on one device. It returns one on the 4 devices of `w`, so the
   first value moves there.
3. The body is traced for a float32 on 4 devices and returns the same. The loop runs this graph.

Results may still lack what the first values have: a strong type, a named dim, a layout. Then, and
after four traces in any case, the body is traced once more with its results converted to these. A
result of another shape or type is an error.

Outside traced and mapped functions, a `BodyCache` keeps the traced bodies. A second call with the
same function, and with arguments of the same types and layouts, traces nothing. A body that
captures arrays is traced at every call, because the arrays may have changed.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary, ref

import numpy as np

from gpushard import tree
from gpushard._array.array import Array
from gpushard._array.key_array import is_keys
from gpushard._array.shape_dtype import KeyDType
from gpushard._cache import BoundedCache
from gpushard._frozen import dataclass
from gpushard._ops.bind import bind
from gpushard._ops.steps import Runnable
from gpushard._ops.table.elementwise import COPY, WHERE
from gpushard._ops.table.manipulation import RESHAPE
from gpushard._placement.default_placement import default_sharding, surroundings
from gpushard._placement.device_put import implicitly_put
from gpushard._transforms.graph.graph import Graph, Var
from gpushard._transforms.graph.propagate import optimized
from gpushard._transforms.tracing.executable import var_of
from gpushard._transforms.tracing.trace import Trace, Tracer, tracing
from gpushard._transforms.values.frames import Frame, Names, innermost, merge_names
from gpushard._transforms.values.leaves import check_leaf
from gpushard._transforms.values.mapped import Mapped, as_mapped, broadcast_along, mapped
from gpushard.dtypes import result_type
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.tree.treedef import exact_structure

_CACHE_BYTES = 32 << 20
"""Most bytes of traced bodies that are kept for one function, approximately."""


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
    array, to = _add_names(x, other.names), other.array
    if array._weak_type and not to._weak_type:
        array = _make_strong(array)
    if not _lie_alike(array, to) or (to._committed and not array._committed):
        array = array._moved(to._sharding, "control flow")
    return Value(array, other.names)


def _lie_alike(x: Any, y: Any) -> bool:
    return x._held().tiling is y._held().tiling


def _fits(x: Value, other: Value) -> bool:
    """Whether a value has the weak type, the named dims and the layout of another one."""
    weak = x.array._weak_type == other.array._weak_type
    return weak and x.names == other.names and _lie_alike(x.array, other.array)


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


def _widen(results: Sequence[Value], values: Sequence[Value]) -> list[Value]:
    """Change the first values of a loop to the types, named dims and layouts of its results.

    A value that needs no change is returned itself.
    """
    numbers = [*map(_gives_way, values, results)]
    if any(numbers):
        return [
            Value(old.array.astype(new.array.dtype), old.names) if number else old
            for new, old, number in zip(results, values, numbers, strict=True)
        ]
    wider = []
    for new, old in zip(results, values, strict=True):
        names = merge_names(new.names, old.names)
        array = _add_names(old, names)
        if array._weak_type and not new.array._weak_type:
            array = _make_strong(array)
        follows = new.array._committed or not array._committed
        if names == new.names and follows and not _lie_alike(new.array, array):
            array = array._moved(new.array._sharding, "control flow")
        wider.append(old if array is old.array else Value(array, names))
    return wider


_NUMBERS = {"i": int, "f": float, "c": complex}


def _gives_way(old: Value, new: Value) -> bool:
    """Whether a value came from a Python number and takes the type of another value."""
    number = _NUMBERS.get(old.array.dtype.kind) if old.array._weak_type else None
    dtype = new.array.dtype
    if number is None or dtype == old.array.dtype or is_keys(new.array):
        return False
    return bool(old.shape == new.shape and result_type(number, dtype) == dtype)


def _add_names(x: Value, names: Names) -> Any:
    """Return the array of a value with more named dims, along which it is repeated."""
    if x.names == names:
        return x.array
    frame = innermost()
    assert frame is not None
    return broadcast_along(mapped(x.array, x.names, frame, None), names)._value


def _make_strong(array: Any) -> Any:
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


class Loop(TracedControl, Protocol):
    """A loop with its functions traced."""

    def check(self, values: Sequence[Value]) -> None:
        """Check that the body returns the structure, shapes and types of `values`."""

    @property
    def carried(self) -> Sequence[Value]:
        """Results of the body that the next call of it takes."""


_L = TypeVar("_L", bound=Loop)


def settle_loop(
    cache: BodyCache, trace_loop: Callable[[Sequence[Value], Any], _L], values: list[Value]
) -> tuple[list[Value], _L]:
    """Change the first values of a loop until its body returns values like the ones it takes.

    The opening of this file has an example.

    Args:
      cache: traced bodies of the same functions.
      trace_loop: traces the loop for some values; the second argument is `finish` of `trace_body`.
      values: the first values, as the user gave them.

    Returns:
      The first values to run with, and the traced loop.
    """
    initial, cached = values, cache.get(values)
    if cached is not None:
        loop, rounds = cached
        for returned in rounds:
            values = _widen(returned, values)
        return values, loop
    fitting = False
    rounds = []  # results of each trace that widened the values, to widen others alike
    for _ in range(4):
        loop = trace_loop(values, None)
        if len(values) != len(loop.carried) or not any(map(_gives_way, values, loop.carried)):
            loop.check(values)
        wider = _widen(loop.carried, values)
        if all(new is old for new, old in zip(wider, values, strict=True)):
            fitting = all(map(_fits, loop.carried, values))
            break
        rounds.append(loop.carried)
        values = wider
    if not fitting:
        loop = trace_loop(values, functools.partial(make_all_like, values))
        loop.check(values)
    cache.put(initial, (loop, rounds), loop)
    return values, loop


_caches: WeakKeyDictionary[Any, BoundedCache[Any]] = WeakKeyDictionary()


class BodyCache:
    """Cache of traced bodies for control flow called outside any traced or mapped function.

    Calls inside one are traced with it and are not cached. Neither are bodies that capture arrays.

    Args:
      functions: the functions of the user. The cache lives as long as the last one.
      *key: distinguishes the ways in which they are called, apart from their arguments.
    """

    def __init__(self, functions: Sequence[Any], *key: Any) -> None:
        self._cache: BoundedCache[Any] | None = None
        if innermost() is not None or tracing() is not None:
            return
        *others, last = functions
        with contextlib.suppress(TypeError):  # no hash, or no weak references: not cached
            exact = [exact_structure(x) if isinstance(x, tree.TreeDef) else x for x in key]
            self._key = (*exact, *surroundings(), *map(ref, others))
            hash(self._key)
            cache = _caches.get(last)
            if cache is None:
                cache = _caches.setdefault(last, BoundedCache(_CACHE_BYTES))
            self._cache = cache

    def get(self, values: Sequence[Value]) -> Any:
        """Look up the entry for values of these types and layouts; None if there is none."""
        if self._cache is None:
            return None
        return self._cache.get((*self._key, *map(kind_of, values)))

    def put(self, values: Sequence[Value], entry: Any, control: TracedControl) -> None:
        """Keep an entry for values of these types and layouts, unless a body captures arrays.

        Args:
          values: the values that the functions were called with.
          entry: what `get` returns from now on.
          control: the traced functions; its size counts as that of the entry.
        """
        if self._cache is not None and not any(body.captured for body in control.bodies):
            self._cache.put((*self._key, *map(kind_of, values)), entry, control.ready.nbytes)


def kind_of(x: Value) -> tuple[Any, ...]:
    """Return all that tracing depends on: layout, type, committed and weak type."""
    array = x.array
    return array._held().tiling, array._dtype, array._committed, array._weak_type


def clear_caches() -> None:
    """Clear the caches of all functions."""
    for cache in list(_caches.values()):
        cache.clear()
