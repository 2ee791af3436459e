"""Differences of neighbours, derivatives, and areas under curves.

They are computed from shifted slices of an array. An axis stays split: only edges of blocks move.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import check_choice, count
from gpushard._functions.values import is_value
from gpushard._ops.axes import from_end, one_from_end
from gpushard._ops.bind import bind
from gpushard._ops.scalars import is_number
from gpushard._ops.table import elementwise as rows
from gpushard._placement.arguments import as_value, host_data
from gpushard._placement.public_functions import public
from gpushard.dtypes import can_cast, kind_of, result_type, wide
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.numpy import elementwise as ew
from gpushard.numpy import statistical
from gpushard.numpy.data_type import result_type as promoted
from gpushard.numpy.joining import concat
from gpushard.numpy.manipulation import broadcast_to, but_first, but_last, lengthwise, part

__all__ = ["diff", "ediff1d", "gradient", "trapezoid", "unwrap"]


@public
def diff(
    a: Any,
    n: int = 1,
    axis: int = -1,
    prepend: Any = None,
    append: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Compute differences of neighbours along an axis; for booleans, test whether they differ.

    Args:
      a: an array of at least one axis.
      n: how many times to compute differences.
      axis: the axis.
      prepend: values to put before the array first; a number stands for one element along the axis.
      append: values to put after the array first; a number stands for one element along the axis.

    Raises:
      ArgumentError: `n` is negative, or the axis does not exist.

    >>> diff([1, 4, 9, 16]), diff([1, 4, 9, 16], n=2)
    (Array([3, 5, 7], dtype=int64), Array([2, 2], dtype=int64))
    """
    times = count(n, "diff", "n")
    if not times:
        return a
    at = one_from_end(axis, a.ndim, "diff")
    ends = [_end(end, a, at) for end in (prepend, append)]
    if any(end is not None for end in ends):
        parts = [piece for piece in (ends[0], a, ends[1]) if piece is not None]
        a = concat(parts, at)
    less = ew.not_equal if kind_of(a.dtype) == "b" else ew.subtract
    for _ in range(min(times, a.shape[at])):  # after so many there is no element left
        a = less(but_first(a, at), but_last(a, at))
    return a


def _end(end: Any, x: Any, axis: int) -> Any:
    """Return the values before or after an array; a number is one element along the dim."""
    if end is None or end is np._NoValue:
        return None
    array = end if is_value(end) else host_data(end, "diff")
    if array.ndim:
        return array
    shape = list(x.shape)
    shape[axis] = 1
    return broadcast_to(as_value(array, "diff"), tuple(shape))


@public
def ediff1d(
    ary: Any, to_end: Any = None, to_begin: Any = None, *, out_sharding: Any = None
) -> Array:
    """Compute differences of neighbours in an array that is flattened in row-major order.

    Args:
      to_end: values to put after the differences.
      to_begin: values to put before the differences.

    Raises:
      ArgumentTypeError: `to_end` or `to_begin` cannot be converted safely to the dtype of the
        array.
    """
    x = ary.ravel()
    differences = x[1:] - x[:-1]
    parts = [_of_type(to_begin, x, "to_begin"), differences, _of_type(to_end, x, "to_end")]
    present = [piece for piece in parts if piece is not None]
    return concat(present) if len(present) > 1 else differences


def _of_type(end: Any, x: Any, argument: str) -> Any:
    if end is None:
        return None
    array = end if is_value(end) else host_data(end, "ediff1d")
    if not can_cast(array.dtype, x.dtype, "same_kind"):
        raise ArgumentTypeError(
            f"ediff1d: {argument} of {array.dtype} does not become {x.dtype}, the type of the "
            "array; convert one of them with astype",
            argument=argument,
            dtype=array.dtype,
            expected=x.dtype,
        )
    return array.ravel().astype(x.dtype)


@public
def gradient(
    f: Any, *spacings: Any, axis: Any = None, edge_order: int = 1, out_sharding: Any = None
) -> Any:
    """Estimate derivatives along axes, from the two neighbours of each element.

    Args:
      f: an array.
      *spacings: the distance between neighbours: one number for all axes. Or for each axis a
        number, or a vector of the coordinates of the elements. 1 by default.
      axis: the axes; all by default.
      edge_order: at the edges, 1 for the difference from the neighbour, 2 for a parabola through
        the next two elements.

    Returns:
      An array if there is one axis; else a tuple with an array for each axis.

    Raises:
      ArgumentError: an axis has fewer than edge_order + 1 elements, or the number of coordinates
        differs from the length of the axis.
      ArgumentTypeError: the number of spacings is neither 1 nor the number of axes.

    >>> gradient([1.0, 2.0, 4.0, 7.0])
    Array([1. , 1.5, 2.5, 3. ], dtype=float64)
    """
    axes = from_end(axis, f.ndim, "gradient")
    check_choice("gradient", "edge_order", edge_order, (1, 2))
    steps = [_steps(f, *each) for each in zip(axes, _each(spacings, axes), strict=True)]
    for at in axes:
        if f.shape[at] < edge_order + 1:
            raise ArgumentError(
                f"gradient: axis {f.ndim + at} of shape {f.shape} has {f.shape[at]} elements; "
                f"edge_order={edge_order} needs {edge_order + 1}",
                argument="x",
                shape=f.shape,
            )
    if kind_of(f.dtype) in "iub":
        f = f.astype(np.float64)
    derivatives = [_derived(f, at, step, edge_order) for at, step in zip(axes, steps, strict=True)]
    return derivatives[0] if len(derivatives) == 1 else tuple(derivatives)


def _each(spacings: Sequence[Any], axes: Sequence[int]) -> Sequence[Any]:
    """Return a spacing for each dim."""
    if not spacings:
        return [1.0] * len(axes)
    if len(spacings) == 1 and np.ndim(spacings[0]) == 0:
        return list(spacings) * len(axes)
    if len(spacings) == len(axes):
        return spacings
    raise ArgumentTypeError(
        f"gradient: {len(spacings)} spacings are given for {len(axes)} axes; give one number, or "
        "a spacing for each axis",
        argument="spacings",
        given=len(spacings),
        dims=len(axes),
    )


def _steps(x: Any, axis: int, spacing: Any) -> Any:
    """Return the distances of neighbours: a number, or an array along the dim."""
    if is_number(spacing):
        return spacing
    places = spacing if is_value(spacing) else host_data(spacing, "gradient")
    if places.ndim == 0:
        return places
    if places.ndim != 1 or places.shape[0] != x.shape[axis]:
        raise ArgumentError(
            f"gradient: coordinates of shape {places.shape} do not fit the {x.shape[axis]} "
            f"elements along axis {x.ndim + axis} of shape {x.shape}; give a number, or one each",
            argument="spacings",
            shape=places.shape,
            expected=x.shape[axis],
        )
    if kind_of(places.dtype) in "iub":
        places = places.astype(np.float64)
    return lengthwise(places[1:] - places[:-1], x.ndim, axis)


def _derived(x: Any, axis: int, step: Any, edge_order: int) -> Any:
    """Return the derivative along a dim."""
    n = x.shape[axis]

    def at(*places: Any) -> list[Any]:
        return [part(x, axis, place) for place in places]

    even = not getattr(step, "ndim", 0)
    before, after = (step, step) if even else (but_last(step, axis), but_first(step, axis))
    parts = []
    if n > 2:
        inner = at(slice(None, -2), slice(1, -1), slice(2, None))
        if even:
            parts = [(inner[2] - inner[0]) / (2.0 * step)]
        else:
            parts = [_weighed(inner, _slopes(before, after, before))]

    def end(steps: Any, place: slice) -> Any:
        return steps if even else part(steps, axis, place)

    first, last = slice(0, 1), slice(-1, None)
    if edge_order == 1:
        low, high, near, far = at(first, slice(1, 2), slice(-2, -1), last)
        parts = [(high - low) / end(step, first), *parts, (far - near) / end(step, last)]
    else:
        low = at(first, slice(1, 2), slice(2, 3))
        high = at(slice(-3, -2), slice(-2, -1), last)
        h, k = end(before, first), end(after, first)
        parts = [_weighed(low, _slopes(h, k, 0)), *parts]
        h, k = end(before, last), end(after, last)
        parts.append(_weighed(high, _slopes(h, k, h + k)))
    return concat(parts, axis).astype(x.dtype)


def _slopes(before: Any, after: Any, t: Any) -> tuple[Any, Any, Any]:
    """Return the weights of three values in the slope of the parabola through them.

    Args:
      before: the distance of the first two.
      after: the distance of the last two.
      t: the position of the slope, from the first value.

    >>> _slopes(1.0, 1.0, 1.0), _slopes(1.0, 1.0, 0)
    ((-0.5, 0.0, 0.5), (-1.5, 2.0, -0.5))
    """
    whole = before + after
    return (
        (2 * t - before - whole) / (before * whole),
        (whole - 2 * t) / (before * after),
        (2 * t - before) / (after * whole),
    )


def _weighed(values: Sequence[Any], weights: Sequence[Any]) -> Any:
    a, b, c = (value * weight for value, weight in zip(values, weights, strict=True))
    return a + b + c


@public
def trapezoid(
    y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, *, out_sharding: Any = None
) -> Array:
    """Integrate along an axis by the trapezoidal rule.

    Args:
      y: the values, an array of at least one axis.
      x: the positions of the values: a vector along the axis, or an array with the shape of `y`. By
        default the positions are evenly spaced.
      dx: the distance between evenly spaced positions.
      axis: the axis.

    Raises:
      ArgumentError: the number of positions differs from the number of values.

    >>> trapezoid([1, 2, 3], dx=2)
    Array(8., dtype=float64)
    """
    at = one_from_end(axis, y.ndim, "trapezoid")
    step = dx
    if x is not None:
        where = x if is_value(x) else host_data(x, "trapezoid")
        if not where.ndim:
            raise ArgumentError(
                "trapezoid: x is a number; give the places of all points, or dx", argument="x"
            )
        line = where.ndim == 1
        step = lengthwise(_apart(where, -1), y.ndim, at) if line else _apart(where, at)
    elif not (is_value(dx) or is_number(dx)):
        step = host_data(dx, "trapezoid")
    work = promoted(step, y, 1.0)
    if work != wide(work):  # rounded once
        y, step = y.astype(wide(work)), step if is_number(step) else step.astype(wide(work))
    areas = step * (but_first(y, at) + but_last(y, at)) / 2.0
    total = statistical.sum(areas, at)
    return total if total.dtype == work else total.astype(work)


def _apart(x: Any, axis: int) -> Any:
    return diff(x, axis=axis) if is_value(x) else np.diff(x, axis=axis)


@public
def unwrap(
    p: Any,
    discont: Any = None,
    axis: int = -1,
    *,
    period: Any = 2 * np.pi,
    out_sharding: Any = None,
) -> Array:
    """Remove jumps from angles, by adding multiples of the period so that neighbours are close.

    Args:
      p: an array of at least one axis.
      discont: the least jump to remove; half a period by default, and for smaller values.
      axis: the axis. Each device gets the whole axis, to compute a cumulative sum.
      period: the period, a number; 2 pi by default.

    >>> unwrap([0, 1, 2, -1, 0], period=4)
    Array([0, 1, 2, 3, 4], dtype=int64)
    """
    at = one_from_end(axis, p.ndim, "unwrap")
    steps = diff(p, axis=at)
    dtype = result_type(steps.dtype, period)
    whole = kind_of(dtype) in "iu"
    half = period // 2 if whole else period / 2
    near = ew.remainder(steps + half, period) - half
    if not whole or period % 2 == 0:  # a jump of half a period stays as it is
        near = bind(rows.WHERE, ((near == -half) & (steps > 0), half, near))
    least = period / 2 if discont is None else discont
    more = bind(rows.WHERE, (ew.abs(steps) < least, 0, near - steps))
    added = statistical.cumsum(more, at)
    parts = [part(p, at, slice(0, 1)).astype(dtype), (but_first(p, at) + added).astype(dtype)]
    return concat(parts, at)
