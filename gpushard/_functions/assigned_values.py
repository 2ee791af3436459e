"""Values that are assigned to a part of an array, converted as NumPy's assignment does.

Numbers are converted with the rules of Python's own ("2.7 becomes 2, 300 does not fit into int8"),
arrays with casting="unsafe". What loses an imaginary part is refused, where NumPy warns.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from gpushard._functions.assigned_placement import is_plain
from gpushard._functions.element_types import check_dtype
from gpushard._functions.values import is_value
from gpushard._ops.aval import Aval
from gpushard._ops.bind import bind
from gpushard._ops.scalars import KINDS, converter
from gpushard._ops.table.elementwise import ASTYPE, ufunc_row
from gpushard._ops.table.manipulation import BROADCAST_TO, RESHAPE
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


def as_new_part(value: Any, shape: Shape, x: Any) -> Any:
    """Convert new values of a part: an element, or data of its shape, or an array of size 1."""
    if not is_value(value):
        element = as_element(value, x.dtype)
        return as_part(value, shape, x.dtype) if element is None else element
    if is_plain(value):
        value._live()  # one that was deleted has a shape still
    value_shape = value.shape
    more = check_broadcasts(value_shape, shape)
    value = converted(value, x.dtype)
    if value_shape != shape and math.prod(value_shape) != 1:
        if more:
            value = bind(RESHAPE, (value,), (value_shape[more:],))
        value = bind(BROADCAST_TO, (value,), (shape,))
    return value


def converted(value: Any, dtype: np.dtype[Any]) -> Any:
    """Convert new values on devices to elements of a dtype."""
    if value.dtype.kind == "c" and dtype.kind != "c":
        raise ArgumentTypeError(
            f"value has dtype {value.dtype} and the array {dtype}: imaginary parts would be lost; "
            "give value.real",
            argument="value",
            dtype=value.dtype,
            expected=dtype,
        )
    if value.dtype == dtype:
        return value
    check_replaced(value, dtype)
    return bind(ASTYPE, (value,), (dtype,))


def as_operand(value: Any, shape: Shape, x: Any, ufunc: np.ufunc | None) -> Any:
    """Convert new values to an operand: not yet broadcast to the part."""
    if is_value(value):
        if is_plain(x) and is_plain(value) and x.committed:
            devices = x.sharding.device_set
            value = value if value.sharding.device_set == devices else value.to_device(x.device)
        value = value if ufunc is not None else converted(value, x.dtype)
        return without_lead(value, len(shape))
    if ufunc is not None:
        return _number_for(ufunc, x, value, len(shape))
    element = as_element(value, x.dtype)
    if element is not None:
        return element
    data = as_part(value, shape, x.dtype)  # of which one element stays where it only repeats
    return data[tuple(slice(0, 1) if step == 0 else slice(None) for step in data.strides)]


def _number_for(ufunc: np.ufunc, x: Any, value: Any, ndim: int) -> Any:
    """Convert numbers on the host as a ufunc takes them beside an array."""
    if type(value) not in KINDS:
        return without_lead(np.asarray(value), ndim)
    row, avals = ufunc_row(ufunc), (Aval(x.shape, x.dtype), KINDS[type(value)])
    return np.asarray(converter(row, row.infer(avals, ()), avals, 1)(value))


def without_lead(value: Any, ndim: int) -> Any:
    """Take first dims of length 1 off an array that are more than a part has."""
    value_shape = getattr(value, "shape", ())
    more = len(value_shape) - ndim
    if more <= 0 or math.prod(value_shape[:more]) != 1:
        return value
    if is_value(value):
        return bind(RESHAPE, (value,), (value_shape[more:],))
    return np.asarray(value).reshape(value_shape[more:])
