"""Call one of several functions, chosen by a value: `cond` and `switch`.

If the value is mapped, elements may choose different functions. All functions then run, and each
element takes the result of its own one. Callbacks in a function are called only for the elements
that choose it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard import tree
from gpushard._frozen import dataclass
from gpushard._functions.argument_checks import listed
from gpushard._ops.bind import bind
from gpushard._ops.steps import Runnable
from gpushard._ops.table.elementwise import ufunc_row
from gpushard._transforms.control_flow.bodies import (
    Body,
    Value,
    as_array,
    check_same,
    make_all_like,
    result_vars,
    scalar,
    trace_body,
    value_of,
    where,
)
from gpushard._transforms.control_flow.body_cache import BodyCache
from gpushard._transforms.graph.ops import Branch, Inline
from gpushard._transforms.tracing.executable import prepare
from gpushard._transforms.tracing.trace import run_or_record
from gpushard._transforms.values.frames import innermost, merge_names, only_where
from gpushard._transforms.values.user_functions import check_function, title
from gpushard.errors import ArgumentError, ArgumentTypeError

__all__ = ["cond", "switch"]

_NONE: Any = object()


def cond(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
    operand: Any = _NONE,
) -> Any:
    """Call one of two functions, depending on a boolean.

    Both functions are traced, and must return the same structure, shapes and dtypes. Only the
    chosen function runs. If `vmap` maps `pred`, both run, and each element takes the result that
    its `pred` chooses.

    Args:
      pred: a boolean scalar, or a number, which counts as True unless it is 0.
      true_fun: the function to call if `pred` is True.
      false_fun: the function to call if `pred` is False.
      *operands: the arguments of both functions.
      operand: an older way to pass a single argument to both functions, in place of `*operands`.

    Returns:
      The result of the chosen function.

    Raises:
      ArgumentTypeError: the functions return different structures, shapes or dtypes, or `pred` is
        not a scalar.

    >>> import gpushard as gs
    >>> f = gs.jit(lambda x: gs.lax.cond(x.sum() > 3, lambda x: x + 1, lambda x: -x, x))
    >>> f(gs.numpy.arange(4)).tolist(), f(gs.numpy.arange(3)).tolist()
    ([1, 2, 3, 4], [0, -1, -2])
    """
    check_function(true_fun, "cond")
    check_function(false_fun, "cond")
    which = scalar(pred, "cond", "pred", "bif")
    return _call_branch("cond", which, (false_fun, true_fun), _operands("cond", operands, operand))


def switch(
    index: Any,
    branches: Sequence[Callable[..., Any]],
    *operands: Any,
    operand: Any = _NONE,
) -> Any:
    """Call one of several functions, chosen by an index.

    All functions are traced, and must return the same structure, shapes and dtypes. Only the chosen
    function runs. If `vmap` maps `index`, all run, and each element takes the result that its
    `index` chooses.

    Args:
      index: an integer scalar, the position in `branches`. An index below 0 means the first
        function, an index beyond the end the last one.
      branches: the functions.
      *operands: the arguments of each function.
      operand: an older way to pass a single argument to the functions, in place of `*operands`.

    Returns:
      The result of the chosen function.

    Raises:
      ArgumentError: `branches` is empty.
      ArgumentTypeError: the functions return different structures, shapes or dtypes, or `index` is
        not an integer scalar.

    >>> import gpushard as gs
    >>> gs.lax.switch(1, [lambda x: x, lambda x: x * 10], 3.0)
    Array(30., dtype=float64, weak_type=True)
    """
    functions = tuple(listed(branches, "switch", "branches", "a sequence of functions"))
    if not functions:
        raise ArgumentError(
            "switch: branches is empty; give at least one function", argument="branches"
        )
    for function in functions:
        check_function(function, "switch")
    which = scalar(index, "switch", "index", "iu")
    return _call_branch("switch", which, functions, _operands("switch", operands, operand))


def _operands(name: str, operands: tuple[Any, ...], operand: Any) -> tuple[Any, ...]:
    if operand is _NONE:
        return operands
    if operands:
        raise ArgumentTypeError(
            f"{name}: operand= was given next to {len(operands)} positional operands; pass all of "
            "them by position",
            argument="operand",
        )
    return (operand,)


@dataclass(frozen=True, eq=False)
class _Branches:
    """Traced functions; a call runs one of them."""

    name: str  # of the public function
    bodies: list[Body]

    @property
    def op(self) -> Branch:
        return Branch(self.name, tuple([body.graph for body in self.bodies]))

    @functools.cached_property
    def ready(self) -> Runnable:
        return prepare(self.op)


def _call_branch(name: str, which: Value, branches: tuple[Any, ...], args: Any) -> Any:
    """Call the function that a value chooses, or all of them if the value is mapped."""
    frame = innermost()
    leaves, form = tree.flatten(args)
    values = [value_of(x, name, frame) for x in leaves]
    cache = BodyCache(branches, name, form)
    control: _Branches | None = cache.get(values)
    if control is None:
        control = _Branches(name, _trace_branches(name, which, branches, form, values))
        cache.put(values, control, control)
    bodies = control.bodies
    structure = bodies[0].structure
    if which.names:
        return tree.unflatten(structure, _call_all_and_select(name, which, bodies, values, frame))
    captured = [x for body in bodies for x in body.captured]
    operands = [which.array, *[x.array for x in values], *captured]
    arrays = run_or_record(control.op, lambda: control.ready, operands, result_vars(bodies[0]))
    results = [
        as_array(Value(x, traced.names), frame)
        for x, traced in zip(arrays, bodies[0].results, strict=True)
    ]
    return tree.unflatten(structure, results)


def _trace_branches(
    name: str, which: Value, branches: tuple[Any, ...], form: Any, values: list[Value]
) -> list[Body]:
    """Trace all functions, so that their results have the same types, named dims and layouts."""
    whats = [title(name, branch) for branch in branches]
    if which.names and len(branches) > 1:
        last = len(branches) - 1
        branches = tuple([_mask_callbacks(name, f, which, n, last) for n, f in enumerate(branches)])
    bodies = [
        trace_body(branch, form, values, what) for branch, what in zip(branches, whats, strict=True)
    ]
    first = bodies[0]
    for body, what in zip(bodies, whats, strict=True):
        check_same(what, body.results, body.structure, first.results, first.structure, "the first")
    wanted = _widest_results([body.results for body in bodies])
    if which.names or any(body.results != tuple(wanted) for body in bodies):
        finish = functools.partial(make_all_like, wanted)
        bodies = [
            trace_body(branch, form, values, what, finish)
            for branch, what in zip(branches, whats, strict=True)
        ]
    return bodies


def _mask_callbacks(name: str, branch: Any, which: Value, n: int, last: int) -> Callable[..., Any]:
    """Make a branch call its callbacks only for the elements that choose it."""
    number = as_array(which, innermost())

    def is_chosen() -> Any:
        if name == "cond":
            return bind(_NOT_EQUAL if n else _EQUAL, (number, 0))
        if n == 0:
            return bind(_LESS, (number, 1))
        return bind(_EQUAL if n < last else _GREATER_EQUAL, (number, n))

    def call(*operands: Any) -> Any:
        with only_where(is_chosen):
            return branch(*operands)

    return call


def _widest_results(each: Sequence[Sequence[Value]]) -> list[Value]:
    """Choose for each result a value that those of the other branches are made like.

    It is a value with a strong type, many named dims, and committed, as far as there is one.
    """
    widest = []
    for values in zip(*each, strict=True):
        names = merge_names(*[x.names for x in values])
        strong = [x for x in values if not x.array._weak_type] or values
        widest.append(max(strong, key=lambda x: (len(x.names), x.array._committed)))
        if widest[-1].names != names:
            widest[-1] = Value(widest[-1].array, names)
    return widest


def _call_body(body: Body, values: Sequence[Value], name: str) -> list[Value]:
    """Run a traced function once, or record it."""
    operands = [*[x.array for x in values], *body.captured]
    op = Inline(name, body.graph)
    arrays = run_or_record(op, lambda: prepare(op), operands, result_vars(body))
    return [Value(x, traced.names) for x, traced in zip(arrays, body.results, strict=True)]


def _call_all_and_select(
    name: str, which: Value, bodies: Sequence[Body], values: list[Value], frame: Any
) -> list[Any]:
    """Run all branches, and select for each element the result of its own one."""
    number = as_array(which, frame)
    results = [as_array(x, frame) for x in _call_body(bodies[0], values, name)]
    for n, body in enumerate(bodies[1:], 1):
        if name == "cond":
            chosen = number if number.dtype == np.bool_ else bind(_NOT_EQUAL, (number, 0))
        else:
            chosen = bind(_GREATER_EQUAL, (number, n))
        other = [as_array(x, frame) for x in _call_body(body, values, name)]
        results = [where(chosen, new, old) for new, old in zip(other, results, strict=True)]
    return results


_EQUAL, _NOT_EQUAL = ufunc_row(np.equal), ufunc_row(np.not_equal)
_LESS, _GREATER_EQUAL = ufunc_row(np.less), ufunc_row(np.greater_equal)
