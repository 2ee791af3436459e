"""Python numbers as operands: types of arrays override their type."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.row import Row
from gpushard.dtypes import element, is_custom
from gpushard.errors import ArgumentError, ArgumentRangeError

KINDS: dict[type, Aval] = {
    bool: Aval((), np.dtype(bool)),
    int: Aval((), np.dtype(np.int64), weak=True),
    float: Aval((), np.dtype(np.float64), weak=True),
    complex: Aval((), np.dtype(np.complex128), weak=True),
}
"""The aval of each type of Python number."""

WEAK_KINDS = frozenset(kind for kind, aval in KINDS.items() if aval.weak)
"""Types of Python numbers with a weak type."""


def is_number(x: Any) -> bool:
    """Test for a Python number or a NumPy scalar, which need no place."""
    return type(x) in KINDS or isinstance(x, np.generic)


def kind_of_number(x: Any) -> Any:
    """Return the part of a number that a program depends on: its Python type or NumPy dtype."""
    kind = type(x)
    return kind if kind in KINDS else x.dtype


def aval_of_number(x: Any) -> Aval:
    """Return the aval of a number as an operand."""
    return KINDS.get(type(x)) or Aval((), x.dtype)


def converter(
    row: Row, results: Sequence[Aval], avals: Sequence[Aval], position: int
) -> Callable[[Any], Any]:
    """Return a function that converts the number at a position for a kernel."""
    aval = avals[position]
    if row.loop is not None:
        dtype = row.loop(avals)[position]
    else:  # NumPy's scalars keep their type
        dtype = results[0].dtype if aval.weak else aval.dtype
    make = functools.partial(element, dtype=dtype) if is_custom(dtype) else dtype.type

    def convert(number: Any) -> Any:
        try:
            return make(number)
        except OverflowError:
            if row.compares:  # beyond all values of the type: like infinity
                return np.float64(np.inf if number > 0 else -np.inf)
            raise ArgumentRangeError(
                f"{row.name}: the Python integer {number} does not fit {dtype}; convert the array "
                "first, or pass a NumPy scalar of a wider type",
                argument="x",
                number=number,
                dtype=dtype,
            ) from None

    if row.name == "power" and position == 1 and dtype.kind == "i":
        return _exponent(convert, dtype)
    return convert


def _exponent(convert: Callable[[Any], Any], dtype: Dtype) -> Callable[[Any], Any]:
    """Refuse negative exponents of integers on the host, before any device computes."""

    def checked(number: Any) -> Any:
        if number < 0:
            raise ArgumentError(
                f"power: {dtype} to the power of {number} is not an integer; convert the array to "
                "floats first",
                argument="x",
                number=number,
                dtype=dtype,
            )
        return convert(number)

    return checked
