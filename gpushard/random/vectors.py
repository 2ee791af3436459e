"""Distributions of vectors, which lie along the last dim of the result; it is made whole."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.errors import ArgumentError
from gpushard.functions.checks import as_dtype, as_shape, count
from gpushard.ops.bind import bind
from gpushard.ops.random.sampler import floats
from gpushard.ops.table import decompositions, elementwise, movement, random
from gpushard.placement.device_put import device_put
from gpushard.random.continuous import exponential, normal
from gpushard.random.counts import binomial
from gpushard.random.keys import split
from gpushard.random.parametric import generalized_normal, positive
from gpushard.random.placing import follow
from gpushard.random.sampling import common_shape, float_dtype, int_dtype, parameter, sample
from gpushard.random.uniform import uniform

_SQRT, _SIGN = elementwise.ufunc_row(np.sqrt), elementwise.ufunc_row(np.sign)


def dirichlet(
    key: Any, alpha: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Return vectors of positive numbers whose sum is 1.

    Args:
      key: a key.
      alpha: the concentrations, along the last dim.
      shape: of the result without its last dim; by default that of `alpha`.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentError: `alpha` has no dims, or is not positive.

    >>> from gpushard import random
    >>> dirichlet(random.key(0), [1.0, 2.0, 3.0], (5,)).shape
    (5, 3)
    """
    target = float_dtype(dtype, "dirichlet")
    own = parameter(alpha, "dirichlet", "alpha", positive, "positive")
    if not np.ndim(own):
        raise _needs_dims("dirichlet", "alpha", np.shape(own), 1)
    *batch, n = np.shape(own)
    sizes = tuple(batch) if shape is None else shape
    return sample(random.DIRICHLET, key, sizes, target, (own,), out_sharding, (n,))


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
    """Return normal vectors with a mean and a covariance.

    Args:
      key: a key.
      mean: the mean, along the last dim.
      cov: the covariance, along the last two dims; the result is NaN where it is not positive
        definite, or semidefinite where `method` is another one.
      shape: of the result without its last dim; by default what the other dims of `mean` and `cov`
        broadcast to.
      dtype: a type of floats; float64 by default.
      method: how the covariance is factored: "cholesky", "eigh" or "svd". The last two also take
        a covariance that is singular.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentError: the shapes of `mean` and `cov` do not fit, or there is no such method.
    """
    name = "multivariate_normal"
    target = float_dtype(dtype, name)
    centre, spread = parameter(mean, name, "mean"), parameter(cov, name, "cov")
    if np.ndim(centre) < 1:
        raise _needs_dims(name, "mean", np.shape(centre), 1)
    if np.ndim(spread) < 2:
        raise _needs_dims(name, "cov", np.shape(spread), 2)
    *batch, n = np.shape(centre)
    if np.shape(spread)[-2:] != (n, n):
        raise ArgumentError(
            f"{name}: cov has shape {np.shape(spread)}, for a mean of shape {np.shape(centre)} its "
            f"last two dims must be {(n, n)}",
            argument="cov",
            shape=np.shape(spread),
        )
    if shape is None:
        shape = common_shape(name, tuple(batch), np.shape(spread)[:-2])
    row = random.MULTIVARIATE_NORMAL
    if method != "cholesky":
        row, spread = random.MULTIVARIATE_NORMAL_OF_FACTOR, _factor(spread, method)
    return sample(row, key, shape, target, (centre, spread), out_sharding, (n,))


def _factor(cov: Any, method: str) -> Any:
    """Return a matrix whose product with its transpose is a covariance.

    Raises:
      ArgumentError: there is no such method.
    """
    if method not in ("eigh", "svd"):
        raise ArgumentError(
            f'multivariate_normal: method={method!r} must be "cholesky", "eigh" or "svd"',
            argument="method",
            value=method,
        )
    matrix = cov if isinstance(cov, Array) else device_put(cov)
    if method == "eigh":
        squares, vectors = bind(decompositions.EIGH, (matrix,), ("L",))
    else:
        vectors, squares, _ = bind(decompositions.SVD, (matrix,), (True, True, False))
    return vectors * bind(_SQRT, (squares,))[..., None, :]


def orthogonal(
    key: Any,
    n: Any,
    shape: Any = (),
    dtype: Any = None,
    m: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return matrices that are uniform on the orthogonal group, or the unitary one.

    Source: Mezzadri, "How to generate random matrices from the classical compact groups" (2007).

    Args:
      key: a key.
      n: how many rows.
      shape: dims in front of those of the matrices.
      dtype: a type of floats, or of complex numbers for unitary matrices; float64 by default.
      m: how many columns, by default as many. The shorter of rows and columns are orthonormal.
      out_sharding: how the result is laid out.

    >>> from gpushard import random
    >>> q = orthogonal(random.key(0), 3)
    >>> bool((abs(q @ q.T - np.eye(3)) < 1e-12).all())
    True
    """
    target = float_dtype(dtype, "orthogonal", kinds="fc")
    work = target if target.kind == "c" else floats(target)
    rows = count(n, "orthogonal", "n")
    columns = rows if m is None else count(m, "orthogonal", "m")
    matrix = (max(rows, columns), min(rows, columns))
    q, r = bind(decompositions.QR, (normal(key, (*as_shape(shape), *matrix), work),), ("reduced",))
    q = (q * bind(_SIGN, (r.diagonal(axis1=-2, axis2=-1),))[..., None, :]).astype(target)
    return follow(q.mT if rows < columns else q, out_sharding, q)


def ball(
    key: Any,
    d: Any,
    p: Any = 2,
    shape: Any = (),
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Return vectors that are uniform in the unit ball of a p-norm.

    Source: Barthe, Guedon, Mendelson and Naor, "A probabilistic approach to the geometry of the
    l_p^n-ball" (2005).

    Args:
      key: a key.
      d: the length of the vectors, the last dim of the result.
      p: of the norm; positive.
      shape: of the result without its last dim.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentError: `p` is not positive.
    """
    target, sizes = float_dtype(dtype, "ball"), as_shape(shape)
    work = floats(target)
    exponent = parameter(p, "ball", "p", positive, "positive", work)
    keys = split(key)
    vectors = generalized_normal(keys[0], exponent, (*sizes, count(d, "ball", "d")), work)
    rest = exponential(keys[1], sizes, work)
    norm = ((abs(vectors) ** exponent).sum(-1) + rest) ** (1 / exponent)
    return follow((vectors / norm[..., None]).astype(target), out_sharding, vectors)


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
    """Return how many of n trials have each outcome.

    Args:
      key: a key.
      n: how many trials; it broadcasts to the result without its last dim.
      p: the probabilities of the outcomes, along the last dim.
      shape: of the result; by default that of `p`.
      dtype: a type of floats, as in JAX, or of integers; float64 by default.
      unroll: is of no use here.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentError: a parameter is impossible, or they do not broadcast to the shape.

    >>> from gpushard import random
    >>> counts = multinomial(random.key(0), 10, [0.2, 0.3, 0.5])
    >>> int(counts.sum())
    10
    """
    whole = dtype is not None and as_dtype(dtype).kind in "iu"
    target = int_dtype(dtype, "multinomial") if whole else float_dtype(dtype, "multinomial")
    left = parameter(n, "multinomial", "n", lambda x: ~(x < 0), "at least 0")
    odds = parameter(p, "multinomial", "p", lambda x: ~(x < 0), "at least 0")
    sizes = np.shape(odds) if shape is None else as_shape(shape)
    if not sizes or not np.ndim(odds):
        raise _needs_dims("multinomial", "p", np.shape(odds), 1)
    if common_shape("multinomial", sizes, np.shape(odds), (*np.shape(left), 1)) != sizes:
        raise ArgumentError(
            f"multinomial: n of shape {np.shape(left)} and p of shape {np.shape(odds)} do not "
            f"broadcast to shape={sizes}, whose last dim is that of p; leave shape out, or give "
            "one that they fit",
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
    made = bind(movement.CONCATENATE, counts, (-1,)).astype(target)
    return follow(made, out_sharding, made)


def _shares_of_the_rest(p: Any) -> Any:
    """Return each probability divided by the sum of its own and those after it."""
    rest = p[..., ::-1].cumsum(-1)[..., ::-1]
    if isinstance(p, Array):
        return (p / bind(elementwise.WHERE, (rest == 0, 1.0, rest))).clip(0, 1)
    return (p / np.where(rest == 0, 1.0, rest)).clip(0, 1)


def _needs_dims(name: str, argument: str, shape: Any, dims: int) -> ArgumentError:
    return ArgumentError(
        f"{name}: {argument} has shape {shape}; it needs {dims} dim{'s' * (dims > 1)} at least",
        argument=argument,
        shape=shape,
    )
