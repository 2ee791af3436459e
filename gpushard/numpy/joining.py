"""Functions that join arrays, and take them apart.

Types are promoted first, and shapes checked, before anything moves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.functions.checks import as_dtype
from gpushard.numpy.arguments import as_value, host_data, is_value, refuse_out, settle
from gpushard.numpy.data_type import can_cast, result_type
from gpushard.numpy.public import public
from gpushard.ops.axes import one_from_end
from gpushard.ops.bind import bind
from gpushard.ops.table import movement


def _joined(arrays: Any, name: str, dtype: Any = None, casting: str = "same_kind") -> list[Any]:
    """Return arrays that are to be joined, converted to one type.

    Raises:
      ArgumentError: there are none.
      ArgumentTypeError: they are no sequence, or have no common type.
    """
    if is_value(arrays):
        arrays = list(arrays)
    if not isinstance(arrays, list | tuple | np.ndarray):
        raise ArgumentTypeError(
            f"{name}: arrays={arrays!r} must be a sequence of arrays",
            argument="arrays",
            type=type(arrays),
        )
    if not len(arrays):
        raise ArgumentError(f"{name} got no arrays; give at least one", argument="arrays")
    found = [x if is_value(x) else host_data(x, name) for x in arrays]
    if not any(map(is_value, found)):
        found = [as_value(x, name) for x in found]
    first = found[0].dtype
    if dtype is None and casting == "same_kind" and all(x.dtype == first for x in found):
        return found  # of keys, too
    common = result_type(*found)
    target = common if dtype is None else as_dtype(dtype)
    if not can_cast(common, target, casting):
        raise ArgumentTypeError(
            f"{name}: arrays of {common} do not become dtype={target} under casting={casting!r}; "
            "convert them with astype",
            argument="dtype",
            dtype=target,
        )
    return [x if x.dtype == target else x.astype(target) for x in found]


def concat(
    arrays: Any,
    axis: int | None = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
    out_sharding: Any = None,
) -> Array:
    """Return arrays joined along a dim that they have.

    Args:
      arrays: a sequence of arrays of equal sizes in the other dims.
      axis: which dim; None joins their elements in row-major order.
      out: must be None; results are values.
      dtype: type of the result; what their types promote to by default.
      casting: which conversions to `dtype` are fine.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: there are no arrays, or sizes differ.
    """
    refuse_out("concat", out)
    found = _joined(arrays, "concat", dtype, casting)
    if axis is None:
        found, axis = [x.ravel() for x in found], 0
    first = found[0].shape
    if not first:
        raise ArgumentError(
            "concat: arrays without dims cannot be joined along one; use stack, or axis=None",
            argument="arrays",
            shapes=tuple(x.shape for x in found),
        )
    at = one_from_end(axis, len(first), "concat")
    for x in found[1:]:
        same = len(x.shape) == len(first) and all(
            x.shape[dim] == first[dim] for dim in range(-len(first), 0) if dim != at
        )
        if not same:
            raise ArgumentError(
                f"concat: arrays of shapes {first} and {x.shape} do not fit along axis={axis}; "
                "sizes must be equal in all other dims",
                argument="arrays",
                shapes=tuple(one.shape for one in found),
                axis=axis,
            )
    return settle(bind(movement.CONCATENATE, found, (at,)), out_sharding)


concatenate = concat


def stack(
    arrays: Any,
    axis: int = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
    out_sharding: Any = None,
) -> Array:
    """Return arrays of one shape joined along a new dim.

    Args:
      arrays: a sequence of arrays.
      axis: where the new dim is in the result.
      out: must be None; results are values.
      dtype: type of the result; what their types promote to by default.
      casting: which conversions to `dtype` are fine.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: there are no arrays, or shapes differ.
    """
    refuse_out("stack", out)
    found = _joined(arrays, "stack", dtype, casting)
    shapes = [x.shape for x in found]
    if len(set(shapes)) > 1:
        other = next(shape for shape in shapes if shape != shapes[0])
        raise ArgumentError(
            f"stack: arrays have shapes {shapes[0]} and {other}; all must have one",
            argument="arrays",
            shapes=tuple(shapes),
        )
    at = one_from_end(axis, len(shapes[0]) + 1, "stack")
    return settle(bind(movement.STACK, found, (at,)), out_sharding)


@public
def unstack(x: Any, /, *, axis: int = 0, out_sharding: Any = None) -> tuple[Array, ...]:
    """Return a tuple of the parts along a dim, without it.

    Args:
      x: an array of at least one dim.
      axis: which dim.
      out_sharding: where the results go; by default they stay where they were made.
    """
    at = one_from_end(axis, x.ndim, "unstack")
    lead = (slice(None),) * (x.ndim + at)
    return tuple(x[(*lead, i)] for i in range(x.shape[at]))


def _raised(
    arrays: Any, ndim: int, name: str, dtype: Any = None, casting: str = "same_kind"
) -> list[Any]:
    """Return arrays with at least some dims, new ones first, of one type."""
    found = _joined(arrays, name, dtype, casting)
    return [x if x.ndim >= ndim else x.reshape((1,) * (ndim - x.ndim) + x.shape) for x in found]


def vstack(
    tup: Any, *, dtype: Any = None, casting: str = "same_kind", out_sharding: Any = None
) -> Array:
    """Return arrays joined along the first dim; vectors count as rows.

    Args:
      tup: a sequence of arrays.
      dtype: type of the result; what their types promote to by default.
      casting: which conversions to `dtype` are fine.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    return concat(_raised(tup, 2, "vstack", dtype, casting), 0, out_sharding=out_sharding)


def hstack(
    tup: Any, *, dtype: Any = None, casting: str = "same_kind", out_sharding: Any = None
) -> Array:
    """Return arrays joined along the second dim; vectors along their only one.

    Args:
      tup: a sequence of arrays.
      dtype: type of the result; what their types promote to by default.
      casting: which conversions to `dtype` are fine.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    found = _raised(tup, 1, "hstack", dtype, casting)
    axis = 0 if found[0].ndim == 1 else 1
    return concat(found, axis, out_sharding=out_sharding)


def dstack(tup: Any, *, dtype: Any = None, out_sharding: Any = None) -> Array:
    """Return arrays joined along the third dim; vectors count as rows, and matrices get a third.

    Args:
      tup: a sequence of arrays.
      dtype: type of the result; what their types promote to by default.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    found = _raised(tup, 2, "dstack", dtype)
    deep = [x if x.ndim > 2 else x.reshape((*x.shape, 1)) for x in found]
    return concat(deep, 2, out_sharding=out_sharding)


def column_stack(tup: Any, *, out_sharding: Any = None) -> Array:
    """Return arrays joined along the second dim; vectors count as columns.

    Args:
      tup: a sequence of arrays.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    found = _joined(tup, "column_stack")
    columns = [x if x.ndim > 1 else x.reshape((-1, 1)) for x in found]
    return concat(columns, 1, out_sharding=out_sharding)
