"""Reductions and movements along named dims, as ordinary operations on arrays with these dims.

Every collective is one of them, or a few, and moves the bytes of these operations:

- `psum` sums over the named dim. The result is whole along the mesh axes of that dim.
- `all_gather` makes the named dim a part of a dim that the function sees, and that dim whole.
- `all_to_all` makes the named dim a part of one dim, and another dim becomes named.

An example: `psum_scatter(y, "x", tiled=True)` on 4 devices, where `y` has shape (8,) on each. The
array has shape (4, 8) and its first dim lies on "x".

1. The sum over dim 0 has shape (8,). Its sharding is chosen as split along "x": a reduce-scatter.
2. `divide_dim` makes the 4 blocks of 2 elements a named dim again, without a copy: the array has
   shape (4, 2). The function sees 2 elements on each device.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from gpushard._array.eager import EAGER
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import P
from gpushard._ops.aval import Aval
from gpushard._ops.bind import bind
from gpushard._ops.row import Params, Row
from gpushard._ops.rule import Rule
from gpushard._ops.table.creation import ARANGE
from gpushard._ops.table.manipulation import PERMUTE, RESHAPE, transposed
from gpushard._ops.table.reductions import SUM
from gpushard._placement.default_placement import default_sharding
from gpushard._transforms.values.frames import NamedDim, Names, innermost, merge_names
from gpushard._transforms.values.mapped import (
    Mapped,
    broadcast_along,
    element_along,
    mapped,
    sharding_without,
)
from gpushard._typing import Shape

_INDEX = np.dtype(np.int32)


@functools.lru_cache(maxsize=1024)
def pin_row(row: Row, places: tuple[tuple[str, ...] | None, ...]) -> Row:
    """Derive a row that keeps the first dims of its operand on the mesh axes of named dims."""

    def rule(avals: Sequence[Aval], params: Params) -> Rule:
        rule_of_row = row.rule_for(avals, params)
        pins = zip(rule_of_row.operands[0], places, strict=False)
        held = tuple((dim, place) for dim, place in pins if dim is not None and place is not None)
        return dataclasses.replace(rule_of_row, pinned=(*held, *rule_of_row.pinned))

    return dataclasses.replace(row, rule=rule, turned=None, later=False)


def reduce_names(row: Row, x: Mapped, names: Names, extra: Any = None) -> Mapped:
    """Reduce a value over some named dims; it is unchanged along those that it lacks."""
    removed = [name for name in names if name in x._names]
    if not removed:
        return x
    value = x._value
    axes = tuple([x._names.index(name) - len(value._shape) for name in removed])
    pinned = pin_row(row, tuple([name.place for name in x._names]))
    rest = tuple([name for name in x._names if name not in removed])
    result = bind(pinned, (value,), (axes, False, extra), sharding_without(x, removed))
    return mapped(result, rest, x._frame, x._source)


def scatter_sum(x: Mapped, names: Names, dim: int, *, tiled: bool) -> Mapped:
    """Sum a value over named dims, and divide a dim of the sum among their elements."""
    x = broadcast_along(x, merge_names(x._names, names))
    extra = np.dtype(x.dtype)
    if any(name.axes is None for name in names):
        return divide_dim(reduce_names(SUM, x, names, extra), names, dim, tiled=tiled)
    value, rest = x._value, tuple([name for name in x._names if name not in names])
    removed = [x._names.index(name) for name in names]
    pinned = pin_row(SUM, tuple([name.place for name in x._names]))
    entries = [axes for n, axes in enumerate(_splits(value)) if n not in removed]
    entries[len(rest) + dim] = _places(names)
    axes = tuple([at - value.ndim for at in removed])
    result = bind(pinned, (value,), (axes, False, extra), _spec(value._sharding, entries))
    return divide_dim(mapped(result, rest, x._frame, x._source), names, dim, tiled=tiled)


def join_into_dim(x: Mapped, names: Names, dim: int, *, tiled: bool) -> Mapped:
    """Make named dims a part of a dim that the function sees, or a new dim, without a copy.

    Args:
      x: the value.
      names: the named dims, major to minor.
      dim: the dim that they become a part of.
      tiled: whether `dim` exists and gets longer; otherwise it is a new dim.
    """
    x = broadcast_along(x, merge_names(x._names, names))
    if _is_mixed(names):
        x = join_into_dim(x, names[-1:], dim, tiled=tiled)
        return join_into_dim(x, names[:-1], dim, tiled=True)
    value, count = x._value, math.prod(name.size for name in names)
    rest = tuple([name for name in x._names if name not in names])
    block = x._shape
    if tiled:
        body = (*block[:dim], count * block[dim], *block[dim + 1 :])
    else:
        body = (*block[:dim], count, *block[dim:])
    shape = (*[name.size for name in rest], *body)
    if names[0].axes is not None:
        removed = [x._names.index(name) for name in names]
        entries = [axes for n, axes in enumerate(_splits(value)) if n not in removed]
        split, at = _places(names), len(rest) + dim
        if tiled:
            entries[at] = split
        else:
            entries.insert(at, split)
        joined = _relabel_as(_whole_at(value, len(x._names) + dim, needed=tiled), shape, entries)
        return mapped(joined, rest, x._frame, x._source)
    order = [x._names.index(name) for name in rest]
    inner = list(range(len(x._names), value.ndim))
    inner[dim:dim] = [x._names.index(name) for name in names]
    order += inner
    value = transposed(value, order)
    if value.shape != shape:
        value = bind(RESHAPE, (value,), (shape,))
    return mapped(value, rest, x._frame, x._source)


def divide_dim(x: Mapped, names: Names, dim: int, *, tiled: bool) -> Mapped:
    """Undo `join_into_dim`: make a dim, or its major part, named dims that the value lacks.

    If the dim does not lie on the mesh axes of the names, the value moves there first.
    """
    if _is_mixed(names):
        x = divide_dim(x, names[:-1], dim, tiled=True)
        return divide_dim(x, names[-1:], dim, tiled=tiled)
    value, count = x._value, math.prod(name.size for name in names)
    every = merge_names(x._names, names)
    at = len(x._names) + dim
    rest = (value.shape[at] // count,) if tiled else ()
    body = (*x._shape[:dim], *rest, *x._shape[dim + 1 :])
    shape = (*[name.size for name in every], *body)
    if names[0].axes is not None:
        split = _places(names)
        entries = [tuple(a for a in axes if a not in split) for axes in _splits(value)]
        entries[at] = split
        value = _split_by(value, entries)
        inner = entries[len(x._names) :]
        inner[dim : dim + 1] = [()] * len(rest)
        lead = dict(zip(x._names, entries, strict=False))
        front = [lead.get(name, name.place or ()) for name in every]
        return mapped(_relabel_as(value, shape, [*front, *inner]), every, x._frame, x._source)
    sizes = (*value.shape[:at], *[name.size for name in names], *rest, *value.shape[at + 1 :])
    if sizes != value.shape:
        value = bind(RESHAPE, (value,), (sizes,))
    places = {name: at + n for n, name in enumerate(names)}
    places |= {name: n for n, name in enumerate(x._names)}
    order = [places[name] for name in every]
    order += [n for n in range(value.ndim) if n not in order]
    value = transposed(value, order)
    return mapped(value, every, x._frame, x._source)


def gather_into_dim(x: Mapped, names: Names, dim: int, *, tiled: bool) -> Mapped:
    """Gather the elements of named dims into a dim; every device gets all of them."""
    x = join_into_dim(x, names, dim, tiled=tiled)
    at = len(x._names) + dim
    entries = _splits(x._value)
    split = _places(names)
    if not split:
        return x
    entries[at] = tuple(axis for axis in entries[at] if axis not in split)
    return mapped(_split_by(x._value, entries), x._names, x._frame, x._source)


def exchange(x: Mapped, names: Names, split: int, concat: int, *, tiled: bool) -> Mapped:
    """Exchange blocks of a dim between the elements of names, and join those received."""
    if tiled and split != concat:
        return divide_dim(join_into_dim(x, names, concat, tiled=True), names, split, tiled=True)
    if tiled:
        count, shape = math.prod(name.size for name in names), x._shape
        parts = (*shape[:split], count, shape[split] // count, *shape[split + 1 :])
        exchanged = exchange(bind(RESHAPE, (x,), (parts,)), names, split, split, tiled=False)
        return cast("Mapped", bind(RESHAPE, (exchanged,), (shape,)))
    at = concat if concat <= split else concat + 1
    x = join_into_dim(x, names, at, tiled=False)
    return divide_dim(x, names, split + (at <= split), tiled=False)


def permute(x: Mapped, names: Names, pairs: tuple[tuple[int, int], ...]) -> Mapped:
    """Send each element along names to another one, by pairs (from, to); others get zeros."""
    x = broadcast_along(x, merge_names(x._names, names))
    value = x._value
    axes = tuple([x._names.index(name) - value.ndim for name in names])
    pinned = pin_row(PERMUTE, tuple([name.place for name in x._names]))
    return mapped(bind(pinned, (value,), (axes, pairs)), x._names, x._frame, x._source)


def broadcast(x: Mapped, names: Names, source: int) -> Mapped:
    """Send the value of one element, by its number along names, to all of them."""
    return element_along(broadcast_along(x, merge_names(x._names, names)), names, source)


def numbers(names: Names) -> Any:
    """Number the elements along names, in row-major order."""
    total: Any = np.int32(0)
    for name in names:
        total = total * np.int32(name.size) + _numbers(name)
    return total


def _numbers(name: NamedDim) -> Mapped:
    frame = innermost()
    assert frame is not None
    sharding: Any = default_sharding((name.size,))
    if frame.mesh is not None:
        sharding = NamedSharding(frame.mesh, P(name.place))
    indices = EAGER.bind(ARANGE, (0, 1), ((name.size,), _INDEX, frame.mesh is not None), sharding)
    return mapped(indices, (name,), frame, None)


def _places(names: Names) -> tuple[str, ...]:
    """List the mesh axes that names live on."""
    return tuple([axis for name in names for axis in name.place or ()])


def _is_mixed(names: Names) -> bool:
    """Whether some names are mesh axes and others are not."""
    return len({name.axes is None for name in names}) > 1


def _splits(value: Any) -> list[tuple[str, ...]]:
    """List the mesh axes of more than one device that split each dim."""
    sharding = value._sharding
    if not isinstance(sharding, NamedSharding):
        return [()] * value.ndim
    sizes = sharding.mesh.shape
    return [
        tuple([axis for axis in sharding.spec.axes(dim) if sizes[axis] > 1])
        for dim in range(value.ndim)
    ]


def _spec(sharding: NamedSharding, entries: Sequence[tuple[str, ...]]) -> NamedSharding:
    return sharding.with_spec(P(*entries))


def _split_by(value: Any, entries: Sequence[tuple[str, ...]]) -> Any:
    """Move an array so that these axes split its dims."""
    wanted = _spec(value._sharding, entries)
    if value._held().tiling is wanted.tiling(value.shape):
        return value
    return value._moved(wanted, "a collective")


def _whole_at(value: Any, dim: int, *, needed: bool) -> Any:
    """Make an array whole along a dim, if it must be."""
    entries = _splits(value)
    if not needed or not entries[dim]:
        return value
    entries[dim] = ()
    return _split_by(value, entries)


def _relabel_as(value: Any, shape: Shape, entries: Sequence[tuple[str, ...]]) -> Any:
    sharding = _spec(value._sharding, entries)
    return value._relabel(sharding.tiling(shape), sharding)
