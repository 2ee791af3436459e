"""Interpolation between points, and convolutions of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._ops.aval import Aval
from gpushard._ops.narrow_floats import in_single
from gpushard._ops.programs.local import Local
from gpushard._ops.row import (
    Kernel,
    Params,
    Row,
    beside_others,
    by_factors,
)
from gpushard._ops.rule import Rule
from gpushard._ops.table.elementwise import writing
from gpushard.dtypes import result_type

_DOUBLE = np.dtype(np.float64)
_COMPLEX = np.dtype(np.complex128)


def _interp_rule(avals: Sequence[Aval], params: Params) -> Rule:
    shape = avals[0].shape
    dims_of_x = tuple(range(len(shape)))
    at = len(shape)
    more = ((),) * (len(avals) - 3)
    sizes = (*shape, avals[1].shape[0])
    return Rule((dims_of_x, (at,), (at,), *more), (dims_of_x,), sizes, frozenset({at}))


def _interp(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    left, right, period = params

    def interp(x: Any, xs: Any, ys: Any, *outside: Any) -> Any:
        if xp is not np:  # CuPy's `interp` takes no booleans
            x, xs = x.astype(_DOUBLE, copy=False), xs.astype(_DOUBLE, copy=False)
            ys = ys if ys.dtype.kind in "fc" else ys.astype(_DOUBLE)
        numbers = iter(outside)
        low = next(numbers) if left else None
        high = next(numbers) if right else None
        return xp.interp(x, xs, ys, low, high, period)

    return writing(interp)


INTERP = Row(
    "interp",
    by_factors(_interp_rule, lambda avals, _: _COMPLEX if avals[2].dtype.kind == "c" else _DOUBLE),
    _interp_rule,
    _interp,
    (Local("the points, a small table, come to every device"),),
    stacked=beside_others(0),
    each="NumPy looks up in one vector",
)
"""Operands: positions, ascending positions of points and their values; optional numbers for
positions to the left and to the right. Parameters: (whether there is the first number, whether
there
is the second, period)."""


def _length(n: int, m: int, mode: str) -> int:
    """Return the length of a convolution.

    >>> [_length(5, 3, mode) for mode in ("full", "same", "valid")]
    [7, 5, 3]
    """
    longer, shorter = max(n, m), min(n, m)
    return {"full": n + m - 1, "same": longer, "valid": longer - shorter + 1}[mode]


def _vectors_row(name: str) -> Row:
    """Make the row of a convolution of two vectors, which are whole; parameters: (mode,)."""

    def infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
        a, b = avals
        length = _length(a.shape[0], b.shape[0], params[0])
        return (Aval((length,), result_type(a.dtype, b.dtype)),)

    def rule_of(avals: Sequence[Aval], params: Params) -> Rule:
        a, b = avals
        longer = int(b.shape[0] > a.shape[0])  # the result is split like this operand
        return Rule(((0,), (1,)), ((longer,),), (a.shape[0], b.shape[0]), frozenset({0, 1}))

    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        function = getattr(xp, name)
        if xp is np:
            return writing(lambda a, b: function(a, b, mode=params[0]))
        dtype = result_type(avals[0].dtype, avals[1].dtype)

        def of_one_type(a: Any, b: Any) -> Any:  # CuPy transforms each operand in its own precision
            return function(*(x.astype(dtype, copy=False) for x in (a, b)), mode=params[0])

        return writing(of_one_type)

    return in_single(
        Row(
            name,
            infer,
            rule_of,
            kernel,
            (Local("each element needs neighbours, and edges are not exchanged"),),
            each="NumPy's are functions of two vectors",
        )
    )


CONVOLVE = _vectors_row("convolve")
CORRELATE = _vectors_row("correlate")
