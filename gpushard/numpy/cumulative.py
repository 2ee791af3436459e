"""Running sums, products and the like along a dim.

The dim is made whole first, and the result is split as the array was.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.errors import ArgumentError
from gpushard.functions.checks import as_dtype
from gpushard.numpy.arguments import as_value, refuse_out, settle, wanted
from gpushard.numpy.nan_functions import filled
from gpushard.ops.axes import one_from_end
from gpushard.ops.bind import bind
from gpushard.ops.row import Row
from gpushard.ops.table import movement, scans

ACCUMULATE: dict[np.ufunc, Row] = {
    np.add: scans.CUMSUM,
    np.multiply: scans.CUMPROD,
    np.maximum: scans.CUMMAX,
    np.minimum: scans.CUMMIN,
    np.logical_and: scans.CUMALL,
    np.logical_or: scans.CUMANY,
}
"""The ufuncs whose `accumulate` takes arrays."""


def accumulate(ufunc: np.ufunc, x: Any, axis: Any = 0, dtype: Any = None) -> Any:
    """Do the work of `ufunc.accumulate`.

    Args:
      ufunc: one of `ACCUMULATE`.
      x: an array.
      axis: along which dim.
      dtype: type that is worked in, and of the result.
    """
    x = as_value(x, f"{ufunc.__name__}.accumulate")
    target = None if dtype is None else as_dtype(dtype)
    at = one_from_end(axis, x.ndim, f"{ufunc.__name__}.accumulate")
    return bind(ACCUMULATE[ufunc], (x,), (at, target))


def _flat(name: str, x: Any, axis: Any, dtype: Any, out: Any, to: Any) -> Any:
    """Accumulate along a dim, or in row-major order for None."""
    refuse_out(name, out)
    x = as_value(x, name)
    return settle(getattr(x, name)(axis, dtype, out_sharding=wanted(to, x)), to)


def cumsum(
    a: Any,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return running sums; small integers are summed in 64 bits.

    Args:
      a: an array.
      axis: along which dim; by default in row-major order.
      dtype: type that is summed in, and of the result.
      out: must be None; results are values.
      out_sharding: where the result goes; by default it stays where it was made.

    >>> cumsum([1, 2, 3])
    Array([1, 3, 6], dtype=int64)
    """
    return _flat("cumsum", a, axis, dtype, out, out_sharding)


def cumprod(
    a: Any,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return running products; small integers are multiplied in 64 bits.

    Args:
      a: an array.
      axis: along which dim; by default in row-major order.
      dtype: type that is multiplied in, and of the result.
      out: must be None; results are values.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    return _flat("cumprod", a, axis, dtype, out, out_sharding)


def nancumsum(
    a: Any,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return running sums in which NaNs count as 0.

    Args:
      a: an array.
      axis: along which dim; by default in row-major order.
      dtype: type that is summed in, and of the result.
      out: must be None; results are values.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    return cumsum(filled(a, 0, "nancumsum"), axis, dtype, out, out_sharding=out_sharding)


def nancumprod(
    a: Any,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return running products in which NaNs count as 1.

    Args:
      a: an array.
      axis: along which dim; by default in row-major order.
      dtype: type that is multiplied in, and of the result.
      out: must be None; results are values.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    return cumprod(filled(a, 1, "nancumprod"), axis, dtype, out, out_sharding=out_sharding)


def cumulative_sum(
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    include_initial: bool = False,
    out_sharding: Any = None,
) -> Array:
    """Return running sums along a dim; small integers are summed in 64 bits.

    Args:
      x: an array of at least one dim.
      axis: along which dim; needed unless there is only one.
      dtype: type that is summed in, and of the result.
      out: must be None; results are values.
      include_initial: whether the sum of nothing comes first.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: `axis` is missing.

    >>> cumulative_sum([1, 2, 3], include_initial=True)
    Array([0, 1, 3, 6], dtype=int64)
    """
    refuse_out("cumulative_sum", out)
    return _cumulative(
        "cumulative_sum", scans.CUMSUM, 0, x, axis, dtype, include_initial, out_sharding
    )


def cumulative_prod(
    x: Any,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    include_initial: bool = False,
    out_sharding: Any = None,
) -> Array:
    """Return running products along a dim; small integers are multiplied in 64 bits.

    Args:
      x: an array of at least one dim.
      axis: along which dim; needed unless there is only one.
      dtype: type that is multiplied in, and of the result.
      out: must be None; results are values.
      include_initial: whether the product of nothing comes first.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: `axis` is missing.
    """
    refuse_out("cumulative_prod", out)
    return _cumulative(
        "cumulative_prod", scans.CUMPROD, 1, x, axis, dtype, include_initial, out_sharding
    )


def _cumulative(
    name: str, row: Row, initial: int, x: Any, axis: Any, dtype: Any, included: bool, to: Any
) -> Any:
    x = as_value(x, name)
    if axis is None and x.ndim != 1:
        raise ArgumentError(
            f"{name}: the array of shape {x.shape} has {x.ndim} dims; say along which with axis=",
            argument="axis",
            shape=x.shape,
        )
    at = one_from_end(0 if axis is None else axis, x.ndim, name)
    target = None if dtype is None else as_dtype(dtype)
    found = bind(row, (x,), (at, target), None if included else wanted(to, x))
    if included:
        widths = [(0, 0)] * x.ndim
        widths[at] = (1, 0)
        found = bind(movement.PAD, (found, found.dtype.type(initial)), (tuple(widths),))
    return settle(found, to)
