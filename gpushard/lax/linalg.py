"""Factor matrices and solve equations, under the names of `jax.lax.linalg`.

Arguments are stacks of matrices: the last two axes are rows and columns. The other axes stay split
over devices. `gpushard.numpy.linalg` has more functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import count
from gpushard._functions.docstrings import described
from gpushard._functions.elementwise import where
from gpushard._functions.host_memory import on_host
from gpushard._functions.linear_algebra import matmul
from gpushard._functions.manipulation import broadcast_to, expand_dims, squeeze
from gpushard._ops.bind import bind
from gpushard._ops.row import Row
from gpushard._ops.table import linalg as rows
from gpushard._ops.table.creation import EYE, TRIL, TRIU
from gpushard._placement.arguments import as_value
from gpushard._placement.creation import create
from gpushard._transforms.control_flow.loops import fori_loop
from gpushard.dtypes import kind_of
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.lax.arguments import check_kind

__all__ = [
    "cholesky", "eigh", "lu", "lu_pivots_to_permutation", "qr", "svd", "symmetric_product",
    "triangular_solve",
]  # fmt: skip

_matrices = described(x="matrices of floats or complex numbers.")


def _operand(name: str, x: Any) -> Any:
    array = as_value(x, name)
    check_kind(f"linalg.{name}", array, "fc")
    if array.ndim < 2:
        raise ArgumentError(
            f"lax.linalg.{name}: an array of shape {array.shape} has no matrices; give two axes "
            "or more",
            argument="x",
            shape=array.shape,
        )
    return array


def _transposed(x: Any) -> Any:
    return x.swapaxes(-1, -2)


def _triangle(row: Row, x: Any, diagonal: int = 0) -> Any:
    """Return matrices with zeros above (`TRIL`) or below (`TRIU`) a diagonal."""
    return bind(row, (x,), (max(-x.shape[-2], min(diagonal, x.shape[-1])),))


def _hermitian(x: Any, symmetrize_input: bool) -> Any:
    return (x + _transposed(x).conj()) / 2 if symmetrize_input else x


@_matrices
def cholesky(x: Any, *, symmetrize_input: bool = True) -> Array:
    """Compute the lower Cholesky factor L of each matrix, where L @ L^H is the matrix.

    On the host, a matrix that is not positive definite raises a `LinearAlgebraError`. On GPUs, its
    factor is NaN.

    Args:
      symmetrize_input: whether to replace each matrix by its mean with its conjugate transpose. If
        False, only the lower triangle is read.

    >>> cholesky([[4.0, 2.0], [2.0, 5.0]])
    Array([[2., 0.],
           [1., 2.]], dtype=float64)
    """
    matrices = _hermitian(_operand("cholesky", x), symmetrize_input)
    return bind(rows.CHOLESKY, (matrices,), (False,))


@_matrices
def eigh(
    x: Any,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
) -> tuple[Array, Array]:
    """Compute eigenvectors and eigenvalues of Hermitian matrices; returns (vectors, values).

    Args:
      lower: whether the lower triangle is read; if False, the upper one is.
      symmetrize_input: whether to replace each matrix by its mean with its conjugate transpose
        first.
      sort_eigenvalues: ignored: eigenvalues always ascend.

    >>> v, w = eigh([[2.0, 0.0], [0.0, 1.0]])
    >>> w
    Array([1., 2.], dtype=float64)
    """
    matrices = _hermitian(_operand("eigh", x), symmetrize_input)
    values, vectors = bind(rows.EIGH, (matrices,), ("L" if lower else "U",))
    return vectors, values


@_matrices
def lu(x: Any) -> tuple[Array, Array, Array]:
    """Factor matrices into a lower and an upper triangle, with partial pivoting.

    Returns:
      A tuple of three arrays. The first has both factors in one matrix: U in the upper triangle,
      and L below the diagonal; the diagonal of L is 1. The second has the pivots: for each row, in
      order, the row with which it was exchanged. The third is the permutation of rows:
      `x[permutation] == L @ U`.

    >>> lu([[0.0, 2.0], [4.0, 1.0]])[0]
    Array([[4., 1.],
           [0., 2.]], dtype=float64)
    """
    factors, pivots, permutation = bind(rows.LU, (_operand("lu", x),))
    return factors, pivots, permutation


def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> Array:
    """Convert the pivots of `lu` to a permutation of rows.

    Args:
      pivots: integers, as `lu` returns them: the last axis has a pivot for each row.
      permutation_size: the number of rows of the matrices.

    Raises:
      ArgumentTypeError: pivots are not integers.

    >>> lu_pivots_to_permutation([1, 2, 2], 4)
    Array([1, 2, 0, 3], dtype=int32)
    """
    name = "lax.linalg.lu_pivots_to_permutation"
    swaps = as_value(pivots, name)
    if kind_of(swaps.dtype) not in "iu" or not swaps.ndim:
        raise ArgumentTypeError(
            f"{name}: pivots have dtype {swaps.dtype} and shape {swaps.shape}; give integers with "
            "an axis along rows",
            argument="pivots",
            dtype=swaps.dtype,
        )
    size = count(permutation_size, name, "permutation_size")
    places = as_value(on_host(name, np.arange, size).astype(np.int32), name)
    order = broadcast_to(places, (*swaps.shape[:-1], size))

    def swap(step: Any, order: Any) -> Any:
        row, other = places == step, places == swaps[..., step][..., None]
        mine = where(row, order, 0).sum(-1, keepdims=True, dtype=np.int32)
        theirs = where(other, order, 0).sum(-1, keepdims=True, dtype=np.int32)
        return where(row, theirs, where(other, mine, order))

    return fori_loop(0, swaps.shape[-1], swap, order)


@_matrices
def qr(x: Any, *, full_matrices: bool = True) -> tuple[Array, Array]:
    """Factor each matrix into Q, with orthonormal columns, and an upper triangular R.

    Args:
      full_matrices: whether Q is square; if False, Q has min(rows, columns) columns.

    >>> [part.shape for part in qr(np.ones((3, 2)))]
    [(3, 3), (3, 2)]
    """
    mode = "complete" if full_matrices else "reduced"
    q, r = bind(rows.QR, (_operand("qr", x),), (mode,))
    return q, r


@_matrices
def svd(x: Any, *, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Compute singular value decompositions: U, S and Vh with x = U @ (S[..., None] * Vh).

    Args:
      full_matrices: whether U and Vh are square.
      compute_uv: whether to compute U and Vh; if False, the result is only S.

    >>> svd(np.eye(2), compute_uv=False)
    Array([1., 1.], dtype=float64)
    """
    params = bool(full_matrices), bool(compute_uv), False
    return bind(rows.SVD, (_operand("svd", x),), params)


def symmetric_product(
    a_matrix: Any,
    c_matrix: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Array:
    """Compute alpha * A @ A^T + beta * C.

    Args:
      a_matrix: the matrices A.
      c_matrix: the symmetric matrices C.
      alpha: the factor of A @ A^T.
      beta: the factor of C.
      symmetrize_output: whether to copy the lower triangle of the result to the upper triangle.

    >>> symmetric_product([[1.0], [2.0]], np.zeros((2, 2)))
    Array([[1., 2.],
           [2., 4.]], dtype=float64)
    """
    a, c = _operand("symmetric_product", a_matrix), _operand("symmetric_product", c_matrix)
    total: Array = alpha * matmul(a, _transposed(a)) + beta * c
    if not symmetrize_output:
        return total
    return _triangle(TRIL, total) + _transposed(_triangle(TRIL, total, -1))


def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """Solve x @ op(a) = b, or op(a) @ x = b, for x, with triangular matrices a.

    On the host, a singular matrix raises a `LinearAlgebraError`; see `gpushard.numpy.linalg.solve`.

    Args:
      a: square matrices; only one triangle is read.
      b: the right sides: matrices, or vectors if `b` has one axis less than `a`.
      left_side: whether to solve op(a) @ x = b; if False, x @ op(a) = b.
      lower: whether the lower triangle is read; if False, the upper one is.
      transpose_a: whether op(a) is the transpose of a.
      conjugate_a: whether op(a) is the complex conjugate of a.
      unit_diagonal: whether to take 1 for all diagonal elements, without reading them.

    >>> triangular_solve([[2.0, 0.0], [1.0, 4.0]], [[2.0, 5.0]], lower=True)
    Array([[0.375, 1.25 ]], dtype=float64)
    """
    matrices, sides = _operand("triangular_solve", a), as_value(b, "triangular_solve")
    check_kind("linalg.triangular_solve", sides, "fc")
    row = TRIL if lower else TRIU
    if unit_diagonal:
        n = matrices.shape[-1]
        ones = create(EYE, (n, n), matrices.dtype, (0,), None)
        matrices = _triangle(row, matrices, -1 if lower else 1) + ones
    else:
        matrices = _triangle(row, matrices)
    matrices = matrices.conj() if conjugate_a else matrices
    matrices = _transposed(matrices) if transpose_a else matrices
    axis = -1 if left_side else -2
    vectors = sides.ndim == matrices.ndim - 1
    sides = expand_dims(sides, axis) if vectors else sides
    if not left_side:
        matrices, sides = _transposed(matrices), _transposed(sides)
    solved: Array = bind(rows.SOLVE, (matrices, sides))
    solved = solved if left_side else solved.swapaxes(-1, -2)
    return squeeze(solved, axis) if vectors else solved


def __dir__() -> list[str]:
    return sorted(__all__)
