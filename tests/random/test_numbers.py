"""The numbers of a key stay what they are: from one version to the next, and on every machine."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpushard import random

COUNT = 1001
MANY = (COUNT,)
ROW = np.linspace(0.25, 4, COUNT)
COV = np.array([[2, 0.5], [0.5, 1]])
LOGITS = np.log([0.1, 0.2, 0.3, 0.4])

CALLS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "ball": (lambda key: random.ball(key, 3, 1.5, (99,)), 5.0989191623),
    "bernoulli": (lambda key: random.bernoulli(key, ROW / 4), 22.214840056),
    "bernoulli, high": (lambda key: random.bernoulli(key, ROW / 4, mode="high"), 22.214840056),
    "beta": (lambda key: random.beta(key, ROW, 4 - ROW / 2), 5.6225581935),
    "binomial": (lambda key: random.binomial(key, 30 * ROW, 0.25 * ROW), 182.65941096),
    "bits": (lambda key: random.bits(key, MANY, "uint16"), 359070.16029),
    "categorical": (lambda key: random.categorical(key, LOGITS, shape=MANY), 11.208269523),
    "categorical, high": (
        lambda key: random.categorical(key, LOGITS, shape=MANY, mode="high"),
        -6.3292718947,
    ),
    "cauchy": (lambda key: random.cauchy(key, MANY), 272.60803918),
    "chisquare": (lambda key: random.chisquare(key, ROW), 73.857498553),
    "choice": (lambda key: random.choice(key, 99, (50,), replace=False), -24.174827504),
    "choice of weights, single": (
        lambda key: random.choice(key, 1001, (50,), p=(ROW / ROW.sum()).astype(np.float32)),
        -526.23253445,
    ),
    "choice of weights": (
        lambda key: random.choice(key, 1001, (50,), False, ROW / ROW.sum()),
        -1319.2479059,
    ),
    "dirichlet": (lambda key: random.dirichlet(key, ROW[::100], (99,)), 1.8629697924),
    "double_sided_maxwell": (
        lambda key: random.double_sided_maxwell(key, 1.0, 2.0, MANY),
        9.4908887942,
    ),
    "exponential": (lambda key: random.exponential(key, MANY), -5.0234201577),
    "f": (lambda key: random.f(key, ROW, 3 * ROW), 1815.1036673),
    "gamma": (lambda key: random.gamma(key, ROW), 48.650600769),
    "gamma in single": (lambda key: random.gamma(key, ROW[::9], dtype="float32"), -10.398024186),
    "generalized_normal": (lambda key: random.generalized_normal(key, ROW, MANY), -194.73474073),
    "geometric": (lambda key: random.geometric(key, ROW / 5), 99.996167424),
    "gumbel": (lambda key: random.gumbel(key, MANY), -9.0183111607),
    "gumbel, high": (lambda key: random.gumbel(key, MANY, mode="high"), 13.406790445),
    "keys": (lambda key: random.key_data(random.split(random.fold_in(key, 7), 99)), 13177136845),
    "laplace": (lambda key: random.laplace(key, MANY), 14.185964075),
    "loggamma": (lambda key: random.loggamma(key, ROW / 9), 354.21108972),
    "logistic": (lambda key: random.logistic(key, MANY), -16.519784455),
    "lognormal": (lambda key: random.lognormal(key, ROW), -130014.85517),
    "maxwell": (lambda key: random.maxwell(key, MANY), -28.383413972),
    "multinomial": (
        lambda key: random.multinomial(key, 50, np.exp(LOGITS), shape=(99, 4)),
        -38.914474553,
    ),
    "multivariate_normal": (
        lambda key: random.multivariate_normal(key, [1, 2], COV, (99,)),
        -15.149098296,
    ),
    "normal": (lambda key: random.normal(key, MANY), -8.796232212),
    "normal in half": (lambda key: random.normal(key, MANY, "float16"), -14.668082264),
    "normal in single": (lambda key: random.normal(key, MANY, "float32"), -14.667525522),
    "normal, complex": (lambda key: random.normal(key, MANY, "complex128").imag, 12.859433367),
    "orthogonal": (lambda key: abs(random.orthogonal(key, 5, (9,))), -1.2091967005),
    "pareto": (lambda key: random.pareto(key, ROW), 42187.796792),
    "permutation": (lambda key: random.permutation(key, COUNT), 2591.2392733),
    "permutation of each": (
        lambda key: random.permutation(key, COV + ROW[:9, None, None], 2, True),
        1.2671555419,
    ),
    "poisson": (lambda key: random.poisson(key, ROW * 8), 100.91034197),
    "rademacher": (lambda key: random.rademacher(key, MANY), -11.540466097),
    "randint": (lambda key: random.randint(key, MANY, -5, 77), 1146.4970995),
    "randint, narrow": (lambda key: random.randint(key, MANY, -128, 128, "int8"), 851.17798694),
    "rayleigh": (lambda key: random.rayleigh(key, ROW), 4.9878198084),
    "t": (lambda key: random.t(key, ROW + 1), -79.862234073),
    "triangular": (lambda key: random.triangular(key, -ROW, 0.25, ROW), -0.74219676287),
    "truncated_normal": (lambda key: random.truncated_normal(key, -ROW, 1.5), -3.7782301462),
    "uniform": (lambda key: random.uniform(key, MANY, None, -ROW, 2), -5.0500117653),
    "wald": (lambda key: random.wald(key, ROW), 126.06242794),
    "weibull_min": (lambda key: random.weibull_min(key, ROW, 4 - ROW / 2), 2.5611369724),
}
"""Calls, and the sum of what they give, each number times a cosine."""


@pytest.mark.parametrize("name", CALLS)
def test_numbers_stay_what_they_are(name: str) -> None:
    call, wanted = CALLS[name]
    found = np.asarray(call(random.key(2026))).astype(np.float64).ravel()
    single = name.endswith(("single", "half"))
    total = found @ np.cos(np.arange(found.size))
    assert np.isclose(total, wanted, rtol=1e-4 if single else 1e-9, atol=0), total


LEFT_OUT: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "ball": (lambda key: random.ball(key, 3), lambda key: random.ball(key, 3, 2.0)),
    "bernoulli": (
        lambda key: random.bernoulli(key, shape=(99,)),
        lambda key: random.bernoulli(key, 0.5, (99,), "low"),
    ),
    "categorical": (
        lambda key: random.categorical(key, np.ones((9, 4, 5))),
        lambda key: random.categorical(key, np.ones((9, 4, 5)), 2),
    ),
    "choice": (
        lambda key: random.choice(key, ROW[:99].reshape(9, 11), (4,)),
        lambda key: random.choice(key, ROW[:99].reshape(9, 11), (4,), axis=0),
    ),
    "lognormal": (
        lambda key: random.lognormal(key, shape=(9,)),
        lambda key: np.exp(random.normal(key, (9,))),
    ),
    "permutation": (
        lambda key: random.permutation(key, ROW[:99].reshape(9, 11)),
        lambda key: random.permutation(key, ROW[:99].reshape(9, 11), 0),
    ),
    "split": (
        lambda key: random.key_data(random.split(key)),
        lambda key: random.key_data(random.split(key, 2)),
    ),
    "uniform": (
        lambda key: random.uniform(key, (9,)),
        lambda key: random.uniform(key, (9,), None, 0, 1),
    ),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_arguments_left_out(name: str) -> None:
    short, full = (call(random.key(3)) for call in LEFT_OUT[name])
    np.testing.assert_array_equal(short, full)
