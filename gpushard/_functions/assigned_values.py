"""Values of the host that are assigned to a part of an array, converted as NumPy's assignment does.

Numbers are converted with the rules of Python's own ("2.7 becomes 2, 300 does not fit into int8"),
arrays with casting="unsafe". What loses an imaginary part is refused, where NumPy warns.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from gpushard._functions.element_types import check_dtype
from gpushard._typing import HostArray, Shape
from gpushard.dtypes import kind_of, prng_key
from gpushard.errors import ArgumentError, ArgumentRangeError, ArgumentTypeError

_PLAIN = (int, float, bool)
_REAL = "iuf"


def as_element(value: Any, dtype: np.dtype[Any]) -> np.generic | None:
    """Convert a number to an element of a dtype; None if the value is not a number."""
    if type(value) not in _PLAIN:
        if not isinstance(value, np.generic | int | float | complex):
            return None
        _check_kind(np.asarray(value).dtype, dtype)
    check_replaced(value, dtype)
    element: Any = _converted(value, dtype, ())[()]
    return cast("np.generic", element)


def as_part(value: Any, shape: Shape, dtype: np.dtype[Any]) -> HostArray:
    """Convert data that `numpy.asarray` takes to the shape and dtype of a part; maybe a view."""
    check_replaced(value, dtype)
    array = _as_array(value)
    if kind_of(array.dtype) == "O" and all(type(entry) is int for entry in array.flat):
        array = np.empty(array.shape, dtype)  # integers of any size, for the shape
    _check_kind(array.dtype, dtype)
    if hasattr(value, "__array__"):
        converted = array.astype(dtype, copy=False)
    else:
        converted = _converted(value, dtype, array.shape)
    if array.shape == shape:
        return converted
    more = check_broadcasts(array.shape, shape)
    return np.broadcast_to(converted.reshape(array.shape[more:]), shape)


def check_replaced(value: Any, dtype: np.dtype[Any]) -> None:
    """Check that no number is assigned to a random key."""
    if dtype.type is prng_key:
        raise ArgumentTypeError(
            f"value is a {type(value).__name__}; keys are replaced by keys",
            argument="value",
            type=type(value),
        )


def check_broadcasts(value_shape: Shape, shape: Shape) -> int:
    """Check that a shape broadcasts to that of a part; return the number of surplus first dims."""
    more = max(len(value_shape) - len(shape), 0)
    try:
        if (
            not set(value_shape[:more]) - {1}
            and np.broadcast_shapes(value_shape[more:], shape) == shape
        ):
            return more
    except ValueError:
        pass
    raise ArgumentError(
        f"value has shape {value_shape} and the part of the array {shape}: it cannot be broadcast; "
        "give a value of the part's shape",
        argument="value",
        shape=value_shape,
        expected=shape,
    )


def _as_array(value: Any) -> HostArray:
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentTypeError(
            "value is a masked array, whose mask would be lost; assign value.filled(number)",
            argument="value",
            type=type(value),
        )
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ArgumentError(
            f"value is no array: {error}; give numbers, or nested lists of them of one length",
            argument="value",
        ) from None
    return array


def _check_kind(value_dtype: np.dtype[Any], dtype: np.dtype[Any]) -> None:
    check_dtype(value_dtype, "value")
    if kind_of(value_dtype) == "c" and kind_of(dtype) in _REAL:
        raise ArgumentTypeError(
            f"value has dtype {value_dtype} and the array {dtype}, which would lose the imaginary "
            "parts; assign value.real",
            argument="value",
            dtype=value_dtype,
            expected=dtype,
        )


def _converted(value: Any, dtype: np.dtype[Any], shape: Shape) -> HostArray:
    """Convert Python numbers as NumPy does when it assigns them."""
    array = np.empty(shape, dtype)
    try:
        array[...] = value
    except OverflowError as error:
        raise ArgumentRangeError(
            f"value does not fit into dtype {dtype}: {error}; convert it, or give an array of "
            "another dtype",
            argument="value",
            dtype=dtype,
        ) from None
    except (TypeError, ValueError) as error:
        kind = ArgumentTypeError if isinstance(error, TypeError) else ArgumentError
        raise kind(
            f"value cannot be converted to dtype {dtype}: {error}; give numbers of that dtype",
            argument="value",
            dtype=dtype,
        ) from None
    return array
