"""What the numbers are: moments, and Kolmogorov-Smirnov tests against SciPy's distributions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from gpushard import random
from gpushard.ops.random.special import erf, erfinv, log_factorial

COUNT = 20000
LEAST = 1e-3
"""The p-value below which a test fails; seeds are fixed, so it fails always or never."""

CONTINUOUS: dict[str, tuple[Callable[..., Any], Any]] = {
    "uniform": (
        lambda key, **a: random.uniform(key, minval=-2, maxval=3, **a),
        stats.uniform(-2, 5),
    ),
    "normal": (random.normal, stats.norm),
    "exponential": (random.exponential, stats.expon),
    "gumbel": (random.gumbel, stats.gumbel_r),
    "laplace": (random.laplace, stats.laplace),
    "logistic": (random.logistic, stats.logistic),
    "cauchy": (random.cauchy, stats.cauchy),
    "truncated normal": (
        lambda key, **a: random.truncated_normal(key, -0.5, 2, **a),
        stats.truncnorm(-0.5, 2),
    ),
    "a tail": (
        lambda key, **a: random.truncated_normal(key, 1.5, np.inf, **a),
        stats.truncnorm(1.5, np.inf),
    ),
    "gamma below 1": (lambda key, **a: random.gamma(key, 0.3, **a), stats.gamma(0.3)),
    "gamma of 1": (lambda key, **a: random.gamma(key, 1, **a), stats.gamma(1)),
    "gamma above 1": (lambda key, **a: random.gamma(key, 7.5, **a), stats.gamma(7.5)),
    "loggamma": (lambda key, **a: random.loggamma(key, 0.1, **a), stats.loggamma(0.1)),
    "beta": (lambda key, **a: random.beta(key, 0.5, 2.5, **a), stats.beta(0.5, 2.5)),
    "chisquare": (lambda key, **a: random.chisquare(key, 3, **a), stats.chi2(3)),
    "t": (lambda key, **a: random.t(key, 2.5, **a), stats.t(2.5)),
    "pareto": (lambda key, **a: random.pareto(key, 2.5, **a), stats.pareto(2.5)),
    "rayleigh": (lambda key, **a: random.rayleigh(key, 2.5, **a), stats.rayleigh(scale=2.5)),
    "weibull_min": (
        lambda key, **a: random.weibull_min(key, 2.0, 1.5, **a),
        stats.weibull_min(1.5, scale=2.0),
    ),
    "lognormal": (lambda key, **a: random.lognormal(key, 0.5, **a), stats.lognorm(0.5)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name: str, dtype: str) -> None:
    draw, wanted = CONTINUOUS[name]
    found = np.asarray(draw(random.key(1), shape=(COUNT,), dtype=dtype), np.float64)
    assert np.isfinite(found).all()
    assert stats.kstest(found, wanted.cdf).pvalue > LEAST
    mean, variance = wanted.stats(moments="mv")
    if np.isfinite(variance) and variance > 0 and name not in ("t", "pareto"):
        assert abs(found.mean() - mean) < 5 * np.sqrt(variance / COUNT)
        assert abs(found.var() / variance - 1) < 0.1


DISCRETE: dict[str, tuple[Callable[..., Any], Any]] = {
    "poisson 0": (lambda key, **a: random.poisson(key, 0.0, **a), stats.poisson(1e-300)),
    "poisson small": (lambda key, **a: random.poisson(key, 2.5, **a), stats.poisson(2.5)),
    "poisson at the edge": (lambda key, **a: random.poisson(key, 10, **a), stats.poisson(10)),
    "poisson large": (lambda key, **a: random.poisson(key, 1234.5, **a), stats.poisson(1234.5)),
    "binomial small": (lambda key, **a: random.binomial(key, 12, 0.3, **a), stats.binom(12, 0.3)),
    "binomial rare": (
        lambda key, **a: random.binomial(key, 9999, 1e-4, **a),
        stats.binom(9999, 1e-4),
    ),
    "binomial large": (lambda key, **a: random.binomial(key, 500, 0.3, **a), stats.binom(500, 0.3)),
    "binomial often": (lambda key, **a: random.binomial(key, 90, 0.8, **a), stats.binom(90, 0.8)),
    "binomial always": (lambda key, **a: random.binomial(key, 9, 1.0, **a), stats.binom(9, 1.0)),
    "geometric": (lambda key, **a: random.geometric(key, 0.2, **a), stats.geom(0.2)),
    "randint": (
        lambda key, **a: random.randint(key, minval=-3, maxval=9, **a),
        stats.randint(-3, 9),
    ),
    "rademacher": (random.rademacher, None),
    "categorical": (
        lambda key, **a: random.categorical(key, np.log([0.1, 0.2, 0.7]), **a),
        stats.rv_discrete(values=([0, 1, 2], [0.1, 0.2, 0.7])),
    ),
    "choice": (
        lambda key, **a: random.choice(key, 3, p=[0.1, 0.2, 0.7], **a),
        stats.rv_discrete(values=([0, 1, 2], [0.1, 0.2, 0.7])),
    ),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name: str) -> None:
    """How often each value comes, by a chi-square test of those that are expected five times."""
    draw, wanted = DISCRETE[name]
    found = np.asarray(draw(random.key(2), shape=(COUNT,))).astype(np.int64)
    values, counts = np.unique(found, return_counts=True)
    odds = np.full(2, 0.5) if wanted is None else wanted.pmf(values)
    usual = odds * COUNT >= 5
    rest = COUNT * (1 - odds[usual].sum())
    observed = [*counts[usual], counts[~usual].sum()]
    expected = [*(odds[usual] * COUNT), max(rest, 1e-9)]
    if rest < 5:
        observed, expected = observed[:-1], expected[:-1]
    expected = np.array(expected) * sum(observed) / sum(expected)
    assert len(observed) == 1 or stats.chisquare(observed, expected).pvalue > LEAST
    assert (odds[counts > 20] > 0).all()


def test_vectors() -> None:
    alpha = np.array([0.5, 1.0, 3.5])
    found = np.asarray(random.dirichlet(random.key(3), alpha, (COUNT,)))
    np.testing.assert_allclose(found.sum(axis=-1), 1, rtol=1e-12)
    for n, a in enumerate(alpha):
        assert stats.kstest(found[:, n], stats.beta(a, alpha.sum() - a).cdf).pvalue > LEAST
    mean, cov = np.array([1.0, -2.0]), np.array([[2.0, -0.9], [-0.9, 1.0]])
    found = np.asarray(random.multivariate_normal(random.key(3), mean, cov, (COUNT,)))
    np.testing.assert_allclose(found.mean(axis=0), mean, atol=0.05)
    np.testing.assert_allclose(np.cov(found.T), cov, atol=0.05)
    bad = random.multivariate_normal(random.key(3), mean, -cov, (3,))
    assert np.isnan(np.asarray(bad)).all()


def test_each_order_is_as_likely() -> None:
    orders = np.asarray(
        random.permutation(random.key(4), np.tile(np.arange(3), (COUNT, 1)), 1, independent=True)
    )
    _, counts = np.unique(orders @ [9, 3, 1], return_counts=True)
    assert len(counts) == 6 and stats.chisquare(counts).pvalue > LEAST


def test_parameters_on_devices_that_are_impossible_give_no_numbers() -> None:
    bad = random.uniform(random.key(0), (3,)) - 5
    assert np.isnan(np.asarray(random.gamma(random.key(1), bad))).all()
    assert (np.asarray(random.poisson(random.key(1), bad)) == -1).all()
    assert np.isnan(np.asarray(random.binomial(random.key(1), 5, bad))).all()


@pytest.mark.parametrize("shape", [(200, 256), (64, 1000)])
def test_streams_of_split_keys_do_not_depend_on_one_another(shape: tuple[int, int]) -> None:
    streams, length = shape
    keys = random.split(random.key(5), streams)
    bits = np.stack([np.asarray(random.bits(key, (length,), "uint32")) for key in keys])
    uniform = bits / 2.0**32
    correlations = np.corrcoef(uniform)[np.triu_indices(streams, 1)] * np.sqrt(length)
    assert abs(correlations).max() < 6 and abs(correlations.std() - 1) < 0.1
    ones = np.unpackbits(bits.view(np.uint8), bitorder="little").reshape(streams, length, 32)
    for axes in ((0,), (1,), (0, 1)):
        count = np.prod([ones.shape[axis] for axis in axes])
        off = (ones.mean(axis=axes) - 0.5) * np.sqrt(4 * count)
        assert abs(off).max() < 6
    next_to = np.corrcoef(uniform[:, :-1].ravel(), uniform[:, 1:].ravel())[0, 1]
    assert abs(next_to) * np.sqrt(uniform.size) < 5
    assert len(np.unique(bits)) > bits.size - 5


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_special_functions() -> None:
    x = np.linspace(-6, 6, 20001)
    np.testing.assert_allclose(erf(np, x), special.erf(x), rtol=2e-15)
    assert erf(np, np.array([-np.inf, np.inf])).tolist() == [-1, 1]
    u = np.linspace(-0.9999, 0.9999, 20001)
    np.testing.assert_allclose(erfinv(np, u), special.erfinv(u), rtol=1e-12)
    single = u.astype(np.float32)
    np.testing.assert_allclose(erfinv(np, single), special.erfinv(single), rtol=2e-4)
    assert erfinv(np, np.array([-1.0, 1.0])).tolist() == [-np.inf, np.inf]
    n = np.arange(0.0, 500)
    np.testing.assert_allclose(log_factorial(np, n), special.gammaln(n + 1), rtol=1e-14, atol=1e-15)


class Elsewhere:
    """A namespace that is not NumPy's own, so that what is for GPUs runs."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_kernels_on_another_namespace_give_the_same() -> None:
    u = np.linspace(-1, 1, 2001)
    for dtype in (np.float32, np.float64):
        ours, theirs = erfinv(np, u.astype(dtype)), erfinv(Elsewhere(), u.astype(dtype))
        np.testing.assert_array_equal(ours, theirs)
