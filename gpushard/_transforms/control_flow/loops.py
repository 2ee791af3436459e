"""Call a function with its last result, again and again: `while_loop` and `fori_loop`.

If a condition is mapped, elements may stop at different times. The loop runs as long as the
condition holds for any element, and an element that has stopped keeps its value. The loop carries a
mask of the elements that go on; callbacks in its functions are called only for them.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard import tree
from gpushard._frozen import dataclass
from gpushard._functions.element_types import number_of
from gpushard._ops.bind import bind
from gpushard._ops.steps import Runnable
from gpushard._ops.table.elementwise import ufunc_row
from gpushard._transforms.control_flow.bodies import (
    Body,
    Value,
    as_array,
    check_same,
    check_unroll,
    result_vars,
    scalar,
    trace_body,
    value_of,
    where,
)
from gpushard._transforms.control_flow.body_cache import BodyCache
from gpushard._transforms.control_flow.loop_carry import settle_loop
from gpushard._transforms.graph.ops import For, While
from gpushard._transforms.tracing.executable import prepare
from gpushard._transforms.tracing.trace import run_or_record
from gpushard._transforms.values.frames import Frame, innermost, only_where
from gpushard._transforms.values.user_functions import check_function, title
from gpushard.errors import ArgumentTypeError

__all__ = ["fori_loop", "while_loop"]

_ONE = tree.structure(0)


@dataclass(frozen=True, eq=False)
class _While:
    """A traced loop with a condition."""

    test: Body
    body: Body
    what: str
    form: Any  # the structure of the user's value
    returned: Any  # the structure of the result of its body
    lead: int  # how many values the loop itself carries, in front of the user's

    def check(self, values: Sequence[Value]) -> None:
        results, wanted = self.carried[self.lead :], values[self.lead :]
        check_same(self.what, results, self.returned, wanted, self.form, "its argument")

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
    """Call a function repeatedly with its previous result, while a condition is true for it.

    If `vmap` maps the condition, the loop runs until the condition is false for all elements. An
    element keeps its value once the condition is false for it.

    Args:
      cond_fun: a function that takes the value and returns a boolean scalar.
      body_fun: a function that takes the value and returns the next value, with the same structure,
        shapes and dtypes.
      init_val: the first value, a pytree.

    Returns:
      The first value for which the condition is false.

    Raises:
      ArgumentTypeError: the value changes its structure, shapes or dtypes, or `cond_fun` does not
        return a boolean scalar.

    >>> import gpushard as gs
    >>> gs.lax.while_loop(lambda x: x < 100, lambda x: x * 3, 2)
    Array(162, dtype=int64, weak_type=True)
    """
    check_function(cond_fun, "while_loop")
    check_function(body_fun, "while_loop")
    functions = cond_fun, body_fun
    return _loop_while("while_loop", cond_fun, body_fun, init_val, functions)


def _loop_while(name: str, cond_fun: Any, body_fun: Any, init_val: Any, functions: Any) -> Any:
    """Run a loop with a condition; errors name the public function and those of the user."""
    frame = innermost()
    leaves, form = tree.flatten(init_val)
    values = [value_of(x, f"{name}: init_val", frame) for x in leaves]
    args, what = tree.structure((init_val,)), title(name, functions[-1])

    def trace_loop(values: Sequence[Value], finish: Any) -> _While:
        test = _trace_condition(cond_fun, args, values)
        body = trace_body(body_fun, args, values, what, finish)
        return _While(test, body, what, form, body.structure, 0)

    differs = frame is not None and bool(_trace_condition(cond_fun, args, values).results[0].names)
    if not differs:
        values, loop = settle_loop(BodyCache(functions, name, form), trace_loop, values)
        differs = bool(loop.test.results[0].names)
    if differs:
        return _loop_per_element(what, cond_fun, body_fun, form, values)
    return tree.unflatten(form, _run_loop(loop, values, frame))


def _loop_per_element(
    what: str, cond_fun: Any, body_fun: Any, form: Any, values: list[Value]
) -> Any:
    """Run a loop with a mapped condition: elements that have stopped keep their values."""
    frame, forms = innermost(), [form]

    def step(state: Any) -> Any:
        holds, value = state
        before = [copy.copy(x) for x in tree.leaves(value)]  # the body may assign to its argument
        with only_where(lambda: holds):
            new = body_fun(value)
            leaves, forms[0] = tree.flatten(new)
            if forms[0] != form:
                return holds, new
            after = [as_array(value_of(x, f"{what}: its result", frame), frame) for x in leaves]
            chosen = [  # a result of another shape or type stays, for `check` to refuse it
                where(holds, x, y) if x.shape == y.shape and x.dtype == y.dtype else x
                for x, y in zip(after, before, strict=True)
            ]
            value = tree.unflatten(form, chosen)
            return bind(_AND, (holds, cond_fun(value))), value

    def trace_loop(values: Sequence[Value], finish: Any) -> _While:
        test = trace_body(lambda state: state[0], structure, values, what)
        body = trace_body(step, structure, values, what, finish)
        return _While(test, body, what, form, forms[0], 1)

    init = tree.unflatten(form, [as_array(x, frame) for x in values])
    holds = cond_fun(init)
    structure = tree.structure(((holds, init),))
    values, loop = settle_loop(BodyCache([]), trace_loop, [value_of(holds, what, frame), *values])
    return tree.unflatten(form, _run_loop(loop, values, frame)[1:])


def _run_loop(loop: _While, values: Sequence[Value], frame: Frame | None) -> list[Any]:
    """Run a traced loop, or record it, and return its last values."""
    operands = [*[x.array for x in values], *loop.test.captured, *loop.body.captured]
    arrays = run_or_record(loop.op, lambda: loop.ready, operands, result_vars(loop.body))
    return [as_array(Value(x, v.names), frame) for x, v in zip(arrays, values, strict=True)]


_AND = ufunc_row(np.logical_and)


def _trace_condition(cond_fun: Any, args: Any, values: Sequence[Value]) -> Body:
    """Trace a condition, and check that it returns a boolean scalar."""
    what = title("while_loop", cond_fun)
    test = trace_body(cond_fun, args, values, what)
    holds = test.results[0] if test.structure == _ONE else None
    if holds is None or holds.shape or holds.array.dtype != np.bool_:
        raise ArgumentTypeError(
            f"{what} returns {tree.unflatten(test.structure, test.results)}; it must return a "
            "boolean scalar",
            argument="cond_fun",
        )
    return test


@dataclass(frozen=True, eq=False)
class _ForLoop:
    """A traced loop over a range of integers."""

    body: Body
    what: str
    form: Any  # the structure of the user's value
    returned: Any  # the structure of the result of its body

    def check(self, values: Sequence[Value]) -> None:
        results, wanted = self.carried[1:], values[1:]
        check_same(self.what, results, self.returned, wanted, self.form, "its argument")

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
    """Call a function for each integer of a range, with its previous result.

    Args:
      lower: the first integer, a scalar.
      upper: the integer after the last one, a scalar. If `upper <= lower`, the function is not
        called.
      body_fun: a function that takes the integer, a scalar, and the value. It returns the next
        value, with the same structure, shapes and dtypes.
      init_val: the first value, a pytree.
      unroll: ignored; JAX has this argument.

    Returns:
      The value after the last call.

    Raises:
      ArgumentTypeError: the value changes its structure, shapes or dtypes; or `lower` or `upper` is
        not an integer scalar; or their dtypes differ.
      ArgumentRangeError: `upper` is a Python integer that the dtype of `lower` cannot hold.

    >>> import gpushard as gs
    >>> gs.lax.fori_loop(0, 5, lambda i, total: total + i, 0)
    Array(10, dtype=int64, weak_type=True)
    """
    check_function(body_fun, "fori_loop")
    check_unroll(1 if unroll is None else unroll, "fori_loop")
    if type(lower) is int and type(upper) is int:
        start = scalar(lower, "fori_loop", "lower", "iu")
        return _loop_over_range(body_fun, start, upper - lower, init_val)
    start, end = _bounds(lower, upper)
    frame = innermost()
    if start.names or end.names:  # each element goes through a range of its own

        def step(state: Any) -> Any:
            i, end, value = state
            return i + 1, end, body_fun(i, value)

        state = (as_array(start, frame), as_array(end, frame), init_val)
        return _loop_while(
            "fori_loop", lambda state: state[0] < state[1], step, state, (body_fun,)
        )[2]
    return _loop_over_range(body_fun, start, end, init_val)


def _bounds(lower: Any, upper: Any) -> tuple[Value, Value]:
    """Read the bounds of a range: of one type, unless one of them is a Python number."""
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
        number_of(upper, types[0], "fori_loop", "upper")  # else the count would never reach it
    return start, end


def _loop_over_range(body_fun: Any, start: Value, end: Value | int, init_val: Any) -> Any:
    """Run a loop over a range that is not mapped.

    Args:
      body_fun: the function of the user.
      start: the first integer.
      end: the integer after the last one, or the number of turns as a Python integer.
      init_val: the first value of the user, a pytree.
    """
    frame, what = innermost(), title("fori_loop", body_fun)
    leaves, form = tree.flatten(init_val)
    values = [start, *[value_of(x, "fori_loop: init_val", frame) for x in leaves]]
    pair = tree.structure((0, init_val))

    def step(i: Any, value: Any) -> Any:
        new = body_fun(i, value)
        forms[:] = [tree.structure(new)]
        return i + 1, new

    forms: list[Any] = []

    def trace_loop(values: Sequence[Value], finish: Any) -> _ForLoop:
        body = trace_body(step, pair, values, what, finish)
        return _ForLoop(body, what, form, forms[0])

    values, loop = settle_loop(BodyCache([body_fun], "fori_loop", form), trace_loop, values)
    times, bound = ((end,), []) if isinstance(end, int) else ((), [end.array])
    operands = [*bound, *[x.array for x in values], *loop.body.captured]
    op = For(loop.body.graph, times)
    arrays = run_or_record(op, lambda: loop.ready, operands, result_vars(loop.body)[1:])
    results = [as_array(Value(x, v.names), frame) for x, v in zip(arrays, values[1:], strict=True)]
    return tree.unflatten(form, results)
