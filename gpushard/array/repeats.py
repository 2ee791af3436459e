"""Repeating with a count for each element: what the host has to know."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array.shard import Shards
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.functions.concrete import known
from gpushard.functions.host_values import as_part
from gpushard.ops.bind import bind
from gpushard.ops.table.reductions import MIN, SUM
from gpushard.ops.table.repeating import REPEAT_EACH


def is_counts(repeats: Any) -> bool:
    """Whether it has a count for each element, rather than one for all."""
    if isinstance(repeats, np.ndarray | Shards):
        return bool(repeats.ndim)  # type: ignore[union-attr]
    return isinstance(repeats, list | tuple)


def repeated_each(x: Any, counts: Any, axis: int) -> Any:
    """Return an array with each element as often as its count says.

    Of counts on devices the host reads the least and the sum, which is the length of the result.

    Args:
      x: the array.
      counts: a vector of integers, one for each element along the dim, or one for all.
      axis: along which dim, counted from the end.

    Raises:
      ArgumentTypeError: counts are no integers.
      ArgumentError: a count is negative, or there are not as many.
    """
    found: Any = counts if isinstance(counts, Shards) else np.asarray(counts)
    if found.dtype.kind not in "?biu" and found.size:
        raise ArgumentTypeError(
            f"repeat: repeats of {found.dtype} must be integers",
            argument="repeats",
            dtype=found.dtype,
        )
    n = x.shape[axis]
    if found.ndim != 1 or found.shape[0] not in (1, n):
        raise ArgumentError(
            f"repeat: repeats of shape {found.shape} do not fit the {n} elements along dim "
            f"{x.ndim + axis} of shape {x.shape}; give one for each, or an integer",
            argument="repeats",
            shape=found.shape,
            expected=n,
        )
    least, total = _extent(found)
    if least < 0:
        raise ArgumentError(
            f"repeat: repeats has {least}; counts must not be negative",
            argument="repeats",
            value=least,
        )
    if found.shape[0] != n:
        return x.repeat(total, axis)
    given = found if isinstance(found, Shards) else as_part(found, (n,), np.dtype(np.int64))
    return bind(REPEAT_EACH, (x, given), (total, axis))


def _extent(counts: Any) -> tuple[int, int]:
    """Return the least count and the sum of all."""
    if not counts.shape[0]:
        return 0, 0
    if not isinstance(counts, Shards):
        return int(counts.min()), int(counts.sum())
    made: list[Any] = [bind(row, (counts,), ((-1,), False, None)) for row in (MIN, SUM)]
    least, total = map(known, made)
    return int(least), int(total)
