"""Counts of elements by value: each block counts its own, and counts are added.

Nothing of the data moves; what is moved is one set of counts for each block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard.ops.aval import Aval, Dtype
from gpushard.ops.narrow import in_single
from gpushard.ops.programs.local import Local
from gpushard.ops.programs.reduce import Reduce
from gpushard.ops.row import Kernel, Params, Row, RuleMaker, Stack, by_factors
from gpushard.ops.rule import Rule
from gpushard.ops.search import search
from gpushard.ops.table.elementwise import writing
from gpushard.runtime.namespace import own_kernels
from gpushard.typing import Shape

_COUNT = np.dtype(np.int64)
_SUM = np.dtype(np.float64)
_COMPLEX = np.dtype(np.complex128)


def _state(dtype: Dtype) -> Dtype:
    """Return the type that counts or weights are added in."""
    if dtype.kind == "c":
        return _COMPLEX
    return _SUM if dtype.kind == "f" else _COUNT


def _number_per_row(xp: Any, number: Any, length: int, lead: int) -> Any:
    """Return numbers less than `length` as others for each element of dims in front.

    >>> _number_per_row(np, np.array([[0, 2], [1, 1]]), 3, 1).tolist()
    [[0, 2], [4, 4]]
    """
    rows = number.shape[:lead]
    first = xp.arange(0, math.prod(rows) * length, max(length, 1), _COUNT)
    return number + first.reshape(*rows, *(1,) * (number.ndim - lead))


def _totals(
    xp: Any, number: Any, counts: Any, weights: Any, length: int, dtype: Dtype, lead: int
) -> Any:
    """Return how many elements have each number, or the sums of their weights.

    They are counted for each element of as many dims in front.
    """
    rows = number.shape[:lead]
    many = math.prod(rows) * length
    if lead:
        number = _number_per_row(xp, number, length, lead)
    if counts is not None:  # others go to one more, which is cut off
        number = xp.where(counts, number, many)
    number = number.ravel()

    def total(part: Any) -> Any:
        heavy = None if part is None else part.astype(_SUM).ravel()
        return xp.bincount(number, heavy, many + 1)[:many].reshape(*rows, length)

    if weights is None or dtype.kind != "c":
        return total(weights).astype(dtype)
    return total(weights.real) + 1j * total(weights.imag)


def _tallied(xp: Any, number: Any, weights: Any, length: int, dtype: Dtype, lead: int) -> Any:
    """Return the same by kernels of the backend, where numbers out of bounds do not count."""
    if lead:
        rows = number.shape[:lead]
        inside = (number >= 0) & (number < length)
        number = xp.where(inside, _number_per_row(xp, number, length, lead), -1)
        found = _tallied(xp, number, weights, math.prod(rows) * length, dtype, 0)
        return found.reshape(*rows, length)
    own = own_kernels(xp)
    counts = xp.empty(length, dtype if weights is not None else _COUNT)
    if weights is not None and dtype.kind == "c":
        for part, of in ((counts.real, weights.real), (counts.imag, weights.imag)):
            own.tally(number, length, of, part)
    elif weights is not None and dtype != _SUM:
        return _tallied(xp, number, weights, length, _SUM, 0).astype(dtype)
    else:
        own.tally(number, length, weights, counts)
    return counts.astype(dtype, copy=False)


def _counting(
    name: str,
    rule: RuleMaker,
    make: Any,
    tables: Callable[[Params], frozenset[int]],
    whole: str = "",
) -> Row:
    """Return the row of a count; the last parameter is the type of the result.

    Narrow floats are converted first: that is exact, and GPUs compare and add up no others.

    Args:
      name: what users call it.
      rule: the factor rule.
      make: takes the namespace, avals, parameters and the type to add in; gives the function that
        counts a block. Between the first parameter and the last there may be how many dims in
        front counts are apart for.
      tables: takes parameters; says which operands have others elements than those counted.
      whole: as for `Local`.
    """

    def local(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        return writing(make(xp, avals, params, _state(params[-1])))

    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        count = make(xp, avals, params, _state(params[-1]))
        return writing(lambda *operands: count(*operands).astype(params[-1], copy=False))

    reduction = Reduce(
        lambda avals, params: (_state(params[-1]),),
        local,
        lambda xp, avals, params: lambda a, b, m, n: (a[0] + b[0],),
        lambda xp, avals, params: lambda s, n: s[0].astype(params[-1], copy=False),
    )
    infer = by_factors(rule, lambda avals, params: params[-1])

    def stacked(
        params: Params, shapes: Sequence[Shape], dims: Sequence[tuple[int, ...]], lead: int
    ) -> Stack | None:
        first, dtype = params
        alike = frozenset(range(len(shapes))) - tables(params)
        if any(dims[number] for number in tables(params)):
            return None
        between = [0 if number in alike else None for number in range(len(shapes))]
        return Stack((first, lead, dtype), tuple(between), alike)

    return in_single(
        Row(
            name,
            infer,
            rule,
            kernel,
            (reduction, Local(whole)),
            stacked=stacked,
            each="NumPy looks up in one vector" if whole else "",
        )
    )


def _bincount_rule(avals: Sequence[Aval], params: Params) -> Rule:
    shape = avals[0].shape
    own = tuple(range(len(shape)))
    at = len(shape)
    return Rule((own,) * len(avals), ((at,),), (*shape, params[0]), frozenset({at}))


def _bincount(xp: Any, avals: Sequence[Aval], params: Params, dtype: Dtype) -> Any:
    length, *front, _ = params
    lead = sum(front)
    own = own_kernels(xp)

    def count_here(x: Any, weights: Any = None) -> Any:
        return _tallied(xp, x, weights, length, dtype, lead)

    def count(x: Any, weights: Any = None) -> Any:
        if xp is np and (not x.size or (x.min() >= 0 and x.max() < length)):
            counts = None
        else:
            counts = (x >= 0) & (x < length)
        return _totals(xp, x.astype(_COUNT, copy=False), counts, weights, length, dtype, lead)

    return count if own is None or avals[0].dtype.kind not in "biu" else count_here


BINCOUNT = _counting("bincount", _bincount_rule, _bincount, lambda params: frozenset())
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


def _bin_numbers(xp: Any, x: Any, edges: Any) -> tuple[Any, Any]:
    """Return the number of the bin of each element, and which elements are in one.

    Where nothing is said, the last bin has both its edges, and others only the lower one.
    """
    last = edges.shape[0] - 2
    dtype = np.result_type(x.dtype, edges.dtype)
    if xp is not np:
        at = xp.minimum(xp.searchsorted(edges, x, side="right") - 1, last)
        return at, (x >= edges[0]) & (x <= edges[-1])
    edges = edges.astype(dtype, copy=False)
    number, inside = np.empty(x.size, np.intp), np.empty(x.size, bool)
    flat = x.ravel()
    for start in range(0, x.size, _PIECE):
        piece = slice(start, start + _PIECE)
        part = flat[piece].astype(dtype, copy=False)
        inside[piece] = (part >= edges[0]) & (part <= edges[-1])
        number[piece] = _guessed_and_checked(part, edges, inside[piece])
    return number.reshape(x.shape), inside.reshape(x.shape)


_PIECE = 1 << 15
"""Elements that are worked out at a time on the host, so that what that takes stays in cache."""


def _guessed_and_checked(x: Any, edges: Any, inside: Any) -> Any:
    """Return the numbers of bins, on the host.

    A search costs more than all else: its branches go either way. So a bin is guessed, as if all
    were of one width, and only what is not between its edges is searched for.
    """
    last = len(edges) - 2
    scale = (last + 1) / (edges[-1] - edges[0])
    at = ((x - edges[0]) * scale).astype(np.intp)
    np.clip(at, 0, last, out=at)
    wrong = (x < edges[at]) | (x >= edges[at + 1])
    wrong &= inside
    if wrong.any():
        at[wrong] = np.minimum(search(np, edges, x[wrong], "right") - 1, last)
    return at


def _histogram(xp: Any, avals: Sequence[Aval], params: Params, dtype: Dtype) -> Any:
    dims, *front, _ = params
    lead, bins = sum(front), _bins(avals, params)

    own = own_kernels(xp)

    def count_here(*operands: Any) -> Any:
        number = xp.empty(operands[0].shape, _COUNT)
        for n, (x, edges) in enumerate(zip(operands[:dims], operands[dims:], strict=False)):
            own.bin_numbers(x, edges, number, further=n > 0)
        weights = operands[2 * dims] if len(operands) > 2 * dims else None
        found = _tallied(xp, number, weights, math.prod(bins), dtype, lead)
        return found.reshape(*found.shape[:-1], *bins)

    def count(*operands: Any) -> Any:
        number, counts = 0, None
        for x, edges, many in zip(operands, operands[dims:], bins, strict=False):
            at, inside = _bin_numbers(xp, x, edges)
            number = at if counts is None else number * many + at
            counts = inside if counts is None else counts & inside
        weights = operands[2 * dims] if len(operands) > 2 * dims else None
        if xp is np and np.all(counts):
            counts = None
        found = _totals(xp, number, counts, weights, math.prod(bins), dtype, lead)
        return found.reshape(*found.shape[:-1], *bins)

    return count if own is None else count_here


HISTOGRAM = _counting(
    "histogram",
    _histogram_rule,
    _histogram,
    lambda params: frozenset(range(params[0], 2 * params[0])),
    "the bins, a small table, come to every device",
)
"""Operands: coordinates of the elements, an array for each dim; the edges of the bins of each dim,
ascending; weights, if there are any. Parameters: (dims, dtype)."""
