"""Polynomials, their roots and fits, against NumPy's."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard import testing
from gpushard.errors import ArgumentError
from gpushard.numpy import polynomials
from tests.numpy.calls import everywhere
from tests.numpy.compare import put, same, value
from tests.share import examples

gnp = gs.numpy
pytestmark = pytest.mark.usefixtures("domains")

PAIRS = ["polyadd", "polysub", "polymul", "polydiv"]
SPLITS: list[tuple[Any, ...]] = [(), ("x",), (("y", "x"),)]


@pytest.mark.parametrize("dtype", ["?", "B", "f", "D"])
def test_polynomials(dtype: str) -> None:
    for p in ([2, -1, 3], [0.5], np.zeros(0), np.array([1j, 2])):
        everywhere(lambda ns, x: ns.polyval(p, x), value((5, 2), dtype))  # noqa: B023
    everywhere(lambda ns, x: ns.polyval([1, 2], x), np.array([np.inf, np.nan]))
    same(gnp.polyval(put(np.arange(3.0), "x"), 2.0), np.polyval(np.arange(3.0), 2.0))


@pytest.mark.one_of(2)
@pytest.mark.parametrize("dtype", ["?", "b", "l", "f", "D"])
@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name: str, dtype: str) -> None:
    if dtype == "?" and name in ("polysub", "polydiv"):
        return  # booleans have no difference
    for n, m in itertools.product((1, 2, 5, 9), repeat=2):
        one, two = value((n,), dtype), value((m,), dtype, "two")
        two[0] = one[0] = 1
        wanted = getattr(np, name)(one, two)
        for first, second in ((("x",), ("y",)), ((), ())):
            found = getattr(gnp, name)(put(one, *first), put(two, *second))
            same(found, wanted, exact=False)
    same(getattr(gnp, name)([1, 2, 3], [1, 1]), getattr(np, name)([1, 2, 3], [1, 1]), exact=False)


def test_leading_zeros() -> None:
    zeros, p = np.array([0, 0, 1, 2]), np.array([0, 3, 1])
    same(gnp.polymul(put(zeros, "x"), p), np.polymul(zeros, p))
    same(gnp.polymul(np.zeros(3, int), p), np.polymul(np.zeros(3, int), p))
    kept = gnp.polymul(put(zeros, "x"), p, trim_leading_zeros=False)
    same(kept, np.convolve(zeros, p))
    same(gs.jit(lambda x: gnp.polymul(x, p))(put(zeros, "x")), np.convolve(zeros, p))
    for u in ([1, -3, 2], [2, 4], [0.0, 1e-12, 5], [0, 0]):
        same(gnp.polydiv(u, [1, -1]), np.polydiv(u, [1, -1]), exact=False)
    for small in (1e-8, np.nextafter(1e-8, 1)):  # of the remainder, up to the first alone
        u, v = [1.0, small, 5.0], [1.0, 0.0, 0.0]
        same(gnp.polydiv(u, v), np.polydiv(u, v), exact=False)
    rest = gnp.polydiv([1.0, -3.0, 2.0], [1.0, -1.0], trim_leading_zeros=False)[1]
    same(rest, np.zeros(3), exact=False)


@pytest.mark.parametrize("dtype", ["b", "l", "f", "D"])
def test_derivatives(dtype: str) -> None:
    for n, m in itertools.product((0, 1, 2, 7), (0, 1, 3)):
        p = value((n,), dtype)
        for split in SPLITS:
            x = put(p, *split)
            same(gnp.polyder(x, m), np.polyder(p, m), exact=False)
            same(gnp.polyint(x, m), np.polyint(p, m), exact=False)
    p = value((4,), dtype)
    for k in (2, [3], [1, 2.5]):
        same(gnp.polyint(put(p, "x"), 2, k), np.polyint(p, 2, k), exact=False)


@examples(30)
@given(st.lists(st.integers(-4, 4), max_size=6))
def test_roots(p: list[int]) -> None:
    wanted = np.sort_complex(np.roots(p))
    for split in SPLITS:
        found = gnp.roots(put(np.array(p, float), *split))
        assert found.dtype == np.complex128
        close = np.sort_complex(np.asarray(found))
        assert close.shape == wanted.shape
        # Multiple roots are found to a share of the digits only.
        np.testing.assert_allclose(np.polyval(p, close), np.polyval(p, wanted), atol=1e-6)


def test_roots_without_a_look_at_zeros() -> None:
    p = put(np.array([1.0, -3.0, 2.0]), "x")
    with gs.transfer_guard_device_to_host("disallow_explicit"):
        found = gnp.roots(p, strip_zeros=False)
    np.testing.assert_allclose(np.sort_complex(np.asarray(found)), [1, 2], rtol=1e-12)


@pytest.mark.parametrize("dtype", ["b", "f", "d", "D"])
def test_polynomials_of_roots(dtype: str) -> None:
    for n in (0, 1, 4):
        data = value((n,), dtype)
        for split in SPLITS:
            found, wanted = gnp.poly(put(data, *split)), np.poly(data) if n else np.ones(1)
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-5)
            assert found.dtype.char == {"b": "d"}.get(dtype, dtype)
    matrix = value((3, 3), "d")
    found = np.asarray(gnp.poly(put(matrix, "x")))
    np.testing.assert_allclose(found, np.poly(matrix), atol=1e-10)


@pytest.mark.parametrize("columns", [(), (3,)])
def test_fits(columns: tuple[int, ...]) -> None:
    x = np.linspace(-2, 3, 16)
    y = value((16, *columns), "d") + x.reshape(16, *[1] * len(columns)) ** 2
    w = np.linspace(1, 2, 16)
    for split in SPLITS:
        a, b = put(x, *split), put(y, *split)
        for keywords in ({}, {"w": w}, {"rcond": 1e-3}):
            found, wanted = gnp.polyfit(a, b, 3, **keywords), np.polyfit(x, y, 3, **keywords)
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-9)
        for cov in (True, "scaled", "unscaled"):
            found, wanted = gnp.polyfit(a, b, 2, cov=cov), np.polyfit(x, y, 2, cov=cov)
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(np.asarray(one), other, rtol=1e-8, atol=1e-10)
        found, wanted = gnp.polyfit(a, b, 2, full=True), np.polyfit(x, y, 2, full=True)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(one), other, rtol=1e-8)


def test_fits_that_are_not_determined() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = np.polyfit(np.arange(2.0), np.ones(2), 4)
    with testing.runtime():
        np.testing.assert_allclose(
            np.asarray(gnp.polyfit(np.arange(2.0), np.ones(2), 4)), wanted, atol=1e-12
        )


def test_refusals() -> None:
    with pytest.raises(ArgumentError, match=r"poly: roots of shape \(2, 3\) must be a vector"):
        gnp.poly(np.ones((2, 3)))
    with pytest.raises(ArgumentError, match="k has 2 constants"):  # so many orders are not too many
        gnp.polyint([1.0], polynomials._MOST_ORDERS, [1, 2])
