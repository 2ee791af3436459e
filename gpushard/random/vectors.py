"""Draw random vectors along the last dim of the result, which is not split."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import check_choice, count
from gpushard._functions.shapes import as_shape, broadcast
from gpushard._ops.bind import bind
from gpushard._ops.prng.distribution import floats
from gpushard._ops.table import elementwise, linalg, manipulation
from gpushard._ops.table import random as table
from gpushard._placement.device_put import implicitly_put
from gpushard.errors import ArgumentError
from gpushard.random.distributions import binomial, exponential, generalized_normal, normal, uniform
from gpushard.random.keys import split
from gpushard.random.placing import moved_to
from gpushard.random.sampling import documented, dtype_of, is_whole, parameter, sample

__all__ = ["ball", "dirichlet", "multinomial", "multivariate_normal", "orthogonal"]

_SQRT, _SIGN = elementwise.ufunc_row(np.sqrt), elementwise.ufunc_row(np.sign)


@documented(
    table.DIRICHLET,
    alpha="the concentration parameters, along the last axis",
    shape="the shape of the result without its last axis; by default that of `alpha`",
)
def dirichlet(
    key: Any, alpha: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Draw vectors from the Dirichlet distribution: positive numbers that sum to 1.

    >>> from gpushard import random
    >>> dirichlet(random.key(0), [1.0, 2.0, 3.0], (5,)).shape
    (5, 3)
    """
    alpha = parameter(alpha, "dirichlet", "alpha")
    _check_dims("dirichlet", "alpha", alpha, 1)
    *batch, n = np.shape(alpha)
    sizes = tuple(batch) if shape is None else shape
    return sample(table.DIRICHLET, key, (alpha,), sizes, dtype, out_sharding, (n,))


@documented(
    table.MULTIVARIATE_NORMAL,
    mean="the mean of the vectors, along the last axis",
    cov="the covariance matrix, along the last two axes. It must be positive definite, or\n"
    '    positive semidefinite for other methods than "cholesky". If it is not, the result is NaN',
    shape="the shape of the result without its last axis; by default the shape to which all other\n"
    "    axes of `mean` and `cov` broadcast",
    method='how the covariance matrix is factored: "cholesky", "eigh" or "svd". The last two also\n'
    "    take a singular matrix",
)
def multivariate_normal(
    key: Any,
    mean: Any,
    cov: Any,
    shape: Any = None,
    dtype: Any = None,
    method: str = "cholesky",
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw normal vectors with a mean and a covariance."""
    name, row = "multivariate_normal", table.MULTIVARIATE_NORMAL
    mean, cov = parameter(mean, name, "mean"), parameter(cov, name, "cov")
    _check_dims(name, "mean", mean, 1)
    _check_dims(name, "cov", cov, 2)
    *batch, n = np.shape(mean)
    if np.shape(cov)[-2:] != (n, n):
        raise ArgumentError(
            f"{name}: cov has shape {np.shape(cov)}, for a mean of shape {np.shape(mean)} its "
            f"last two axes must have lengths {(n, n)}",
            argument="cov",
            shape=np.shape(cov),
        )
    if shape is None:
        shape = broadcast(name, [tuple(batch), np.shape(cov)[:-2]])
    check_choice(name, "method", method, ("cholesky", "eigh", "svd"))
    if method != "cholesky":
        row, cov = table.MULTIVARIATE_NORMAL_OF_FACTOR, _factor(cov, method)
    return sample(row, key, (mean, cov), shape, dtype, out_sharding, (n,))


def _factor(cov: Any, method: str) -> Any:
    """Factor a covariance into a matrix times its transpose."""
    matrix = cov if isinstance(cov, Array) else implicitly_put(cov, "multivariate_normal")
    if method == "eigh":
        squares, vectors = bind(linalg.EIGH, (matrix,), ("L",))
    else:
        vectors, squares, _ = bind(linalg.SVD, (matrix,), (True, True, False))
    return vectors * bind(_SQRT, (squares,))[..., None, :]


@documented(
    table.NORMAL,
    n="the number of rows",
    shape="the shape of the result without its last two axes",
    dtype="a floating-point dtype, or a complex dtype for unitary matrices; float64 by default",
    m="the number of columns; `n` by default. If they differ, the fewer of rows and columns are\n"
    "    orthonormal",
)
def orthogonal(
    key: Any, n: Any, shape: Any = (), dtype: Any = None, m: Any = None, *, out_sharding: Any = None
) -> Array:
    """Draw matrices from the uniform distribution on the orthogonal or the unitary group.

    Source: Mezzadri, "How to generate random matrices from the classical compact groups" (2007).

    >>> from gpushard import random
    >>> q = orthogonal(random.key(0), 3)
    >>> bool((abs(q @ q.T - np.eye(3)) < 1e-12).all())
    True
    """
    target = dtype_of(table.NORMAL, dtype, "orthogonal")
    work = target if target.kind == "c" else floats(target)
    rows = count(n, "orthogonal", "n")
    columns = rows if m is None else count(m, "orthogonal", "m")
    matrix = (max(rows, columns), min(rows, columns))
    q, r = bind(linalg.QR, (normal(key, (*as_shape(shape), *matrix), work),), ("reduced",))
    q = (q * bind(_SIGN, (r.diagonal(axis1=-2, axis2=-1),))[..., None, :]).astype(target)
    return moved_to(out_sharding, q.mT if rows < columns else q)


@documented(
    table.GENERALIZED_NORMAL,
    d="the length of the vectors, the last axis of the result",
    p="the order of the norm, a positive number",
    shape="the shape of the result without its last axis",
)
def ball(
    key: Any, d: Any, p: Any = 2, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Draw vectors that are uniformly distributed in the unit ball of a p-norm.

    Source: Barthe, Guedon, Mendelson and Naor, "A probabilistic approach to the geometry of the
    l_p^n-ball" (2005).
    """
    target, sizes = dtype_of(table.GENERALIZED_NORMAL, dtype, "ball"), as_shape(shape)
    work = floats(target)
    exponent = parameter(p, "ball", "p", table.POSITIVE, work)
    keys = split(key)
    vectors = generalized_normal(keys[0], exponent, (*sizes, count(d, "ball", "d")), work)
    rest = exponential(keys[1], sizes, work)
    norm = ((abs(vectors) ** exponent).sum(-1) + rest) ** (1 / exponent)
    return moved_to(out_sharding, (vectors / norm[..., None]).astype(target))


@documented(
    table.BINOMIAL,
    n="the number of trials; it broadcasts to the shape of the result without the last axis",
    p="the probabilities of the outcomes, along the last axis",
    shape="the shape of the result; by default the shape of `p`",
    dtype="a floating-point dtype, as in JAX, or an integer dtype; float64 by default",
    unroll="ignored",
)
def multinomial(
    key: Any,
    n: Any,
    p: Any,
    *,
    shape: Any = None,
    dtype: Any = None,
    unroll: Any = 1,
    out_sharding: Any = None,
) -> Array:
    """Draw how many of `n` trials have each outcome.

    Raises:
      ArgumentError: `n` or `p` is negative, or does not broadcast to `shape`. gpushard checks
        ranges only for numbers on the host.

    >>> from gpushard import random
    >>> counts = multinomial(random.key(0), 10, [0.2, 0.3, 0.5])
    >>> int(counts.sum())
    10
    """
    name = "multinomial"
    target = dtype_of(table.BINOMIAL_COUNTS if is_whole(dtype) else table.BINOMIAL, dtype, name)
    left = parameter(n, name, "n", table.COUNT_OR_NAN)
    odds = parameter(p, name, "p", table.COUNT_OR_NAN)
    _check_dims(name, "p", odds, 1)
    sizes = np.shape(odds) if shape is None else as_shape(shape)
    if broadcast(name, [sizes, np.shape(odds), (*np.shape(left), 1)]) != sizes:
        raise ArgumentError(
            f"multinomial: n of shape {np.shape(left)} and p of shape {np.shape(odds)} do not "
            f"broadcast to shape={sizes} with p's last axis; leave shape out, or give one "
            "that they fit",
            argument="shape",
            shape=sizes,
        )
    keys, counts = split(key, sizes[-1]), []
    ratios, left = _shares_of_the_rest(odds), left[..., None]
    for outcome in range(sizes[-1]):
        share = ratios[..., outcome : outcome + 1] if ratios.shape[-1] > 1 else ratios
        counts.append(binomial(keys[outcome], left, share, (*sizes[:-1], 1)))
        left = left - counts[-1]
    if not counts:
        return uniform(key, sizes, out_sharding=out_sharding).astype(target)
    return moved_to(out_sharding, bind(manipulation.CONCATENATE, counts, (-1,)).astype(target))


def _shares_of_the_rest(p: Any) -> Any:
    """Divide each probability by the sum of itself and all later ones."""
    rest = p[..., ::-1].cumsum(-1)[..., ::-1]
    if isinstance(p, Array):
        return (p / bind(elementwise.WHERE, (rest == 0, 1.0, rest))).clip(0, 1)
    return p / np.where(rest == 0, 1.0, rest)


def _check_dims(name: str, argument: str, x: Any, dims: int) -> None:
    if np.ndim(x) < dims:
        raise ArgumentError(
            f"{name}: {argument} has shape {np.shape(x)}; it needs at least "
            f"{dims} ax{'es' if dims > 1 else 'is'}",
            argument=argument,
            shape=np.shape(x),
        )
