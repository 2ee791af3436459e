"""Linear equations, inverses and determinants. The last two axes are matrices.

On the host, a singular matrix raises a `LinearAlgebraError`. Small arrays raise it at the call.
Large arrays are computed later; reading the result then raises an `ExecutionError` with this cause.
On GPUs, the result is NaN or infinite.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import check_hint, integer
from gpushard._functions.docstrings import described
from gpushard._functions.element_types import number_of
from gpushard._functions.host_reads import concrete
from gpushard._functions.linear_algebra import shape_of
from gpushard._functions.values import is_traced
from gpushard._ops.aval import Aval
from gpushard._ops.axes import from_end
from gpushard._ops.bind import bind
from gpushard._ops.table import linalg as rows
from gpushard._placement.arguments import as_value, operands, settle
from gpushard._placement.public_functions import public
from gpushard._typing import Shape
from gpushard.errors import ArgumentError
from gpushard.numpy import elementwise as ew
from gpushard.numpy import statistical
from gpushard.numpy.linalg.decompositions import svd
from gpushard.numpy.linear_algebra import matmul
from gpushard.numpy.manipulation import moveaxis, reshape

__all__ = [
    "SlogdetResult", "det", "inv", "lstsq", "pinv", "slogdet", "solve", "tensorinv",
    "tensorsolve",
]  # fmt: skip


class SlogdetResult(NamedTuple):
    """The result of `slogdet`: signs of determinants, and logarithms of their absolute values."""

    sign: Array
    """The signs of the determinants: -1, 0 or 1, or complex numbers of absolute value 1."""
    logabsdet: Array
    """The logarithms of the absolute values of the determinants."""


_square = public(arrays=1, a="square matrices.")


@_square
def det(a: Any, *, out_sharding: Any = None) -> Array:
    """Compute the determinants of matrices."""
    return bind(rows.DET, (a,))


@_square
def slogdet(a: Any, *, method: Any = None, out_sharding: Any = None) -> SlogdetResult:
    """Compute the signs of determinants, and the logarithms of their absolute values."""
    check_hint("slogdet", "method", method, (None, "lu", "qr"))
    return SlogdetResult(*bind(rows.SLOGDET, (a,)))


@_square
def inv(a: Any, *, out_sharding: Any = None) -> Array:
    """Compute the inverses of matrices.

    Raises:
      LinearAlgebraError: a matrix is singular, and the array is small enough to be computed in the
        call. For large arrays see `LinAlgError`.

    >>> import gpushard as gs
    >>> inv(gs.numpy.asarray([[2.0, 0.0], [0.0, 4.0]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float64)
    """
    return bind(rows.INV, (a,), (False,))


@described()
def solve(a: Any, b: Any, *, out_sharding: Any = None) -> Array:
    """Solve linear equations a @ x = b for x.

    The columns of `b` may be split over devices; each device then solves the equations for its
    columns.

    Args:
      a: square matrices.
      b: the right sides: a vector, or matrices with one right side in each column.

    Raises:
      ArgumentError: the shapes do not match.
      LinearAlgebraError: a matrix is singular, and the array is small enough to be computed in the
        call. For large arrays see `LinAlgError`.
    """
    x1, x2 = operands("solve", a, b)
    if len(shape_of(x2)) == 1:
        return settle(bind(rows.SOLVE, (x1, x2[:, None]))[..., 0], out_sharding)
    return settle(bind(rows.SOLVE, (x1, x2)), out_sharding)


@described()
def lstsq(a: Any, b: Any, rcond: Any = None, *, out_sharding: Any = None) -> Any:
    """Solve linear equations a @ x = b for x by least squares, from singular values.

    The number of residuals depends on the rank, so the host waits to read the rank if `a` has more
    rows than columns. In traced and mapped functions, there are residuals for every rank.

    Args:
      a: a matrix.
      b: the right sides: a vector, or a matrix with one right side in each column.
      rcond: singular values below this number times the greatest one count as 0. The default
        is `finfo(dtype).eps` times the longer side of the matrix.

    Returns:
      A tuple: the solutions, the sums of squared residuals, the rank, and the singular values.
      There are no residuals if the rank is below the number of columns, or if there are no more
      rows than columns.

    Raises:
      ArgumentError: shapes do not fit.
    """
    a, b = operands("lstsq", a, b)
    shapes = shape_of(a), shape_of(b)
    if len(shapes[0]) != 2 or len(shapes[1]) not in (1, 2) or shapes[0][0] != shapes[1][0]:
        raise ArgumentError(
            f"lstsq: shapes {shapes[0]} and {shapes[1]} must be of a matrix, and of a vector or a "
            "matrix of as many rows",
            argument="a",
            shapes=shapes,
        )
    m, n = shapes[0]
    share = None if rcond is None else float(number_of(rcond, _DOUBLE, "lstsq", "rcond"))
    dtype = rows.linalg_dtype("lstsq", [Aval(x.shape, x.dtype) for x in (a, b)])
    a, b = a.astype(dtype), b.astype(dtype)
    vector = len(shapes[1]) == 1
    sides = b[:, None] if vector else b
    u, s, vh = svd(a, full_matrices=False)
    inverse = _inverses(s, share, shapes[0])
    x = matmul(vh.mT.conj(), inverse[:, None] * matmul(u.mT.conj(), sides))
    rank = statistical.count_nonzero(inverse)
    sums = (abs(sides - matmul(a, x)) ** 2).sum(0)
    full = is_traced(rank) or int(concrete(rank, "lstsq", explicit=False)) == n
    if m <= n or not full:
        sums = sums[:0]
    return settle((x[:, 0] if vector else x, sums, rank, s), out_sharding)


_DOUBLE = np.dtype(np.float64)


@public
def pinv(
    a: Any,
    rcond: Any = None,
    hermitian: bool = False,
    *,
    rtol: Any = np._NoValue,
    out_sharding: Any = None,
) -> Array:
    """Compute the pseudo-inverses of matrices, from singular values.

    Args:
      a: matrices.
      rcond: singular values below this number times the greatest one count as 0. A number, or an
        array with one for each matrix; 1e-15 by default.
      hermitian: whether the matrices are Hermitian.
      rtol: another name of `rcond`, from the Array API. None means `finfo(dtype).eps` times the
        longer side of a matrix.

    Raises:
      ArgumentError: `rcond` and `rtol` are both given.
    """
    if rcond is not None and rtol is not np._NoValue:
        raise ArgumentError(
            "pinv: rcond= and rtol= are both given; they mean the same, give one", argument="rtol"
        )
    share = 1e-15 if rcond is None and rtol is np._NoValue else rcond
    u, s, vh = svd(a.conj(), full_matrices=False, hermitian=hermitian)
    inverse = _inverses(s, share if rtol is np._NoValue else rtol, a.shape)
    return matmul(vh.mT, inverse[..., None] * u.mT)


def _inverses(s: Any, share: Any, shape: Shape) -> Any:
    """Return 1 / s of singular values, and 0 for those that count as 0; see `cutoff`."""
    if not s.shape[-1]:
        return s
    large = s > cutoff(s, share, shape)
    return ew.where(large, 1 / ew.where(large, s, 1), 0)


def cutoff(s: Any, share: Any, shape: Shape) -> Any:
    """Compute the threshold (NumPy's `rcond`) at or below which singular values count as 0.

    Args:
      s: singular values, along the last axis.
      share: the threshold divided by the largest singular value: a number, or an array with one
        for each matrix. None means eps times the longer side of a matrix.
      shape: the shape of the matrices.
    """
    if share is None:
        share = float(np.finfo(s.dtype).eps) * max(shape[-2:])
    elif shape_of(share):
        share = as_value(share, "rtol")[..., None]
    return share * s.max(-1, keepdims=True)


@public
def tensorinv(a: Any, ind: int = 2, *, out_sharding: Any = None) -> Array:
    """Compute the inverse of an array with respect to `tensordot` over its first axes.

    Args:
      a: an array; the product of the lengths of the first `ind` axes equals the product of the
        lengths of the other axes.
      ind: the number of first axes to invert.

    Raises:
      ArgumentError: `ind` is not positive, or the products of the lengths differ.
    """
    first = integer(ind, "tensorinv", "ind")
    if first <= 0:
        raise ArgumentError.refusing("ind", first, "must be positive", "tensorinv")
    lead, rest = a.shape[:first], a.shape[first:]
    return inv(a.reshape(math.prod(lead), math.prod(rest))).reshape(*rest, *lead)


@public(arrays=2)
def tensorsolve(a: Any, b: Any, axes: Any = None, *, out_sharding: Any = None) -> Array:
    """Solve `tensordot(a, x, x.ndim) == b` for x.

    Args:
      a: an array; its last axes are the axes of x.
      b: an array; its shape is that of the first axes of `a`.
      axes: axes of `a` that are moved to the end first; none by default.

    Raises:
      ArgumentError: shapes do not fit.
    """
    if axes is not None:
        back = from_end(tuple(axes) if np.iterable(axes) else axes, a.ndim, "tensorsolve", "axes")
        a = moveaxis(a, back, tuple(range(-len(back), 0)))
    rest = a.shape[b.ndim :]
    if not math.prod(rest) ** 2 == a.size == b.size**2:
        raise ArgumentError(
            f"tensorsolve: a of shape {a.shape} and b of shape {b.shape} do not fit; the "
            f"first {b.ndim} axes of a must have {b.size} elements in all, and so must the others",
            argument="b",
            shapes=(a.shape, b.shape),
        )
    x = solve(a.reshape(b.size, b.size), b.ravel())
    return reshape(x, rest)
