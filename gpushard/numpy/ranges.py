"""Evenly spaced numbers, NumPy's to the bit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpushard.array.checks import as_dtype
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.numpy.arguments import integer, is_number, number_of
from gpushard.numpy.elementwise import equal, power, where
from gpushard.numpy.making import kept_at, made, place_of
from gpushard.ops.table import creation as rows


def arange(
    start: Any,
    /,
    stop: Any = None,
    step: Any = 1,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return evenly spaced numbers from `start` up to, not including, `stop`.

    Elements are NumPy's to the bit.

    Args:
      start: the first number; without `stop` numbers start at 0 and end before this.
      stop: where they end.
      step: the distance.
      dtype: type of the elements; what the arguments promote to by default.
      device: where it goes.
      out_sharding: the same.

    Raises:
      ArgumentError: the step is 0, or the numbers do not end.
      ArgumentTypeError: an argument is no number.

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
    length = _length(start, stop, step)
    if dtype is None:
        target = np.result_type(*(np.asarray(x).dtype for x in (start, stop, step)), np.int64)
    else:
        target = as_dtype(dtype)
    first = number_of(start, target, "arange", "start")
    second = number_of(start + step, target, "arange", "step") if length > 1 else first
    if length > 1:  # the last one must fit too
        number_of(start + (length - 1) * step, target, "arange", "stop")
    return made(rows.ARANGE, (length,), target, (first, second), place)


def _number(x: Any, name: str, argument: str) -> Any:
    """Return a number; arrays without dims on the host count too."""
    if type(x) is int:
        return x
    if isinstance(x, np.ndarray) and not x.ndim:
        x = x[()]
    if not is_number(x) or np.asarray(x).dtype.kind not in "?biufc":
        raise ArgumentTypeError(
            f"{name}: {argument}={x!r} must be a number; of an array take float(x) or int(x)",
            argument=argument,
            value=x,
        )
    return x


def _length(start: Any, stop: Any, step: Any) -> int:
    """Return how many numbers there are, as NumPy counts them.

    Raises:
      ArgumentError: the step is 0, or the numbers do not end.
    """
    try:
        with np.errstate(all="ignore"):
            apart = stop - start
            many = apart / step
        if isinstance(many, complex | np.complexfloating):
            return max(0, min(math.ceil(many.real), math.ceil(many.imag)))
        if many == 0 and apart != 0:  # too small for a float
            return 0 if math.copysign(1, many) < 0 else 1
        found: int = max(0, math.ceil(many))
        return found
    except (ZeroDivisionError, OverflowError, ValueError, TypeError):
        raise ArgumentError(
            f"arange: from {start} to {stop} in steps of {step} there is no finite number of "
            "elements; use a step other than 0 and finite bounds",
            argument="step",
            start=start,
            stop=stop,
            step=step,
        ) from None


def linspace(
    start: Any,
    /,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    *,
    dtype: Any = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return `num` evenly spaced numbers from `start` to `stop`.

    Elements are NumPy's to the bit.

    Args:
      start: the first number.
      stop: the last one.
      num: how many.
      endpoint: whether `stop` is among them.
      dtype: type of the elements; floats or complex numbers by default.
      device: where it goes.
      out_sharding: the same.

    Raises:
      ArgumentError: `num` is negative.
      ArgumentTypeError: an argument is no number.

    >>> linspace(0, 1, 3)
    Array([0. , 0.5, 1. ], dtype=float64)
    """
    place = place_of(device, out_sharding)
    start, stop = _number(start, "linspace", "start"), _number(stop, "linspace", "stop")
    count = integer(num, "linspace", "num")
    if count < 0:
        raise ArgumentError(
            f"linspace: num={count} must not be negative", argument="num", value=count
        )
    work = np.result_type(start, stop, 0.0)
    target = work if dtype is None else as_dtype(dtype)
    div = count - 1 if endpoint else count
    low, high = (
        number_of(x, work, "linspace", name) for x, name in ((start, "start"), (stop, "stop"))
    )
    with np.errstate(all="ignore"):
        delta = np.subtract(stop, start, dtype=work)
        step = delta / div if div > 0 else work.type(np.nan)
    last = div if endpoint and count > 1 else -1
    numbers = low, high, work.type(delta), work.type(step), div, last
    return made(rows.LINSPACE, (count,), target, numbers, place)


def logspace(
    start: Any,
    /,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return `num` numbers from `base**start` to `base**stop` at equal ratios.

    Args:
      start: the first exponent, a number.
      stop: the last one.
      num: how many.
      endpoint: whether the last one is among them.
      base: what is raised to the exponents, a number.
      dtype: type of the elements; floats or complex numbers by default.
      device: where it goes.
      out_sharding: the same.

    Raises:
      ArgumentError: `num` is negative.
      ArgumentTypeError: an argument is no number.

    >>> logspace(0, 2, 3)
    Array([  1.,  10., 100.], dtype=float64)
    """
    place = place_of(device, out_sharding)
    exponents = linspace(start, stop, num, endpoint, out_sharding=place)
    found = power(_number(base, "logspace", "base"), exponents)
    return kept_at(found if dtype is None else found.astype(as_dtype(dtype)), place)


def geomspace(
    start: Any,
    /,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return `num` numbers from `start` to `stop` at equal ratios.

    Args:
      start: the first number, real and not 0.
      stop: the last one, of the same sign.
      num: how many.
      endpoint: whether `stop` is among them.
      dtype: type of the elements; floats by default.
      device: where it goes.
      out_sharding: the same.

    Raises:
      ArgumentError: one is 0 or signs differ, or `num` is negative.
      ArgumentTypeError: an argument is no real number.

    >>> geomspace(1, 8, 4)
    Array([1., 2., 4., 8.], dtype=float64)
    """
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
    sign = 1 if ends[0] > 0 else -1
    low, high = (math.log10(abs(end)) for end in ends)
    place = place_of(device, out_sharding)
    ratios = logspace(low, high, num, endpoint, out_sharding=place) * sign
    at = arange(integer(num, "geomspace", "num"), out_sharding=place)
    found = where(equal(at, 0), float(ends[0]), ratios)  # as logarithms go, near but not at it
    if endpoint and num > 1:
        found = where(equal(at, num - 1), float(ends[1]), found)
    return kept_at(found if dtype is None else found.astype(as_dtype(dtype)), place)
