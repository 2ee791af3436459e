"""Linear interpolation between points."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import check_choice
from gpushard._functions.values import is_traced, is_value
from gpushard._ops.bind import bind
from gpushard._ops.scalars import is_number
from gpushard._ops.table import signals as rows
from gpushard._placement.arguments import as_value, operands
from gpushard._placement.public_functions import public
from gpushard.dtypes import kind_of
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.numpy import elementwise as ew
from gpushard.numpy.indexing import take
from gpushard.numpy.joining import concat
from gpushard.numpy.sorting import argsort

__all__ = ["interp"]


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
    """Interpolate linearly between points.

    Every device gets all points. The positions `x` are not moved.

    Args:
      x: the positions at which to interpolate, an array.
      xp: the positions of the points, a vector; they must ascend unless `period` is given.
      fp: the values at the points, a vector.
      left: the value to the left of all points: a number, an array that broadcasts with `x`, or
        "extrapolate" to extend the first line. By default the value at the first point.
      right: the value to the right of all points, in the forms of `left`. By default the value at
        the last point.
      period: the period of the positions, a number. If it is given, `left` and `right` are ignored.

    Raises:
      ArgumentError: there are no points, `xp` and `fp` differ in length, `period` is 0, or `left`
        or `right` is another string than "extrapolate".
      ArgumentTypeError: positions are complex, or `left` or `right` is not a number.

    >>> interp([0.5, 3.0], [0.0, 1.0, 2.0], [10.0, 20.0, 40.0])
    Array([15., 40.], dtype=float64)
    >>> interp([0.5, 3.0], [0.0, 1.0, 2.0], [10.0, 20.0, 40.0], right="extrapolate")
    Array([15., 60.], dtype=float64)
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
        left = right = None
        if is_traced(period):
            where, xs, ys = _periodic(where, xs, ys, period)
        else:
            period = _period(period)
    ends = [(n, _end(n, v, ys)) for n, v in (("left", left), ("right", right)) if v is not None]
    # NumPy's takes Python's complex numbers, and drops the imaginary part of narrow ones.
    numbers = {n: complex(v) if _is_complex(v) else v for n, v in ends if is_number(v)}
    params = "left" in numbers, "right" in numbers, None if is_traced(period) else period
    between = bind(rows.INTERP, (where, xs, ys, *numbers.values()), params)
    for n, value in ends:
        if n not in numbers:
            between = _continued(between, where, xs, ys, n, value)
    return between


def _period(period: Any) -> float:
    """Convert the period of positions to a number."""
    try:
        number = abs(float(period))
    except (TypeError, ValueError):
        number = 0.0
    if not number:
        raise ArgumentError.refusing("period", period, "must be a number other than 0", "interp")
    return number


def _periodic(x: Any, xs: Any, ys: Any, period: Any) -> tuple[Any, Any, Any]:
    """Bring positions into the first period, and add a point on either side of it."""
    period = ew.abs(period)
    x, xs = ew.remainder(x, period), ew.remainder(xs, period)
    order = argsort(xs)
    xs, ys = take(xs, order), take(ys, order)
    xs = concat([xs[-1:] - period, xs, xs[:1] + period])
    return x, xs, concat([ys[-1:], ys, ys[:1]])


def _continued(between: Any, x: Any, xs: Any, ys: Any, side: str, value: Any) -> Any:
    """Replace the values on one side of all points."""
    end, beside = (0, 1) if side == "left" else (-1, -2)
    outside = ew.less(x, xs[end]) if side == "left" else ew.greater(x, xs[end])
    if isinstance(value, str):
        if xs.shape[0] < 2:
            return between
        slope = (ys[end] - ys[beside]) / (xs[end] - xs[beside])
        value = ew.add(ys[end], ew.multiply(ew.subtract(x, xs[end]), slope))
    return ew.where(outside, value, between)


def _check_points(xs: Any, ys: Any) -> None:
    shapes = np.shape(xs), np.shape(ys)
    if len(shapes[0]) != 1 or shapes[0] != shapes[1] or not shapes[0][0]:
        raise ArgumentError(
            f"interp: xp of shape {shapes[0]} and fp of shape {shapes[1]} must be vectors of one "
            "length, of one element at least",
            argument="fp",
            shapes=shapes,
        )


def _end(argument: str, value: Any, ys: Any) -> Any:
    """Check the value on one side of all points: a number, an array, or "extrapolate"."""
    if isinstance(value, str):
        check_choice("interp", argument, value, ("extrapolate",))
        return value
    array = is_value(value) or isinstance(value, np.ndarray)
    if not (array or is_number(value)) or (_is_complex(value) and kind_of(ys.dtype) != "c"):
        raise ArgumentTypeError.refusing(
            argument, value, "must be a number such as those of fp", "interp"
        )
    return value


def _is_complex(value: Any) -> bool:
    return kind_of(value.dtype) == "c" if hasattr(value, "dtype") else isinstance(value, complex)
