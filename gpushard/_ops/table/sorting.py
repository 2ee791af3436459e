"""Sort along one dim, which must be whole: sorts, partitions, the largest elements.

NaNs come last, in both directions. Kernels use functions that NumPy and CuPy share; CuPy's sorts
are stable and have no `kind`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._ops import rule
from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.narrow_floats import in_single
from gpushard._ops.programs.local import Local
from gpushard._ops.row import Kernel, Params, Row, broadcasting, broadcasting_whole
from gpushard._ops.rule import Rule
from gpushard._ops.table.elementwise import writing
from gpushard._typing import LocalArray, LocalArrays
from gpushard.errors import ArgumentError

INDEX = np.dtype(np.int64)

Order = Callable[[Any, LocalArray, Params], Any]
"""Takes the namespace, a local array and the parameters; returns the results of a row."""


_WHOLE = Local("elements may go anywhere along the axis")


def reverse(x: LocalArray) -> LocalArray:
    """Return elements that sort in the reverse order; equal elements and NaNs keep their order.

    Applied twice it returns the original elements.
    """
    return ~x if x.dtype.kind in "biu" else -x


def argsort(xp: Any, x: LocalArray, axis: int = -1, stable: bool = True) -> LocalArray:
    """Return positions of elements in ascending order; if `stable`, equal ones keep their order."""
    if xp is not np or not stable:
        return xp.ascontiguousarray(xp.argsort(x, axis=axis), INDEX)  # CuPy returns a view
    if x.size < _FEW or x.dtype.kind not in "biuf":  # complex numbers order NaNs in several ways
        return np.argsort(x, axis, kind="stable")
    return np.ascontiguousarray(_argsort_by_rank(x.swapaxes(axis, -1)).swapaxes(axis, -1))


_FEW = 1 << 10  # NumPy's stable sort takes fewer elements, without more steps
_HALF_WORD = np.int64(32)


def _argsort_by_rank(x: LocalArray) -> LocalArray:
    """Return the positions of elements in ascending order along the last dim, on the host.

    NumPy's stable sorts take twenty times as long as its other sorts, which are vectorized. These
    are stable too for numbers made of the rank of an element and its position.
    """
    at: LocalArray = np.arange(x.shape[-1])
    if x.dtype.kind in "biu" and x.dtype.itemsize <= 4:
        rank = x.astype(np.int64)
        if x.dtype == np.uint32:
            rank -= 1 << 31  # signed 32 bits, for the shift
    elif x.dtype == np.float32:
        rank = _rank_of_floats(x)
    else:  # the rank counts earlier elements that differ from their predecessor
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
    """Map floats to 32-bit integers in the same order; equal floats, and NaNs, become equal."""
    bits = (x + np.float32(0)).view(np.int32)  # one of the two zeros remains
    bits ^= (bits >> 31) & np.int32(0x7FFFFFFF)  # reverse negative numbers
    rank: LocalArray = bits.astype(np.int64)
    missing = x != x
    if missing.any():
        rank[missing] = np.iinfo(np.int32).max
    return rank


def sort(xp: Any, x: LocalArray, axis: int, stable: bool) -> LocalArray:
    """Sort elements in ascending order; if `stable`, equal ones keep their order."""
    if xp is not np:
        return xp.sort(x, axis=axis)
    # If equal elements are indistinguishable, other ways are faster.
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
        ordered[ordered != ordered] = missing[0]  # NumPy's NaNs are not those of the operand
    return np.sort(x, axis, kind="stable") if stable and _has_both_zeros(ordered) else ordered


def _bits(x: LocalArray) -> LocalArray:
    return x.view(f"i{x.dtype.itemsize}")


def _has_both_zeros(x: LocalArray) -> bool:
    """Test for zeros of both signs, which are equal with different bits."""
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
    axis, places = params  # a sorted array is partitioned too
    return np.partition(x, places, axis) if xp is np else xp.sort(x, axis=axis)


def _argpartition(xp: Any, x: LocalArray, params: Params) -> LocalArray:
    axis, places = params
    return np.argpartition(x, places, axis) if xp is np else argsort(xp, x, axis)


def _topk(xp: Any, x: LocalArray, params: Params) -> tuple[LocalArray, LocalArray]:
    axis, k, largest = params
    order = argsort(xp, reverse(x) if largest else x, axis)
    first = order[
        (..., slice(k), *(slice(None),) * (-1 - axis))
    ].copy()  # dense, and frees the rest
    return xp.take_along_axis(x, first, axis=axis), first


def _rule(avals: Sequence[Aval], params: Params, results: int = 1) -> Rule:
    return rule.along([aval.shape for aval in avals], params[:1], (1,) * results)


def _row(name: str, dtypes: Sequence[Dtype | None], order: Order, rest: int | None = None) -> Row:
    """Make a row; its first parameter is the axis, counted from the end."""

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
"""Parameters: (axis, positions that get their element of the sorted order)."""
ARGPARTITION = _row("argpartition", (INDEX,), _argpartition)
"""Parameters: as for `PARTITION`."""
TOPK = _row("topk", (None, INDEX), _topk, 1)
"""Results: values and positions. Parameters: (axis, their number, whether the largest)."""


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
    """Return the positions of elements in the order of the last key, then of earlier keys."""
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
"""Operands: keys; the last one counts first. Parameters: (axis,)."""
