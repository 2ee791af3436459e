"""Reductions: sums, means, extremes and their positions, tests.

`axis` is an integer, a tuple of them or None for all dims. What is merged over devices moves one
partial result per block, never the data. Arguments are in NumPy's order.
"""

from __future__ import annotations

from typing import Any

from gpushard.array import Array
from gpushard.functions.checks import as_dtype
from gpushard.numpy.arguments import as_value, refuse_out, settle, wanted
from gpushard.ops.axes import from_end
from gpushard.ops.bind import bind
from gpushard.ops.table.reductions import COUNT_NONZERO


def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    promote_integers: bool = True,
    out_sharding: Any = None,
) -> Array:
    """Return the sum over dims; small integers are summed in 64 bits.

    Args:
      a: an array.
      axis: which dims.
      dtype: type that is summed in, and of the result.
      out: must be None; results are values.
      keepdims: whether dims stay, with length 1.
      initial: a number that takes part, too.
      where: which elements take part, booleans that broadcast to the array; all by default.
      promote_integers: whether the default of `dtype` for integers is of 64 bits, or their own.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    x = as_value(a, "sum")
    if dtype is None and not promote_integers and x.dtype.kind in "iu":
        dtype = x.dtype
    given = axis, dtype, out, keepdims, initial, where
    return settle(x.sum(*given, out_sharding=wanted(out_sharding, x)), out_sharding)


def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    promote_integers: bool = True,
    out_sharding: Any = None,
) -> Array:
    """Return the product over dims; small integers are multiplied in 64 bits.

    Args:
      a: an array.
      axis: which dims.
      dtype: type that is multiplied in, and of the result.
      out: must be None; results are values.
      keepdims: whether dims stay, with length 1.
      initial: a number that takes part, too.
      where: which elements take part, booleans that broadcast to the array; all by default.
      promote_integers: whether the default of `dtype` for integers is of 64 bits, or their own.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    x = as_value(a, "prod")
    if dtype is None and not promote_integers and x.dtype.kind in "iu":
        dtype = x.dtype
    given = axis, dtype, out, keepdims, initial, where
    return settle(x.prod(*given, out_sharding=wanted(out_sharding, x)), out_sharding)


def mean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return the mean over dims.

    Args:
      a: an array.
      axis: which dims.
      dtype: type that it is worked out in, and of the result.
      out: must be None; results are values.
      keepdims: whether dims stay, with length 1.
      where: which elements take part, booleans that broadcast to the array; all by default.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    x = as_value(a, "mean")
    to = wanted(out_sharding, x)
    return settle(x.mean(axis, dtype, out, keepdims, where=where, out_sharding=to), out_sharding)


def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return the variance over dims.

    Args:
      a: an array.
      axis: which dims.
      dtype: type that it is worked out in; the array is converted to it first.
      out: must be None; results are values.
      ddof: what is taken from the number of elements that squares are divided by.
      keepdims: whether dims stay, with length 1.
      where: which elements take part, booleans that broadcast to the array; all by default.
      mean: their mean, if it is known, with `axis` kept as of length 1.
      correction: `ddof`, as the Array API calls it.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    refuse_out("var", out)
    x = typed(a, dtype, "var")
    given = {"ddof": ddof, "correction": correction, "where": where, "mean": mean}
    to = wanted(out_sharding, x)
    return settle(x.var(axis, keepdims=keepdims, out_sharding=to, **given), out_sharding)


def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    mean: Any = None,
    correction: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return the square root of the variance over dims.

    Args:
      a: an array.
      axis: which dims.
      dtype: type that it is worked out in; the array is converted to it first.
      out: must be None; results are values.
      ddof: what is taken from the number of elements that squares are divided by.
      keepdims: whether dims stay, with length 1.
      where: which elements take part, booleans that broadcast to the array; all by default.
      mean: their mean, if it is known, with `axis` kept as of length 1.
      correction: `ddof`, as the Array API calls it.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    refuse_out("std", out)
    x = typed(a, dtype, "std")
    given = {"ddof": ddof, "correction": correction, "where": where, "mean": mean}
    to = wanted(out_sharding, x)
    return settle(x.std(axis, keepdims=keepdims, out_sharding=to, **given), out_sharding)


def typed(x: Any, dtype: Any, name: str) -> Any:
    """Return an array in the type that it is worked out in, if one is given."""
    x = as_value(x, name)
    return x if dtype is None else x.astype(as_dtype(dtype))


def min(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return the least element over dims; NaN if there is one.

    Args:
      a: an array.
      axis: which dims.
      out: must be None; results are values.
      keepdims: whether dims stay, with length 1.
      initial: a number that takes part, too; needed where there may be no element.
      where: which elements take part, booleans that broadcast to the array; all by default.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    x = as_value(a, "min")
    given = axis, out, keepdims, initial, where
    return settle(x.min(*given, out_sharding=wanted(out_sharding, x)), out_sharding)


def max(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return the greatest element over dims; NaN if there is one.

    Args:
      a: an array.
      axis: which dims.
      out: must be None; results are values.
      keepdims: whether dims stay, with length 1.
      initial: a number that takes part, too; needed where there may be no element.
      where: which elements take part, booleans that broadcast to the array; all by default.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    x = as_value(a, "max")
    given = axis, out, keepdims, initial, where
    return settle(x.max(*given, out_sharding=wanted(out_sharding, x)), out_sharding)


def any(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return whether some element is true.

    Args:
      a: an array.
      axis: which dims.
      out: must be None; results are values.
      keepdims: whether dims stay, with length 1.
      where: which elements take part, booleans that broadcast to the array; all by default.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    x = as_value(a, "any")
    to = wanted(out_sharding, x)
    return settle(x.any(axis, out, keepdims, where=where, out_sharding=to), out_sharding)


def all(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return whether all elements are true.

    Args:
      a: an array.
      axis: which dims.
      out: must be None; results are values.
      keepdims: whether dims stay, with length 1.
      where: which elements take part, booleans that broadcast to the array; all by default.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    x = as_value(a, "all")
    to = wanted(out_sharding, x)
    return settle(x.all(axis, out, keepdims, where=where, out_sharding=to), out_sharding)


def argmin(
    a: Any,
    axis: Any = None,
    out: Any = None,
    *,
    keepdims: bool = False,
    out_sharding: Any = None,
) -> Array:
    """Return where the least element is first: along a dim, or in row-major order for None.

    Args:
      a: an array.
      axis: which dim.
      out: must be None; results are values.
      keepdims: whether dims stay, with length 1.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    refuse_out("argmin", out)
    x = as_value(a, "argmin")
    to = wanted(out_sharding, x)
    return settle(x.argmin(axis, keepdims=keepdims, out_sharding=to), out_sharding)


def argmax(
    a: Any,
    axis: Any = None,
    out: Any = None,
    *,
    keepdims: bool = False,
    out_sharding: Any = None,
) -> Array:
    """Return where the greatest element is first: along a dim, or in row-major order for None.

    Args:
      a: an array.
      axis: which dim.
      out: must be None; results are values.
      keepdims: whether dims stay, with length 1.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    refuse_out("argmax", out)
    x = as_value(a, "argmax")
    to = wanted(out_sharding, x)
    return settle(x.argmax(axis, keepdims=keepdims, out_sharding=to), out_sharding)


def count_nonzero(
    a: Any, axis: Any = None, *, keepdims: bool = False, out_sharding: Any = None
) -> Array:
    """Return how many elements are not zero.

    Args:
      a: an array.
      axis: which dims.
      keepdims: whether dims stay, with length 1.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    x = as_value(a, "count_nonzero")
    axes = from_end(axis, x.ndim, "count_nonzero")
    params = axes, bool(keepdims), None
    return settle(bind(COUNT_NONZERO, (x,), params, wanted(out_sharding, x)), out_sharding)


amin = min
amax = max
