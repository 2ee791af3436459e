"""Reading the arguments of public functions, and placing their results."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._array.guards import HOST_TO_DEVICE, check_transfer
from gpushard._functions.values import is_value, offered, view
from gpushard._ops.scalars import KINDS, is_number
from gpushard._placement.device_put import as_host_array, device_put
from gpushard._placement.reshard import resharded
from gpushard.errors import ArgumentError, ArgumentTypeError


def as_list(x: Any) -> Any:
    """Convert other sequences to lists, or to NumPy arrays if that is quick."""
    if isinstance(x, range):
        return np.asarray(x)
    if isinstance(x, list | tuple | str | bytes | np.ndarray | np.generic) or is_value(x):
        return x
    if hasattr(x, "__array__") or hasattr(x, "__dlpack__"):
        return x
    try:
        return np.asarray(memoryview(x))
    except TypeError:
        return list(x) if isinstance(x, Sequence) else x


def host_data(x: Any, name: str) -> Any:
    """Convert data on the host to a NumPy array."""
    x = as_list(x)
    if isinstance(x, list | tuple):
        if holds_value(x):
            raise ArgumentTypeError(
                f"{name} got a {type(x).__name__} of gpushard arrays; join them with stack",
                argument="x",
                type=type(x),
            )
        try:
            x = np.array(x)
        except ValueError:
            raise ArgumentError(
                f"{name} got nested lists of different lengths; make them equally long",
                argument="x",
            ) from None
    return as_host_array(x)[0]


def holds_value(x: Any) -> bool:
    """Whether nested lists contain an array on devices."""
    if isinstance(x, list | tuple):
        return any(map(holds_value, x))
    return is_value(x) or is_value(offered(x))


def as_value(x: Any, name: str, *, weak: bool = False) -> Any:
    """Read an operand as an array; data on the host goes where new data goes.

    The result is never `x` itself: a function may return it, and its caller may assign to it.

    Args:
      x: an array, or data on the host.
      name: the name of the function.
      weak: whether Python's numbers keep a weak type, as in JAX; in NumPy they do not.
    """
    if isinstance(x, Array):
        return copy.copy(x)
    if weak and type(x) in KINDS:
        return device_put(x)
    x = offered(x)
    if is_value(x):
        return copy.copy(getattr(x, "raw_value", x))  # of a box with a value in it
    data = host_data(x, name)
    if data.ndim:
        check_transfer(HOST_TO_DEVICE, f"an operand of {name} on the host", explicit=False)
    return device_put(data)


def as_values(name: str, *xs: Any) -> list[Any]:
    """Read operands as arrays, as `as_value` does."""
    return [as_value(x, name) for x in xs]


def as_weak_values(name: str, *xs: Any) -> list[Any]:
    """Read operands as arrays, as `as_value` does for functions with weak types."""
    return [as_value(x, name, weak=True) for x in xs]


def as_view(x: Any, name: str) -> Any:
    """Read an operand as `as_value` does, for functions that may return `x` itself in NumPy."""
    return view(x, None) if isinstance(x, Array) else as_value(x, name)


def operands(name: str, *xs: Any) -> list[Any]:
    """Read the operands of an operation, so that at least one is an array.

    Numbers stay numbers, and data on the host goes where the arrays are.
    """
    if all(map(is_value, xs)):
        return list(xs)
    xs = tuple(map(offered, xs))
    if any(map(is_value, xs)):
        return [x if is_value(x) or is_number(x) else host_data(x, name) for x in xs]
    placed = [x if is_number(x) else as_value(x, name) for x in xs]
    if placed and not any(map(is_value, placed)):  # Python's numbers have less say in the type
        first = next((n for n, x in enumerate(placed) if isinstance(x, np.generic)), 0)
        placed[first] = as_value(placed[first], name)
    return placed


def settle(result: Any, place: Any, argument: str = "out_sharding") -> Any:
    """Move a result, or a tuple of results, to a place, if the caller named one."""
    return result if place is None else resharded(result, place, argument)
