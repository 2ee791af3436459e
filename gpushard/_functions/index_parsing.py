"""Indices parsed, once: reading, assignment and `x.at[index]` all start from `parse`.

https://numpy.org/doc/stable/user/basics.indexing.html

It makes of an index a basic one, which comes first, and says which dims of what that selects are
left to index arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._frozen import dataclass
from gpushard._functions.index_bounds import INDEX, Positions
from gpushard._functions.values import Value, is_traced, is_value
from gpushard._ops.basic_index import (
    Entry,
    NotBasicError,
    as_position,
    as_slice,
    index_piece,
    parse_index,
)
from gpushard._ops.index_arrays import Indexed
from gpushard._typing import Shape
from gpushard.errors import ArrayIndexError

_POSITIONS = "positions"


@dataclass(frozen=True, eq=False)
class ParsedIndex:
    """An index without its arrays. Pure."""

    of: Shape  # shape of the array
    # The basic index that comes first; whole along the dims that arrays index.
    entries: tuple[Entry, ...]
    shape: Shape  # shape of what it selects
    everything: bool  # whether that is the array as it is
    # The dims of the array that index arrays index, one for each; -1 for new ones.
    dims: tuple[int, ...] = ()
    # How index arrays, all in bounds, index what `entries` select.
    indexed: Indexed = Indexed((), 0)
    unchecked: Indexed = Indexed((), 0)  # the same where positions may be out of bounds
    masks: tuple[bool, ...] = ()  # which of its arrays are masks
    # Whether there is one mask, and nothing else but slices.
    only_mask: bool = False


def parse(
    shape: Shape, index: Any, mode: str | None = None
) -> tuple[ParsedIndex, Sequence[Positions]]:
    """Parse an index.

    Args:
      shape: of the array.
      index: as NumPy takes it.
      mode: one of `MODES`; integers are then index arrays too, as they may be out of bounds.

    Returns:
      The index, and its arrays: of integers with some dims, and of booleans.

    Raises:
      ArrayIndexError: it is no index of the array, or an integer is out of bounds.

    >>> parsed, arrays = parse((4, 6), (-1, slice(None, None, -2)))
    >>> parsed.entries, parsed.shape, arrays
    ((3, (5, -2, 3)), (3,), ())
    >>> parsed, arrays = parse((4, 6), (..., [0, 2]))
    >>> parsed.everything, parsed.indexed, arrays
    (True, Indexed(axes=(-1,), after=0, paired=(), inside=True), [array([0, 2])])
    """
    if type(index) is int and mode is None:
        return _parsed(shape, (index,)), ()
    keys: list[Any] = []
    arrays: list[Positions] = []
    for entry in index if isinstance(index, tuple) else (index,):
        kind = type(entry)
        if entry is None or entry is Ellipsis:
            keys.append(entry)
        elif kind is slice:
            start, stop, step = entry.start, entry.stop, entry.step
            plain = (
                (start is None or type(start) is int)
                and (stop is None or type(stop) is int)
                and (step is None or type(step) is int)
            )
            keys.append((start, stop, step) if plain else as_slice(entry))
        else:
            key, array = (entry, None) if kind is int else _array_of(entry)
            if array is None and mode is not None:
                key, array = _POSITIONS, np.asarray(key)
            keys.append(key)
            if array is not None:
                arrays.append(array)
    return _parsed(shape, tuple(keys)), arrays or ()


def _array_of(entry: Any) -> tuple[Any, Any]:
    """Convert an entry other than a slice to an array of integers or booleans, or an integer.

    Returns:
      What `_parsed` takes, and the array; or an integer, and None.
    """
    array = entry
    if isinstance(entry, bool | np.bool_):
        array = np.asarray(entry)
    elif isinstance(entry, list | tuple):
        try:
            array = np.asarray(entry)
        except ValueError:
            why = "made of lists of different lengths; make them equally long"
            raise _refused(entry, why) from None
        if not array.ndim or array.dtype.kind == "O":
            raise _refused(entry, "no list of integers or booleans")
        array = array if array.size else array.astype(INDEX)
    elif not isinstance(entry, np.ndarray | Value) and getattr(entry, "shape", None):
        array = entry if is_value(entry) else np.asarray(entry)
    dtype = getattr(array, "dtype", None)
    if dtype is not None and ((ndim := array.ndim) or dtype == np.bool_ or is_traced(array)):
        if dtype.kind == "b":
            return (ndim,), array if ndim else np.asarray(bool(array))
        if dtype.kind in "iu":
            return _POSITIONS, array
        raise _refused(entry, f"an array of {dtype}; arrays of integers or booleans are fine")
    try:
        return as_position(array), None
    except NotBasicError:
        why = "not supported; use integers, slices, '...', None, or arrays of integers or booleans"
        raise _refused(entry, why) from None


def _refused(entry: Any, why: str) -> ArrayIndexError:
    text = f"of shape {entry.shape} on devices" if is_value(entry) else repr(entry)
    return ArrayIndexError(f"entry {text} of the index is {why}", argument="index", entry=entry)


@functools.lru_cache(maxsize=4096)
def _parsed(shape: Shape, keys: tuple[Any, ...]) -> ParsedIndex:
    """Parse an index whose slices are tuples, positions "positions", and masks (ndim,).

    Slices have no hash before Python 3.12.
    """
    basic: list[Any] = []
    indexing: list[int] = []  # numbers of the entries that index arrays have
    breaks: list[int] = []  # numbers of entries before which `...` stands
    for key in keys:
        if key == _POSITIONS or _is_mask(key):
            added: list[Any] = [slice(None)] * (1 if key == _POSITIONS else key[0]) or [None]
            indexing += range(len(basic), len(basic) + len(added))
            basic += added
        else:
            breaks += [len(basic)] * (key is Ellipsis)
            basic.append(slice(*key) if isinstance(key, tuple) else key)
    entries = parse_index(shape, tuple(basic))
    whole = tuple((0, 1, n) for n in shape)
    selected = index_piece(entries).shape
    if not indexing:
        return ParsedIndex(shape, entries, selected, entries == whole)
    more = len(entries) - len(basic)  # `...` stands for so many more, or fewer
    start = breaks[0] if breaks else len(basic)
    numbers = [n if n < start else n + more for n in indexing]
    axes, dims, after = _placed(entries, numbers, start)
    inside = all(selected[axis] for axis in axes)
    masks = tuple(_is_mask(key) for key in keys if key == _POSITIONS or _is_mask(key))
    others = [key for key in keys if key is not Ellipsis and not isinstance(key, tuple)]
    return ParsedIndex(
        shape,
        entries,
        selected,
        entries == whole,
        dims,
        Indexed(axes, after, (), inside),
        Indexed(axes, after),
        masks,
        len(masks) == 1 and not others,
    )


def _placed(
    entries: Sequence[Entry], numbers: Sequence[int], dots: int
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Return the dims that index arrays index, and the number of other dims after theirs.

    The dims of index arrays come first if arrays and integers are not next to each other.

    Args:
      entries: a basic index, whole along indexed dims.
      numbers: of the entries of these.
      dots: number of the entry before which `...` stood.

    Returns:
      The dims of what the basic index selects, counted from the end; those of the array; how many.
    """
    axes, dims, runs = [], [], []
    plain = width = source = 0
    in_run = False
    for number, entry in enumerate(entries):
        in_run = in_run and number != dots
        if number in numbers:
            axes.append(width)
            dims.append(-1 if entry is None else source)
        if number in numbers or isinstance(entry, int):
            if not in_run:
                runs.append(plain)
            in_run = True
        else:
            in_run = False
            plain += 1
        width += not isinstance(entry, int)
        source += entry is not None
    after = plain - (runs[0] if len(runs) == 1 else 0)
    return tuple(axis - width for axis in axes), tuple(dims), after


def _is_mask(key: Any) -> bool:
    return isinstance(key, tuple) and len(key) == 1
