"""Definitions of the functions that take, or replace, a part of an array."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from tests.lax.definitions.registry import axes_of, axis_of, defines, filled, need, one_dtype


def _is_integer(x: Any) -> bool:
    return np.ndim(x) == 0 and np.asarray(x).dtype.kind in "iu"


@defines("slice")
def slice(x: Any, start_indices: Any, limit_indices: Any, strides: Any = None) -> Any:
    strides = [1] * x.ndim if strides is None else strides
    need(len(start_indices) == len(limit_indices) == len(strides) == x.ndim)
    places = []
    for n, start, limit, stride in zip(x.shape, start_indices, limit_indices, strides, strict=True):
        need(0 <= start <= limit <= n and stride >= 1)
        places.append([*range(start, limit, stride)])
    return x[np.ix_(*places)] if places else x


@defines("slice_in_dim")
def slice_in_dim(x: Any, start_index: Any, limit_index: Any, stride: int = 1, axis: int = 0) -> Any:
    at = axis_of(axis, x.ndim)
    starts, limits, strides = [0] * x.ndim, [*x.shape], [1] * x.ndim
    if start_index is not None:
        starts[at] = start_index + (x.shape[at] if start_index < 0 else 0)
    if limit_index is not None:
        limits[at] = limit_index + (x.shape[at] if limit_index < 0 else 0)
    strides[at] = stride
    return slice(x, starts, limits, strides)


@defines("index_in_dim")
def index_in_dim(x: Any, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    at = axis_of(axis, x.ndim)
    need(_is_integer(index), "ArgumentTypeError")
    need(-x.shape[at] <= index < x.shape[at])
    part = np.moveaxis(x, at, 0)[int(index)]
    return np.expand_dims(part, at) if keepdims else part


@defines("index_take")
def index_take(x: Any, idxs: Any, axes: Any) -> Any:
    places = axes_of(axes, x.ndim)
    need(len(idxs) == len(places))
    rest = [n for at, n in enumerate(x.shape) if at not in places]
    made = np.zeros((len(idxs[0]), *rest), x.dtype)
    for number in range(len(idxs[0])):
        index: list[Any] = [builtins.slice(None)] * x.ndim
        for place, positions in zip(places, idxs, strict=True):
            index[place] = int(positions[number]) % x.shape[place]
        made[number] = x[tuple(index)]
    return made


def _starts(starts: Any, sizes: Any, shape: Any) -> list[int]:
    """Return where a window begins: moved until it is within the array."""
    need(len(starts) == len(sizes) == len(shape))
    need(all(map(_is_integer, starts)), "ArgumentTypeError")
    need(all(0 <= size <= n for size, n in zip(sizes, shape, strict=True)))
    within = []
    for start, size, n in zip(starts, sizes, shape, strict=True):
        start = int(start) + (n if start < 0 else 0)
        within.append(min(max(start, 0), n - size))
    return within


@defines("dynamic_slice")
def dynamic_slice(x: Any, start_indices: Any, slice_sizes: Any) -> Any:
    starts = _starts(start_indices, slice_sizes, x.shape)

    def element(index: Any) -> Any:
        return x[tuple(start + i for start, i in zip(starts, index, strict=True))]

    return filled(slice_sizes, x.dtype, element)


@defines("dynamic_slice_in_dim")
def dynamic_slice_in_dim(x: Any, start_index: Any, slice_size: int, axis: int = 0) -> Any:
    at = axis_of(axis, x.ndim)
    starts: list[Any] = [0] * x.ndim
    sizes = [*x.shape]
    starts[at], sizes[at] = start_index, slice_size
    return dynamic_slice(x, starts, sizes)


@defines("dynamic_index_in_dim")
def dynamic_index_in_dim(x: Any, index: Any, axis: int = 0, keepdims: bool = True) -> Any:
    part = dynamic_slice_in_dim(x, index, 1, axis)
    return part if keepdims else part.squeeze(axis)


@defines("dynamic_update_slice")
def dynamic_update_slice(x: Any, update: Any, start_indices: Any) -> Any:
    x, update = one_dtype(x, update)
    need(update.ndim == x.ndim)
    starts = _starts(start_indices, update.shape, x.shape)
    made = x.copy()
    for index in np.ndindex(*update.shape):
        made[tuple(start + i for start, i in zip(starts, index, strict=True))] = update[index]
    return made


@defines("dynamic_update_slice_in_dim")
def dynamic_update_slice_in_dim(x: Any, update: Any, start_index: Any, axis: int) -> Any:
    starts: list[Any] = [0] * x.ndim
    starts[axis_of(axis, x.ndim)] = start_index
    return dynamic_update_slice(x, update, starts)


@defines("dynamic_update_index_in_dim")
def dynamic_update_index_in_dim(x: Any, update: Any, index: Any, axis: int) -> Any:
    x, update = one_dtype(x, update)
    at = axis_of(axis, x.ndim)
    if update.ndim != x.ndim:
        update = np.expand_dims(update, at)
    return dynamic_update_slice_in_dim(x, update, index, at)
