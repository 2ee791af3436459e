"""Read dtypes and numbers that callers give, as types of elements and elements of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.dtypes import NAMES, element, is_installed, kind_of, named
from gpushard.errors import ArgumentRangeError, ArgumentTypeError


def as_dtype(dtype: Any, argument: str = "dtype") -> np.dtype[Any]:
    """Return a numeric dtype in native byte order.

    >>> as_dtype("f4")
    dtype('float32')
    """
    try:
        known = isinstance(dtype, str) and dtype in NAMES and is_installed()
        checked: np.dtype[Any] = np.dtype(named(dtype) if known else dtype)
    except (TypeError, ValueError):
        dtype = getattr(dtype, "dtype", dtype)
        raise ArgumentTypeError.refusing(
            argument, dtype, "is no dtype; use one of NumPy's, such as 'float32'"
        ) from None
    return check_dtype(checked, argument)


def check_dtype(dtype: np.dtype[Any], argument: str) -> np.dtype[Any]:
    """Return a numeric dtype in native byte order.

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


def number_of(value: Any, dtype: np.dtype[Any], name: str, argument: str) -> Any:
    """Convert a number to a dtype, as an assignment to an array of that dtype does."""
    try:
        kind = type(value)
        if kind is int or (kind is float and kind_of(dtype) not in "iu"):
            return element(value, dtype)
        data = np.asarray(value)
        if data.ndim or (data.dtype.kind == "c" and kind_of(dtype) not in "cb"):
            raise TypeError
        if kind_of(dtype) in "iu":
            with np.errstate(invalid="ignore"):
                return data.astype(dtype)[()]
        return element(value, dtype)
    except OverflowError:
        raise ArgumentRangeError.refusing(
            argument, value, f"does not fit {dtype}; choose another dtype", name, dtype=dtype
        ) from None
    except (TypeError, ValueError):
        raise ArgumentTypeError.refusing(
            argument, value, f"must be a number that {dtype} can hold", name, dtype=dtype
        ) from None


def check_ordered(name: str, x: Any) -> None:
    """Check that the elements of an array have an order."""
    if kind_of(x.dtype) == "c":
        raise ArgumentTypeError(
            f"{name} is not defined for {x.dtype}: complex numbers have no order; take the real "
            "part or the absolute value first",
            argument="x",
            dtype=x.dtype,
        )
