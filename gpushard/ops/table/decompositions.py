"""Decompositions of matrices that lie whole on a device: QR, singular values, eigenvalues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpushard.ops.table.linalg import Core, Sizes, complex_of, function_of, matrix_row, own, real

_QR_PARTS = {"reduced": ("mk", "kn"), "complete": ("mp", "pn"), "r": ("kn",), "raw": ("nm", "k")}


def _lengths(sizes: Sizes) -> dict[str, int]:
    """Return the lengths of new letters: k of the shorter dim, p and q as m and n."""
    m, n = sizes["m"], sizes["n"]
    return {"k": min(m, n), "p": m, "q": n}


def _qr_core(mode: str) -> Core:
    parts = _QR_PARTS[mode]
    return Core(("mn",), parts, (own,) * len(parts), _lengths, square=False)


def _qr(xp: Any, mode: str) -> Callable[..., Any]:
    return lambda x: xp.linalg.qr(x, mode)


def _svd_core(full: bool, vectors: bool, hermitian: bool) -> Core:
    if not vectors:
        return Core(("mn",), ("k",), (real,), _lengths, square=hermitian)
    parts = ("mp", "k", "qn") if full else ("mk", "k", "kn")
    return Core(("mn",), parts, (own, real, own), _lengths, square=hermitian)


def _svd(xp: Any, full: bool, vectors: bool, hermitian: bool) -> Callable[..., Any]:
    if hermitian:
        return _svd_by_eigenvalues(xp, vectors)
    return lambda x: xp.linalg.svd(x, full_matrices=full, compute_uv=vectors)


def _svd_by_eigenvalues(xp: Any, vectors: bool) -> Callable[..., Any]:
    """Return what finds the singular values of Hermitian matrices: the eigenvalues' sizes."""

    def values(x: Any) -> Any:
        return xp.sort(abs(xp.linalg.eigvalsh(x)), axis=-1)[..., ::-1]

    def parts(x: Any) -> Any:
        found, u = xp.linalg.eigh(x)
        order = xp.argsort(abs(found), axis=-1)[..., ::-1]
        found = xp.take_along_axis(found, order, axis=-1)
        u = xp.take_along_axis(u, order[..., None, :], axis=-1)
        signs = xp.where(found < 0, -1, 1).astype(found.dtype)
        return u, abs(found), (u * signs[..., None, :]).swapaxes(-1, -2).conj()

    return parts if vectors else values


QR = matrix_row("qr", _qr_core, _qr)
"""Parameters: the mode; results as NumPy's."""
SVD = matrix_row("svd", _svd_core, _svd)
"""Parameters: whether matrices are full, whether there are any, whether operands are Hermitian."""
EIGH = matrix_row(
    "eigh",
    lambda part: Core(("mn",), ("m", "mn"), (real, own)),
    lambda xp, part: lambda x: xp.linalg.eigh(x, part),
)
"""Parameters: "L" or "U", the triangle that counts."""
EIGVALSH = matrix_row(
    "eigvalsh",
    lambda part: Core(("mn",), ("m",), (real,)),
    lambda xp, part: lambda x: xp.linalg.eigvalsh(x, part),
)
"""Parameters: as for `EIGH`."""
EIG = matrix_row(
    "eig",
    lambda: Core(("mn",), ("m", "mn"), (complex_of, complex_of)),
    lambda xp: function_of(xp, "eig"),
)
EIGVALS = matrix_row(
    "eigvals", lambda: Core(("mn",), ("m",), (complex_of,)), lambda xp: function_of(xp, "eigvals")
)
