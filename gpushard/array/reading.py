"""`x[index]` with arrays in the index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from gpushard.array.masks import is_in_place, select_true
from gpushard.array.selection import Selection, is_on_devices, select
from gpushard.dtypes import iinfo, kind_of
from gpushard.functions.host_values import as_element
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import PartitionSpec
from gpushard.geometry.sharding import Sharding
from gpushard.ops.bind import bind
from gpushard.ops.indexing import parse_index
from gpushard.ops.table.gather import GATHER
from gpushard.ops.table.movement import index as index_part

if TYPE_CHECKING:
    from gpushard.array.array import Array


def read_part(
    x: Array,
    index: Any,
    mode: str | None = None,
    fill_value: Any = None,
    out_sharding: Sharding | None = None,
) -> Array:
    """Return what an index with arrays in it selects.

    Args:
      x: the array.
      index: as NumPy takes it.
      mode: one of `selection.MODES`, or None to raise where positions are out of bounds.
      fill_value: what these get with "fill"; NaN or the extreme of integers by default.
      out_sharding: how the result is laid out; by default as it comes, and split like the mask if
        there is one.

    Raises:
      ArrayIndexError: it is no index of the array, or a position is out of bounds.
    """
    mask = index[0] if isinstance(index, tuple) and len(index) == 1 else index
    if out_sharding is None and getattr(mask, "shape", None) == x.shape and is_in_place(mask, x):
        found = select_true(x, mask)
        if found is not None:
            return cast("Array", found)
    selection = select(x, index, "clip" if mode == "promise_in_bounds" else mode)
    fill = fill_bytes(fill_value, x.dtype) if mode in ("fill", "drop") else b""
    if selection.basic is not None:
        x = index_part(x, parse_index(x.shape, selection.basic))
    out = _like_mask(x, selection) if out_sharding is None else out_sharding
    return cast("Array", bind(GATHER, (x, *selection.arrays), (selection.indexed, fill), out))


def fill_bytes(value: Any, dtype: np.dtype[Any]) -> bytes:
    """Return the bytes of a fill value; by default that of `jax.numpy.ndarray.at`."""
    if value is None:
        value = True if kind_of(dtype) == "b" else np.nan
        if kind_of(dtype) in "iu":
            value = iinfo(dtype).min if kind_of(dtype) == "i" else iinfo(dtype).max
    element = as_element(np.asarray(value)[()], dtype)
    assert element is not None
    return element.tobytes()


def _like_mask(x: Array, selection: Selection) -> Sharding | None:
    """Return the sharding of what a mask selects: split evenly over the axes that split the mask.

    Dims that are not masked keep their axes.
    """
    if not selection.masked or not is_on_devices(selection.arrays[0]):
        return None
    own, mask = x.sharding, selection.arrays[0].sharding
    if not isinstance(own, NamedSharding) or not isinstance(mask, NamedSharding):
        return None
    if own.mesh != mask.mesh:
        return None
    axes = mask.spec.axes(0)
    before, _, after = selection.indexed.order(x.ndim)
    kept = {dim: own.spec.axes(dim) for dim in (*before, *after)}
    entries = [() if set(kept[dim]) & set(axes) else kept[dim] for dim in (*before, *after)]
    entries.insert(len(before), axes)
    while entries and not entries[-1]:
        entries.pop()
    return own.with_spec(PartitionSpec(*(entry or None for entry in entries)))
