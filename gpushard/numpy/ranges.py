"""Evenly spaced numbers, NumPy's to the bit."""

from __future__ import annotations

import functools
import math
from typing import Any, Literal, overload

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import count, integer
from gpushard._functions.docstrings import described
from gpushard._functions.element_types import as_dtype, number_of
from gpushard._functions.host_reads import concrete
from gpushard._functions.reductions import in_type
from gpushard._functions.values import is_traced
from gpushard._ops.axes import one_from_end
from gpushard._ops.programs.calls import quietly
from gpushard._ops.scalars import KINDS, is_number
from gpushard._ops.table import creation as rows
from gpushard._placement.arguments import operands
from gpushard._placement.creation import create, kept_at, place_of
from gpushard.dtypes import real_of
from gpushard.errors import ArgumentError, ArgumentRangeError, ArgumentTypeError
from gpushard.numpy.data_type import result_type
from gpushard.numpy.elementwise import equal, floor, log10, power, sign, subtract, where
from gpushard.numpy.manipulation import broadcast_arrays, expand_dims, moveaxis, shape

__all__ = ["arange", "geomspace", "linspace", "logspace"]

_INT = np.dtype(np.int64)
_promoted = functools.lru_cache(maxsize=256)(np.result_type)  # of types

_ranges = described(
    num="how many numbers to create.",
    endpoint="whether to include `stop`.",
    axis="if `start` or `stop` is an array: the axis along which the numbers run.",
    device="a device or a sharding for the array; by default the one for new arrays.",
    out_sharding="another name of `device`.",
)


@_ranges
def arange(
    start: Any,
    stop: Any = None,
    step: Any = 1,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Create evenly spaced numbers from `start` up to, not including, `stop`.

    The elements are equal to those of NumPy, bit for bit.

    Args:
      start: the first number. Without `stop`, the numbers start at 0 and end before `start`.
      stop: the end of the numbers, which is excluded.
      step: the step from number to number.
      dtype: the dtype; by default the dtype to which the arguments promote.

    Raises:
      ArgumentError: `step` is 0, or the numbers would never end.
      ArgumentTypeError: an argument is not a number.

    >>> arange(3), arange(1, 2, 0.25)
    (Array([0, 1, 2], dtype=int64), Array([1.  , 1.25, 1.5 , 1.75], dtype=float64))
    """
    place = place_of(device, out_sharding)
    if stop is None:
        start, stop = 0, start
    start, stop, step = (
        _number(x, "arange", argument)
        for x, argument in ((start, "start"), (stop, "stop"), (step, "step"))
    )
    numbers, target = (start, stop, step), None if dtype is None else as_dtype(dtype)
    integers = all([type(x) is int for x in numbers])  # floats may be equal and differ: zeros
    length, target, *ends = (_ends_of_integers if integers else _ends)(*numbers, target)
    return create(rows.ARANGE, (length,), target, ends, place)


def _ends(
    start: Any, stop: Any, step: Any, target: np.dtype[Any] | None
) -> tuple[int, np.dtype[Any], Any, Any]:
    """Return the number of numbers, their dtype, and the first two."""
    length = _length(start, stop, step)
    if target is None:
        target = _promoted(*[np.asarray(x).dtype for x in (start, stop, step)], _INT)
        if target.kind == "O":
            argument, value = next(
                (name, x)
                for name, x in (("start", start), ("stop", stop), ("step", step))
                if np.asarray(x).dtype.kind == "O"
            )
            raise ArgumentRangeError.refusing(
                argument, value, "does not fit 64 bits; give a float, or a float dtype", "arange"
            )
    first = number_of(start, target, "arange", "start")
    second = number_of(start + step, target, "arange", "step") if length > 1 else first
    if length > 1:  # the last one must fit too
        number_of(start + (length - 1) * step, target, "arange", "stop")
    return length, target, first, second


_ends_of_integers = functools.lru_cache(maxsize=256)(_ends)


def _number(x: Any, name: str, argument: str) -> Any:
    """Read a number; the host waits for an array without dims on devices."""
    if type(x) in KINDS:
        return x
    if isinstance(x, np.ndarray) and not x.ndim:
        x = x[()]
    elif isinstance(x, Array) and not x.ndim:
        x = x.dtype.type(concrete(x, "arange").item())
    if not is_number(x) or np.asarray(x).dtype.kind not in "?biufc":
        raise ArgumentTypeError.refusing(
            argument, x, "must be a number; of an array take float(x) or int(x)", name
        )
    return x


def _apart(start: Any, stop: Any, step: Any) -> tuple[Any, Any]:
    """Return the distance of two numbers, and the number of steps between them."""
    apart = stop - start
    return apart, apart / step


def _length(start: Any, stop: Any, step: Any) -> int:
    """Return the number of numbers, as NumPy counts them."""
    try:
        apart, steps = quietly(_apart, start, stop, step)
        if isinstance(steps, complex | np.complexfloating):
            return max(0, min(math.ceil(steps.real), math.ceil(steps.imag)))
        if steps == 0 and apart != 0:  # too small for a float
            return 0 if math.copysign(1, steps) < 0 else 1
        length: int = max(0, math.ceil(steps))
        return length
    except (ZeroDivisionError, OverflowError, ValueError, TypeError):
        raise ArgumentError(
            f"arange: from {start} to {stop} in steps of {step} there is no finite number of "
            "elements; use a step other than 0 and finite bounds",
            argument="step",
            start=start,
            stop=stop,
            step=step,
        ) from None


@overload
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: Literal[False] = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array: ...


@overload
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    *,
    retstep: Literal[True],
    dtype: Any = None,
    axis: int = 0,
    device: Any = None,
    out_sharding: Any = None,
) -> tuple[Array, Any]: ...


@_ranges
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Create `num` evenly spaced numbers from `start` to `stop`.

    If `start` and `stop` are numbers, the elements are equal to those of NumPy, bit for bit.

    Args:
      start: the first number, or an array of first numbers.
      stop: the last number, or an array of last numbers; `start` and `stop` broadcast.
      retstep: whether to also return the step from number to number.
      dtype: the dtype; by default a floating-point or complex dtype.

    Returns:
      The numbers, or with `retstep` a pair of the numbers and the step.

    Raises:
      ArgumentError: `num` is negative.
      ArgumentTypeError: an argument is neither a number nor an array of numbers.

    >>> linspace(0, 1, 3)
    Array([0. , 0.5, 1. ], dtype=float64)
    >>> linspace(0, [2, 4], 3, axis=-1)
    Array([[0., 1., 2.],
           [0., 2., 4.]], dtype=float64)
    """
    place = place_of(device, out_sharding)
    length = count(num, "linspace", "num")
    div = length - 1 if endpoint else length
    numbers = is_number(start) and is_number(stop)
    if not numbers and (shape(start) or shape(stop) or is_traced(start) or is_traced(stop)):
        numbers_between, step = _between(start, stop, length, div, dtype)
        numbers_between = kept_at(moveaxis(numbers_between, 0, axis), place)
    else:
        one_from_end(axis, 1, "linspace")
        numbers_between, step = _from_to(start, stop, length, div, dtype, place)
    return (numbers_between, step) if retstep else numbers_between


def _between(start: Any, stop: Any, count: int, div: int, dtype: Any) -> tuple[Array, Array]:
    """Create numbers between the elements of arrays, along the first dim, and their distances."""
    start, stop = operands("linspace", start, stop)
    work = result_type(start, stop, 0.0)
    apart = subtract(stop, start, dtype=work)
    step = apart / (div if div > 0 else np.nan)
    at = arange(count, dtype=real_of(work)).reshape(-1, *[1] * apart.ndim)
    moved = where(equal(step, 0), at / div * apart, at * step) if div > 0 else at * apart
    values = moved + start
    if div == count - 1 and count > 1:
        values = where(equal(at, count - 1), stop, values)
    target = work if dtype is None else as_dtype(dtype)
    return (floor(values) if target.kind in "iu" else values).astype(target), step


def _from_to(
    start: Any, stop: Any, count: int, div: int, dtype: Any, place: Any
) -> tuple[Array, Any]:
    """Create numbers between two numbers, and their distance."""
    start, stop = _number(start, "linspace", "start"), _number(stop, "linspace", "stop")
    work = np.result_type(start, stop, 0.0)
    target = work if dtype is None else as_dtype(dtype)
    low = number_of(start, work, "linspace", "start")
    high = number_of(stop, work, "linspace", "stop")
    delta, step = quietly(_steps, start, stop, div, work)
    last = div if div == count - 1 and count > 1 else -1
    numbers = low, high, delta, work.type(step), div, last
    return create(rows.LINSPACE, (count,), target, numbers, place), step


def _steps(start: Any, stop: Any, div: int, work: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the distance of two numbers, and the length of `div` steps between them, as NumPy."""
    delta = np.subtract(stop, start, dtype=work)
    return work.type(delta), delta / div if div > 0 else work.type(np.nan)


@_ranges
def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Create `num` numbers from `base**start` to `base**stop` with constant ratios.

    Args:
      start: the first exponent, or an array of first exponents.
      stop: the last exponent, or an array of last exponents.
      base: the base of the powers; `start`, `stop` and `base` broadcast.
      dtype: the dtype; by default a floating-point or complex dtype.

    Raises:
      ArgumentError: `num` is negative.
      ArgumentTypeError: an argument is not a number.

    >>> logspace(0, 2, 3)
    Array([  1.,  10., 100.], dtype=float64)
    """
    place = place_of(device, out_sharding)
    if shape(base):
        start, stop, base = broadcast_arrays(start, stop, base)
        powers = power(expand_dims(base, axis), linspace(start, stop, num, endpoint, axis=axis))
    else:
        exponents = linspace(start, stop, num, endpoint, axis=axis, out_sharding=place)
        powers = power(base if is_traced(base) else _number(base, "logspace", "base"), exponents)
    return kept_at(in_type(powers, dtype), place)


@_ranges
def geomspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Create `num` numbers from `start` to `stop` with constant ratios.

    Args:
      start: the first number, or an array of first numbers; they must be real and not 0.
      stop: the last number, or an array of last numbers, with the signs of `start`. If the signs of
        elements of arrays differ, the results are NaN.
      dtype: the dtype; by default a floating-point dtype.

    Raises:
      ArgumentError: a number is 0, signs differ, or `num` is negative.
      ArgumentTypeError: an argument is not a real number.

    >>> geomspace(1, 8, 4)
    Array([1., 2., 4., 8.], dtype=float64)
    """
    place = place_of(device, out_sharding)
    if shape(start) or shape(stop) or is_traced(start) or is_traced(stop):
        values = moveaxis(_ratios(start, stop, count(num, "geomspace", "num"), endpoint), 0, axis)
        return kept_at(in_type(values, dtype), place)
    one_from_end(axis, 1, "geomspace")
    ends = [_number(x, "geomspace", name) for x, name in ((start, "start"), (stop, "stop"))]
    if any(np.iscomplexobj(end) for end in ends):
        raise ArgumentTypeError(
            f"geomspace: start={start!r} and stop={stop!r} must be real numbers; take logspace of "
            "their logarithms",
            argument="start",
            start=start,
            stop=stop,
        )
    if not (ends[0] > 0 and ends[1] > 0) and not (ends[0] < 0 and ends[1] < 0):
        raise ArgumentError(
            f"geomspace: start={start} and stop={stop} must have one sign, and not be 0",
            argument="start",
            start=start,
            stop=stop,
        )
    sign = math.copysign(1, ends[0])
    low, high = (math.log10(abs(end)) for end in ends)
    ratios = logspace(low, high, num, endpoint, out_sharding=place) * sign
    at = arange(integer(num, "geomspace", "num"), out_sharding=place)
    values = where(equal(at, 0), float(ends[0]), ratios)  # as logarithms go, near but not at it
    if endpoint and num > 1:
        values = where(equal(at, num - 1), float(ends[1]), values)
    return kept_at(in_type(values, dtype), place)


def _ratios(start: Any, stop: Any, count: int, endpoint: bool) -> Array:
    """Create numbers between the elements of arrays at equal ratios, along the first dim."""
    start, stop = operands("geomspace", start, stop)
    unit = sign(start) * result_type(start, stop, np.float64).type(1)
    low, high = start / unit, stop / unit
    values = power(10.0, linspace(log10(low), log10(high), count, endpoint))
    at = arange(count).reshape(-1, *[1] * (values.ndim - 1))
    values = where(equal(at, 0), low, values)  # as logarithms go, near but not at it
    if endpoint and count > 1:
        values = where(equal(at, count - 1), high, values)
    return values * unit
