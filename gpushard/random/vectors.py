"""Distributions of vectors, which lie along the last dim of the result; it is made whole."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.errors import ArgumentError
from gpushard.ops.table import random
from gpushard.random.parametric import positive
from gpushard.random.sampling import common_shape, float_dtype, parameter, sample


def dirichlet(
    key: Any, alpha: Any, shape: Any = None, dtype: Any = None, *, out_sharding: Any = None
) -> Any:
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
    *,
    out_sharding: Any = None,
) -> Any:
    """Return normal vectors with a mean and a covariance.

    Args:
      key: a key.
      mean: the mean, along the last dim.
      cov: the covariance, along the last two dims; the result is NaN where it is not positive
        definite.
      shape: of the result without its last dim; by default what the other dims of `mean` and `cov`
        broadcast to.
      dtype: a type of floats; float64 by default.
      out_sharding: how the result is laid out.

    Raises:
      ArgumentError: the shapes of `mean` and `cov` do not fit.
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
    parameters = (centre, spread)
    return sample(random.MULTIVARIATE_NORMAL, key, shape, target, parameters, out_sharding, (n,))


def _needs_dims(name: str, argument: str, shape: Any, dims: int) -> ArgumentError:
    return ArgumentError(
        f"{name}: {argument} has shape {shape}; it needs {dims} dim{'s' * (dims > 1)} at least",
        argument=argument,
        shape=shape,
    )
