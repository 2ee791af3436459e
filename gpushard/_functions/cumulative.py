"""Cumulative sums, products and the like along an axis.

Each device gets the whole axis first; the result is split as the array was.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._functions.argument_checks import refuse_out
from gpushard._functions.element_types import as_dtype
from gpushard._functions.sorting import along
from gpushard._functions.values import Array
from gpushard._geometry.sharding import Sharding
from gpushard._ops.bind import bind
from gpushard._ops.row import Row
from gpushard._ops.table import cumulative as rows
from gpushard._ops.table import manipulation
from gpushard.errors import ArgumentError

ACCUMULATE: dict[np.ufunc, Row] = {
    np.add: rows.CUMSUM,
    np.multiply: rows.CUMPROD,
    np.maximum: rows.CUMMAX,
    np.minimum: rows.CUMMIN,
    np.logical_and: rows.CUMALL,
    np.logical_or: rows.CUMANY,
}
"""The ufuncs whose `accumulate` takes arrays."""


def accumulate(ufunc: np.ufunc, x: Any, axis: Any = 0, dtype: Any = None) -> Any:
    """Do the work of `ufunc.accumulate`."""
    return _along(ACCUMULATE[ufunc], x, axis, dtype, name=f"{ufunc.__name__}.accumulate")


def cumsum(
    a: Array, axis: Any = None, dtype: Any = None, out: Any = None, *, out_sharding: Any = None
) -> Array:
    """Compute cumulative sums; integers of fewer than 64 bits are summed in 64 bits.

    Args:
      axis: the axis; by default the array is flattened in row-major order.
      dtype: the dtype of the result, in which elements are added.

    >>> import gpushard as gs
    >>> cumsum(gs.numpy.asarray([1, 2, 3]))
    Array([1, 3, 6], dtype=int64)
    """
    refuse_out("cumsum", out)
    return _along(rows.CUMSUM, a, axis, dtype, out_sharding)


def cumprod(
    a: Array, axis: Any = None, dtype: Any = None, out: Any = None, *, out_sharding: Any = None
) -> Array:
    """Compute cumulative products; integers of fewer than 64 bits are multiplied in 64 bits.

    Args:
      axis: the axis; by default the array is flattened in row-major order.
      dtype: the dtype of the result, in which elements are multiplied.
    """
    refuse_out("cumprod", out)
    return _along(rows.CUMPROD, a, axis, dtype, out_sharding)


def cumulative_sum(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    include_initial: bool = False,
    out_sharding: Any = None,
) -> Array:
    """Compute cumulative sums along an axis; integers of fewer than 64 bits are summed in 64 bits.

    Args:
      x: an array of at least one axis.
      axis: the axis; you may leave it out if the array has only one.
      dtype: the dtype of the result, in which elements are added.
      include_initial: whether the result begins with an additional 0, the sum of no elements.

    Raises:
      ArgumentError: `axis` is None, and the array has several axes.

    >>> import gpushard as gs
    >>> cumulative_sum(gs.numpy.asarray([1, 2, 3]), include_initial=True)
    Array([0, 1, 3, 6], dtype=int64)
    """
    how = axis, dtype, out, include_initial, out_sharding
    return _cumulative("cumulative_sum", rows.CUMSUM, 0, x, *how)


def cumulative_prod(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    include_initial: bool = False,
    out_sharding: Any = None,
) -> Array:
    """Compute cumulative products along an axis; integers are multiplied in 64 bits.

    Args:
      x: an array of at least one axis.
      axis: the axis; you may leave it out if the array has only one.
      dtype: the dtype of the result, in which elements are multiplied.
      include_initial: whether the result begins with an additional 1, the product of no elements.

    Raises:
      ArgumentError: `axis` is None, and the array has several axes.
    """
    how = axis, dtype, out, include_initial, out_sharding
    return _cumulative("cumulative_prod", rows.CUMPROD, 1, x, *how)


def _along(
    row: Row, x: Any, axis: Any, dtype: Any, to: Sharding | None = None, name: str | None = None
) -> Any:
    x, at = along(name or row.name, x, axis)
    return bind(row, (x,), (at, None if dtype is None else as_dtype(dtype)), to)


def _cumulative(
    name: str,
    row: Row,
    initial: int,
    x: Any,
    axis: Any,
    dtype: Any,
    out: Any,
    include_initial: bool,
    to: Sharding | None,
) -> Any:
    refuse_out(name, out)
    if axis is None and x.ndim != 1:
        raise ArgumentError(
            f"{name}: the array of shape {x.shape} has {x.ndim} axes; choose one with "
            "axis=, or use x.ravel()",
            argument="axis",
            shape=x.shape,
        )
    axis = 0 if axis is None else axis
    running = _along(row, x, axis, dtype, None if include_initial else to, name)
    if not include_initial:
        return running
    widths = [(0, 0)] * x.ndim
    widths[axis] = (1, 0)
    operands = running, running.dtype.type(initial)
    return bind(manipulation.PAD, operands, (tuple(widths),), to)
