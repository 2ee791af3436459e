"""Activation functions, element by element."""

from __future__ import annotations

import math
from typing import Any

from gpushard._array import Array
from gpushard._functions import elementwise as ew
from gpushard._functions.elementwise import clip, where
from gpushard._functions.special import erfc
from gpushard._ops.axes import one_from_end
from gpushard._placement.public_functions import public
from gpushard.dtypes import kind_of
from gpushard.errors import ArgumentError
from gpushard.numpy.elementwise import tanh

__all__ = [
    "celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh",
    "identity", "leaky_relu", "log1mexp", "log_sigmoid", "mish", "relu", "relu6", "selu",
    "sigmoid", "silu", "soft_sign", "softplus", "sparse_plus", "sparse_sigmoid", "squareplus",
    "swish", "tanh",
]  # fmt: skip

_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946

_activation = public(arrays=1, weak=True)


@_activation
def identity(x: Any, *, out_sharding: Any = None) -> Array:
    """Return the array unchanged, as a new `Array`."""
    return x


@_activation
def relu(x: Any, *, out_sharding: Any = None) -> Array:
    """Compute max(x, 0), the rectified linear unit.

    >>> relu([-1.0, 2.0])
    Array([0., 2.], dtype=float64)
    """
    return ew.maximum(x, 0)


@_activation
def relu6(x: Any, *, out_sharding: Any = None) -> Array:
    """Compute min(max(x, 0), 6)."""
    return ew.minimum(ew.maximum(x, 0), 6.0)


@_activation
def sigmoid(x: Any, *, out_sharding: Any = None) -> Array:
    """Compute 1 / (1 + exp(-x)), without overflow.

    >>> sigmoid([-1000.0, 0.0, 1000.0])
    Array([0. , 0.5, 1. ], dtype=float64)
    """
    small = ew.exp(-ew.abs(x * 1.0))
    return where(x >= 0, 1.0, small) / (1.0 + small)


@_activation
def log_sigmoid(x: Any, *, out_sharding: Any = None) -> Array:
    """Compute the logarithm of `sigmoid`, without overflow."""
    return -softplus(x * -1.0)


@_activation
def sparse_sigmoid(x: Any, *, out_sharding: Any = None) -> Array:
    """Compute 0 if x < -1, 1 if x > 1, and (x + 1) / 2 between."""
    return 0.5 * clip(x + 1.0, 0.0, 2.0)


@_activation
def softplus(x: Any, *, out_sharding: Any = None) -> Array:
    """Compute log(1 + exp(x)), without overflow.

    >>> softplus([1000.0])
    Array([1000.], dtype=float64)
    """
    return ew.logaddexp(x, 0.0)


@_activation
def sparse_plus(x: Any, *, out_sharding: Any = None) -> Array:
    """Compute 0 if x < -1, x if x > 1, and (x + 1) ** 2 / 4 between."""
    between = ew.square(x + 1.0) / 4
    return where(x <= -1.0, 0.0, where(x >= 1.0, x, between))


@_activation
def squareplus(x: Any, b: Any = 4, *, out_sharding: Any = None) -> Array:
    """Compute (x + sqrt(x ** 2 + b)) / 2, a smooth `relu`.

    Args:
      b: the smoothness around 0; the greater, the smoother. With 0 the result is `relu`.
    """
    return (x + ew.sqrt(ew.square(x) + b)) / 2


@_activation
def soft_sign(x: Any, *, out_sharding: Any = None) -> Array:
    """Compute x / (abs(x) + 1)."""
    return x / (ew.abs(x) + 1)


@_activation
def silu(x: Any, *, out_sharding: Any = None) -> Array:
    """Compute x * sigmoid(x)."""
    return x * sigmoid(x)


@_activation
def mish(x: Any, *, out_sharding: Any = None) -> Array:
    """Compute x * tanh(softplus(x))."""
    return x * ew.tanh(softplus(x))


@_activation
def elu(x: Any, alpha: Any = 1.0, *, out_sharding: Any = None) -> Array:
    """Compute x where x is positive, and alpha * expm1(x) elsewhere.

    Args:
      alpha: the result approaches -alpha for large negative numbers.
    """
    return where(x > 0, x, alpha * ew.expm1(where(x > 0, 0.0, x)))


@_activation
def celu(x: Any, alpha: Any = 1.0, *, out_sharding: Any = None) -> Array:
    """Compute x where x is positive, and alpha * expm1(x / alpha) elsewhere.

    Args:
      alpha: the result approaches -alpha for large negative numbers.
    """
    return ew.maximum(x, 0.0) + alpha * ew.expm1(ew.minimum(x, 0.0) / alpha)


@_activation
def selu(x: Any, *, out_sharding: Any = None) -> Array:
    """Compute a scaled `elu` that keeps the mean and the variance of activations."""
    return _SELU_SCALE * elu(x, _SELU_ALPHA)


@_activation
def gelu(x: Any, approximate: bool = True, *, out_sharding: Any = None) -> Array:
    """Compute x times the probability that a standard normal number is below x.

    Args:
      approximate: whether to approximate the probability by (1 + tanh(p)) / 2, where p is a
        polynomial in x. This is faster than the exact probability.

    Raises:
      MissingLibraryError: `approximate` is False, and SciPy is not installed.
    """
    if not approximate:
        return 0.5 * x * erfc(x * -math.sqrt(0.5))
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))
    return x * (0.5 * (1.0 + ew.tanh(inner)))


@_activation
def leaky_relu(x: Any, negative_slope: Any = 0.01, *, out_sharding: Any = None) -> Array:
    """Compute x where x is not negative, and negative_slope * x elsewhere.

    Args:
      negative_slope: the factor of negative numbers.
    """
    return where(x >= 0, x, negative_slope * x)


@_activation
def hard_tanh(x: Any, *, out_sharding: Any = None) -> Array:
    """Limit x to the range from -1 to 1."""
    return ew.minimum(x, 1) if kind_of(x.dtype) in "bu" else clip(x, -1, 1)


@_activation
def hard_sigmoid(x: Any, *, out_sharding: Any = None) -> Array:
    """Compute relu6(x + 3) / 6."""
    return relu6(x + 3.0) / 6.0


@_activation
def hard_silu(x: Any, *, out_sharding: Any = None) -> Array:
    """Compute x * hard_sigmoid(x)."""
    return x * hard_sigmoid(x)


@_activation
def glu(x: Any, axis: int = -1, *, out_sharding: Any = None) -> Array:
    """Multiply the first half of an axis by the sigmoid of the second half.

    Args:
      axis: the axis.

    Raises:
      ArgumentError: the length of the axis is odd.
    """
    axis = one_from_end(axis, x.ndim, "glu")
    half, odd = divmod(x.shape[axis], 2)
    if odd:
        raise ArgumentError(
            f"glu: axis={axis} has {x.shape[axis]} elements, which cannot be halved; use an even "
            "number",
            argument="axis",
            axis=axis,
            size=x.shape[axis],
        )
    after = (slice(None),) * (-1 - axis)
    return x[(..., slice(half), *after)] * sigmoid(x[(..., slice(half, None), *after)])


@_activation
def log1mexp(x: Any, *, out_sharding: Any = None) -> Array:
    """Compute log(1 - exp(-x)) of positive numbers, precisely also near 0."""
    small = x < math.log(2)
    near = ew.log(-ew.expm1(-where(small, x, 1.0)))
    return where(small, near, ew.log1p(-ew.exp(-where(small, 1.0, x))))


swish = silu
hard_swish = hard_silu
