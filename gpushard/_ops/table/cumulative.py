"""Cumulative sums, products, extremes and tests along a dim, which is whole.

Parameters of all rows: (axis counted from the end, dtype or None).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._ops import rule
from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.narrow_floats import in_single
from gpushard._ops.programs.local import Local
from gpushard._ops.row import Kernel, Params, Row, broadcasting
from gpushard._ops.rule import Rule
from gpushard._ops.table.elementwise import writing
from gpushard.dtypes import summed
from gpushard.errors import ArgumentTypeError

_OF_CUPY = {"add": "cumsum", "multiply": "cumprod"}  # CuPy's cumulative functions


@functools.lru_cache(maxsize=256)
def _accumulated_dtype(ufunc: np.ufunc, operand_dtype: Dtype, dtype: Dtype | None) -> Dtype:
    if dtype is None and ufunc in (np.add, np.multiply):
        dtype = summed(operand_dtype)
    try:
        default: Dtype = ufunc.accumulate(np.ones(1, dtype or operand_dtype), dtype=dtype).dtype
    except TypeError:
        raise ArgumentTypeError(
            f"{ufunc.__name__}.accumulate is not defined for {dtype or operand_dtype}; convert the "
            "array with astype",
            argument="x",
            dtype=dtype or operand_dtype,
        ) from None
    return default


def doubling(function: Any, x: Any, axis: int) -> Any:
    """Accumulate in as many passes as the length has binary digits (Hillis and Steele, 1986).

    >>> doubling(np.maximum, np.array([1, 3, 2, 5, 4]), -1)
    array([1, 3, 3, 5, 5])
    """
    rows = x.swapaxes(axis, -1)
    step = 1
    while step < rows.shape[-1]:
        rows[..., step:] = function(rows[..., step:], rows[..., :-step])
        step *= 2
    return x


def _row(name: str, ufunc: np.ufunc) -> Row:
    def infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
        (x,) = avals
        dtype = _accumulated_dtype(ufunc, x.dtype, params[1])
        return (Aval(x.shape, dtype, x.weak and dtype == x.dtype),)

    def rule_of(avals: Sequence[Aval], params: Params) -> Rule:
        return rule.along([avals[0].shape], [params[0]])

    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        axis = params[0]
        dtype = _accumulated_dtype(ufunc, avals[0].dtype, params[1])
        if xp is np:
            return lambda x, out=None: ufunc.accumulate(x, axis, dtype, out)
        if ufunc.__name__ in _OF_CUPY:
            total = getattr(xp, _OF_CUPY[ufunc.__name__])
            return writing(lambda x: total(x, axis, dtype))
        function = getattr(xp, ufunc.__name__)
        return writing(lambda x: doubling(function, x.astype(dtype), axis))

    return Row(
        name,
        infer,
        rule_of,
        kernel,
        (Local("each element needs all before it"),),
        stacked=broadcasting,
    )


CUMSUM = in_single(_row("cumsum", np.add), typed=True)
CUMPROD = in_single(_row("cumprod", np.multiply), typed=True)
CUMMAX = _row("maximum.accumulate", np.maximum)
CUMMIN = _row("minimum.accumulate", np.minimum)
CUMALL = _row("logical_and.accumulate", np.logical_and)
CUMANY = _row("logical_or.accumulate", np.logical_or)
