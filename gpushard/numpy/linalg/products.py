"""Products of matrices and vectors in `linalg`: matrices are the last two axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpushard._array import Array
from gpushard._functions.argument_checks import integer, listed, refuse_out
from gpushard._functions.docstrings import described
from gpushard._functions.linear_algebra import check_precision
from gpushard._ops.axes import one_from_end
from gpushard._placement.arguments import as_value, settle
from gpushard._placement.creation import ones_like
from gpushard._placement.public_functions import public
from gpushard.errors import ArgumentError
from gpushard.numpy import linear_algebra
from gpushard.numpy.linalg.solving import inv
from gpushard.numpy.matrices import tril, triu

__all__ = ["cross", "diagonal", "matrix_power", "multi_dot", "outer", "trace"]


@public(arrays=2)
def outer(x1: Any, x2: Any, /, *, out_sharding: Any = None) -> Array:
    """Multiply each element of one vector by each element of another.

    Args:
      x1: a vector.
      x2: a vector.

    Raises:
      ArgumentError: an operand is not a vector.
    """
    if x1.ndim != 1 or x2.ndim != 1:
        raise ArgumentError(
            f"outer: operands of shapes {x1.shape} and {x2.shape} must be 1-dimensional; use "
            "gpushard.numpy.outer, which takes the elements of any arrays",
            argument="x1",
            shapes=(x1.shape, x2.shape),
        )
    return linear_algebra.outer(x1, x2, out_sharding=out_sharding)


@described()
def cross(x1: Any, x2: Any, /, *, axis: int = -1, out_sharding: Any = None) -> Array:
    """Compute the cross products of vectors of three elements.

    Args:
      x2: an array; its shape and that of `x1` broadcast.
      axis: the axis of the vectors.

    Raises:
      ArgumentError: the vectors do not have three elements.
    """
    a, b = as_value(x1, "cross"), as_value(x2, "cross")
    for x in (a, b):
        if x.shape[one_from_end(axis, x.ndim, "cross")] != 3:
            raise ArgumentError(
                f"cross: vectors along axis={axis} of arrays of shapes {a.shape} and {b.shape} "
                "must have 3 elements; use gpushard.numpy.cross for vectors of a plane",
                argument="x1",
                shapes=(a.shape, b.shape),
            )
    return linear_algebra.cross(a, b, axis=axis, out_sharding=out_sharding)


@public
def diagonal(x: Any, /, *, offset: int = 0, out_sharding: Any = None) -> Array:
    """Take the diagonals of matrices, along a new last axis.

    Args:
      x: matrices.
    """
    return x.diagonal(offset, -2, -1)


@described()
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None, out_sharding: Any = None) -> Array:
    """Sum the diagonals of matrices; integers of fewer than 64 bits are summed in 64 bits.

    Args:
      x: matrices.
      dtype: the dtype of the sums, in which elements are added.
    """
    return linear_algebra.trace(x, offset, -2, -1, dtype, out_sharding=out_sharding)


@public
def matrix_power(a: Any, n: int, *, out_sharding: Any = None) -> Array:
    """Raise matrices to the power of an integer, by repeated squaring.

    Args:
      a: square matrices.
      n: the power. If it is negative, the inverses of the matrices are raised to the power -n.

    Raises:
      ArgumentError: matrices are not square.
    """
    n = integer(n, "matrix_power", "n")
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ArgumentError(
            f"matrix_power: an array of shape {a.shape} does not hold square matrices; the last "
            "two axes must have equal lengths",
            argument="a",
            shape=a.shape,
        )
    if n == 0:
        return tril(triu(ones_like(a)))
    power = inv(a) if n < 0 else a
    result: Any = None
    n = abs(n)
    while True:
        if n % 2:
            result = power if result is None else linear_algebra.matmul(result, power)
        n //= 2
        if not n:
            return result
        power = linear_algebra.matmul(power, power)


@described()
def multi_dot(
    arrays: Sequence[Any], *, out: Any = None, precision: Any = None, out_sharding: Any = None
) -> Array:
    """Multiply several matrices, in the order that takes the fewest multiplications.

    The order is computed as in Cormen et al., Introduction to Algorithms, section 14.2.

    Args:
      arrays: at least two matrices; the first and the last may be vectors.

    Raises:
      ArgumentError: there are fewer than two arrays, or an array is not a matrix.
    """
    refuse_out("multi_dot", out)
    check_precision("multi_dot", precision)
    arrays = listed(arrays, "multi_dot", "arrays", "a sequence of matrices")
    xs = [as_value(x, "multi_dot") for x in arrays]
    ends = [0, len(xs) - 1]
    dims = [x.ndim for x in xs]
    fits = all(n == 2 or (n == 1 and at in ends) for at, n in enumerate(dims))
    if len(xs) < 2 or not fits:
        raise ArgumentError(
            f"multi_dot: {len(xs)} arrays of shapes {', '.join(str(x.shape) for x in xs)}; give "
            "two or more matrices, of which the first and the last may be vectors",
            argument="arrays",
            shapes=tuple(x.shape for x in xs),
        )
    return settle(_chain(xs, _order(_lengths(xs)), 0, len(xs) - 1), out_sharding)


def _lengths(xs: Sequence[Any]) -> list[int]:
    """Return the numbers of rows of each matrix, and of columns of the last; a vector counts 1."""
    first = 1 if xs[0].ndim == 1 else xs[0].shape[0]
    last = 1 if xs[-1].ndim == 1 else xs[-1].shape[1]
    return [first, *(x.shape[0] for x in xs[1:]), last]


def _order(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Return the matrix after which to cut each chain of matrices.

    >>> cuts = _order([30, 35, 15, 5, 10, 20, 25])  # the example of the book
    >>> cuts[0, 5], cuts[0, 2], cuts[3, 5]
    (2, 0, 4)
    """
    count = len(sizes) - 1
    costs = {(i, i): 0 for i in range(count)}
    cuts: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            costs[i, j], cuts[i, j] = min(
                (costs[i, k] + costs[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return cuts


def _chain(xs: Sequence[Any], cuts: dict[tuple[int, int], int], i: int, j: int) -> Any:
    if i == j:
        return xs[i]
    k = cuts[i, j]
    return linear_algebra.matmul(_chain(xs, cuts, i, k), _chain(xs, cuts, k + 1, j))
