"""Choose elements at random, with or without probabilities.

In this version, each device that needs the permuted dim, or the dim to choose from, gathers it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._array.key_array import keys_of
from gpushard._functions.shapes import as_shape
from gpushard._ops.axes import one_from_end
from gpushard._ops.bind import bind
from gpushard._ops.prng.distribution import Distribution, Domain
from gpushard._ops.table import manipulation, random_order
from gpushard._ops.table import random as table
from gpushard._typing import Shape
from gpushard.errors import ArgumentError
from gpushard.random.distributions import randint
from gpushard.random.keys import single_key
from gpushard.random.permutations import as_source, below
from gpushard.random.placing import beside, bind_at, moved_to
from gpushard.random.sampling import dtype_of, is_high, parameter, sample

__all__ = ["categorical", "choice"]


def choice(
    key: Any,
    a: Any,
    shape: Any = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Choose random elements of an array, or random integers below a number.

    Args:
      key: a random key.
      a: an array to choose from along `axis`, or an integer n for the integers from 0 to n - 1.
      shape: the shape of the choices; in the shape of the result, it replaces `axis`.
      replace: whether an element can be chosen more than once.
      p: the probabilities, a vector; equal by default. If it is on the host, it must sum to 1; if
        it is on devices, the sum is not checked.
      axis: the axis, an integer.
      mode: as for `gumbel`; used if `p` is given and `replace` is False.
      out_sharding: a sharding or `PartitionSpec` for the result.

    Raises:
      ArgumentError: there are no elements, or too few to choose each only once. Or `p` has another
        length, is negative, or does not sum to 1.

    >>> from gpushard import random
    >>> choice(random.key(0), 10, (4,), replace=False).shape
    (4,)
    """
    sizes, noise = as_shape(shape), _noise(mode, "choice")
    array = as_source(a, "choice", "a") if np.ndim(a) else None
    at = -1 if array is None else one_from_end(axis, len(array.shape), "choice")
    n = below(a, "choice", "a") if array is None else array.shape[at]
    _check_enough(n, math.prod(sizes), replace)
    weights = None if p is None else _weights(p, n)
    if array is None:
        return _positions(key, n, sizes, replace, weights, noise, out_sharding)
    index = _positions(key, n, sizes, replace, weights, noise, None, array)
    return moved_to(out_sharding, bind(random_order.TAKE, (array, index), (at,)))


def _noise(mode: str | None, name: str) -> Distribution:
    """Return the row of Gumbel numbers for a mode."""
    return table.GUMBEL_HIGH if is_high(mode, name) else table.GUMBEL


def _check_enough(n: int, draws: int, replace: bool) -> None:
    if draws and not n:
        raise ArgumentError(
            "choice: a has 0 elements along axis; there is nothing to choose from", argument="a"
        )
    if not replace and draws > n:
        raise ArgumentError(
            f"choice: a has {n} elements along axis, {draws} are to be chosen without replacement; "
            "choose fewer, or with replace=True",
            argument="shape",
            elements=n,
            chosen=draws,
        )


def _positions(
    key: Any,
    n: int,
    sizes: Shape,
    replace: bool,
    weights: Any,
    noise: Distribution,
    out_sharding: Any,
    array: Array | None = None,
) -> Any:
    """Draw integers below n, on the devices of the array that they are positions of."""
    element, draws = single_key(key, "choice"), math.prod(sizes)
    if array is not None:
        element = beside(element, array)
        key = keys_of(element)
    if not draws or (replace and weights is None):
        return randint(key, sizes, 0, n if draws else 1, out_sharding=out_sharding)
    if replace:
        row = random_order.WEIGHTED
        return bind_at(row, (element, weights), (sizes,), sizes, out_sharding)
    if weights is None:
        order = bind_at(random_order.ORDER, (element,), (n,), (n,))
    else:
        with np.errstate(divide="ignore"):
            logits = np.log(weights)
        noisy = sample(noise, key, (logits,), weights.shape, weights.dtype)
        order = bind(random_order.TOP, (noisy,), (draws,))
    return moved_to(out_sharding, order[:draws].reshape(sizes))


def _weights(p: Any, n: int) -> Any:
    """Check probabilities, and convert them to floats."""
    weights = parameter(p, "choice", "p", Domain(lambda x: x >= 0, "0 at least"))
    if np.shape(weights) != (n,):
        raise ArgumentError(
            f"choice: p has shape {np.shape(weights)}, there are {n} elements to choose from; it "
            f"must have shape {(n,)}",
            argument="p",
            shape=np.shape(weights),
            elements=n,
        )
    if isinstance(weights, np.ndarray):
        total = float(weights.sum())
        if not abs(total - 1) <= 1e-3:
            raise ArgumentError(
                f"choice: p sums to {total}, probabilities sum to 1; pass p / p.sum()",
                argument="p",
                total=total,
            )
    return weights if weights.dtype.kind == "f" else weights.astype(np.float64)


def categorical(
    key: Any,
    logits: Any,
    axis: int = -1,
    shape: Any = None,
    replace: bool = True,
    mode: str | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw random categories: positions along an axis of logarithmic probabilities.

    Args:
      key: a random key.
      logits: the logarithms of the probabilities, up to a constant. `axis` may be split over
        devices.
      axis: the axis of categories.
      shape: the shape of the result. All axes of `logits` except `axis` must broadcast to it; if
        `replace` is False, they must be equal to its last axes.
      replace: whether a category can be drawn more than once along the first axes of `shape`, which
        `logits` does not have.
      mode: as for `gumbel`, whose numbers are added to the logits.
      out_sharding: a sharding or `PartitionSpec` for the result.

    Raises:
      ArgumentError: the other axes of `logits` do not broadcast to `shape`, or there are too few
        categories to draw each only once.
    """
    x = as_source(logits, "categorical", "logits")
    if x.dtype.kind != "f":
        x = x.astype(np.float64)
    at = one_from_end(axis, len(x.shape), "categorical")
    n = x.shape[at]
    batch = tuple(m for d, m in enumerate(x.shape) if d != len(x.shape) + at)
    sizes = batch if shape is None else as_shape(shape)
    lead, last = sizes[: len(sizes) - len(batch)], sizes[max(len(sizes) - len(batch), 0) :]
    fits = [m in ((n, 1) if replace else (n,)) for m, n in zip(batch, last, strict=False)]
    if not all(fits) or len(sizes) < len(batch):
        how = ", or in lengths that these broadcast to" if replace else ""
        raise ArgumentError(
            f"categorical: shape={sizes} must end in {batch}, the shape of logits without "
            f"axis={axis}{how}; put other axes in front",
            argument="shape",
            shape=sizes,
            logits=x.shape,
        )
    dtype, noise = dtype_of(table.GUMBEL, x.dtype), _noise(mode, "categorical")
    if replace:
        front = len(last) + 1 + at
        noisy = sample(noise, key, (x,), (*lead, *last[:front], n, *last[front:]), dtype)
        return moved_to(out_sharding, noisy.argmax(axis=at))
    draws = math.prod(lead)
    _check_enough(n, draws, False)
    noisy = sample(noise, key, (x,), x.shape, dtype)
    order = tuple(d for d in range(-len(x.shape), 0) if d != at)
    last = bind(manipulation.TRANSPOSE, (noisy,), ((*order, at),))
    top = bind(random_order.TOP, (last,), (draws,))
    first = bind(manipulation.TRANSPOSE, (top,), ((-1, *range(-len(x.shape), -1)),))
    return moved_to(out_sharding, first.reshape(sizes))
