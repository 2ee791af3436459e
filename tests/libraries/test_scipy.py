"""SciPy's functions on sharded arrays give what they give for NumPy's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs

scipy = pytest.importorskip("scipy", reason="SciPy is not installed: pip install 'gpushard[test]'")
from scipy import cluster, constants, fft, integrate, signal, special, stats  # noqa: E402

RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((40, 6))
P = abs(X) + 0.1

CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "cluster.vq.whiten": (cluster.vq.whiten, (X,)),
    "constants.convert_temperature": (
        lambda x: constants.convert_temperature(x, "Celsius", "Kelvin"),
        (X,),
    ),
    "fft.fft": (fft.fft, (X,)),
    "fft.rfft": (lambda x: fft.rfft(x, axis=0), (X,)),
    "fft.ifft2": (fft.ifft2, (X,)),
    "fft.fftshift": (fft.fftshift, (X,)),
    "integrate.trapezoid": (lambda x: integrate.trapezoid(x, axis=0), (X,)),
    "integrate.cumulative_trapezoid": (
        lambda x: integrate.cumulative_trapezoid(x, axis=0),
        (X,),
    ),
    "integrate.tanhsinh": (
        lambda low, high: integrate.tanhsinh(lambda t: 1 / (t - 0.5), low, high).integral,
        (np.zeros(8), np.arange(1.0, 9)),
    ),
    "integrate.tanhsinh to infinity": (
        lambda low, high: integrate.tanhsinh(lambda t: 1 / (1 + t**2), low, high).integral,
        (np.array([-np.inf, 0, -1]), np.full(3, np.inf)),
    ),
    "signal.oaconvolve": (signal.oaconvolve, (RANDOM.standard_normal(3000), X[:, 0])),
    "signal.oaconvolve of matrices": (
        lambda x, y: signal.oaconvolve(x, y, mode="same"),
        (RANDOM.standard_normal((90, 80)), X[:5]),
    ),
    "stats.kruskal": (lambda x, y: stats.kruskal(x, y).pvalue, (X[:, 0], P[:, 1])),
    "stats.mannwhitneyu": (lambda x, y: stats.mannwhitneyu(x, y, axis=1).pvalue, (X, P)),
    "stats.ttest_ind": (lambda x, y: stats.ttest_ind(x, y, axis=1).pvalue, (X, P)),
    "signal.detrend": (lambda x: signal.detrend(x, axis=0, type="constant"), (X,)),
    "special.erf": (special.erf, (X,)),
    "special.expit": (special.expit, (X,)),
    "special.gammaln": (special.gammaln, (P,)),
    "special.logsumexp": (lambda x: special.logsumexp(x, axis=0), (X,)),
    "special.softmax": (lambda x: special.softmax(x, axis=0), (X,)),
    "special.log_softmax": (lambda x: special.log_softmax(x, axis=1), (X,)),
    "special.xlogy": (special.xlogy, (P, P)),
    "special.entr": (special.entr, (P,)),
    "stats.entropy": (lambda x: stats.entropy(x, axis=0), (P,)),
    "stats.gmean": (lambda x: stats.gmean(x, axis=0), (P,)),
    "stats.hmean": (lambda x: stats.hmean(x, axis=0), (P,)),
    "stats.kurtosis": (lambda x: stats.kurtosis(x, axis=0), (X,)),
    "stats.moment": (lambda x: stats.moment(x, 3, axis=0), (X,)),
    "stats.pearsonr": (lambda x, y: stats.pearsonr(x, y, axis=0).statistic, (X, X + P)),
    "stats.sem": (lambda x: stats.sem(x, axis=0), (X,)),
    "stats.skew": (lambda x: stats.skew(x, axis=0), (X,)),
    "stats.variation": (lambda x: stats.variation(x, axis=0), (P,)),
    "stats.zscore": (lambda x: stats.zscore(x, axis=0), (X,)),
    "stats.directional_stats": (lambda x: stats.directional_stats(x).mean_direction, (X,)),
}


@pytest.fixture(params=[(4, 2), (3, 2)], ids=["even", "uneven"])
def mesh(request: pytest.FixtureRequest) -> Iterator[gs.Mesh]:
    mesh = gs.make_mesh(request.param, ("x", "y"), devices=gs.devices()[: np.prod(request.param)])
    with gs.use_mesh(mesh, "auto"):
        yield mesh


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_for_numpy_arrays(name: str, mesh: gs.Mesh) -> None:
    function, data = CALLS[name]
    placed = [gs.device_put(x, gs.NamedSharding(mesh, gs.P("x"))) for x in data]
    want, got = function(*data), function(*placed)
    assert isinstance(got, gs.Array)
    value = np.asarray(got)
    assert value.shape == want.shape and value.dtype == want.dtype
    np.testing.assert_allclose(value, want, rtol=1e-10, atol=1e-12)
