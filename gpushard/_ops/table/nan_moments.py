"""Means and variances without NaNs: each block counts its other elements.

Parameters of all rows: (axes counted from the end, keepdims, a last one that the row documents).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.narrow_floats import in_single
from gpushard._ops.programs.local import Local
from gpushard._ops.programs.reduce import Reduce
from gpushard._ops.row import Kernel, Params, Row, State, broadcasting, by_factors
from gpushard._ops.table.elementwise import writing
from gpushard._ops.table.moments import squared
from gpushard._ops.table.reductions import reduced_rule, reduced_shape
from gpushard._runtime.namespace import own_kernels
from gpushard._typing import LocalArray, Shape
from gpushard.dtypes import real_of

_COUNT = np.dtype(np.int64)


def _own_kernels(xp: Any, dtype: Dtype) -> Any:
    return own_kernels(xp) if dtype.kind in "fc" else None


def _row(name: str, dtype_of: Any, states: Any, make: Any, merged: Any, closing: Any) -> Row:
    """Make the row of a reduction that skips NaNs.

    Args:
      name: the name for users.
      dtype_of: takes the type of the operand and the last parameter; returns that of the result.
      states: takes the same arguments; returns the types of a state.
      make: takes the namespace, the parameters, these types, and whether the block is alone;
        returns the function that makes the state of a block.
      merged: takes the namespace and two states; returns the merged state.
      closing: takes the namespace, a state and the last parameter; returns the result.
    """

    def local(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        return writing(make(xp, params, states(avals[0].dtype, params[2]), alone=False))

    def finish(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
        dtype = dtype_of(avals[0].dtype, params[2])

        def end(state: State, count: int) -> LocalArray:
            return closing(xp, state, params[2]).astype(dtype, copy=False)

        return end

    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        begin = make(xp, params, states(avals[0].dtype, params[2]), alone=True)
        end = finish(xp, avals, params)
        return writing(lambda x: end(tuple(map(xp.asarray, begin(x))), 0))

    reduction = Reduce(
        lambda avals, params: states(avals[0].dtype, params[2]),
        local,
        lambda xp, avals, params: lambda a, b, m, n: merged(xp, a, b),
        finish,
    )
    infer = by_factors(reduced_rule, lambda avals, params: dtype_of(avals[0].dtype, params[2]))
    return Row(name, infer, reduced_rule, kernel, (reduction, Local()), stacked=broadcasting)


def _sums(xp: Any, params: Params, types: tuple[Dtype, ...], *, alone: bool) -> Any:
    axes, keepdims, _ = params
    kernels = _own_kernels(xp, types[1])

    def sums_here(x: Any) -> State:
        shape = reduced_shape(x.shape, axes, keepdims=keepdims)
        return _valid(kernels, xp, x, axes, shape, types[1])

    def sums(x: Any) -> State:
        counts = x == x
        total = xp.where(counts, x, 0).sum(axes, dtype=types[1], keepdims=keepdims)
        return counts.sum(axes, dtype=_COUNT, keepdims=keepdims), total

    return sums if kernels is None else sums_here


def _valid(
    kernels: Any, xp: Any, x: Any, axes: tuple[int, ...], shape: Shape, dtype: Dtype
) -> tuple[LocalArray, LocalArray]:
    """Count the elements that are not NaN, and sum them, by kernels of the backend."""
    count = kernels.reduce("valid", x, axes, xp.empty(shape, _COUNT))
    return count, kernels.reduce("valid sum", x, axes, xp.empty(shape, dtype))


def _mean(xp: Any, state: State, dtype: Any) -> Any:
    count, total = state
    kernels = _own_kernels(xp, total.dtype)
    if kernels is not None:
        return kernels.quotient(total, count)
    return xp.where(count > 0, total / xp.maximum(count, 1).astype(real_of(total.dtype)), xp.nan)


NANMEAN = in_single(
    _row(
        "nanmean",
        lambda source, dtype: dtype or source,
        lambda source, dtype: (_COUNT, dtype or source),
        _sums,
        lambda xp, a, b: (a[0] + b[0], a[1] + b[1]),
        _mean,
    ),
    typed=True,
)
"""Last parameter: dtype or None."""


def _moments(xp: Any, params: Params, types: tuple[Dtype, ...], *, alone: bool) -> Any:
    """Make the function for count, mean and sum of squared distances from the mean of a block.

    If the block is alone, its state is not merged, so the mean may be arbitrary.
    """
    axes, keepdims, _ = params
    kernels = _own_kernels(xp, types[1])

    def moments_here(x: Any) -> State:
        shape = reduced_shape(x.shape, axes, keepdims=True)
        count, total = _valid(kernels, xp, x, axes, shape, types[1])
        spread = kernels.squares(x, total, count, skips=True).sum(axes, keepdims=keepdims)
        mean = total if alone else kernels.quotient(total, count, otherwise=1)
        return count.reshape(spread.shape), mean.reshape(spread.shape), spread

    def moments(x: Any) -> State:
        counts = x == x
        count = counts.sum(axes, dtype=_COUNT, keepdims=True)
        total = xp.where(counts, x, 0).sum(axes, dtype=types[1], keepdims=True)
        mean = total / xp.maximum(count, 1).astype(types[2])
        apart = xp.where(counts, x - mean, 0).astype(types[1], copy=False)
        spread = squared(apart).sum(axes, keepdims=keepdims)
        return count.reshape(spread.shape), mean.reshape(spread.shape), spread

    return moments if kernels is None else moments_here


def _chan(xp: Any, a: State, b: State) -> State:
    """Merge moments (Chan, Golub and LeVeque, 1979)."""
    count, apart = a[0] + b[0], b[1] - a[1]
    share = (b[0] / xp.maximum(count, 1)).astype(a[2].dtype)
    return (
        count,
        a[1] + apart * share,
        a[2] + b[2] + squared(apart) * (share * a[0].astype(share.dtype)),
    )


def _variance(xp: Any, state: State, correction: Any) -> Any:
    count, _, spread = state
    kernels = _own_kernels(xp, spread.dtype)
    if kernels is not None:
        return kernels.quotient(spread, count, correction)
    divisor = (count - correction).astype(spread.dtype)
    return xp.where(divisor > 0, spread / xp.where(divisor > 0, divisor, 1), xp.nan)


def _spread_row(name: str, closing: Any) -> Row:
    """Make the row of a variance or its root; last parameter: the correction of the count."""
    return in_single(
        _row(
            name,
            lambda dtype, correction: real_of(dtype),
            lambda dtype, correction: (_COUNT, dtype, real_of(dtype)),
            _moments,
            _chan,
            closing,
        )
    )


NANVAR = _spread_row("nanvar", _variance)
NANSTD = _spread_row("nanstd", lambda xp, state, c: xp.sqrt(_variance(xp, state, c)))
