"""One of several functions, by a value: `cond` and `switch`.

Where the value differs between what is mapped, all are done, and each element takes its own. What
they ask of the host is done for the elements that take them only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard import tree
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.frozen import dataclass
from gpushard.functions.checks import listed
from gpushard.ops.bind import bind
from gpushard.ops.row import Runnable
from gpushard.ops.table.elementwise import ufunc_row
from gpushard.transforms.control_flow.bodies import (
    Body,
    Kept,
    Value,
    all_like,
    check_same,
    kinds,
    outside,
    scalar,
    traced,
    value_of,
    where,
)
from gpushard.transforms.graph.ops import Branch, Inline
from gpushard.transforms.tracing.executable import prepare
from gpushard.transforms.tracing.trace import done
from gpushard.transforms.values.frames import innermost, merged, only_where
from gpushard.transforms.values.signature import check_function, title

__all__ = ["cond", "switch"]

_NONE: Any = object()


def cond(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
    operand: Any = _NONE,
) -> Any:
    """Call one of two functions.

    Both are traced, and must return the same structure, shapes and types. Where `pred` differs
    between what is mapped, both are done.

    Args:
      pred: a boolean, or a number that is one, without dims.
      true_fun: what is called if it is True.
      false_fun: what is called if it is not.
      *operands: what they take.
      operand: the only thing that they take, in place of `operands`.

    Raises:
      ArgumentTypeError: the functions return different things, or pred has dims.

    >>> import gpushard as gs
    >>> f = gs.jit(lambda x: gs.lax.cond(x.sum() > 3, lambda x: x + 1, lambda x: -x, x))
    >>> f(gs.numpy.arange(4)).tolist(), f(gs.numpy.arange(3)).tolist()
    ([1, 2, 3, 4], [0, -1, -2])
    """
    check_function(true_fun, "cond")
    check_function(false_fun, "cond")
    which = scalar(pred, "cond", "pred", "bif")
    return _chosen("cond", which, (false_fun, true_fun), _operands("cond", operands, operand))


def switch(
    index: Any,
    branches: Sequence[Callable[..., Any]],
    *operands: Any,
    operand: Any = _NONE,
) -> Any:
    """Call one of several functions, by its number.

    Args:
      index: an integer without dims; beyond the functions it means the first or the last one.
      branches: the functions.
      *operands: what they take.
      operand: the only thing that they take, in place of `operands`.

    Raises:
      ArgumentError: there is no function.
      ArgumentTypeError: the functions return different things, or index is no integer.

    >>> import gpushard as gs
    >>> gs.lax.switch(1, [lambda x: x, lambda x: x * 10], 3.0)
    Array(30., dtype=float64, weak_type=True)
    """
    functions = tuple(listed(branches, "switch", "branches", "a sequence of functions"))
    if not functions:
        raise ArgumentError("switch: branches is empty; give a function", argument="branches")
    for function in functions:
        check_function(function, "switch")
    which = scalar(index, "switch", "index", "iu")
    return _chosen("switch", which, functions, _operands("switch", operands, operand))


def _operands(name: str, operands: tuple[Any, ...], operand: Any) -> tuple[Any, ...]:
    if operand is _NONE:
        return operands
    if operands:
        raise ArgumentTypeError(
            f"{name}: operand= beside {len(operands)} others; give all by position",
            argument="operand",
        )
    return (operand,)


@dataclass(frozen=True, eq=False)
class _Chosen:
    """Functions one of which is called."""

    name: str  # of the public function
    bodies: list[Body]

    @property
    def op(self) -> Branch:
        return Branch(self.name, tuple([body.graph for body in self.bodies]))

    @functools.cached_property
    def ready(self) -> Runnable:
        return prepare(self.op)


def _chosen(name: str, which: Value, branches: tuple[Any, ...], args: Any) -> Any:
    """Do one of several functions, or all of them where that differs between what is mapped."""
    frame = innermost()
    leaves, form = tree.flatten(args)
    values = [value_of(x, name, frame) for x in leaves]
    kept = Kept(branches, name, form)
    chosen: _Chosen | None = kept.get(values)
    if chosen is None:
        chosen = _Chosen(name, _traced(name, which, branches, form, values))
        kept.put(values, chosen, chosen)
    bodies = chosen.bodies
    structure = bodies[0].structure
    if which.names:
        return tree.unflatten(structure, _every(name, which, bodies, values, frame))
    captured = [x for body in bodies for x in body.captured]
    operands = [which.array, *[x.array for x in values], *captured]
    made = done(chosen.op, lambda: chosen.ready, operands, kinds(bodies[0]))
    names = [x.names for x in bodies[0].results]
    results = [outside(Value(x, own), frame) for x, own in zip(made, names, strict=True)]
    return tree.unflatten(structure, results)


def _traced(
    name: str, which: Value, branches: tuple[Any, ...], form: Any, values: list[Value]
) -> list[Body]:
    """Trace functions, so that all give their results in the same way."""
    whats = [title(name, branch) for branch in branches]
    if which.names and len(branches) > 1:
        last = len(branches) - 1
        branches = tuple([_masked(name, f, which, n, last) for n, f in enumerate(branches)])
    bodies = [
        traced(branch, form, values, what) for branch, what in zip(branches, whats, strict=True)
    ]
    first = bodies[0]
    for body, what in zip(bodies, whats, strict=True):
        check_same(what, body.results, body.structure, first.results, first.structure, "another")
    wanted = _common([body.results for body in bodies])
    if which.names or any(body.results != tuple(wanted) for body in bodies):
        finish = functools.partial(all_like, wanted)
        bodies = [
            traced(branch, form, values, what, finish)
            for branch, what in zip(branches, whats, strict=True)
        ]
    return bodies


def _masked(name: str, branch: Any, which: Value, n: int, last: int) -> Callable[..., Any]:
    """Return a branch whose callbacks are called for the elements that take it."""
    number = outside(which, innermost())

    def takes() -> Any:
        if name == "cond":
            return bind(_NOT_EQUAL if n else _EQUAL, (number, 0))
        if n == 0:
            return bind(_LESS, (number, 1))
        return bind(_EQUAL if n < last else _GREATER_EQUAL, (number, n))

    def call(*operands: Any) -> Any:
        with only_where(takes):
            return branch(*operands)

    return call


def _common(each: Sequence[Sequence[Value]]) -> list[Value]:
    """Return for every result the branch whose value others can be made like."""
    found = []
    for values in zip(*each, strict=True):
        names = merged(*[x.names for x in values])
        strong = [x for x in values if not x.array._weak_type] or values
        found.append(max(strong, key=lambda x: (len(x.names), x.array._committed)))
        if found[-1].names != names:
            found[-1] = Value(found[-1].array, names)
    return found


def _called(body: Body, values: Sequence[Value], name: str) -> list[Value]:
    """Run a function once."""
    operands = [*[x.array for x in values], *body.captured]
    op = Inline(name, body.graph)
    made = done(op, lambda: prepare(op), operands, kinds(body))
    return [Value(x, own.names) for x, own in zip(made, body.results, strict=True)]


def _every(
    name: str, which: Value, bodies: Sequence[Body], values: list[Value], frame: Any
) -> list[Any]:
    """Do all branches, and let each element take its own."""
    number = outside(which, frame)
    found = [outside(x, frame) for x in _called(bodies[0], values, name)]
    for n, body in enumerate(bodies[1:], 1):
        if name == "cond":
            mine = number if number.dtype == np.bool_ else bind(_NOT_EQUAL, (number, 0))
        else:
            mine = bind(_GREATER_EQUAL, (number, n))
        other = [outside(x, frame) for x in _called(body, values, name)]
        found = [where(mine, new, old) for new, old in zip(other, found, strict=True)]
    return found


_EQUAL, _NOT_EQUAL = ufunc_row(np.equal), ufunc_row(np.not_equal)
_LESS, _GREATER_EQUAL = ufunc_row(np.less), ufunc_row(np.greater_equal)
