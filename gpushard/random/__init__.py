"""Random numbers, as `jax.random` has them: functions of a key, with no hidden state.

    keys          keys of Threefry-2x32: `key`, `split`, `fold_in`, `KeyArray`
    uniform       `bits`, `uniform`, `randint`, `bernoulli`, `rademacher`
    continuous    `normal`, `exponential` and others without parameters
    parametric    `gamma`, `beta` and others with parameters
    counts        `poisson`, `binomial`, `geometric`
    vectors       `dirichlet`, `multivariate_normal`, `multinomial`, `orthogonal`, `ball`
    order         `permutation`, `choice`, `categorical`
    sampling      arguments, and how distributions run
    placing       where keys and results go

An element depends on the key and its position alone, so that a result is the same for every
sharding, and each shard is made where it will live.

>>> from gpushard import random
>>> key = random.key(0)
>>> key, now = random.split(key)
>>> random.normal(now, (2, 3)).shape
(2, 3)
"""

from gpushard.array.key_array import KeyArray
from gpushard.random.continuous import (
    cauchy,
    exponential,
    gumbel,
    laplace,
    logistic,
    lognormal,
    maxwell,
    normal,
    truncated_normal,
)
from gpushard.random.counts import binomial, geometric, poisson
from gpushard.random.keys import (
    PRNGKey,
    clone,
    fold_in,
    key,
    key_data,
    key_dtype,
    key_impl,
    split,
    wrap_key_data,
)
from gpushard.random.order import categorical, choice, permutation, shuffle
from gpushard.random.parametric import (
    beta,
    chisquare,
    double_sided_maxwell,
    f,
    gamma,
    generalized_normal,
    loggamma,
    pareto,
    rayleigh,
    t,
    triangular,
    wald,
    weibull_min,
)
from gpushard.random.uniform import bernoulli, bits, integers, rademacher, randint, uniform
from gpushard.random.vectors import ball, dirichlet, multinomial, multivariate_normal, orthogonal

__all__ = [
    "KeyArray",
    "PRNGKey",
    "ball",
    "bernoulli",
    "beta",
    "binomial",
    "bits",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "clone",
    "dirichlet",
    "double_sided_maxwell",
    "exponential",
    "f",
    "fold_in",
    "gamma",
    "generalized_normal",
    "geometric",
    "gumbel",
    "integers",
    "key",
    "key_data",
    "key_dtype",
    "key_impl",
    "laplace",
    "loggamma",
    "logistic",
    "lognormal",
    "maxwell",
    "multinomial",
    "multivariate_normal",
    "normal",
    "orthogonal",
    "pareto",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
    "rayleigh",
    "shuffle",
    "split",
    "t",
    "triangular",
    "truncated_normal",
    "uniform",
    "wald",
    "weibull_min",
    "wrap_key_data",
]


def __dir__() -> list[str]:
    return list(__all__)
