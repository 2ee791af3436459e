"""Convolution: `Conv`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import check_choice, integer
from gpushard._functions.linear_algebra import check_precision
from gpushard.errors import ArgumentError
from gpushard.lax import ConvDimensionNumbers, conv_general_dilated
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
from gpushard.numpy.data_type import result_type
from gpushard.numpy.padding import pad

_NAMES = ("SAME", "VALID", "SAME_LOWER")
_MODES = {"CIRCULAR": "wrap", "REFLECT": "reflect"}


class Conv(Module):
    """A convolution over one or more axes, with features along the last axis.

    Args:
      in_features: number of features of the inputs.
      out_features: number of features of the results.
      kernel_size: length of the kernel along each axis; an integer for one axis.
      strides: step of the kernel along each axis; an integer for all axes.
      padding: "SAME", "VALID" or "SAME_LOWER", as in `lax.padtype_to_pads`. "CIRCULAR" and
        "REFLECT" continue the inputs beyond their ends, periodically or mirrored. "CAUSAL", for one
        axis, means that a result depends on no later input. Or the number of zeros before and after
        the inputs along each axis: a number or a pair; one of these for all axes, or a sequence
        with one for each.
      input_dilation: distance between neighbouring elements of the inputs along each axis; an
        integer for all axes.
      kernel_dilation: distance between neighbouring elements of the kernel along each axis; an
        integer for all axes.
      feature_group_count: number of groups of features; each group of output features depends on
        one group of input features.
      use_bias: whether to add a bias; if not, `bias` is None.
      dtype: dtype of the computation; by default the dtype to which inputs and weights promote.
      param_dtype: dtype of the weights.
      precision: ignored: products are computed in the full precision of their dtype.
      kernel_init: an initializer of the kernel, of shape
        (*kernel_size, in_features // feature_group_count, out_features).
      bias_init: an initializer of the bias, of shape (out_features,).
      rngs: streams of random keys; the stream `params` draws the weights.

    Raises:
      ArgumentError: a size is less than 1, the number of groups does not divide the number of
        features, or the padding is unknown. In a call, inputs have another number of features, or
        too few axes.
      ArgumentTypeError: `rngs` is not an `Rngs`, or another argument has a wrong type.

    >>> import gpushard as gs
    >>> from gpushard.nnx import Rngs
    >>> layer = Conv(3, 8, (3, 3), strides=2, rngs=Rngs(0))
    >>> layer(gs.numpy.ones((4, 28, 28, 3))).shape
    (4, 14, 14, 8)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        kernel_size: int | Sequence[int],
        strides: int | Sequence[int] | None = 1,
        *,
        padding: Any = "SAME",
        input_dilation: int | Sequence[int] | None = 1,
        kernel_dilation: int | Sequence[int] | None = 1,
        feature_group_count: int = 1,
        use_bias: bool = True,
        dtype: Any = None,
        param_dtype: Any = np.float32,
        precision: Any = None,
        kernel_init: initializers.Initializer = KERNEL,
        bias_init: initializers.Initializer = initializers.zeros,
        rngs: Rngs,
    ) -> None:
        check_precision("Conv", precision)
        self.in_features = features(in_features, "Conv", "in_features")
        self.out_features = features(out_features, "Conv", "out_features")
        sizes = tuple(kernel_size) if _is_sequence(kernel_size) else (kernel_size,)
        ndim = len(sizes)
        self.kernel_size = _each("kernel_size", sizes, ndim)
        self.strides = _each("strides", strides, ndim)
        self.input_dilation = _each("input_dilation", input_dilation, ndim)
        self.kernel_dilation = _each("kernel_dilation", kernel_dilation, ndim)
        self.padding = _padding(padding, ndim)
        self.feature_group_count = features(feature_group_count, "Conv", "feature_group_count")
        if self.in_features % feature_group_count or self.out_features % feature_group_count:
            raise ArgumentError(
                f"Conv: feature_group_count={feature_group_count} must divide "
                f"in_features={in_features} and out_features={out_features}",
                argument="feature_group_count",
                value=feature_group_count,
            )
        self.dtype = compute_type(dtype, "Conv")
        shape = (*self.kernel_size, self.in_features // feature_group_count, self.out_features)
        self.kernel, self.bias = weights(
            "Conv",
            rngs,
            param_dtype,
            ("kernel_init", kernel_init, shape),
            ("bias_init", bias_init, shape[-1:]) if use_bias else None,
        )

    def __call__(self, inputs: Any) -> Array:
        """Convolve inputs with the kernel, and add the bias.

        Args:
          inputs: an array of shape (..., *sizes, in_features), with any number of axes in front.
        """
        x, kernel, bias = in_type(
            self.dtype, as_input(inputs, "Conv"), value_of(self.kernel), value_of(self.bias)
        )
        ndim = len(self.kernel_size)
        if x.ndim <= ndim:
            raise ArgumentError(
                f"Conv: inputs of shape {x.shape} must have {ndim + 1} axes at least, {ndim} for "
                f"the kernel of size {self.kernel_size}, and features last",
                argument="inputs",
                shape=x.shape,
            )
        check_features("Conv", x, kernel.shape[-2] * self.feature_group_count, kernel)
        batch, dims = x.shape[: -1 - ndim], x.shape[-1 - ndim :]
        x = x if len(batch) == 1 else x.reshape(math.prod(batch), *dims)
        if self.dtype is None:
            x, kernel = in_type(result_type(x, kernel), x, kernel)
        x, pads = self._pad_inputs(x)
        within = tuple(range(1, ndim + 1))
        y = conv_general_dilated(
            x,
            kernel,
            self.strides,
            pads,
            self.input_dilation,
            self.kernel_dilation,
            ConvDimensionNumbers(
                (0, ndim + 1, *within), (ndim + 1, ndim, *range(ndim)), (0, ndim + 1, *within)
            ),
            self.feature_group_count,
        )
        y = y if bias is None else y + bias
        return y if len(batch) == 1 else y.reshape(*batch, *y.shape[1:])

    def _pad_inputs(self, x: Any) -> tuple[Any, Any]:
        """Continue the inputs if the padding says so; return them and the padding by zeros."""
        reaches = [
            (n - 1) * by for n, by in zip(self.kernel_size, self.kernel_dilation, strict=True)
        ]
        if self.padding == "CAUSAL":
            return x, [(reaches[0], 0)]
        if self.padding not in _MODES:
            return x, self.padding
        widths = [(reach // 2, reach - reach // 2) for reach in reaches]
        return pad(x, [(0, 0), *widths, (0, 0)], _MODES[self.padding]), "VALID"


def _is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _each(argument: str, value: Any, ndim: int) -> tuple[int, ...]:
    """Convert an argument to a positive integer for each axis."""
    values = 1 if value is None else value
    numbers = tuple(values) if _is_sequence(values) else (values,) * ndim
    if len(numbers) != ndim:
        raise ArgumentError.refusing(
            argument, value, f"must have {ndim} numbers, one for each axis of the kernel", "Conv"
        )
    return tuple(features(number, "Conv", argument) for number in numbers)


def _padding(padding: Any, ndim: int) -> str | tuple[tuple[int, int], ...]:
    """Convert a padding to its name, or to a pair of numbers for each axis."""
    if isinstance(padding, str):
        name = padding.upper()
        check_choice("Conv", "padding", name, (*_NAMES, *_MODES, "CAUSAL"))
        if name == "CAUSAL" and ndim != 1:
            raise ArgumentError.refusing(
                "padding", padding, f"is for kernels of one axis, and this one has {ndim}", "Conv"
            )
        return name
    pairs = tuple(padding) if _is_sequence(padding) else (padding,) * ndim
    if len(pairs) != ndim:
        raise ArgumentError.refusing(
            "padding", padding, f"must be a name, or {ndim} numbers or pairs", "Conv"
        )
    both = [tuple(pair) if _is_sequence(pair) else (pair, pair) for pair in pairs]
    if any(len(pair) != 2 for pair in both):
        raise ArgumentError.refusing("padding", padding, "must have pairs of two numbers", "Conv")
    return tuple((integer(a, "Conv", "padding"), integer(b, "Conv", "padding")) for a, b in both)
