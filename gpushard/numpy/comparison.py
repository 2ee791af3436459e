"""Whether arrays are equal, exactly or nearly; and their sizes, as functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.numpy import elementwise as ew
from gpushard.numpy.arguments import as_value, operands, settle
from gpushard.ops.axes import from_end


def isclose(
    x1: Any,
    x2: Any,
    /,
    rtol: Any = 1e-5,
    atol: Any = 1e-8,
    equal_nan: bool = False,
    *,
    out_sharding: Any = None,
) -> Any:
    """Return whether elements differ by at most `atol + rtol * abs(x2)`.

    Args:
      x1: an array.
      x2: an array.
      rtol: what may differ, as a share of `x2`.
      atol: what may differ in any case.
      equal_nan: whether NaNs are close to each other.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    x1, x2 = operands("isclose", x1, x2)
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


def array_equal(x1: Any, x2: Any, /, equal_nan: bool = False) -> bool:
    """Return whether arrays have the same shape and equal elements.

    Arrays on the same devices are compared there, others on the host.

    Args:
      x1: an array.
      x2: an array.
      equal_nan: whether NaNs are equal.
    """
    if _on_host(x1, x2):
        return bool(np.array_equal(np.asarray(x1), np.asarray(x2), equal_nan=equal_nan))
    if x1.shape != x2.shape:
        return False
    same = ew.equal(x1, x2)
    if equal_nan:
        same = same | (ew.isnan(x1) & ew.isnan(x2))
    return bool(same.all())


def array_equiv(x1: Any, x2: Any, /) -> bool:
    """Return whether arrays broadcast to one shape and have equal elements there.

    Args:
      x1: an array.
      x2: an array.
    """
    if _on_host(x1, x2):
        return bool(np.array_equiv(np.asarray(x1), np.asarray(x2)))
    try:
        np.broadcast_shapes(x1.shape, x2.shape)
    except ValueError:
        return False
    return bool(ew.equal(x1, x2).all())


def allclose(
    x1: Any, x2: Any, /, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False
) -> bool:
    """Return whether all elements differ by at most `atol + rtol * abs(x2)`.

    Arrays on the same devices are compared there, others on the host.

    Args:
      x1: an array.
      x2: an array.
      rtol: what may differ, as a share of `x2`.
      atol: what may differ in any case.
      equal_nan: whether NaNs are close to each other.
    """
    if _on_host(x1, x2):
        return bool(np.allclose(np.asarray(x1), np.asarray(x2), rtol, atol, equal_nan))
    return bool(isclose(x1, x2, rtol, atol, equal_nan).all())


def shape(x: Any, /) -> tuple[int, ...]:
    """Return the sizes of the dims.

    Args:
      x: an array.
    """
    found: tuple[int, ...] = x.shape if hasattr(x, "shape") else np.shape(x)
    return found


def ndim(x: Any, /) -> int:
    """Return the number of dims.

    Args:
      x: an array.
    """
    return len(shape(x))


def size(x: Any, /, axis: Any = None) -> int:
    """Return the number of elements.

    Args:
      x: an array.
      axis: along which dims; all by default.
    """
    sizes = shape(x)
    return math.prod(sizes[dim] for dim in from_end(axis, len(sizes), "size"))


def copy(x: Any, /, *, out_sharding: Any = None) -> Any:
    """Return an array of the same value.

    Args:
      x: an array.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    return settle(as_value(x, "copy").copy(), out_sharding)
