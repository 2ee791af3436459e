"""Traces, cross and Kronecker products, covariances, against NumPy's.

Covariances within 400 eps of the greatest value: means are merged in another order.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.errors import ArgumentError, ArgumentTypeError
from tests.numpy.compare import LAYOUTS, agree, placed, put, same, value
from tests.numpy.matrices import ONE_RUNTIME, close

gnp = gs.numpy
pytestmark = [pytest.mark.usefixtures("domains"), ONE_RUNTIME]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_trace(layout: str) -> None:
    data, x = placed(layout)
    for offset in (0, 1, -2, 9):
        agree(lambda: gnp.trace(x, offset), lambda: np.trace(data, offset), exact=False)  # noqa: B023
    agree(lambda: gnp.trace(x, 0, 1, 0), lambda: np.trace(data, 0, 1, 0), exact=False)
    agree(lambda: gnp.trace(x, dtype="D"), lambda: np.trace(data, dtype="D"), exact=False)
    agree(lambda: gnp.trace(x[0]), lambda: np.trace(data[0]), exact=False) if len(data) else None
    small, y = placed(layout, "b")
    agree(lambda: gnp.trace(y), lambda: np.trace(small))


CROSSED: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, int]]] = [
    ((5, 3), (5, 3), {}),
    ((3,), (4, 3), {}),
    ((5, 3), (2, 1, 3), {}),
    ((3, 5), (5, 3), {"axisa": 0}),
    ((3, 5), (3, 5), {"axis": 0}),
    ((4, 3), (4, 3), {"axisc": 0}),
    ((2,), (2,), {}),
    ((5, 2), (5, 2), {}),
    ((5, 2), (4, 1, 2), {"axisc": 0}),
    ((2, 5), (5, 2), {"axisa": 0}),
    ((5, 2), (5, 3), {}),
    ((3,), (4, 2), {}),
    ((0, 2), (2,), {}),
    ((5, 4), (5, 4), {}),
    ((5, 3), (4, 3), {}),
    ((5, 3), (5, 3), {"axis": 3}),
]


@pytest.mark.parametrize("dtype", "blD")
@pytest.mark.parametrize(("one", "two", "axes"), CROSSED)
@pytest.mark.filterwarnings("ignore:Arrays of 2-dimensional vectors:DeprecationWarning")
def test_cross(
    one: tuple[int, ...], two: tuple[int, ...], axes: dict[str, int], dtype: str
) -> None:
    a, b = value(one, dtype, "a"), value(two, dtype, "b")
    x, y = put(a, *("x", "y")[: a.ndim]), put(b, *("y", "x")[: b.ndim])
    agree(lambda: gnp.cross(x, y, **axes), lambda: np.cross(a, b, **axes))
    agree(lambda: gnp.cross(x, b, **axes), lambda: np.cross(a, b, **axes))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ((5, 3), (2, 4)),
        ((4,), (3,)),
        ((3,), (2, 2)),
        ((2, 3, 2), (3,)),
        ((), (3,)),
        ((0, 2), (3, 2)),
    ],
)
@pytest.mark.parametrize("dtype", "?bD")
def test_kron(one: tuple[int, ...], two: tuple[int, ...], dtype: str) -> None:
    a, b = value(one, dtype, "a"), value(two, dtype, "b")
    x, y = put(a, *("x", "y")[: a.ndim]), put(b, *("y", "x")[: b.ndim])
    same(gnp.kron(x, y), np.kron(a, b))
    same(gnp.kron(a, y), np.kron(a, b))


WEIGHTS: dict[str, dict[str, Any]] = {
    "none": {},
    "bias": {"bias": True},
    "ddof": {"ddof": 2},
    "frequencies": {"fweights": np.array([1, 2, 0, 3, 1, 1])},
    "weights": {"aweights": np.array([0.5, 2, 1, 1, 0, 3.0])},
    "both": {"fweights": np.array([1, 2, 0, 3, 1, 1]), "aweights": np.array([0.5, 2, 1, 1, 0, 3])},
    "all": {"ddof": 0, "aweights": np.array([0.5, 2, 1, 1, 0, 3.0])},
    "few": {"ddof": 6},
    "few, weighted": {"ddof": 8, "fweights": np.array([1, 2, 0, 3, 1, 1])},
    "type": {"dtype": "f"},
}


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("dtype", "lfD")
def test_covariances(name: str, dtype: str) -> None:
    few = name.startswith("few")
    if (name == "type" or few) and dtype == "D":
        return  # they do not become real; and infinite times 0 depends on the last bit
    if few and dtype == "l" and gs.default_backend() == "gpu":
        return  # likewise: a sum that is 0 here is not 0 there
    data = value((5, 6), dtype) + (np.arange(6) % 2).astype(dtype)
    x = put(data, "x", "y")
    known = WEIGHTS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        close(gnp.cov(x, **known), np.cov(data, **known))
        close(gnp.cov(x.T, rowvar=False, **known), np.cov(data, **known))
        close(gnp.cov(x, x[:2], **known), np.cov(data, data[:2], **known))
        close(gnp.cov(x[1], **known), np.cov(data[1], **known))
        close(gnp.cov(x[1], rowvar=False, **known), np.cov(data[1], rowvar=False, **known))
        for more in (slice(0, 1), 0):  # a single row of a second array stays one
            expected = np.cov(data.T, data[more], rowvar=False, **known)
            close(gnp.cov(x.T, x[more], rowvar=False, **known), expected)
        listed = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in known.items()}
        close(gnp.cov(x, **listed), np.cov(data, **known))
        placed_too = {k: put(v, "x") if isinstance(v, np.ndarray) else v for k, v in known.items()}
        close(gnp.cov(x, **placed_too), np.cov(data, **known))


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0, 0)])
@pytest.mark.filterwarnings("ignore")
def test_nothing_has_no_covariances(shape: tuple[int, int]) -> None:
    data = np.zeros(shape)
    close(gnp.cov(put(data)), np.cov(data))
    close(gnp.corrcoef(put(data)), np.corrcoef(data))


@pytest.mark.parametrize("dtype", "lfD")
def test_correlations(dtype: str) -> None:
    data = value((5, 6), dtype) + (np.arange(30).reshape(5, 6) % 7).astype(dtype)
    x = put(data, "x", "y")
    close(gnp.corrcoef(x), np.corrcoef(data))
    close(gnp.corrcoef(x, rowvar=False), np.corrcoef(data, rowvar=False))
    close(gnp.corrcoef(x, x[::-1]), np.corrcoef(data, data[::-1]))
    close(gnp.corrcoef(x[0]), np.corrcoef(data[0]))
    if dtype == "f":
        close(gnp.corrcoef(x, dtype="f"), np.corrcoef(data, dtype="f"))


def test_rounding_takes_no_correlation_beyond_1() -> None:
    line = np.array([1.5, 2.25, -0.5, 1.0])
    wave = np.array([0.75 + 2.25j, 2 + 1j, 0.75j, 0.5 + 0.25j])
    for x, turns in ((line, (1, -1)), (wave, (1, -1, 1j, -1j))):
        for turn in turns:
            found = np.asarray(gnp.corrcoef(np.stack([x, turn * x])))
            np.testing.assert_allclose(found[0, 1], np.conj(turn), rtol=1e-12)
            assert max(np.abs(found.real).max(), np.abs(found.imag).max()) <= 1


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "dims": (lambda x: gnp.cov(x[None]), ArgumentError, r"\(1, 8, 6\) must have at most two axes"),
    "ddof": (lambda x: gnp.cov(x, ddof=0.5), ArgumentTypeError, "ddof=0.5 must be an integer"),
    "fweights": (
        lambda x: gnp.cov(x, fweights=np.ones(6)),
        ArgumentTypeError,
        "fweights of float64 must be integers",
    ),
    "length": (lambda x: gnp.cov(x, aweights=np.ones(5)), ArgumentError, "must be 6 numbers"),
    "sign": (lambda x: gnp.cov(x, aweights=-np.ones(6)), ArgumentError, "none negative"),
    "cross": (
        lambda x: gnp.cross(x, x),
        ArgumentError,
        "vectors of 6 and 6 elements must have 2 or 3",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    call, kind, words = REFUSED[name]
    _, x = placed("even")
    with pytest.raises(kind, match=words):
        call(x)


@pytest.mark.parametrize("sizes", [(4, 3), (3, 1), (2, 4)])
def test_cross_refuses_vectors_of_other_lengths(sizes: tuple[int, int]) -> None:
    with pytest.raises(ArgumentError, match=f"of {sizes[0]} and {sizes[1]} elements"):
        gnp.cross(np.ones(sizes[0]), np.ones(sizes[1]))
