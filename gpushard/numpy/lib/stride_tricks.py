"""Windows that slide over arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.shapes import as_shape
from gpushard._ops.axes import from_end
from gpushard._placement.public_functions import public
from gpushard.errors import ArgumentError
from gpushard.numpy.indexing import take
from gpushard.numpy.manipulation import moveaxis

__all__ = ["sliding_window_view"]


@public
def sliding_window_view(
    x: Any,
    window_shape: Any,
    axis: Any = None,
    *,
    subok: bool = False,
    writeable: bool = False,
    out_sharding: Any = None,
) -> Array:
    """Create the windows that slide over an array, in new last axes.

    The result is not a view: every window has its own elements.

    Args:
      window_shape: the size of windows, an integer or one for each axis that they slide along.
      axis: the axes; all by default. An axis may be named several times.
      subok: makes no difference: there are no subclasses.
      writeable: makes no difference: results are values.

    Raises:
      ArgumentError: the number of sizes is not that of the axes, or a window is longer than its
        axis.

    >>> sliding_window_view([1, 2, 3, 4], 2)
    Array([[1, 2],
           [2, 3],
           [3, 4]], dtype=int64)
    """
    sizes = as_shape(window_shape, "window_shape")
    if axis is None:
        axes = tuple(range(x.ndim))
    else:
        dims = axis if isinstance(axis, tuple | list) else (axis,)
        axes = tuple(x.ndim + from_end(dim, x.ndim, "sliding_window_view")[0] for dim in dims)
    if len(sizes) != len(axes):
        raise ArgumentError(
            f"sliding_window_view: window_shape={sizes} has {len(sizes)} sizes for the axes "
            f"{axes}; give one for each",
            argument="window_shape",
            sizes=sizes,
            axis=axes,
        )
    for size, at in zip(sizes, axes, strict=True):
        n = x.shape[at]
        if not 0 < size <= n:
            raise ArgumentError(
                f"sliding_window_view: a window of {size} does not slide along axis {at} of "
                f"length {n}; use 1 to {n}",
                argument="window_shape",
                window=size,
                size=n,
            )
        starts = np.arange(n - size + 1)
        x = moveaxis(take(x, starts[:, None] + np.arange(size), at), at + 1, -1)
    return x
