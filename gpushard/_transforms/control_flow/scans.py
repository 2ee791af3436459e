"""Call a function with each slice of arrays, one after the other: `scan` and `map`."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard import tree
from gpushard._array.key_array import is_keys
from gpushard._frozen import dataclass
from gpushard._ops.bind import bind
from gpushard._ops.steps import Runnable
from gpushard._ops.table.manipulation import CONCATENATE, index
from gpushard._transforms.control_flow.bodies import (
    Body,
    Value,
    as_array,
    check_same,
    check_unroll,
    result_vars,
    trace_body,
    value_of,
)
from gpushard._transforms.control_flow.body_cache import BodyCache, kind_of
from gpushard._transforms.control_flow.loop_carry import settle_loop
from gpushard._transforms.graph.graph import Operation, Var
from gpushard._transforms.graph.ops import Scan, Stacked
from gpushard._transforms.mapping.vmap import vmap
from gpushard._transforms.tracing.executable import prepare, stack, var_of
from gpushard._transforms.tracing.trace import Trace, run_or_record
from gpushard._transforms.values.frames import innermost
from gpushard._transforms.values.user_functions import check_function, title
from gpushard.errors import ArgumentError, ArgumentTypeError

__all__ = ["map", "scan"]


@dataclass(frozen=True, eq=False)
class _Scan:
    """A traced loop over slices of arrays along their first dims."""

    slices: Sequence[Operation]  # for each array, the operation that takes slice number i
    count: int  # of slices
    reverse: bool  # whether the last slice comes first
    body: Body
    what: str
    form: Any  # the structure of the carry
    returned: Any  # the structure of the carry that the body returns
    carried: Sequence[Value]  # its leaves
    stacked: Sequence[Value]  # leaves of the other result, which is stacked
    stacked_form: Any  # its structure
    ends: Sequence[tuple[Var, bool]]  # the stacked results, and whether they are keys

    def check(self, values: Sequence[Value]) -> None:
        of = "the carry that it takes"
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
                result_vars(self.body)[carries:], self.stacked, self.ends, strict=True
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
    """Call a function for each slice of arrays along their first axis, and carry a value along.

    Args:
      f: a function that takes the carry and a slice of each array. It returns a pair. The first
        member is the next carry, with the same structure, shapes and dtypes. The second is a pytree
        of results to stack, or None.
      init: the carry of the first call, a pytree.
      xs: a pytree of arrays with the same length along their first axes; None for no arrays.
      length: the number of calls; needed if `xs` has no arrays.
      reverse: whether to begin with the last slice. In both cases, element i of the results is the
        result of slice i.
      unroll: ignored; JAX has this argument.

    Returns:
      The last carry, and the stacked results.

    Raises:
      ArgumentError: lengths differ, or the number of calls follows neither from `xs` nor `length`.
      ArgumentTypeError: the carry changes its structure, shapes or dtypes, or `f` does not return a
        pair.

    >>> import gpushard as gs
    >>> total, sums = gs.lax.scan(lambda c, x: (c + x, c + x), 0, gs.numpy.arange(5))
    >>> total.item(), sums.tolist()
    (10, [0, 1, 3, 6, 10])
    """
    check_function(f, "scan")
    check_unroll(unroll, "scan")
    return _scan("scan", f, f, init, xs, length, reverse=reverse)


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """Call a function for each slice of arrays along their first axis, one after the other.

    Compared with `vmap`, this takes less memory and more time.

    Args:
      f: the function.
      xs: a pytree of arrays with the same length along their first axes.
      batch_size: the number of slices that `f` takes at once, by `vmap`; None for one at a time.

    Returns:
      The stacked results of `f`.

    Raises:
      ArgumentError: lengths differ, or `batch_size` is less than 1.

    >>> import gpushard as gs
    >>> gs.lax.map(lambda x: x * x, gs.numpy.arange(4))
    Array([0, 1, 4, 9], dtype=int64)
    """
    check_function(f, "map")
    if batch_size is None:
        return _map("map", f, f, xs)
    if type(batch_size) is not int or batch_size < 1:
        raise ArgumentError.refusing("batch_size", batch_size, "must be at least 1", "map")
    frame, batched = innermost(), vmap(f)
    leaves, form = tree.flatten(xs)
    arrays = [value_of(x, "map: xs", frame) for x in leaves]
    count = _length(arrays, None, title("map", f))
    whole = count - count % batch_size
    operands = [as_array(x, frame) for x in arrays]
    results = []
    if whole or not count:
        rows = [x[:whole].reshape((-1, batch_size, *x.shape[1:])) for x in operands]
        batches = _map("map in batches", f, batched, tree.unflatten(form, rows))
        results.append(tree.map(lambda x: x.reshape((whole, *x.shape[2:])), batches))
    if whole < count:
        results.append(batched(tree.unflatten(form, [x[whole:] for x in operands])))
    if len(results) == 1:
        return results[0]
    return tree.map(lambda a, b: bind(CONCATENATE, (a, b), (-a.ndim,)), *results)


def _map(name: str, named: Any, f: Any, xs: Any) -> Any:
    """Call `f` with each slice of arrays; errors name `named`, the function of the user."""

    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        return carry, f(x)

    return _scan(name, named, step, (), xs, None, reverse=False)[1]


def _scan(
    name: str, named: Any, f: Any, init: Any, xs: Any, length: int | None, *, reverse: bool
) -> tuple[Any, Any]:
    """Run a loop over slices; errors name the public function, and `named`, that of the user."""
    frame, what = innermost(), title(name, named)
    leaves, form = tree.flatten(init)
    values = [value_of(x, f"{name}: init", frame) for x in leaves]
    arrays = [value_of(x, f"{name}: xs", frame) for x in tree.leaves(xs)]
    count = _length(arrays, length, what)
    pair = tree.structure((init, xs))
    cache = BodyCache([named], name, pair, count, reverse, *builtins.map(kind_of, arrays))
    trace_loop = functools.partial(_trace_scan, f, what, form, pair, arrays, count, reverse)
    values, loop = settle_loop(cache, trace_loop, values)
    carries = len(values)
    operands = [*[x.array for x in values], *[x.array for x in arrays], *loop.body.captured]
    ends = [*result_vars(loop.body)[:carries], *loop.ends]
    arrays = run_or_record(loop.op, lambda: loop.ready, operands, ends)
    names = [x.names for x in (*values, *loop.stacked)]
    results = [as_array(Value(x, dims), frame) for x, dims in zip(arrays, names, strict=True)]
    carry, stacked = results[:carries], results[carries:]
    return tree.unflatten(form, carry), tree.unflatten(loop.stacked_form, stacked)


def _trace_scan(
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
    """Trace the function of a loop over slices, for the leaves of a carry."""
    forms: list[Any] = []

    def step(carry: Any, part: Any) -> Any:
        result = f(carry, part)
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise ArgumentTypeError(
                f"{what} returns a {type(result).__name__}; it must return a pair: the next carry, "
                "and results to stack, or None",
                argument="f",
            )
        forms[:] = [tree.structure(result[0]), tree.structure(result[1])]
        return tree.leaves(result[0]), tree.leaves(result[1])

    parts, slices = zip(*builtins.map(_slice_var, arrays), strict=True) if arrays else ((), ())
    body = trace_body(step, pair, [*values, *parts], what, finish)
    carries = forms[0].num_leaves
    carried, stacked = body.results[:carries], body.results[carries:]
    ends = [_stacked_var(x, count) for x in stacked]
    return _Scan(
        slices, count, reverse, body, what, form, forms[0], carried, stacked, forms[1], ends
    )


def _length(arrays: Sequence[Value], length: int | None, what: str) -> int:
    """Count the slices: the common length of the first dims of arrays, or `length`."""
    lengths = {x.shape[0] if x.shape else None for x in arrays}
    if length is not None:
        if not isinstance(length, int | np.integer) or isinstance(length, bool):
            raise ArgumentTypeError.refusing("length", length, "must be an integer, or None", what)
        if length < 0:
            raise ArgumentError.refusing("length", length, "must not be negative", what)
        lengths.add(int(length))
    if len(lengths) != 1 or None in lengths:
        kinds = ", ".join([repr(x) for x in arrays]) or "empty"
        raise ArgumentError(
            f"{what}: xs is {kinds}, and length={length}; give arrays with the same length "
            "along their first axes, or length=",
            argument="xs",
        )
    (count,) = (int(n) for n in lengths if n is not None)
    return count


def _call_on_var(f: Callable[..., Any], var: Var, *, keys: bool) -> Any:
    """Call a function of an array with a value without data, and return the traced result."""
    trace = Trace("scan", str)
    with trace.activate():
        return f(trace.input(var, keys=keys))


def _slice_var(x: Value) -> tuple[Value, Operation]:
    """Describe a slice of an array along its first dim, and return the operation that takes it.

    An array of length 0 gets a slice, too: that of an array of length 1.
    """
    var, dim = var_of(x.array), len(x.names)
    if not var.shape[dim]:
        shape = (*var.shape[:dim], 1, *var.shape[dim + 1 :])
        lies = var.sharding
        var = Var(var.dtype, lies.tiling(shape), lies, var.committed, var.weak)
    entries: list[Any] = [(0, 1, n) for n in var.shape]
    entries[dim] = 0
    part = _call_on_var(lambda array: index(array, tuple(entries)), var, keys=is_keys(x.array))
    (step,) = part._trace.graph.steps
    return Value(part, x.names), step


def _stacked_var(x: Value, count: int) -> tuple[Var, bool]:
    """Describe the stack of `count` results that are like `x`, and whether they are keys."""

    def stack_copies(array: Any) -> Any:
        whole = stack([array] * max(count, 1), len(x.names))
        if count:
            return whole
        entries: list[Any] = [(0, 1, n) for n in whole.shape]
        entries[len(x.names)] = (0, 1, 0)
        return index(whole, tuple(entries))

    keys = is_keys(x.array)
    return _call_on_var(stack_copies, var_of(x.array), keys=keys)._var, keys
