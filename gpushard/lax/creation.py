"""Functions that create arrays, under the names of `jax.lax`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.element_types import as_dtype
from gpushard._functions.shapes import as_shape
from gpushard._ops.table.creation import ARANGE
from gpushard._placement import creation
from gpushard._placement.creation import create
from gpushard.dtypes import element, iinfo, kind_of
from gpushard.errors import ArgumentTypeError
from gpushard.lax.arguments import dim
from gpushard.lax.shapes import broadcast_in_dim

__all__ = ["broadcasted_iota", "empty", "full", "full_like", "iota"]


def full(shape: Any, fill_value: Any, dtype: Any = None, *, sharding: Any = None) -> Array:
    """Create an array with all elements equal to a value.

    Args:
      shape: the shape.
      fill_value: the value.
      dtype: the dtype; by default that of the value.
      sharding: the sharding of the array; by default it goes where new arrays go.

    >>> full((2,), 7)
    Array([7, 7], dtype=int64)
    """
    return creation.full(shape, fill_value, dtype, out_sharding=sharding)


def full_like(
    x: Any, fill_value: Any, dtype: Any = None, shape: Any = None, sharding: Any = None
) -> Array:
    """Create an array with all elements equal to a value, like another array.

    Args:
      x: the other array.
      fill_value: the value.
      dtype: the dtype; by default that of `x`.
      shape: the shape; by default that of `x`. If the number of axes differs from that of `x`,
        every device of `x` gets the whole array.
      sharding: the sharding of the array; by default that of `x`.

    >>> import gpushard as gs
    >>> full_like(gs.numpy.arange(2), 7)
    Array([7, 7], dtype=int64)
    """
    return creation.full_like(x, fill_value, dtype, shape=shape, out_sharding=sharding)


def empty(shape: Any, dtype: Any, *, out_sharding: Any = None) -> Array:
    """Create an array of zeros, for code that will assign all elements.

    Args:
      shape: the shape.
      dtype: the dtype.
      out_sharding: the sharding of the array; by default it goes where new arrays go.

    >>> empty((2,), int).shape
    (2,)
    """
    return creation.empty(shape, dtype, out_sharding=out_sharding)


def iota(dtype: Any, size: int) -> Array:
    """Create a vector of 0, 1, 2, ...; numbers wrap around after the greatest integer of the dtype.

    Args:
      dtype: the dtype.
      size: the length.

    >>> iota("int8", 3)
    Array([0, 1, 2], dtype=int8)
    """
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype: Any, shape: Any, dimension: int, *, out_sharding: Any = None) -> Array:
    """Create an array of the position of each element along one dimension.

    Args:
      dtype: the dtype.
      shape: the shape.
      dimension: the dimension.
      out_sharding: the sharding of the array; by default it goes where new arrays go.

    Raises:
      ArgumentTypeError: the dtype is boolean.

    >>> broadcasted_iota(int, (2, 3), 1)
    Array([[0, 1, 2],
           [0, 1, 2]], dtype=int64)
    """
    shape, dtype = as_shape(shape), as_dtype(dtype)
    if dtype == np.bool_:
        raise ArgumentTypeError.refusing(
            "dtype", dtype, "has no numbers to count with; use int8", "lax.broadcasted_iota"
        )
    at = dim("broadcasted_iota", dimension, len(shape), "dimension")
    beyond = kind_of(dtype) in "iu" and shape[at] - 1 > iinfo(dtype).max
    counted = np.dtype(np.int64) if beyond else dtype
    ends = element(0, counted), element(min(1, shape[at]), counted)
    place = out_sharding if len(shape) == 1 else None
    line = create(ARANGE, (shape[at],), counted, ends, place).astype(dtype)
    if len(shape) == 1:
        return line
    return broadcast_in_dim(line, shape, (at,), out_sharding=out_sharding)
