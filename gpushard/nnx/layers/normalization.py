"""Normalization of features: `LayerNorm`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._ops.axes import from_end
from gpushard.dtypes import kind_of
from gpushard.errors import ArgumentError
from gpushard.lax import pmean
from gpushard.nn import initializers, standardize
from gpushard.nnx.layers.weights import (
    as_input,
    check_features,
    compute_type,
    features,
    in_type,
    number,
    value_of,
    weights,
)
from gpushard.nnx.module import Module
from gpushard.nnx.rngs import Rngs
from gpushard.numpy.data_type import result_type
from gpushard.numpy.elementwise import maximum, square


class LayerNorm(Module):
    """A layer that subtracts the mean of features and divides by their standard deviation.

    The result is then multiplied by `scale`, and `bias` is added. Means are computed in float32 or
    a wider dtype.

    Args:
      num_features: number of features of the inputs.
      epsilon: a small number that is added to the variance, to avoid a division by 0.
      dtype: dtype of the computation; by default the dtype to which inputs and weights promote.
      param_dtype: dtype of the weights.
      use_bias: whether to add a bias; if not, `bias` is None.
      use_scale: whether to multiply by a scale; if not, `scale` is None.
      bias_init: an initializer of the bias, of shape (num_features,).
      scale_init: an initializer of the scale, of shape (num_features,).
      reduction_axes: the axis or axes over which means are computed.
      feature_axes: the axis or axes along which `scale` and `bias` have elements.
      axis_name: the name of a mapped axis, of `shard_map` or `vmap`, over which means are computed,
        too. Use it if features are split along this axis.
      use_fast_variance: whether to compute the variance as the mean of squares minus the square of
        the mean. If False, it is the mean of squared differences from the mean.
      rngs: streams of random keys; the stream `params` draws the weights.

    Raises:
      ArgumentError: `num_features` is less than 1, or `epsilon` is negative. In a call, inputs have
        another number of features.
      ArgumentTypeError: `rngs` is not an `Rngs`, or another argument has a wrong type.

    >>> from gpushard.nnx import Rngs
    >>> LayerNorm(2, epsilon=0.0, rngs=Rngs(0))([[1.0, 3.0]])
    Array([[-1.,  1.]], dtype=float64)
    """

    def __init__(
        self,
        num_features: int,
        *,
        epsilon: float = 1e-6,
        dtype: Any = None,
        param_dtype: Any = np.float32,
        use_bias: bool = True,
        use_scale: bool = True,
        bias_init: initializers.Initializer = initializers.zeros,
        scale_init: initializers.Initializer = initializers.ones,
        reduction_axes: int | tuple[int, ...] = -1,
        feature_axes: int | tuple[int, ...] = -1,
        axis_name: Any = None,
        use_fast_variance: bool = True,
        rngs: Rngs,
    ) -> None:
        self.num_features = features(num_features, "LayerNorm", "num_features")
        self.epsilon = number(epsilon, "LayerNorm", "epsilon")
        if not self.epsilon >= 0:
            raise ArgumentError.refusing("epsilon", epsilon, "must not be negative", "LayerNorm")
        self.dtype = compute_type(dtype, "LayerNorm")
        self.reduction_axes, self.feature_axes = reduction_axes, feature_axes
        self.axis_name, self.use_fast_variance = axis_name, use_fast_variance
        shape = (self.num_features,)
        self.scale, self.bias = weights(
            "LayerNorm",
            rngs,
            param_dtype,
            ("scale_init", scale_init, shape) if use_scale else None,
            ("bias_init", bias_init, shape) if use_bias else None,
        )

    def __call__(self, x: Any, *, mask: Any = None) -> Array:
        """Normalize features.

        Args:
          x: an array with `num_features` along `feature_axes`.
          mask: the elements to take means of, as booleans; all of them by default.
        """
        x, scale, bias = in_type(
            self.dtype, as_input(x, "LayerNorm"), value_of(self.scale), value_of(self.bias)
        )
        both = [w for w in (scale, bias) if w is not None]
        target = result_type(x, *both)
        x = x.astype(result_type(target, np.float32))
        at = from_end(self.feature_axes, x.ndim, "LayerNorm", "feature_axes")
        for w in both:
            if len(at) == 1:
                check_features("LayerNorm", x, w.shape[0], w, at[0])
        axes = from_end(self.reduction_axes, x.ndim, "LayerNorm", "reduction_axes")
        mean = self._mean(x, axes, mask)
        if self.use_fast_variance:
            variance = maximum(self._mean(_square(x), axes, mask) - _square(mean), 0)
        else:
            variance = self._mean(_square(x - mean), axes, mask)
        y = standardize(x, axes, mean, variance, self.epsilon)
        if scale is not None:
            y = y * _align(scale, y, at)
        if bias is not None:
            y = y + _align(bias, y, at)
        return y.astype(target)

    def _mean(self, x: Any, axes: tuple[int, ...], mask: Any) -> Any:
        mean = x.mean(axes, keepdims=True, **({} if mask is None else {"where": mask}))
        return mean if self.axis_name is None else pmean(mean, self.axis_name)


def _align(weight: Any, x: Any, at: tuple[int, ...]) -> Any:
    """Reshape a weight, so that it broadcasts along some dims of an array."""
    if len(at) == 1:
        return weight[(slice(None),) + (None,) * (-1 - at[0])]
    return weight.reshape([n if dim in at else 1 for dim, n in enumerate(x.shape, -x.ndim)])


def _square(x: Any) -> Any:
    """Compute squares of absolute values."""
    return square(x.real) + square(x.imag) if kind_of(x.dtype) == "c" else square(x)
