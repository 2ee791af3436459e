"""Checks of arguments that many functions have: integers, choices, sequences, `out` and `order`."""

from __future__ import annotations

import operator
from collections.abc import Collection
from typing import Any, TypeVar

from gpushard.errors import (
    ArgumentError,
    ArgumentRangeError,
    ArgumentTypeError,
    TracedValueError,
)

T = TypeVar("T")


def integer(value: Any, name: str, argument: str) -> int:
    """Return an integer."""
    try:
        return operator.index(value)
    except TracedValueError:
        raise
    except TypeError:
        raise ArgumentTypeError.refusing(argument, value, "must be an integer", name) from None


def count(number: Any, name: str, argument: str) -> int:
    """Return a non-negative integer."""
    value = integer(number, name, argument)
    if value < 0:
        raise ArgumentError.refusing(argument, value, "must not be negative", name)
    return value


def ranged(value: Any, name: str, argument: str, bits: int = 64) -> int:
    """Check that an integer fits a signed type of some number of bits, and return it."""
    number = integer(value, name, argument)
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ArgumentRangeError.refusing(
            argument,
            number,
            f"does not fit an integer of {bits} bits; use -2**{bits - 1} to 2**{bits - 1} - 1",
            name,
        )
    return number


def listed(values: Any, name: str, argument: str, wanted: str = "a sequence") -> list[Any]:
    """Return the entries of a sequence as a list; refuse anything else by its name.

    >>> listed((0, 1), "lax.rev", "dimensions")
    [0, 1]
    """
    try:
        return list(values)
    except TracedValueError:
        raise
    except TypeError:
        raise ArgumentTypeError.refusing(argument, values, f"must be {wanted}", name) from None


def check_key(value: Any, name: str, argument: str, wanted: str) -> None:
    """Check that a value can be looked up in a table of choices."""
    try:
        hash(value)
    except TypeError:
        raise ArgumentTypeError.refusing(argument, value, f"must be {wanted}", name) from None


def check_order(order: Any) -> None:
    """Check that `order` is row-major, the only order of arrays."""
    if order not in ("C", "A", "K", None):
        raise ArgumentError.refusing(
            "order", order, 'is not supported; elements are in row-major order, "C"'
        )


def refuse_out(name: str, out: Any) -> None:
    """Check that `out` is None."""
    if out is None:
        return
    if not isinstance(out, tuple) or any(entry is not None for entry in out):
        raise ArgumentError(
            f"{name}: out= is not supported, results are values; write x = {name}(...), and "
            "numpy.asarray(x) for the host",
            argument="out",
        )


def check_choice(
    name: str, argument: str, value: Any, known: Collection[Any], more: str = ""
) -> None:
    """Check that a value is among the known ones."""
    try:
        known_choice = value in known
    except TracedValueError:
        raise
    except (TypeError, ValueError):  # it cannot be hashed, or it is an array
        known_choice = False
    if not known_choice:
        raise ArgumentError(
            f"{name}: {argument}={value!r} is unknown; use one of "
            + ", ".join(map(repr, known))
            + more,
            argument=argument,
            value=value,
        )


def check_hint(name: str, argument: str, value: Any, known: Collection[Any]) -> None:
    """Check a choice of JAX that makes no difference here."""
    check_choice(name, argument, value, known, "; it makes no difference")
