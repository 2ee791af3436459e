"""Means and variances. Parameters: (axes counted from the end, keepdims, a documented one)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.narrow_floats import in_single
from gpushard._ops.programs.reduce import Reduce
from gpushard._ops.row import Kernel, Params, Row, State
from gpushard._ops.table.elementwise import ufunc_row, writing
from gpushard._ops.table.reductions import SUM, add_states, reduction_row, total_of
from gpushard._runtime.backend import Reducing
from gpushard._runtime.namespace import own_kernels
from gpushard._typing import LocalArray
from gpushard.dtypes import kind_of, real_of

_DOUBLE = np.dtype(np.float64)
_INDEX = np.dtype(np.int64)
_SUBTRACT, _MULTIPLY = ufunc_row(np.subtract), ufunc_row(np.multiply)
_DIVIDE, _SQRT = ufunc_row(np.divide), ufunc_row(np.sqrt)


def _mean_dtype(operand_dtype: Dtype, dtype: Dtype | None) -> Dtype:
    if dtype is not None:
        return dtype
    return operand_dtype if kind_of(operand_dtype) in "fc" else _DOUBLE


def _mean_local(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    axes, keepdims, dtype = params
    wide = _mean_dtype(avals[0].dtype, dtype)
    total = np.add.reduce if xp is np else total_of(xp, "sum", avals[0].dtype, wide)
    return Reducing(total, axes, {"dtype": wide, "keepdims": keepdims})


def _mean_finish(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
    dtype = _mean_dtype(avals[0].dtype, params[2])
    return lambda s, n: (s[0] / n if n else s[0] * xp.nan).astype(dtype, copy=False)


def _mean_kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    local, finish = _mean_local(xp, avals, params), _mean_finish(xp, avals, params)
    axes, _, _ = params
    shape = avals[0].shape

    if own_kernels(xp) is not None:
        total, dtype = local, _mean_dtype(avals[0].dtype, params[2])

        def mean_here(x: Any, out: Any = None) -> Any:
            count = math.prod(x.shape[axis] for axis in axes)
            mean = xp.divide(total(x), count, out=out, casting="unsafe")
            return mean.astype(dtype, copy=False)

        return mean_here

    def mean(x: Any) -> Any:
        count = math.prod(shape[axis] for axis in axes)
        return finish((xp.asarray(local(x)),), count)

    return writing(mean)


MEAN = in_single(
    reduction_row(
        "mean",
        _mean_dtype,
        _mean_kernel,
        Reduce(
            lambda avals, params: (_mean_dtype(avals[0].dtype, params[2]),),
            _mean_local,
            add_states,
            _mean_finish,
        ),
    ),
    typed=True,
)


"""Last parameter: dtype or None."""


def _var_dtype(operand_dtype: Dtype, correction: float) -> Dtype:
    return real_of(_mean_dtype(operand_dtype, None))


def squared(apart: Any) -> Any:
    """Square distances."""
    return (apart * apart.conj()).real if apart.dtype.kind == "c" else apart * apart


def _moments(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    """Make the kernel of the mean and the sum of squared distances from it."""
    axes, keepdims, _ = params
    wide = _mean_dtype(avals[0].dtype, None)
    kernels = own_kernels(xp)

    apart = _squares_own(xp, avals, params)

    def moments_here(x: Any) -> State:
        total, spread = apart(x)
        count = _INDEX.type(math.prod(x.shape[axis] for axis in axes))
        return kernels.quotient(total, count, otherwise=0).reshape(spread.shape), spread

    def moments(x: Any) -> State:
        x = x.astype(wide, copy=False)
        mean = x.mean(axes, keepdims=True)
        apart = x - mean
        total = squared(apart).sum(axes, keepdims=keepdims)
        return mean.reshape(total.shape), total

    return writing(moments if kernels is None else moments_here)


def _squares_own(xp: Any, avals: Sequence[Aval], params: Params) -> Callable[[Any], State]:
    """Make the functions for sums, and for sums of squared distances from means, on a GPU."""
    axes, keepdims, _ = params
    wide = _mean_dtype(avals[0].dtype, None)

    def apart(x: Any) -> State:
        count = _INDEX.type(math.prod(x.shape[axis] for axis in axes))
        total = x.sum(axes, dtype=wide, keepdims=True)
        squares = own_kernels(xp).squares(x, total, count, skips=False)
        return total, squares.sum(axes, keepdims=keepdims)

    return apart


def _chan(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
    """Make the merge of moments (Chan, Golub and LeVeque, 1979)."""

    def merge(a: State, b: State, m: int, n: int) -> State:
        apart = b[0] - a[0]
        spread = a[1] + b[1] + squared(apart) * (m * n / (m + n))
        return a[0] + apart * (n / (m + n)), spread

    return merge


def _spread_row(name: str, *, root: bool) -> Row:
    """Make the row of a variance, or of its square root."""

    def make(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
        correction = params[2]
        dtype = _var_dtype(avals[0].dtype, correction)

        def finish(state: State, count: int) -> LocalArray:
            kernels = own_kernels(xp)
            if kernels is not None:
                size = _INDEX.type(count)
                quotient = kernels.quotient(state[1], size, correction, root=root, otherwise=0)
                return quotient.astype(dtype, copy=False)
            spread = state[1] / state[1].dtype.type(max(count - correction, 0))
            return (xp.sqrt(spread) if root else spread).astype(dtype, copy=False)

        return finish

    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        local, finish = _moments(xp, avals, params), make(xp, avals, params)
        apart, kernels = _squares_own(xp, avals, params), own_kernels(xp)
        axes, _, _ = params

        def spread(x: Any) -> Any:
            count = math.prod(avals[0].shape[axis] for axis in axes)
            return finish(tuple(map(xp.asarray, local(x))), count)

        def spread_here(x: Any, out: Any = None) -> Any:
            count = _INDEX.type(math.prod(avals[0].shape[axis] for axis in axes))
            squares = apart(x)[1]
            return kernels.quotient(squares, count, params[2], root=root, otherwise=0, out=out)

        return writing(spread) if kernels is None else spread_here

    def states(avals: Sequence[Aval], params: Params) -> tuple[Dtype, ...]:
        wide = _mean_dtype(avals[0].dtype, None)
        return wide, real_of(wide)

    def in_parts(bind: Callable[..., Any], x: Any, params: Params) -> Any:
        axes, keepdims, correction = params
        count = math.prod(x.shape[axis] for axis in axes)
        apart = bind(_SUBTRACT, (x, bind(MEAN, (x,), (axes, True, None))))
        total = bind(SUM, (bind(_MULTIPLY, (apart, apart)),), (axes, keepdims, None))
        spread = bind(_DIVIDE, (total, float(max(count - correction, 0))))
        return bind(_SQRT, (spread,)) if root else spread

    row = reduction_row(name, _var_dtype, kernel, Reduce(states, _moments, _chan, make))
    return dataclasses.replace(in_single(row), in_parts=in_parts)


VAR = _spread_row("var", root=False)


"""Last parameter: the correction, subtracted from the number of elements in the divisor."""


STD = _spread_row("std", root=True)


"""Last parameter: as for `VAR`."""
