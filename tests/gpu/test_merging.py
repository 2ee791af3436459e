"""Parts of a reduction on one GPU are merged in one launch, as NumPy merges them in order."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from gpushard._ops.merge_in_order import InOrder
from tests.gpu.device import needs_gpu

pytestmark = needs_gpu

CASES = [
    *(("add", code) for code in "?bhiqBHIQefdFD"),
    *(("multiply", code) for code in "hiQefdFD"),
    *((name, code) for name in ("minimum", "maximum") for code in "?bhiqBHIQefd"),
    *((name, "?") for name in ("logical_and", "logical_or")),
]


def values(rng: np.random.Generator, code: str, shape: tuple[int, ...]) -> np.ndarray:
    if code == "?":
        return rng.integers(0, 2, shape).astype(bool)
    if code in "efdFD":
        found = rng.normal(size=shape).astype(code)
        found[rng.random(shape) < 0.1] = np.nan
        found[rng.random(shape) < 0.1] = np.inf
        return found
    return np.frombuffer(rng.bytes(100 * np.dtype(code).itemsize), code)[: np.prod(shape)].reshape(
        shape
    )


@pytest.mark.parametrize(("name", "code"), CASES)
def test_parts_are_merged_as_numpy_merges_them(name: str, code: str) -> None:
    cupy: Any = pytest.importorskip("cupy")
    rng = np.random.default_rng(7)
    for count in (2, 8, 9, 17):
        arrays = [values(rng, code, (3, 6)) for _ in range(count)]
        parts = [cupy.asarray(array) for array in arrays]
        merge = InOrder(cupy, name)
        with np.errstate(all="ignore"):
            expected = functools.reduce(getattr(np, name), arrays)
        out = cupy.empty_like(parts[0])
        assert merge.at_once(parts, out) is out
        close = np.testing.assert_allclose if code in "FD" else np.testing.assert_array_equal
        exact = {"rtol": 1e-5} if code in "FD" else {}
        close(out.get(), expected, **exact)
        cut = merge.at_once([part[:, 1:4] for part in parts])
        assert cut is not None
        np.testing.assert_array_equal(cut.get(), out.get()[:, 1:4])


def test_what_has_no_order_is_merged_two_at_a_time() -> None:
    cupy: Any = pytest.importorskip("cupy")
    parts = [cupy.ones(3, np.complex64)] * 3
    assert InOrder(cupy, "minimum").at_once(parts) is None
    assert InOrder(np, "add").at_once([np.ones(3)] * 3) is None
