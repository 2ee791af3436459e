"""Positions in sorted arrays, and membership.

The searched array may be split. A position is the sum of the positions in its parts, and a member
of a part is a member of the whole. So neither operand has to be whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.narrow_floats import in_single
from gpushard._ops.programs.local import Local
from gpushard._ops.programs.reduce import Reduce
from gpushard._ops.row import Kernel, Params, Row, beside_others, by_factors
from gpushard._ops.rule import Rule
from gpushard._ops.searchsorted import search
from gpushard._ops.table.elementwise import writing
from gpushard._ops.table.sorting import INDEX
from gpushard._typing import LocalArray
from gpushard.dtypes import result_type
from gpushard.errors import ArgumentError, ArgumentTypeError

_BOOL = np.dtype(bool)


def _common(avals: Sequence[Aval]) -> Dtype:
    """Return the type in which elements are compared; Python numbers have NumPy's types."""
    return result_type(avals[0].dtype, avals[1].dtype)


def _dims(avals: Sequence[Aval], n_results: int, *, whole: bool = False) -> Rule:
    """Return the rule: the dims of one operand pass through, the dim of the other is reduced."""
    shape = avals[n_results].shape
    dims_of_x = tuple(range(len(shape)))
    other = len(shape)
    operands = tuple(dims_of_x if n == n_results else (other,) for n in range(len(avals)))
    size = avals[1 - n_results].shape[0]
    return Rule(operands, (dims_of_x,), (*shape, size), frozenset({other} if whole else ()))


def _check_search(avals: Sequence[Aval]) -> None:
    sorted_shape = avals[0].shape
    if len(sorted_shape) != 1:
        raise ArgumentError(
            f"searchsorted: x1 of shape {sorted_shape} must be 1-dimensional; search in each row",
            argument="x1",
            shape=sorted_shape,
        )
    for sorter in avals[2:]:
        if sorter.shape != sorted_shape:
            raise ArgumentError(
                f"searchsorted: sorter has shape {sorter.shape} and x1 {sorted_shape}; give "
                "sorter=argsort(x1)",
                argument="sorter",
                shape=sorter.shape,
                expected=sorted_shape,
            )
        if sorter.dtype.kind not in "iu":
            raise ArgumentTypeError(
                f"searchsorted: sorter has dtype {sorter.dtype}; give integers, as argsort does",
                argument="sorter",
                dtype=sorter.dtype,
            )


def _infer_search(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    _check_search(avals)
    return (Aval(avals[1].shape, INDEX),)


def _search_kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    (side,) = params
    dtype = _common(avals)

    def find(x1: LocalArray, x2: LocalArray, *sorter: LocalArray, out: Any = None) -> LocalArray:
        if sorter:
            x1 = x1[sorter[0]]
        x1, x2 = (x.astype(dtype, copy=False) for x in (x1, x2))
        places: LocalArray = search(xp, x1, x2, side, out)
        return places

    return find


SEARCHSORTED = in_single(
    Row(
        "searchsorted",
        _infer_search,
        lambda avals, params: _dims(avals, 1, whole=len(avals) > 2),
        _search_kernel,
        (
            Reduce(
                lambda avals, params: (INDEX,),
                _search_kernel,
                lambda xp, avals, params: lambda a, b, m, n: (a[0] + b[0],),
                lambda xp, avals, params: lambda state, n: state[0],
            ),
            Local("a sorter takes elements from everywhere"),
        ),
        stacked=beside_others(1),
        each="NumPy looks up in one vector",
    )
)
"""Operands: the sorted array, the values, and optionally the sorter of the first, which must be
whole then. Parameters: (side,)."""


def _isin_rule(avals: Sequence[Aval], params: Params) -> Rule:
    return _dims(avals, 0)


def _isin_local(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    dtype = _common(avals)

    def isin(x: LocalArray, members: LocalArray) -> LocalArray:
        x, members = (each.astype(dtype, copy=False) for each in (x, members))
        if not math.prod(members.shape):
            return xp.zeros(x.shape, bool)
        if xp is np and members.size <= _FEW:
            return _is_one_of(x, members)
        if xp is np and _are_near(x, members):
            return np.isin(x, members, kind="table")
        members = xp.sort(members)
        at = search(xp, members, x, "left")
        return members[xp.minimum(at, members.size - 1)] == x

    return writing(isin)


_FEW = 16  # fewer members are compared with all elements one by one, on the host


def _is_one_of(x: LocalArray, members: LocalArray) -> LocalArray:
    same: LocalArray = x == members[0]
    for member in members[1:]:
        same |= x == member
    return same


def _are_near(x: LocalArray, members: LocalArray) -> bool:
    """Test whether a table of all numbers between members is small compared with the arrays."""
    if members.dtype.kind not in "biu":
        return False
    apart = int(members.max()) - int(members.min())
    most = (
        1 if members.dtype == np.bool_ else np.iinfo(members.dtype).max
    )  # the largest that NumPy counts
    return bool(apart < min(x.size + members.size, most + 1))


def _isin_kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    local, (invert,) = _isin_local(xp, avals, params), params
    return writing(lambda x, members: local(x, members) ^ invert)


ISIN = in_single(
    Row(
        "isin",
        by_factors(_isin_rule, lambda avals, params: _BOOL),
        _isin_rule,
        _isin_kernel,
        (
            Reduce(
                lambda avals, params: (_BOOL,),
                _isin_local,
                lambda xp, avals, params: lambda a, b, m, n: (a[0] | b[0],),
                lambda xp, avals, params: lambda state, n: state[0] ^ params[0],
            ),
            Local(),
        ),
        stacked=beside_others(0),
        each="NumPy looks up in one vector",
    )
)
"""Operands: elements, and a vector of members. Parameters: (whether to invert the result,)."""
