"""Convert axes of users, numbers from the front or from the end. Pure."""

from __future__ import annotations

import functools
import operator
from typing import Any

from gpushard.errors import ArgumentError, ArgumentTypeError, AxisError, TracedValueError


def from_end(axis: Any, ndim: int, name: str, argument: str = "axis") -> tuple[int, ...]:
    """Convert axes to numbers from the end, which stay valid if dims are added in front.

    Raises:
      ArgumentTypeError: `axis` is not an integer, a sequence of integers, or None.
      AxisError: an axis is out of range.
      ArgumentError: an axis is repeated.

    >>> from_end((0, -1), 3, "sum"), from_end(None, 2, "sum")
    ((-3, -1), (-2, -1))
    """
    if type(axis) is not int and axis is not None:
        axis = _as_ints(axis, name, argument)
    return _from_end(axis, ndim, name, argument)


def one_from_end(axis: Any, ndim: int, name: str, argument: str = "axis") -> int:
    """Convert a single axis to its number from the end.

    >>> one_from_end(0, 3, "flip")
    -3
    """
    if axis is None or isinstance(axis, tuple | list):
        raise _no_axis(axis, name, argument, "an integer")
    return from_end(axis, ndim, name, argument)[0]


def _as_ints(axis: Any, name: str, argument: str) -> tuple[int, ...]:
    values = axis if isinstance(axis, tuple | list) else (axis,)
    if any(isinstance(value, bool) for value in values):
        raise _no_axis(axis, name, argument)
    try:
        return tuple(operator.index(value) for value in values)
    except TracedValueError:
        raise
    except TypeError:
        raise _no_axis(axis, name, argument) from None


def _no_axis(
    axis: Any, name: str, argument: str, wanted: str = "an integer, a tuple of integers or None"
) -> ArgumentTypeError:
    return ArgumentTypeError.refusing(argument, axis, f"must be {wanted}", name, axis=axis)


@functools.lru_cache(maxsize=4096)
def _from_end(
    axis: int | tuple[int, ...] | None, ndim: int, name: str, argument: str
) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(-ndim, 0))
    axes = axis if isinstance(axis, tuple) else (axis,)
    positions = []
    for value in axes:
        if not -ndim <= value < ndim:
            raise AxisError(
                f"{name}: {argument}={value} is out of range for an array with ndim={ndim}; use "
                + (f"{-ndim} to {ndim - 1}" if ndim else "axis=None or ()"),
                argument=argument,
                axis=value,
                ndim=ndim,
            )
        positions.append(value if value < 0 else value - ndim)
    if len(set(positions)) != len(positions):
        raise ArgumentError.refusing(
            argument, axes, "names an axis twice; name each once", name, axis=axes, ndim=ndim
        )
    return tuple(positions)
