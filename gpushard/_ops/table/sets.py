"""The distinct elements of an array, their first positions, inverse and counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._frozen import dataclass
from gpushard._ops.aval import Aval
from gpushard._ops.narrow_floats import in_single
from gpushard._ops.programs.local import Local
from gpushard._ops.row import Kernel, Params, Row
from gpushard._ops.rule import Rule
from gpushard._ops.table.elementwise import writing
from gpushard._ops.table.sorting import INDEX, argsort, lexsort, sort
from gpushard._typing import LocalArray
from gpushard.errors import ArgumentError

INDICES, INVERSE, COUNTS = "indices", "inverse", "counts"


@dataclass(frozen=True)
class Wish:
    """The parameter of `UNIQUE`."""

    parts: tuple[str, ...] = ()  # more results: "indices", "inverse", "counts"
    equal_nan: bool = True  # whether NaNs are one element
    distinct: bool = False  # whether all elements are known to differ; then they stay in order
    size: int | None = None  # the number of results; None for the most possible
    # Whether a second operand says which elements count, equally for equal elements.
    masked: bool = False
    # Whether a last operand fills missing places; else the first element does, or 0 if no element
    # counts.
    filled: bool = False
    beyond: bool = False  # whether missing places have the length as index


def _infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    (wish,) = params
    shape, dtype = avals[0].shape, avals[0].dtype
    count = shape[0] if wish.size is None else wish.size
    if count and not shape[0] and not wish.filled:
        raise ArgumentError(
            f"unique: size={count} of an array without elements; give fill_value=, too",
            argument="fill_value",
            size=count,
        )
    rest = [Aval((shape[0] if part == INVERSE else count,), INDEX) for part in wish.parts]
    return (Aval((count, *shape[1:]), dtype), *rest, Aval((), INDEX))


def _rule(avals: Sequence[Aval], params: Params) -> Rule:
    (wish,) = params
    lone, rows = (0,), (0, 1)
    dims = rows if len(avals[0].shape) == 2 else lone
    operands = (dims, *[lone] * wish.masked, *[()] * wish.filled)
    results = (dims, *[lone] * len(wish.parts), ())
    return Rule(operands, results, avals[0].shape, frozenset(dims))


def _sort_positions(xp: Any, x: LocalArray, wish: Wish) -> LocalArray:
    """Sort the positions of elements, or of rows in lexicographic order."""
    if wish.distinct or 0 in x.shape:
        return xp.arange(len(x))
    return argsort(xp, x) if x.ndim == 1 else lexsort(xp, x.T[::-1])


def _differs(xp: Any, before: LocalArray, after: LocalArray, wish: Wish) -> LocalArray:
    if wish.distinct:
        return xp.ones(len(after), bool)
    differs = before != after
    if wish.equal_nan and after.dtype.kind not in "biu":
        differs &= ~(xp.isnan(before) & xp.isnan(after))
    return differs if differs.ndim == 1 else differs.any(axis=1)


def _firsts(xp: Any, ordered: LocalArray, wish: Wish) -> LocalArray:
    """Test which sorted elements differ from the one before."""
    first: LocalArray = xp.ones(len(ordered), bool)
    first[1:] = _differs(xp, ordered[:-1], ordered[1:], wish)
    return first


def _number_elements(
    xp: Any, x: LocalArray, mask: LocalArray | None, wish: Wish
) -> tuple[LocalArray, LocalArray]:
    """Return sorted positions, and the number of each element among the distinct ones.

    Elements that do not count have the number of the element before, -1 for the first.
    """
    order = _sort_positions(xp, x, wish)
    first = _firsts(xp, x[order], wish)
    if mask is not None:
        first &= mask[order]
    return order, xp.cumsum(first, dtype=INDEX) - 1


def _kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    (wish,) = params
    size = avals[0].shape[0] if wish.size is None else wish.size

    def unique(x: LocalArray, *more: Any) -> tuple[LocalArray, ...]:
        fill = more[-1] if wish.filled else None
        if not len(x):
            return _of_nothing(xp, x, size, fill, wish)
        positions = wish.distinct or wish.masked or set(wish.parts) - {COUNTS}
        if xp is np and x.ndim == 1 and not positions:
            return _by_value(x, size, fill, wish)
        order, number = _number_elements(xp, x, more[0] if wish.masked else None, wish)
        starts = _starts(xp, number, size + 1)
        at, ends = starts[:-1], starts[1:]
        is_valid = xp.arange(size) <= number[-1]
        lengths = xp.where(is_valid, ends - at, 0)
        at = xp.where(is_valid, at, xp.minimum(at[:1], len(x) - 1))
        values = x[order[at]]
        if fill is not None:
            fits = is_valid if x.ndim == 1 else is_valid[:, None]
            values = xp.where(fits, values, fill).astype(x.dtype, copy=False)
        elif wish.masked:
            values = xp.where(is_valid[:1], values, x.dtype.type(0))
        rest = [_part(xp, part, order, number, at, lengths) for part in wish.parts]
        if wish.beyond and INDICES in wish.parts:
            indices = wish.parts.index(INDICES)
            rest[indices] = xp.where(is_valid, rest[indices], len(x))
        return (values, *rest, number[-1] + 1)

    return writing(unique)


def _by_value(x: LocalArray, size: int, fill: Any, wish: Wish) -> tuple[LocalArray, ...]:
    """Compute distinct values on the host, their counts if needed, and their number."""
    ordered = sort(np, x, -1, True)
    at = np.flatnonzero(_firsts(np, ordered, wish))
    values = np.full(size, ordered[0] if fill is None else fill, x.dtype)
    values[: len(at)] = ordered[at[:size]]
    counts = np.zeros(size, INDEX)
    counts[: len(at)] = np.diff(at, append=len(x))[:size]
    return (values, *[counts] * len(wish.parts), np.asarray(len(at), INDEX))


def _starts(xp: Any, number: LocalArray, size: int) -> LocalArray:
    """Return the start of each of the first numbers; missing numbers start at the end.

    Numbers ascend, so a search finds them, and the host need not know their count.
    """
    if xp is not np:
        return xp.searchsorted(number, xp.arange(size))
    starts = np.full(size, len(number))
    first = np.flatnonzero(np.diff(number, prepend=-1))
    starts[: len(first)] = first[:size]
    return starts


def _part(
    xp: Any, part: str, order: LocalArray, number: LocalArray, at: LocalArray, lengths: LocalArray
) -> LocalArray:
    """Compute one of the additional results."""
    if part == INDICES:
        return order[at]
    if part == COUNTS:
        return lengths
    inverse = xp.empty(len(order), INDEX)
    inverse[order] = number
    return inverse


def _of_nothing(xp: Any, x: LocalArray, size: int, fill: Any, wish: Wish) -> tuple[LocalArray, ...]:
    values = xp.zeros((size, *x.shape[1:]), x.dtype)
    if fill is not None:
        values[...] = fill
    rest = [xp.zeros(0 if part == INVERSE else size, INDEX) for part in wish.parts]
    return (values, *rest, xp.zeros((), INDEX))


UNIQUE = in_single(
    Row(
        "unique",
        _infer,
        _rule,
        _kernel,
        (Local("equal elements may lie anywhere; they are found by sorting all"),),
        each="how many are equal differs between elements, and so where they go",
    )
)
"""Operands: a vector, or a matrix with rows as elements; optionally which elements count, and the
fill value. Results: sorted values, additional results, and the number of values. Missing places
have
the fill value, the position of the first element or the length, and a count of 0. Parameters:
(wish,)."""
