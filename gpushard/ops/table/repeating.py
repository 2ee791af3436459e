"""Each element as often as a count of its own says. The dim is whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.ops.aval import Aval
from gpushard.ops.programs.local import Local
from gpushard.ops.row import Kernel, Params, Row
from gpushard.ops.rule import Rule
from gpushard.ops.table.elementwise import writing


def _infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    total, axis = params
    x = avals[0]
    at = len(x.shape) + axis
    return (Aval((*x.shape[:at], total, *x.shape[at + 1 :]), x.dtype, x.weak),)


def _rule(avals: Sequence[Aval], params: Params) -> Rule:
    shape = avals[0].shape
    own = tuple(range(len(shape)))
    at = len(shape) + params[1]
    return Rule((own, (at,)), (own,), shape, frozenset({at}))


def _kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    total, axis = params

    def repeat(x: Any, counts: Any) -> Any:
        ends = xp.cumsum(counts, dtype=np.int64)
        source = xp.searchsorted(ends, xp.arange(total, dtype=np.int64), side="right")
        return xp.take(x, source, axis=axis)

    return writing(repeat)


REPEAT_EACH = Row(
    "repeat",
    _infer,
    _rule,
    _kernel,
    (Local("where an element goes depends on the counts of all before it"),),
    beside_keys=frozenset([1]),
)
"""Operands: an array, and a count for each element along a dim, which are not negative. Parameters:
(sum of the counts, axis counted from the end)."""
