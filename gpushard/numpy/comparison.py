"""Whether arrays are equal, exactly or nearly; and their sizes, as functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.dtypes import kind_of
from gpushard.functions.checks import check_order
from gpushard.numpy import elementwise as ew
from gpushard.numpy.arguments import is_number, operands, settle
from gpushard.numpy.public import public
from gpushard.ops.axes import from_end


def isclose(
    a: Any,
    b: Any,
    rtol: Any = 1e-5,
    atol: Any = 1e-8,
    equal_nan: bool = False,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return whether elements differ by at most `atol + rtol * abs(b)`.

    Args:
      a: an array.
      b: an array.
      rtol: what may differ, as a share of `b`.
      atol: what may differ in any case.
      equal_nan: whether NaNs are close to each other.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    x1, x2 = operands("isclose", a, b)
    if isinstance(x2, int):  # differences of integers may not fit their type
        x2 = float(x2)
    elif not isinstance(x2, float | complex) and kind_of(x2.dtype) in "biu":
        x2 = ew.add(x2, 0.0)
    found = ew.less_equal(ew.abs(ew.subtract(x1, x2)), atol + rtol * ew.abs(x2))
    found = (found & ew.isfinite(x2)) | ew.equal(x1, x2)
    if equal_nan:
        found = found | (ew.isnan(x1) & ew.isnan(x2))
    return settle(found, out_sharding)


def _on_host(x1: Any, x2: Any) -> bool:
    """Whether arrays are compared on the host: unless both are in memory of the same devices.

    One of them would have to cross anyway.
    """
    if not (isinstance(x1, Array) and isinstance(x2, Array)):
        return True
    one, two = x1.sharding, x2.sharding
    there = one.memory_kind == two.memory_kind == "device"
    return not there or one.device_set != two.device_set


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Return whether arrays have the same shape and equal elements.

    Arrays on the same devices are compared there, others on the host.

    Args:
      a1: an array.
      a2: an array.
      equal_nan: whether NaNs are equal.
    """
    if _on_host(a1, a2):
        return bool(np.array_equal(np.asarray(a1), np.asarray(a2), equal_nan=equal_nan))
    if a1.shape != a2.shape:
        return False
    same = ew.equal(a1, a2)
    if equal_nan:
        same = same | (ew.isnan(a1) & ew.isnan(a2))
    return bool(same.all())


def array_equiv(a1: Any, a2: Any) -> bool:
    """Return whether arrays broadcast to one shape and have equal elements there.

    Args:
      a1: an array.
      a2: an array.
    """
    if _on_host(a1, a2):
        return bool(np.array_equiv(np.asarray(a1), np.asarray(a2)))
    try:
        np.broadcast_shapes(a1.shape, a2.shape)
    except ValueError:
        return False
    return bool(ew.equal(a1, a2).all())


def allclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> bool:
    """Return whether all elements differ by at most `atol + rtol * abs(b)`.

    Arrays on the same devices are compared there, others on the host.

    Args:
      a: an array.
      b: an array.
      rtol: what may differ, as a share of `b`.
      atol: what may differ in any case.
      equal_nan: whether NaNs are close to each other.
    """
    if _on_host(a, b):
        x1, x2, r, t = (x if is_number(x) else np.asarray(x) for x in (a, b, rtol, atol))
        return bool(np.allclose(x1, x2, r, t, equal_nan))
    return bool(isclose(a, b, rtol, atol, equal_nan).all())


def shape(a: Any) -> tuple[int, ...]:
    """Return the sizes of the dims.

    Args:
      a: an array.
    """
    found: tuple[int, ...] = a.shape if hasattr(a, "shape") else np.shape(a)
    return found


def ndim(a: Any) -> int:
    """Return the number of dims.

    Args:
      a: an array.
    """
    return len(shape(a))


def size(a: Any, axis: Any = None) -> int:
    """Return the number of elements.

    Args:
      a: an array.
      axis: along which dims; all by default.
    """
    sizes = shape(a)
    return math.prod(sizes[dim] for dim in from_end(axis, len(sizes), "size"))


@public
def copy(a: Any, order: Any = None, *, out_sharding: Any = None) -> Array:
    """Return an array of the same value.

    Args:
      order: must be "C", or what means it here.
    """
    check_order(order)
    return a.copy()
