"""Decompositions of matrices. The last two axes are matrices, axes before them stay split."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, overload

from gpushard._array import Array
from gpushard._ops.bind import bind
from gpushard._ops.table import linalg as rows
from gpushard._placement.public_functions import public
from gpushard.errors import ArgumentError

__all__ = [
    "EigResult", "EighResult", "QRResult", "SVDResult", "cholesky", "eig", "eigh", "eigvals",
    "eigvalsh", "qr", "svd", "svdvals",
]  # fmt: skip


class QRResult(NamedTuple):
    """The result of `qr`: a = Q @ R."""

    Q: Array
    """Matrices with orthonormal columns."""
    R: Array
    """Upper triangular matrices."""


class SVDResult(NamedTuple):
    """The result of `svd`: x = U @ (S[..., None] * Vh)."""

    U: Array
    """Matrices with orthonormal columns."""
    S: Array
    """Singular values, descending."""
    Vh: Array
    """Matrices with orthonormal rows."""


class EigResult(NamedTuple):
    """The result of `eig`: eigenvalues, and eigenvectors in columns."""

    eigenvalues: Array
    """Eigenvalues, complex, in no particular order."""
    eigenvectors: Array
    """Eigenvectors in columns, each of length 1."""


class EighResult(NamedTuple):
    """The result of `eigh`: ascending eigenvalues, and eigenvectors in columns."""

    eigenvalues: Array
    """Eigenvalues, real, ascending."""
    eigenvectors: Array
    """Eigenvectors in columns, orthonormal."""


@public
def cholesky(a: Any, *, upper: bool = False, out_sharding: Any = None) -> Array:
    """Compute the Cholesky factor L of each matrix L @ L^H, or the factor U of U^H @ U.

    Only the lower triangle is read, or the upper triangle if `upper` is True. On the host, a matrix
    that is not positive definite raises a `LinearAlgebraError`. Small arrays raise it at the call.
    Large arrays are computed later; reading the result then raises an `ExecutionError` with this
    cause. On GPUs, the factor is NaN.

    Args:
      a: Hermitian, positive definite matrices.
      upper: whether to compute the upper factor U.

    >>> import gpushard as gs
    >>> cholesky(gs.numpy.asarray([[4.0, 2.0], [2.0, 5.0]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float64)
    """
    return bind(rows.CHOLESKY, (a,), (bool(upper),))


_square = public(arrays=1, a="square matrices.")
_MODES = ("reduced", "complete", "r", "raw")


@overload
def qr(
    a: Any, mode: Literal["reduced", "complete"] = "reduced", *, out_sharding: Any = None
) -> QRResult: ...


@overload
def qr(a: Any, mode: str, *, out_sharding: Any = None) -> Any: ...


@public
def qr(a: Any, mode: str = "reduced", *, out_sharding: Any = None) -> Any:
    """Factor each matrix into Q, with orthonormal columns, and an upper triangular R.

    Args:
      a: matrices.
      mode: "reduced": Q has as many columns as the shorter axis of the matrix. "complete": Q is
        square. "r": only R is returned. "raw": LAPACK's arrays (h, tau) are returned.

    Raises:
      ArgumentError: the mode is unknown.
    """
    if mode not in _MODES:
        raise ArgumentError.refusing(
            "mode", mode, f"is unknown; use one of {', '.join(_MODES)}", "qr"
        )
    parts = bind(rows.QR, (a,), (mode,))
    return QRResult(*parts) if mode in ("reduced", "complete") else parts


@overload
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: Literal[True] = True,
    hermitian: bool = False,
    *,
    out_sharding: Any = None,
) -> SVDResult: ...


@overload
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    *,
    out_sharding: Any = None,
) -> Any: ...


@public
def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    *,
    out_sharding: Any = None,
) -> Any:
    """Compute singular value decompositions: U, S and Vh with a = U @ (S[..., None] * Vh).

    Args:
      a: matrices.
      full_matrices: whether U and Vh are square.
      compute_uv: whether to compute U and Vh; if False, the result is only S.
      hermitian: whether the matrices are Hermitian. If True, only their lower triangles are read.
    """
    params = bool(full_matrices), bool(compute_uv), bool(hermitian)
    parts = bind(rows.SVD, (a,), params)
    return SVDResult(*parts) if compute_uv else parts


@public
def svdvals(x: Any, /, *, out_sharding: Any = None) -> Array:
    """Compute the singular values of matrices, in descending order.

    Args:
      x: matrices.
    """
    return bind(rows.SVD, (x,), (False, False, False))


@public
def eigh(a: Any, UPLO: str = "L", *, out_sharding: Any = None) -> EighResult:
    """Compute the eigenvalues, in ascending order, and the eigenvectors of Hermitian matrices.

    Args:
      a: Hermitian matrices.
      UPLO: the triangle of each matrix that is read: "L" for the lower one, "U" for the upper one.

    Raises:
      ArgumentError: `UPLO` is neither "L" nor "U".
    """
    triangle = _triangle("eigh", UPLO)
    return EighResult(*bind(rows.EIGH, (a,), (triangle,)))


@public
def eigvalsh(a: Any, UPLO: str = "L", *, out_sharding: Any = None) -> Array:
    """Compute the eigenvalues of Hermitian matrices, in ascending order.

    Args:
      a: Hermitian matrices.
      UPLO: the triangle of each matrix that is read: "L" for the lower one, "U" for the upper one.

    Raises:
      ArgumentError: `UPLO` is neither "L" nor "U".
    """
    triangle = _triangle("eigvalsh", UPLO)
    return bind(rows.EIGVALSH, (a,), (triangle,))


def _triangle(name: str, part: Any) -> str:
    if isinstance(part, str) and part.upper() in ("L", "U"):
        return part.upper()
    raise ArgumentError.refusing("UPLO", part, "must be 'L' or 'U'", name)


@_square
def eig(a: Any, *, out_sharding: Any = None) -> EigResult:
    """Compute eigenvalues and eigenvectors of matrices, always as complex numbers."""
    return EigResult(*bind(rows.EIG, (a,)))


@_square
def eigvals(a: Any, *, out_sharding: Any = None) -> Array:
    """Compute eigenvalues of matrices, always as complex numbers."""
    return bind(rows.EIGVALS, (a,))
