"""Draw first values of weights, under the names of `jax.nn.initializers`.

Most functions return an initializer: a function `init(key, shape, dtype, out_sharding)` that
creates an array. Each device draws its own shard. The values depend only on the key and on the
position in the array, so they are equal for all shardings. `zeros` and `ones` are initializers
themselves.

>>> from gpushard import random
>>> init = lecun_normal()
>>> init(random.key(0), (3, 2), "float32").shape
(3, 2)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gpushard import random
from gpushard._array import Array
from gpushard._functions.argument_checks import check_choice
from gpushard._functions.element_types import as_dtype, number_of
from gpushard._functions.elementwise import exp, log1p, sqrt
from gpushard._functions.manipulation import moveaxis
from gpushard._functions.shapes import as_shape
from gpushard._ops.axes import from_end, one_from_end
from gpushard._placement.arguments import settle
from gpushard._placement.creation import full
from gpushard.errors import ArgumentError

__all__ = [
    "Initializer", "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal",
    "he_uniform", "kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal",
    "ones", "orthogonal", "truncated_normal", "uniform", "variance_scaling", "xavier_normal",
    "xavier_uniform", "zeros",
]  # fmt: skip

Initializer: TypeAlias = Callable[..., Array]
"""A function `init(key, shape, dtype, out_sharding)`; the last two arguments are optional."""

_DEVIATION = 0.87962566103423978  # of standard normal numbers between -2 and 2
_DEVIATION_IN_DISC = 0.95311164380491208  # of complex ones within 2 of 0


def __dir__() -> list[str]:
    return sorted(__all__)


def zeros(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Array:
    """Create an array of zeros.

    Args:
      key: ignored.
      shape: the shape.
      dtype: the dtype; float64 by default.
      out_sharding: a sharding or a `PartitionSpec` for the array; by default it goes where new
        arrays go.
    """
    return constant(0)(key, shape, dtype, out_sharding)


def ones(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Array:
    """Create an array of ones.

    Args:
      key: ignored.
      shape: the shape.
      dtype: the dtype; float64 by default.
      out_sharding: a sharding or a `PartitionSpec` for the array; by default it goes where new
        arrays go.
    """
    return constant(1)(key, shape, dtype, out_sharding)


def constant(value: Any, dtype: Any = None) -> Initializer:
    """Make an initializer that fills arrays with a value.

    Args:
      value: a number, or an array that broadcasts to the shape.
      dtype: the dtype of the arrays if a call of the initializer gives none; float64 by default.

    >>> constant(7)(None, (2,))
    Array([7., 7.], dtype=float64)
    """

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Array:
        return full(shape, value, _dtype(dtype), out_sharding=out_sharding)

    return init


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Make an initializer that draws uniform numbers from 0 to `scale`.

    Args:
      scale: the upper bound, which is not drawn itself.
      dtype: the dtype of the arrays if a call of the initializer gives none; float64 by default.
    """

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Array:
        drawn = random.uniform(key, shape, dtype, out_sharding=out_sharding)
        return drawn * number_of(scale, drawn.dtype, "uniform", "scale")

    return init


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Make an initializer that draws normal numbers with mean 0.

    Args:
      stddev: the standard deviation.
      dtype: the default dtype of the initializer; float64 by default.
    """

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Array:
        drawn = random.normal(key, shape, dtype, out_sharding=out_sharding)
        return drawn * number_of(stddev, drawn.dtype, "normal", "stddev")

    return init


def truncated_normal(
    stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0
) -> Initializer:
    """Make an initializer that draws normal numbers with mean 0 between two bounds.

    Args:
      stddev: the standard deviation of the distribution without bounds.
      dtype: the dtype of the arrays if a call of the initializer gives none; float64 by default.
      lower: the lower bound, in units of `stddev`.
      upper: the upper bound, in units of `stddev`.
    """

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Array:
        drawn = random.truncated_normal(key, lower, upper, shape, dtype, out_sharding=out_sharding)
        return drawn * number_of(stddev, drawn.dtype, "truncated_normal", "stddev")

    return init


def variance_scaling(
    scale: Any,
    mode: str,
    distribution: str,
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: Any = None,
) -> Initializer:
    """Make an initializer that draws numbers with mean 0 and a variance that depends on the shape.

    The variance is `scale` divided by the fan. The fan is the number of inputs on which an output
    depends, or the number of outputs that depend on an input.

    Args:
      scale: a positive number, by which the variance is multiplied.
      mode: the fan: "fan_in" is the number of inputs, "fan_out" the number of outputs, "fan_avg"
        their arithmetic mean, and "fan_geo_avg" their geometric mean.
      distribution: "truncated_normal", "normal" or "uniform".
      in_axis: the axis of inputs, or several axes.
      out_axis: the axes of outputs. All axes that no argument names are those of a convolution's
        window.
      batch_axis: the axes along which several layers are stacked.
      dtype: the default dtype of the initializer; float64 by default.

    Raises:
      ArgumentError: the mode or the distribution is unknown, or `scale` is not positive.

    >>> from gpushard import random
    >>> init = variance_scaling(1.0, "fan_in", "uniform")
    >>> bool((abs(init(random.key(0), (300, 2))) < 0.1).all())
    True
    """
    name = "variance_scaling"
    check_choice(name, "mode", mode, ("fan_in", "fan_out", "fan_avg", "fan_geo_avg"))
    check_choice(name, "distribution", distribution, ("truncated_normal", "normal", "uniform"))
    if not isinstance(scale, int | float | np.number) or not scale > 0:
        raise ArgumentError.refusing("scale", scale, "must be a positive number", name)

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Array:
        sizes, kind = as_shape(shape), _dtype(dtype)
        fan_in, fan_out = _fans(sizes, in_axis, out_axis, batch_axis)
        fans = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}
        fan = fans.get(mode, math.sqrt(fan_in * fan_out))
        variance: Any = np.asarray(scale / (fan or 1.0)).astype(kind)
        if kind.kind == "c" and distribution != "normal":
            drawn = _in_disc(key, sizes, kind, distribution, out_sharding)
            return drawn * np.sqrt(variance)
        if distribution == "normal":
            drawn = random.normal(key, sizes, kind, out_sharding=out_sharding)
        elif distribution == "uniform":
            variance = variance * np.asarray(3).astype(kind)
            drawn = random.uniform(key, sizes, kind, -1.0, out_sharding=out_sharding)
        else:
            drawn = random.truncated_normal(key, -2.0, 2.0, sizes, kind, out_sharding=out_sharding)
            return drawn * (np.sqrt(variance) / np.asarray(_DEVIATION).astype(kind))
        return drawn * np.sqrt(variance)

    return init


def _in_disc(key: Any, shape: Any, dtype: Any, distribution: str, out_sharding: Any) -> Array:
    """Draw complex numbers of variance 1: uniform on a disc, or normal within two deviations."""
    of_size, of_angle = random.split(key)
    real = np.empty(0, dtype).real.dtype
    drawn = random.uniform(of_size, shape, real, out_sharding=out_sharding)
    angle = random.uniform(of_angle, shape, real, out_sharding=out_sharding) * (2 * math.pi)
    if distribution == "uniform":
        size = sqrt(2 * drawn)
    else:
        size = sqrt(-log1p(-drawn * -math.expm1(-4))) / _DEVIATION_IN_DISC
    return size * exp(1j * angle)


def _fans(shape: Any, *axes: Any) -> tuple[float, float]:
    """Return the number of inputs of an output, and of outputs of an input."""
    sizes = []
    for argument, dims in zip(("in_axis", "out_axis", "batch_axis"), axes, strict=True):
        if len(shape) < 2 and argument == "in_axis" and dims == -2:
            raise ArgumentError(
                f"variance_scaling: weights of shape {shape} have no axis -2 for in_axis; give "
                "them two axes, or name their in_axis and out_axis",
                argument="shape",
                shape=shape,
            )
        at = from_end(dims, len(shape), "variance_scaling", argument)
        sizes.append(math.prod(shape[dim] for dim in at))
    inputs, outputs, batch = sizes
    window = math.prod(shape) / ((inputs * outputs * batch) or 1)
    return inputs * window, outputs * window


def _scaling(name: str, scale: float, mode: str, distribution: str, text: str) -> Any:
    def make(
        in_axis: int | Sequence[int] = -2,
        out_axis: int | Sequence[int] = -1,
        batch_axis: int | Sequence[int] = (),
        dtype: Any = None,
    ) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""Make an initializer of {text}.

    `variance_scaling` defines the numbers of inputs and outputs.

    Args:
      in_axis: the axis of inputs, or several axes.
      out_axis: the axes of outputs.
      batch_axis: the axes along which several layers are stacked.
      dtype: the dtype of the arrays if a call of the initializer gives none; float64 by default.
    """
    return make


_OF_IN, _OF_BOTH = "1 / inputs", "2 / (inputs + outputs)"
_NORMAL, _UNIFORM = "truncated normal numbers, with variance", "uniform numbers, with variance"

lecun_normal = _scaling("lecun_normal", 1.0, "fan_in", "truncated_normal", f"{_NORMAL} {_OF_IN}")
lecun_uniform = _scaling("lecun_uniform", 1.0, "fan_in", "uniform", f"{_UNIFORM} {_OF_IN}")
glorot_normal = xavier_normal = _scaling(
    "glorot_normal", 1.0, "fan_avg", "truncated_normal", f"{_NORMAL} {_OF_BOTH}"
)
glorot_uniform = xavier_uniform = _scaling(
    "glorot_uniform", 1.0, "fan_avg", "uniform", f"{_UNIFORM} {_OF_BOTH}"
)
he_normal = kaiming_normal = _scaling(
    "he_normal", 2.0, "fan_in", "truncated_normal", f"{_NORMAL} 2 / inputs"
)
he_uniform = kaiming_uniform = _scaling(
    "he_uniform", 2.0, "fan_in", "uniform", f"{_UNIFORM} 2 / inputs"
)


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Make an initializer of matrices with orthonormal rows or columns, whichever are fewer.

    Args:
      scale: a factor by which the matrices are multiplied.
      column_axis: the axis of columns; all other axes together are the rows.
      dtype: the dtype of the arrays if a call of the initializer gives none; float64 by default.

    >>> from gpushard import random
    >>> q = orthogonal()(random.key(0), (4, 2))
    >>> bool((abs(q.T @ q - np.eye(2)) < 1e-12).all())
    True
    """

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Array:
        sizes = as_shape(shape)
        if len(sizes) < 2:
            raise ArgumentError.refusing("shape", sizes, "needs two axes at least", "orthogonal")
        at = one_from_end(column_axis, len(sizes), "orthogonal", "column_axis") + len(sizes)
        if 0 in sizes:
            return full(sizes, 0, _dtype(dtype), out_sharding=out_sharding)
        others = sizes[:at] + sizes[at + 1 :]
        q = random.orthogonal(key, math.prod(others), (), dtype, sizes[at])
        turned = moveaxis(q.reshape(*others, sizes[at]), -1, at)
        return settle(turned * number_of(scale, q.dtype, "orthogonal", "scale"), out_sharding)

    return init


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Make an initializer of kernels that are `orthogonal` at the centre and 0 elsewhere.

    Source: Xiao et al., "Dynamical Isometry and a Mean Field Theory of CNNs" (2018).

    Args:
      scale: a factor by which the kernels are multiplied.
      column_axis: which of the last two axes, inputs or outputs, has the columns.
      dtype: the default dtype of the initializer; float64 by default.
    """
    matrices = orthogonal(scale, column_axis, dtype)

    def init(key: Any, shape: Any, dtype: Any = dtype, out_sharding: Any = None) -> Array:
        sizes = as_shape(shape)
        if len(sizes) not in (3, 4, 5) or sizes[-1] < sizes[-2]:
            raise ArgumentError.refusing(
                "shape",
                sizes,
                "must have one to three axes of a window, then inputs, then at least as many "
                "outputs",
                "delta_orthogonal",
            )
        middle = tuple((n - 1) // 2 for n in sizes[:-2])
        matrix = matrices(key, sizes[-2:], dtype)
        return settle(full(sizes, 0, matrix.dtype).at[middle].set(matrix), out_sharding)

    return init


def _dtype(dtype: Any) -> np.dtype[Any]:
    return np.dtype(np.float64) if dtype is None else as_dtype(dtype)
