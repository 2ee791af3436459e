"""Counts of elements by value: each block counts its own, and counts are added.

Nothing of the data moves; what is moved is one set of counts for each block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.ops.aval import Aval, Dtype
from gpushard.ops.row import Kernel, Params, Reduction, Row
from gpushard.ops.rule import Rule
from gpushard.ops.table.elementwise import writing
from gpushard.typing import Shape

_COUNT = np.dtype(np.int64)
_SUM = np.dtype(np.float64)
_COMPLEX = np.dtype(np.complex128)


def _state(dtype: Dtype) -> Dtype:
    """Return the type that counts or weights are added in."""
    if dtype.kind == "c":
        return _COMPLEX
    return _SUM if dtype.kind == "f" else _COUNT


def _totals(xp: Any, number: Any, counts: Any, weights: Any, length: int, dtype: Dtype) -> Any:
    """Return how many elements have each number, or the sums of their weights.

    Args:
      xp: the namespace.
      number: of each element.
      counts: which elements count at all.
      weights: of each element; None to count.
      length: how many numbers there are.
      dtype: of the result.
    """
    number = xp.where(counts, number, length).reshape(-1)  # others go to one more, which is cut off

    def total(part: Any) -> Any:
        heavy = None if part is None else part.astype(_SUM).reshape(-1)
        return xp.bincount(number, heavy, length + 1)[:length]

    if weights is None or dtype.kind != "c":
        return total(weights).astype(dtype)
    return total(weights.real) + 1j * total(weights.imag)


def _counting(name: str, shape_of: Any, rule: Any, make: Any) -> Row:
    """Return the row of a count; the last parameter is the type of the result.

    Args:
      name: what users call it.
      shape_of: takes avals and parameters; gives the shape of the result.
      rule: the factor rule.
      make: takes the namespace, avals, parameters and the type to add in; gives the function that
        counts a block.
    """

    def infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
        return (Aval(shape_of(avals, params), params[-1]),)

    def local(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        return writing(make(xp, avals, params, _state(params[-1])))

    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        count = make(xp, avals, params, _state(params[-1]))
        return writing(lambda *operands: count(*operands).astype(params[-1], copy=False))

    reduction = Reduction(
        lambda avals, params: (_state(params[-1]),),
        local,
        lambda xp, avals, params: lambda a, b, m, n: (a[0] + b[0],),
        lambda xp, avals, params: lambda s, n: s[0].astype(params[-1], copy=False),
    )
    return Row(name, infer, rule, kernel, reduction)


def _bincount_rule(avals: Sequence[Aval], params: Params) -> Rule:
    shape = avals[0].shape
    own = tuple(range(len(shape)))
    at = len(shape)
    return Rule((own,) * len(avals), ((at,),), (*shape, params[0]), frozenset({at}))


def _bincount(xp: Any, avals: Sequence[Aval], params: Params, dtype: Dtype) -> Any:
    length = params[0]

    def count(x: Any, weights: Any = None) -> Any:
        counts = (x >= 0) & (x < length)
        return _totals(xp, x.astype(_COUNT), counts, weights, length, dtype)

    return count


BINCOUNT = _counting("bincount", lambda avals, params: (params[0],), _bincount_rule, _bincount)
"""Operands: integers, and weights of their shape if there are any. Parameters: (length, dtype)."""


def _bins(avals: Sequence[Aval], params: Params) -> Shape:
    dims = params[0]
    return tuple(edges.shape[0] - 1 for edges in avals[dims : 2 * dims])


def _histogram_rule(avals: Sequence[Aval], params: Params) -> Rule:
    dims = params[0]
    shape = avals[0].shape
    ndim = len(shape)
    own = tuple(range(ndim))
    edges = tuple((ndim + d,) for d in range(dims))
    bins = tuple(range(ndim + dims, ndim + 2 * dims))
    lengths = tuple(aval.shape[0] for aval in avals[dims : 2 * dims])
    operands = ((own,) * dims, edges, (own,) * (len(avals) - 2 * dims))
    sizes = (*shape, *lengths, *_bins(avals, params))
    whole = frozenset(range(ndim, ndim + 2 * dims))
    return Rule(sum(operands, ()), (bins,), sizes, whole)


def _histogram(xp: Any, avals: Sequence[Aval], params: Params, dtype: Dtype) -> Any:
    dims = params[0]
    bins = _bins(avals, params)

    def count(*operands: Any) -> Any:
        number, counts = 0, None
        for x, edges, many in zip(operands, operands[dims:], bins, strict=False):
            at = xp.searchsorted(edges, x, side="right") - 1
            at = xp.where(x == edges[-1], many - 1, at)  # the last bin has both its edges
            number = number * many + at
            inside = (x >= edges[0]) & (x <= edges[-1])
            counts = inside if counts is None else counts & inside
        weights = operands[2 * dims] if len(operands) > 2 * dims else None
        found = _totals(xp, number, counts, weights, math.prod(bins), dtype)
        return found.reshape(bins)

    return count


HISTOGRAM = _counting("histogram", _bins, _histogram_rule, _histogram)
"""Operands: coordinates of the elements, an array for each dim; the edges of the bins of each dim,
ascending; weights, if there are any. Parameters: (dims, dtype)."""
