"""Count elements by value: each block counts its elements, and counts are added.

The data does not move. Only a set of counts for each block moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.narrow_floats import in_single
from gpushard._ops.programs.local import Local
from gpushard._ops.programs.reduce import Reduce
from gpushard._ops.row import Kernel, Params, Row, RuleMaker, Stack, by_factors
from gpushard._ops.rule import Rule
from gpushard._ops.searchsorted import search
from gpushard._ops.table.elementwise import writing
from gpushard._runtime.namespace import own_kernels
from gpushard._typing import Shape

_COUNT = np.dtype(np.int64)
_SUM = np.dtype(np.float64)
_COMPLEX = np.dtype(np.complex128)


def _state(dtype: Dtype) -> Dtype:
    """Return the type in which counts or weights are added."""
    if dtype.kind == "c":
        return _COMPLEX
    return _SUM if dtype.kind == "f" else _COUNT


def _number_per_row(xp: Any, number: Any, length: int, lead: int) -> Any:
    """Make numbers below `length` distinct for each element of dims in front.

    >>> _number_per_row(np, np.array([[0, 2], [1, 1]]), 3, 1).tolist()
    [[0, 2], [4, 4]]
    """
    rows = number.shape[:lead]
    first = xp.arange(0, math.prod(rows) * length, max(length, 1), _COUNT)
    return number + first.reshape(*rows, *(1,) * (number.ndim - lead))


def _totals(
    xp: Any, number: Any, counts: Any, weights: Any, length: int, dtype: Dtype, lead: int
) -> Any:
    """Count the elements with each number, or sum their weights.

    `lead` dims in front are counted separately.
    """
    rows = number.shape[:lead]
    total_length = math.prod(rows) * length
    if lead:
        number = _number_per_row(xp, number, length, lead)
    if counts is not None:  # others go to an extra entry, which is cut off
        number = xp.where(counts, number, total_length)
    number = number.ravel()

    def total(part: Any) -> Any:
        heavy = None if part is None else part.astype(_SUM).ravel()
        return xp.bincount(number, heavy, total_length + 1)[:total_length].reshape(*rows, length)

    if weights is None or dtype.kind != "c":
        return total(weights).astype(dtype)
    return total(weights.real) + 1j * total(weights.imag)


def _tally(xp: Any, number: Any, weights: Any, length: int, dtype: Dtype, lead: int) -> Any:
    """Compute `_totals` by kernels of the backend; numbers out of bounds do not count."""
    if lead:
        rows = number.shape[:lead]
        inside = (number >= 0) & (number < length)
        number = xp.where(inside, _number_per_row(xp, number, length, lead), -1)
        flat_counts = _tally(xp, number, weights, math.prod(rows) * length, dtype, 0)
        return flat_counts.reshape(*rows, length)
    kernels = own_kernels(xp)
    counts = xp.empty(length, dtype if weights is not None else _COUNT)
    if weights is not None and dtype.kind == "c":
        for part, of in ((counts.real, weights.real), (counts.imag, weights.imag)):
            kernels.tally(number, length, of, part)
    elif weights is not None and dtype != _SUM:
        return _tally(xp, number, weights, length, _SUM, 0).astype(dtype)
    else:
        kernels.tally(number, length, weights, counts)
    return counts.astype(dtype, copy=False)


def _counting(
    name: str,
    rule: RuleMaker,
    make: Any,
    tables: Callable[[Params], frozenset[int]],
    whole: str = "",
) -> Row:
    """Make the row of a count; the last parameter is the type of the result.

    Narrow floats are converted first. That is exact, and GPUs compare and add only wider types.

    Args:
      name: the name for users.
      rule: the factor rule.
      make: takes the namespace, avals, parameters and the type to add in; returns the function that
        counts a block. Between the first and the last parameter, there may be the number of dims in
        front that are counted separately.
      tables: takes parameters; returns the operands that are not counted elements.
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
    dims_of_x = tuple(range(len(shape)))
    at = len(shape)
    return Rule((dims_of_x,) * len(avals), ((at,),), (*shape, params[0]), frozenset({at}))


def _bincount(xp: Any, avals: Sequence[Aval], params: Params, dtype: Dtype) -> Any:
    length, *front, _ = params
    lead = sum(front)
    kernels = own_kernels(xp)

    def count_here(x: Any, weights: Any = None) -> Any:
        return _tally(xp, x, weights, length, dtype, lead)

    def count(x: Any, weights: Any = None) -> Any:
        if xp is np and (not x.size or (x.min() >= 0 and x.max() < length)):
            counts = None
        else:
            counts = (x >= 0) & (x < length)
        return _totals(xp, x.astype(_COUNT, copy=False), counts, weights, length, dtype, lead)

    return count if kernels is None or avals[0].dtype.kind not in "biu" else count_here


BINCOUNT = _counting("bincount", _bincount_rule, _bincount, lambda params: frozenset())
"""Operands: integers, and optional weights of their shape. Parameters: (length, dtype)."""


def _bins(avals: Sequence[Aval], params: Params) -> Shape:
    dims = params[0]
    return tuple(edges.shape[0] - 1 for edges in avals[dims : 2 * dims])


def _histogram_rule(avals: Sequence[Aval], params: Params) -> Rule:
    dims = params[0]
    shape = avals[0].shape
    ndim = len(shape)
    dims_of_x = tuple(range(ndim))
    edges = tuple((ndim + d,) for d in range(dims))
    bins = tuple(range(ndim + dims, ndim + 2 * dims))
    lengths = tuple(aval.shape[0] for aval in avals[dims : 2 * dims])
    operands = ((dims_of_x,) * dims, edges, (dims_of_x,) * (len(avals) - 2 * dims))
    sizes = (*shape, *lengths, *_bins(avals, params))
    whole = frozenset(range(ndim, ndim + 2 * dims))
    return Rule(sum(operands, ()), (bins,), sizes, whole)


def _bin_numbers(xp: Any, x: Any, edges: Any) -> tuple[Any, Any]:
    """Return the number of the bin of each element, and whether the element is in a bin.

    The last bin includes both its edges, other bins only the lower one.
    """
    last = edges.shape[0] - 2
    dtype = np.result_type(x.dtype, edges.dtype)
    if xp is not np:
        at = xp.minimum(xp.searchsorted(edges, x, side="right") - 1, last)
        return at, (x >= edges[0]) & (x <= edges[-1])
    edges = edges.astype(dtype, copy=False)
    tolerance = _tolerance(edges) if x.size else 0
    number, inside = np.empty(x.size, np.intp), np.empty(x.size, bool)
    flat = x.ravel()
    for start in range(0, x.size, _PIECE):
        piece = slice(start, start + _PIECE)
        part = flat[piece].astype(dtype, copy=False)
        inside[piece] = (part >= edges[0]) & (part <= edges[-1])
        number[piece] = _guess_bins(part, edges, inside[piece], tolerance)
    return number.reshape(x.shape), inside.reshape(x.shape)


_PIECE = 1 << 15
"""Elements per piece on the host, so temporary arrays stay in cache."""


def _tolerance(edges: Any) -> Any:
    """Return how far edges are from equal distances, in bins, plus the rounding of guesses."""
    scale = (len(edges) - 1) / (edges[-1] - edges[0])
    deviations = (edges - edges[0]) * scale - np.arange(len(edges))
    return np.abs(deviations).max() + 8 * len(edges) * np.finfo(deviations.dtype).eps


def _guess_bins(x: Any, edges: Any, inside: Any, tolerance: Any) -> Any:
    """Compute the numbers of bins, on the host.

    A search is the most expensive step, since its branches are hard to predict. So this function
    guesses a bin, as if all had equal width. It compares only elements near an edge with the edges
    of their bins. It searches only for elements that are not between these edges.
    """
    last = len(edges) - 2
    scale = (last + 1) / (edges[-1] - edges[0])
    guess = (x - edges[0]) * scale
    at = guess.astype(np.intp)
    np.clip(at, 0, last, out=at)
    some: Any = slice(None)
    if tolerance < _NEAR:
        guess -= np.rint(guess)
        some = np.flatnonzero(np.abs(guess, out=guess) <= tolerance)
    checked, number = x[some], at[some]
    wrong = (checked < edges[number]) | (checked >= edges[number + 1])
    wrong &= inside[some]
    if wrong.any():
        number[wrong] = np.minimum(search(np, edges, checked[wrong], "right") - 1, last)
        at[some] = number
    return at


_NEAR = 1 / 16
"""If elements so far from an edge may be in another bin, all elements are compared."""


def _histogram(xp: Any, avals: Sequence[Aval], params: Params, dtype: Dtype) -> Any:
    dims, *front, _ = params
    lead, bins = sum(front), _bins(avals, params)

    kernels = own_kernels(xp)

    def count_here(*operands: Any) -> Any:
        number = xp.empty(operands[0].shape, _COUNT)
        for n, (x, edges) in enumerate(zip(operands[:dims], operands[dims:], strict=False)):
            kernels.bin_numbers(x, edges, number, further=n > 0)
        weights = operands[2 * dims] if len(operands) > 2 * dims else None
        totals = _tally(xp, number, weights, math.prod(bins), dtype, lead)
        return totals.reshape(*totals.shape[:-1], *bins)

    def count(*operands: Any) -> Any:
        number, counts = 0, None
        for x, edges, n_bins in zip(operands, operands[dims:], bins, strict=False):
            at, inside = _bin_numbers(xp, x, edges)
            number = at if counts is None else number * n_bins + at
            counts = inside if counts is None else counts & inside
        weights = operands[2 * dims] if len(operands) > 2 * dims else None
        if xp is np and np.all(counts):
            counts = None
        totals = _totals(xp, number, counts, weights, math.prod(bins), dtype, lead)
        return totals.reshape(*totals.shape[:-1], *bins)

    return count if kernels is None else count_here


HISTOGRAM = _counting(
    "histogram",
    _histogram_rule,
    _histogram,
    lambda params: frozenset(range(params[0], 2 * params[0])),
    "the bins, a small table, come to every device",
)
"""Operands: coordinates of the elements, an array for each dim; ascending edges of the bins of each
dim; optional weights. Parameters: (dims, dtype)."""
