"""Interpolation between points, and convolutions of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.dtypes import kind_of
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.functions.checks import as_dtype, check_choice, check_precision
from gpushard.functions.values import wanted
from gpushard.numpy.arguments import as_value, is_number, operands
from gpushard.numpy.public import public
from gpushard.ops.bind import bind
from gpushard.ops.row import Row
from gpushard.ops.table import signals as rows

__all__ = ["convolve", "correlate", "interp"]


@public()
def interp(
    x: Any,
    xp: Any,
    fp: Any,
    left: Any = None,
    right: Any = None,
    period: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return values between points, on the straight lines that join them.

    Every device gets all points; positions stay where they are.

    Args:
      x: where values are wanted, an array.
      xp: where the points are, a vector, ascending unless there is a period.
      fp: their values, a vector.
      left: the value to the left of all points, a number; that of the first by default.
      right: the value to the right of all points, likewise.
      period: of the positions, a number; then there is no left nor right.

    Raises:
      ArgumentError: there are no points, vectors differ in length, or the period is 0.
      ArgumentTypeError: positions are complex, or `left` or `right` is no number.

    >>> interp([0.5, 3.0], [0.0, 1.0, 2.0], [10.0, 20.0, 40.0])
    Array([15., 40.], dtype=float64)
    """
    where, xs, ys = operands("interp", x, xp, fp)
    if is_number(where):
        where = as_value(where, "interp")
    _check_points(xs, ys)
    if "c" in (kind_of(where.dtype), kind_of(xs.dtype)):
        raise ArgumentTypeError(
            "interp: positions must be real numbers; interpolate along their real parts",
            argument="x",
            dtype=where.dtype,
        )
    if period is not None:
        if not is_number(period) or not period:
            raise ArgumentError.refusing(
                "period", period, "must be a number other than 0", "interp"
            )
        left = right = None
        period = abs(float(period))
    outside = [_number(n, v, ys) for n, v in (("left", left), ("right", right)) if v is not None]
    params = left is not None, right is not None, period
    return bind(rows.INTERP, (where, xs, ys, *outside), params)


def _check_points(xs: Any, ys: Any) -> None:
    shapes = np.shape(xs), np.shape(ys)
    if len(shapes[0]) != 1 or shapes[0] != shapes[1] or not shapes[0][0]:
        raise ArgumentError(
            f"interp: xp of shape {shapes[0]} and fp of shape {shapes[1]} must be vectors of one "
            "length, of one element at least",
            argument="fp",
            shapes=shapes,
        )


def _number(argument: str, value: Any, ys: Any) -> Any:
    if not is_number(value) or (isinstance(value, complex) and kind_of(ys.dtype) != "c"):
        raise ArgumentTypeError.refusing(
            argument, value, "must be a number such as those of fp", "interp"
        )
    return value


def _vectors(row: Row, a: Any, v: Any, mode: str, precision: Any, dtype: Any, to: Any) -> Any:
    """Do the work of both; every device gets both vectors."""
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
    """Return the convolution of two vectors.

    Args:
      a: a vector.
      v: another one.
      mode: "full" for all places where they overlap, "valid" for those where they do so in full,
        "same" for as many as the longer one has elements.

    Raises:
      ArgumentError: one of them is no vector or has no elements, or the mode is unknown.

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
    """Return the correlation of two vectors, of which the second one is conjugated.

    Args:
      a: a vector.
      v: another one.
      mode: as for `convolve`.

    Raises:
      ArgumentError: one of them is no vector or has no elements, or the mode is unknown.
    """
    return _vectors(rows.CORRELATE, a, v, mode, precision, preferred_element_type, out_sharding)
