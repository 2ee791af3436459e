"""Convolutions and correlations of vectors."""

from __future__ import annotations

from typing import Any

from gpushard._array import Array
from gpushard._functions.argument_checks import check_choice
from gpushard._functions.element_types import as_dtype
from gpushard._functions.linear_algebra import check_precision
from gpushard._functions.values import wanted
from gpushard._ops.bind import bind
from gpushard._ops.row import Row
from gpushard._ops.scalars import is_number
from gpushard._ops.table import signals as rows
from gpushard._placement.arguments import as_value, operands
from gpushard._placement.public_functions import public
from gpushard.errors import ArgumentError

__all__ = ["convolve", "correlate"]


def _vectors(row: Row, a: Any, v: Any, mode: str, precision: Any, dtype: Any, to: Any) -> Any:
    """Convolve or correlate two vectors; every device gets both."""
    name = row.name
    check_precision(name, precision)
    check_choice(name, "mode", mode, ("full", "same", "valid"))
    pair = [as_value(x, name) if is_number(x) else x for x in operands(name, a, v)]
    pair = [x.reshape((1,)) if not x.ndim else x for x in pair]
    shapes = tuple(x.shape for x in pair)
    if any(len(shape) != 1 or not shape[0] for shape in shapes):
        raise ArgumentError(
            f"{name}: operands of shapes {shapes[0]} and {shapes[1]} must be vectors of one "
            "element at least",
            argument="a",
            shapes=shapes,
        )
    if dtype is not None:
        pair = [x.astype(as_dtype(dtype, "preferred_element_type")) for x in pair]
    return bind(row, pair, (mode,), wanted(to, *pair))


@public()
def convolve(
    a: Any,
    v: Any,
    mode: str = "full",
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Convolve two vectors.

    Args:
      a: a vector.
      v: a vector.
      mode: the positions to return. "full": all positions at which the vectors overlap. "valid":
        the positions at which they overlap completely. "same": the middle of "full", with the
        length of the longer vector.

    Raises:
      ArgumentError: an operand is not a vector or has no elements, or the mode is unknown.

    >>> convolve([1, 2, 3], [0, 1])
    Array([0, 1, 2, 3], dtype=int64)
    """
    return _vectors(rows.CONVOLVE, a, v, mode, precision, preferred_element_type, out_sharding)


@public()
def correlate(
    a: Any,
    v: Any,
    mode: str = "valid",
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Compute the cross-correlation of two vectors; `v` is conjugated.

    Args:
      a: a vector.
      v: a vector.
      mode: "full", "valid" or "same"; see `convolve`.

    Raises:
      ArgumentError: an operand is not a vector or has no elements, or the mode is unknown.
    """
    return _vectors(rows.CORRELATE, a, v, mode, precision, preferred_element_type, out_sharding)
