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
    """The result of `qr`."""

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
    """The result of `eig`."""

    eigenvalues: Array
    """Complex, in no particular order."""
    eigenvectors: Array
    """In columns, of length 1."""


class EighResult(NamedTuple):
    """The result of `eigh`."""

    eigenvalues: Array
    """Real, ascending."""
    eigenvectors: Array
    """In columns, orthonormal."""


@public
def cholesky(a: Any, *, upper: bool = False, out_sharding: Any = None) -> Array:
    """Compute the Cholesky factors L of matrices L @ L^H, or U of U^H @ U.

    Only the triangle of the factor is read. On the host a matrix that is not positive definite
    raises a `LinearAlgebraError`, at the call or, where work runs later, as the cause of an
    `ExecutionError` at the first use. On GPUs it gives NaN.

    Args:
      a: Hermitian, positive definite matrices.
      upper: whether to compute upper factors U.

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
    """Factor matrices into orthonormal matrices Q and upper triangular matrices R.

    Args:
      a: matrices.
      mode: "reduced" for Q with as many columns as the shorter axis, "complete" for square Q, "r"
        for R alone, "raw" for LAPACK's form (h, tau).

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
    """Compute singular values and vectors: U, S, Vh with a = U @ (S[..., None] * Vh).

    Args:
      a: matrices.
      full_matrices: whether U and Vh are square.
      compute_uv: whether to compute vectors; otherwise the result is S.
      hermitian: whether matrices are Hermitian; only their lower triangles are read then.
    """
    params = bool(full_matrices), bool(compute_uv), bool(hermitian)
    parts = bind(rows.SVD, (a,), params)
    return SVDResult(*parts) if compute_uv else parts


@public
def svdvals(x: Any, /, *, out_sharding: Any = None) -> Array:
    """Compute singular values, descending.

    Args:
      x: matrices.
    """
    return bind(rows.SVD, (x,), (False, False, False))


@public
def eigh(a: Any, UPLO: str = "L", *, out_sharding: Any = None) -> EighResult:
    """Compute the eigenvalues, ascending, and the eigenvectors of Hermitian matrices.

    Args:
      a: Hermitian matrices.
      UPLO: the triangle that is read: "L" for the lower one, "U" for the upper one.

    Raises:
      ArgumentError: `UPLO` is neither "L" nor "U".
    """
    triangle = _triangle("eigh", UPLO)
    return EighResult(*bind(rows.EIGH, (a,), (triangle,)))


@public
def eigvalsh(a: Any, UPLO: str = "L", *, out_sharding: Any = None) -> Array:
    """Compute the eigenvalues of Hermitian matrices, ascending.

    Args:
      a: Hermitian matrices.
      UPLO: the triangle that is read: "L" for the lower one, "U" for the upper one.

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
    """Compute eigenvalues and eigenvectors, which are always complex; NumPy's may be real."""
    return EigResult(*bind(rows.EIG, (a,)))


@_square
def eigvals(a: Any, *, out_sharding: Any = None) -> Array:
    """Compute eigenvalues, which are always complex; NumPy's may be real."""
    return bind(rows.EIGVALS, (a,))
