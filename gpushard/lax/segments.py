"""Reductions of the segments of an array, under the names of `jax.ops`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from gpushard._array import Array
from gpushard._functions import reductions
from gpushard._functions.argument_checks import count
from gpushard._functions.docstrings import named
from gpushard._functions.host_reads import concrete
from gpushard._functions.values import is_value
from gpushard._placement.arguments import as_value, host_data, settle
from gpushard._placement.creation import full
from gpushard.dtypes import iinfo, kind_of
from gpushard.errors import ArgumentTypeError

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]

_DETAILS = """

Args:
  data: an array; each slice along its first axis belongs to a segment.
  segment_ids: the number of the segment of each slice, a vector of integers in any order.
  num_segments: the number of segments. By default the greatest id plus 1, and the host waits to
    read it.
  indices_are_sorted: ignored.
  unique_indices: ignored.
  bucket_size: ignored.
  mode: what to do with slices with a negative or too large id. "drop" (also None) omits them,
    "clip" puts them into the first or the last segment.
  out_sharding: the sharding or `PartitionSpec` of the result; gpushard chooses by default.

Returns:
  An array with a slice for each segment; a segment without slices gets {empty}.

Raises:
  ArgumentTypeError: ids are not integers, or the elements of `data` are booleans.
"""


class SegmentReduction(Protocol):
    """A reduction of each segment of an array."""

    def __call__(
        self,
        data: Any,
        segment_ids: Any,
        num_segments: int | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        bucket_size: int | None = None,
        mode: str | None = None,
        out_sharding: Any = None,
    ) -> Array:
        """Compute the reduction of each segment."""


def _segments(
    name: str, method: str, neutral: Callable[[np.dtype[Any]], Any], empty: str, text: str
) -> SegmentReduction:
    def function(
        data: Any,
        segment_ids: Any,
        num_segments: int | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        bucket_size: int | None = None,
        mode: str | None = None,
        out_sharding: Any = None,
    ) -> Array:
        values = as_value(data, name)
        ids = _ids(name, segment_ids)
        if kind_of(values.dtype) == "b" and method in ("add", "multiply"):
            raise ArgumentTypeError(
                f"{name}: data has dtype bool; convert it with data.astype(int)",
                argument="data",
                dtype=values.dtype,
            )
        length = _number(name, ids) if num_segments is None else num_segments
        shape = (count(length, name, "num_segments"), *values.shape[1:])
        none = full(shape, neutral(values.dtype), dtype=values.dtype)
        reduce = getattr(none.at[ids], method)
        segments: Array = reduce(values, mode=mode or "drop", wrap_negative_indices=False)
        return settle(segments, out_sharding)

    return named(function, name, text + _DETAILS.format(empty=empty))


def _ids(name: str, segment_ids: Any) -> Any:
    ids = segment_ids if is_value(segment_ids) else host_data(segment_ids, name)
    if kind_of(ids.dtype) not in "iu" and ids.size:
        raise ArgumentTypeError(
            f"{name}: segment_ids have dtype {ids.dtype}; give integers",
            argument="segment_ids",
            dtype=ids.dtype,
        )
    return ids if ids.size else ids.astype(np.int64)


def _number(name: str, ids: Any) -> int:
    """Read the number of segments on the host."""
    if not ids.size:
        return 0
    greatest = concrete(reductions.max(ids), name) if is_value(ids) else ids.max()
    return max(int(greatest) + 1, 0)


def _least(dtype: np.dtype[Any]) -> Any:
    kind = kind_of(dtype)
    return iinfo(dtype).min if kind in "iu" else False if kind == "b" else -np.inf


def _greatest(dtype: np.dtype[Any]) -> Any:
    kind = kind_of(dtype)
    return iinfo(dtype).max if kind in "iu" else True if kind == "b" else np.inf


segment_sum = _segments(
    "segment_sum", "add", lambda dtype: 0, "zeros", "Sum the slices of each segment."
)
segment_prod = _segments(
    "segment_prod", "multiply", lambda dtype: 1, "ones", "Multiply the slices of each segment."
)
segment_max = _segments(
    "segment_max", "max", _least, "the least number of the type",
    "Compute the maximum over the slices of each segment, element by element.",
)  # fmt: skip
segment_min = _segments(
    "segment_min", "min", _greatest, "the greatest number of the type",
    "Compute the minimum over the slices of each segment, element by element.",
)  # fmt: skip
