"""Update local arrays at positions, which may repeat, in NumPy's order.

NumPy's `ufunc.at` and assignment do that. In CuPy it is undefined which of several values wins, and
few ufuncs and types have `ufunc.at`. So on GPUs positions are sorted. A segmented scan (Hillis and
Steele, 1986) combines the values of each position in log2(n) steps, and the last one is written. No
step waits for the device. Results differ from NumPy's only by rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._typing import LocalArray, Shape

_BASE: dict[np.ufunc, np.ufunc] = {
    np.subtract: np.add,
    np.divide: np.multiply,
    np.power: np.multiply,
}
"""The ufunc that combines values of one position, if it is not the ufunc itself."""


def update_at(
    xp: Any,
    view: LocalArray,
    index: Sequence[Any],
    values: LocalArray,
    ufunc: np.ufunc | None,
    room: int,
) -> None:
    """Combine elements with values, one after the other; without a ufunc the last value stays.

    Positions are in bounds and count from the front.
    """
    if xp is np:
        _update_on_host(view, index, values, ufunc)
        return
    keys, places, values = _sort_updates(xp, view, index, values, room)
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
        # NumPy 2.4 reads beyond the end of values with fewer dims than the index arrays
        ufunc.at(view, tuple(index), np.broadcast_to(values, _part_shape(view, index)))
        return
    lead = _lead(index)
    for mine in rounds:
        at = (*index[:lead], *(positions[mine] for positions in index[lead:]))
        new = values if values.shape[lead] == 1 else values[(*at[:lead], mine)]
        view[at] = ufunc(view[at], new)


_WIDE = 16  # with so many elements at each position, a ufunc is faster than its `at`
_MANY = 1 << 12  # if there are so many elements in total
_ROUNDS = 16  # and a position repeats at most so often


def _rounds(view: LocalArray, index: Sequence[Any]) -> list[LocalArray] | None:
    """Group updates so that each group has each position once, in order; NumPy only.

    None if updates have few elements, or positions repeat often.
    """
    lead = _lead(index)
    row_size = math.prod(view.shape[:lead]) * math.prod(view.shape[len(index) :])
    if row_size < _WIDE or row_size * index[lead].size < _MANY or index[lead].ndim != 1:
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


def _sort_updates(
    xp: Any, view: LocalArray, index: Sequence[Any], values: LocalArray, room: int
) -> tuple[LocalArray, tuple[Any, ...], LocalArray]:
    """Sort updates by position: return the position numbers, the index and the values.

    The index sends all updates except the last of each position to the room.
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
