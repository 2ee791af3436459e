"""Indices with arrays in them, as NumPy understands them (its "advanced indexing").

https://numpy.org/doc/stable/user/basics.indexing.html

An index becomes a basic one, which is applied first, and index arrays for some dims of what that
selects. A mask becomes an array of positions for each of its dims.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gpushard.array.positions import check_inside, check_on_host, true_positions
from gpushard.array.shard import Shards
from gpushard.errors import ArgumentError, ArrayIndexError
from gpushard.frozen import dataclass
from gpushard.ops.bind import bind
from gpushard.ops.indexed import Indexed, part_shape
from gpushard.ops.indexing import (
    NotBasicError,
    as_position,
    index_piece,
    parse_index,
    too_many,
)
from gpushard.ops.table.elementwise import CLIP, ufunc_row
from gpushard.typing import HostArray, Shape

if TYPE_CHECKING:
    from gpushard.array.array import Array

MODES = ("fill", "drop", "clip", "wrap", "promise_in_bounds")
"""What may be done with positions out of bounds, rather than raise."""

Positions: TypeAlias = Any
"""Integers: a NumPy array, or an array on devices."""

_LARGEST = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Selection:
    """What an index with arrays in it selects."""

    basic: tuple[Any, ...] | None
    """The basic index that is applied first; None where that selects everything as it is."""

    indexed: Indexed
    """How the index arrays index what that gives."""

    arrays: tuple[Positions, ...]
    """The index arrays."""

    shape: Shape
    """Shape of the part."""

    masked: bool
    """Whether the positions are those of one mask on devices."""


def is_on_devices(x: Any) -> bool:
    """Whether it is an array on devices, or stands for one."""
    return isinstance(x, Shards) or hasattr(x, "interpreter")


def is_only_array(index: Any) -> bool:
    """Whether an index is one array with dims, and nothing else."""
    dims = getattr(index, "ndim", 0) > 0  # asked first, as most are none and that is quick
    return dims and (type(index) is np.ndarray or isinstance(index, Shards))


@functools.lru_cache(maxsize=64)
def _along_first(ndim: int, inside: bool) -> Indexed:
    """Return how one index array indexes the first dim."""
    return Indexed((-ndim,), ndim - 1, (), inside)


def entries_of(shape: Shape, index: Any) -> list[Any]:
    """Return the entries of an index: None, slices, integers, `...`, and arrays.

    Arrays are of integers with some dims, or of booleans. There is one `...`, and no dim is left
    without an entry.

    Raises:
      ArrayIndexError: an entry is something else, there are too many, or two are `...`.
    """
    entries = [_entry(one) for one in (index if isinstance(index, tuple) else (index,))]
    dots = [at for at, entry in enumerate(entries) if entry is Ellipsis]
    if len(dots) > 1:
        raise ArrayIndexError("an index can have only one '...'", argument="index", index=index)
    taken = sum(map(_taken, entries))
    if taken > len(shape):
        raise too_many(shape, index, taken)
    return entries if dots else [*entries, Ellipsis]


def _taken(entry: Any) -> int:
    """Return how many dims an entry takes."""
    if entry is None or entry is Ellipsis:
        return 0
    return int(entry.ndim) if is_mask(entry) else 1


def is_mask(entry: Any) -> bool:
    """Whether an entry is an array of booleans."""
    return hasattr(entry, "dtype") and entry.dtype == np.bool_


def _entry(entry: Any) -> Any:
    if entry is None or entry is Ellipsis or isinstance(entry, slice):
        return entry
    if isinstance(entry, bool | np.bool_):
        return np.asarray(entry)
    if is_on_devices(entry) and (entry.ndim or entry.dtype == np.bool_):
        array = entry if entry.ndim else np.asarray(bool(entry))
    elif isinstance(entry, list | tuple):
        array = _from_list(entry)
    else:
        array = np.asarray(entry) if getattr(entry, "shape", ()) else entry
    if hasattr(array, "dtype") and (array.ndim or array.dtype == np.bool_):
        if array.dtype.kind in "biu":
            return array
        raise _refused(entry, f"an array of {array.dtype}; arrays of integers or booleans are fine")
    try:
        return as_position(array)
    except NotBasicError:
        why = "not supported; use integers, slices, '...', None, or arrays of integers or booleans"
        raise _refused(entry, why) from None


def _from_list(entry: Any) -> HostArray:
    try:
        array = np.asarray(entry)
    except ValueError:
        why = "made of lists of different lengths; make them equally long"
        raise _refused(entry, why) from None
    if not array.ndim or array.dtype.kind == "O":
        raise _refused(entry, "no list of integers or booleans")
    return array if array.size else array.astype(np.int64)


def _refused(entry: Any, why: str) -> ArrayIndexError:
    there = is_on_devices(entry)
    text = f"of shape {entry.shape} on devices" if there else repr(entry)
    return ArrayIndexError(f"entry {text} of the index is {why}", argument="index", entry=entry)


class _Parts:
    """What entries come to, one after the other.

    Args:
      shape: of the array.
      mode: as for `select`.
    """

    def __init__(self, shape: Shape, mode: str | None) -> None:
        self.shape = shape
        self.mode = mode
        self.dim = 0  # of the array
        self.basic: list[Any] = []
        self.arrays: list[tuple[int, Positions, int | None]] = []
        """(dim of what the basic index gives, positions, dim of the array; None: in bounds)."""
        self.width = 0  # dims of what the basic index gives
        self.plain = 0  # how many of them are not indexed by arrays
        self.runs: list[int] = []  # `plain` where a run of arrays and integers begins
        self._in_run = False

    def add(self, entry: Any) -> None:
        """Take one entry."""
        if entry is None or entry is Ellipsis or isinstance(entry, slice):
            self._add_basic(entry)
            return
        if not self._in_run:
            self.runs.append(self.plain)
        self._in_run = True
        if isinstance(entry, int) and self.mode is None:
            self.basic.append(entry)
            self.dim += 1
        elif is_mask(entry):
            self._add_mask(entry)
        else:
            self._add_array(np.asarray(entry) if isinstance(entry, int) else entry)

    def _add_basic(self, entry: Any) -> None:
        self._in_run = False
        entries = [entry]
        if entry is Ellipsis:
            entries = [slice(None)] * self._missing
        self.basic += entries
        self.dim += sum(one is not None for one in entries)
        self.plain += len(entries)
        self.width += len(entries)

    def count(self, entries: list[Any]) -> None:
        """Note how many dims have no entry of their own."""
        self._missing = len(self.shape) - sum(map(_taken, entries))

    def _add_array(self, positions: Positions, *, known: bool = False) -> None:
        self.arrays.append((self.width, positions, None if known else self.dim))
        self.basic.append(slice(None))
        self.width += 1
        self.dim += 1

    def _add_mask(self, mask: Any) -> None:
        if not mask.ndim:  # a new dim, of length 1 or 0
            self.arrays.append((self.width, np.zeros(int(mask), np.int64), None))
            self.basic.append(None)
            self.width += 1
            return
        for at, (own, size) in enumerate(zip(mask.shape, self.shape[self.dim :], strict=False)):
            if own not in (size, 0):  # no elements select none, as the Array API has it
                raise ArrayIndexError(
                    f"the boolean index of shape {mask.shape} has length {own} along dim "
                    f"{self.dim + at} of the array, whose length is {size}; make them equal",
                    argument="index",
                    dim=self.dim + at,
                    size=size,
                    length=own,
                )
        found = true_positions(mask) if is_on_devices(mask) else np.nonzero(mask)
        for positions in found:
            self._add_array(positions, known=True)

    @property
    def after(self) -> int:
        """How many of the dims that are not indexed come after those of the index arrays.

        These come first where arrays and integers are not beside one another.
        """
        return self.plain - (self.runs[0] if len(self.runs) == 1 else 0)


def select(x: Array, index: Any, mode: str | None = None) -> Selection:
    """Return what an index selects, checked.

    Args:
      x: the array.
      index: has arrays in it.
      mode: one of `MODES`, or None: positions out of bounds raise. Those on the host are checked at
        no cost, those on devices by a reduction whose result the host reads.

    Raises:
      ArrayIndexError: it is no index of the array.
    """
    shape = x.shape
    if mode is None and is_only_array(index) and index.dtype.kind in "iu" and shape:
        check_positions(index, shape[0], 0)
        indexed = _along_first(len(shape), bool(shape[0]))
        return Selection(None, indexed, (index,), (*index.shape, *shape[1:]), False)
    entries = entries_of(shape, index)
    parts = _Parts(shape, mode)
    parts.count(entries)
    for entry in entries:
        parts.add(entry)
    basic = tuple(parts.basic)
    given = index_piece(parse_index(shape, basic)).shape
    arrays = tuple(_inside(at, mode, given[dim], of) for dim, at, of in parts.arrays)
    shapes = tuple(at.shape for at in arrays)
    axes = tuple(dim - len(given) for dim, _, _ in parts.arrays)
    indexed = Indexed(axes, parts.after, (), mode in (None, "wrap") and _has_any(given, axes))
    try:
        part = part_shape(indexed, given, shapes)
    except ValueError:
        raise ArrayIndexError(
            f"the index arrays have shapes {', '.join(map(str, shapes))}, which do not broadcast; "
            "dims must be equal or 1, counted from the last",
            argument="index",
            shapes=shapes,
        ) from None
    masks = [entry for entry in entries if is_mask(entry)]
    others = [entry for entry in entries if not (entry is Ellipsis or isinstance(entry, slice))]
    masked = len(masks) == 1 == len(others) and is_on_devices(masks[0]) and 0 not in masks[0].shape
    everything = all(isinstance(entry, slice) and entry == slice(None) for entry in basic)
    return Selection(None if everything else basic, indexed, arrays, part, masked)


def _has_any(shape: Shape, axes: tuple[int, ...]) -> bool:
    return all(shape[axis] for axis in axes)


def _inside(at: Positions, mode: str | None, size: int, dim: int | None) -> Positions:
    """Return positions as a mode has them; `dim` is None for those that are known to be in bounds.

    Raises:
      ArrayIndexError: one is out of bounds, and there is no mode.
    """
    if dim is None:
        return at
    if mode is None:
        check_positions(at, size, dim)
    elif mode == "clip":
        return clipped(at, -size, size - 1)
    elif mode == "wrap" and size:
        return as_int64(at) % size
    return at if is_on_devices(at) else as_int64(at)


def check_positions(at: Positions, size: int, dim: int) -> None:
    """Check that positions are in bounds; waits for those on devices.

    Raises:
      ArrayIndexError: one is not.
    """
    if is_on_devices(at):
        check_inside(at, dim, size)
    else:
        check_on_host(at, dim, size)


def clipped(at: Positions, low: int, high: int) -> Positions:
    """Return positions brought into a range."""
    at = as_int64(at)
    if not is_on_devices(at):
        return np.clip(at, low, high)
    return bind(CLIP, (at, low, high), (True, True))


def as_int64(at: Positions) -> Positions:
    """Return positions as 64-bit integers; the largest there is for larger ones."""
    if at.dtype == np.uint64:
        at = _minimum(at, _LARGEST)
    return at if at.dtype == np.int64 else at.astype(np.int64)


def _minimum(at: Positions, most: int) -> Positions:
    there = is_on_devices(at)
    return bind(ufunc_row(np.minimum), (at, most)) if there else np.minimum(at, np.uint64(most))


def check_mode(mode: Any) -> None:
    """Check the mode of `x.at[index]`.

    Raises:
      ArgumentError: it is unknown.
    """
    if mode is not None and mode not in MODES:
        raise ArgumentError(
            f"mode={mode!r} is unknown; use one of {', '.join(MODES)}, or None to raise",
            argument="mode",
            mode=mode,
        )
