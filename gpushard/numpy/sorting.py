"""Sorting, and what comes first in sorted order.

A dim that is sorted along keeps the mesh axes that split it. NaNs come last, in both directions;
equal elements keep their order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.dtypes import kind_of
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.functions import sorting
from gpushard.functions.checks import count
from gpushard.functions.sorting import along
from gpushard.numpy.arguments import as_value, is_number, operands, settle, wanted
from gpushard.numpy.public import public, public_array
from gpushard.ops.axes import one_from_end
from gpushard.ops.bind import bind
from gpushard.ops.table import sorting as rows

sort = public_array(sorting.sort)
argsort = public_array(sorting.argsort)
partition = public_array(sorting.partition)
argpartition = public_array(sorting.argpartition)


def lexsort(keys: Any, axis: int = -1, *, out_sharding: Any = None) -> Array:
    """Return the positions of elements in the order of the last key, then of those before it.

    Args:
      keys: arrays of one shape, or an array that holds them along its first dim.
      axis: along which dim of each.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: their shapes differ.
      ArgumentTypeError: there are no keys.
    """
    many = list(keys) if isinstance(keys, tuple | list) else list(as_value(keys, "lexsort"))
    if not many:
        raise ArgumentTypeError("lexsort got no keys; give at least one", argument="keys")
    arrays = [as_value(k, "lexsort") if is_number(k) else k for k in operands("lexsort", *many)]
    where = one_from_end(axis, len(arrays[0].shape), "lexsort")
    found = bind(rows.LEXSORT, arrays, (where,), wanted(out_sharding, *arrays))
    return settle(found, out_sharding)


@public
def sort_complex(a: Any, *, out_sharding: Any = None) -> Array:
    """Return complex numbers in order along the last dim: by the real part, then the imaginary.

    Args:
      a: an array; small integers become complex64, other real numbers complex128.
    """
    x = a
    small = kind_of(x.dtype) in "iu" and x.dtype.itemsize < 4
    if kind_of(x.dtype) != "c":
        x = x.astype(np.complex64 if small else np.complex128)
    return sort(x, out_sharding=out_sharding)


@public
def topk(
    x: Any, /, k: int, axis: Any = -1, largest: bool = True, *, out_sharding: Any = None
) -> tuple[Array, Array]:
    """Return the greatest or least elements along a dim in order, and their positions.

    This is `top_k` of the drafts of the Array API with the arguments of `torch.topk`. The order is
    that of `sort`: of equal elements the first one comes first, and NaNs come last.

    Args:
      k: how many.
      axis: along which dim; None for all elements in row-major order.
      largest: whether they are the greatest.
      out_sharding: where the results go; by default they stay where they were made.

    Returns:
      (values, positions).

    Raises:
      ArgumentError: there are fewer elements.

    >>> import gpushard as gs
    >>> topk(gs.numpy.asarray([3, 1, 4, 1, 5]), 2)
    (Array([5, 4], dtype=int64), Array([4, 2], dtype=int64))
    """
    row, at = along("topk", x, axis)
    number, size = count(k, "topk", "k"), row.shape[at]
    if number > size:
        raise ArgumentError(
            f"topk: k={number} of {size} elements along axis={axis}; give at most {size}",
            argument="k",
            k=number,
            size=size,
        )
    return bind(rows.TOPK, (row,), (at, number, bool(largest)))
