"""Permute arrays at random."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.values import is_value
from gpushard._ops.axes import one_from_end
from gpushard._ops.table import random_order
from gpushard._placement.device_put import as_host_array, implicitly_put
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.random.keys import single_key
from gpushard.random.placing import bind_at

__all__ = ["permutation", "shuffle"]


def permutation(
    key: Any, x: Any, axis: int = 0, independent: bool = False, *, out_sharding: Any = None
) -> Array:
    """Permute an array along an axis, or the integers below a number, randomly.

    Args:
      key: a random key.
      x: an array, or an integer n for the integers from 0 to n - 1.
      axis: the axis, an integer.
      independent: whether to permute each vector along the axis independently, rather than whole
        slices.
      out_sharding: a sharding or `PartitionSpec` for the result.

    Raises:
      ArgumentError: `x` is a negative number, or the axis does not exist.
      ArgumentTypeError: `x` is a number but not an integer.

    >>> from gpushard import random
    >>> permutation(random.key(0), 6)
    Array([0, 1, 5, 4, 3, 2], dtype=int64)
    """
    element = single_key(key, "permutation")
    if not np.ndim(x):
        n = below(x, "permutation", "x")
        one_from_end(axis, 1, "permutation")
        return bind_at(random_order.ORDER, (element,), (n,), (n,), out_sharding)
    array = as_source(x, "permutation", "x")
    params = one_from_end(axis, len(array.shape), "permutation"), bool(independent)
    return bind_at(random_order.SHUFFLE, (element, array), params, array.shape, out_sharding)


shuffle = permutation
"""Another name for `permutation`. Use the result: `x` itself does not change."""


def below(x: Any, name: str, argument: str) -> int:
    """Read the number that stands for the integers below it."""
    if is_value(x):
        raise ArgumentTypeError(
            f"{name}: {argument} is an array without axes; pass int({argument}), a number on the "
            "host: the result's size depends on it",
            argument=argument,
        )
    data = np.asarray(x)
    if data.dtype.kind not in "iu":
        raise ArgumentTypeError.refusing(
            argument, x, "must be an integer, or an array with at least one axis", name
        )
    if data < 0:
        raise ArgumentError.refusing(argument, x, "must not be negative", name)
    return int(data)


def as_source(x: Any, name: str, argument: str) -> Any:
    """Read the array to permute, or to choose elements from."""
    if is_value(x):
        return x
    host = np.array(x) if isinstance(x, list | tuple) else x
    return implicitly_put(as_host_array(host, argument)[0], name)
