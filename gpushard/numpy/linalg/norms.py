"""Norms, condition numbers and ranks.

Norms of vectors, and the norms "fro", 1, -1, inf and -inf of matrices, are reductions, merged over
devices. The other norms are computed from singular values, for which elements move until matrices
are whole.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import check_key
from gpushard._functions.shapes import check_dims
from gpushard._ops.axes import from_end
from gpushard._ops.bind import bind
from gpushard._ops.scalars import is_number
from gpushard._ops.table.contractions import EINSUM, LETTERS
from gpushard._ops.table.linalg import INV
from gpushard._ops.table.reductions import COUNT_NONZERO
from gpushard._placement.arguments import as_value
from gpushard._placement.public_functions import public
from gpushard.dtypes import kind_of, real_of, wide
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.numpy import elementwise as ew
from gpushard.numpy import statistical
from gpushard.numpy.linalg.decompositions import eigvalsh, svdvals
from gpushard.numpy.linalg.solving import cutoff
from gpushard.numpy.manipulation import expand_dims, moveaxis

__all__ = ["cond", "matrix_norm", "matrix_rank", "norm", "vector_norm"]

_Axes = tuple[int, ...]

_NORMS = "'fro', 'nuc', 1, -1, 2, -2, inf or -inf"


@public
def vector_norm(
    x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2, out_sharding: Any = None
) -> Array:
    """Compute norms of vectors.

    Args:
      axis: the axes along which a vector has its elements, an integer or a tuple of integers; all
        by default.
      keepdims: whether these axes stay, with length 1.
      ord: the order of the norm (sum of abs(x) ** ord) ** (1 / ord), a number. inf means the
        greatest absolute value, -inf the least, and 0 the number of elements that are not 0.

    Raises:
      ArgumentTypeError: `ord` is not a number.

    >>> import gpushard as gs
    >>> vector_norm(gs.numpy.asarray([3.0, 4.0]))
    Array(5., dtype=float64)
    """
    x, dtype = _inexact(x)
    axes = from_end(axis, x.ndim, "vector_norm")
    norms = _vector(x, ord, axes, bool(keepdims), "vector_norm")
    return _of_type(norms, dtype)


@public
def matrix_norm(
    x: Any, /, *, keepdims: bool = False, ord: Any = "fro", out_sharding: Any = None
) -> Array:
    """Compute norms of matrices.

    Args:
      x: matrices.
      keepdims: whether the axes of the matrices stay, with length 1.
      ord: the norm. "fro" is the root of the sum of squares, "nuc" the sum of singular values. 2
        and -2 are the greatest and the least singular value. 1 and -1 are the greatest and the
        least sum of absolute values in a column, inf and -inf in a row.

    Raises:
      ArgumentError: the norm is unknown.
    """
    x, dtype = _inexact(x)
    check_dims("matrix_norm", x, 2)
    norms = _matrix(x, ord, (-2, -1), bool(keepdims), "matrix_norm")
    return _of_type(norms, dtype)


@public
def norm(
    x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, *, out_sharding: Any = None
) -> Array:
    """Compute norms of vectors or matrices.

    Args:
      ord: the norm, as in `vector_norm` or `matrix_norm`; by default the root of the sum of
        squares.
      axis: an axis for norms of vectors, or two axes for norms of matrices; by default all axes.
      keepdims: whether these axes stay, with length 1.

    Raises:
      ArgumentError: the norm is unknown, or there are more than two axes.
    """
    x, dtype = _inexact(x)
    axes = from_end(axis, x.ndim, "norm")
    if axis is None and (ord is None or (ord == 2 and x.ndim == 1)):
        norms = _vector(x, 2, axes, bool(keepdims), "norm")
        return _of_type(norms, dtype)
    if len(axes) not in (1, 2):
        raise ArgumentError(
            f"norm: axis={axis} of an array with ndim={x.ndim} names {len(axes)} axes; norms "
            "are over one or two",
            argument="axis",
            axis=axis,
            ndim=x.ndim,
        )
    if len(axes) == 1:
        norms = _vector(x, 2 if ord is None else ord, axes, bool(keepdims), "norm")
    else:
        norms = _matrix(x, "fro" if ord is None else ord, axes, bool(keepdims), "norm")
    return _of_type(norms, dtype)


def _inexact(x: Any) -> tuple[Any, np.dtype[Any]]:
    """Return an array in the dtype to compute norms in, and the dtype of the norms."""
    if kind_of(x.dtype) not in "fc":
        x = x.astype(np.float64)
    return _of_type(x, wide(x.dtype)), real_of(x.dtype)


def _of_type(x: Any, dtype: np.dtype[Any]) -> Any:
    return x.astype(dtype, copy=False)


def _vector(x: Any, ord: Any, axes: _Axes, keepdims: bool, name: str) -> Any:
    check_key(ord, name, "ord", "a number")
    if ord == math.inf:
        return _extreme(abs(x), "max", axes, keepdims)
    if ord == -math.inf:
        return abs(x).min(axes, keepdims=keepdims)
    if isinstance(ord, str):
        raise _no_norm(name, ord, "vectors", "a number")
    if ord == 0:
        return (x != 0).astype(x.real.dtype).sum(axes, keepdims=keepdims)
    if ord == 1:
        return abs(x).sum(axes, keepdims=keepdims)
    if ord == 2:
        return ew.sqrt(_sum_of_squares(x, axes, keepdims))
    try:
        power = float(ord)
    except (TypeError, ValueError):
        raise ArgumentTypeError.refusing(
            "ord", ord, "must be a number, or for matrices 'fro' or 'nuc'", name
        ) from None
    return (abs(x) ** power).sum(axes, keepdims=keepdims) ** (1 / power)


def _extreme(x: Any, name: str, axes: Any, keepdims: bool) -> Any:
    """Return the greatest or the least absolute value; the greatest of none is 0."""
    if name == "max" and not all(x.shape[axis] for axis in axes):
        name = "sum"
    return getattr(x, name)(axes, keepdims=keepdims)


def _sum_of_squares(x: Any, axes: _Axes, keepdims: bool) -> Any:
    """Sum the squares of absolute values."""
    if x.dtype.kind == "c":
        return (x.real**2 + x.imag**2).sum(axes, keepdims=keepdims)
    letters = LETTERS[: x.ndim]
    rest = "".join(letter for d, letter in enumerate(letters, -x.ndim) if d not in axes)
    sums = bind(EINSUM, (x, x), (f"{letters},{letters}->{rest}",))
    return expand_dims(sums, axes) if keepdims else sums


def _matrix(x: Any, ord: Any, axes: _Axes, keepdims: bool, name: str) -> Any:
    rows, columns = axes
    check_key(ord, name, "ord", _NORMS)
    sums: dict[Any, Any] = {1: (rows, columns, "max"), -1: (rows, columns, "min")}
    sums |= {math.inf: (columns, rows, "max"), -math.inf: (columns, rows, "min")}
    values = {"nuc": "sum", 2: "max", -2: "min"}
    if ord == "fro":
        return ew.sqrt(_sum_of_squares(x, axes, keepdims))
    if ord in sums:
        inner, outer, extreme = sums[ord]
        norms = abs(x).sum(inner, keepdims=True)
        norms = _extreme(norms, extreme, (outer,), True)
        return norms if keepdims else norms.squeeze(axes)
    if ord not in values:
        raise _no_norm(name, ord, "matrices", _NORMS)
    norms = _extreme(svdvals(moveaxis(x, axes, (-2, -1))), values[ord], (-1,), False)
    return expand_dims(norms, axes) if keepdims else norms


def _no_norm(name: str, ord: Any, what: str, known: str) -> ArgumentError:
    return ArgumentError.refusing("ord", ord, f"is no norm of {what}; use {known}", name)


@public
def cond(x: Any, p: Any = None, *, out_sharding: Any = None) -> Array:
    """Compute the condition numbers of matrices; infinity for singular matrices.

    Args:
      x: matrices; they must be square unless `p` is None, 2 or -2.
      p: the norm, as in `matrix_norm`; 2 by default.

    Raises:
      ArgumentError: the norm is unknown, or matrices have no elements.
    """
    check_dims("cond", x, 2)
    if 0 in x.shape[-2:]:
        raise ArgumentError(
            f"cond: matrices of shape {x.shape} have no elements, and there is no result for that",
            argument="x",
            shape=x.shape,
        )
    check_key(p, "cond", "p", f"None, {_NORMS}")
    x, dtype = _inexact(x)
    if p is None or p in (2, -2):
        s = svdvals(x)
        ratio = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    else:
        inverse = bind(INV, (x,), (True,))
        ratio = matrix_norm(x, ord=p) * matrix_norm(inverse, ord=p)
    lost = ew.isnan(ratio) & ~statistical.any(ew.isnan(x), axis=(-2, -1))
    return _of_type(ew.where(lost, np.inf, ratio), dtype)


@public
def matrix_rank(
    A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None, out_sharding: Any = None
) -> Array:
    """Compute the ranks of matrices: how many singular values are not nearly 0.

    Args:
      A: matrices. For an array with fewer than two axes, the result is 1 if any element is not 0,
        else 0.
      tol: singular values up to this threshold count as 0: a number, or an array with one for each
        matrix.
      hermitian: whether the matrices are Hermitian.
      rtol: the threshold divided by the greatest singular value; by default eps times the longer
        side of a matrix.

    Raises:
      ArgumentError: `tol` and `rtol` are both given.
    """
    if tol is not None and rtol is not None:
        raise ArgumentError("matrix_rank: tol= and rtol= are both given; give one", argument="tol")
    if A.ndim < 2:
        return (A != 0).any().astype(np.int64)
    s = abs(eigvalsh(A)) if hermitian else svdvals(A)
    if tol is None and s.shape[-1]:
        tol = cutoff(s, rtol, A.shape)
    elif tol is not None and not is_number(tol):
        tol = as_value(tol, "matrix_rank")[..., None]
    large = s > (0 if tol is None else tol)
    return bind(COUNT_NONZERO, (large,), ((-1,), False, None))
