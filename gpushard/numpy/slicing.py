"""Parts of an array along one dim; private to this package."""

from __future__ import annotations

from typing import Any


def part(x: Any, axis: int, chosen: Any) -> Any:
    """Return the part of an array, here or on the host, that an entry of an index selects.

    >>> import numpy as np
    >>> part(np.arange(6).reshape(2, 3), -1, slice(1, None)).tolist()
    [[1, 2], [4, 5]]
    """
    return x[(*(slice(None),) * (x.ndim + axis), chosen)]


def but_first(x: Any, axis: int) -> Any:
    """Return all but the first along a dim, counted from the end."""
    return part(x, axis, slice(1, None))


def but_last(x: Any, axis: int) -> Any:
    """Return all but the last along a dim, counted from the end."""
    return part(x, axis, slice(None, -1))


def lengthwise(x: Any, ndim: int, axis: int) -> Any:
    """Return a vector as an array of more dims that has it along one of them."""
    shape = [1] * ndim
    shape[axis] = x.shape[0]
    return x.reshape(tuple(shape))
