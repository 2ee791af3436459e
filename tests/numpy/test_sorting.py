"""Sorting against NumPy's, with ties, NaNs and infinities."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard._ops.table import sorting
from gpushard.errors import ArgumentError
from tests.numpy.compare import LAYOUTS, agree, put, same, value
from tests.share import examples

gnp = gs.numpy
pytestmark = pytest.mark.usefixtures("domains")
DTYPES = ["?", "b", "H", "l", "Q", "e", "f", "d", "F", "D"]
SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.0]


def mixed(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Return numbers with ties; infinities, NaNs and both zeros among floats."""
    data = value(shape, dtype, str(seed))
    rng = np.random.default_rng(seed)
    if data.dtype.kind in "fc":
        there = rng.random(shape) < 0.4
        data[there] = rng.choice(SPECIAL, shape)[there]
    if data.dtype.kind == "c":
        there = rng.random(shape) < 0.3
        data.imag[there] = rng.choice(SPECIAL, shape)[there]
    return data


def placed(layout: str, dtype: Any) -> tuple[np.ndarray, gs.Array]:
    shape, entries = LAYOUTS[layout]
    data = mixed(shape, dtype)
    return data, put(data, *entries)


def positions_downwards(data: np.ndarray, axis: int) -> np.ndarray:
    """Return what sorts descending, by Python: NaNs last, equal elements in their order."""

    def order(line: np.ndarray) -> list[int]:
        ranks = np.unique(line, return_inverse=True)[1]  # NaNs have the greatest one
        missing = np.isnan(line.astype("D") if line.dtype.kind == "c" else line.astype("d"))
        if line.dtype.kind == "c":  # NaNs are in order, too
            lost = line[missing]
            keys = [_parts(z) for z in lost]
            return [
                *sorted(np.flatnonzero(~missing).tolist(), key=lambda n: -ranks[n]),
                *[
                    int(np.flatnonzero(missing)[n])
                    for n in sorted(range(len(lost)), key=lambda n: keys[n])
                ],
            ]
        found = sorted(np.flatnonzero(~missing).tolist(), key=lambda n: -ranks[n])
        return [*found, *np.flatnonzero(missing).tolist()]

    return np.asarray(np.apply_along_axis(order, axis, data)).astype("l")


def _parts(z: complex) -> tuple[float, ...]:
    """Return what orders numbers with NaNs downwards: those without one in the real part first."""
    real, imag = np.isnan(z.real), np.isnan(z.imag)
    return (real, imag, 0.0 if real else -z.real, 0.0 if imag else -z.imag)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_ascending(dtype: str, layout: str) -> None:
    data, x = placed(layout, dtype)
    for axis in (None, 0, -1):
        found = gnp.sort(x, axis=axis)
        same(found, np.sort(data, axis, kind="stable"))
        where = gnp.argsort(x, axis=axis)
        same(where, np.argsort(data, axis, kind="stable"))
        if axis is not None:
            if x.size:
                assert found.sharding == where.sharding == x.sharding
            same(gnp.sort(x, axis=axis, stable=False), np.sort(data, axis))


@pytest.mark.parametrize("layout", ["even", "uneven", "joined", "cube"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_descending(dtype: str, layout: str) -> None:
    data, x = placed(layout, dtype)
    for axis in (0, -1):
        order = positions_downwards(data, axis)
        same(gnp.argsort(x, axis=axis, descending=True), order)
        found = gnp.sort(x, axis=axis, descending=True)
        wanted = np.take_along_axis(data, order, axis)
        same(found, wanted)
        there = wanted == wanted if gs.default_backend() == "gpu" else ...  # NaNs lose their signs
        signs = [np.signbit(each.real)[there] for each in (np.asarray(found), wanted)]
        np.testing.assert_array_equal(*signs)


@pytest.mark.parametrize("dtype", [*DTYPES, "i"])
@pytest.mark.parametrize("special", [(), (np.nan,), (-np.nan,), (np.nan, -np.nan), SPECIAL])
def test_many_elements(dtype: str, special: tuple[float, ...]) -> None:
    """As many as vector sorts take; what they give is stable all the same, to the bit."""
    rng = np.random.default_rng(0)
    data = np.asarray(rng.integers(0 if np.dtype(dtype).kind in "?u" else -9, 99, (60, 70)))
    data = data.astype(dtype)
    if special and data.dtype.kind in "fc":
        there = rng.random(data.shape) < 0.1
        data[there] = rng.choice(special, data.shape)[there]
    for axis in (0, 1):
        order = np.argsort(data, axis, kind="stable")
        found = sorting.argsort(np, data, axis)
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, order)
        wanted = np.take_along_axis(data, order, axis)
        assert sorting.sort(np, data, axis, True).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", ["f", "d"])
def test_many_floats_of_all_sizes_and_one_that_is_no_number(dtype: str) -> None:
    rng = np.random.default_rng(0)
    data = rng.standard_normal(3000).astype(dtype) * (10.0 ** rng.integers(-30, 30, 3000))
    data = data.astype(dtype)
    data[1234] = np.nan
    np.testing.assert_array_equal(sorting.argsort(np, data), np.argsort(data, kind="stable"))
    np.testing.assert_array_equal(sorting.sort(np, data, -1, True), np.sort(data))


@pytest.mark.parametrize("dtype", ["i", "l", "f", "d"])
def test_stable_sorts_run_on_vectors(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy's own stable sorts compare elements one by one, and take twenty times as long."""
    kinds = []

    def recorded(function: Any) -> Any:
        def run(*arguments: Any, kind: Any = None) -> Any:
            kinds.append(kind)
            return function(*arguments, kind=kind)

        return run

    data = np.random.default_rng(0).integers(-99, 99, 5000).astype(dtype)
    for name in ("sort", "argsort"):
        monkeypatch.setattr(np, name, recorded(getattr(np, name)))
    sorting.sort(np, data, -1, True)
    sorting.argsort(np, data)
    assert kinds and not any(kinds)


@examples(50)
@given(st.data())
def test_any_shape(data: st.DataObject) -> None:
    """Shapes, splits, axes and types of all kinds."""
    shape = tuple(data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=3)))
    dtype = data.draw(st.sampled_from(DTYPES))
    host = mixed(shape, dtype, data.draw(st.integers(0, 99)))
    entries = [data.draw(st.sampled_from([None, "x", "y", ("x", "y")])) for _ in shape]
    names = [n for e in entries if e for n in ((e,) if isinstance(e, str) else e)]
    x = put(host, *(entries if len(set(names)) == len(names) else ()))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    same(gnp.sort(x, axis), np.sort(host, axis, kind="stable"))
    same(gnp.argsort(x, axis), np.argsort(host, axis, kind="stable"))
    k = data.draw(st.integers(0, shape[axis]))
    values, where = gnp.topk(x, k, axis, largest=False)
    first = np.argsort(host, axis, kind="stable").take(range(k), axis)
    same(where, first)
    same(values, np.take_along_axis(host, first, axis))


def defined(found: Any, kth: Any, axis: int | None) -> Any:
    """Return what of a partition is defined: on GPUs what lies between places has another order."""
    if gs.default_backend() == "cpu":
        return found
    value = np.asarray(found)
    axis = 0 if axis is None else axis
    places = sorted({int(k) % value.shape[axis] for k in np.atleast_1d(kth)})
    cuts = [end for k in places for end in (k, k + 1)]
    ordered = np.concatenate([np.sort(p, axis) for p in np.split(value, cuts, axis)], axis)
    return gs.device_put(ordered) if isinstance(found, gs.Array) else ordered


@pytest.mark.parametrize("layout", ["even", "uneven", "joined", "cube", "replicated"])
@pytest.mark.parametrize("dtype", ["b", "f", "D"])
def test_partitions(dtype: str, layout: str) -> None:
    data, x = placed(layout, dtype)
    for axis, kth in ((None, 3), (0, -1), (-1, [0, 1]), (-1, np.array([1]))):
        agree(
            lambda: defined(gnp.partition(x, kth, axis), kth, axis),  # noqa: B023
            lambda: defined(np.partition(data, kth, axis), kth, axis),  # noqa: B023
        )
        where = np.asarray(gnp.argpartition(x, kth, axis))
        lines = data.ravel() if axis is None else data
        along = -1 if axis is None else axis
        order = np.sort(lines, along)
        at = np.atleast_1d(kth)
        found = np.take_along_axis(lines, where, along)
        np.testing.assert_array_equal(found.take(at, along), order.take(at, along))
        np.testing.assert_array_equal(
            np.sort(where, along), np.sort(np.argsort(lines, along), along)
        )
    same(gnp.partition(x[:0], 0, 0), data[:0])


@pytest.mark.parametrize("layout", ["even", "uneven", "cube", "empty"])
def test_several_keys(layout: str) -> None:
    data, x = placed(layout, "f")
    small, y = placed(layout, "?")
    for axis in (0, -1):
        wanted = np.lexsort((data, small), axis)
        same(gnp.lexsort((x, y), axis), wanted)
        same(gnp.lexsort((x, small), axis), wanted)
        agree(lambda: gnp.lexsort(x, 0), lambda: np.lexsort(data, 0))
    same(np.lexsort((x, y)), np.lexsort((data, small)))


def test_keys_without_dims() -> None:
    same(gnp.lexsort((2, 1.5)), np.lexsort(([2], [1.5]))[0])
    with pytest.raises(ArgumentError, match=r"keys have shapes \(3,\), \(\)"):
        gnp.lexsort(([1, 2, 3], 1))
    with pytest.raises(ArgumentError, match="axis=1 is out of range for an array with ndim=1"):
        gnp.lexsort((2, 1.5), axis=1)


@pytest.mark.parametrize("dtype", ["?", "b", "H", "i", "f", "F", "D"])
def test_complex_order(dtype: str) -> None:
    data, x = placed("uneven", dtype)
    same(gnp.sort_complex(x), np.sort_complex(data))


@pytest.mark.parametrize("layout", ["even", "uneven", "joined", "cube"])
@pytest.mark.parametrize("dtype", ["?", "b", "Q", "f", "D"])
def test_the_greatest(dtype: str, layout: str) -> None:
    data, x = placed(layout, dtype)
    for axis, k in ((0, 2), (-1, 1), (-1, 0)):
        order = positions_downwards(data, axis).take(range(k), axis)
        values, where = gnp.topk(x, k, axis)
        same(where, order)
        same(values, np.take_along_axis(data, order, axis))
    values, where = gnp.topk(x, 4, None)
    same(where, positions_downwards(data.ravel(), 0)[:4])


def test_the_greatest_are_those_of_jax(jax: Any) -> None:
    data = value((5, 6), "f")
    x = put(data, "y", "x")
    for k in (1, 3):
        values, where = jax.lax.top_k(data, k)
        same(gnp.topk(x, k), (values, np.asarray(where, "l")))
    wanted = jax.numpy.argsort(data, axis=0, descending=True)
    same(gnp.argsort(x, axis=0, descending=True), np.asarray(wanted, "l"))


def test_methods() -> None:
    data, x = placed("uneven", "f")
    other, before = x.copy(), x.sharding
    same(x.argsort(0), np.argsort(data, 0, kind="stable"))
    same(x.argsort(None, descending=True), positions_downwards(data.ravel(), 0))
    assert np.asarray(x.argpartition(1)).shape == data.shape
    x.sort(0)
    same(x, np.sort(data, 0))
    assert x.sharding == before
    x.sort(descending=True)
    y = put(data, "y", "x")
    y.partition(2, axis=0)
    same(y, np.partition(data, 2, axis=0))
    same(other, data)  # what others hold never changes


def test_functions_of_numpy_and_places() -> None:
    data, x = placed("even", "b")
    same(np.sort(x, axis=0, kind="heapsort"), np.sort(data, axis=0))
    same(np.argsort(x, stable=True), np.argsort(data, kind="stable"))
    same(defined(np.partition(x, 2, axis=0), 2, 0), defined(np.partition(data, 2, axis=0), 2, 0))
    found = gnp.sort(x, axis=0, out_sharding=gs.P(None, "x"))
    same(found, np.sort(data, axis=0))
    assert found.sharding.spec == gs.P(None, "x")
    same(gnp.sort([3, 1, 2]), np.array([1, 2, 3]))
    alone = gs.device_put(data, gs.devices()[2])
    same(gnp.sort(alone, 0), np.sort(data, 0))
    assert gnp.sort(alone).devices() == {gs.devices()[2]}


def test_bad_kinds() -> None:
    _, x = placed("even", "f")
    with pytest.raises(ArgumentError, match="kind='bubble' is unknown"):
        gnp.sort(x, kind="bubble")
    with pytest.raises(ArgumentError, match="order='field'"):
        gnp.argsort(x, order="field")


@pytest.mark.parametrize("dtype", ["?", *np.typecodes["AllInteger"]])
def test_many_integers_from_one_end_of_their_type_to_the_other(dtype: str) -> None:
    bits = np.random.default_rng(0).bytes(2000 * np.dtype(dtype).itemsize)
    data = np.frombuffer(bits, dtype) if dtype != "?" else np.frombuffer(bits, "b") > 0
    x = put(data)
    for stable in (True, None):
        same(gnp.argsort(x, stable=stable), np.argsort(data, kind="stable"))
    same(gnp.unique_all(x), tuple(np.unique_all(data)))
    same(gnp.isin(x, data[:100]), np.isin(data, data[:100]))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("special", [(), (0.0, -0.0), (np.nan,), (-np.nan, np.nan), SPECIAL])
@pytest.mark.parametrize("dtype", "efd")
def test_a_stable_sort_of_many_keeps_bits(dtype: str, special: Any, axis: int) -> None:
    rng = np.random.default_rng(0)
    data = rng.integers(1, 9, (96, 60)).astype(dtype)
    if special:
        data[:, ::5] = rng.choice(special, (96, 12))
    found, again = (np.asarray(gnp.sort(put(data, "x"), axis, stable=how)) for how in (True, None))
    wanted = np.sort(data, axis, kind="stable")
    assert found.tobytes() == again.tobytes()
    if gs.default_backend() == "gpu":  # where all NaNs are alike
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        found, wanted = (np.nan_to_num(each, nan=0) for each in (found, wanted))
    bits = f"u{data.itemsize}"
    assert np.array_equal(found.view(bits), wanted.view(bits))
