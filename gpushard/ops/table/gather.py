"""Reading by index arrays: `x[i]`, `take`, `take_along_axis`.

Neither the array nor the result is gathered where indexed dims are split: every block gives the
elements that lie in it, and the merge takes whichever was found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard.ops.aval import Aval, Dtype
from gpushard.ops.indexed import Indexed, gather_rule, located, part_shape
from gpushard.ops.row import Kernel, Params, Reduction, Row, Site, State
from gpushard.ops.rule import Rule
from gpushard.ops.table.elementwise import writing
from gpushard.typing import LocalArray, Shape


def _shapes(avals: Sequence[Aval]) -> tuple[Shape, ...]:
    return tuple(aval.shape for aval in avals[1:])


def _infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    x = avals[0]
    return (Aval(part_shape(params[0], x.shape, _shapes(avals)), x.dtype, x.weak),)


def _rule(avals: Sequence[Aval], params: Params) -> Rule:
    return gather_rule(params[0], avals[0].shape, _shapes(avals))


def _taken(xp: Any, indexed: Indexed, x: LocalArray, positions: Sequence[LocalArray]) -> Any:
    """Return what positions that are in bounds select, as a fresh array in row-major order."""
    view, index = indexed.view(xp, x, positions)
    found = view[index]
    scalar = all(at.ndim == 0 for at in positions) and not indexed.paired
    return found.copy() if scalar else xp.ascontiguousarray(found)


def _found(
    xp: Any, avals: Sequence[Aval], params: Params
) -> Callable[..., tuple[LocalArray, LocalArray]]:
    """Return what gives the elements that lie in a block, and which they are."""
    indexed, _ = params
    sizes = [avals[0].shape[axis] for axis in indexed.axes]

    def found(site: Site, x: LocalArray, *positions: LocalArray) -> tuple[Any, Any]:
        lengths = [x.shape[axis] for axis in indexed.axes]
        if 0 in lengths:
            return xp.zeros(site.shape, x.dtype), xp.zeros(site.shape, bool)
        places, inside = [], xp.ones((), bool)
        for axis, at, size, length in zip(indexed.axes, positions, sizes, lengths, strict=True):
            start = site.operands[0][axis]
            place, there = located(xp, at, size, start, length)
            places.append(place)
            inside = inside & there
        values = _taken(xp, indexed, x, places)
        inside = inside.reshape(inside.shape + (1,) * indexed.after)
        return values, xp.broadcast_to(inside, values.shape).copy()

    return found


def _local(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    return writing(_found(xp, avals, params))


def _fill(params: Params, dtype: Dtype) -> Any:
    return np.frombuffer(params[1], dtype)[0] if params[1] else dtype.type(0)


def _kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    """Return plain indexing, where everything is in bounds; what is not gets the fill value."""
    indexed, _ = params
    if indexed.inside:
        return writing(lambda site, x, *positions: _taken(xp, indexed, x, positions))
    found, fill = _found(xp, avals, params), _fill(params, avals[0].dtype)

    def filled(site: Site, *operands: Any) -> Any:
        values, inside = found(site, *operands)
        return xp.where(inside, values, fill)

    return writing(filled)


def _merge(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
    def merge(a: State, b: State, m: int, n: int) -> State:
        return xp.where(b[1], b[0], a[0]), a[1] | b[1]

    return merge


def _finish(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
    fill = _fill(params, avals[0].dtype)
    return lambda state, n: xp.where(state[1], state[0], fill)


def _states(avals: Sequence[Aval], params: Params) -> tuple[Dtype, ...]:
    return avals[0].dtype, np.dtype(bool)


GATHER = Row(
    "indexing",
    _infer,
    _rule,
    _kernel,
    Reduction(_states, _local, _merge, _finish),
    positional=True,
)
"""Operands: the array, then index arrays. Parameters: (`Indexed`, bytes of what positions out of
bounds give, zero if there are none)."""
