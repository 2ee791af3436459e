"""Elements by rank, against sorted elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard import testing
from gpushard._ops import select_ranks
from gpushard._ops.select_ranks import LEAST, MOST, select
from gpushard._ops.table.order_statistics import METHODS
from tests import share

N = LEAST + 1000
ORDERS = {
    "random": lambda rng: rng.standard_normal(N),
    "ascending": lambda rng: np.arange(N) * 0.5,
    "descending": lambda rng: -np.arange(float(N)),
    "equal": lambda rng: np.full(N, 3.0),
    "few values": lambda rng: rng.integers(0, 3, N).astype(float),
    "two ends": lambda rng: rng.choice([-np.inf, 0.0, np.inf], N),
    "a rare one": lambda rng: np.where(np.arange(N) == 7, -5.0, 1.0),
    "with NaNs": lambda rng: np.where(rng.random(N) < 0.3, np.nan, rng.standard_normal(N)),
    "most are NaN": lambda rng: np.where(rng.random(N) < 0.999, np.nan, rng.standard_normal(N)),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_elements_are_those_of_sorted_ones(order: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x = ORDERS[order](rng)
    x = (np.nan_to_num(x).clip(-1e6, 1e6) if dtype is np.int32 else x).astype(dtype)
    ranks = np.array([[0, 1, N // 2], [N // 3, N - 2, N - 1]])
    selected = select(np.split(x, [5, 5, N // 3]), ranks)
    assert selected is not None
    np.testing.assert_array_equal(selected[0], np.sort(x)[ranks])
    assert selected[1] == np.isnan(x).any()


def test_few_elements_and_many_ranks_are_left_to_sorting() -> None:
    x = np.arange(float(N))
    assert select([x[: LEAST - 1]], np.array([3])) is None
    assert select([x], np.arange(0, 2 * MOST, 2)) is not None
    assert select([x], np.arange(0, 2 * MOST + 2, 2)) is None
    assert select([x > 2], np.array([3])) is None


@pytest.mark.parametrize("low", [-5.0, 0.7])
def test_a_sample_that_misleads_is_noticed(low: float, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).random(N)
    fakes = np.linspace(low, low + 0.1, 100)
    monkeypatch.setattr(select_ranks, "_sample", lambda chunks, count: fakes)
    assert select([x], np.array([N // 2])) is None
    with testing.runtime(host_devices=4):
        rows = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
        split = gs.device_put(x, rows)
        assert gs.numpy.median(split) == np.median(x)
        assert gs.numpy.quantile(split, 0.3) == np.quantile(x, 0.3)


@share.examples(40)
@given(st.data())
def test_quantiles_of_long_arrays_are_numpys(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    finite = sorted(ORDERS.keys() - {"two ends"})  # NumPy's quantiles of infinities may be NaN
    x = ORDERS[data.draw(st.sampled_from(finite))](rng)[: N - N % 4].reshape(4, -1)
    method = data.draw(st.sampled_from(METHODS))
    q = data.draw(st.sampled_from([0.25, 0.9999, np.array([0.5, 0, 1]), rng.random((2, 2))]))
    name = data.draw(st.sampled_from(["median", "nanmedian", "quantile", "nanquantile"]))
    given = () if "median" in name else (q,)
    more: dict[str, Any] = {} if "median" in name else {"method": method}
    more["keepdims"] = data.draw(st.booleans())
    spec = data.draw(st.sampled_from([gs.P(), gs.P("x"), gs.P(None, "x"), gs.P("y", "x")]))
    with testing.runtime(host_devices=8, host_domains=data.draw(st.sampled_from([1, 1, 2]))):
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        split = gs.device_put(x, gs.NamedSharding(mesh, spec))
        made = getattr(gs.numpy, name)(split, *given, **more)
        jitted = gs.jit(lambda x: getattr(gs.numpy, name)(x, *given, **more))(split)
        with np.errstate(all="ignore"):
            wanted = getattr(np, name)(x, *given, **more)
        assert made.dtype == wanted.dtype
        for result in (made, jitted):
            np.testing.assert_allclose(np.asarray(result), wanted, rtol=1e-15, atol=1e-15)
