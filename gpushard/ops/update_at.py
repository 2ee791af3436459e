"""Local updates at positions, some of which may be the same, in NumPy's order.

NumPy's `ufunc.at` and assignment do that by themselves. CuPy does not say which of several values
wins, and has `ufunc.at` for few ufuncs and types. There, positions are sorted; values of the same
position are combined by a segmented scan (Hillis and Steele, 1986) in log2(n) steps, and their last
one is written. No step waits for the device. Results differ from NumPy's by rounding only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.typing import LocalArray, Shape

_BASE: dict[np.ufunc, np.ufunc] = {
    np.subtract: np.add,
    np.divide: np.multiply,
    np.power: np.multiply,
}
"""How values that go to the same position come together, where that is not the ufunc itself."""


def update_at(
    xp: Any,
    view: LocalArray,
    index: Sequence[Any],
    values: LocalArray,
    ufunc: np.ufunc | None,
    room: int,
) -> None:
    """Combine elements with values, one after the other; without a ufunc the last one stays.

    Positions are in bounds, and none counts from the end.
    """
    if xp is np:
        _update_on_host(view, index, values, ufunc)
        return
    keys, places, values = _sorted(xp, view, index, values, room)
    if ufunc is None:
        view[places] = values
        return
    base = getattr(xp, _BASE.get(ufunc, ufunc).__name__)
    before = (slice(None),) * _lead(index)
    width = (1,) * (values.ndim - len(before) - 1)
    step = 1
    while step < len(keys):
        same = (keys[step:] == keys[:-step]).reshape(-1, *width)
        later = values[(*before, slice(step, None))]
        both = base(values[(*before, slice(None, -step))], later)
        first = values[(*before, slice(None, step))]
        values = xp.concatenate([first, xp.where(same, both, later)], axis=len(before))
        step *= 2
    view[places] = getattr(xp, ufunc.__name__)(view[places], values)


def _update_on_host(
    view: LocalArray, index: Sequence[Any], values: LocalArray, ufunc: np.ufunc | None
) -> None:
    if ufunc is None:
        view[tuple(index)] = values
        return
    rounds = _rounds(view, index)
    if rounds is None:
        # NumPy 2.4 reads beyond the end of values of fewer dims than the index arrays have
        ufunc.at(view, tuple(index), np.broadcast_to(values, _part_shape(view, index)))
        return
    lead = _lead(index)
    for mine in rounds:
        at = (*index[:lead], *(one[mine] for one in index[lead:]))
        new = values if values.shape[lead] == 1 else values[(*at[:lead], mine)]
        view[at] = ufunc(view[at], new)


_WIDE = 16  # so many elements at each position are combined faster by a ufunc than by its `at`
_MANY = 1 << 12  # there have to be so many elements in all for that
_ROUNDS = 16  # a position may be there so often for that


def _rounds(view: LocalArray, index: Sequence[Any]) -> list[LocalArray] | None:
    """Group updates so that a group has each position once, in order; NumPy only.

    None if updates are of few elements, or positions are there often.
    """
    lead = _lead(index)
    own = math.prod(view.shape[:lead]) * math.prod(view.shape[len(index) :])
    if own < _WIDE or own * index[lead].size < _MANY or index[lead].ndim != 1:
        return None
    keys: Any = 0
    for at, size in zip(index[lead:], view.shape[lead : len(index)], strict=True):
        keys = keys * size + at
    order = keys.argsort(kind="stable")
    keys = keys[order]
    first = np.ones(len(keys), bool)
    first[1:] = keys[1:] != keys[:-1]
    starts = np.flatnonzero(first)
    number = np.arange(len(keys)) - starts[np.cumsum(first) - 1]
    times = int(number.max()) + 1
    return None if times > _ROUNDS else [order[number == n] for n in range(times)]


def _lead(index: Sequence[Any]) -> int:
    return sum(isinstance(entry, slice) for entry in index)


def _part_shape(view: LocalArray, index: Sequence[Any]) -> Shape:
    lead = _lead(index)
    wide = np.broadcast_shapes(*(at.shape for at in index[lead:]))
    return (*view.shape[:lead], *wide, *view.shape[len(index) :])


def _sorted(
    xp: Any, view: LocalArray, index: Sequence[Any], values: LocalArray, room: int
) -> tuple[LocalArray, tuple[Any, ...], LocalArray]:
    """Return updates in the order of their positions: a number for each, the index, the values.

    The index sends all but the last of each position to the room.
    """
    lead = _lead(index)
    arrays = xp.broadcast_arrays(*index[lead:])
    sizes = view.shape[lead : len(index)]
    keys = xp.zeros(arrays[0].size, np.int64)
    for at, size in zip(arrays, sizes, strict=True):
        keys = keys * size + at.ravel()
    order = xp.argsort(keys, kind="stable")
    keys = keys[order]
    last = xp.ones(keys.shape, bool)
    last[:-1] = keys[1:] != keys[:-1]
    places = [at.ravel()[order] for at in arrays]
    places[room - lead] = xp.where(last, places[room - lead], view.shape[room] - 1)
    flat = (*view.shape[:lead], keys.size, *view.shape[len(index) :])
    values = xp.broadcast_to(values, _part_shape(view, index)).reshape(flat)
    return keys, (*index[:lead], *places), values[(*index[:lead], order)]
