"""Sorting, and what comes first in sorted order.

A dim that is sorted along keeps the mesh axes that split it. NaNs come last, in both directions;
equal elements keep their order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array import Array, ordering
from gpushard.dtypes import kind_of
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.functions.checks import count
from gpushard.numpy.arguments import as_value, is_number, operands, settle, wanted
from gpushard.ops.axes import one_from_end
from gpushard.ops.bind import bind
from gpushard.ops.table import sorting as rows


def sort(
    a: Any,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    descending: bool = False,
    stable: bool | None = True,
    out_sharding: Any = None,
) -> Array:
    """Return an array with the elements along a dim in order.

    Args:
      a: an array.
      axis: which dim; None for all elements in row-major order.
      kind: any of NumPy's; the result does not depend on it.
      order: must be None.
      descending: whether the greatest element comes first; NaNs come last in any case.
      stable: whether equal elements, such as 0.0 and -0.0, have to keep their order.
      out_sharding: where the result goes; by default it stays where it was made.

    >>> import gpushard as gs
    >>> sort(gs.numpy.asarray([3.0, float("nan"), 1.0, 2.0]), descending=True)
    Array([ 3.,  2.,  1., nan], dtype=float64)
    """
    x = as_value(a, "sort")
    given = axis, descending, stable
    to = wanted(out_sharding, x)
    found = ordering.sort(rows.SORT, x, *given, kind=kind, order=order, out=to)
    return settle(found, out_sharding)


def argsort(
    a: Any,
    axis: Any = -1,
    kind: Any = None,
    order: Any = None,
    *,
    descending: bool = False,
    stable: bool | None = True,
    out_sharding: Any = None,
) -> Array:
    """Return the positions along a dim that its elements have in order.

    Args:
      a: an array.
      axis: which dim; None for all elements in row-major order.
      kind: any of NumPy's; the result does not depend on it.
      order: must be None.
      descending: whether the greatest element comes first; NaNs come last in any case.
      stable: whether equal elements have to keep their order.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    x = as_value(a, "argsort")
    given = axis, descending, stable
    to = wanted(out_sharding, x)
    found = ordering.sort(rows.ARGSORT, x, *given, kind=kind, order=order, out=to)
    return settle(found, out_sharding)


def partition(
    a: Any,
    kth: Any,
    axis: Any = -1,
    kind: Any = "introselect",
    order: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return an array with some elements where sorting would put them, and lesser ones before them.

    Args:
      a: an array.
      kth: at which places, an integer or several.
      axis: along which dim; None for all elements in row-major order.
      kind: must be "introselect".
      order: must be None.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: there is no such place.
    """
    x = as_value(a, "partition")
    to = wanted(out_sharding, x)
    found = ordering.partition(rows.PARTITION, x, kth, axis, kind=kind, order=order, out=to)
    return settle(found, out_sharding)


def argpartition(
    a: Any,
    kth: Any,
    axis: Any = -1,
    kind: Any = "introselect",
    order: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return the positions that elements have before `partition` along a dim.

    Args:
      a: an array.
      kth: at which places there is what sorting would put there, an integer or several.
      axis: along which dim; None for all elements in row-major order.
      kind: must be "introselect".
      order: must be None.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: there is no such place.
    """
    x = as_value(a, "argpartition")
    to = wanted(out_sharding, x)
    found = ordering.partition(rows.ARGPARTITION, x, kth, axis, kind=kind, order=order, out=to)
    return settle(found, out_sharding)


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


def sort_complex(a: Any, *, out_sharding: Any = None) -> Array:
    """Return complex numbers in order along the last dim: by the real part, then the imaginary.

    Args:
      a: an array; small integers become complex64, other real numbers complex128.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    x = as_value(a, "sort_complex")
    small = kind_of(x.dtype) in "iu" and x.dtype.itemsize < 4
    if kind_of(x.dtype) != "c":
        x = x.astype(np.complex64 if small else np.complex128)
    return sort(x, out_sharding=out_sharding)


def topk(
    x: Any, /, k: int, axis: Any = -1, largest: bool = True, *, out_sharding: Any = None
) -> tuple[Array, Array]:
    """Return the greatest or least elements along a dim in order, and their positions.

    This is `top_k` of the drafts of the Array API with the arguments of `torch.topk`. The order is
    that of `sort`: of equal elements the first one comes first, and NaNs come last.

    Args:
      x: an array.
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
    x = as_value(x, "topk")
    if axis is None:
        x, axis = x.ravel(), -1
    where, many = one_from_end(axis, x.ndim, "topk"), count(k, "topk", "k")
    size = x.shape[where]
    if many > size:
        raise ArgumentError(
            f"topk: k={many} of {size} elements along axis={axis}; give at most {size}",
            argument="k",
            k=many,
            size=size,
        )
    found: tuple[Any, Any] = settle(
        bind(rows.TOPK, (x,), (where, many, bool(largest))), out_sharding
    )
    return found
