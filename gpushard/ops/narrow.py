"""Operations that work out narrow floats in single precision.

float16, bfloat16 and float8 are what arrays hold. A sum of such numbers in their precision stops
growing when an element is less than half of its last digit, so a row that adds up, or that needs
functions which NumPy has for its own types only, is made `in_single` precision: operands come in
converted, and results are rounded once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard import dtypes
from gpushard.dtypes import Dtype, wide
from gpushard.ops.aval import Aval
from gpushard.ops.row import Kernel, Params, Reduction, Row, State

_SINGLE = np.dtype(np.float32)


def _widened(avals: Sequence[Aval]) -> tuple[Aval, ...]:
    return tuple(dataclasses.replace(aval, dtype=wide(aval.dtype)) for aval in avals)


def _wide_params(params: Params) -> Params:
    return tuple(wide(param) if isinstance(param, np.dtype) else param for param in params)


def _is_narrow(avals: Sequence[Aval], params: Params = ()) -> bool:
    types = [aval.dtype for aval in avals] + [p for p in params if isinstance(p, np.dtype)]
    return any(wide(t) != t for t in types)


def _converting(kernel: Kernel, avals: Sequence[Aval]) -> Kernel:
    """Return a kernel that takes operands of narrow types."""
    types = [wide(aval.dtype) for aval in avals]

    def converted(*operands: Any, **out: Any) -> Any:
        given = [x.astype(t, copy=False) for x, t in zip(operands, types, strict=True)]
        return kernel(*given, **out)

    return converted


def _rounding(kernel: Kernel, types: Sequence[Dtype]) -> Kernel:
    """Return a kernel that gives, or writes, results of some types."""

    def rounded(*operands: Any, out: Any = None) -> Any:
        found = kernel(*operands)
        results = found if isinstance(found, tuple) else (found,)
        if out is None:
            made = tuple(x.astype(t, copy=False) for x, t in zip(results, types, strict=True))
            return made if isinstance(found, tuple) else made[0]
        for target, x in zip(out if isinstance(out, tuple) else (out,), results, strict=True):
            target[...] = x
        return out

    return rounded


def _narrow_infer(infer: Callable[..., tuple[Aval, ...]]) -> Callable[..., tuple[Aval, ...]]:
    """Say that results of single precision have the type of the operands that were converted."""

    def inferred(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
        floats = [aval.dtype for aval in avals if wide(aval.dtype) == _SINGLE]
        if not any(map(dtypes.is_custom, floats)):
            return infer(avals, params)
        own = dtypes.result_type(*floats)
        return tuple(
            dataclasses.replace(aval, dtype=own if aval.dtype == _SINGLE else aval.dtype)
            for aval in infer(_widened(avals), params)
        )

    return inferred


def in_single(row: Row, *, typed: bool = False) -> Row:
    """Return a row that works out narrow floats in single precision.

    Args:
      row: what works for single precision.
      typed: whether it says itself what types results of narrow floats have, has a type among its
        parameters for that, and converts operands on the way.
    """
    infer = row.infer if typed else _narrow_infer(row.infer)

    def inside(make: Any, xp: Any, avals: Sequence[Aval], params: Params) -> Any:
        made = make(xp, _widened(avals), _wide_params(params))
        return made if typed or not _is_narrow(avals) else _converting(made, avals)

    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        made: Kernel = inside(row.kernel, xp, avals, params)
        if not _is_narrow(avals, params):
            return made
        return _rounding(made, [aval.dtype for aval in infer(avals, params)])

    return dataclasses.replace(
        row, infer=infer, kernel=kernel, reduction=_reduction(row.reduction, infer, inside)
    )


def _reduction(whole: Reduction | None, infer: Any, inside: Any) -> Reduction | None:
    """Return how parts of narrow floats come together: their states are of single precision."""
    if whole is None:
        return None

    def states(avals: Sequence[Aval], params: Params) -> tuple[Dtype, ...]:
        return whole.states(_widened(avals), _wide_params(params))

    def local(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        made: Kernel = inside(whole.local, xp, avals, params)
        return made

    def merge(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
        return whole.merge(xp, _widened(avals), _wide_params(params))

    def finish(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
        (result,) = infer(avals, params)
        end = whole.finish(xp, _widened(avals), _wide_params(params))
        if not _is_narrow(avals, params):
            return end

        def rounded(state: State, count: int) -> Any:
            return end(state, count).astype(result.dtype, copy=False)

        return rounded

    return Reduction(states, local, merge, finish)
