"""Python numbers as operands: they have a type, and no say in what type results have."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard.dtypes import element, is_custom
from gpushard.errors import ArgumentError, ArgumentRangeError
from gpushard.ops.aval import Aval, Dtype
from gpushard.ops.row import Row

KINDS: dict[type, Aval] = {
    bool: Aval((), np.dtype(bool)),
    int: Aval((), np.dtype(np.int64), weak=True),
    float: Aval((), np.dtype(np.float64), weak=True),
    complex: Aval((), np.dtype(np.complex128), weak=True),
}
"""What each type of Python number is as an operand."""

WEAK_KINDS = frozenset(kind for kind, aval in KINDS.items() if aval.weak)
"""Types of Python numbers whose type gives way to those of other operands."""


def is_number(x: Any) -> bool:
    """Whether it is a number that needs no place: Python's or NumPy's."""
    return type(x) in KINDS or isinstance(x, np.generic)


def kind_of_number(x: Any) -> Any:
    """Return what a program depends on of a number: Python's type, or NumPy's dtype."""
    kind = type(x)
    return kind if kind in KINDS else x.dtype


def aval_of_number(x: Any) -> Aval:
    """Return what a number is as an operand."""
    return KINDS.get(type(x)) or Aval((), x.dtype)


def converter(
    row: Row, found: Sequence[Aval], avals: Sequence[Aval], position: int
) -> Callable[[Any], Any]:
    """Return what turns the number at a position among operands into one of a kernel."""
    own = avals[position]
    if row.loop is not None:
        dtype = row.loop(avals)[position]
    else:  # NumPy's scalars have a type of their own
        dtype = found[0].dtype if own.weak else own.dtype
    make = functools.partial(element, dtype=dtype) if is_custom(dtype) else dtype.type

    def convert(number: Any) -> Any:
        try:
            return make(number)
        except OverflowError:
            if row.compares:  # beyond all values of the type, like an infinite one
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
    """Refuse exponents that integers have no power for, before any device sees them."""

    def checked(number: Any) -> Any:
        if number < 0:
            raise ArgumentError(
                f"power: {dtype} to the power of {number} is no integer; convert the array to "
                "floats first",
                argument="x",
                number=number,
                dtype=dtype,
            )
        return convert(number)

    return checked
