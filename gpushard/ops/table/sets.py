"""The different elements of an array, where they are first, which each is, and how many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.errors import ArgumentError
from gpushard.frozen import dataclass
from gpushard.ops.aval import Aval
from gpushard.ops.narrow import in_single
from gpushard.ops.programs.local import Local
from gpushard.ops.row import Kernel, Params, Row
from gpushard.ops.rule import Rule
from gpushard.ops.table.elementwise import writing
from gpushard.ops.table.sorting import INDEX, argsort, lexsort, sort
from gpushard.typing import LocalArray

INDICES, INVERSE, COUNTS = "indices", "inverse", "counts"


@dataclass(frozen=True)
class Wish:
    """The parameter of `UNIQUE`."""

    parts: tuple[str, ...] = ()  # what is wanted beside the values: "indices", "inverse", "counts"
    equal_nan: bool = True  # whether NaNs are one element
    distinct: bool = False  # whether all elements are known to differ; then they stay in order
    size: int | None = None  # how many there shall be; None for as many as could be
    # Whether a second operand says which elements count: of equal ones all or none.
    masked: bool = False
    # Whether a last operand fills places without an element; else the first element does, or 0 if
    # no element counts.
    filled: bool = False
    beyond: bool = False  # whether indices of such places are the length, not the first element's


def _infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    (wish,) = params
    shape, dtype = avals[0].shape, avals[0].dtype
    many = shape[0] if wish.size is None else wish.size
    if many and not shape[0] and not wish.filled:
        raise ArgumentError(
            f"unique: size={many} of an array without elements; give fill_value=, too",
            argument="fill_value",
            size=many,
        )
    rest = [Aval((shape[0] if part == INVERSE else many,), INDEX) for part in wish.parts]
    return (Aval((many, *shape[1:]), dtype), *rest, Aval((), INDEX))


def _rule(avals: Sequence[Aval], params: Params) -> Rule:
    (wish,) = params
    lone, rows = (0,), (0, 1)
    dims = rows if len(avals[0].shape) == 2 else lone
    operands = (dims, *[lone] * wish.masked, *[()] * wish.filled)
    results = (dims, *[lone] * len(wish.parts), ())
    return Rule(operands, results, avals[0].shape, frozenset(dims))


def _ordered(xp: Any, x: LocalArray, wish: Wish) -> LocalArray:
    """Return positions in the order of elements, or of rows by their first column, and so on."""
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
    """Return which elements in order differ from the one before."""
    first: LocalArray = xp.ones(len(ordered), bool)
    first[1:] = _differs(xp, ordered[:-1], ordered[1:], wish)
    return first


def _numbered(
    xp: Any, x: LocalArray, mask: LocalArray | None, wish: Wish
) -> tuple[LocalArray, LocalArray]:
    """Return positions in the order of elements, and there the number of each among different ones.

    Elements that do not count have the number before theirs, -1 for the first.
    """
    order = _ordered(xp, x, wish)
    first = _firsts(xp, x[order], wish)
    if mask is not None:
        first &= mask[order]
    return order, xp.cumsum(first, dtype=INDEX) - 1


def _kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    (wish,) = params
    many = avals[0].shape[0] if wish.size is None else wish.size

    def unique(x: LocalArray, *more: Any) -> tuple[LocalArray, ...]:
        fill = more[-1] if wish.filled else None
        if not len(x):
            return _of_nothing(xp, x, many, fill, wish)
        positions = wish.distinct or wish.masked or set(wish.parts) - {COUNTS}
        if xp is np and x.ndim == 1 and not positions:
            return _by_value(x, many, fill, wish)
        order, number = _numbered(xp, x, more[0] if wish.masked else None, wish)
        starts = _starts(xp, number, many + 1)
        at, ends = starts[:-1], starts[1:]
        there = xp.arange(many) <= number[-1]
        lengths = xp.where(there, ends - at, 0)
        at = xp.where(there, at, xp.minimum(at[:1], len(x) - 1))
        values = x[order[at]]
        if fill is not None:
            fits = there if x.ndim == 1 else there[:, None]
            values = xp.where(fits, values, fill).astype(x.dtype, copy=False)
        elif wish.masked:
            values = xp.where(there[:1], values, x.dtype.type(0))
        rest = [_part(xp, part, order, number, at, lengths) for part in wish.parts]
        if wish.beyond and INDICES in wish.parts:
            indices = wish.parts.index(INDICES)
            rest[indices] = xp.where(there, rest[indices], len(x))
        return (values, *rest, number[-1] + 1)

    return writing(unique)


def _by_value(x: LocalArray, many: int, fill: Any, wish: Wish) -> tuple[LocalArray, ...]:
    """Return values, on the host, how often each is there if that is wanted, and how many."""
    ordered = sort(np, x, -1, True)
    at = np.flatnonzero(_firsts(np, ordered, wish))
    values = np.full(many, ordered[0] if fill is None else fill, x.dtype)
    values[: len(at)] = ordered[at[:many]]
    counts = np.zeros(many, INDEX)
    counts[: len(at)] = np.diff(at, append=len(x))[:many]
    return (values, *[counts] * len(wish.parts), np.asarray(len(at), INDEX))


def _starts(xp: Any, number: LocalArray, many: int) -> LocalArray:
    """Return where each of the first numbers starts; one that is not there would start at the end.

    Numbers ascend, so a search finds them, and the host need not know how many there are.
    """
    if xp is not np:
        return xp.searchsorted(number, xp.arange(many))
    starts = np.full(many, len(number))
    found = np.flatnonzero(np.diff(number, prepend=-1))
    starts[: len(found)] = found[:many]
    return starts


def _part(
    xp: Any, part: str, order: LocalArray, number: LocalArray, at: LocalArray, lengths: LocalArray
) -> LocalArray:
    """Return one of the results that are wanted beside the values."""
    if part == INDICES:
        return order[at]
    if part == COUNTS:
        return lengths
    inverse = xp.empty(len(order), INDEX)
    inverse[order] = number
    return inverse


def _of_nothing(xp: Any, x: LocalArray, many: int, fill: Any, wish: Wish) -> tuple[LocalArray, ...]:
    values = xp.zeros((many, *x.shape[1:]), x.dtype)
    if fill is not None:
        values[...] = fill
    rest = [xp.zeros(0 if part == INVERSE else many, INDEX) for part in wish.parts]
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
"""Operands: a vector, or a matrix whose rows are the elements; maybe which elements count, and what
fills. Results: values in order, what else is wanted, and how many there are; places beyond hold the
filling, the position of the first element or the length, and 0 of it. Parameters: (wish,)."""
