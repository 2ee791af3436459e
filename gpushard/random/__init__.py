"""Random numbers, as `jax.random` has them: functions of a key, with no hidden state.

    keys          keys of Threefry-2x32: `key`, `split`, `fold_in`, `KeyArray`
    distributions `normal`, `uniform`, `randint` and the others of numbers
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
from gpushard.random.distributions import (
    bernoulli,
    beta,
    binomial,
    bits,
    cauchy,
    chisquare,
    double_sided_maxwell,
    exponential,
    f,
    gamma,
    generalized_normal,
    geometric,
    gumbel,
    integers,
    laplace,
    loggamma,
    logistic,
    lognormal,
    maxwell,
    normal,
    pareto,
    poisson,
    rademacher,
    randint,
    rayleigh,
    t,
    triangular,
    truncated_normal,
    uniform,
    wald,
    weibull_min,
)
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
