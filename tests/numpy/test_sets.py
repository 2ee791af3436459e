"""Different elements and sets against NumPy's; results of a given size against JAX's."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard import testing
from gpushard._ops.table import sets
from gpushard.numpy import sets as uniques
from tests.numpy.compare import LAYOUTS, put, same, value
from tests.numpy.test_sorting import DTYPES, mixed, placed
from tests.share import examples

gnp = gs.numpy
pytestmark = pytest.mark.usefixtures("rt")
SETS = ["union1d", "intersect1d", "setdiff1d", "setxor1d"]
NAMES = ["unique_all", "unique_counts", "unique_inverse", "unique_values"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_unique(dtype: str, layout: str) -> None:
    data, x = placed(layout, dtype)
    for equal_nan in (True, False):
        if dtype in "FD" and not equal_nan:
            continue  # of which NumPy's order is not that of its sort
        wanted = np.unique(data, True, True, True, equal_nan=equal_nan)
        same(gnp.unique(x, True, True, True, equal_nan=equal_nan), wanted)
    same(gnp.unique(x), np.unique(data, return_index=True)[0])
    same(gnp.unique(x, return_counts=True)[1], np.unique(data, return_counts=True)[1])
    same(np.unique(x, return_inverse=True), np.unique(data, return_inverse=True))


def test_values_and_counts_are_found_without_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.random.default_rng(0).choice([-1.5, np.nan, 0.0, -0.0, 7], (40, 50))
    x = put(data, "x", "y")
    wanted = np.unique(data, return_index=True, return_counts=True)
    same(gnp.unique(x, True, return_counts=True), wanted)
    if gs.default_backend() == "cpu":  # GPUs sort positions in the same time
        monkeypatch.setattr(sets, "argsort", None)
    found, counts = gnp.unique(x, return_counts=True)
    same((found, counts), wanted[::2])
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted[0]))
    different = np.unique(data, return_counts=True, equal_nan=False)
    same(gnp.unique(x, return_counts=True, equal_nan=False), different)
    same(gnp.unique(x, size=6, fill_value=2), np.append(wanted[0], [2, 2]))


@pytest.mark.parametrize(
    ("dtype", "many"),
    [*((dtype, 3) for dtype in "?blQfD"), *((dtype, 30) for dtype in "?blQ")],
)
def test_membership_searches_nothing(
    dtype: str, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = mixed((40, 50), dtype)
    members = mixed((many,), dtype, 1)
    wanted = np.isin(data, members)
    monkeypatch.setattr(np, "searchsorted", None)
    same(gnp.isin(put(data, "x", "y"), members), wanted)


@pytest.mark.parametrize("layout", ["uneven", "cube", "empty"])
@pytest.mark.parametrize("dtype", ["?", "b", "D"])
@pytest.mark.parametrize("name", NAMES)
def test_functions_of_the_standard(name: str, dtype: str, layout: str) -> None:
    shape, entries = LAYOUTS[layout]
    data = value(shape, dtype)
    x = put(data, *entries)
    found, wanted = getattr(gnp, name)(x), getattr(np, name)(data)
    if name == "unique_values":
        same(found, np.sort(wanted))
    else:
        same(found, wanted)
        assert found._fields == wanted._fields


def test_nans_of_the_standard_differ() -> None:
    data = np.array([np.nan, 2.0, np.nan, 2.0, 0.0])
    for split in ((), ("x",), (("x", "y"),)):
        x = put(data, *split)
        found = gnp.unique_all(x)
        same(found.values, np.array([0.0, 2.0, np.nan, np.nan]))
        same(found.indices, np.array([4, 1, 0, 2]))
        same(found.inverse_indices, np.array([2, 1, 3, 1, 0]))
        same(found.counts, np.array([1, 2, 1, 1]))
        same(gnp.unique(x, return_counts=True)[1], np.array([1, 2, 2]))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["?", "b", "f", "D"])
def test_unique_slices(dtype: str, layout: str) -> None:
    shape, entries = LAYOUTS[layout]
    data = value(shape, dtype) > 1 if dtype == "?" else value(shape, dtype).clip(0, 1)
    data = data.astype(dtype)
    x = put(data, *entries)
    for axis in range(data.ndim):
        if not data.size:
            same(gnp.unique(x, axis=axis), np.unique(data, axis=axis))
            continue
        wanted = np.unique(data, True, True, True, axis=axis)
        same(gnp.unique(x, True, True, True, axis=axis), wanted)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_membership(dtype: str, layout: str) -> None:
    data, x = placed(layout, dtype)
    for shape, split in (((3,), ("x",)), ((0,), ()), ((5, 3), ("y", "x"))):
        members = mixed(shape, dtype, 7)
        for invert in (False, True):
            wanted = np.isin(data, members, invert=invert)
            same(gnp.isin(x, put(members, *split), invert=invert), wanted)
            same(np.isin(x, members, invert=invert), wanted)
    same(gnp.isin(x, 1), np.isin(data, 1))
    same(gnp.isin(1, x), np.isin(1, data))
    same(gnp.isin(x, [0.75, 2]), np.isin(data, [0.75, 2]))


@pytest.mark.parametrize("apart", [126, 127, 128, 129, 255])
def test_members_as_far_apart_as_their_type_allows_and_further(apart: int) -> None:
    data = np.arange(-128, 128, dtype=np.int8).repeat(3)
    members = np.linspace(-128, apart - 128, 20).astype(np.int8)
    same(gnp.isin(put(data, "x"), members), np.isin(data, members))


@pytest.mark.one_of(2)
@pytest.mark.parametrize("first", ["even", "uneven", "replicated", "empty"])
@pytest.mark.parametrize("second", ["joined", "empty"])
@pytest.mark.parametrize("name", SETS)
def test_sets(name: str, first: str, second: str) -> None:
    for dtype, other in [("b", "b"), ("f", "f"), ("b", "d"), ("?", "H")]:
        data, x = placed(first, dtype)
        more, y = placed(second, other)
        same(getattr(gnp, name)(x, y), getattr(np, name)(data, more))
        same(getattr(np, name)(x, more), getattr(np, name)(data, more))


def test_sets_in_several_memory_domains() -> None:
    with testing.runtime(host_domains=4, enable_checks=True):
        for layout in ("uneven", "joined", "empty"):
            data, x = placed(layout, "f")
            more, y = placed("cube", "f")
            same(gnp.unique(x, True, True, True), np.unique(data, True, True, True))
            same(gnp.isin(x, y), np.isin(data, more))
            for name in SETS:
                same(getattr(gnp, name)(x, y), getattr(np, name)(data, more))


@examples(25)
@given(st.lists(st.integers(0, 9), unique=True), st.lists(st.integers(0, 9), unique=True))
def test_sets_of_different_elements(one: list[int], two: list[int]) -> None:
    a, b = np.array(one, "l"), np.array(two, "l")
    x, y = put(a, "x"), put(b, ("y", "x"))
    for name in ("intersect1d", "setdiff1d", "setxor1d"):
        same(getattr(gnp, name)(x, y, True), getattr(np, name)(a, b, True))
    found = gnp.intersect1d(x, y, return_indices=True)
    same(found, np.intersect1d(a, b, return_indices=True))
    several = gnp.intersect1d(x, y, return_indices=True, size=len(a) + 2, fill_value=-1)
    wanted = np.intersect1d(a, b, return_indices=True)
    for result, part, fill in zip(several, wanted, (-1, len(a), len(b)), strict=True):
        missing = len(a) + 2 - len(part)
        np.testing.assert_array_equal(np.asarray(result), [*part, *[fill] * missing])
    again = gnp.intersect1d(put(np.repeat(a, 2), "y"), y, return_indices=True)
    same(again, np.intersect1d(np.repeat(a, 2), b, return_indices=True))


@pytest.mark.parametrize("fill", [None, 5])
def test_results_of_a_given_size(jax: Any, fill: Any) -> None:
    data, other = value((7,), "i"), value((5,), "i", "other")
    size = {None: 9, 5: 2}[fill]
    wanted = jax.numpy.unique(data, True, True, True, size=size, fill_value=fill)
    sets = {}
    for name in SETS:
        padded = np.full(9, fill or 3, "i")
        there = getattr(np, name)(data, other)
        padded[: there.size] = there
        sets[name] = padded[:size]
    for split in ((), ("x",), (("x", "y"),)):
        x, y = put(data, *split), put(other, "y")
        found = gnp.unique(x, True, True, True, size=size, fill_value=fill)
        same(found[0], wanted[0])
        for one, number in zip(found[1:], wanted[1:], strict=True):
            same(one, np.asarray(number, "l"))
        for name in SETS:
            same(getattr(gnp, name)(x, y, size=size, fill_value=fill or 3), sets[name])


@pytest.mark.parametrize("name", SETS)
def test_results_of_a_given_size_are_filled_as_jax_fills_them(jax: Any, name: str) -> None:
    for other in ([3], [5], [9], [3, 4, 5], []):
        data, more = np.array([5, 3, 4, 3], "i"), np.array(other, "i")
        wanted = getattr(jax.numpy, name)(data, more, size=6)
        same(getattr(gnp, name)(put(data, "x"), put(more), size=6), np.asarray(wanted))


def test_filling() -> None:
    x = put(np.array([3, 1, 3]), "x")
    same(gnp.unique(x, size=4), np.array([1, 3, 1, 1]))
    same(gnp.unique_counts(x, size=3).counts, np.array([1, 2, 0]))
    same(gnp.setdiff1d(x, x, size=2), np.zeros(2, int))
    same(gnp.setdiff1d(x, [1], size=3), np.array([3, 0, 0]))
    same(gnp.setdiff1d(x, [3], True, size=3), np.array([1, 0, 0]))
    same(gnp.setxor1d([np.nan, np.nan], [1.0], size=3), np.array([1, np.nan, 1]))
    same(gnp.intersect1d(x[:2], [3, 4], size=3), np.array([3, 3, 3]))
    same(gnp.intersect1d(x, [4], size=2), np.zeros(2, int))
    same(gnp.unique(x[:0], size=2, fill_value=7), np.array([7, 7]))
    same(gnp.unique(x.reshape(3, 1), axis=0, size=3, fill_value=9), np.array([[1], [3], [9]]))


def test_the_host_reads_nothing_but_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    x = put(value((9,), "l"), "x")
    with gs.transfer_guard("disallow_explicit"):
        found = gnp.unique(x)
        gnp.setxor1d(x, x)
    same(found, np.unique(np.asarray(x)))

    def refuse(number: gs.Array, why: str) -> None:
        raise AssertionError("the host reads")

    monkeypatch.setattr(uniques, "concrete", refuse)
    with gs.transfer_guard("disallow_explicit"):
        gnp.unique(x, size=4)
        gnp.isin(x, x)
        with pytest.raises(AssertionError, match="the host reads"):
            gnp.unique(x)


def test_results_go_where_they_are_asked_to() -> None:
    data, x = placed("even", "l")
    found = gnp.unique(x, return_counts=True, out_sharding=gs.P("y"))
    same(found, np.unique(data, return_counts=True))
    assert all(part.sharding.spec == gs.P("y") for part in found)
    assert gnp.isin(x, [1]).sharding == x.sharding
    alone = gs.device_put(data, gs.devices()[2])
    same(gnp.unique(alone), np.unique(data))
    assert gnp.unique(alone).devices() == {gs.devices()[2]}
    same(gnp.unique(3.5), np.unique(3.5))
    same(gnp.unique_inverse(put(np.array(2))), np.unique_inverse(np.array(2)))
