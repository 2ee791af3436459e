"""Reductions: sums, means, weighted means, extremes and their positions, tests; cumulative sums.

`axis` is an integer, a tuple of integers, or None for all axes. A reduction over a split axis moves
one partial result per block, never the data. For cumulative sums each device gets the whole axis.
Arguments are in NumPy's order.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from gpushard._array import Array
from gpushard._functions import cumulative, reductions
from gpushard._functions.argument_checks import refuse_out
from gpushard._functions.values import is_value
from gpushard._ops.axes import from_end
from gpushard._placement.arguments import host_data
from gpushard._placement.public_functions import public, public_array
from gpushard.dtypes import kind_of, result_type, wide
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.numpy import elementwise as ew
from gpushard.numpy.manipulation import broadcast_to, lengthwise

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "average", "count_nonzero", "cumprod",
    "cumsum", "cumulative_prod", "cumulative_sum", "max", "mean", "min", "prod", "ptp", "std",
    "sum", "var",
]  # fmt: skip

sum = public_array(reductions.sum)
prod = public_array(reductions.prod)
mean = public_array(reductions.mean)
var = public_array(reductions.var)
std = public_array(reductions.std)
min = amin = public_array(reductions.min)
max = amax = public_array(reductions.max)
any = public_array(reductions.any)
all = public_array(reductions.all)
argmin = public_array(reductions.argmin)
argmax = public_array(reductions.argmax)
count_nonzero = public_array(reductions.count_nonzero)
cumsum = public_array(cumulative.cumsum)
cumprod = public_array(cumulative.cumprod)
cumulative_sum = public_array(cumulative.cumulative_sum)
cumulative_prod = public_array(cumulative.cumulative_prod)


@overload
def average(
    a: Any,
    axis: Any = None,
    weights: Any = None,
    returned: Literal[False] = False,
    *,
    keepdims: bool = False,
    out_sharding: Any = None,
) -> Array: ...


@overload
def average(
    a: Any,
    axis: Any = None,
    weights: Any = None,
    *,
    returned: Literal[True],
    keepdims: bool = False,
    out_sharding: Any = None,
) -> tuple[Array, Array]: ...


@overload
def average(
    a: Any,
    axis: Any = None,
    weights: Any = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
    out_sharding: Any = None,
) -> Any: ...


@public
def average(
    a: Any,
    axis: Any = None,
    weights: Any = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
    out_sharding: Any = None,
) -> Any:
    """Compute the weighted mean over axes; NaN or infinity if the weights sum to 0.

    NumPy raises an error if the weights sum to 0. gpushard does not, since the host would have to
    wait and read them.

    Args:
      weights: the weights, with the shape of the array, or with the lengths of the axes in `axis`;
        equal weights by default.
      returned: whether to also return the sums of the weights.

    Raises:
      ArgumentError: the weights have another shape.

    >>> average([1.0, 2.0, 4.0], weights=[1, 1, 2])
    Array(2.75, dtype=float64)
    """
    if weights is None:
        mean = reductions.mean(a, axis, keepdims=keepdims)
        total: Any = mean.dtype.type(a.size / (mean.size or 1))
    else:
        heavy = weights_of(a, axis, weights, "average")
        dtype = result_type(a.dtype, heavy.dtype, *(["d"] if kind_of(a.dtype) in "iub" else []))
        total = sum(heavy, axis, wide(dtype), keepdims=keepdims)
        products = ew.multiply(a, heavy, dtype=wide(dtype))
        mean = (sum(products, axis, keepdims=keepdims) / total).astype(dtype)
        total = total.astype(dtype)
    if not returned:
        return mean
    return mean, broadcast_to(total, mean.shape)


def weights_of(x: Any, axis: Any, weights: Any, name: str) -> Any:
    """Return weights of an array, or of its dims `axis`, in its shape, on devices or the host."""
    heavy = weights if is_value(weights) else host_data(weights, name)
    if heavy.shape == x.shape:
        return heavy
    if axis is None:
        raise ArgumentTypeError(
            f"{name}: weights of shape {heavy.shape} differ from the array's shape {x.shape}; say "
            "with axis= along which axes they are",
            argument="axis",
            shape=heavy.shape,
            expected=x.shape,
        )
    axes = from_end(axis, x.ndim, name)
    if heavy.shape != tuple(x.shape[at] for at in axes):
        raise ArgumentError(
            f"{name}: weights of shape {heavy.shape} do not fit the array of shape {x.shape} with "
            f"axis={axis}; give one for each element, or weights in the shape of these axes",
            argument="weights",
            shape=heavy.shape,
            expected=x.shape,
        )
    if len(axes) == 1:
        spread = lengthwise(heavy, x.ndim, axes[0])
    else:
        spread = heavy.transpose([int(n) for n in np.argsort(axes)])
        spread = spread.reshape(
            tuple(n if d - x.ndim in axes else 1 for d, n in enumerate(x.shape))
        )
    if is_value(spread):
        return broadcast_to(spread, x.shape)
    return np.broadcast_to(spread, x.shape)


@public
def ptp(
    a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, out_sharding: Any = None
) -> Array:
    """Compute the range over axes: the maximum minus the minimum."""
    refuse_out("ptp", out)
    most, least = (f(a, axis, keepdims=keepdims) for f in (reductions.max, reductions.min))
    return ew.subtract(most, least)
