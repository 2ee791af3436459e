"""Products and sums of NumPy's top level: cross, Kronecker, traces."""

from __future__ import annotations

from typing import Any

from gpushard.array import Array
from gpushard.errors import ArgumentError
from gpushard.functions import manipulation
from gpushard.numpy import elementwise as ew
from gpushard.numpy.manipulation import expand_dims, moveaxis, roll
from gpushard.numpy.public import public, public_array
from gpushard.ops.axes import one_from_end

trace = public_array(manipulation.trace)


@public(arrays=2)
def cross(
    a: Any,
    b: Any,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return cross products of vectors of three elements.

    Args:
      b: an array; the two broadcast.
      axisa: the dim of the vectors of `a`.
      axisb: the same for `b`.
      axisc: the same for the result.
      axis: the same for all three.

    Raises:
      ArgumentError: vectors do not have three elements.

    >>> import gpushard as gs
    >>> cross(gs.numpy.asarray([1, 0, 0]), gs.numpy.asarray([0, 1, 0]))
    Array([0, 0, 1], dtype=int64)
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x1, x2 = a, b
    a = moveaxis(x1, one_from_end(axisa, x1.ndim, "cross", "axisa"), -1)
    b = moveaxis(x2, one_from_end(axisb, x2.ndim, "cross", "axisb"), -1)
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ArgumentError(
            f"cross: vectors of {a.shape[-1]} and {b.shape[-1]} elements must have 3; append a 0 "
            "to those of a plane",
            argument="x1",
            shapes=(x1.shape, x2.shape),
        )
    # Element i is a[i + 1] * b[i + 2] - a[i + 2] * b[i + 1], counted around.
    found = roll(a, -1, -1) * roll(b, -2, -1) - roll(a, -2, -1) * roll(b, -1, -1)
    return moveaxis(found, -1, one_from_end(axisc, found.ndim, "cross", "axisc"))


@public(arrays=2)
def kron(a: Any, b: Any, *, out_sharding: Any = None) -> Array:
    """Return the Kronecker product: every element of `a` times all of `b`, in blocks.

    Args:
      b: an array; new dims of the one with fewer come first.

    >>> import gpushard as gs
    >>> kron(gs.numpy.asarray([1, 10]), gs.numpy.asarray([1, 2, 3]))
    Array([ 1,  2,  3, 10, 20, 30], dtype=int64)
    """
    x1, x2 = a, b
    ndim = max(x1.ndim, x2.ndim)
    a = x1.reshape((1,) * (ndim - x1.ndim) + x1.shape)
    b = x2.reshape((1,) * (ndim - x2.ndim) + x2.shape)
    shape = tuple(m * n for m, n in zip(a.shape, b.shape, strict=True))
    blocks = expand_dims(a, tuple(range(1, 2 * ndim, 2)))
    inner = expand_dims(b, tuple(range(0, 2 * ndim, 2)))
    return ew.multiply(blocks, inner).reshape(shape)
