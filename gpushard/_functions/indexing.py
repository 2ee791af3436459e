"""Reading elements by position: `x[index]`, with arrays of positions and masks in the index.

A mask becomes an array of positions for each of its dims. The host reads only the number of
positions on devices, and whether they are in bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from gpushard._functions.assigned_values import as_element
from gpushard._functions.index_bounds import (
    Positions,
    check_positions,
    has_traced,
    inside,
    unwrapped_positions,
)
from gpushard._functions.index_parsing import ParsedIndex, parse
from gpushard._functions.masks import is_in_place, select_true
from gpushard._functions.nonzero_positions import positions_of_mask
from gpushard._functions.values import Array, sharding_of
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import PartitionSpec
from gpushard._geometry.sharding import Sharding
from gpushard._ops.bind import bind
from gpushard._ops.index_arrays import Indexed, part_shape
from gpushard._ops.table.gather import GATHER
from gpushard._ops.table.manipulation import index as index_part
from gpushard._typing import Shape
from gpushard.dtypes import iinfo, kind_of
from gpushard.errors import ArrayIndexError


def part_of(x: Array, parsed: ParsedIndex, out: Sharding | None = None) -> Array:
    """Select the part of the basic index that comes first."""
    return x if parsed.everything and out is None else index_part(x, parsed.entries, out)


def read(
    x: Array,
    parsed: ParsedIndex,
    arrays: Sequence[Positions],
    mode: str | None = None,
    fill_value: Any = None,
    out: Sharding | None = None,
) -> Array:
    """Select the elements of an index that has arrays in it."""
    if parsed.only_mask and out is None and arrays[0].shape == parsed.of:
        mask = arrays[0]
        if is_in_place(mask, x):
            return cast("Array", select_true(x, mask))
    at, indexed = positions(parsed, arrays, mode, "clip")
    fill = fill_bytes(fill_value, x.dtype) if mode in ("fill", "drop") else b""
    if not parsed.everything:
        x = index_part(x, parsed.entries)
    if out is None and parsed.only_mask and arrays[0].size:
        out = _like_mask(x, indexed, at[0])
    return bind(GATHER, (x, *at), (indexed, fill), out)


def read_at(x: Array, index: Any, out: Sharding | None = None) -> Array:
    """Select the elements of any index."""
    parsed, arrays = parse(x.shape, index)
    return read(x, parsed, arrays, out=out) if arrays else part_of(x, parsed, out)


def fill_bytes(value: Any, dtype: np.dtype[Any]) -> bytes:
    """Convert a fill value to bytes of a dtype; by default that of `jax.numpy.ndarray.at`."""
    if value is None:
        value = True if kind_of(dtype) == "b" else np.nan
        if kind_of(dtype) in "iu":
            value = iinfo(dtype).min if kind_of(dtype) == "i" else iinfo(dtype).max
    element = as_element(np.asarray(value)[()], dtype)
    assert element is not None
    return element.tobytes()


def _like_mask(x: Any, indexed: Indexed, at: Positions) -> Sharding | None:
    """Split the elements that a mask selects evenly over the axes that split the mask.

    Dims that are not masked keep their axes.
    """
    array_sharding, mask = sharding_of(x), sharding_of(at)
    if not isinstance(array_sharding, NamedSharding) or not isinstance(mask, NamedSharding):
        return None
    if array_sharding.mesh != mask.mesh:
        return None
    axes = mask.spec.axes(0)
    before, _, after = indexed.order(x.ndim)
    axes_of_dims = {dim: array_sharding.spec.axes(dim) for dim in (*before, *after)}
    entries = [
        () if set(axes_of_dims[dim]) & set(axes) else axes_of_dims[dim] for dim in (*before, *after)
    ]
    entries.insert(len(before), axes)
    while entries and not entries[-1]:
        entries.pop()
    return array_sharding.with_spec(PartitionSpec(*entries))


def positions(
    parsed: ParsedIndex, arrays: Sequence[Positions], mode: str | None, unknown: str
) -> tuple[list[Positions], Indexed]:
    """Make positions of the arrays of an index, checked; masks become one for each dim.

    Args:
      parsed: the index.
      arrays: its arrays.
      mode: one of `MODES`, or None: positions out of bounds raise. Those on the host are checked at
        no cost, those on devices by a reduction whose result the host reads.
      unknown: the mode for positions that are not checked.

    Returns:
      The positions, and how they index the part of the basic index.
    """
    if mode == "promise_in_bounds" or (mode is None and has_traced(arrays)):
        mode = unknown
    shape, at = parsed.of, list[Positions]()
    for array, is_mask in zip(arrays, parsed.masks, strict=True):
        dim = parsed.dims[len(at)]
        if is_mask:
            at += positions_of_mask(array, shape, dim)
        elif mode is None:
            check_positions(array, shape[dim], dim)
            at.append(array)
        else:
            at.append(inside(array, shape[dim], mode))
    in_bounds = mode in (None, "clip", "wrap")
    indexed = parsed.indexed if in_bounds else parsed.unchecked
    if len(at) > 1:
        selected_shape(indexed, parsed.shape, at)
    return at, indexed


def selected_shape(indexed: Indexed, shape: Shape, at: Sequence[Positions]) -> Shape:
    """Return the shape of the part that index arrays select."""
    shapes = tuple([each.shape for each in at])
    try:
        return part_shape(indexed, shape, shapes)
    except ValueError:
        raise ArrayIndexError(
            f"the index arrays have shapes {', '.join(map(str, shapes))}, which do not broadcast; "
            "aligned at the last axis, lengths must be equal or 1",
            argument="index",
            shapes=shapes,
        ) from None


def unwrapped(
    parsed: ParsedIndex, arrays: Sequence[Positions], mode: str | None
) -> list[Positions]:
    """Move negative positions out of bounds, or to 0 if the mode clips; masks stay as they are."""
    new = list[Positions]()
    dim = 0  # number of the indexed dim
    for array, is_mask in zip(arrays, parsed.masks, strict=True):
        size = 0 if is_mask else parsed.of[parsed.dims[dim]]
        dim += max(array.ndim, 1) if is_mask else 1
        new.append(array if is_mask else unwrapped_positions(array, size, mode))
    return new
