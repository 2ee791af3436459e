"""Definitions of `gather` and `scatter`: a loop over all windows, as XLA's specification has it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.lax.definitions.registry import defines, need, need_kind, one_dtype

CLIP, FILL = "clip", "fill"


def _mode(mode: Any, default: str) -> str:
    """Return what happens beyond the array; "promise_in_bounds" has nothing there."""
    name = getattr(mode, "name", mode)
    if name is None:
        return default
    words = {
        "clip": CLIP, "promise_in_bounds": CLIP, "fill": FILL, "drop": FILL, "CLIP": CLIP,
        "PROMISE_IN_BOUNDS": CLIP, "FILL_OR_DROP": FILL, "ONE_HOT": FILL,
    }  # fmt: skip
    need(name in words)
    return words[name]


def _windows(
    shape: Any, indices: Any, numbers: Any, sizes: Any, mode: str
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...] | None]]:
    """Give each place of the windows, and that of the operand; None where it is beyond."""
    offset, collapsed, start_map, own_batch, index_batch = numbers
    batch = indices.shape[:-1]
    ndim = len(batch) + len(offset)
    outer = [at for at in range(ndim) if at not in offset]
    windowed = [at for at in range(len(shape)) if at not in {*collapsed, *own_batch}]
    need(len(outer) == len(batch) and len(windowed) == len(offset))
    need(indices.shape[-1] == len(start_map))
    need(len(sizes) == len(shape))
    need(all(0 <= size <= n for size, n in zip(sizes, shape, strict=True)))
    for group in np.ndindex(*batch):
        starts = [0] * len(shape)
        for number, at in enumerate(start_map):
            starts[at] = int(indices[(*group, number)])
        for at, of in zip(own_batch, index_batch, strict=True):
            starts[at] = group[of]
        last = [n - size for n, size in zip(shape, sizes, strict=True)]
        beyond = any(not 0 <= start <= end for start, end in zip(starts, last, strict=True))
        if mode == CLIP:
            starts = [min(max(start, 0), end) for start, end in zip(starts, last, strict=True)]
            beyond = False
        for window in np.ndindex(*[sizes[at] for at in windowed]):
            place = [0] * ndim
            for at, i in zip(outer, group, strict=True):
                place[at] = i
            source = list(starts)
            for at, to, i in zip(windowed, sorted(offset), window, strict=True):
                place[to] = i
                source[at] += i
            yield tuple(place), None if beyond else tuple(source)


def _shape(indices: Any, numbers: Any, sizes: Any, ndim: int) -> list[int]:
    """Return the shape of all windows."""
    offset, collapsed, _, own_batch, _ = numbers
    kept = iter([sizes[at] for at in range(ndim) if at not in {*collapsed, *own_batch}])
    batch = iter(indices.shape[:-1])
    return [
        next(kept) if at in offset else next(batch) for at in range(indices.ndim - 1 + len(offset))
    ]


def _fill_of(dtype: Any, value: Any) -> Any:
    if value is not None:
        return value
    if dtype.kind in "fc":
        return math.nan
    return {"b": True}.get(dtype.kind) or (
        np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max
    )


@defines("gather")
def gather(
    x: Any, indices: Any, numbers: Any, sizes: Any, mode: Any = None, fill_value: Any = None
) -> Any:
    need_kind(indices, "iu")
    windows = [*_windows(x.shape, indices, numbers, sizes, _mode(mode, CLIP))]
    made = np.full(_shape(indices, numbers, sizes, x.ndim), _fill_of(x.dtype, fill_value), x.dtype)
    for place, source in windows:
        if source is not None:
            made[place] = x[source]
    return made


def _changed(
    x: Any, indices: Any, shape: Any, numbers: Any, mode: Any, change: Callable[[Any, Any], Any]
) -> Any:
    """Return an array with elements changed, by what they were and the place among the updates."""
    need_kind(indices, "iu")
    how = _mode(mode, FILL)
    gone = {*numbers[1], *numbers[3]}
    lengths = iter([shape[at] for at in sorted(numbers[0])])
    sizes = [1 if at in gone else next(lengths) for at in range(x.ndim)]
    windows = [*_windows(x.shape, indices, numbers, sizes, how)]
    need(tuple(shape) == tuple(_shape(indices, numbers, sizes, x.ndim)))
    made = x.copy()
    for place, target in windows:
        if target is not None:
            made[target] = change(made[target], place)
    return made


def _define(name: str, combine: Callable[[Any, Any], Any]) -> None:
    def scatter(x: Any, indices: Any, updates: Any, numbers: Any, mode: Any = None) -> Any:
        x, updates = one_dtype(x, updates)
        return _changed(
            x, indices, updates.shape, numbers, mode, lambda old, at: combine(old, updates[at])
        )

    defines(name)(scatter)


_define("scatter", lambda _, new: new)
_define("scatter_add", lambda old, new: old + new)
_define("scatter_sub", lambda old, new: old - new)
_define("scatter_mul", lambda old, new: old * new)
_define("scatter_min", lambda old, new: old if old != old or old < new else new)
_define("scatter_max", lambda old, new: old if old != old or old > new else new)


@defines("scatter_apply")
def scatter_apply(
    x: Any, indices: Any, func: Any, numbers: Any, update_shape: Any = (), mode: Any = None
) -> Any:
    return _changed(x, indices, update_shape, numbers, mode, lambda old, _: func(old))
