"""Sorting, and the greatest elements, under the names of `jax.lax`."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions import sorting
from gpushard._functions.argument_checks import count
from gpushard._functions.manipulation import flip
from gpushard._functions.take_elements import take_along_axis
from gpushard._ops.bind import bind
from gpushard._ops.table.sorting import LEXSORT, TOPK
from gpushard._placement.arguments import as_value
from gpushard._placement.public_functions import public
from gpushard.dtypes import kind_of
from gpushard.errors import ArgumentError
from gpushard.lax.arguments import check_kind, check_shape, dim, integers

__all__ = ["sort", "sort_key_val", "top_k"]


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Sort arrays along a dimension, all in the order of the first array; NaNs come last.

    Args:
      operand: an array, or a sequence of arrays of one shape.
      dimension: the dimension.
      is_stable: ignored: equal elements always keep their order.
      num_keys: the number of arrays that decide the order: the second one decides where the first
        has equal elements, and so on.

    Returns:
      An array; for a sequence of arrays a tuple.

    >>> import gpushard as gs
    >>> sort((gs.numpy.asarray([2, 1]), gs.numpy.asarray([3, 4])))
    (Array([1, 2], dtype=int64), Array([4, 3], dtype=int64))
    """
    several = isinstance(operand, list | tuple)
    xs = [as_value(x, "sort") for x in (operand if several else (operand,))]
    (keys,) = integers("sort", "num_keys", (num_keys,))
    if not 1 <= keys <= len(xs):
        raise ArgumentError.refusing(
            "num_keys", num_keys, f"must be 1 to {len(xs)}, as many as there are arrays", "lax.sort"
        )
    at = dim("sort", dimension, xs[0].ndim, "dimension")
    for x in xs:
        check_shape("sort", "operand", x.shape, xs[0].shape)
    if len(xs) == 1:
        alone = sorting.sort(xs[0], at)
        return (alone,) if several else alone
    if keys > 1:
        order = bind(LEXSORT, xs[keys - 1 :: -1], (at - xs[0].ndim,))
    else:
        order = sorting.argsort(xs[0], at)
    return tuple(take_along_axis(x, order, at) for x in xs)


def sort_key_val(
    keys: Any, values: Any, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """Sort keys along a dimension, and bring values into the order of the keys.

    Args:
      keys: an array.
      values: an array of the same shape.
      dimension: the dimension.
      is_stable: ignored: equal keys always keep their order.

    >>> import gpushard as gs
    >>> sort_key_val(gs.numpy.asarray([2, 1]), gs.numpy.asarray([3, 4]))
    (Array([1, 2], dtype=int64), Array([4, 3], dtype=int64))
    """
    in_order: tuple[Array, Array] = sort((keys, values), dimension, is_stable)
    return in_order


@public(arrays=1, weak=True, operand="an array of real numbers.")
def top_k(operand: Any, k: int, *, axis: int = -1) -> tuple[Array, Array]:
    """Find the k greatest elements along an axis, in descending order, and their positions.

    Args:
      k: the number of elements. NaNs count as greater than any number.
      axis: the axis.

    Returns:
      A pair (values, positions); positions have the dtype int32.

    Raises:
      ArgumentError: `k` is more than the length of the axis.

    >>> import gpushard as gs
    >>> gs.lax.top_k(gs.numpy.asarray([3, 1, 4, 1, 5]), 2)
    (Array([5, 4], dtype=int64), Array([4, 2], dtype=int32))
    """
    check_kind("top_k", operand, "biuf")
    at = dim("top_k", axis, operand.ndim)
    n = operand.shape[at]
    number = count(k, "lax.top_k", "k")
    if number > n:
        raise ArgumentError.refusing("k", k, f"is more than the {n} elements", "lax.top_k", size=n)
    if kind_of(operand.dtype) != "f":
        values, places = bind(TOPK, (operand,), (at - operand.ndim, number, True))
    else:  # sorted from the last one, so that equal ones, and NaNs, come out in order
        last = (builtins.slice(None),) * at + (builtins.slice(n - number, None),)
        places = n - 1 - flip(sorting.argsort(flip(operand, at), at)[last], at)
        values = take_along_axis(operand, places, at)
    return values, places.astype(np.int32)
