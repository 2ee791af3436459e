"""Orders along one dim, which must be whole: sorting, partitions, the foremost elements.

NaNs come last, in both directions. Kernels use what NumPy and CuPy share; CuPy's sorts are stable
and know no `kind`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard.errors import ArgumentError
from gpushard.ops import rule
from gpushard.ops.aval import Aval, Dtype
from gpushard.ops.row import Kernel, Params, Row
from gpushard.ops.rule import Rule
from gpushard.ops.table.elementwise import writing
from gpushard.typing import LocalArray

INDEX = np.dtype(np.int64)

Order = Callable[[Any, LocalArray, Params], Any]
"""Takes the namespace, a local array and the parameters; gives the results of a row."""


def reverse(x: LocalArray) -> LocalArray:
    """Return what orders elements the other way round, equal ones and NaNs as before.

    Doing it twice gives the elements back.
    """
    return ~x if x.dtype.kind in "biu" else -x


def argsort(xp: Any, x: LocalArray, axis: int = -1) -> LocalArray:
    """Return the positions of elements in ascending order; equal ones keep theirs."""
    if xp is np:
        return np.argsort(x, axis, kind="stable")
    return xp.ascontiguousarray(xp.argsort(x, axis=axis), INDEX)  # CuPy's is a view of another one


def _sorted(xp: Any, x: LocalArray, axis: int, stable: bool) -> LocalArray:
    if xp is not np:
        return xp.sort(x, axis=axis)
    # Of booleans and integers nobody can tell equal ones apart, and other ways are faster.
    return np.sort(x, axis, kind="stable" if stable and x.dtype.kind not in "biu" else None)


def _sort(xp: Any, x: LocalArray, params: Params) -> LocalArray:
    axis, descending, stable = params
    if not descending:
        return _sorted(xp, x, axis, stable)
    return reverse(_sorted(xp, reverse(x), axis, stable))


def _argsort(xp: Any, x: LocalArray, params: Params) -> LocalArray:
    axis, descending, stable = params
    if descending:
        x = reverse(x)
    return argsort(xp, x, axis) if stable or xp is not np else np.argsort(x, axis)


def _partition(xp: Any, x: LocalArray, params: Params) -> LocalArray:
    axis, places = params  # what is sorted is partitioned, too
    return np.partition(x, places, axis) if xp is np else xp.sort(x, axis=axis)


def _argpartition(xp: Any, x: LocalArray, params: Params) -> LocalArray:
    axis, places = params
    return np.argpartition(x, places, axis) if xp is np else argsort(xp, x, axis)


def _topk(xp: Any, x: LocalArray, params: Params) -> tuple[LocalArray, LocalArray]:
    axis, k, largest = params
    order = argsort(xp, reverse(x) if largest else x, axis)
    first = order[(..., slice(k), *(slice(None),) * (-1 - axis))].copy()  # dense, and no more
    return xp.take_along_axis(x, first, axis=axis), first


def _rule(avals: Sequence[Aval], params: Params, results: int = 1) -> Rule:
    return rule.along([aval.shape for aval in avals], params[:1], (1,) * results)


def _row(name: str, dtypes: Sequence[Dtype | None], order: Order, rest: int | None = None) -> Row:
    """Return a row whose first parameter is the axis, counted from the end.

    Args:
      name: what users call it.
      dtypes: types of the results; None for the operand's.
      order: does the work.
      rest: which parameter is the length of results along the axis; None for the operand's.
    """

    def infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
        (x,) = avals
        shape = list(x.shape)
        if rest is not None:
            shape[params[0]] = params[rest]
        return tuple(
            Aval(tuple(shape), x.dtype if dtype is None else dtype, x.weak and dtype is None)
            for dtype in dtypes
        )

    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        return writing(lambda x: order(xp, x, params))

    return Row(name, infer, functools.partial(_rule, results=len(dtypes)), kernel)


SORT = _row("sort", (None,), _sort)
"""Parameters: (axis, whether descending, whether stable)."""
ARGSORT = _row("argsort", (INDEX,), _argsort)
"""Parameters: as for `SORT`."""
PARTITION = _row("partition", (None,), _partition)
"""Parameters: (axis, positions that get the element they would have in sorted order)."""
ARGPARTITION = _row("argpartition", (INDEX,), _argpartition)
"""Parameters: as for `PARTITION`."""
TOPK = _row("topk", (None, INDEX), _topk, 1)
"""Values and positions. Parameters: (axis, how many, whether the largest)."""


def _infer_lexsort(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    shapes = [aval.shape for aval in avals]
    if len(set(shapes)) > 1:
        raise ArgumentError(
            f"lexsort: keys have shapes {', '.join(map(str, shapes))}; give keys of one shape",
            argument="keys",
            shapes=tuple(shapes),
        )
    return (Aval(shapes[0], INDEX),)


def lexsort(xp: Any, keys: Sequence[LocalArray], axis: int = -1) -> LocalArray:
    """Return the positions of elements in the order of the last key, then of those before it."""
    order = argsort(xp, keys[0], axis)
    for key in keys[1:]:
        inner = argsort(xp, xp.take_along_axis(key, order, axis=axis), axis)
        order = xp.take_along_axis(order, inner, axis=axis)
    return order


def _lexsort_kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    return writing(lambda *keys: lexsort(xp, keys, params[0]))


LEXSORT = Row("lexsort", _infer_lexsort, _rule, _lexsort_kernel)
"""Operands: keys, the last one first. Parameters: (axis,)."""
