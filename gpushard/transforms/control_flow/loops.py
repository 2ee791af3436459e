"""Functions that are called with what they returned last: `while_loop` and `fori_loop`.

Where a condition differs between what is mapped, a loop goes on as long as it holds of any element,
and each keeps what it had when it ceased to hold. The loop carries of which elements it holds, and
its functions ask something of the host for these only.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard import tree
from gpushard.errors import ArgumentTypeError
from gpushard.frozen import dataclass
from gpushard.functions.checks import number_of
from gpushard.ops.bind import bind
from gpushard.ops.row import Runnable
from gpushard.ops.table.elementwise import ufunc_row
from gpushard.transforms.control_flow.bodies import (
    Body,
    Kept,
    Value,
    check_same,
    check_unroll,
    kinds,
    outside,
    scalar,
    settled,
    traced,
    value_of,
    where,
)
from gpushard.transforms.graph.ops import For, While
from gpushard.transforms.tracing.executable import prepare
from gpushard.transforms.tracing.trace import done
from gpushard.transforms.values.frames import Frame, innermost, only_where
from gpushard.transforms.values.signature import check_function, title

__all__ = ["fori_loop", "while_loop"]

_ONE = tree.structure(0)


@dataclass(frozen=True, eq=False)
class _While:
    """A loop with a condition."""

    test: Body
    body: Body
    what: str
    form: Any  # the structure of the value
    returned: Any  # that of what its function returns
    lead: int  # how many values the loop carries for itself, in front

    def check(self, values: Sequence[Value]) -> None:
        own, given = self.carried[self.lead :], values[self.lead :]
        check_same(self.what, own, self.returned, given, self.form, "what it is given")

    @property
    def carried(self) -> Sequence[Value]:
        return self.body.results

    @property
    def bodies(self) -> Sequence[Body]:
        return self.test, self.body

    @property
    def op(self) -> While:
        return While(self.test.graph, self.body.graph)

    @functools.cached_property
    def ready(self) -> Runnable:
        return prepare(self.op)


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
    functions = cond_fun, body_fun
    return _while("while_loop", cond_fun, body_fun, init_val, functions)


def _while(name: str, cond_fun: Any, body_fun: Any, init_val: Any, functions: Any) -> Any:
    """Do a loop for a public function of that name, of functions of the user's."""
    frame = innermost()
    leaves, form = tree.flatten(init_val)
    values = [value_of(x, f"{name}: init_val", frame) for x in leaves]
    one, what = tree.structure((init_val,)), title(name, functions[-1])

    def make(values: Sequence[Value], finish: Any) -> _While:
        test = _condition(cond_fun, one, values)
        body = traced(body_fun, one, values, what, finish)
        return _While(test, body, what, form, body.structure, 0)

    differs = frame is not None and bool(_condition(cond_fun, one, values).results[0].names)
    if not differs:
        values, loop = settled(Kept(functions, name, form), make, values)
        differs = bool(loop.test.results[0].names)
    if differs:
        return _masked(what, cond_fun, body_fun, form, values)
    return tree.unflatten(form, _run(loop, values, frame))


def _masked(what: str, cond_fun: Any, body_fun: Any, form: Any, values: list[Value]) -> Any:
    """Do a loop whose condition differs between what is mapped."""
    frame, forms = innermost(), [form]

    def step(state: Any) -> Any:
        holds, value = state
        before = [copy.copy(x) for x in tree.leaves(value)]  # the function may assign to these
        with only_where(lambda: holds):
            new = body_fun(value)
            leaves, forms[0] = tree.flatten(new)
            if forms[0] != form:
                return holds, new
            own = [outside(value_of(x, f"{what}: what it returns", frame), frame) for x in leaves]
            chosen = [
                where(holds, x, y) if x.shape == y.shape and x.dtype == y.dtype else x  # is checked
                for x, y in zip(own, before, strict=True)
            ]
            value = tree.unflatten(form, chosen)
            return bind(_AND, (holds, cond_fun(value))), value

    def make(values: Sequence[Value], finish: Any) -> _While:
        test = traced(lambda state: state[0], structure, values, what)
        body = traced(step, structure, values, what, finish)
        return _While(test, body, what, form, forms[0], 1)

    init = tree.unflatten(form, [outside(x, frame) for x in values])
    holds = cond_fun(init)
    structure = tree.structure(((holds, init),))
    values, loop = settled(Kept([]), make, [value_of(holds, what, frame), *values])
    return tree.unflatten(form, _run(loop, values, frame)[1:])


def _run(loop: _While, values: Sequence[Value], frame: Frame | None) -> list[Any]:
    """Return what a loop has in the end."""
    operands = [*[x.array for x in values], *loop.test.captured, *loop.body.captured]
    made = done(loop.op, lambda: loop.ready, operands, kinds(loop.body))
    return [outside(Value(x, v.names), frame) for x, v in zip(made, values, strict=True)]


_AND = ufunc_row(np.logical_and)


def _condition(cond_fun: Any, one: Any, values: Sequence[Value]) -> Body:
    what = title("while_loop", cond_fun)
    test = traced(cond_fun, one, values, what)
    holds = test.results[0] if test.structure == _ONE else None
    if holds is None or holds.shape or holds.array.dtype != np.bool_:
        raise ArgumentTypeError(
            f"{what} returns {tree.unflatten(test.structure, test.results)}; it must return a "
            "boolean without dims",
            argument="cond_fun",
        )
    return test


@dataclass(frozen=True, eq=False)
class _Times:
    """A loop over a range of integers."""

    body: Body
    what: str
    form: Any  # the structure of the value
    returned: Any  # that of what its function returns

    def check(self, values: Sequence[Value]) -> None:
        own, given = self.carried[1:], values[1:]
        check_same(self.what, own, self.returned, given, self.form, "what it is given")

    @property
    def carried(self) -> Sequence[Value]:
        return self.body.results

    @property
    def bodies(self) -> Sequence[Body]:
        return (self.body,)

    @functools.cached_property
    def ready(self) -> Runnable:
        return prepare(For(self.body.graph))


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """Call a function with the integers of a range and what it returned last.

    Args:
      lower: the first integer.
      upper: the one after the last.
      body_fun: takes an integer without dims and the value; returns the next value.
      init_val: the first value, a pytree.
      unroll: has no meaning here, and is there for programs that give it.

    Raises:
      ArgumentTypeError: the value changes its structure, shapes or types; lower or upper is no
        integer without dims, or they have two types.
      ArgumentRangeError: upper is a Python integer that the type of lower cannot hold.

    >>> import gpushard as gs
    >>> gs.lax.fori_loop(0, 5, lambda i, total: total + i, 0)
    Array(10, dtype=int64, weak_type=True)
    """
    check_function(body_fun, "fori_loop")
    check_unroll(1 if unroll is None else unroll, "fori_loop")
    if type(lower) is int and type(upper) is int:
        start = scalar(lower, "fori_loop", "lower", "iu")
        return _times(body_fun, start, upper - lower, init_val)
    start, end = _bounds(lower, upper)
    frame = innermost()
    if start.names or end.names:  # each element goes through a range of its own

        def step(state: Any) -> Any:
            i, end, value = state
            return i + 1, end, body_fun(i, value)

        state = (outside(start, frame), outside(end, frame), init_val)
        return _while("fori_loop", lambda state: state[0] < state[1], step, state, (body_fun,))[2]
    return _times(body_fun, start, end, init_val)


def _bounds(lower: Any, upper: Any) -> tuple[Value, Value]:
    """Return the bounds of a range, of one type unless one is a number of Python's."""
    start = scalar(lower, "fori_loop", "lower", "iu")
    end = scalar(upper, "fori_loop", "upper", "iu")
    types = [x.array.dtype for x in (start, end) if not x.array.weak_type]
    if len(types) == 2 and types[0] != types[1]:
        raise ArgumentTypeError(
            f"fori_loop: lower is {types[0]} and upper is {types[1]}; convert one with astype, or "
            "give a Python integer",
            argument="upper",
            dtypes=tuple(types),
        )
    if type(upper) is int and types:
        number_of(upper, types[0], "fori_loop", "upper")  # which the count would never reach
    return start, end


def _times(body_fun: Any, start: Value, end: Value | int, init_val: Any) -> Any:
    """Do a loop over a range that is the same for all that is mapped.

    Its end is a value, or how long it is, if that is known.
    """
    frame, what = innermost(), title("fori_loop", body_fun)
    leaves, form = tree.flatten(init_val)
    values = [start, *[value_of(x, "fori_loop: init_val", frame) for x in leaves]]
    pair = tree.structure((0, init_val))

    def own(i: Any, value: Any) -> Any:
        new = body_fun(i, value)
        forms[:] = [tree.structure(new)]
        return i + 1, new

    forms: list[Any] = []

    def make(values: Sequence[Value], finish: Any) -> _Times:
        body = traced(own, pair, values, what, finish)
        return _Times(body, what, form, forms[0])

    values, loop = settled(Kept([body_fun], "fori_loop", form), make, values)
    times, bound = ((end,), []) if isinstance(end, int) else ((), [end.array])
    operands = [*bound, *[x.array for x in values], *loop.body.captured]
    op = For(loop.body.graph, times)
    made = done(op, lambda: loop.ready, operands, kinds(loop.body)[1:])
    found = [outside(Value(x, v.names), frame) for x, v in zip(made, values[1:], strict=True)]
    return tree.unflatten(form, found)
