"""`x[index] = value` and `x.at[index]` with arrays in the index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from gpushard.array.selection import entries_of, is_mask, is_on_devices, select
from gpushard.array.shard import Shards
from gpushard.errors import ArgumentTypeError
from gpushard.functions.host_values import as_element, as_part
from gpushard.geometry.sharding import Sharding
from gpushard.ops.aval import Aval
from gpushard.ops.bind import bind
from gpushard.ops.indexed import Indexed
from gpushard.ops.indexing import parse_index
from gpushard.ops.scalars import KINDS, converter
from gpushard.ops.table.elementwise import ASTYPE, WHERE, ufunc_row
from gpushard.ops.table.movement import RESHAPE
from gpushard.ops.table.movement import index as index_part
from gpushard.ops.table.scatter import SCATTER
from gpushard.typing import HostArray, Shape

if TYPE_CHECKING:
    from gpushard.array.array import Array


def updated(
    x: Array, index: Any, value: Any, ufunc: np.ufunc | None = None, mode: str | None = None
) -> tuple[Any, Array]:
    """Return a part of an array with elements replaced, or combined with values.

    Args:
      x: the array, which stays as it is.
      index: as NumPy takes it, with arrays in it.
      value: a number or an array; it is broadcast.
      ufunc: what combines elements with values, as its `at` does; None to replace them.
      mode: one of `selection.MODES`, or None to raise where positions are out of bounds.

    Returns:
      The basic index of the part, `...` for all of the array; and its new value.

    Raises:
      ArrayIndexError: it is no index of the array, or a position is out of bounds.
      ArgumentError: the value does not broadcast to the part.
      ArgumentTypeError: the value cannot be converted.
      ArgumentRangeError: a Python integer does not fit.
    """
    mask = _only_mask(x.shape, index)
    if mask is not None:
        rest = x.shape[mask.ndim :]
        alike = _same_for_all(value, rest)
        if alike is not None:
            return ..., _where(x, mask, alike, rest, ufunc)
    selection = select(x, index, "drop" if mode == "promise_in_bounds" else mode)
    part = x
    if selection.basic is not None:
        part = index_part(x, parse_index(x.shape, selection.basic))
    out = mask.sharding if mask is not None and follows(x, mask) else None
    made = scattered(part, selection.indexed, selection.arrays, value, selection.shape, ufunc, out)
    return ... if selection.basic is None else selection.basic, made


def scattered(
    x: Array,
    indexed: Indexed,
    arrays: Sequence[Any],
    value: Any,
    shape: Shape,
    ufunc: np.ufunc | None = None,
    out: Sharding | None = None,
) -> Array:
    """Return an array with elements replaced, or combined with values, where index arrays say.

    Args:
      x: the array, which stays as it is.
      indexed: how it is indexed.
      arrays: the index arrays, checked.
      value: a number or an array.
      shape: of what is selected.
      ufunc: as for `updated`.
      out: how the result is laid out; by default like the array, unless that follows others.

    Raises:
      ArgumentError: the value does not broadcast to the part.
      ArgumentTypeError: the value cannot be converted.
      ArgumentRangeError: a Python integer does not fit.
    """
    new, out = as_operand(value, shape, x, ufunc), out or stays(x, value, *arrays)
    return cast("Array", bind(SCATTER, (x, new, *arrays), (indexed, ufunc), out))


def follows(x: Array, *others: Any) -> bool:
    """Whether an array goes to where others lie that are assigned to it, or that index it.

    It does if nobody chose its devices, and somebody chose theirs, which are not the same. What has
    no dims has no say, as in other operations.
    """
    return not x.committed and any(
        isinstance(one, Shards)
        and cast("Array", one).committed
        and cast("Array", one).ndim > 0
        and cast("Array", one).sharding.device_set != x.sharding.device_set
        for one in others
    )


def stays(x: Array, *others: Any) -> Sharding | None:
    """Return the sharding of an array that is assigned to; None if it follows others."""
    return None if follows(x, *others) else x.sharding


def _only_mask(shape: Shape, index: Any) -> Any:
    """Return the mask of an index that has one for its first dims, and nothing else; else None."""
    entries = entries_of(shape, index)
    first, *others = entries
    if not is_mask(first) or not first.ndim or first.shape != shape[: first.ndim]:
        return None
    rest = all(e is Ellipsis or (isinstance(e, slice) and e == slice(None)) for e in others)
    return first if rest else None


def _same_for_all(value: Any, rest: Shape) -> Any:
    """Return a value without its first dims if it is the same for all that a mask selects.

    Otherwise None: how many these are has to be known.
    """
    try:
        own = value.shape if hasattr(value, "shape") else np.shape(value)
        more = max(len(own) - len(rest), 0)
        if set(own[:more]) - {1} or np.broadcast_shapes(own[more:], rest) != rest:
            return None
    except ValueError:  # or lists of different lengths
        return None
    return _without_lead(value, len(rest))


def _where(x: Array, mask: Any, value: Any, rest: Shape, ufunc: np.ufunc | None) -> Array:
    """Return an array with what a mask selects replaced, where it lies; no position is known."""
    if ufunc is None:
        new = as_operand(value, rest, x, None)
    else:
        if isinstance(value, list | tuple):
            value = _without_lead(np.asarray(value), len(rest))
        new = converted(bind(ufunc_row(ufunc), (x, value)), x.dtype)
    if is_on_devices(mask):
        entries = tuple((0, 1, n) for n in mask.shape) + (None,) * len(rest)
        mask = index_part(mask, entries) if rest else mask
    else:
        mask = mask.reshape(mask.shape + (1,) * len(rest))
    return cast("Array", bind(WHERE, (mask, new, x), (), stays(x, mask, value)))


def converted(value: Array, dtype: np.dtype[Any]) -> Array:
    """Return new values on devices as elements of a dtype.

    Raises:
      ArgumentTypeError: complex numbers would lose their imaginary part.
    """
    if value.dtype.kind == "c" and dtype.kind != "c":
        raise ArgumentTypeError(
            f"value has dtype {value.dtype} and the array {dtype}: imaginary parts would be lost; "
            "give value.real",
            argument="value",
            dtype=value.dtype,
            expected=dtype,
        )
    return value if value.dtype == dtype else bind(ASTYPE, (value,), (dtype,))


def as_operand(value: Any, shape: Shape, x: Array, ufunc: np.ufunc | None) -> Any:
    """Return new values as an operand: not yet broadcast to the part."""
    if is_on_devices(value):
        if x.committed and value.sharding.device_set != x.sharding.device_set:
            value = value.to_device(x.device)
        value = value if ufunc is not None else converted(value, x.dtype)
        return _without_lead(value, len(shape))
    if ufunc is not None:
        return _number_for(ufunc, x, value, len(shape))
    element = as_element(value, x.dtype)
    return narrow(as_part(value, shape, x.dtype)) if element is None else element


def _number_for(ufunc: np.ufunc, x: Array, value: Any, ndim: int) -> Any:
    """Return numbers on the host as a ufunc takes them beside an array."""
    if type(value) not in KINDS:
        return _without_lead(np.asarray(value), ndim)
    row, avals = ufunc_row(ufunc), (Aval(x.shape, x.dtype), KINDS[type(value)])
    return np.asarray(converter(row, row.infer(avals, ()), avals, 1)(value))


def _without_lead(value: Any, ndim: int) -> Any:
    """Return an array without first dims of length 1 that are more than a part has."""
    own = getattr(value, "shape", ())
    more = len(own) - ndim
    if more <= 0 or math.prod(own[:more]) != 1:
        return value
    if is_on_devices(value):
        return bind(RESHAPE, (value,), (own[more:],))
    return np.asarray(value).reshape(own[more:])


def narrow(data: HostArray) -> HostArray:
    """Return host data with length 1 along dims in which it only repeats."""
    return data[tuple(slice(0, 1) if step == 0 else slice(None) for step in data.strides)]
