"""Positions on the host and on devices: integers, and the treatment of positions out of bounds.

To see that positions on devices are in bounds the host reads one number, which they remember.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from gpushard._functions.argument_checks import check_choice
from gpushard._functions.host_reads import at_hand, concrete
from gpushard._functions.values import is_traced, is_value
from gpushard._ops.basic_index import out_of_bounds
from gpushard._ops.bind import bind
from gpushard._ops.table.elementwise import ASTYPE, CLIP, WHERE, ufunc_row
from gpushard._ops.table.furthest import FURTHEST
from gpushard._typing import HostArray, Shape
from gpushard.errors import ArgumentError, ArgumentTypeError

Positions: TypeAlias = Any
"""Integers: a NumPy array, or an array on devices."""

MODES = ("fill", "drop", "clip", "wrap", "promise_in_bounds")
"""The treatments of positions out of bounds, other than to raise."""

INDEX = np.dtype(np.int64)  # the type of positions
_MINIMUM = ufunc_row(np.minimum)


def has_traced(arrays: Sequence[Positions]) -> bool:
    """Whether some positions are traced, so that the host cannot know them."""
    return any([type(at) is not np.ndarray and is_traced(at) for at in arrays])


def inside(at: Positions, size: int, mode: str) -> Positions:
    """Bring positions into bounds by a mode, or leave them."""
    if mode == "clip":
        return clipped(at, -size, size - 1)
    if mode == "wrap" and size:
        return as_int64(at) % size
    return at if is_value(at) else as_int64(at)


def check_positions(at: Positions, size: int, dim: int) -> None:
    """Check that positions are in bounds; the host waits for positions on devices."""
    if at.size:
        furthest = _furthest_of(at) if isinstance(at, np.ndarray) else _furthest(at)
        if not -size <= furthest < size:
            if isinstance(at, np.ndarray):  # as NumPy has it, the first one
                furthest = int(at[(at >= size) | (at < -size)][0])
            raise out_of_bounds(furthest, dim, size)


def _furthest(at: Any) -> int:
    """Read the position on devices that needs the longest dim; the array remembers it."""
    data = at._held()
    furthest: int | None = data.furthest
    if furthest is None:
        read = at_hand(at, why := "x[index]")
        if read is None:
            furthest = int(concrete(bind(FURTHEST, (at,), (tuple(range(-at.ndim, 0)), False)), why))
        else:
            furthest = _furthest_of(read)
        if at._held() is data:  # no other thread has assigned to them
            data.furthest = furthest
    return furthest


def _furthest_of(at: HostArray) -> int:
    high, low = int(np.maximum.reduce(at, None)), int(np.minimum.reduce(at, None))
    return high if high >= -1 - low else low


def clipped(at: Positions, low: int, high: int) -> Positions:
    """Bring positions into a range."""
    at = as_int64(at)
    if not is_value(at):
        return np.clip(at, low, high)
    return bind(CLIP, (at, low, high), (True, True))


def as_int64(at: Positions) -> Positions:
    """Convert positions to 64-bit integers; larger ones become the largest of these."""
    if at.dtype == np.uint64:
        most = np.iinfo(np.int64).max
        at = bind(_MINIMUM, (at, most)) if is_value(at) else np.minimum(at, np.uint64(most))
    if at.dtype == INDEX:
        return at
    return bind(ASTYPE, (at,), (INDEX,)) if is_value(at) else at.astype(INDEX)


def as_integers(at: Any, name: str, argument: str = "indices") -> Positions:
    """Convert positions to integers: an array on devices, or on the host."""
    try:
        array = at if is_value(at) else np.asarray(at)
    except ValueError:
        raise ArgumentError(
            f"{name}: {argument} has lists of different lengths; make them equally long",
            argument=argument,
        ) from None
    if isinstance(at, list | tuple) and not array.size:
        return array.astype(INDEX)
    if array.dtype.kind not in "biu":
        raise ArgumentTypeError(
            f"{name}: {argument} has dtype {array.dtype}; positions are integers",
            argument=argument,
            dtype=array.dtype,
        )
    return as_int64(array) if array.dtype.kind == "b" else array


def bounded(
    at: Positions, size: int, mode: Any, name: str, dim: int = 0, *, fill: bool = False
) -> Positions:
    """Bring positions into bounds by a mode of `numpy.take`; with "fill" they stay.

    The mode None stands for the default, "raise".
    """
    mode = "raise" if mode is None else mode
    check_choice(name, "mode", mode, ("raise", "clip", "wrap", *(("fill",) if fill else ())))
    if mode == "fill":
        return as_int64(at)
    if mode == "raise" and size and has_traced((at,)):  # nobody knows them
        return clipped(at, -size, size - 1)
    if mode == "raise" or not size:
        check_positions(at, size, dim)
        return at
    if mode == "wrap":
        return as_int64(at) % size
    return clipped(at, 0, size - 1)


def unravelled(at: Positions, shape: Shape) -> list[Positions]:
    """Convert flat positions in row-major order to positions along each dim."""
    dims: list[Positions] = []
    for size in reversed(shape):
        dims.append(at % size)
        at = at // size
    return dims[::-1]


def unwrapped_positions(at: Positions, size: int, mode: str | None) -> Positions:
    """Move negative positions out of bounds, or to 0 if the mode clips."""
    if mode == "wrap" or at.dtype.kind == "u":
        return at
    at = as_int64(at)
    if mode == "clip" and size:
        return clipped(at, 0, size - 1)
    return bind(WHERE, (at < 0, size, at)) if is_value(at) else np.where(at < 0, size, at)
