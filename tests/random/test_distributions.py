"""What the numbers are: moments, and Kolmogorov-Smirnov tests against SciPy's distributions."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from scipy import special, stats

import gpushard as gs
from gpushard import random
from gpushard._ops.prng import erfinv_coefficients
from gpushard._ops.prng.error_functions import _polynomial, erf, erfinv
from gpushard._ops.prng.rejection import log_factorial
from gpushard._ops.table import random as rows
from gpushard._ops.table.random_order import _rounds
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.random.sampling import documented

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
    "f": (lambda key, **a: random.f(key, 5, 30, **a), stats.f(5, 30)),
    "wald": (lambda key, **a: random.wald(key, 2.5, **a), stats.invgauss(2.5)),
    "maxwell": (random.maxwell, stats.maxwell),
    "generalized normal": (
        lambda key, **a: random.generalized_normal(key, 1.5, **a),
        stats.gennorm(1.5),
    ),
    "triangular": (
        lambda key, **a: random.triangular(key, -1, 0.5, 2, **a),
        stats.triang(0.5, -1, 3),
    ),
    "high gumbel": (lambda key, **a: random.gumbel(key, mode="high", **a), stats.gumbel_r),
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
    for method in ("eigh", "svd"):
        found = np.asarray(
            random.multivariate_normal(random.key(3), mean, cov, (COUNT,), None, method)
        )
        np.testing.assert_allclose(np.cov(found.T), cov, atol=0.05)
        flat = np.asarray(
            random.multivariate_normal(random.key(3), mean, np.ones((2, 2)), (9,), None, method)
        )
        # The eigenvalue that is 0 comes out as some 1e-16, and is rooted.
        np.testing.assert_allclose(flat[:, 0] - flat[:, 1], 3, rtol=1e-6)
    bad = random.multivariate_normal(random.key(3), mean, -cov, (3,))
    assert np.isnan(np.asarray(bad)).all()


def test_factors_of_covariances_have_their_eigenvectors_in_order() -> None:
    """From the least eigenvalue on as NumPy's `eigh` has them, from the greatest as `svd`."""
    draws = np.asarray(random.normal(random.key(3), (9, 2)))
    for method, wanted in (("eigh", draws[:, ::-1]), ("svd", draws)):
        found = np.asarray(
            random.multivariate_normal(
                random.key(3), [0, 0], np.diag([4.0, 1]), (9,), method=method
            )
        )
        np.testing.assert_allclose(abs(found), abs(wanted) * [2, 1], rtol=1e-12)


def test_double_sided_maxwell() -> None:
    found = np.asarray(random.double_sided_maxwell(random.key(1), 1.0, [2.0, 0.5], (COUNT,)))
    assert found.shape == (COUNT, 2)
    for column, scale in zip(found.T, (2.0, 0.5), strict=True):
        assert stats.kstest(abs(column - 1) / scale, stats.maxwell.cdf).pvalue > LEAST
        assert abs((column > 1).mean() - 0.5) < 0.02


@pytest.mark.parametrize("p", [1, 2, 3.5])
def test_balls_are_filled_evenly(p: float) -> None:
    found = np.asarray(random.ball(random.key(3), 3, p, (COUNT,)))
    radius = (abs(found) ** p).sum(axis=-1) ** (1 / p)
    assert stats.kstest(radius**3, stats.uniform.cdf).pvalue > LEAST
    assert abs(found.mean(axis=0)).max() < 0.02


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2)])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_orthogonal_matrices(shape: tuple[int, int], dtype: str) -> None:
    found = np.asarray(random.orthogonal(random.key(3), shape[0], (500,), dtype, shape[1]))
    assert found.shape == (500, *shape) and found.dtype == dtype
    square = found @ np.conj(found.mT) if shape[0] <= shape[1] else np.conj(found.mT) @ found
    np.testing.assert_allclose(
        square, np.broadcast_to(np.eye(min(shape)), square.shape), atol=1e-12
    )
    assert abs(found.mean(axis=0)).max() < 5 / np.sqrt(500 * max(shape))


def test_counts_of_outcomes() -> None:
    key, odds = random.key(3), np.array([0.1, 0.2, 0.0, 0.7])
    split = gs.device_put(odds)
    for given in (odds, split):
        found = np.asarray(random.multinomial(key, 20, given, shape=(COUNT, 4), dtype="int32"))
        assert found.dtype == np.int32 and (found.sum(axis=-1) == 20).all()
        for n, p in enumerate(odds):
            assert abs(found[:, n].mean() - 20 * p) < 5 * np.sqrt(20 * p * (1 - p) / COUNT) + 1e-12
        correlation = np.cov(found[:, 0], found[:, 3])[0, 1]
        assert abs(correlation + 20 * 0.1 * 0.7) < 0.1
    trials = np.array([3.0, 40.0])
    found = np.asarray(random.multinomial(key, trials, split, shape=(2, 4)))
    np.testing.assert_array_equal(found.sum(axis=-1), trials)
    assert random.multinomial(key, 3, np.zeros(0)).shape == (0,)
    for shape in ((4,), (2, 1)):
        with pytest.raises(ArgumentError, match=r"n of shape \(2,\) and p of shape \(4,\) do not"):
            random.multinomial(key, trials, odds, shape=shape)


def test_means_and_covariances_broadcast() -> None:
    mean, cov = np.zeros((4, 1, 2)), np.tile(np.eye(2), (3, 1, 1))
    for method in ("cholesky", "svd"):
        draw = random.multivariate_normal
        assert draw(random.key(3), mean, cov, method=method).shape == (4, 3, 2)
        assert draw(random.key(3), mean[0, 0], cov, method=method).shape == (3, 2)
        assert draw(random.key(3), mean, cov[0], method=method).shape == (4, 1, 2)


NARROW = [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]


def is_refused(dtype: Any, draw: Callable[..., Any], *args: Any) -> bool:
    """Whether GPUs know no such type, and a function says so before it starts."""
    if gs.default_backend() != "gpu" or np.dtype(dtype).itemsize > 1:
        return False
    with pytest.raises(ArgumentTypeError, match=r"not available for float8.*another type"):
        draw(random.key(4), *args, dtype=dtype)
    return True


@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_floats(dtype: Any) -> None:
    """They are drawn in single precision and rounded; uniform ones have all bits at once."""
    if is_refused(dtype, random.normal):
        return
    key = random.key(4)
    for name, arguments in (("normal", ()), ("gumbel", ()), ("gamma", (2.5,)), ("t", (4.0,))):
        draw = getattr(random, name)
        found = draw(key, *arguments, shape=(999,), dtype=dtype)
        wanted = np.asarray(draw(key, *arguments, shape=(999,), dtype="float32")).astype(dtype)
        assert found.dtype == dtype
        np.testing.assert_array_equal(np.asarray(found).view("u1"), wanted.view("u1"))
    uniform = np.asarray(random.uniform(key, (COUNT,), dtype), np.float32)
    assert uniform.min() == 0 and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.2
    assert (
        len(np.unique(uniform)) == 1024 if dtype is np.float16 else len(np.unique(uniform)) <= 128
    )


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("bounds", [(-0.5, 2), (0.1, 0.9), (-np.inf, -0.25), (0, np.inf), (1.5, 3)])
def test_truncated_numbers_lie_strictly_within(dtype: Any, bounds: tuple[float, float]) -> None:
    if is_refused(dtype, random.truncated_normal, *bounds):
        return
    found = random.truncated_normal(random.key(4), *bounds, (COUNT,), dtype)
    values = np.asarray(found).astype(np.float64)
    assert (values > bounds[0]).all() and (values < bounds[1]).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_bounds_that_numbers_lie_within_are_the_next_ones(dtype: str) -> None:
    least = np.finfo(dtype).smallest_subnormal
    bounds = np.array([-np.inf, -1.5, -least, 0, least, 0.75, np.inf], dtype)
    with np.errstate(over="ignore", under="ignore"):
        for up, way in ((True, np.inf), (False, -np.inf)):
            wanted = np.nextafter(bounds, np.array(way, dtype))
            assert rows._beyond(np, bounds, np.dtype(dtype), up=up).tolist() == wanted.tolist()
    third = np.array([1 / 3, -1 / 3])
    low, high = (rows._beyond(np, third, np.dtype(dtype), up=up) for up in (True, False))
    near = third.astype(dtype)
    steps = [np.nextafter(near, np.array(way, dtype)) for way in (np.inf, -np.inf)]
    if dtype != "float64":
        np.testing.assert_array_equal(low, np.where(near > third, near, steps[0]))
        np.testing.assert_array_equal(high, np.where(near < third, near, steps[1]))


def test_tiny_concentrations_give_shares() -> None:
    alpha = np.array([[1e-3, 1e-3, 1e-3], [0.5, 2, 1]])
    drawn = np.asarray(random.dirichlet(random.key(0), alpha, (500, 2)))
    np.testing.assert_allclose(drawn.sum(-1), 1, rtol=1e-12)


def test_rounds_of_sorting_have_as_many_bits_as_three_of_each_position() -> None:
    for size in (0, 1, 2, 1625, 1626, 2642245, 2642246):
        rounds = _rounds(size)
        assert (2**32 - 1) ** rounds >= size**3
        assert rounds == 0 or (2**32 - 1) ** (rounds - 1) < size**3


def test_parameters_without_end_and_without_value() -> None:
    """Infinity gives the limit, NaN gives NaN; where integers are asked for they are refused."""
    key, inf, nan = random.key(5), np.inf, np.nan
    for place in (np.asarray, gs.device_put):
        n, p = place(np.array([inf, inf, inf, nan, 3.0])), place(np.array([0.5, 0, 1, 0.5, nan]))
        np.testing.assert_array_equal(random.binomial(key, n, p), [inf, 0, inf, nan, nan])
        ends = place(np.array([inf, nan]))
        for draw in (random.gamma, random.loggamma, random.chisquare, random.rayleigh):
            np.testing.assert_array_equal(draw(key, ends), [inf, nan])
        np.testing.assert_array_equal(random.pareto(key, ends), [1, nan])
        np.testing.assert_array_equal(random.weibull_min(key, ends, 2.0), [inf, nan])
        np.testing.assert_array_equal(random.beta(key, ends, 2.0), [1, nan])
        assert np.isnan(random.truncated_normal(key, nan, place(np.ones(2)))).all()
        assert np.isnan(random.uniform(key, (2,), None, 0, place(np.full(2, nan)))).all()
        assert np.isnan(random.lognormal(key, place(np.full(2, nan)))).all()
    assert np.asarray(random.binomial(key, gs.device_put(inf), 0.5, dtype="int32")) == -1


def test_a_vector_has_one_line_to_shuffle() -> None:
    vector = np.arange(300)
    together, alone = (
        random.permutation(random.key(4), vector, independent=independent)
        for independent in (False, True)
    )
    assert together.tolist() == alone.tolist() != vector.tolist()


def test_each_order_is_as_likely() -> None:
    orders = np.asarray(
        random.permutation(random.key(4), np.tile(np.arange(3), (COUNT, 1)), 1, independent=True)
    )
    _, counts = np.unique(orders @ [9, 3, 1], return_counts=True)
    assert len(counts) == 6 and stats.chisquare(counts).pvalue > LEAST


def test_large_means_give_zeros_at_times() -> None:
    counts = {
        np.exp(-10): random.poisson(random.key(0), 10.0, (400_000,)),
        0.9**100: random.binomial(random.key(0), 100, 0.1, (400_000,)),
    }
    for odds, found in counts.items():
        zeros = int(np.sum(np.asarray(found) == 0))
        assert stats.binomtest(zeros, 400_000, odds).pvalue > LEAST


def test_ends_of_what_parameters_may_be() -> None:
    def values(made: Any) -> set[float]:
        return set(np.asarray(made).tolist())

    key, shape = random.key(1), (99,)
    assert values(random.geometric(key, 1.0, shape)) == {1}
    assert values(random.poisson(key, 0.0, shape)) == {0}
    for mode in ("low", "high"):
        assert values(random.bernoulli(key, 0.0, shape, mode)) == {False}
        assert values(random.bernoulli(key, 1.0, shape, mode)) == {True}
    for dtype in ("float64", "int64"):
        assert values(random.binomial(key, 0, 0.5, shape, dtype)) == {0}
        assert values(random.binomial(key, 7, 0.0, shape, dtype)) == {0}
        assert values(random.binomial(key, 7, 1.0, shape, dtype)) == {7}
    for draw, bad, why in (
        (random.geometric, (0.0,), "p=0.0"),
        (random.geometric, (1.01,), "p=1.01"),
        (random.poisson, (np.inf,), "lam=inf"),
        (random.bernoulli, (1.01,), "p=1.01"),
        (random.bernoulli, (-0.01,), "p=-0.01"),
        (random.gamma, (0.0,), "a=0.0"),
        (random.binomial, (-1, 0.5), "n=-1"),
        (random.binomial, (3, 1.01), "p=1.01"),
        (random.binomial, (3, -0.01), "p=-0.01"),
    ):
        with pytest.raises(ArgumentError, match=why):
            draw(key, *bad)


def test_parameters_on_devices_that_are_impossible_give_no_numbers() -> None:
    bad = random.uniform(random.key(0), (3,)) - 5
    assert np.isnan(np.asarray(random.gamma(random.key(1), bad))).all()
    assert (np.asarray(random.poisson(random.key(1), bad)) == -1).all()
    assert np.isnan(np.asarray(random.binomial(random.key(1), 5, bad))).all()
    key, put = random.key(2), gs.device_put
    n, p = (put(np.array(x)) for x in ([-1.0, 0, 3, 3, 3, 3], [0.5, 0.5, -0.5, 0, 1, 1.5]))
    np.testing.assert_array_equal(random.binomial(key, n, p), [np.nan, 0, np.nan, 0, 3, np.nan])
    assert np.isnan(np.asarray(random.gamma(key, put(np.array([0.0, -0.5]))))).all()
    rates = put(np.array([0.0, -0.5, np.inf, 0.5]))
    np.testing.assert_array_equal(np.asarray(random.poisson(key, rates)) < 0, [0, 1, 1, 0])


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
    np.testing.assert_allclose(erfinv(np, single), special.erfinv(single), rtol=1e-5)
    assert erfinv(np, np.array([-1.0, 1.0])).tolist() == [-np.inf, np.inf]
    n = np.arange(0.0, 500)
    np.testing.assert_allclose(log_factorial(np, n), special.gammaln(n + 1), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize(
    ("pieces", "last", "close"),
    [(erfinv_coefficients.DOUBLE, 36, 4e-15), (erfinv_coefficients.SINGLE, 16, 2e-6)],
)
def test_every_coefficient_counts(pieces: Any, last: float, close: float) -> None:
    """Up to both ends of its range, where the numbers near 1 that lie there are too few to tell."""
    for piece, end in zip(pieces, [*(piece.edge for piece in pieces[1:]), last], strict=True):
        w = np.linspace(piece.edge, end, 999)
        x = w if not piece.edge else np.sqrt(w)
        found = _polynomial(piece.coefficients, x - piece.shift)
        root = np.sqrt(-np.expm1(-w))
        wanted = special.erfcinv(np.exp(-w) / (1 + root))
        np.testing.assert_allclose(found * root, wanted, rtol=close, atol=0)


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


@pytest.mark.parametrize("name", ["gamma", "poisson", "beta", "wald", "triangular", "dirichlet"])
def test_docs_say_which_shape_there_is_by_default(name: str) -> None:
    lines = (getattr(random, name).__doc__ or "").splitlines()
    (shape,) = [line for line in lines if line.startswith("  shape: ")]
    assert "; by default " in shape


def test_a_new_distribution_has_a_text_for_every_argument() -> None:
    """Who refuses impossible parameters says so, once, and what follows it stays at the end."""

    def sections(row: Any, text: str) -> tuple[list[str], str]:
        def draw(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Any:
            raise NotImplementedError

        draw.__doc__ = text
        parts = (documented(row, a="the first")(draw).__doc__ or "").split("\n\n")
        return parts[1].splitlines(), "|".join([parts[0], *parts[2:]])

    example = "\n\n>>> 1 + 1\n2"
    raises = (
        "\n\nRaises:\n"
        "  ArgumentError: `a` does not broadcast to `shape`, or is out of range. "
        "`a` must be positive.\n"
        "    gpushard checks ranges only for numbers on the host."
    )
    arguments, rest = sections(rows.GAMMA, f"Draw it.{example}")
    assert arguments == [
        "Args:", "  key: a random key; do not use it again.", "  a: the first.",
        "  shape: the shape of the result; by default the shape of `a`.",
        "  dtype: a floating-point dtype; float64 by default.",
    ]  # fmt: skip
    assert rest == "|".join(f"Draw it.{raises}{example}".split("\n\n"))
    own = f"Draw it.\n\nRaises:\n  ArgumentError: it is not so.{example}"
    assert sections(rows.GAMMA, own)[1] == "|".join(own.split("\n\n"))
    assert sections(rows.TRUNCATED_NORMAL, f"Draw it.{example}")[1] == "Draw it.|>>> 1 + 1\n2"
    beta, _ = sections(rows.BETA, "Draw it.")
    broadcast = "  shape: the shape of the result; by default the broadcast shape of `a` and `b`."
    assert beta[3] == broadcast

    def as_it_is(key: Any, shape: Any = (), dtype: Any = None) -> Any:
        """Draw it."""

    normal = documented(rows.NORMAL)(as_it_is).__doc__ or ""
    assert "\n  shape: the shape of the result.\n" in normal
