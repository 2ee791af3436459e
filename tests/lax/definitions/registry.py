"""What each function of `lax` means, by its name: short functions of NumPy arrays.

They are written from the documented meaning, with loops over Python numbers where NumPy has no
function that says the same, and know nothing of gpushard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

DEFINITIONS: dict[str, Callable[..., Any]] = {}

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

KINDS = {
    "b": ["?"],
    "i": ["i1", "i2", "i4", "i8"],
    "u": ["u1", "u2", "u4", "u8"],
    "f": ["f2", "f4", "f8"],
    "c": ["c8", "c16"],
}
DTYPES = [np.dtype(text) for texts in KINDS.values() for text in texts]


class Refused(Exception):
    """A call has no meaning: raised with the name of the error that it must give."""


def defines(*names: str) -> Callable[[Any], Any]:
    """Enter a function as the definition of some names."""

    def enter(function: Any) -> Any:
        for name in names:
            assert name not in DEFINITIONS
            DEFINITIONS[name] = function
        return function

    return enter


def kind_of(x: Any) -> str:
    return "f" if x.dtype == BFLOAT16 else x.dtype.kind


def need(holds: Any, error: str = "ArgumentError") -> None:
    """Refuse a call unless something holds."""
    if not holds:
        raise Refused(error)


def need_kind(x: Any, kinds: str) -> None:
    need(kind_of(x) in kinds, "ArgumentTypeError")


def wrapped(value: Any, dtype: Any) -> Any:
    """Return a Python number as one of a dtype; integers keep their last bits."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "iu":
        with np.errstate(over="ignore"):
            return np.array(value).astype(dtype)[()]
    bits = 8 * dtype.itemsize
    value = int(value) & ((1 << bits) - 1)
    return dtype.type(value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value)


def filled(shape: Any, dtype: Any, element: Callable[[tuple[int, ...]], Any]) -> Any:
    """Return an array whose elements a function gives by their index."""
    result = np.zeros(shape, dtype)
    for index in np.ndindex(*result.shape):
        result[index] = element(index)
    return result


def one_dtype(*xs: Any) -> list[Any]:
    """Return operands as arrays of one dtype; Python numbers take that of the arrays."""
    numbers = [type(x) in (bool, int, float, complex) for x in xs]
    arrays = [np.asarray(x) for x in xs]
    dtypes = {x.dtype for x, number in zip(arrays, numbers, strict=True) if not number}
    dtypes = dtypes or {arrays[0].dtype}
    need(len(dtypes) == 1, "ArgumentTypeError")
    (dtype,) = dtypes
    alike = {bool: "b", int: "iu", float: "f", complex: "c"}
    kind = kind_of(np.empty(0, dtype))
    need(
        all(kind in alike[type(x)] for x, number in zip(xs, numbers, strict=True) if number),
        "ArgumentTypeError",
    )
    return [x.astype(dtype) for x in arrays]


def axis_of(axis: Any, ndim: int) -> int:
    """Return one dim, from 0."""
    need(-ndim <= axis < ndim, "AxisError")
    return int(axis) % ndim


def axes_of(axes: Any, ndim: int) -> list[int]:
    places = [axis_of(axis, ndim) for axis in axes]
    need(len(set(places)) == len(places), "AxisError|ArgumentError")
    return places


def lines(x: Any, axis: int) -> Iterator[Any]:
    """Give the index of each line of an array along a dim."""
    for index in np.ndindex(*x.shape[:axis], *x.shape[axis + 1 :]):
        yield (*index[:axis], slice(None), *index[axis:])
