"""What moves elements along named dims: operations on the arrays that have these dims.

A sum over a named dim is a sum, whose result lies as the operand does, whole along the mesh axes of
that dim. To gather, a named dim becomes a part of a dim of the function's, and is then whole; to
exchange, another dim becomes named. So every collective is a reduction or a movement that there is
anyway, and what moves is what these move.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import P
from gpushard.ops.aval import Aval
from gpushard.ops.bind import bind, bind_plain
from gpushard.ops.row import Params, Row
from gpushard.ops.rule import Rule
from gpushard.ops.table.creation import ARANGE
from gpushard.ops.table.movement import PERMUTE, RESHAPE, transposed
from gpushard.ops.table.reductions import SUM
from gpushard.placement.defaults import default_sharding
from gpushard.transforms.values.frames import NamedDim, Names, innermost, merged
from gpushard.transforms.values.mapped import (
    Mapped,
    element_along,
    mapped,
    sharding_without,
    spread,
)
from gpushard.transforms.values.relabel import relabel
from gpushard.typing import Shape

_INDEX = np.dtype(np.int32)


@functools.lru_cache(maxsize=1024)
def pinned(row: Row, places: tuple[tuple[str, ...] | None, ...]) -> Row:
    """Return a row of one operand whose first dims live where named dims do."""

    def rule(avals: Sequence[Aval], params: Params) -> Rule:
        own = row.rule_for(avals, params)
        pins = zip(own.operands[0], places, strict=False)
        held = tuple((dim, place) for dim, place in pins if dim is not None and place is not None)
        return dataclasses.replace(own, pinned=(*held, *own.pinned))

    return dataclasses.replace(row, rule=rule, turned=None, later=False)


def reduced(row: Row, x: Mapped, names: Names, extra: Any = None) -> Mapped:
    """Reduce a value over those of some names that it has."""
    gone = [name for name in names if name in x._names]
    if not gone:
        return x
    value = x._value
    axes = tuple([x._names.index(name) - len(value._shape) for name in gone])
    own = pinned(row, tuple([name.place for name in x._names]))
    rest = tuple([name for name in x._names if name not in gone])
    made = bind(own, (value,), (axes, False, extra), sharding_without(x, gone))
    return mapped(made, rest, x._frame, x._source)


def scattered_sum(x: Mapped, names: Names, dim: int, *, tiled: bool) -> Mapped:
    """Sum a value over names, of which each element gets a part along a dim."""
    x = spread(x, merged(x._names, names))
    extra = np.dtype(x.dtype)
    if any(name.axes is None for name in names):
        return divided(reduced(SUM, x, names, extra), names, dim, tiled=tiled)
    value, rest = x._value, tuple([name for name in x._names if name not in names])
    gone = [x._names.index(name) for name in names]
    own = pinned(SUM, tuple([name.place for name in x._names]))
    entries = [axes for n, axes in enumerate(_splits(value)) if n not in gone]
    entries[len(rest) + dim] = _places(names)
    axes = tuple([at - value.ndim for at in gone])
    made = bind(own, (value,), (axes, False, extra), _spec(value._sharding, entries))
    return divided(mapped(made, rest, x._frame, x._source), names, dim, tiled=tiled)


def joined(x: Mapped, names: Names, dim: int, *, tiled: bool) -> Mapped:
    """Make names a part of a dim, or a new one; devices keep what they have.

    Args:
      x: the value.
      names: of it, major to minor.
      dim: which of the dims that the function sees.
      tiled: whether the dim is there and gets longer; otherwise it is new.
    """
    x = spread(x, merged(x._names, names))
    if _is_mixed(names):
        x = joined(x, names[-1:], dim, tiled=tiled)
        return joined(x, names[:-1], dim, tiled=True)
    value, many = x._value, math.prod(name.size for name in names)
    rest = tuple([name for name in x._names if name not in names])
    block = x._shape
    if tiled:
        body = (*block[:dim], many * block[dim], *block[dim + 1 :])
    else:
        body = (*block[:dim], many, *block[dim:])
    shape = (*[name.size for name in rest], *body)
    if names[0].axes is not None:
        gone = [x._names.index(name) for name in names]
        entries = [axes for n, axes in enumerate(_splits(value)) if n not in gone]
        split, at = _places(names), len(rest) + dim
        if tiled:
            entries[at] = split
        else:
            entries.insert(at, split)
        made = _relabelled(_whole_at(value, len(x._names) + dim, needed=tiled), shape, entries)
        return mapped(made, rest, x._frame, x._source)
    order = [x._names.index(name) for name in rest]
    inner = list(range(len(x._names), value.ndim))
    inner[dim:dim] = [x._names.index(name) for name in names]
    order += inner
    value = transposed(value, order)
    if value.shape != shape:
        value = bind(RESHAPE, (value,), (shape,))
    return mapped(value, rest, x._frame, x._source)


def divided(x: Mapped, names: Names, dim: int, *, tiled: bool) -> Mapped:
    """Undo `joined`: make a dim, or the major part of it, names that the value lacks.

    What does not lie so is moved first.
    """
    if _is_mixed(names):
        x = divided(x, names[:-1], dim, tiled=True)
        return divided(x, names[-1:], dim, tiled=tiled)
    value, many = x._value, math.prod(name.size for name in names)
    every = merged(x._names, names)
    at = len(x._names) + dim
    rest = (value.shape[at] // many,) if tiled else ()
    body = (*x._shape[:dim], *rest, *x._shape[dim + 1 :])
    shape = (*[name.size for name in every], *body)
    if names[0].axes is not None:
        split = _places(names)
        entries = [tuple(a for a in axes if a not in split) for axes in _splits(value)]
        entries[at] = split
        value = _moved(value, entries)
        inner = entries[len(x._names) :]
        inner[dim : dim + 1] = [()] * len(rest)
        lead = dict(zip(x._names, entries, strict=False))
        front = [lead.get(name, name.place or ()) for name in every]
        return mapped(_relabelled(value, shape, [*front, *inner]), every, x._frame, x._source)
    sizes = (*value.shape[:at], *[name.size for name in names], *rest, *value.shape[at + 1 :])
    if sizes != value.shape:
        value = bind(RESHAPE, (value,), (sizes,))
    places = {name: at + n for n, name in enumerate(names)}
    places |= {name: n for n, name in enumerate(x._names)}
    order = [places[name] for name in every]
    order += [n for n in range(value.ndim) if n not in order]
    value = transposed(value, order)
    return mapped(value, every, x._frame, x._source)


def gathered(x: Mapped, names: Names, dim: int, *, tiled: bool) -> Mapped:
    """Return all elements of some names in a dim, everywhere."""
    x = joined(x, names, dim, tiled=tiled)
    at = len(x._names) + dim
    entries = _splits(x._value)
    split = _places(names)
    if not split:
        return x
    entries[at] = tuple(axis for axis in entries[at] if axis not in split)
    return mapped(_moved(x._value, entries), x._names, x._frame, x._source)


def exchanged(x: Mapped, names: Names, split: int, concat: int, *, tiled: bool) -> Mapped:
    """Split a dim over names, and join what each element gets from the others along another."""
    if tiled and split != concat:
        return divided(joined(x, names, concat, tiled=True), names, split, tiled=True)
    if tiled:
        many, shape = math.prod(name.size for name in names), x._shape
        parts = (*shape[:split], many, shape[split] // many, *shape[split + 1 :])
        made = exchanged(bind(RESHAPE, (x,), (parts,)), names, split, split, tiled=False)
        return cast("Mapped", bind(RESHAPE, (made,), (shape,)))
    at = concat if concat <= split else concat + 1
    x = joined(x, names, at, tiled=False)
    return divided(x, names, split + (at <= split), tiled=False)


def permuted(x: Mapped, names: Names, pairs: tuple[tuple[int, int], ...]) -> Mapped:
    """Return the elements of other members of some names, by pairs (from, to); zeros elsewhere."""
    x = spread(x, merged(x._names, names))
    value = x._value
    axes = tuple([x._names.index(name) - value.ndim for name in names])
    own = pinned(PERMUTE, tuple([name.place for name in x._names]))
    return mapped(bind(own, (value,), (axes, pairs)), x._names, x._frame, x._source)


def broadcast(x: Mapped, names: Names, source: int) -> Mapped:
    """Return the value of one element, by its number in all of some names, everywhere."""
    return element_along(spread(x, merged(x._names, names)), names, source)


def numbers(names: Names) -> Any:
    """Return the number of each element of some names, in row-major order."""
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
    made = bind_plain(ARANGE, (0, 1), ((name.size,), _INDEX, frame.mesh is not None), sharding)
    return mapped(made, (name,), frame, None)


def _places(names: Names) -> tuple[str, ...]:
    """Return the mesh axes that names live on."""
    return tuple([axis for name in names for axis in name.place or ()])


def _is_mixed(names: Names) -> bool:
    """Whether some names live on mesh axes, and others do not."""
    return len({name.axes is None for name in names}) > 1


def _splits(value: Any) -> list[tuple[str, ...]]:
    """Return the axes of more than one device that split each dim."""
    own = value._sharding
    if not isinstance(own, NamedSharding):
        return [()] * value.ndim
    sizes = own.mesh.shape
    return [
        tuple([axis for axis in own.spec.axes(dim) if sizes[axis] > 1]) for dim in range(value.ndim)
    ]


def _spec(sharding: NamedSharding, entries: Sequence[tuple[str, ...]]) -> NamedSharding:
    return sharding.with_spec(P(*entries))


def _moved(value: Any, entries: Sequence[tuple[str, ...]]) -> Any:
    """Return an array split by these axes."""
    wanted = _spec(value._sharding, entries)
    if value._held().tiling is wanted.tiling(value.shape):
        return value
    return value._moved(wanted, "a collective")


def _whole_at(value: Any, dim: int, *, needed: bool) -> Any:
    """Return an array that is whole along a dim, if it needs to be."""
    entries = _splits(value)
    if not needed or not entries[dim]:
        return value
    entries[dim] = ()
    return _moved(value, entries)


def _relabelled(value: Any, shape: Shape, entries: Sequence[tuple[str, ...]]) -> Any:
    sharding = _spec(value._sharding, entries)
    return relabel(value, sharding.tiling(shape), sharding)
