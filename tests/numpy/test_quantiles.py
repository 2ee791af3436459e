"""Medians, quantiles and percentiles against NumPy's."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._ops.table import order_statistics
from gpushard._ops.table.order_statistics import METHODS
from tests.numpy.calls import KINDS, Call, alike, everywhere, with_nans
from tests.numpy.compare import LAYOUTS, placed, put, same, value

gnp = gs.numpy
pytestmark = pytest.mark.usefixtures("domains")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """NumPy warns of NaNs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


AXES = (None, 0, -1, (0, 1))


@pytest.mark.parametrize("layout", [n for n in LAYOUTS if n != "empty"])
def test_axes(layout: str) -> None:
    data, x = placed(layout)
    for axis in AXES:
        for keepdims in (False, True):
            calls: list[Call] = [
                lambda ns, x: ns.median(x, axis=axis, keepdims=keepdims),  # noqa: B023
                lambda ns, x: ns.nanmedian(x, axis=axis, keepdims=keepdims),  # noqa: B023
                lambda ns, x: ns.quantile(x, [0.2, 0.8], axis=axis, keepdims=keepdims),  # noqa: B023
                lambda ns, x: ns.percentile(x, 35, axis=axis, keepdims=keepdims),  # noqa: B023
                lambda ns, x: ns.nanquantile(x, 0.35, axis=axis, keepdims=keepdims),  # noqa: B023
            ]
            for call in calls:
                alike(call, data, x)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("method", METHODS)
def test_methods(method: str) -> None:
    shares = np.array([[0, 0.1, 0.25], [0.5, 2 / 3, 1]])
    for n in (1, 2, 5, 8):
        data = value((n, 3), "d", method)
        x = put(data, "x")
        for q in (shares, shares.astype("f"), 0.3, 1, np.float32(0.75)):
            alike(lambda ns, x: ns.quantile(x, q, axis=0, method=method), data, x)  # noqa: B023
        alike(lambda ns, x: ns.percentile(x, 100 * shares, method=method), data, x)
        holes = with_nans((n, 3))
        holes[np.isinf(holes)] = 2  # NumPy gives NaN beside infinities
        alike(
            lambda ns, x: ns.nanquantile(x, shares, axis=0, method=method), holes, put(holes, "x")
        )


NUMBERS: list[Any] = [75.5, 50, 0, 100, np.float32(30), np.float64(33), np.array(20)]


@pytest.mark.parametrize("method", METHODS)
def test_quantiles_at_elements_and_between_them(method: str) -> None:
    shares = np.array([0, 0.1, 0.2, 0.25, 0.375, 0.5, 0.625, 0.75, 0.9, 1])
    for data in (np.array([1.0, 2, 4, 8]), np.array([1.0, 2, 4, 8, 16])):
        for q in (shares, shares.astype("f")):
            wanted = np.quantile(data, q, method=method)  # type: ignore[call-overload]
            same(gnp.quantile(put(data), q, method=method), wanted)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("method", METHODS)
def test_percentiles_of_every_kind_at_numbers(method: str) -> None:
    for dtype in "?BheHfld":
        data = value((20,), dtype, method) * np.array(9, dtype)
        x = put(data, "x")
        for q in NUMBERS:
            call: Call = lambda ns, x: ns.percentile(x, q, method=method)  # noqa: B023, E731
            alike(call, data, x)
        alike(lambda ns, x: ns.nanpercentile(x, 75.5, method=method), data, x)
        alike(lambda ns, x: ns.nanquantile(x, np.float32(0.4), method=method), data, x)


@pytest.mark.parametrize("dtype", [*KINDS, "e", "H"])
def test_types(dtype: str) -> None:
    data, x = placed("uneven", dtype)
    calls: list[Call] = [
        lambda ns, x: ns.quantile(x, 0.3, axis=0),
        lambda ns, x: ns.quantile(x, np.array([0.3]), axis=0),
        lambda ns, x: ns.quantile(x, np.array([0, 1]), axis=1),
        lambda ns, x: ns.quantile(x, 0.3, axis=0, method="lower"),
        lambda ns, x: ns.nanpercentile(x, 30, axis=1, method="hazen"),
        lambda ns, x: ns.median(x),
        lambda ns, x: ns.median(x, axis=1),
    ]
    for call in calls:
        alike(call, data, x)


def test_nans() -> None:
    data = with_nans((5, 4))
    calls: list[Call] = [
        lambda ns, x: ns.median(x, axis=0),
        lambda ns, x: ns.nanmedian(x, axis=1),
        lambda ns, x: ns.nanmedian(x),
        lambda ns, x: ns.quantile(x, [0.5, 1.0], axis=0),
        lambda ns, x: ns.quantile(x, 0.5, axis=1, method="higher"),
    ]
    for call in calls:
        everywhere(call, data)
    everywhere(lambda ns, x: ns.nanmedian(x), np.full(4, np.nan))


@pytest.mark.parametrize("dtype", "?bHilefd")
def test_medians_are_found_without_sorting(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_statistics, "_FEW", 0)
    monkeypatch.setattr(np, "sort", None)
    rng = np.random.default_rng(0)
    for size in (1, 2, 3, 4, 500, 501):
        data = (rng.random((4, size)) * 99).astype(dtype)
        if dtype in "efd" and size > 1:
            data[1, rng.integers(size)] = np.nan
            data[2] = np.nan
            data[3, : size // 2] = np.inf
        x = put(data, None, ("x", "y"))
        with np.errstate(all="ignore"):
            same(gnp.median(x, axis=1), np.median(data, axis=1))
            same(gnp.median(x[::3]), np.median(data[::3]))


def test_the_middle_of_large_numbers_is_finite() -> None:
    largest = np.finfo(float).max
    x = gs.device_put(np.array([largest, np.nan, largest, largest]))
    same(gnp.nanmedian(x), largest)
    same(gnp.median(x[2:3]), largest)


def test_infinities_are_elements() -> None:
    x = gs.device_put(np.array([1.0, np.inf]))
    same(gnp.quantile(x, [0.0, 1.0]), np.array([1, np.inf]))  # NumPy gives NaN here
    same(gnp.median([np.inf, np.inf]), np.inf)
    same(gnp.quantile(x, 0.5, method="higher"), np.inf)
    same(gnp.quantile(-x, 0.5, method="lower"), -np.inf)


def test_halfway_the_upper_element_is_the_nearer_one() -> None:
    for pair in ([0.1, 1.7], [0.3, 0.9], [0.7, 3.1]):
        same(gnp.quantile(put(np.array(pair)), 0.5), np.quantile(pair, 0.5))


@pytest.mark.parametrize("method", METHODS)
def test_one_element_beside_nans_is_every_quantile(method: str) -> None:
    x = put(np.array([np.nan, 5.0, np.nan]))
    same(gnp.nanquantile(x, [0.0, 0.3, 1.0], method=method), np.full(3, 5.0))


def test_nothing() -> None:
    x = gs.device_put(np.zeros((0, 3)))
    same(gnp.median(x, axis=0), [np.nan] * 3)
    same(gnp.nanmedian(x, axis=0), [np.nan] * 3)
    same(gnp.nanquantile(x, [0.5], axis=0), [[np.nan] * 3])
    same(gnp.median(x, axis=1), np.zeros(0))


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_weights(name: str) -> None:
    rng = np.random.default_rng(3)
    data = value((6, 5), "d")
    weights = rng.integers(0, 4, data.shape).astype(float)
    weights[:, 0], weights[2] = 1, 1
    line = np.array([1.0, 2, 0, 1, 3])

    def check(w: Any, axis: Any) -> None:
        on_host = False

        def call(ns: Any, x: Any) -> Any:
            heavy = gs.device_put(w) if ns is gnp and not on_host else w
            return getattr(ns, name)(
                x, [0, 0.3, 0.5, 1], axis=axis, weights=heavy, method="inverted_cdf"
            )

        everywhere(call, data)
        on_host = True
        everywhere(call, data)

    check(weights, 0)
    check(weights, None)
    check(line if name == "quantile" else np.tile(line, (6, 1)), 1)  # NumPy wants all of them


def test_nothing_weighs_what_is_no_number() -> None:
    data, weights = np.array([3.0, np.nan, 1.0, 2.0]), np.array([1.0, 50.0, 2.0, 1.0])
    there = ~np.isnan(data)
    for q in (0.2, 0.5, 0.7, 0.9):
        wanted = np.quantile(data[there], q, weights=weights[there], method="inverted_cdf")
        found = gnp.nanquantile(put(data), q, weights=weights, method="inverted_cdf")
        same(found, wanted)


def test_the_least_quantile_has_a_weight() -> None:
    data, weights = np.array([[2.0, 1, 3], [5, 6, 4]]), np.array([[1.0, 0, 1], [0, 2, 0]])
    how: dict[str, Any] = {"axis": 1, "weights": weights, "method": "inverted_cdf"}
    same(gnp.quantile(put(data), 0, **how), [2.0, 6.0])
    same(gnp.quantile(put(data), [], **how), np.zeros((0, 2)))


def test_shares_on_devices() -> None:
    data, x = placed("uneven")
    q = np.array([0.1, 0.4, 0.9])
    for shares in (put(q, "x"), put(q), gs.device_put(q, x.sharding.with_spec(gs.P("y")))):
        same(gnp.quantile(x, shares, axis=0), np.quantile(data, q, axis=0), exact=False)
    outside = np.asarray(gnp.quantile(x, put(np.array([-1.0, 2.0, np.nan])), axis=0))
    np.testing.assert_array_equal(outside[:2], [data.min(0), data.max(0)])
    lower = gnp.quantile(x, put(np.array([-1.0, 2.0, np.nan])), axis=0, method="lower")
    np.testing.assert_array_equal(lower, [data.min(0), data.max(0), data.min(0)])


def test_where_results_lie() -> None:
    _, x = placed("even")
    assert gnp.median(x, axis=1).sharding.spec == gs.P("x")
    found = gnp.quantile(x, [0.5, 0.6], axis=1, out_sharding=gs.P(None, ("x", "y")))
    assert found.sharding.spec == gs.P(None, ("x", "y"))
