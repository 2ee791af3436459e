"""Searching for many values together gives NumPy's positions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushard._ops import searchsorted as module
from gpushard._ops.searchsorted import search

TYPES = ["b", "B", "h", "q", "Q", "e", "f", "d"]


@pytest.fixture(scope="module", autouse=True)
def few_are_enough():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LEAST", 2)
        patch.setattr(module, "_PIECE", 40)
        yield


def numbers(seed: int, size: int, dtype: str, among: int) -> np.ndarray:
    """Numbers of few values, the extremes of the type among them, and what is no number."""
    rng = np.random.default_rng(seed)
    found = rng.integers(0, among, size).astype(dtype)
    if np.dtype(dtype).kind == "f":
        extremes = [-np.inf, np.inf, np.nan, -0.0]
    else:
        extremes = [np.iinfo(dtype).min, np.iinfo(dtype).max]
    for value in extremes:
        found[rng.random(size) < 0.1] = value
    return found


@given(
    st.integers(0, 1 << 30),
    st.sampled_from(TYPES),
    st.integers(0, 70),
    st.integers(0, 130),
    st.sampled_from([3, 100]),
    st.sampled_from(["left", "right"]),
    st.sampled_from([None, "dense", "strided", "narrow"]),
)
def test_positions_are_those_of_numpy(seed, dtype, size, count, among, side, out):
    x1 = np.sort(numbers(seed, size, dtype, among))
    x2 = numbers(seed + 1, 2 * count, dtype, among).reshape(2, count)
    target = {
        None: None,
        "dense": np.empty(x2.shape, np.intp),
        "strided": np.empty((count, 2), np.intp).T,
        "narrow": np.empty(x2.shape, np.int32),
    }[out]
    found = search(np, x1, x2, side, target)
    assert target is None or found is target
    np.testing.assert_array_equal(found, np.searchsorted(x1, x2, side))


def test_numpy_searches_where_values_come_in_order(monkeypatch):
    asked = []
    numpys = np.searchsorted
    monkeypatch.setattr(np, "searchsorted", lambda *a, **k: asked.append(a) or numpys(*a, **k))
    x1 = np.arange(30.0)
    values = np.random.default_rng(0).random(400) * 30
    wanted = numpys(x1, values)
    np.testing.assert_array_equal(search(np, x1, values, "left"), wanted)
    assert not asked
    search(np, x1, np.sort(values), "left")
    assert sum(len(x2) for _, x2 in asked) == 400


@pytest.mark.parametrize(("size", "count", "together"), [
    (160, 10, True), (160, 9, False), (176, 10, False), (16, 2, True), (16, 1, False),
    (1, 2, True), (0, 9, False),
])  # fmt: skip
def test_values_are_searched_for_together_if_they_are_many_beside_the_array(
    size, count, together, monkeypatch
):
    """A sixteenth of its elements, and so many at least as make it worthwhile."""
    asked = []
    numpys = np.searchsorted
    monkeypatch.setattr(np, "searchsorted", lambda *a, **k: asked.append(a) or numpys(*a, **k))
    x1, x2 = np.arange(size), np.arange(count)[::-1] * 7
    np.testing.assert_array_equal(search(np, x1, x2, "left"), numpys(x1, x2))
    assert bool(asked) != together
