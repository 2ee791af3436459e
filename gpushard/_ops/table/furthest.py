"""Find the position that is furthest out of bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._ops.aval import Aval
from gpushard._ops.programs.local import Local
from gpushard._ops.programs.reduce import Reduce
from gpushard._ops.row import Kernel, Params, Row, broadcasting, by_factors
from gpushard._ops.table.elementwise import writing
from gpushard._ops.table.reductions import reduced_rule
from gpushard._runtime.namespace import own_kernels
from gpushard._typing import LocalArray

_INDEX = np.dtype(np.int64)


def _out(xp: Any, position: LocalArray) -> LocalArray:
    """Return the length minus 1 that a dim needs to contain a position."""
    return xp.maximum(position, -1 - position)


def _furthest_local(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    axes, keepdims = params
    most = np.iinfo(_INDEX).max
    kernels = own_kernels(xp)
    if kernels is not None and avals[0].dtype.kind in "biu":
        return lambda x, out: kernels.reduce("furthest", x, axes, out)

    def furthest(x: LocalArray) -> LocalArray:
        high, low = (f(axis=axes, keepdims=keepdims) for f in (x.max, x.min))
        if x.dtype == np.uint64:  # no dim is that long
            high, low = (xp.minimum(n, np.uint64(most)) for n in (high, low))
        return _further(xp, xp.asarray(high).astype(_INDEX), xp.asarray(low).astype(_INDEX))

    return writing(furthest)


def _further(xp: Any, a: LocalArray, b: LocalArray) -> LocalArray:
    return xp.where(_out(xp, b) > _out(xp, a), b, a)


FURTHEST = Row(
    "index check",
    by_factors(reduced_rule, lambda avals, params: _INDEX),
    reduced_rule,
    _furthest_local,
    (
        Reduce(
            lambda avals, params: (_INDEX,),
            _furthest_local,
            lambda xp, avals, params: lambda a, b, m, n: (_further(xp, a[0], b[0]),),
            lambda xp, avals, params: lambda state, n: state[0],
        ),
        Local(),
    ),
    stacked=broadcasting,
)


"""The position that needs the longest dim to be in bounds. Parameters: (axes counted from the end,
keepdims)."""
