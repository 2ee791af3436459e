"""Control flow that depends on values: its bodies are traced once, and run as often as is needed.

Everything works alike on arrays, on values that are traced and on values that are mapped: bodies
become graphs, and what runs these is one operation, which is done at once or recorded. Where a
condition differs between what is mapped, both ways are done, and each element takes its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard import tree
from gpushard.array.array import Array
from gpushard.array.key_array import is_keys
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.frozen import dataclass
from gpushard.movement.host import read_host
from gpushard.ops.bind import bind
from gpushard.ops.table.elementwise import COPY, WHERE, ufunc_row
from gpushard.ops.table.movement import CONCATENATE, RESHAPE, STACK, index
from gpushard.placement.device_put import device_put
from gpushard.transforms.executable import Executable, array_of, var_of
from gpushard.transforms.graph import Graph, Var
from gpushard.transforms.named_dims import (
    Frame,
    Names,
    as_mapped,
    innermost,
    mapped,
    merged,
    spread,
)
from gpushard.transforms.propagate import optimized
from gpushard.transforms.signature import check_function, check_leaf, title
from gpushard.transforms.trace import Trace, Tracer, alone, done

# fmt: off
__all__ = ["associative_scan", "cond", "fori_loop", "map", "scan", "switch", "while_loop"]
# fmt: on

_SEVERAL = 64
"""So many arrays are put together at once."""


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


def _value(x: Any, what: str, frame: Frame | None) -> Value:
    """Return an argument or result as a value."""
    check_leaf(x, what, "a value")
    if frame is not None:
        x = as_mapped(x, frame)
        return Value(x._value, x._names)
    return Value(x if isinstance(x, Array) else device_put(x), ())


def _outside(x: Value, frame: Frame | None) -> Any:
    return x.array if frame is None else mapped(x.array, x.names, frame, None)


@dataclass(frozen=True, eq=False)
class Body:
    """A function that control flow runs."""

    graph: Graph
    executable: Executable
    captured: tuple[Any, ...]  # arrays of outside that it needs, after its arguments
    structure: Any  # of what it returns
    results: tuple[Value, ...]  # what it returns, as traced


def _traced(f: Any, args: Any, leaves: Sequence[Value], what: str, finish: Any = None) -> Body:
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
        _outside(Value(trace.input(var_of(x.array), keys=is_keys(x.array)), x.names), frame)
        for x in leaves
    ]
    with trace.entered(mapped=frame is not None):
        out, structure = tree.flatten(f(*tree.unflatten(args, inside)))
        values = [_value(x, f"{what}: what it returns", frame) for x in out]
        if finish is not None:
            values = finish(values, structure)
        graph = trace.graph
        graph.results = [trace.lift(x.array) for x in values]
    captured = tuple(graph.constants.values())
    graph.inputs += list(graph.constants)
    graph.constants = {}
    graph = optimized(graph)
    return Body(graph, Executable(graph), captured, structure, tuple(values))


def _kinds(body: Body) -> list[tuple[Var, bool]]:
    """Return what the results of a function are outside of it."""
    return [
        (Var(var.dtype, var.tiling, var.sharding, var.committed, var.weak), is_keys(x.array))
        for var, x in zip(body.graph.results, body.results, strict=True)
    ]


def _like(x: Value, other: Value) -> Value:
    """Return a value with the names, the type and the place of another one."""
    frame, array = innermost(), x.array
    if x.names != other.names:
        assert frame is not None
        array = spread(mapped(array, x.names, frame, None), other.names)._value
    to = other.array
    if array._weak_type and not to._weak_type:
        array = bind(COPY, (array,))
        if isinstance(array, Tracer):
            array._var.weak = array._weak_type = False
    if array._held().tiling is not to._held().tiling:
        array = array._moved(to._sharding, "control flow")
    return Value(array, other.names)


def _check_same(
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
    frame, wider = innermost(), []
    for new, old in zip(found, values, strict=True):
        names = merged(new.names, old.names)
        array = old.array
        if names != old.names:
            assert frame is not None
            array = spread(mapped(array, old.names, frame, None), names)._value
        if array._weak_type and not new.array._weak_type:
            array = _strong(array)
        if names == new.names and new.array._held().tiling is not array._held().tiling:
            array = array._moved(new.array._sharding, "control flow")
        wider.append(old if array is old.array else Value(array, names))
    return wider


def _strong(array: Any) -> Any:
    """Return an array whose type does not give way to others."""
    made = bind(COPY, (array,))
    made._weak_type = False
    if isinstance(made, Tracer):
        made._var.weak = False
    return made


def _settled(
    make: Callable[[Sequence[Value], Any], Body], values: list[Value]
) -> tuple[list[Value], Body]:
    """Return what a loop begins with, and its body, whose first results are like that.

    Args:
      make: traces the body for values; the second argument is for `_traced`.
      values: what the user begins with.
    """
    for _ in range(3):
        body = make(values, None)
        wider = _wider(body.results[: len(values)], values)
        if all(new is old for new, old in zip(wider, values, strict=True)):
            return values, body
        values = wider

    def finish(found: list[Value], structure: Any) -> list[Value]:
        own = [_like(x, v) for x, v in zip(found, values, strict=False)]
        return [*own, *found[len(own) :]]

    return values, make(values, finish)


def cond(
    pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any
) -> Any:
    """Call one of two functions.

    Both are traced, and must return the same structure, shapes and types. Where `pred` differs
    between what is mapped, both are done.

    Args:
      pred: a boolean, or a number that is one, without dims.
      true_fun: what is called if it is True.
      false_fun: what is called if it is not.
      *operands: what they take.

    Raises:
      ArgumentTypeError: the functions return different things, or pred has dims.

    >>> import gpushard as gs
    >>> f = gs.jit(lambda x: gs.lax.cond(x.sum() > 3, lambda x: x + 1, lambda x: -x, x))
    >>> f(gs.numpy.arange(4)).tolist(), f(gs.numpy.arange(3)).tolist()
    ([1, 2, 3, 4], [0, -1, -2])
    """
    check_function(true_fun, "cond")
    check_function(false_fun, "cond")
    which = _number(pred, "cond", "pred", "bif")
    return _chosen("cond", which, (false_fun, true_fun), operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """Call one of several functions, by its number.

    Args:
      index: an integer without dims; beyond the functions it means the first or the last one.
      branches: the functions.
      *operands: what they take.

    Raises:
      ArgumentError: there is no function.
      ArgumentTypeError: the functions return different things, or index is no integer.

    >>> import gpushard as gs
    >>> gs.lax.switch(1, [lambda x: x, lambda x: x * 10], 3.0)
    Array(30., dtype=float64, weak_type=True)
    """
    if not branches:
        raise ArgumentError("switch: branches is empty; give a function", argument="branches")
    for branch in branches:
        check_function(branch, "switch")
    return _chosen("switch", _number(index, "switch", "index", "iu"), tuple(branches), operands)


def _number(x: Any, function: str, argument: str, kinds: str) -> Value:
    found = _value(x, f"{function}: {argument}", innermost())
    if found.shape or found.array.dtype.kind not in kinds:
        raise ArgumentTypeError(
            f"{function}: {argument} is {found!r}; give "
            f"{'an integer' if kinds == 'iu' else 'a boolean'} without dims",
            argument=argument,
            shape=found.shape,
        )
    return found


def _chosen(name: str, which: Value, branches: tuple[Any, ...], operands: Any) -> Any:
    """Do one of several functions, or all of them where that differs between what is mapped."""
    frame = innermost()
    leaves, form = tree.flatten(operands)
    values = [_value(x, name, frame) for x in leaves]
    whats = [title(name, branch) for branch in branches]
    bodies = [
        _traced(branch, form, values, what) for branch, what in zip(branches, whats, strict=True)
    ]
    first = bodies[0]
    for body, what in zip(bodies, whats, strict=True):
        _check_same(what, body.results, body.structure, first.results, first.structure, "another")
    wanted = _common([body.results for body in bodies])
    if which.names or any(body.results != tuple(wanted) for body in bodies):
        finish = functools.partial(_all_like, wanted)
        bodies = [
            _traced(branch, form, values, what, finish)
            for branch, what in zip(branches, whats, strict=True)
        ]
    if which.names:
        return tree.unflatten(first.structure, _every(name, which, bodies, values, frame))
    count, starts = len(values) + 1, [0]
    for body in bodies:
        starts.append(starts[-1] + len(body.captured))
    given = [which.array, *[x.array for x in values], *[c for b in bodies for c in b.captured]]

    def run(buffers: Sequence[Any]) -> Sequence[Any]:
        value = read_host(buffers[0])
        number = int(value != 0) if name == "cond" else min(max(int(value), 0), len(bodies) - 1)
        own = buffers[count + starts[number] : count + starts[number + 1]]
        return bodies[number].executable.run([*buffers[1:count], *own])

    made = done(name, run, given, _kinds(bodies[0]), bodies=[body.graph for body in bodies])
    names = [x.names for x in bodies[0].results]
    results = [_outside(Value(x, own), frame) for x, own in zip(made, names, strict=True)]
    return tree.unflatten(first.structure, results)


def _common(each: Sequence[Sequence[Value]]) -> list[Value]:
    """Return for every result the branch whose value others can be made like."""
    found = []
    for values in zip(*each, strict=True):
        names = merged(*[x.names for x in values])
        strong = [x for x in values if not x.array._weak_type] or values
        found.append(max(strong, key=lambda x: len(x.names)))
        if found[-1].names != names:
            found[-1] = Value(found[-1].array, names)
    return found


def _all_like(wanted: Sequence[Value], found: list[Value], structure: Any) -> list[Value]:
    return [_like(x, own) for x, own in zip(found, wanted, strict=True)]


def _called(body: Body, values: Sequence[Value], name: str) -> list[Value]:
    """Run a function once."""
    given = [*[x.array for x in values], *body.captured]
    made = done(name, body.executable.run, given, _kinds(body), bodies=[body.graph])
    return [Value(x, own.names) for x, own in zip(made, body.results, strict=True)]


def _every(
    name: str, which: Value, bodies: Sequence[Body], values: list[Value], frame: Any
) -> list[Any]:
    """Do all branches, and let each element take its own."""
    number = _outside(which, frame)
    found = [_outside(x, frame) for x in _called(bodies[0], values, name)]
    for n, body in enumerate(bodies[1:], 1):
        if name == "cond":
            mine = number if number.dtype == np.bool_ else bind(_NOT_EQUAL, (number, 0))
        else:
            mine = bind(_GREATER_EQUAL, (number, n))
        other = [_outside(x, frame) for x in _called(body, values, name)]
        found = [_where(mine, new, old) for new, old in zip(other, found, strict=True)]
    return found


_NOT_EQUAL, _GREATER_EQUAL = ufunc_row(np.not_equal), ufunc_row(np.greater_equal)


def _where(condition: Any, x: Any, y: Any) -> Any:
    ones = (*condition.shape, *(1,) * (x.ndim - condition.ndim))
    if ones != condition.shape:
        condition = bind(RESHAPE, (condition,), (ones,))
    return bind(WHERE, (condition, x, y))


def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
) -> Any:
    """Call a function again and again, as long as a condition holds of what it returned last.

    Where the condition differs between what is mapped, each element keeps what it had when it
    ceased to hold.

    Args:
      cond_fun: takes the value, and returns a boolean without dims.
      body_fun: takes the value, and returns the next one, of the same structure, shapes and types.
      init_val: the first value, a pytree.

    Raises:
      ArgumentTypeError: the value changes its structure, shapes or types; the condition is no
        boolean without dims.

    >>> import gpushard as gs
    >>> gs.lax.while_loop(lambda x: x < 100, lambda x: x * 3, 2)
    Array(162, dtype=int64, weak_type=True)
    """
    check_function(cond_fun, "while_loop")
    check_function(body_fun, "while_loop")
    return _while("while_loop", cond_fun, body_fun, init_val)


def _while(name: str, cond_fun: Any, body_fun: Any, init_val: Any) -> Any:
    """Do a loop for a public function of that name."""
    frame = innermost()
    leaves, form = tree.flatten(init_val)
    values = [_value(x, f"{name}: init_val", frame) for x in leaves]
    one = tree.structure((init_val,))
    what = title(name, body_fun)
    tests: list[Body] = []

    def make(values: Sequence[Value], finish: Any) -> Body:
        tests[:] = [_condition(cond_fun, one, values)]
        body = _traced(
            _masked if tests[0].results[0].names else body_fun, one, values, what, finish
        )
        _check_same(what, body.results, body.structure, values, form, "what it is given")
        return body

    def _masked(value: Any) -> Any:
        holds, new = cond_fun(value), body_fun(value)
        leaves, structure = tree.flatten(new)
        if structure != form:
            return new
        old = tree.leaves(value)
        kept = [_where(holds, x, y) for x, y in zip(leaves, old, strict=True)]
        return tree.unflatten(form, kept)

    values, body = _settled(make, values)
    (test,) = tests
    count, own = len(values), len(values) + len(test.captured)

    def run(buffers: Sequence[Any]) -> Sequence[Any]:
        carry: Sequence[Any] = buffers[:count]
        of_test, of_body = buffers[count:own], buffers[own:]
        while read_host(test.executable.run([*carry, *of_test])[0]).any():
            carry = body.executable.run([*carry, *of_body])
        return carry

    given = [*[x.array for x in values], *test.captured, *body.captured]
    made = done("while", run, given, _kinds(body), bodies=[test.graph, body.graph])
    found = [_outside(Value(x, v.names), frame) for x, v in zip(made, values, strict=True)]
    return tree.unflatten(form, found)


def _condition(cond_fun: Any, one: Any, values: Sequence[Value]) -> Body:
    what = title("while_loop", cond_fun)
    test = _traced(cond_fun, one, values, what)
    holds = test.results[0] if len(test.results) == 1 else None
    if holds is None or holds.shape or holds.array.dtype != np.bool_:
        raise ArgumentTypeError(
            f"{what} returns {tree.unflatten(test.structure, test.results)}; it must return a "
            "boolean without dims",
            argument="cond_fun",
        )
    return test


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any) -> Any:
    """Call a function with the integers of a range and what it returned last.

    Args:
      lower: the first integer.
      upper: the one after the last.
      body_fun: takes an integer without dims and the value; returns the next value.
      init_val: the first value, a pytree.

    Raises:
      ArgumentTypeError: the value changes its structure, shapes or types; lower or upper is no
        integer without dims.

    >>> import gpushard as gs
    >>> gs.lax.fori_loop(0, 5, lambda i, total: total + i, 0)
    Array(10, dtype=int64, weak_type=True)
    """
    check_function(body_fun, "fori_loop")

    def step(state: Any) -> Any:
        i, end, value = state
        return i + 1, end, body_fun(i, value)

    step.__name__ = getattr(body_fun, "__name__", "body_fun")
    start, end = (
        _number(lower, "fori_loop", "lower", "iu"),
        _number(upper, "fori_loop", "upper", "iu"),
    )
    frame = innermost()
    state = (_outside(start, frame), _outside(end, frame), init_val)
    return _while("fori_loop", lambda state: state[0] < state[1], step, state)[2]


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
    """Call a function with each part of arrays along their first dim, and what it returned last.

    Args:
      f: takes the carry and a part of each array; returns the next carry, of the same structure,
        shapes and types, and what is to be stacked.
      init: the first carry, a pytree.
      xs: a pytree of arrays whose first dims have one length; None for none.
      length: that length; needed where there are no arrays.
      reverse: whether to begin with the last part; results are stacked in the order of the parts.
      unroll: has no meaning here, and is there for programs that give it.

    Returns:
      The last carry, and what was stacked.

    Raises:
      ArgumentError: lengths differ, or nothing says how often.
      ArgumentTypeError: the carry changes its structure, shapes or types; f returns no pair.

    >>> import gpushard as gs
    >>> total, sums = gs.lax.scan(lambda c, x: (c + x, c + x), 0, gs.numpy.arange(5))
    >>> total.item(), sums.tolist()
    (10, [0, 1, 3, 6, 10])
    """
    check_function(f, "scan")
    return _scan("scan", f, init, xs, length, reverse=reverse)


def _scan(
    name: str, f: Any, init: Any, xs: Any, length: int | None, *, reverse: bool
) -> tuple[Any, Any]:
    """Do a loop over arrays for a public function of that name."""
    frame, what = innermost(), title(name, f)
    leaves, form = tree.flatten(init)
    values = [_value(x, f"{name}: init", frame) for x in leaves]
    parts = tree.leaves(xs)
    arrays = [_value(x, f"{name}: xs", frame) for x in parts]
    count = _length(arrays, length, what)
    slices = [_abstract_part(x) for x in arrays]
    pair = tree.structure((init, xs))
    forms: list[Any] = []

    def own(carry: Any, part: Any) -> Any:
        result = f(carry, part)
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise ArgumentTypeError(
                f"{what} returns a {type(result).__name__}; it must return a pair: the carry, and "
                "what is to be stacked, or None",
                argument="f",
            )
        forms[:] = [tree.structure(result[0]), tree.structure(result[1])]
        return tree.leaves(result[0]), tree.leaves(result[1])

    def make(values: Sequence[Value], finish: Any) -> Body:
        body = _traced(own, pair, [*values, *slices], what, finish)
        carried = body.results[: forms[0].num_leaves]
        _check_same(what, carried, forms[0], values, form, "the carry that it is given")
        return body

    values, body = _settled(make, values)
    carries, several = len(values), len(values) + len(arrays)
    stacked = body.results[carries:]
    ends = [_stacked_kind(x, count) for x in stacked]
    order = range(count - 1, -1, -1) if reverse else range(count)
    kinds = [(var_of(x.array), is_keys(x.array)) for x in arrays]
    each = _kinds(body)[carries:]

    def run(buffers: Sequence[Any]) -> Sequence[Any]:
        carry: Sequence[Any] = buffers[:carries]
        wholes = [
            array_of(buffer, var, keys=keys)
            for buffer, (var, keys) in zip(buffers[carries:several], kinds, strict=True)
        ]
        made: list[Any] = [None] * count
        for i in order:
            own = [_part(x, len(v.names), i)._live() for x, v in zip(wholes, arrays, strict=True)]
            results = body.executable.run([*carry, *own, *buffers[several:]])
            carry, made[i] = results[:carries], results[carries:]
        found = []
        for n, (x, (var, keys)) in enumerate(zip(stacked, each, strict=True)):
            column = [array_of(alone(row[n]), var, keys=keys) for row in made]
            found.append(_stack(column, len(x.names))._live())
        return [*carry, *found]

    given = [*[x.array for x in values], *[x.array for x in arrays], *body.captured]
    made = done("scan", run, given, [*_kinds(body)[:carries], *ends], bodies=[body.graph])
    names = [*[x.names for x in values], *[x.names for x in stacked]]
    found = [_outside(Value(x, own), frame) for x, own in zip(made, names, strict=True)]
    return tree.unflatten(form, found[:carries]), tree.unflatten(forms[1], found[carries:])


def _length(arrays: Sequence[Value], length: int | None, what: str) -> int:
    """Return how often a function is called, by the first dims of arrays."""
    lengths = {x.shape[0] if x.shape else None for x in arrays}
    lengths |= set() if length is None else {int(length)}
    if len(lengths) != 1 or None in lengths:
        said = ", ".join([repr(x) for x in arrays]) or "nothing"
        raise ArgumentError(
            f"{what}: xs is {said}, and length={length}; give arrays whose first dims have one "
            "length, or length=",
            argument="xs",
        )
    (count,) = lengths
    if not count:
        raise ArgumentError(
            f"{what}: there is nothing to call it with, as the length is 0; results would have no "
            "elements, make them with gpushard.numpy.zeros",
            argument="xs",
        )
    return int(count)


def _part(x: Any, dim: int, i: int) -> Any:
    """Return a part of an array along a dim."""
    entries: list[Any] = [(0, 1, n) for n in x.shape]
    entries[dim] = i
    return index(x, tuple(entries))


def _stack(column: Sequence[Any], dim: int) -> Any:
    """Put arrays together along a new dim."""
    axis = dim - column[0].ndim
    blocks = [
        bind(STACK, column[n : n + _SEVERAL], (axis - 1,)) for n in range(0, len(column), _SEVERAL)
    ]
    while len(blocks) > 1:
        blocks = [
            bind(CONCATENATE, blocks[n : n + _SEVERAL], (axis - 1,))
            for n in range(0, len(blocks), _SEVERAL)
        ]
    return blocks[0]


def _abstract(f: Callable[..., Any], *xs: Any) -> Any:
    """Return what a function of arrays gives, without data."""
    trace = Trace("scan", str)
    with trace.entered():
        return f(*[trace.input(var_of(x), keys=is_keys(x)) for x in xs])


def _abstract_part(x: Value) -> Value:
    return Value(_abstract(lambda array: _part(array, len(x.names), 0), x.array), x.names)


def _stacked_kind(x: Value, count: int) -> tuple[Var, bool]:
    made = _abstract(lambda array: _stack([array] * count, len(x.names)), x.array)
    return made._var, is_keys(x.array)


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """Call a function with each part of arrays along their first dim, one after the other.

    Args:
      f: the function.
      xs: a pytree of arrays whose first dims have one length.
      batch_size: has no meaning here, and is there for programs that give it; `vmap` does all parts
        at once.

    Returns:
      What it returned, stacked.

    >>> import gpushard as gs
    >>> gs.lax.map(lambda x: x * x, gs.numpy.arange(4))
    Array([0, 1, 4, 9], dtype=int64)
    """
    check_function(f, "map")

    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        return carry, f(x)

    step.__name__ = getattr(f, "__name__", "f")
    return _scan("map", step, (), xs, None, reverse=False)[1]


def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """Combine the elements before each one, in few steps that are done for many at once.

    Blelloch's way (Prefix sums and their applications, 1990): pairs are combined, the results
    scanned, and those between are combined with the ones before them.

    Args:
      fn: associative; takes and returns parts of the arrays along the axis, all at once.
      elems: a pytree of arrays that have the same length along it.
      reverse: whether to begin at the end.
      axis: the dim.

    Returns:
      The same structure; element i is made of those up to i.

    >>> import gpushard as gs
    >>> gs.lax.associative_scan(gs.numpy.add, gs.numpy.arange(6)).tolist()
    [0, 1, 3, 6, 10, 15]
    """
    check_function(fn, "associative_scan")
    leaves, form = tree.flatten(elems)
    frame = innermost()
    arrays = [
        _outside(_value(x, "associative_scan: elems", frame), frame)
        if not isinstance(x, Array)
        else x
        for x in leaves
    ]
    lengths = {x.shape[axis] if -x.ndim <= axis < x.ndim else None for x in arrays}
    if len(lengths) != 1 or None in lengths:
        raise ArgumentError(
            f"associative_scan: elems has the shapes {[x.shape for x in arrays]}; all need one "
            f"length along axis={axis}",
            argument="elems",
        )
    dims = [axis % x.ndim for x in arrays]

    def cut(xs: list[Any], start: int, step: int) -> list[Any]:
        return [_strided(x, dim, start, step) for x, dim in zip(xs, dims, strict=True)]

    def joined(a: list[Any], b: list[Any]) -> list[Any]:
        return tree.leaves(fn(tree.unflatten(form, a), tree.unflatten(form, b)))

    def scanned(xs: list[Any]) -> list[Any]:
        n = xs[0].shape[dims[0]]
        if n < 2:
            return xs
        even, odd = cut(xs, 0, 2), cut(xs, 1, 2)
        pairs = scanned(
            joined([_first(x, d, n // 2) for x, d in zip(even, dims, strict=True)], odd)
        )
        rest = [_strided(x, dim, 1, 1) for x, dim in zip(even, dims, strict=True)]
        found = []
        if rest[0].shape[dims[0]]:
            ahead = [_first(x, d, rest[0].shape[d]) for x, d in zip(pairs, dims, strict=True)]
            rest = joined(ahead, rest)
        for x, own, pair, dim in zip(even, rest, pairs, dims, strict=True):
            first = _first(x, dim, 1)
            evens = bind(CONCATENATE, (first, own), (dim - x.ndim,)) if own.shape[dim] else first
            found.append(_interleaved(evens, pair, dim))
        return found

    if reverse:
        arrays = [
            _strided(x, dim, x.shape[dim] - 1, -1) for x, dim in zip(arrays, dims, strict=True)
        ]
    made = scanned(arrays) if arrays[0].shape[dims[0]] else arrays
    if reverse:
        made = [_strided(x, dim, x.shape[dim] - 1, -1) for x, dim in zip(made, dims, strict=True)]
    return tree.unflatten(form, made)


def _strided(x: Any, dim: int, start: int, step: int) -> Any:
    """Return every so many elements along a dim."""
    n = x.shape[dim]
    return x[(*(slice(None),) * dim, slice(min(start, n) if step > 0 else None, None, step))]


def _first(x: Any, dim: int, count: int) -> Any:
    return x[(*(slice(None),) * dim, slice(0, count))]


def _interleaved(even: Any, odd: Any, dim: int) -> Any:
    """Return the elements of two arrays in turn; the first may have one more."""
    n = odd.shape[dim]
    both = bind(STACK, (_first(even, dim, n), odd), (dim - even.ndim,))
    shape = (*odd.shape[:dim], 2 * n, *odd.shape[dim + 1 :])
    made = bind(RESHAPE, (both,), (shape,))
    if even.shape[dim] == n:
        return made
    return bind(CONCATENATE, (made, _strided(even, dim, n, 1)), (dim - even.ndim,))
