"""What `where=`, `initial=` and `mean=` mean for reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array.operators import Operators, shape_of
from gpushard.dtypes import kind_of, wide
from gpushard.errors import ArgumentError
from gpushard.functions.checks import as_dtype, number_of
from gpushard.geometry.sharding import Sharding
from gpushard.ops.axes import from_end
from gpushard.ops.bind import bind
from gpushard.ops.table import elementwise, movement


def all_take_part(where: Any) -> bool:
    """Whether `where=` leaves nothing out, as it does by default."""
    return where is None or where is True


def taking_part(x: Any, where: Any, neutral: Any, name: str) -> Any:
    """Return an array with what takes no part replaced by a number that makes no difference.

    Raises:
      ArgumentError: there is no such number.
    """
    if all_take_part(where):
        return x
    if neutral is None:
        raise ArgumentError(
            f"{name}: where= needs initial=, for the case that it selects no element",
            argument="initial",
        )
    return bind(elementwise.WHERE, (where, x, neutral))


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
    if isinstance(initial, Operators):
        return bind(elementwise.ASTYPE, (initial,), (dtype,))
    with np.errstate(over="ignore"):
        return number_of(initial, dtype, name, "initial")


def with_initial(ufunc: np.ufunc, result: Any, initial: Any, name: str) -> Any:
    """Return a result with which another number is combined, if there is one."""
    if initial is None:
        return result
    number = initial_of(initial, result.dtype, name)
    return bind(elementwise.ufunc_row(ufunc), (result, number))


def number_taking_part(x: Any, where: Any, axis: Any, keepdims: bool, name: str) -> Any:
    """Return how many elements take part in each element of the result: a number or an array."""
    if all_take_part(where):
        return np.prod([x.shape[at] for at in from_end(axis, x.ndim, name)], dtype=np.int64)
    if not hasattr(where, "sharding"):
        counted = np.broadcast_to(
            np.asarray(where) != 0, np.broadcast_shapes(shape_of(where), x.shape)
        )
        return counted.sum(axis, keepdims=keepdims)
    counted = bind(elementwise.WHERE, (where, 1, 0))
    if counted.shape != x.shape:
        counted = bind(movement.BROADCAST_TO, (counted,), (x.shape,))
    return counted.sum(axis, keepdims=keepdims)


def mean_of(
    x: Any, where: Any, axis: Any, dtype: Any, keepdims: bool, to: Sharding | None = None
) -> Any:
    """Return the mean of some elements; NaN where there are none."""
    default = x.dtype if kind_of(x.dtype) in "fc" else np.dtype(np.float64)
    kind = default if dtype is None else as_dtype(dtype)
    total = taking_part(x, where, 0, "mean").sum(axis, wide(kind), keepdims=keepdims)
    mean = total / number_taking_part(x, where, axis, keepdims, "mean")
    return bind(elementwise.ASTYPE, (mean,), (kind,), to)


def variance_of(
    x: Any,
    where: Any,
    mean: Any,
    axis: Any,
    ddof: float,
    keepdims: bool,
    name: str,
    to: Sharding | None = None,
) -> Any:
    """Return the variance of some elements, around a mean that is given or theirs."""
    own, inside = x.dtype, wide(x.dtype)
    x = x.astype(inside)
    if mean is None:
        mean = mean_of(x, where, axis, None, keepdims=True)
    apart = x - mean
    squares = (apart * apart.conj()).real
    total = taking_part(squares, where, 0, name).sum(axis, keepdims=keepdims)
    many = number_taking_part(x, where, axis, keepdims, name) - ddof
    kind = squares.dtype if own == inside else own
    return bind(elementwise.ASTYPE, (total / many.clip(0),), (kind,), to)
