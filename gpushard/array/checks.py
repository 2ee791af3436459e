"""Checks that arguments of several functions share: shapes, dtypes and placements."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.geometry.sharding import Sharding
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import devices_of
from gpushard.typing import Shape


def as_shape(shape: Any, argument: str = "shape") -> Shape:
    """Return a shape as a tuple of non-negative integers.

    Raises:
      ArgumentTypeError: it is not made of integers.
      ArgumentError: a size is negative.

    >>> as_shape([2, 3]), as_shape(4)
    ((2, 3), (4,))
    """
    try:
        sizes = (shape,) if np.ndim(shape) == 0 else tuple(shape)
        result = tuple(int(size.__index__()) for size in sizes)
    except (TypeError, AttributeError, ValueError):
        raise ArgumentTypeError(
            f"{argument}={shape!r} must be a tuple of integers", argument=argument, value=shape
        ) from None
    if any(size < 0 for size in result):
        raise ArgumentError(
            f"{argument}={result} has a negative size; sizes start at 0",
            argument=argument,
            value=result,
        )
    return result


def as_dtype(dtype: Any, argument: str = "dtype") -> np.dtype[Any]:
    """Return a numeric dtype in native byte order.

    Raises:
      ArgumentTypeError: it is no dtype, or not one of numbers.

    >>> as_dtype("f4")
    dtype('float32')
    """
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        raise ArgumentTypeError(
            f"{argument}={dtype!r} is no dtype; use one of NumPy's, such as 'float32'",
            argument=argument,
            value=dtype,
        ) from None
    return check_dtype(found, argument)


def check_dtype(dtype: np.dtype[Any], argument: str) -> np.dtype[Any]:
    """Return a numeric dtype in native byte order.

    Raises:
      ArgumentTypeError: elements are not booleans or numbers.

    >>> check_dtype(np.dtype(">f4"), "x")
    dtype('float32')
    """
    custom = dtype.isbuiltin == 2  # registered with NumPy by others, such as bfloat16
    if dtype.kind not in "?biufc" and not custom:
        raise ArgumentTypeError(
            f"{argument} has dtype {dtype}; arrays hold booleans, integers, floats or complex "
            "numbers. Convert it first",
            argument=argument,
            dtype=dtype,
        )
    return dtype.newbyteorder("=") if not dtype.isnative else dtype


def place_tiling(sharding: Sharding, shape: Shape) -> Tiling:
    """Return the tiling of an array that is about to be made.

    Raises:
      ShardingError: the sharding does not fit the shape.
    """
    tiling = sharding.tiling(shape)
    devices_of(tiling)
    return tiling
