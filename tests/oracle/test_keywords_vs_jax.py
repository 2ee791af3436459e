"""Keywords that JAX's functions have and NumPy's have not, against `jax.numpy`."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs

AT = np.array([-1, -17, 16, 1, 99])
LINE = np.arange(16.0) * 10
MATRIX = np.arange(24.0).reshape(4, 6)
SMALL = np.arange(-8, 8, dtype=np.int8).reshape(4, 4)
COUNTS = np.array([1, 2, 0, 3])
MASK = np.array([True, False, True, True])

Call = Callable[[Any, Callable[[np.ndarray], Any]], Any]
"""Takes a namespace, and what places data for it."""

CALLS: dict[str, Call] = {
    "take fill": lambda m, p: m.take(p(LINE), p(AT), mode="fill"),
    "take fill value": lambda m, p: m.take(p(LINE), AT, mode="fill", fill_value=-7),
    "take hints": lambda m, p: m.take(
        p(MATRIX), np.array([1, 3]), 0, unique_indices=True, indices_are_sorted=True
    ),
    "take columns": lambda m, p: m.take(p(MATRIX), p(AT), axis=1, mode="fill"),
    "take along fill": lambda m, p: m.take_along_axis(p(LINE), p(AT), 0, mode="fill", fill_value=3),
    "take along clip": lambda m, p: m.take_along_axis(p(LINE), AT, 0, mode="clip"),
    "compress": lambda m, p: m.compress(p(MASK), p(MATRIX), 0, size=4, fill_value=9),
    "compress fewer": lambda m, p: m.compress(MASK, p(MATRIX), 0, size=2),
    "extract": lambda m, p: m.extract(MATRIX % 2 == 0, p(MATRIX), size=5),
    "repeat longer": lambda m, p: m.repeat(p(MATRIX), p(COUNTS), 0, total_repeat_length=9),
    "repeat shorter": lambda m, p: m.repeat(p(MASK), COUNTS, total_repeat_length=4),
    "repeat alike": lambda m, p: m.repeat(p(MASK), 2, total_repeat_length=11),
    "where": lambda m, p: m.where(p(MASK), size=2)[0],
    "sum": lambda m, p: m.sum(p(SMALL), promote_integers=False),
    "einsum": lambda m, p: m.einsum("ij,jk", p(SMALL), p(SMALL), preferred_element_type="int32"),
    "convolve": lambda m, p: m.convolve(
        p(SMALL)[0], p(SMALL)[1], precision="highest", preferred_element_type=np.float32
    ),
    "searchsorted": lambda m, p: m.searchsorted(p(LINE), p(MATRIX), method="sort"),
    "digitize": lambda m, p: m.digitize(p(MATRIX), LINE, method="scan"),
    "isin": lambda m, p: m.isin(p(MATRIX), LINE, method="compare_all"),
    "slogdet": lambda m, p: m.linalg.slogdet(p(MATRIX[:, :4] + np.eye(4)), method="lu")[0],
    "array": lambda m, p: m.array(p(MASK), ndmin=3),
    "linspace": lambda m, p: m.linspace(p(LINE), 7, 3, axis=1),
    "delete": lambda m, p: m.delete(p(LINE), AT[3:4], assume_unique_indices=True),
    **{
        name: lambda m, p, name=name: getattr(m, name)(
            p(SMALL), p(SMALL), precision="high", preferred_element_type=np.int32
        )
        for name in ("matmul", "dot", "inner", "vdot", "tensordot", "vecdot")
    },
}


@pytest.mark.parametrize("name", CALLS)
def test_keywords(name: str, jax: ModuleType) -> None:
    sharding = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
    with jax.enable_x64(True):
        want = np.asarray(CALLS[name](jax.numpy, jax.numpy.asarray))
    got = CALLS[name](
        gs.numpy, lambda data: gs.device_put(data, sharding if len(data) % 4 == 0 else None)
    )
    assert got.shape == want.shape
    assert got.dtype.kind == want.dtype.kind  # JAX counts in 32 bits here and there
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12)


def test_arrays_are_left_as_they_are() -> None:
    x = gs.numpy.arange(4)
    assert gs.numpy.put(x, [0], 9, inplace=False).tolist() == [9, 1, 2, 3]
    assert gs.numpy.put_along_axis(x, AT, 5, 0, inplace=False, mode="clip").tolist() == [5, 5, 2, 5]
    assert gs.numpy.place(x, x > 1, [7], inplace=False).tolist() == [0, 1, 7, 7]
    assert gs.numpy.fill_diagonal(x.reshape(2, 2), 8, inplace=False).tolist() == [[8, 1], [2, 8]]
    assert x.tolist() == [0, 1, 2, 3]
    assert gs.numpy.put(x, [0], 9) is None and x.tolist() == [9, 1, 2, 3]
