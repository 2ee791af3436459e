"""Bits, uniform numbers and integers: equal on every backend and for every sharding."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.ops.bind import bind
from gpushard.ops.table import elementwise, random, random_counts
from gpushard.random.sampling import check_mode, float_dtype, int_dtype, parameter, sample


def bits(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Return random bits as unsigned integers.

    Args:
      key: a key.
      shape: of the result.
      dtype: an unsigned integer type; uint64 by default.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentTypeError: the dtype is another one.

    >>> from gpushard import random
    >>> bits(random.key(0), (2,), "uint32")
    Array([4070199207, 4202968722], dtype=uint32)
    """
    target = int_dtype(dtype, "bits", "u", np.uint64)
    return sample(random.BITS, key, shape, target, (), out_sharding)


def uniform(
    key: Any,
    shape: Any = (),
    dtype: Any = None,
    minval: Any = 0.0,
    maxval: Any = 1.0,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return numbers that are uniform on [minval, maxval).

    Args:
      key: a key.
      shape: of the result.
      dtype: a type of floats; float64 by default.
      minval: the lower bound, a number or an array.
      maxval: the upper bound.
      out_sharding: how the result is laid out.

    >>> from gpushard import random
    >>> uniform(random.key(0), (2,), "float32")
    Array([0.947667 , 0.9785799], dtype=float32)
    """
    target = float_dtype(dtype, "uniform")
    standard = type(minval) in (int, float) and type(maxval) in (int, float)
    if standard and (minval, maxval) == (0, 1):
        return sample(random.UNIFORM, key, shape, target, (), out_sharding)
    bounds = (
        parameter(minval, "uniform", "minval", _bounded, "finite"),
        parameter(maxval, "uniform", "maxval", _bounded, "finite"),
    )
    return sample(random.UNIFORM, key, shape, target, bounds, out_sharding)


def _bounded(x: Any) -> Any:
    return ~np.isinf(x)


def randint(
    key: Any,
    shape: Any,
    minval: Any,
    maxval: Any,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return integers of [minval, maxval).

    They are remainders, as JAX takes them: a little uneven where the range is no power of 2 and
    not small beside the type.

    Args:
      key: a key.
      shape: of the result.
      minval: the smallest integer, a number or an array.
      maxval: one more than the largest. Where arrays on devices have `maxval <= minval` the result
        is `minval`.
      dtype: a type of integers; int64 by default.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentError: there is no integer between the bounds, or one does not fit the dtype.
      ArgumentTypeError: a bound or the dtype is not of integers.

    >>> from gpushard import random
    >>> randint(random.key(0), (5,), 0, 10)
    Array([5, 1, 5, 7, 3], dtype=int64)
    """
    target = int_dtype(dtype, "randint")
    low, high = _bound(minval, target, "minval", 0), _bound(maxval, target, "maxval", 1)
    if not isinstance(low, Array) and not isinstance(high, Array) and np.any(low > high):
        raise ArgumentError(
            f"randint: minval={minval} must be less than maxval={maxval}; exchange them, or choose "
            "others",
            argument="maxval",
            minval=minval,
            maxval=maxval,
        )
    return sample(random_counts.RANDINT, key, shape, target, (low, high), out_sharding)


integers = randint


def _bound(x: Any, dtype: np.dtype[Any], argument: str, more: int) -> Any:
    """Return a bound less what it is more than an integer of the range, in a type that fits.

    Raises:
      ArgumentTypeError: it is no integer.
      ArgumentError: it does not fit the dtype.
    """
    info = np.iinfo(dtype)
    least, most = int(info.min), int(info.max)
    if isinstance(x, Array) or hasattr(x, "interpreter"):
        _check_integers(x.dtype, argument)
        own = np.iinfo(x.dtype)
        limits = max(least + more, int(own.min)), min(most + more, int(own.max))
        cut = bind(elementwise.CLIP, (x, *limits), (True, True))
        return (cut - cut.dtype.type(more)).astype(dtype) if more else cut.astype(dtype)
    data = np.asarray(x, object) if type(x) is int else np.asarray(x)
    if type(x) is not int:
        _check_integers(data.dtype, argument)
    exact = data.astype(object) - more
    wrong = (exact < least) | (exact > most)
    if np.any(wrong):
        raise ArgumentError(
            f"randint: {argument}={x} does not fit {dtype}, which has {least} to {most}; choose "
            "another dtype",
            argument=argument,
            value=x,
            dtype=dtype,
        )
    cast = np.asarray(exact).astype(dtype)
    return cast if cast.ndim else cast[()]


def _check_integers(dtype: np.dtype[Any], argument: str) -> None:
    if dtype.kind not in "iu":
        raise ArgumentTypeError(
            f"randint: {argument} has dtype {dtype}; bounds are integers",
            argument=argument,
            dtype=dtype,
        )


def bernoulli(
    key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low", *, out_sharding: Any = None
) -> Array:
    """Return booleans that are True with a probability.

    Args:
      key: a key.
      p: the probability, a number or an array; for one in single precision 32 bits are drawn.
      shape: of the result; by default that of `p`.
      mode: "high" draws twice as many bits, for probabilities near 0; "low" does not.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentError: a probability is not between 0 and 1, or there is no such mode.
    """
    high = check_mode(mode, "bernoulli")
    odds = parameter(p, "bernoulli", "p", probable, "between 0 and 1")
    single = isinstance(odds, Array | np.ndarray | np.generic) and odds.dtype == np.float32
    if high:
        row = random_counts.BERNOULLI_HIGH_SINGLE if single else random_counts.BERNOULLI_HIGH
    else:
        row = random_counts.BERNOULLI_SINGLE if single else random_counts.BERNOULLI
    return sample(row, key, shape, np.dtype(bool), (odds,), out_sharding)


def probable(p: Any) -> Any:
    """Whether numbers are probabilities."""
    return (p >= 0) & (p <= 1)


def rademacher(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Return 1 or -1, each half of the time.

    Args:
      key: a key.
      shape: of the result.
      dtype: a type of integers or floats; int64 by default.
      out_sharding: how the result is laid out.
    """
    target = int_dtype(dtype, "rademacher", "if")
    return sample(random_counts.RADEMACHER, key, shape, target, (), out_sharding)
