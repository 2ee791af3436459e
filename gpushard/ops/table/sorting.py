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
from gpushard.ops.narrow import in_single
from gpushard.ops.programs.local import Local
from gpushard.ops.row import Kernel, Params, Row, broadcasting, broadcasting_whole
from gpushard.ops.rule import Rule
from gpushard.ops.table.elementwise import writing
from gpushard.typing import LocalArray, LocalArrays

INDEX = np.dtype(np.int64)

Order = Callable[[Any, LocalArray, Params], Any]
"""Takes the namespace, a local array and the parameters; gives the results of a row."""


_WHOLE = Local("elements may go anywhere along the dim")


def reverse(x: LocalArray) -> LocalArray:
    """Return what orders elements the other way round, equal ones and NaNs as before.

    Doing it twice gives the elements back.
    """
    return ~x if x.dtype.kind in "biu" else -x


def argsort(xp: Any, x: LocalArray, axis: int = -1, stable: bool = True) -> LocalArray:
    """Return the positions of elements in ascending order; if `stable`, equal ones keep theirs."""
    if xp is not np or not stable:
        return xp.ascontiguousarray(xp.argsort(x, axis=axis), INDEX)  # CuPy's is a view of another
    if x.size < _FEW or x.dtype.kind not in "biuf":  # complex numbers have NaNs in several orders
        return np.argsort(x, axis, kind="stable")
    return np.ascontiguousarray(_ranked(x.swapaxes(axis, -1)).swapaxes(axis, -1))


_FEW = 1 << 10  # fewer elements are sorted by NumPy's stable sort, which takes no steps besides
_HALF_WORD = np.int64(32)


def _ranked(x: LocalArray) -> LocalArray:
    """Return the positions of elements in ascending order along the last dim, on the host.

    NumPy's stable sorts take twenty times as long as its others, which use vectors. Those are
    stable, too, for numbers that hold the rank of an element and then its position.
    """
    at: LocalArray = np.arange(x.shape[-1])
    if x.dtype.kind in "biu" and x.dtype.itemsize <= 4:
        rank = x.astype(np.int64)
        if x.dtype == np.uint32:
            rank -= 1 << 31  # for the shift: 32 bits with a sign
    elif x.dtype == np.float32:
        rank = _rank_of_floats(x)
    else:  # the rank is how many elements before differ from the one before them
        at = np.argsort(x, -1)
        ordered = np.take_along_axis(x, at, -1)
        before, after = ordered[..., :-1], ordered[..., 1:]
        apart = (before != after) & ((before == before) | (after == after))
        if apart.all():
            return at
        rank = np.zeros(x.shape, np.int64)
        np.cumsum(apart, -1, out=rank[..., 1:])
    rank <<= _HALF_WORD
    rank |= at
    rank.sort(-1)
    rank &= np.int64((1 << 32) - 1)
    return rank


def _rank_of_floats(x: LocalArray) -> LocalArray:
    """Return integers of 32 bits in the order of floats; equal ones and NaNs are one."""
    bits = (x + np.float32(0)).view(np.int32)  # of the two zeros one is left
    bits ^= (bits >> 31) & np.int32(0x7FFFFFFF)  # negative ones the other way round
    rank: LocalArray = bits.astype(np.int64)
    missing = x != x
    if missing.any():
        rank[missing] = np.iinfo(np.int32).max
    return rank


def sort(xp: Any, x: LocalArray, axis: int, stable: bool) -> LocalArray:
    """Return elements in ascending order; if `stable`, equal ones keep theirs."""
    if xp is not np:
        return xp.sort(x, axis=axis)
    # Where nobody can tell equal ones apart, other ways are faster.
    known = x.dtype.kind in "biu" or (x.dtype.kind == "f" and x.dtype.itemsize <= 8)
    if x.size < _FEW or (stable and not known):
        return np.sort(x, axis, kind="stable")
    ordered: LocalArray = np.sort(x, axis)
    if x.dtype.kind != "f":
        return ordered
    last = ordered.take(-1, axis)
    if (last != last).any():
        missing = x[x != x]
        if stable and (_bits(missing) != _bits(missing)[0]).any():
            return np.sort(x, axis, kind="stable")
        ordered[ordered != ordered] = missing[0]  # NumPy's are not those of the operand
    return np.sort(x, axis, kind="stable") if stable and _has_both_zeros(ordered) else ordered


def _bits(x: LocalArray) -> LocalArray:
    return x.view(f"i{x.dtype.itemsize}")


def _has_both_zeros(x: LocalArray) -> bool:
    """Whether there are zeros of both signs, equal elements of different bits."""
    bits = _bits(x)
    return bool((bits == np.iinfo(bits.dtype).min).any() and (bits == 0).any())


def _sort(xp: Any, x: LocalArray, params: Params) -> LocalArray:
    axis, descending, stable = params
    if not descending:
        return sort(xp, x, axis, stable)
    return reverse(sort(xp, reverse(x), axis, stable))


def _argsort(xp: Any, x: LocalArray, params: Params) -> LocalArray:
    axis, descending, stable = params
    return argsort(xp, reverse(x) if descending else x, axis, stable)


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
    """Return a row whose first parameter is the axis, counted from the end."""

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

    return in_single(
        Row(
            name,
            infer,
            functools.partial(_rule, results=len(dtypes)),
            kernel,
            (_WHOLE,),
            stacked=broadcasting,
        )
    )


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


def lexsort(xp: Any, keys: LocalArrays, axis: int = -1) -> LocalArray:
    """Return the positions of elements in the order of the last key, then of those before it."""
    order = argsort(xp, keys[0], axis)
    for key in keys[1:]:
        inner = argsort(xp, xp.take_along_axis(key, order, axis=axis), axis)
        order = xp.take_along_axis(order, inner, axis=axis)
    return order


def _lexsort_kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    return writing(lambda *keys: lexsort(xp, keys, params[0]))


LEXSORT = in_single(
    Row("lexsort", _infer_lexsort, _rule, _lexsort_kernel, (_WHOLE,), stacked=broadcasting_whole)
)
"""Operands: keys, the last one first. Parameters: (axis,)."""
