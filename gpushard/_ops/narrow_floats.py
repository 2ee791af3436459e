"""Derive rows that compute narrow floats in single precision.

float16, bfloat16 and float8 are storage types. A sum in their precision stops growing when an
element is less than half of its last digit. So `in_single` adapts rows that add up, and rows that
need functions of NumPy's own types: it converts operands, and rounds results once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard import dtypes
from gpushard._ops.aval import Aval
from gpushard._ops.row import Kernel, KernelMaker, Params, Row
from gpushard.dtypes import Dtype, wide

_SINGLE = np.dtype(np.float32)


def _widen_avals(avals: Sequence[Aval]) -> tuple[Aval, ...]:
    return tuple(dataclasses.replace(aval, dtype=wide(aval.dtype)) for aval in avals)


def _wide_params(params: Params) -> Params:
    return tuple(wide(param) if isinstance(param, np.dtype) else param for param in params)


def _is_narrow(avals: Sequence[Aval], params: Params = ()) -> bool:
    types = [aval.dtype for aval in avals] + [p for p in params if isinstance(p, np.dtype)]
    return any(wide(t) != t for t in types)


def _converting(kernel: Kernel, avals: Sequence[Aval]) -> Kernel:
    """Make a kernel accept operands of narrow types."""
    types = [wide(aval.dtype) for aval in avals]

    def converted(*operands: Any, **out: Any) -> Any:
        typed = [x.astype(t, copy=False) for x, t in zip(operands, types, strict=True)]
        return kernel(*typed, **out)

    return converted


def _rounding(kernel: Kernel, types: Sequence[Dtype]) -> Kernel:
    """Make a kernel return, or write, results of given types."""

    def rounded(*operands: Any, out: Any = None) -> Any:
        unrounded = kernel(*operands)
        results = unrounded if isinstance(unrounded, tuple) else (unrounded,)
        if out is None:
            results_typed = tuple(
                x.astype(t, copy=False) for x, t in zip(results, types, strict=True)
            )
            return results_typed if isinstance(unrounded, tuple) else results_typed[0]
        for target, x in zip(out if isinstance(out, tuple) else (out,), results, strict=True):
            target[...] = x
        return out

    return rounded


def _narrow_infer(infer: Callable[..., tuple[Aval, ...]]) -> Callable[..., tuple[Aval, ...]]:
    """Infer the type of the converted operands for results in single precision."""

    def inferred(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
        floats = [aval.dtype for aval in avals if wide(aval.dtype) == _SINGLE]
        if not any(map(dtypes.is_custom, floats)):
            return infer(avals, params)
        dtype = dtypes.result_type(*floats)
        return tuple(
            dataclasses.replace(aval, dtype=dtype if aval.dtype == _SINGLE else aval.dtype)
            for aval in infer(_widen_avals(avals), params)
        )

    return inferred


def in_single(row: Row, *, typed: bool = False) -> Row:
    """Derive a row that computes narrow floats in single precision.

    Args:
      row: a row for single precision.
      typed: whether the row infers the types of results of narrow floats itself, from a type among
        its parameters, and converts operands.
    """
    adapter = _InSingle(row, typed)
    return dataclasses.replace(
        row,
        infer=adapter.infer,
        kernel=adapter.kernel(row.kernel),
        strategies=tuple(strategy.adapted(adapter) for strategy in row.strategies),
    )


class _InSingle:
    """Derives the functions of a row from those of a row for single precision: an `Adapter`."""

    lead = complete = 0

    def __init__(self, row: Row, typed: bool) -> None:
        self.infer = row.infer if typed else _narrow_infer(row.infer)
        self._typed = typed

    def avals(self, avals: Sequence[Aval]) -> tuple[Aval, ...]:
        return _widen_avals(avals)

    def params(self, params: Params) -> Params:
        return _wide_params(params)

    def local(self, make: KernelMaker) -> KernelMaker:
        """Make the kernel of states, which have single precision."""

        def local(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
            kernel = make(xp, _widen_avals(avals), _wide_params(params))
            return kernel if self._typed or not _is_narrow(avals) else _converting(kernel, avals)

        return local

    def kernel(self, make: KernelMaker) -> KernelMaker:
        make = self.local(make)

        def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
            inside = make(xp, avals, params)
            if not _is_narrow(avals, params):
                return inside
            return _rounding(inside, [aval.dtype for aval in self.infer(avals, params)])

        return kernel

    def finish(self, make: Any) -> Any:
        def finish(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
            end = make(xp, _widen_avals(avals), _wide_params(params))
            if not _is_narrow(avals, params):
                return end
            (result,) = self.infer(avals, params)
            return lambda state, n: end(state, n).astype(result.dtype, copy=False)

        return finish
