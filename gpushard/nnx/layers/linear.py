"""Linear layer: `Linear`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.linear_algebra import check_precision
from gpushard.nn import initializers
from gpushard.nnx.layers.weights import (
    KERNEL,
    as_input,
    check_features,
    compute_type,
    features,
    in_type,
    value_of,
    weights,
)
from gpushard.nnx.module import Module
from gpushard.nnx.rngs import Rngs


class Linear(Module):
    """A linear layer: `x @ kernel + bias`, over the last axis of the inputs.

    Args:
      in_features: number of features of the inputs.
      out_features: number of features of the results.
      use_bias: whether to add a bias; if not, `bias` is None.
      dtype: dtype of the computation; by default the dtype to which inputs and weights promote.
      param_dtype: dtype of the weights.
      precision: ignored: products are computed in the full precision of their dtype.
      kernel_init: an initializer of the kernel, of shape (in_features, out_features).
      bias_init: an initializer of the bias, of shape (out_features,).
      rngs: streams of random keys; the stream `params` draws the weights.

    Raises:
      ArgumentError: a number of features is less than 1. In a call, inputs have another number of
        features.
      ArgumentTypeError: `rngs` is not an `Rngs`, or another argument has a wrong type.

    >>> import gpushard as gs
    >>> from gpushard.nnx import Rngs
    >>> layer = Linear(3, 2, rngs=Rngs(0))
    >>> layer.kernel.shape, layer.bias.shape, layer(gs.numpy.ones((5, 3))).shape
    ((3, 2), (2,), (5, 2))
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        use_bias: bool = True,
        dtype: Any = None,
        param_dtype: Any = np.float32,
        precision: Any = None,
        kernel_init: initializers.Initializer = KERNEL,
        bias_init: initializers.Initializer = initializers.zeros,
        rngs: Rngs,
    ) -> None:
        check_precision("Linear", precision)
        self.in_features = features(in_features, "Linear", "in_features")
        self.out_features = features(out_features, "Linear", "out_features")
        self.dtype = compute_type(dtype, "Linear")
        sizes = self.in_features, self.out_features
        self.kernel, self.bias = weights(
            "Linear",
            rngs,
            param_dtype,
            ("kernel_init", kernel_init, sizes),
            ("bias_init", bias_init, sizes[1:]) if use_bias else None,
        )

    def __call__(self, inputs: Any) -> Array:
        """Compute `inputs @ kernel + bias`.

        Args:
          inputs: an array of shape (..., in_features).
        """
        x, kernel, bias = in_type(
            self.dtype, as_input(inputs, "Linear"), value_of(self.kernel), value_of(self.bias)
        )
        check_features("Linear", x, kernel.shape[0], kernel)
        y = x @ kernel
        return y if bias is None else y + bias
