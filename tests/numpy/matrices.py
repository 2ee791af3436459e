"""Matrices, and comparing functions of `gpushard.numpy.linalg` with NumPy's."""

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import gpushard as gs
from gpushard.errors import GpushardError
from tests.numpy.compare import put

la = gs.numpy.linalg
ONE_RUNTIME = pytest.mark.parametrize("domains", [4], indirect=True, ids=[""])
"""The rows run in all kinds of runtimes among the rules; here one is enough."""


def numbers(shape: tuple[int, ...], dtype: Any = np.float64, seed: str = "") -> np.ndarray:
    """Return normal numbers, or small integers."""
    rng = np.random.default_rng(zlib.crc32(f"{shape}{seed}".encode()))
    kind = np.dtype(dtype).kind
    if kind in "iu":
        return rng.integers(0, 5, shape).astype(dtype)
    found = rng.standard_normal(shape)
    return (found + 1j * rng.standard_normal(shape) if kind == "c" else found).astype(dtype)


def definite(x: np.ndarray) -> np.ndarray:
    """Return Hermitian, positive definite matrices."""
    made = x @ x.swapaxes(-1, -2).conj() + np.eye(x.shape[-1])
    return np.asarray(made).astype(x.dtype)


class Eigenvalues(NamedTuple):
    """What `eigvals` returns."""

    values: Any


def _in_order(values: np.ndarray) -> tuple[np.ndarray]:
    order = np.lexsort((values.imag.round(3), values.real.round(3)))
    return (np.take_along_axis(values, order, -1),)


def _of_eigenvectors(values: np.ndarray, vectors: np.ndarray) -> tuple[np.ndarray, ...]:
    order = np.lexsort((values.imag.round(3), values.real.round(3)))
    vectors = np.take_along_axis(vectors, order[..., None, :], -1)
    return *_in_order(values), _projections(vectors)


def _of_singular_vectors(u: np.ndarray, s: np.ndarray, vh: np.ndarray) -> tuple[np.ndarray, ...]:
    """Beyond the singular values vectors are any basis of what is left."""
    k = s.shape[-1]
    parts = [_projections(u), _projections(vh.swapaxes(-1, -2).conj())]
    known = [part[..., :k, :, :] for part in parts]
    others = [part[..., k:, :, :].sum(-3) for part in parts]
    return s, u[..., :k] @ (s[..., None] * vh[..., :k, :]), *known, *others


def _projections(vectors: np.ndarray) -> np.ndarray:
    """Return the matrices that project on vectors, which are columns.

    They say which line a vector is on, whatever number of size 1 it is multiplied by.
    """
    columns = vectors.swapaxes(-1, -2)
    return columns[..., :, None] * columns.conj()[..., None, :]


_DEFINED: dict[str, Callable[..., tuple[np.ndarray, ...]]] = {
    "Eigenvalues": _in_order,
    "EigResult": _of_eigenvectors,
    "EighResult": _of_eigenvectors,
    "SVDResult": _of_singular_vectors,
}
"""What is defined of results that GPUs find by other libraries than NumPy: no signs of vectors, no
order of eigenvalues that may be complex."""


def close(found: Any, expected: Any, factor: float = 400) -> None:
    """Compare shapes, types and values, within some eps of the greatest value."""
    several = isinstance(expected, tuple)
    pairs = list(zip(found, expected, strict=True)) if several else [(found, expected)]
    for one, other in pairs:
        assert isinstance(one, gs.Array), type(one)
        assert (one.shape, one.dtype) == (np.shape(other), np.asarray(other).dtype)
    values = [(np.asarray(one), np.asarray(other)) for one, other in pairs]
    defined = _DEFINED.get(type(expected).__name__)
    if defined is not None and gs.default_backend() == "gpu":
        values = list(zip(*(defined(*each) for each in zip(*values, strict=True)), strict=True))
    for value, wanted in values:
        if wanted.dtype.kind not in "fc":
            np.testing.assert_array_equal(value, wanted)
            continue
        eps = factor * float(np.finfo(wanted.dtype).eps)
        largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=1)
        np.testing.assert_allclose(value, wanted, rtol=eps, atol=eps * largest)


def agree(
    call: Callable[..., Any], *data: np.ndarray, specs: Any = None, factor: float = 400
) -> Any:
    """Compare a call, which gets a namespace and operands, with NumPy's."""
    specs = specs or [("x", "y")[: d.ndim] for d in data]
    arrays = [put(d, *spec) for d, spec in zip(data, specs, strict=True)]
    try:
        with np.errstate(all="ignore"):
            expected = call(np.linalg, *data)
    except (ValueError, TypeError, IndexError) as error:
        kind = TypeError if isinstance(error, TypeError) else (ValueError, TypeError)
        with pytest.raises(kind) as caught:
            call(la, *arrays)
        assert isinstance(caught.value, GpushardError)
        return None
    found = call(la, *arrays)
    close(found, expected, factor)
    return found
