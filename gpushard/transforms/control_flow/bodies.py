"""The bodies of control flow: functions that are traced once, and run as often as is needed.

Everything works alike on arrays, on values that are traced and on values that are mapped: bodies
become graphs, and what runs these is one operation, which is done at once or recorded.

Called as they are, outside of such functions, bodies are kept: for arguments of the same kinds the
same function is not traced again, as with `jit`. One that uses arrays of its surroundings is, since
these may have changed.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary, ref

import numpy as np

from gpushard import tree
from gpushard.array.array import Array
from gpushard.array.aval import KeyDType
from gpushard.array.key_array import is_keys
from gpushard.cache import BoundedCache
from gpushard.dtypes import result_type
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.frozen import dataclass
from gpushard.ops.bind import bind
from gpushard.ops.row import Runnable
from gpushard.ops.table.elementwise import COPY, WHERE
from gpushard.ops.table.movement import RESHAPE
from gpushard.placement.defaults import default_sharding, surroundings
from gpushard.placement.device_put import implicitly_put
from gpushard.transforms.graph.graph import Graph, Var
from gpushard.transforms.graph.propagate import optimized
from gpushard.transforms.tracing.executable import var_of
from gpushard.transforms.tracing.trace import Trace, Tracer, tracing
from gpushard.transforms.values.frames import Frame, Names, innermost, merged
from gpushard.transforms.values.mapped import Mapped, as_mapped, mapped, spread
from gpushard.transforms.values.signature import check_leaf
from gpushard.tree.treedef import exact_structure

_CACHE_BYTES = 32 << 20
"""Bytes of bodies that one function keeps, about."""


@dataclass(frozen=True, eq=False)
class Value:
    """A value that control flow works on: an array that is there or traced, and its named dims."""

    array: Any
    names: Names

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dims without the named ones."""
        shape: tuple[int, ...] = self.array.shape[len(self.names) :]
        return shape

    def __repr__(self) -> str:
        return f"{self.array.dtype.name}{list(self.shape)}"


def value_of(x: Any, what: str, frame: Frame | None) -> Value:
    """Return an argument or result as a value."""
    check_leaf(x, what, "a value")
    if frame is not None:
        x = as_mapped(x, frame)
        return Value(x._value, x._names)
    return Value(x if isinstance(x, Array) else implicitly_put(x, what), ())


def outside(x: Value, frame: Frame | None) -> Any:
    """Return a value as the function around sees it."""
    return x.array if frame is None else mapped(x.array, x.names, frame, None)


@dataclass(frozen=True, eq=False)
class Body:
    """A function that control flow runs."""

    graph: Graph
    captured: tuple[Any, ...]  # arrays of outside that it needs, after its arguments
    structure: Any  # of what it returns
    results: tuple[Value, ...]  # what it returns, as traced


def traced(f: Any, args: Any, leaves: Sequence[Value], what: str, finish: Any = None) -> Body:
    """Trace a function.

    Args:
      f: the function.
      args: the structure of its arguments.
      leaves: these.
      what: for errors.
      finish: takes the trace and what the function returned, as values; gives them as wanted.
    """
    frame = innermost()
    trace = Trace(what, lambda number: f"operand {number}")
    inside = [
        outside(Value(trace.input(var, keys=isinstance(x.array.dtype, KeyDType)), x.names), frame)
        for x, var in [(x, var_of(x.array, default_sharding(x.array.shape))) for x in leaves]
    ]
    with trace.entered(mapped=frame is not None):
        out, structure = tree.flatten(f(*tree.unflatten(args, inside)))
        values = [value_of(x, f"{what}: what it returns", frame) for x in out]
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
    """Return an argument that is a number without dims."""
    x = getattr(x, "raw_value", x)  # of a box with a value in it
    found = value_of(x, f"{function}: {argument}", innermost())
    if found.shape or found.array.dtype.kind not in kinds:
        raise ArgumentTypeError(
            f"{function}: {argument} is {found!r}; give "
            f"{'an integer' if kinds == 'iu' else 'a boolean'} without dims",
            argument=argument,
            shape=found.shape,
        )
    return found


def check_unroll(unroll: Any, function: str) -> None:
    """Check what has no meaning here: programs that run here must run elsewhere."""
    if not isinstance(unroll, int | np.integer) or unroll < 0:
        raise ArgumentError.refusing(
            "unroll", unroll, "must be a boolean or an integer, 0 or more", function
        )


def where(condition: Any, x: Any, y: Any) -> Any:
    """Return elements of `x` where a condition holds, which has no further dims, else of `y`.

    What came from Python's numbers on both sides still gives way to other types.
    """
    ones = (*condition.shape, *(1,) * (x.ndim - condition.ndim))
    if ones != condition.shape:
        condition = bind(RESHAPE, (condition,), (ones,))
    made = bind(WHERE, (condition, x, y))
    if x._weak_type and y._weak_type:
        _set_weak(made, weak=True)
    return made


def _set_weak(array: Any, *, weak: bool) -> None:
    """Say of an array that was just made whether its type gives way to others."""
    array._weak_type = weak
    if isinstance(array, Tracer):
        array._var.weak = weak
    elif isinstance(array, Mapped):
        _set_weak(array._value, weak=weak)


def kinds(body: Body) -> list[tuple[Var, bool]]:
    """Return what the results of a function are outside of it."""
    return [
        (Var(var.dtype, var.tiling, var.sharding, var.committed, var.weak), is_keys(x.array))
        for var, x in zip(body.graph.results, body.results, strict=True)
    ]


def like(x: Value, other: Value) -> Value:
    """Return a value with the names, the type and the place of another one."""
    array, to = _spread(x, other.names), other.array
    if array._weak_type and not to._weak_type:
        array = _strong(array)
    if not _beside(array, to) or (to._committed and not array._committed):
        array = array._moved(to._sharding, "control flow")
    return Value(array, other.names)


def _beside(x: Any, y: Any) -> bool:
    return x._held().tiling is y._held().tiling


def _fits(x: Value, other: Value) -> bool:
    """Whether a value can take the place of another one."""
    weak = x.array._weak_type == other.array._weak_type
    return weak and x.names == other.names and _beside(x.array, other.array)


def check_same(
    what: str, found: Sequence[Value], structure: Any, wanted: Sequence[Value], form: Any, of: str
) -> None:
    """Check that what a function returns has the structure, shapes and types of something else."""
    same = structure == form and all(
        a.shape == b.shape and a.array.dtype == b.array.dtype
        for a, b in zip(found, wanted, strict=True)
    )
    if not same:
        raise ArgumentTypeError(
            f"{what} returns {tree.unflatten(structure, found)}, and {of} is "
            f"{tree.unflatten(form, wanted)}; both must have one structure, shapes and types",
            argument="function",
        )


def _wider(found: Sequence[Value], values: Sequence[Value]) -> list[Value]:
    """Return what a loop must begin with, so that what comes back fits; the same if it does."""
    numbers = [*map(_gives_way, values, found)]
    if any(numbers):
        return [
            Value(old.array.astype(new.array.dtype), old.names) if number else old
            for new, old, number in zip(found, values, numbers, strict=True)
        ]
    wider = []
    for new, old in zip(found, values, strict=True):
        names = merged(new.names, old.names)
        array = _spread(old, names)
        if array._weak_type and not new.array._weak_type:
            array = _strong(array)
        follows = new.array._committed or not array._committed
        if names == new.names and follows and not _beside(new.array, array):
            array = array._moved(new.array._sharding, "control flow")
        wider.append(old if array is old.array else Value(array, names))
    return wider


_NUMBERS = {"i": int, "f": float, "c": complex}


def _gives_way(old: Value, new: Value) -> bool:
    """Whether a value is a number of Python's that takes the type of another value."""
    number = _NUMBERS.get(old.array.dtype.kind) if old.array._weak_type else None
    dtype = new.array.dtype
    if number is None or dtype == old.array.dtype or is_keys(new.array):
        return False
    return bool(old.shape == new.shape and result_type(number, dtype) == dtype)


def _spread(x: Value, names: Names) -> Any:
    """Return a value's array with all these names, along which it is the same if it lacks them."""
    if x.names == names:
        return x.array
    frame = innermost()
    assert frame is not None
    return spread(mapped(x.array, x.names, frame, None), names)._value


def _strong(array: Any) -> Any:
    """Return an array whose type does not give way to others."""
    made = bind(COPY, (array,))
    _set_weak(made, weak=False)
    return made


def all_like(wanted: Sequence[Value], found: list[Value], structure: Any) -> list[Value]:
    """Return what a function gives, with the first of that like other values."""
    return [*map(like, found, wanted), *found[len(wanted) :]]


class Control(Protocol):
    """What control flow has once its functions were traced."""

    @property
    def bodies(self) -> Sequence[Body]:
        """Its functions."""

    @property
    def ready(self) -> Runnable:
        """What runs it."""


class Loop(Control, Protocol):
    """What a loop has once its functions were traced."""

    def check(self, values: Sequence[Value]) -> None:
        """Check that it returns what is like the values that it is given."""

    @property
    def carried(self) -> Sequence[Value]:
        """What its function returns for the next time."""


_L = TypeVar("_L", bound=Loop)


def settled(
    kept: Kept, make: Callable[[Sequence[Value], Any], _L], values: list[Value]
) -> tuple[list[Value], _L]:
    """Return what a loop begins with, and the loop, which returns values like these.

    Args:
      kept: what is kept of its functions.
      make: traces the loop for values; the second argument is for `traced`.
      values: what the user begins with.
    """
    given, known = values, kept.get(values)
    if known is not None:
        loop, rounds = known
        for returned in rounds:
            values = _wider(returned, values)
        return values, loop
    fitting = False
    rounds = []  # what it returned, as long as the values had to be made wider
    for _ in range(4):
        loop = make(values, None)
        if len(values) != len(loop.carried) or not any(map(_gives_way, values, loop.carried)):
            loop.check(values)
        wider = _wider(loop.carried, values)
        if all(new is old for new, old in zip(wider, values, strict=True)):
            fitting = all(map(_fits, loop.carried, values))
            break
        rounds.append(loop.carried)
        values = wider
    if not fitting:
        loop = make(values, functools.partial(all_like, values))
        loop.check(values)
    kept.put(given, (loop, rounds), loop)
    return values, loop


_caches: WeakKeyDictionary[Any, BoundedCache[Any]] = WeakKeyDictionary()


class Kept:
    """What is kept of functions that are called as they are; nothing of those within others.

    Args:
      functions: they; what is kept goes with the last one.
      *key: what tells apart how they are called, but for their arguments.
    """

    def __init__(self, functions: Sequence[Any], *key: Any) -> None:
        self._cache: BoundedCache[Any] | None = None
        if innermost() is not None or tracing() is not None:
            return
        *others, last = functions
        with contextlib.suppress(TypeError):  # of what has no hash, or cannot be referred to weakly
            exact = [exact_structure(x) if isinstance(x, tree.TreeDef) else x for x in key]
            self._key = (*exact, *surroundings(), *map(ref, others))
            hash(self._key)
            found = _caches.get(last)
            if found is None:
                found = _caches.setdefault(last, BoundedCache(_CACHE_BYTES))
            self._cache = found

    def get(self, values: Sequence[Value]) -> Any:
        """Return what was made for values of these kinds, or None."""
        if self._cache is None:
            return None
        return self._cache.get((*self._key, *map(kind_of, values)))

    def put(self, values: Sequence[Value], made: Any, control: Control) -> None:
        """Keep what was made for values of these kinds.

        Args:
          values: what the functions were called with.
          made: what is kept.
          control: the functions, and what runs them.
        """
        if self._cache is not None and not any(body.captured for body in control.bodies):
            self._cache.put((*self._key, *map(kind_of, values)), made, control.ready.nbytes)


def kind_of(x: Value) -> tuple[Any, ...]:
    """Return what tracing sees of a value."""
    array = x.array
    return array._held().tiling, array._dtype, array._committed, array._weak_type


def forget() -> None:
    """Forget what any function was traced to."""
    for cache in list(_caches.values()):
        cache.clear()
