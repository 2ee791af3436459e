"""What `where=` and `initial=` mean for reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array.checks import as_dtype
from gpushard.dtypes import kind_of, wide
from gpushard.errors import ArgumentError
from gpushard.numpy.arguments import as_value, is_value, number_of, operands
from gpushard.ops.axes import from_end
from gpushard.ops.bind import bind
from gpushard.ops.table import elementwise, movement


def taking_part(x: Any, where: Any, neutral: Any, name: str) -> Any:
    """Return an array with what takes no part replaced by a number that makes no difference.

    Raises:
      ArgumentError: there is no such number.
    """
    if where is None or where is True:
        return x
    if neutral is None:
        raise ArgumentError(
            f"{name}: where= needs initial=, for the case that it selects no element",
            argument="initial",
        )
    return bind(elementwise.WHERE, (*operands(name, where, x), neutral))


def is_of_nothing(x: Any, axis: Any, name: str) -> bool:
    """Whether dims that are reduced have no elements."""
    return 0 in [x.shape[at] for at in from_end(axis, x.ndim, name)]


def initial_of(initial: Any, dtype: np.dtype[Any], name: str) -> Any:
    """Return the number that takes part beside elements of a type, as one of them.

    Raises:
      ArgumentRangeError: an integer does not fit.
      ArgumentTypeError: it is no number, or is complex where the elements are not.
    """
    if initial is None:
        return None
    if is_value(initial):
        return initial.astype(dtype)
    with np.errstate(over="ignore"):
        return number_of(initial, dtype, name, "initial")


def with_initial(ufunc: np.ufunc, result: Any, initial: Any, name: str) -> Any:
    """Return a result with which another number is combined, if there is one."""
    if initial is None:
        return result
    number = initial_of(initial, result.dtype, name)
    return bind(elementwise.ufunc_row(ufunc), (result, number))


def mean_of(x: Any, where: Any, axis: Any, dtype: Any, keepdims: bool) -> Any:
    """Return the mean of some elements; NaN where there are none."""
    default = x.dtype if kind_of(x.dtype) in "fc" else np.dtype(np.float64)
    kind = default if dtype is None else as_dtype(dtype)
    total = taking_part(x, where, 0, "mean").sum(axis, wide(kind), keepdims=keepdims)
    counted = bind(elementwise.WHERE, (as_value(where, "mean"), 1, 0))
    if counted.shape != x.shape:
        counted = bind(movement.BROADCAST_TO, (counted,), (x.shape,))
    return (total / counted.sum(axis, keepdims=keepdims)).astype(kind)
