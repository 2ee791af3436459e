"""Special functions that are not ufuncs, and the sum of exponentials as a reduction.

SciPy's ufuncs have rows by `ufunc_row`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.narrow_floats import in_single
from gpushard._ops.programs.local import Local
from gpushard._ops.programs.reduce import Reduce
from gpushard._ops.row import Kernel, Params, Row, State, broadcasting, by_factors
from gpushard._ops.table.elementwise import function_row, promoting, writing
from gpushard._ops.table.reductions import reduced_rule, reduced_shape
from gpushard._runtime.namespace import special_functions
from gpushard.dtypes import kind_of, real_of, result_type, wide
from gpushard.errors import ArgumentTypeError


def _zeta_dtype(avals: Sequence[Aval], params: Params) -> Dtype:
    """Return the common type of operands; integers have SciPy's type.

    That is single precision for small integers, and double precision for a single operand.
    """
    common = result_type(*promoting(avals))
    if kind_of(common) == "f":
        return common
    dtype = wide(result_type(common, np.float16))
    if len(avals) == 1:
        return dtype if dtype.kind == "c" else np.dtype(np.float64)
    if dtype.kind == "c":
        raise ArgumentTypeError(
            f"zeta with a first term is not defined for {dtype}; take real parts, or leave it out",
            argument="x",
            dtype=dtype,
        )
    return dtype


def _zeta(xp: Any, params: Params, dtype: Dtype) -> Callable[..., Any]:
    function = special_functions(xp).zeta

    def zeta(*operands: Any) -> Any:
        typed = [x.astype(dtype, copy=False) for x in operands]
        if len(typed) == 1 and xp is not np:  # CuPy's `zeta` has no default
            typed.append(xp.ones_like(typed[0]))
        return function(*typed)

    return zeta


ZETA = in_single(function_row("zeta", _zeta_dtype, _zeta))
"""Operands: the power, and optionally the first term."""


def _numbers(avals: Sequence[Aval]) -> Dtype:
    """Return the type of a sum of exponentials: double precision for integers."""
    dtype = result_type(*(aval.dtype for aval in avals))
    return dtype if dtype.kind in "fc" else np.dtype(np.float64)


def _result(avals: Sequence[Aval], params: Params) -> Dtype:
    dtype = _numbers(avals)
    return np.finfo(dtype).dtype if params[2] else dtype


def _states(avals: Sequence[Aval], params: Params) -> tuple[Dtype, ...]:
    dtype = _numbers(avals)
    return real_of(dtype), dtype


def _finite(xp: Any, most: Any) -> Any:
    """Return the offset to subtract from exponents: 0 instead of infinity or NaN."""
    return xp.where(xp.isfinite(most), most, 0)


def _local(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    """Make the function for the greatest exponent of a block, and the sum relative to it."""
    axes, keepdims, _ = params
    dtype = _numbers(avals)

    def local(x: Any, *weights: Any) -> State:
        x = x.astype(dtype, copy=False)
        counted = x.real
        for b in weights:
            counted = xp.where(b == 0, -np.inf, counted)
        if counted.size:
            most = counted.max(axes, keepdims=True)
        else:  # without elements there is no greatest exponent
            shape = reduced_shape(x.shape, axes, keepdims=True)
            most = xp.full(shape, -np.inf, counted.dtype)
        terms = xp.exp(x - _finite(xp, most))
        for b in weights:
            terms = xp.where(b == 0, 0, b * terms)
        total = terms.sum(axes, dtype=dtype, keepdims=keepdims)
        return most.reshape(total.shape), total

    return writing(local)


def _merge(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
    def merge(a: State, b: State, m: int, n: int) -> State:
        most = xp.maximum(a[0], b[0])
        base = _finite(xp, most)
        return most, a[1] * _scale(xp, a[0], base) + b[1] * _scale(xp, b[0], base)

    return merge


def _scale(xp: Any, most: Any, base: Any) -> Any:
    """Return the factor from a sum to another base; a sum with base 0 is 0, infinite or NaN."""
    return xp.where(xp.isfinite(most), xp.exp(most - base), 1)


def _finish(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
    size, dtype = params[2], _result(avals, params)

    def finish(s: State, n: int) -> Any:
        most, total = s
        logarithm = xp.log(abs(total) if size else total) + _finite(xp, most)
        return logarithm.astype(dtype, copy=False)

    return finish


def _kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    local, finish = _local(xp, avals, params), _finish(xp, avals, params)
    return writing(lambda *operands: finish(tuple(map(xp.asarray, local(*operands))), 0))


LOGSUMEXP = in_single(
    Row(
        "logsumexp",
        by_factors(reduced_rule, _result),
        reduced_rule,
        _kernel,
        (Reduce(_states, _local, _merge, _finish), Local()),
        stacked=broadcasting,
    )
)
"""Operands: exponents, and optional weights of the same shape. Parameters: (axes counted from the
end, keepdims, whether to return the logarithm of the absolute sum)."""
