"""Sorting, partial sorting, and searching in sorted arrays.

The axis to sort along keeps the mesh axes that split it. NaNs come last in both directions. Equal
elements keep their order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions import sorting
from gpushard._functions.argument_checks import check_hint, count, listed
from gpushard._functions.docstrings import described
from gpushard._functions.shapes import check_vector
from gpushard._functions.sorting import METHODS, along
from gpushard._functions.values import is_value, wanted
from gpushard._ops.axes import one_from_end
from gpushard._ops.bind import bind
from gpushard._ops.scalars import is_number
from gpushard._ops.table import sorting as rows
from gpushard._placement.arguments import as_value, host_data, operands, settle
from gpushard._placement.public_functions import public, public_array
from gpushard.dtypes import kind_of
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.numpy import elementwise as ew
from gpushard.numpy.manipulation import flip

__all__ = [
    "argpartition", "argsort", "digitize", "lexsort", "partition", "searchsorted", "sort",
    "sort_complex", "topk",
]  # fmt: skip

sort = public_array(sorting.sort)
argsort = public_array(sorting.argsort)
partition = public_array(sorting.partition)
argpartition = public_array(sorting.argpartition)


@described()
def lexsort(keys: Any, axis: int = -1, *, out_sharding: Any = None) -> Array:
    """Find the positions that sort by several keys: first by the last key, then by earlier keys.

    Args:
      keys: a sequence of arrays of equal shape, or an array with the keys along its first axis.
      axis: the axis of each key along which to sort.

    Raises:
      ArgumentError: shapes differ.
      ArgumentTypeError: there are no keys.
    """
    known = keys if isinstance(keys, tuple | list) else as_value(keys, "lexsort")
    several = listed(known, "lexsort", "keys", "a sequence of arrays")
    if not several:
        raise ArgumentTypeError("lexsort got no keys; give at least one", argument="keys")
    arrays = [as_value(k, "lexsort") if is_number(k) else k for k in operands("lexsort", *several)]
    if not any(k.shape for k in arrays):  # the only position there is
        one_from_end(axis, 1, "lexsort")
        return lexsort([k.reshape((1,)) for k in arrays], out_sharding=out_sharding)[0]
    where = one_from_end(axis, len(arrays[0].shape), "lexsort")
    order = bind(rows.LEXSORT, arrays, (where,), wanted(out_sharding, *arrays))
    return settle(order, out_sharding)


@public
def sort_complex(a: Any, *, out_sharding: Any = None) -> Array:
    """Sort complex numbers along the last axis, by the real part, then by the imaginary part.

    Args:
      a: an array; integers of 8 or 16 bits become complex64, other real numbers complex128.
    """
    small = kind_of(a.dtype) in "iu" and a.dtype.itemsize < 4
    if kind_of(a.dtype) != "c":
        a = a.astype(np.complex64 if small else np.complex128)
    return sort(a, out_sharding=out_sharding)


@public
def topk(
    x: Any, /, k: int, axis: Any = -1, largest: bool = True, *, out_sharding: Any = None
) -> tuple[Array, Array]:
    """Find the k greatest elements along an axis, in descending order, and their positions.

    This is `top_k` of the drafts of the Array API, with the arguments of `torch.topk`. Equal
    elements keep their order, and NaNs come last, as in `sort`.

    Args:
      k: the number of elements. NaNs count as greater than any number.
      axis: the axis; None flattens the array in row-major order.
      largest: if False, find the least elements, in ascending order.

    Returns:
      (values, positions).

    Raises:
      ArgumentError: `k` is more than the length of the axis.

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


searchsorted = public_array(sorting.searchsorted)


@public
def digitize(
    x: Any, bins: Any, right: bool = False, *, method: Any = None, out_sharding: Any = None
) -> Array:
    """Find the number of the bin of each element; 0 and `len(bins)` mean outside all bins.

    Args:
      bins: a vector of edges that ascend or descend. If it is on devices, gpushard compares only
        the first edge with the last one, and does not check the order.
      right: whether a bin includes its right edge; if False, it includes its left edge.

    Raises:
      ArgumentError: `bins` is not a vector. Or it is on the host, and its edges neither ascend nor
        descend.
      ArgumentTypeError: `x` is complex.

    >>> import gpushard as gs
    >>> digitize(gs.numpy.asarray([0.5, 1.0, 9.0]), [1, 2, 3])
    Array([0, 1, 3], dtype=int64)
    """
    check_hint("digitize", "method", method, METHODS)
    bins = bins if is_value(bins) else host_data(bins, "digitize")
    if kind_of(x.dtype) == "c" or kind_of(bins.dtype) == "c":
        raise ArgumentTypeError(
            "digitize: complex numbers are in no bins; take the real part or the absolute value",
            argument="x",
            dtype=x.dtype,
        )
    check_vector("digitize", "bins", bins)
    return _digitized(x, bins, ("right", "left")[bool(right)])


def _digitized(x: Any, bins: Any, side: str) -> Any:
    """Search in ascending edges, or in descending ones from their end."""
    if not is_value(bins):
        if _ascends(bins):
            return searchsorted(bins, x, side)
        return _from_end(x, bins[::-1], side)
    if not bins.shape[0]:
        return searchsorted(bins, x, side)
    ascends = ew.less_equal(bins[0], bins[-1])
    return ew.where(ascends, searchsorted(bins, x, side), _from_end(x, flip(bins), side))


def _from_end(x: Any, bins: Any, side: str) -> Any:
    return ew.subtract(bins.shape[0], searchsorted(bins, x, side))


def _ascends(bins: Any) -> bool:
    """Whether edges ascend."""
    if (bins[:-1] <= bins[1:]).all():
        return True
    if (bins[:-1] >= bins[1:]).all():
        return False
    raise ArgumentError(
        "digitize: bins neither ascend nor descend; sort them", argument="bins", shape=bins.shape
    )
