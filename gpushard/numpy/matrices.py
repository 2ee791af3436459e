"""Diagonal and triangular matrices, and the matrix of powers."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import check_order, count, integer
from gpushard._functions.docstrings import described
from gpushard._functions.element_types import as_dtype
from gpushard._functions.shapes import as_shape, check_dims, check_vector
from gpushard._functions.values import is_traced
from gpushard._ops.bind import bind
from gpushard._ops.row import Row
from gpushard._ops.table import creation as rows
from gpushard._ops.table.elementwise import WHERE
from gpushard._ops.table.manipulation import PAD
from gpushard._placement.arguments import settle
from gpushard._placement.creation import create, kept_at, place_of
from gpushard._placement.public_functions import public
from gpushard._typing import HostArray, Shape
from gpushard.dtypes import kind_of, result_type
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.numpy import elementwise as ew
from gpushard.numpy.manipulation import broadcast_to
from gpushard.numpy.statistical import cumprod

__all__ = ["diag", "diagflat", "eye", "identity", "tri", "tril", "triu", "vander"]

created_from_shapes = described(
    dtype="the dtype; float64 by default.",
    order='must be "C" or None.',
    device="a device or a sharding for the array; by default the one for new arrays.",
    out_sharding="another name of `device`.",
)


@created_from_shapes
def eye(
    N: Any,
    M: Any = None,
    k: Any = 0,
    dtype: Any = None,
    order: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Create a matrix with ones on a diagonal and zeros elsewhere.

    Args:
      N: the number of rows.
      M: the number of columns; by default equal to the number of rows.
      k: the diagonal: 0 for the main one, positive above it, negative below it. It may be a traced
        value.
    """
    check_order(order)
    place = place_of(device, out_sharding)
    shape = as_shape((N, N if M is None else M), "N, M")
    target = as_dtype(dtype or np.float64)
    if is_traced(k):
        return settle(ew.equal(_diagonals(shape), _as_diagonal(k, "eye")).astype(target), place)
    # Beyond the matrix all diagonals are alike.
    diagonal = max(-shape[0], min(integer(k, "eye", "k"), shape[1]))
    return create(rows.EYE, shape, target, (diagonal,), place)


@created_from_shapes
def identity(n: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """Create a square matrix with ones on its diagonal and zeros elsewhere.

    Args:
      n: the number of rows and columns.
    """
    return eye(n, dtype=dtype, device=device, out_sharding=out_sharding)


@public
def diag(v: Any, k: int = 0, *, out_sharding: Any = None) -> Array:
    """Take a diagonal of a matrix, or create a matrix with a vector on a diagonal.

    Args:
      v: a matrix or a vector.

    Raises:
      ArgumentError: `v` is neither a matrix nor a vector.

    >>> diag([1, 2])
    Array([[1, 0],
           [0, 2]], dtype=int64)
    """
    if v.ndim not in (1, 2):
        raise ArgumentError(
            f"diag: x of shape {v.shape} must be a vector or a matrix; use diagonal for stacks",
            argument="x",
            shape=v.shape,
        )
    place = integer(k, "diag", "k")
    if v.ndim == 2:
        return v.diagonal(place)
    n = v.shape[0]
    square = triu(tril(broadcast_to(v[:, None], (n, n))))
    widths = ((max(-place, 0), max(place, 0)), (max(place, 0), max(-place, 0)))
    return bind(PAD, (square, v.dtype.type(0)), (widths,))


@public
def diagflat(v: Any, k: int = 0, *, out_sharding: Any = None) -> Array:
    """Create a matrix with all elements of an array, in row-major order, on a diagonal."""
    return diag(v.ravel(), k, out_sharding=out_sharding)


@created_from_shapes
def tri(
    N: Any,
    M: Any = None,
    k: Any = 0,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Create a matrix with ones on and below a diagonal and zeros above it.

    Args:
      N: the number of rows.
      M: the number of columns; by default equal to the number of rows.
      k: the diagonal: 0 for the main one, positive above it, negative below it. It may be a traced
        value.
    """
    place = place_of(device, out_sharding)
    shape = as_shape((N, N if M is None else M), "N, M")
    target = as_dtype(dtype or np.float64)
    if is_traced(k):
        below = ew.less_equal(_diagonals(shape), _as_diagonal(k, "tri"))
        return settle(below.astype(target), place)
    return kept_at(tril(create(rows.FULL, shape, target, (target.type(1),), place), k), place)


def _diagonals(shape: Shape) -> HostArray:
    """Return the number of the diagonal of each element of a matrix."""
    rows, columns = shape
    return np.arange(columns) - np.arange(rows)[:, None]


def _as_diagonal(k: Any, name: str) -> Any:
    """Check the number of a diagonal that is traced."""
    if k.ndim or kind_of(k.dtype) not in "iu":
        raise ArgumentTypeError(
            f"{name}: k has dtype {k.dtype} and shape {k.shape}; give an integer of shape ()",
            argument="k",
            dtype=k.dtype,
            shape=k.shape,
        )
    return k.astype(np.int64)


@public
def tril(m: Any, k: int = 0, *, out_sharding: Any = None) -> Array:
    """Replace the elements of matrices above a diagonal by zeros.

    Args:
      m: an array of at least two axes.

    Raises:
      ArgumentError: the array has fewer than two axes.
    """
    return _part(rows.TRIL, m, k)


@public
def triu(m: Any, k: int = 0, *, out_sharding: Any = None) -> Array:
    """Replace the elements of matrices below a diagonal by zeros.

    Args:
      m: an array of at least two axes.

    Raises:
      ArgumentError: the array has fewer than two axes.
    """
    return _part(rows.TRIU, m, k)


def _part(row: Row, x: Any, k: Any) -> Any:
    check_dims(row.name, x, 2)
    diagonal = max(-x.shape[-2], min(integer(k, row.name, "k"), x.shape[-1]))
    return bind(row, (x,), (diagonal,))


@public
def vander(
    x: Any, N: int | None = None, increasing: bool = False, *, out_sharding: Any = None
) -> Array:
    """Create a matrix of the powers of a vector, one column for each power.

    Args:
      x: the vector.
      N: the number of columns; by default the length of the vector.
      increasing: whether the powers ascend from 0; if False, they descend to 0.

    Raises:
      ArgumentError: `x` is not a vector, or `N` is negative.
    """
    check_vector("vander", "x", x)
    columns = x.shape[0] if N is None else count(N, "vander", "N")
    target = result_type(x.dtype, np.dtype(int))
    column = broadcast_to(x[:, None].astype(target), (x.shape[0], columns))
    first = np.arange(columns) == 0
    powers = cumprod(bind(WHERE, (first, target.type(1), column)), 1)
    return powers if increasing else powers[:, ::-1]
