"""Read shapes that callers give, broadcast them, and check numbers of elements and dims."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from gpushard._functions.argument_checks import count, integer
from gpushard._geometry.tiling import MOST_DIMS, MOST_ELEMENTS
from gpushard._typing import Shape
from gpushard.errors import ArgumentError, ArgumentTypeError, TracedValueError

_SEVERAL = tuple, list  # here as each use would make a union anew


def as_shape(shape: Any, argument: str = "shape") -> Shape:
    """Return a shape as a tuple of non-negative integers.

    >>> as_shape([2, 3]), as_shape(4)
    ((2, 3), (4,))
    """
    try:
        several = isinstance(shape, _SEVERAL) or np.ndim(shape) > 0
        result = tuple([int(n.__index__()) for n in (shape if several else (shape,))])
    except TracedValueError:
        raise
    except (TypeError, AttributeError, ValueError):
        raise ArgumentTypeError.refusing(argument, shape, "must be a tuple of integers") from None
    if min(result, default=0) < 0:
        raise ArgumentError.refusing(argument, result, "has a negative size; sizes start at 0")
    return result


def element_count(number: Any, name: str, argument: str) -> int:
    """Check that an array can have this number of elements, and return it."""
    value = count(number, name, argument)
    if value > MOST_ELEMENTS:
        raise ArgumentError.refusing(
            argument, value, "is more than 2**58 elements; use a smaller number", name
        )
    return value


def dim_count(number: Any, name: str, argument: str) -> int:
    """Check that an array can have this number of dims, and return it."""
    value = integer(number, name, argument)
    if value > MOST_DIMS:
        raise ArgumentError.refusing(
            argument, value, f"is more than {MOST_DIMS} axes; use fewer", name, most=MOST_DIMS
        )
    return value


def broadcast(name: str, shapes: Collection[Shape]) -> Shape:
    """Return the shape that shapes broadcast to."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise do_not_broadcast(name, shapes) from None


def do_not_broadcast(name: str, shapes: Collection[Shape]) -> ArgumentError:
    """Return the error for shapes that do not broadcast."""
    return ArgumentError(
        f"{name}: shapes {', '.join(map(str, shapes))} do not broadcast; aligned at the last "
        "axis, lengths must be equal or 1",
        argument="shape",
        shapes=tuple(shapes),
    )


def check_vector(name: str, argument: str, x: Any) -> None:
    """Check that an array, here or on the host, has one dim."""
    if len(x.shape) != 1:
        raise ArgumentError(
            f"{name}: {argument} of shape {x.shape} must be 1-dimensional; give a vector, such as "
            f"{argument}.ravel()",
            argument=argument,
            shape=x.shape,
        )


def check_dims(name: str, x: Any, least: int) -> None:
    """Check that an array has some dims at least, up to three."""
    if x.ndim < least:
        words = ("one axis", "two axes", "three axes")[least - 1]
        raise ArgumentError(
            f"{name} needs at least {words}, the shape is {x.shape}", argument="x", shape=x.shape
        )
