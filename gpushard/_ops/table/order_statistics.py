"""Medians and quantiles. Reduced dims are whole, except on the host if all dims are reduced.

Quantiles are those of Hyndman and Fan, Sample quantiles in statistical packages, 1996, with NumPy's
four other methods. NaNs are sorted to the end; functions that skip them count the other elements.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard import dtypes
from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.narrow_floats import in_single
from gpushard._ops.programs.in_one_call import InOneCall, Together
from gpushard._ops.programs.local import Local
from gpushard._ops.row import Kernel, Params, Row, Stack, broadcasting
from gpushard._ops.rule import Dims, Rule
from gpushard._ops.select_ranks import LEAST, MOST, select
from gpushard._ops.table.elementwise import writing
from gpushard._ops.table.reductions import check_not_empty, reduced_shape
from gpushard._typing import LocalArray, LocalArrays, Shape
from gpushard.errors import ArgumentTypeError

CONTINUOUS: dict[str, tuple[float, float]] = {
    "interpolated_inverted_cdf": (0, 1),
    "hazen": (0.5, 0.5),
    "weibull": (0, 0),
    "linear": (1, 1),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
"""Methods that interpolate, with the parameters alpha and beta of their plotting positions."""

STEPS = ("inverted_cdf", "closest_observation", "lower", "higher", "nearest")
"""Methods that return an element."""

METHODS = (*CONTINUOUS, "averaged_inverted_cdf", "midpoint", *STEPS)


_WHOLE = Local("each result needs all elements along the axis, in order")


def _position(xp: Any, method: str, n: Any, q: Any) -> tuple[Any, Any]:
    """Return the position of a quantile: the number of an element, and the fraction to the next."""
    if method in CONTINUOUS:
        alpha, beta = CONTINUOUS[method]
        at = (n - 1) * q if method == "linear" else n * q + (alpha + q * (1 - alpha - beta)) - 1
    elif method in ("inverted_cdf", "averaged_inverted_cdf"):
        at = n * q - 1
    else:
        at = n * q - 1.5 if method == "closest_observation" else (n - 1) * q
    low = xp.floor(at)
    part = at - low
    if method == "averaged_inverted_cdf":
        part = xp.where(part == 0, 0.5, 1).astype(part.dtype)
    elif method == "inverted_cdf":
        part = (part != 0).astype(part.dtype)
    elif method == "closest_observation":
        part = ((part != 0) | (low % 2 == 0)).astype(part.dtype)
    elif method == "midpoint":
        part = xp.where(part == 0, 0, 0.5).astype(part.dtype)
    elif method == "lower":
        part = xp.zeros_like(part)
    elif method == "higher":
        part = (part != 0).astype(part.dtype)
    elif method == "nearest":
        low = xp.rint(at)
        part = xp.zeros_like(part)
    return low, part


def _between(xp: Any, low: Any, high: Any, part: Any, dtype: Dtype) -> Any:
    """Interpolate from the nearer end, so both ends are exact and nothing overshoots.

    A fraction of 0 or 1 takes the element itself, since interpolation with infinity gives NaN.
    """
    low, high = low.astype(dtype), high.astype(dtype)
    apart = high - low
    between = xp.where(
        part >= 0.5, high - apart * (1 - part).astype(dtype), low + apart * part.astype(dtype)
    )
    return xp.where((low == high) | (part == 0), low, between)


def _sorted_rows(xp: Any, x: Any, axes: Sequence[int]) -> Any:
    """Merge some dims into a last one, and sort along it."""
    rows = _rows(x, axes)
    if rows.dtype == np.bool_:  # CuPy does not sort booleans
        return xp.sort(rows.astype(np.uint8), axis=-1).astype(rows.dtype)
    return xp.sort(rows, axis=-1)


_FEW = 1 << 12  # fewer elements are sorted: a partition needs more steps


def _medians(rows: Any, dtype: Dtype) -> Any:
    """Compute the medians of rows of real numbers, on the host; NaN for rows with a NaN.

    It takes a partition at one position; partitions at several positions are not vectorized.
    """
    half, odd = divmod(rows.shape[-1], 2)
    if rows.size < _FEW:
        parts = np.sort(rows, -1)
        low, last = parts[..., half - 1 + odd], parts[..., -1]
    else:
        parts = np.partition(rows, half, -1)
        low = parts[..., half] if odd else parts[..., :half].max(-1)
        last = parts[..., half:].max(-1)
    middle = parts[..., half].astype(dtype)
    if not odd:
        middle = (low.astype(dtype) + middle) / 2
    missing = last != last
    return np.where(missing, last, middle) if missing.any() else middle


def _rows(x: Any, axes: Sequence[int]) -> Any:
    other_dims = [dim for dim in range(-x.ndim, 0) if dim not in axes]
    order = [dim % x.ndim for dim in (*other_dims, *axes)]
    rows = x.transpose(order) if order else x
    return rows.reshape(
        (*rows.shape[: len(other_dims)], int(np.prod(rows.shape[len(other_dims) :])))
    )


def _count_elements(xp: Any, rows: Any, skips: bool) -> Any:
    """Count the elements of each row: all, or all except NaNs."""
    if skips:
        return (rows == rows).sum(axis=-1, keepdims=True)
    return xp.full((*rows.shape[:-1], 1), rows.shape[-1], np.int64)


def _at(xp: Any, rows: Any, number: Any, count: Any) -> Any:
    """Return elements of sorted rows; numbers out of bounds mean the ends, NaN the first."""
    number = xp.where(number == number, number, 0)
    inside = xp.clip(number, 0, xp.maximum(count - 1, 0)).astype(np.int64)
    return xp.take_along_axis(rows, inside, axis=-1)


def _select(
    chunks: LocalArrays, number: Any, count: int, *, skips: bool
) -> tuple[LocalArray, LocalArray] | None:
    """Return elements of one long row and the elements after them, as `_at` does from sorted rows.

    All are NaN if a row that doesn't skip NaNs has one. None if sorting takes less time.
    """
    number = np.where(number == number, number, 0)
    ranks = [np.clip(n, 0, max(count - 1, 0)).astype(np.int64) for n in (number, number + 1)]
    selected = select(chunks, np.stack(ranks))
    if selected is None:
        return None
    (low, high), has_nan = selected
    if has_nan and not skips:
        low[...] = high[...] = np.nan
    return low, high


def _count_in(chunks: LocalArrays, skips: bool) -> int:
    """Count the elements of chunks: all, or all except NaNs."""
    if skips and chunks[0].dtype.kind == "f":
        return sum(int(np.count_nonzero(chunk == chunk)) for chunk in chunks)
    return sum(map(len, chunks))


def _with_nans(xp: Any, rows: Any, values: Any, skips: bool) -> Any:
    if skips or rows.dtype.kind not in "fc":
        return values
    last = rows[..., -1:]
    return xp.where(last != last, last.astype(values.dtype, copy=False), values)


def _rule(avals: Sequence[Aval], params: Params) -> Rule:
    """Return the rule: reduced dims and the dims of quantiles are whole."""
    axes, keepdims = params[:2]
    shape = avals[0].shape
    dims_of_x = tuple(range(len(shape)))
    gone = {len(shape) + axis for axis in axes}
    sizes = [*shape]
    lead: Dims = ()
    if len(avals) > 1:
        lead = tuple(range(len(shape), len(shape) + len(avals[1].shape)))
        sizes += avals[1].shape
    result_dims: Dims = tuple(
        None if dim in gone else dim for dim in dims_of_x if keepdims or dim not in gone
    )
    operands = (dims_of_x, lead, dims_of_x)[: len(avals)]
    whole = gone.union(range(len(shape), len(sizes)))
    return Rule(operands, ((*lead, *result_dims),), tuple(sizes), frozenset(whole))


@functools.lru_cache(maxsize=256)
def _result_dtype(name: str, dtype: Dtype, q: Dtype | None, weak: bool, method: str) -> Dtype:
    """Return the type of NumPy's result."""
    x = np.ones(2, dtype)
    try:
        if q is None:
            return np.asarray(np.median(x)).dtype
        which = np.zeros(1, q)
        quantile = which[0].item() if weak else which
        return np.asarray(np.quantile(x, quantile, method=method)).dtype  # type: ignore[call-overload]
    except TypeError:
        raise ArgumentTypeError(
            f"{name} with method={method!r} is not defined for {dtype}: complex numbers have no "
            "order, and there is nothing between booleans; convert the array with astype",
            argument="x",
            dtype=dtype,
        ) from None


def _median_of_chunks(chunks: LocalArrays, dtype: Dtype, skips: bool) -> LocalArray | None:
    """Compute the median of one row in several chunks; None if sorting takes less time."""
    count = _count_in(chunks, skips)
    elements = _select(chunks, np.array([(count - 1) // 2]), count, skips=skips) if count else None
    if elements is None:
        return None
    low, high = (element.astype(dtype) for element in elements)
    return low if count % 2 else (low + high) / 2


def _quantiles_of_chunks(
    chunks: LocalArrays, q: LocalArray, method: str, dtype: Dtype, skips: bool
) -> LocalArray | None:
    """Compute quantiles of one row in several chunks; None if sorting takes less time."""
    count = _count_in(chunks, skips)
    if not count:
        return None
    number, part = _position(np, method, np.array([count], q.dtype), q)
    elements = _select(chunks, number, count, skips=skips)
    return None if elements is None else _interpolated(np, method, *elements, part, dtype)


def _from_blocks(row: Row, of_chunks: Callable[..., LocalArray | None]) -> Row:
    """Let one call read all blocks of an array if all dims are reduced.

    Args:
      row: the row of a statistic.
      of_chunks: takes vectors with all elements in any order, the types of operands, the
        parameters, and other operands. It returns None if sorting takes less time.
    """

    def is_faster(avals: Sequence[Aval], params: Params, split: Sequence[int]) -> bool:
        x, *others = avals
        is_plain = x.dtype.kind in "iuf" and dtypes.wide(x.dtype) == x.dtype
        few = sum(math.prod(q.shape) for q in others) <= MOST
        return is_plain and few and len(params[0]) == len(x.shape) and math.prod(x.shape) >= LEAST

    def together(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        (result,) = row.infer(avals, params)

        def compute(site: Together, *arrays: Any) -> LocalArray:
            blocks, *others = site.by_operand(arrays)
            chunks, others = [block.ravel() for block in blocks], [other[0] for other in others]
            values = of_chunks(chunks, avals, params, *others)
            if values is not None:
                return values.reshape(result.shape).astype(result.dtype, copy=False)
            whole = np.concatenate(chunks).reshape(avals[0].shape)
            statistic: LocalArray = row.kernel(np, avals, params)(whole, *others)
            return statistic

        return writing(compute)

    (whole,) = row.strategies
    return dataclasses.replace(row, strategies=(InOneCall(together, whole, is_faster),))


def _median_row(name: str, *, skips: bool) -> Row:
    """Make the row of a median; parameters: (axes, keepdims)."""

    def infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
        (x,) = avals
        axes, keepdims = params
        dtype = _result_dtype(name, x.dtype, None, False, "")
        return (Aval(reduced_shape(x.shape, axes, keepdims=keepdims), dtype),)

    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        axes, keepdims = params
        dtype = _result_dtype(name, avals[0].dtype, None, False, "")

        def median(x: Any) -> LocalArray:
            shape = reduced_shape(x.shape, axes, keepdims=keepdims)
            if not math.prod(x.shape[axis] for axis in axes):
                return xp.full(shape, xp.nan, dtype)
            if xp is np and len(axes) == x.ndim:
                middle = _median_of_chunks([x.ravel()], dtype, skips)
                if middle is not None:
                    return middle.reshape(shape)
            if xp is np and not skips and x.dtype.kind in "biuf":
                return _medians(_rows(x, axes), dtype).reshape(shape).astype(dtype, copy=False)
            rows = _sorted_rows(xp, x, axes)
            count = _count_elements(xp, rows, skips)
            low = _at(xp, rows, (count - 1) // 2, count).astype(dtype)
            high = _at(xp, rows, count // 2, count).astype(dtype)
            middle = xp.where(count % 2 == 1, low, (low + high) / 2)
            return _with_nans(xp, rows, middle, skips).reshape(shape).astype(dtype, copy=False)

        return writing(median)

    def of_chunks(chunks: LocalArrays, avals: Sequence[Aval], params: Params) -> Any:
        (aval,) = infer(avals, params)
        return _median_of_chunks(chunks, aval.dtype, skips)

    row = in_single(Row(name, infer, _rule, kernel, (_WHOLE,), stacked=broadcasting))
    return _from_blocks(row, of_chunks)


def _quantile_row(
    name: str, make: Callable[[Any, Params, Dtype, bool], Callable[..., Any]], *, skips: bool
) -> Row:
    """Make the row of quantiles; parameters: (axes, keepdims, method, weak).

    The second operand has the quantiles, from 0 to 1. `weak` says whether they were a Python
    number.

    Args:
      name: the name for users.
      make: takes the namespace, the parameters, the type of the result and `skips`; returns the
        function that computes a last dim of quantiles from an array, a vector of quantiles, and
        weights.
      skips: whether to skip NaNs.
    """

    def infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
        axes, keepdims, method, weak, *_ = params
        x, q = avals[:2]
        if not skips:
            check_not_empty(name, x, axes)
        dtype = _result_dtype(name, x.dtype, q.dtype, weak, method)
        shape = reduced_shape(x.shape, axes, keepdims=keepdims)
        return (Aval((*q.shape, *shape), dtype),)

    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        axes, keepdims, method, weak, *front = params
        dtype = _result_dtype(name, avals[0].dtype, avals[1].dtype, weak, method)
        find = make(xp, params, dtype, skips)

        def quantile(x: Any, q: Any, *weights: Any) -> LocalArray:
            shape = reduced_shape(x.shape, axes, keepdims=keepdims)
            q, lead = xp.asarray(q), sum(front)
            quantiles = xp.moveaxis(find(x, _as_fractions(q), *weights), -1, lead)
            shape = (*shape[:lead], *q.shape, *shape[lead:])
            return quantiles.reshape(shape).astype(dtype, order="C")

        return writing(quantile)

    def of_chunks(
        chunks: LocalArrays, avals: Sequence[Aval], params: Params, q: Any
    ) -> LocalArray | None:
        (aval,) = infer(avals, params)
        q = _as_fractions(np.asarray(q))
        return _quantiles_of_chunks(chunks, q, params[2], aval.dtype, skips)

    def stacked(
        params: Params, shapes: Sequence[Shape], dims: Sequence[tuple[int, ...]], lead: int
    ) -> Stack | None:
        between = (0, None, 0)[: len(dims)]
        return None if dims[1] else Stack((*params, lead), between, frozenset([0]))

    row = in_single(
        Row(
            name,
            infer,
            _rule,
            kernel,
            (_WHOLE,),
            stacked=stacked,
            each="quantiles are the same for all rows",
        )
    )
    return _from_blocks(row, of_chunks) if make is _equal_weights else row


def _equal_weights(xp: Any, params: Params, dtype: Dtype, skips: bool) -> Callable[..., Any]:
    axes, _, method, *_ = params

    def find(x: Any, q: Any) -> Any:
        if xp is np and len(axes) == x.ndim:
            values = _quantiles_of_chunks([x.ravel()], q, method, dtype, skips)
            if values is not None:
                return values
        rows = _sorted_rows(xp, x, axes)
        if not rows.shape[-1]:
            return xp.full((*rows.shape[:-1], q.size), xp.nan, dtype)
        count = _count_elements(xp, rows, skips)
        number, part = _position(xp, method, count.astype(q.dtype), q)
        low = _at(xp, rows, number, count)
        high = _at(xp, rows, number + 1, count)
        return _with_nans(xp, rows, _interpolated(xp, method, low, high, part, dtype), skips)

    return find


def _interpolated(xp: Any, method: str, low: Any, high: Any, part: Any, dtype: Dtype) -> Any:
    if method in STEPS or dtype.kind not in "fc":  # shares of integers are 0 and 1
        return xp.where(part > 0, high, low)
    return _between(xp, low, high, part, dtype)


def _as_fractions(q: Any) -> Any:
    """Convert quantiles to a vector of floats."""
    return q.ravel() if q.dtype.kind == "f" else q.ravel().astype(np.float64)


def _given_weights(xp: Any, params: Params, dtype: Dtype, skips: bool) -> Callable[..., Any]:
    """Make the function that inverts the distribution of weighted elements."""
    axes = params[0]

    def find(x: Any, q: Any, weights: Any) -> Any:
        rows, heavy = _rows(x, axes), _rows(weights, axes).astype(np.float64)
        if skips:
            heavy = xp.where(rows == rows, heavy, 0)
        order = xp.argsort(rows, axis=-1)
        rows = xp.take_along_axis(rows, order, axis=-1)
        count = _count_elements(xp, rows, skips)
        below = xp.cumsum(xp.take_along_axis(heavy, order, axis=-1), axis=-1)
        below = below / below[..., -1:]
        columns = []
        for n in range(q.size):  # an element of weight 0 is never the quantile 0
            short = xp.where(q[n] > 0, below < q[n], below <= 0)
            columns.append(_at(xp, rows, short.sum(axis=-1, keepdims=True), count))
        return _with_nans(xp, rows, xp.concatenate(columns, axis=-1), skips)

    return find


MEDIAN = _median_row("median", skips=False)
NANMEDIAN = _median_row("nanmedian", skips=True)
QUANTILE = _quantile_row("quantile", _equal_weights, skips=False)
NANQUANTILE = _quantile_row("nanquantile", _equal_weights, skips=True)
WEIGHTED_QUANTILE = _quantile_row("quantile with weights", _given_weights, skips=False)
"""The third operand has the weights, in the shape of the first."""
WEIGHTED_NANQUANTILE = _quantile_row("nanquantile with weights", _given_weights, skips=True)
"""As `WEIGHTED_QUANTILE`."""
