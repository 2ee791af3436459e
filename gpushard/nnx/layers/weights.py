"""Create the weights of layers, and convert weights and inputs to a common type."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import count
from gpushard._functions.element_types import as_dtype
from gpushard._placement.arguments import as_value
from gpushard._typing import Shape
from gpushard.dtypes import kind_of
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.nn import initializers
from gpushard.nnx.rngs import Rngs, draw_keys
from gpushard.nnx.variable import Param, Variable

KERNEL = initializers.lecun_normal()
"""The default initializer of kernels."""


def features(number: Any, layer: str, argument: str) -> int:
    """Convert an argument to a number of features, which is at least 1."""
    if (sizes := count(number, layer, argument)) < 1:
        raise ArgumentError.refusing(argument, number, "must be 1 at least", layer)
    return sizes


def number(value: Any, layer: str, argument: str) -> float:
    """Convert an argument to a real number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise ArgumentTypeError.refusing(argument, value, "must be a number", layer)
    return float(value)


def compute_type(dtype: Any, layer: str, argument: str = "dtype") -> np.dtype[Any] | None:
    """Convert an argument to the type that a layer computes in: floating or complex, or None."""
    if dtype is None:
        return None
    target = as_dtype(dtype, argument)
    if kind_of(target) not in "fc":
        raise ArgumentTypeError.refusing(
            argument, dtype, "must be a type of floats, such as float32", layer
        )
    return target


def weights(layer: str, rngs: Any, dtype: Any, *wanted: tuple[str, Any, Shape] | None) -> list[Any]:
    """Create weights in order, with first values drawn from the stream `params`.

    Args:
      layer: the name of the layer, for errors.
      rngs: the streams. If a weight cannot be created, no key is drawn.
      dtype: the type of the weights.
      *wanted: for each weight the argument with its initializer, the initializer, and the shape.
        None for a weight that is left out.
    """
    if not isinstance(rngs, Rngs):
        raise ArgumentTypeError.refusing(
            "rngs", rngs, "must be an nnx.Rngs, such as nnx.Rngs(0)", layer
        )
    target = compute_type(dtype, layer, "param_dtype")
    for argument, init, _ in filter(None, wanted):
        if not callable(init):
            raise ArgumentTypeError.refusing(
                argument, init, "must be a function of key, shape and dtype", layer
            )
    with draw_keys(rngs.params, sum(each is not None for each in wanted)) as keys:
        rest = iter(keys)
        return [each and Param(each[1](next(rest), each[2], target)) for each in wanted]


def as_input(x: Any, layer: str) -> Array:
    """Convert the input of a layer to an array."""
    value: Array = as_value(x, layer)
    return value


def check_features(layer: str, x: Any, size: int, weights: Any, axis: int = -1) -> None:
    """Check that inputs have as many features along an axis as the weights.

    Inside `shard_map`, features and weights are those of one device.
    """
    if not x.ndim or x.shape[axis] != size:
        raise ArgumentError(
            f"{layer}: inputs of shape {x.shape} must have {size} features along axis {axis}, "
            f"like weights of shape {weights.shape}",
            argument="inputs",
            shape=x.shape,
            features=size,
        )


def in_type(dtype: Any, *arrays: Any) -> list[Any]:
    """Convert arrays to the type that a layer computes in, if it is set."""
    if dtype is None:
        return list(arrays)
    return [x if x is None or x.dtype == dtype else x.astype(dtype) for x in arrays]


def value_of(weight: Any) -> Any:
    """Return the value of a weight: a Variable or an array, or None."""
    return weight.value if isinstance(weight, Variable) else weight
