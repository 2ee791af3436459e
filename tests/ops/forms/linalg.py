"""Forms of functions of matrices: stacks and dims of matrices are split."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._ops.row import Row
from gpushard._ops.table import linalg
from tests.ops.forms.form import Form


def _definite(x: Any) -> Any:
    """Return matrices that are positive definite, and far from singular."""
    return x + 60 * np.eye(x.shape[-1])


_SQUARE = ("kii",)
_ANY = ("kij",)

FORMS: dict[Row, list[Form]] = {
    linalg.CHOLESKY: [Form(_SQUARE, (True,), "D", suit=_definite)],
    linalg.INV: [Form(_SQUARE, (False,))],
    linalg.DET: [Form(_SQUARE)],
    linalg.SLOGDET: [Form(_SQUARE, (), "D")],
    linalg.SOLVE: [
        Form(("kii", "ij"), (), "d", suit=lambda x: _definite(x) if x.ndim == 3 else x),
        Form(("ii", "kij"), (), "Dd", suit=lambda x: _definite(x) if x.ndim == 2 else x),
    ],
    linalg.LU: [Form(_ANY), Form(("ij",), (), "D")],
    linalg.QR: [
        Form(_ANY, ("reduced",)),
        Form(("ij",), ("complete",), "D"),
    ],
    linalg.SVD: [
        Form(_ANY, (False, True, False)),
        Form(("ij",), (True, False, False), "D"),
        Form(("ii",), (False, True, True)),
    ],
    linalg.EIGH: [Form(_SQUARE, ("L",))],
    linalg.EIGVALSH: [Form(_SQUARE, ("U",))],
    linalg.EIG: [Form(_SQUARE)],
    linalg.EIGVALS: [Form(_SQUARE)],
}
