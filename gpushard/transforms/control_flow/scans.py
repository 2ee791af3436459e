"""Functions that are called with parts of arrays, one after the other: `scan` and `map`."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard import tree
from gpushard.array.key_array import is_keys
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.frozen import dataclass
from gpushard.ops.bind import bind
from gpushard.ops.row import Runnable
from gpushard.ops.table.movement import CONCATENATE, index
from gpushard.transforms.control_flow.bodies import (
    Body,
    Kept,
    Value,
    check_same,
    check_unroll,
    kind_of,
    kinds,
    outside,
    settled,
    traced,
    value_of,
)
from gpushard.transforms.graph.graph import Step, Var
from gpushard.transforms.graph.ops import Scan, Stacked
from gpushard.transforms.mapping.vmap import vmap
from gpushard.transforms.tracing.executable import prepare, stack, var_of
from gpushard.transforms.tracing.trace import Trace, done
from gpushard.transforms.values.frames import innermost
from gpushard.transforms.values.signature import check_function, title

__all__ = ["map", "scan"]


@dataclass(frozen=True, eq=False)
class _Scan:
    """A loop over parts of arrays."""

    slices: Sequence[Step]  # take a part of each array, by number
    count: int  # of parts
    reverse: bool  # whether the last part comes first
    body: Body
    what: str
    form: Any  # the structure of the carry
    returned: Any  # that of what it returns for the next time
    carried: Sequence[Value]  # this
    stacked: Sequence[Value]  # what else it returns
    stacked_form: Any  # the structure of that
    ends: Sequence[tuple[Var, bool]]  # what that is once it is stacked

    def check(self, values: Sequence[Value]) -> None:
        of = "the carry that it is given"
        check_same(self.what, self.carried, self.returned, values, self.form, of)

    @property
    def bodies(self) -> Sequence[Body]:
        return (self.body,)

    @functools.cached_property
    def op(self) -> Scan:
        carries = len(self.carried)
        stacked = [
            Stacked(each, keys, len(x.names), whole)
            for (each, keys), x, (whole, _) in zip(
                kinds(self.body)[carries:], self.stacked, self.ends, strict=True
            )
        ]
        slices = tuple(self.slices)
        return Scan(self.body.graph, carries, self.count, self.reverse, slices, tuple(stacked))

    @functools.cached_property
    def ready(self) -> Runnable:
        return prepare(self.op)


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
    check_unroll(unroll, "scan")
    return _scan("scan", f, f, init, xs, length, reverse=reverse)


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """Call a function with each part of arrays along their first dim, one after the other.

    Args:
      f: the function.
      xs: a pytree of arrays whose first dims have one length.
      batch_size: how many parts are done at once, as by `vmap`.

    Returns:
      What it returned, stacked.

    Raises:
      ArgumentError: lengths differ, or batch_size is less than 1.

    >>> import gpushard as gs
    >>> gs.lax.map(lambda x: x * x, gs.numpy.arange(4))
    Array([0, 1, 4, 9], dtype=int64)
    """
    check_function(f, "map")
    if batch_size is None:
        return _map("map", f, f, xs)
    if type(batch_size) is not int or batch_size < 1:
        raise ArgumentError.refusing("batch_size", batch_size, "must be at least 1", "map")
    frame, many = innermost(), vmap(f)
    leaves, form = tree.flatten(xs)
    arrays = [value_of(x, "map: xs", frame) for x in leaves]
    count = _length(arrays, None, title("map", f))
    whole = count - count % batch_size
    parts = [outside(x, frame) for x in arrays]
    done_parts = []
    if whole or not count:
        rows = [x[:whole].reshape((-1, batch_size, *x.shape[1:])) for x in parts]
        made = _map("map in batches", f, many, tree.unflatten(form, rows))
        done_parts.append(tree.map(lambda x: x.reshape((whole, *x.shape[2:])), made))
    if whole < count:
        done_parts.append(many(tree.unflatten(form, [x[whole:] for x in parts])))
    if len(done_parts) == 1:
        return done_parts[0]
    return tree.map(lambda a, b: bind(CONCATENATE, (a, b), (-a.ndim,)), *done_parts)


def _map(name: str, named: Any, f: Any, xs: Any) -> Any:
    """Call a function with each part of arrays; errors name the function of the user's."""

    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        return carry, f(x)

    return _scan(name, named, step, (), xs, None, reverse=False)[1]


def _scan(
    name: str, named: Any, f: Any, init: Any, xs: Any, length: int | None, *, reverse: bool
) -> tuple[Any, Any]:
    """Do a loop over arrays for a public function of that name, of a function of the user's."""
    frame, what = innermost(), title(name, named)
    leaves, form = tree.flatten(init)
    values = [value_of(x, f"{name}: init", frame) for x in leaves]
    arrays = [value_of(x, f"{name}: xs", frame) for x in tree.leaves(xs)]
    count = _length(arrays, length, what)
    pair = tree.structure((init, xs))
    kept = Kept([named], name, pair, count, reverse, *builtins.map(kind_of, arrays))
    make = functools.partial(_made, f, what, form, pair, arrays, count, reverse)
    values, loop = settled(kept, make, values)
    carries = len(values)
    operands = [*[x.array for x in values], *[x.array for x in arrays], *loop.body.captured]
    results = [*kinds(loop.body)[:carries], *loop.ends]
    made = done(loop.op, lambda: loop.ready, operands, results)
    names = [*[x.names for x in values], *[x.names for x in loop.stacked]]
    found = [outside(Value(x, own), frame) for x, own in zip(made, names, strict=True)]
    return tree.unflatten(form, found[:carries]), tree.unflatten(loop.stacked_form, found[carries:])


def _made(
    f: Any,
    what: str,
    form: Any,
    pair: Any,
    arrays: Sequence[Value],
    count: int,
    reverse: bool,
    values: Sequence[Value],
    finish: Any,
) -> _Scan:
    """Trace the function of a loop."""
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

    parts, slices = zip(*builtins.map(_parts, arrays), strict=True) if arrays else ((), ())
    body = traced(own, pair, [*values, *parts], what, finish)
    carries = forms[0].num_leaves
    carried, stacked = body.results[:carries], body.results[carries:]
    ends = [_stacked_kind(x, count) for x in stacked]
    return _Scan(
        slices, count, reverse, body, what, form, forms[0], carried, stacked, forms[1], ends
    )


def _length(arrays: Sequence[Value], length: int | None, what: str) -> int:
    """Return how often a function is called, by the first dims of arrays."""
    lengths = {x.shape[0] if x.shape else None for x in arrays}
    if length is not None:
        if not isinstance(length, int | np.integer) or isinstance(length, bool):
            raise ArgumentTypeError.refusing("length", length, "must be an integer, or None", what)
        if length < 0:
            raise ArgumentError.refusing("length", length, "must not be negative", what)
        lengths.add(int(length))
    if len(lengths) != 1 or None in lengths:
        said = ", ".join([repr(x) for x in arrays]) or "nothing"
        raise ArgumentError(
            f"{what}: xs is {said}, and length={length}; give arrays whose first dims have one "
            "length, or length=",
            argument="xs",
        )
    (count,) = (int(n) for n in lengths if n is not None)
    return count


def _abstract(f: Callable[..., Any], var: Var, *, keys: bool) -> Any:
    """Return what a function of an array gives, without data."""
    trace = Trace("scan", str)
    with trace.entered():
        return f(trace.input(var, keys=keys))


def _parts(x: Value) -> tuple[Value, Step]:
    """Return what a part of an array is, also of one that has none, and what takes it."""
    var, dim = var_of(x.array), len(x.names)
    if not var.shape[dim]:
        shape = (*var.shape[:dim], 1, *var.shape[dim + 1 :])
        lies = var.sharding
        var = Var(var.dtype, lies.tiling(shape), lies, var.committed, var.weak)
    entries: list[Any] = [(0, 1, n) for n in var.shape]
    entries[dim] = 0
    part = _abstract(lambda array: index(array, tuple(entries)), var, keys=is_keys(x.array))
    (step,) = part._trace.graph.steps
    return Value(part, x.names), step


def _stacked_kind(x: Value, count: int) -> tuple[Var, bool]:
    """Return what as many results as a function is called are once they are stacked."""

    def stacked(array: Any) -> Any:
        whole = stack([array] * max(count, 1), len(x.names))
        if count:
            return whole
        entries: list[Any] = [(0, 1, n) for n in whole.shape]
        entries[len(x.names)] = (0, 1, 0)
        return index(whole, tuple(entries))

    keys = is_keys(x.array)
    return _abstract(stacked, var_of(x.array), keys=keys)._var, keys
