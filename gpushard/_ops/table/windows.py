"""Sliding windows: reductions of windows, and convolutions over any number of dims.

Both need the dims of windows whole. All other dims may be split, also the features that a
convolution sums over.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.merge_in_order import InOrder
from gpushard._ops.narrow_floats import in_single
from gpushard._ops.programs.local import Local
from gpushard._ops.programs.reduce import Reduce
from gpushard._ops.row import Kernel, Params, Row, Stack, beside_others, only
from gpushard._ops.rule import Rule
from gpushard._ops.table.elementwise import writing
from gpushard._typing import LocalArray, Shape
from gpushard.dtypes import iinfo, kind_of, wide

Pads: TypeAlias = tuple[tuple[int, int], ...]
"""The number of elements added before and after each dim; negative numbers remove elements."""

_WHOLE = Local("each element needs neighbours, and edges are not exchanged")
_AT_ONCE = 1 << 20
"""Elements of windows that a convolution copies at once."""


def dilated(n: int, by: int) -> int:
    """Return the length of a dim with other elements between its elements.

    >>> dilated(3, 2), dilated(0, 2)
    (5, 0)
    """
    return max((n - 1) * by + 1, 0)


def windows_in(n: int, window: int, stride: int, pads: tuple[int, int], base: int, by: int) -> int:
    """Return the number of windows along a dim.

    Args:
      n: length of the dim.
      window: number of elements of a window.
      stride: distance between windows.
      pads: number of elements before and after all elements.
      base: distance between elements.
      by: distance between the elements of a window.

    >>> windows_in(5, 3, 1, (1, 1), 1, 1), windows_in(5, 3, 2, (0, 0), 1, 2)
    (5, 1)
    """
    padded, reach = dilated(n, base) + sum(pads), dilated(window, by)
    return max((padded - reach) // stride + 1, 0) if padded >= reach else 0


def padded_shape(shape: Shape, pads: Pads, base: Shape) -> Shape:
    """Return the shape of an array with padding around and between its elements.

    >>> padded_shape((3, 4), ((1, 1), (-1, 0)), (2, 1))
    (7, 3)
    """
    each = zip(shape, pads, base, strict=True)
    return tuple(max(low + dilated(n, by) + high, 0) for n, (low, high), by in each)


def seen_by(
    n: int, window: int, stride: int, pads: tuple[int, int], base: int, by: int
) -> tuple[range, tuple[int, int]]:
    """Return the places of a window that meet an element of a dim, and the pads that they need.

    All other places meet only padding, which has no effect. Without them a window may be longer
    than all memory. For the arguments see `windows_in`.

    >>> seen_by(3, 1000, 1, (499, 500), 1, 1)  # three windows; places 0 to 496 see no element
    (range(497, 502), (2, 2))
    """
    whole = windows_in(n, window, stride, pads, base, by)
    taken, begin = dilated(whole, stride), max(pads[0], 0)
    end = pads[0] + dilated(n, base) + min(pads[1], 0)
    first = max(-((taken - 1 - begin) // by), 0)
    last = max(min(window, -(-end // by)), first)
    if last - first == window:
        return range(window), pads
    low, reach = pads[0] - first * by, (last - 1 - first) * by + taken
    return range(first, last), (low, reach - low - dilated(n, base))


def _pad(xp: Any, x: LocalArray, value: Any, pads: Pads, base: Shape, dtype: Dtype) -> LocalArray:
    """Pad the last dims of an array around and between their elements."""
    lead = x.ndim - len(pads)
    if not any(map(any, pads)) and set(base) <= {1}:
        return x.astype(dtype, copy=False)
    shape = padded_shape(x.shape[lead:], pads, base)
    taken, put = [], []
    for n, (low, high), by in zip(x.shape[lead:], pads, base, strict=True):
        first = -(-max(-low, 0) // by)  # the first element that stays
        end = low + dilated(n, by) + min(high, 0)  # the end of the elements in the result
        count = max(-(-(end - low - first * by) // by), 0)
        taken.append(slice(first, first + count))
        at = low + first * by
        put.append(slice(at, at + dilated(count, by), by))
    padded = xp.empty((*x.shape[:lead], *shape), dtype)
    padded[...] = value
    padded[(..., *put)] = x[(..., *taken)]
    return padded


def _infer_reduced(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    _, window, strides, pads, base, by = params
    how = zip(avals[0].shape, window, strides, pads, base, by, strict=True)
    return (Aval(tuple(windows_in(*each) for each in how), avals[0].dtype),)


def _reduced_rule(avals: Sequence[Aval], params: Params) -> Rule:
    _, window, strides, pads, base, _ = params
    dims_of_x = tuple(range(len(avals[0].shape)))
    each = zip(dims_of_x, window, strides, pads, base, strict=True)
    whole = {dim for dim, *how in each if how != [1, 1, (0, 0), 1]}
    return Rule((dims_of_x, ()), (dims_of_x,), avals[0].shape, frozenset(whole))


def _neutral(name: str, dtype: Dtype) -> Any:
    """Return the neutral element of a ufunc."""
    if name in ("maximum", "minimum"):
        if kind_of(dtype) == "b":
            return name == "minimum"
        if kind_of(dtype) in "iu":
            return iinfo(dtype).min if name == "maximum" else iinfo(dtype).max
        return -np.inf if name == "maximum" else np.inf
    number = getattr(np, name).identity
    return number if name != "bitwise_and" else np.array(number).astype(dtype)[()]


def _reduce_kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    name, window, strides, pads, base, by = params
    function = getattr(xp, name)
    neutral = _neutral(name, avals[0].dtype)

    def reduce(x: Any, init: Any) -> Any:
        each = list(zip(x.shape, window, strides, pads, base, by, strict=True))
        counts = [windows_in(*how) for how in each]
        places, needed = zip(*[seen_by(*how) for how in each], strict=True) if each else ((), ())
        if not all(map(len, places)):
            result = xp.full(counts, neutral, x.dtype)
        else:
            result = _pad(xp, x, neutral, needed, base, x.dtype)
            for dim, (n_windows, place) in enumerate(zip(counts, places, strict=True)):
                lead, taken = (slice(None),) * dim, dilated(n_windows, strides[dim])
                starts = range(0, len(place) * by[dim], by[dim])
                parts = [result[(*lead, slice(at, at + taken, strides[dim]))] for at in starts]
                result = functools.reduce(function, parts)
        return function(result, xp.asarray(init, x.dtype))

    return writing(reduce)


def _reduced_stacked(
    params: Params, shapes: Sequence[Shape], dims: Sequence[tuple[int, ...]], lead: int
) -> Stack | None:
    if dims[1]:
        return None
    name, window, strides, pads, base, by = params
    ones = (1,) * lead
    more = ones + window, ones + strides, ((0, 0),) * lead + pads, ones + base, ones + by
    return Stack((name, *more), (None, None))


REDUCE_WINDOW = in_single(
    Row(
        "reduce_window",
        _infer_reduced,
        _reduced_rule,
        _reduce_kernel,
        (_WHOLE,),
        stacked=_reduced_stacked,
        each="a number of its own for each",
    )
)
"""Operands: an array, and a number that is added to every window. Parameters: (name of the ufunc,
window, strides, pads, distance between elements, distance in a window), each for all dims."""


def _conv_shape(avals: Sequence[Aval], params: Params) -> Shape:
    x, kernel = (aval.shape for aval in avals)
    spatial = zip(x[3:], kernel[3:], *params[:4], strict=True)
    sizes = (windows_in(n, k, s, pads, base, by) for n, k, s, pads, base, by in spatial)
    return (x[0], x[1], kernel[1], *sizes)


def _infer_conv(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    return (Aval(_conv_shape(avals, params), avals[0].dtype),)


def _conv_rule(avals: Sequence[Aval], params: Params) -> Rule:
    x, kernel = (aval.shape for aval in avals)
    ndim = len(x) - 3
    batch, group, shared, out = range(4)
    over = tuple(range(4, 4 + ndim))
    within = tuple(range(4 + ndim, 4 + 2 * ndim))
    sizes = (x[0], x[1], x[2], kernel[1], *x[3:], *kernel[3:])
    return Rule(
        ((batch, group, shared, *over), (group, out, shared, *within)),
        ((batch, group, out, *over),),
        sizes,
        frozenset(over + within),
    )


def _conv_states(avals: Sequence[Aval], params: Params) -> tuple[Dtype, ...]:
    return (wide(avals[0].dtype),)


def _conv(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    strides, pads, base, by = params
    ndim, (work,) = len(strides), _conv_states(avals, params)

    def convolve(x: Any, kernel: Any) -> Any:
        lead, (groups, shared, *_) = x.shape[: x.ndim - ndim - 2], x.shape[x.ndim - ndim - 2 :]
        out = kernel.shape[1]
        whole = _pad(xp, x.reshape(-1, *x.shape[len(lead) :]), 0, pads, base, work)
        sizes = tuple(
            windows_in(n, k, s, (0, 0), 1, d)
            for n, k, s, d in zip(whole.shape[3:], kernel.shape[3:], strides, by, strict=True)
        )
        n_windows, depth = math.prod(sizes), shared * math.prod(kernel.shape[3:])
        weights = kernel.reshape(groups, out, depth).astype(work, copy=False)
        result = xp.empty((whole.shape[0], groups, out, n_windows), work)
        step = max(_AT_ONCE // max(groups * n_windows * depth, 1), 1)
        for first in range(0, whole.shape[0], step):
            part = whole[first : first + step]
            columns = xp.empty((groups, shared, *kernel.shape[3:], part.shape[0], n_windows), work)
            for place in itertools.product(*map(range, kernel.shape[3:])):
                seen = part[(..., *_seen(place, sizes, strides, by))]
                flat = seen.reshape(*seen.shape[:3], n_windows)
                columns[(slice(None), slice(None), *place)] = flat.transpose(1, 2, 0, 3)
            product = weights @ columns.reshape(groups, depth, part.shape[0] * n_windows)
            split = product.reshape(groups, out, part.shape[0], n_windows)
            result[first : first + step] = split.transpose(2, 0, 1, 3)
        return result.reshape(*lead, groups, out, *sizes)

    return convolve


def _seen(place: Shape, sizes: Shape, strides: Shape, by: Shape) -> tuple[slice, ...]:
    """Return the elements that one place of the kernel meets."""
    each = zip(place, sizes, strides, by, strict=True)
    return tuple(slice(n * d, n * d + dilated(size, s), s) for n, size, s, d in each)


def _conv_kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    convolve = _conv(xp, avals, params)
    return writing(lambda x, kernel: convolve(x, kernel).astype(avals[0].dtype, copy=False))


def _conv_local(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    return writing(_conv(xp, avals, params))


def _add_kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
    return InOrder(xp, "add")


def _conv_finish(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
    dtype = avals[0].dtype
    return only if wide(dtype) == dtype else lambda s, n: s[0].astype(dtype, copy=False)


CONVOLUTION = Row(
    "conv_general_dilated",
    _infer_conv,
    _conv_rule,
    _conv_kernel,
    (Reduce(_conv_states, _conv_local, _add_kernel, _conv_finish), _WHOLE),
    threaded=True,
    stacked=beside_others(0),
    each="a kernel of its own for each",
)
"""Operands: (batch, groups, features, ...) and (groups, new features, features, ...), of one type.
The result is (batch, groups, new features, ...). Parameters, each for all of the last dims:
(strides, pads, distance between elements, distance between elements of the kernel)."""
