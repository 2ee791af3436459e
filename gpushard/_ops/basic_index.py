"""Basic indices: integers, slices, `...` and None, as pieces."""

from __future__ import annotations

import functools
import operator
from typing import Any, TypeAlias

import numpy as np

from gpushard._movement.planning.dim_maps import DimMap, Piece
from gpushard._typing import Shape
from gpushard.errors import ArgumentError, ArgumentTypeError, ArrayIndexError, TracedValueError

Entry: TypeAlias = tuple[int | None, int, int] | int | None
"""(start, step, length) of a slice, an integer, or None for a new dim. An open index has its starts
separately: slices start at None, and integers are 0."""


class NotBasicError(ArgumentTypeError):
    """An entry of an index is not an integer, slice, `...` or None: an array, or a wrong type."""


def parse_index(shape: Shape, index: Any) -> tuple[Entry, ...]:
    """Normalize an index: no negative positions, ellipses or missing entries.

    Raises:
      ArrayIndexError: too many entries, or a position out of bounds.
      NotBasicError: an entry is not an integer, a slice, `...` or None.

    >>> parse_index((4, 6), (-1, slice(None, None, -2)))
    (3, (5, -2, 3))
    """
    entries = index if isinstance(index, tuple) else (index,)
    taken = dots = 0
    for entry in entries:
        if entry is Ellipsis:
            dots += 1
        elif entry is not None:
            taken += 1
    if dots > 1:
        raise ArrayIndexError("an index can have only one '...'", argument="index", index=index)
    if taken > len(shape):
        for entry in entries:  # arrays replace any number of dims
            if entry is not None and entry is not Ellipsis and not isinstance(entry, slice):
                as_position(entry)
        raise too_many(shape, index, taken)
    if not dots and taken < len(shape):
        entries = (*entries, Ellipsis)
    result: list[Entry] = []
    dim = 0
    for entry in entries:
        if entry is None:
            result.append(None)
        elif entry is Ellipsis:
            missing = len(shape) - taken
            result += [(0, 1, size) for size in shape[dim : dim + missing]]
            dim += missing
        else:
            result.append(_parse_entry(shape, dim, entry))
            dim += 1
    return tuple(result)


@functools.lru_cache(maxsize=4096)
def open_index(
    entries: tuple[Entry, ...], shape: Shape
) -> tuple[tuple[Entry, ...], tuple[int, ...]]:
    """Split a parsed index into a form without starts, and the starts.

    Entries that select a whole dim do not change.

    >>> open_index((3, (5, -2, 3), (0, 1, 7)), (4, 6, 7))
    ((0, (None, -2, 3), (0, 1, 7)), (3, 5))
    """
    form: list[Entry] = []
    starts = []
    dim = 0
    for entry in entries:
        if entry is None:
            form.append(None)
            continue
        if isinstance(entry, int):
            form.append(0)
            starts.append(entry)
        elif entry == (0, 1, shape[dim]):
            form.append(entry)
        else:
            start, step, length = entry
            form.append((None, step, length))
            starts.append(start or 0)
        dim += 1
    return tuple(form), tuple(starts)


def open_starts(form: tuple[Entry, ...]) -> tuple[int, ...]:
    """Return the numbers of entries of an open index with a start.

    >>> open_starts((0, None, (None, -2, 3), (0, 1, 7)))
    (0, 2)
    """
    return tuple(
        number
        for number, entry in enumerate(form)
        if entry is not None and (isinstance(entry, int) or entry[0] is None)
    )


def _parse_entry(shape: Shape, dim: int, entry: Any) -> Entry:
    size = shape[dim]
    if isinstance(entry, slice):
        return _parse_slice(size, entry)
    position = entry if type(entry) is int else as_position(entry)
    if not -size <= position < size:
        raise out_of_bounds(position, dim, size)
    return position % size


def as_position(entry: Any) -> int:
    """Convert an entry of an index to a Python integer, or raise `NotBasicError`."""
    try:
        # operator.index accepts True, and would fetch a whole array to refuse it
        if not isinstance(entry, bool | np.bool_) and not getattr(entry, "shape", ()):
            return operator.index(entry)
    except TypeError:
        pass
    raise NotBasicError(  # without the value, which may be an array on devices
        f"an entry of the index is a {type(entry).__name__}; use integers, slices, '...' or None",
        argument="index",
        entry=entry,
    )


def out_of_bounds(position: int, dim: int, size: int) -> ArrayIndexError:
    """Return the error for a position out of bounds."""
    return ArrayIndexError(
        f"index {position} is out of bounds for axis {dim} of length {size}; "
        + (f"use {-size} to {size - 1}" if size else "there are no elements"),
        argument="index",
        dim=dim,
        size=size,
        position=position,
    )


def too_many(shape: Shape, index: Any, taken: int) -> ArrayIndexError:
    """Return the error for an index with more entries than the array has dims."""
    return ArrayIndexError(
        f"the index has {taken} entries for an array of shape {shape}; give at most one per axis",
        argument="index",
        index=index,
        shape=shape,
    )


def as_slice(entry: slice) -> tuple[int | None, int | None, int | None]:
    """Convert start, stop and step of a slice to Python integers."""
    bounds = entry.start, entry.stop, entry.step
    try:
        start, stop, step = (None if b is None else operator.index(b) for b in bounds)
    except TracedValueError:
        raise
    except TypeError:
        raise ArgumentTypeError(
            f"entry {entry!r} of the index is not supported; bounds of slices are integers or None",
            argument="index",
            entry=entry,
        ) from None
    return start, stop, step


def _parse_slice(size: int, entry: slice) -> Entry:
    try:
        start, stop, step = slice(*as_slice(entry)).indices(size)
    except ValueError:
        raise ArgumentError(
            f"entry {entry!r} of the index has a step of zero; slice steps cannot be zero",
            argument="index",
            entry=entry,
        ) from None
    return start, step, len(range(start, stop, step))


@functools.lru_cache(maxsize=4096)
def index_piece(entries: tuple[Entry, ...]) -> Piece:
    """Return the piece of a parsed index."""
    maps = []
    source = destination = 0
    for entry in entries:
        if entry is None:
            maps.append(DimMap(None, destination, 0, 1, 1))
        elif isinstance(entry, int):
            maps.append(DimMap(source, None, entry, 1, 1))
        else:
            start, step, length = entry
            begin = -step * max(length - 1, 0) if step < 0 else 0  # an open slice has any start
            begin = begin if start is None else start
            maps.append(DimMap(source, destination, begin, step, length))
        source += entry is not None
        destination += not isinstance(entry, int)
    return Piece(tuple(maps))
