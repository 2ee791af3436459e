"""Definitions of the functions that move elements as wholes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from tests.lax.definitions.registry import (
    axes_of,
    axis_of,
    defines,
    filled,
    need,
    one_dtype,
    wrapped,
)


@defines("broadcast")
def broadcast(x: Any, sizes: Any) -> Any:
    need(all(n >= 0 for n in sizes))
    return filled((*sizes, *x.shape), x.dtype, lambda index: x[index[len(sizes) :]])


@defines("broadcast_in_dim")
def broadcast_in_dim(x: Any, shape: Any, broadcast_dimensions: Any) -> Any:
    need(len(broadcast_dimensions) == x.ndim)
    places = [axis_of(place, len(shape)) for place in broadcast_dimensions]
    need(all(a < b for a, b in itertools.pairwise(places)), "ArgumentError|AxisError")
    need(all(n in (1, shape[place]) for n, place in zip(x.shape, places, strict=True)))

    def element(index: Any) -> Any:
        own = tuple(0 if n == 1 else index[place] for n, place in zip(x.shape, places, strict=True))
        return x[own]

    return filled(shape, x.dtype, element)


@defines("broadcast_to_rank")
def broadcast_to_rank(x: Any, rank: int) -> Any:
    need(rank >= x.ndim)
    return x.reshape((1,) * (rank - x.ndim) + x.shape)


@defines("broadcast_shapes")
def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    ndim = max(map(len, shapes), default=0)
    whole = [(1,) * (ndim - len(shape)) + tuple(shape) for shape in shapes]
    columns = [{*column} - {1} for column in zip(*whole, strict=True)]
    need(all(len(column) <= 1 for column in columns))
    return tuple(min(column, default=1) for column in columns)


@defines("full")
def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    dtype = np.asarray(fill_value).dtype if dtype is None else np.dtype(dtype)
    shape = (shape,) if isinstance(shape, int) else shape
    return filled(shape, dtype, lambda _: fill_value)


@defines("full_like")
def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Any = None) -> Any:
    return full(x.shape if shape is None else shape, fill_value, dtype or x.dtype)


@defines("empty")
def empty(shape: Any, dtype: Any) -> Any:
    return full(shape, 0, dtype)


@defines("broadcasted_iota")
def broadcasted_iota(dtype: Any, shape: Any, dimension: int) -> Any:
    at, dtype = axis_of(dimension, len(shape)), np.dtype(dtype)
    need(dtype.kind != "b", "ArgumentTypeError")
    return filled(shape, dtype, lambda index: wrapped(index[at], dtype))


@defines("iota")
def iota(dtype: Any, size: int) -> Any:
    need(size >= 0)
    return broadcasted_iota(dtype, (size,), 0)


@defines("collapse")
def collapse(x: Any, start_dimension: int, stop_dimension: int | None = None) -> Any:
    numbers = [*range(x.ndim)][start_dimension:stop_dimension]
    first, end, _ = slice(start_dimension, stop_dimension).indices(x.ndim)
    need(first <= end)
    length = math.prod(x.shape[number] for number in numbers)
    return x.reshape((*x.shape[:first], length, *x.shape[end:]))


@defines("concatenate")
def concatenate(operands: Any, dimension: int) -> Any:
    need(operands)
    xs = one_dtype(*operands)
    need(len({x.ndim for x in xs}) == 1 and xs[0].ndim)
    at = axis_of(dimension, xs[0].ndim)
    need(len({(*x.shape[:at], *x.shape[at + 1 :]) for x in xs}) == 1)
    slabs = [slab for x in xs for slab in np.moveaxis(x, at, 0)]
    shape = list(xs[0].shape)
    shape[at] = len(slabs)
    made = np.zeros(shape, xs[0].dtype)
    for number, slab in enumerate(slabs):
        np.moveaxis(made, at, 0)[number] = slab
    return made


@defines("stack")
def stack(arrays: Any, axis: int = 0) -> Any:
    need(arrays)
    need(len({x.shape for x in arrays}) == 1)
    at = axis_of(axis, arrays[0].ndim + 1)
    shape = [*arrays[0].shape]
    shape.insert(at, len(arrays))
    return filled(
        shape, arrays[0].dtype, lambda index: arrays[index[at]][(*index[:at], *index[at + 1 :])]
    )


@defines("unstack")
def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    return tuple(np.moveaxis(x, axis_of(axis, x.ndim), 0))


@defines("expand_dims")
def expand_dims(x: Any, dimensions: Any) -> Any:
    ndim = x.ndim + len(dimensions)
    places = axes_of(dimensions, ndim)
    own = iter(x.shape)
    return x.reshape([1 if place in places else next(own) for place in range(ndim)])


@defines("squeeze")
def squeeze(x: Any, dimensions: Any) -> Any:
    places = axes_of(dimensions, x.ndim)
    need(all(x.shape[place] == 1 for place in places))
    return x.reshape([n for place, n in enumerate(x.shape) if place not in places])


@defines("reshape")
def reshape(x: Any, new_sizes: Any, dimensions: Any = None) -> Any:
    x = x if dimensions is None else transpose(x, dimensions)
    need(all(n >= 0 for n in new_sizes) and math.prod(new_sizes) == x.size)
    elements = [x[index] for index in np.ndindex(*x.shape)]
    return np.array(elements, x.dtype).reshape(new_sizes)


@defines("rev")
def rev(x: Any, dimensions: Any) -> Any:
    places = axes_of(dimensions, x.ndim)

    def element(index: Any) -> Any:
        return x[tuple(n - 1 - i if at in places else i
                       for at, (i, n) in enumerate(zip(index, x.shape, strict=True)))]  # fmt: skip

    return filled(x.shape, x.dtype, element)


@defines("transpose")
def transpose(x: Any, permutation: Any) -> Any:
    need(len(permutation) == x.ndim, "ArgumentError")
    permutation = axes_of(permutation, x.ndim)
    back = [list(permutation).index(at) for at in range(x.ndim)]
    shape = [x.shape[at] for at in permutation]
    return filled(shape, x.dtype, lambda index: x[tuple(index[at] for at in back)])


@defines("tile")
def tile(x: Any, reps: Any) -> Any:
    need(len(reps) == x.ndim and all(n >= 0 for n in reps))
    shape = [n * times for n, times in zip(x.shape, reps, strict=True)]
    return filled(
        shape, x.dtype, lambda index: x[tuple(i % n for i, n in zip(index, x.shape, strict=True))]
    )


@defines("split")
def split(x: Any, sizes: Any, axis: int = 0) -> list[Any]:
    at = axis_of(axis, x.ndim)
    need(sum(sizes) == x.shape[at] and all(n >= 0 for n in sizes))
    parts, start = [], 0
    for size in sizes:
        parts.append(x[(slice(None),) * at + (slice(start, start + size),)])
        start += size
    return parts


@defines("pad")
def pad(x: Any, padding_value: Any, padding_config: Any) -> Any:
    x, value = one_dtype(x, padding_value)
    need(value.shape == ())
    need(len(padding_config) == x.ndim and all(len(triple) == 3 for triple in padding_config))
    need(all(between >= 0 for _, _, between in padding_config))
    shape = [low + high + n + max(n - 1, 0) * between
             for n, (low, high, between) in zip(x.shape, padding_config, strict=True)]  # fmt: skip
    need(all(n >= 0 for n in shape))
    made = np.full(shape, value, x.dtype)
    for index in np.ndindex(*x.shape):
        place = tuple(
            low + i * (between + 1)
            for i, (low, _, between) in zip(index, padding_config, strict=True)
        )
        if all(0 <= i < n for i, n in zip(place, shape, strict=True)):
            made[place] = x[index]
    return made
