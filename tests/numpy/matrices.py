"""Matrices, and comparing functions of `gpushard.numpy.linalg` with NumPy's."""

import zlib
from collections.abc import Callable
from typing import Any

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


def close(found: Any, expected: Any, factor: float = 400) -> None:
    """Compare shapes, types and values, within some eps of the greatest value."""
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            close(one, other, factor)
        return
    assert isinstance(found, gs.Array), type(found)
    wanted = np.asarray(expected)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    if wanted.dtype.kind not in "fc":
        np.testing.assert_array_equal(np.asarray(found), wanted)
        return
    eps = factor * float(np.finfo(wanted.dtype).eps)
    largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=1)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=eps, atol=eps * largest)


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
