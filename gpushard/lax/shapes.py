"""Functions that move elements, under the names of `jax.lax`: shapes, order, joining, padding."""

from __future__ import annotations

import builtins
import itertools
import math
from collections.abc import Sequence
from typing import Any

from gpushard._array import Array
from gpushard._functions import manipulation
from gpushard._functions.argument_checks import integer
from gpushard._functions.manipulation import broadcast_to
from gpushard._functions.shapes import as_shape, dim_count
from gpushard._functions.values import is_value
from gpushard._ops.bind import bind
from gpushard._ops.table.manipulation import PAD
from gpushard._placement.joining import concat, stack
from gpushard._placement.public_functions import public
from gpushard.errors import ArgumentError
from gpushard.lax.arguments import (
    as_arrays,
    as_operand,
    as_operands,
    check_shape,
    dim,
    dims,
    each,
    integers,
)

__all__ = [
    "broadcast", "broadcast_in_dim", "broadcast_shapes", "broadcast_to_rank",
    "collapse", "concatenate", "expand_dims", "pad",
    "reshape", "rev", "split", "squeeze", "stack", "tile", "transpose", "unstack",
]  # fmt: skip

_moving = public(arrays=1, weak=True, operand="an array.")

broadcast_shapes = manipulation.broadcast_shapes


@_moving
def broadcast(operand: Any, sizes: Sequence[int], *, out_sharding: Any = None) -> Array:
    """Add new first axes to an array, and repeat the array along them.

    Args:
      sizes: the lengths of the new axes.

    >>> import gpushard as gs
    >>> gs.lax.broadcast(gs.numpy.arange(2), (3,)).shape
    (3, 2)
    """
    shape = (*integers("broadcast", "sizes", sizes), *operand.shape)
    return broadcast_to(operand, shape)


@_moving
def broadcast_in_dim(
    operand: Any, shape: Any, broadcast_dimensions: Sequence[int], *, out_sharding: Any = None
) -> Array:
    """Repeat an array along new dimensions, and along dimensions of length 1.

    Args:
      shape: the shape of the result.
      broadcast_dimensions: for each dimension of the array its position in the result, in ascending
        order. The dimension must have the length that `shape` has there, or 1.

    Raises:
      ArgumentError: positions are out of range or do not ascend, or lengths do not match.

    >>> import gpushard as gs
    >>> gs.lax.broadcast_in_dim(gs.numpy.arange(3), (3, 2), (0,))
    Array([[0, 0],
           [1, 1],
           [2, 2]], dtype=int64)
    """
    shape = as_shape(shape)
    places = integers("broadcast_in_dim", "broadcast_dimensions", broadcast_dimensions)
    places = dims("broadcast_in_dim", places, len(shape), "broadcast_dimensions")
    if len(places) != operand.ndim or list(places) != sorted(places):
        raise ArgumentError.refusing(
            "broadcast_dimensions",
            broadcast_dimensions,
            f"must name {operand.ndim} axes of the result, one per operand axis, ascending",
            "lax.broadcast_in_dim",
            ndim=operand.ndim,
        )
    if places != tuple(range(len(shape) - operand.ndim, len(shape))):
        sizes = [1] * len(shape)
        for place, n in zip(places, operand.shape, strict=True):
            sizes[place] = n
        operand = operand.reshape(tuple(sizes))
    return broadcast_to(operand, shape)


@public(arrays=1, weak=True)
def broadcast_to_rank(x: Any, rank: int) -> Array:
    """Insert axes of length 1 in front until an array has `rank` axes.

    Args:
      rank: the number of axes.

    >>> import gpushard as gs
    >>> gs.lax.broadcast_to_rank(gs.numpy.arange(2), 3).shape
    (1, 1, 2)
    """
    ndim = dim_count(rank, "lax.broadcast_to_rank", "rank")
    if ndim < x.ndim:
        raise ArgumentError.refusing(
            "rank",
            ndim,
            f"is less than ndim={x.ndim} of the array",
            "lax.broadcast_to_rank",
        )
    return x.reshape((1,) * (ndim - x.ndim) + x.shape)


@_moving
def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Merge neighbouring dimensions of an array into one.

    Args:
      start_dimension: the first dimension to merge.
      stop_dimension: the dimension after the last one to merge; by default all dimensions that
        follow are merged.

    Raises:
      ArgumentError: `stop_dimension` comes before `start_dimension`.

    >>> import gpushard as gs
    >>> gs.lax.collapse(gs.numpy.ones((2, 3, 4)), 1).shape
    (2, 12)
    """
    ends = [
        None if at is None else integer(at, "lax.collapse", argument)
        for at, argument in (
            (start_dimension, "start_dimension"),
            (stop_dimension, "stop_dimension"),
        )
    ]
    first, end, _ = builtins.slice(*ends).indices(operand.ndim)
    if end < first:
        raise ArgumentError.refusing(
            "stop_dimension",
            stop_dimension,
            f"comes before start_dimension={start_dimension}; an array with ndim={operand.ndim} "
            "has no axes between them",
            "lax.collapse",
            start_dimension=start_dimension,
        )
    shape = operand.shape
    new = (*shape[:first], math.prod(shape[first:end]), *shape[end:])
    return operand.reshape(new)


def concatenate(operands: Sequence[Any], dimension: int) -> Array:
    """Join arrays along a dimension.

    Args:
      operands: arrays of one dtype and of equal lengths along all other dimensions.
      dimension: the dimension.

    Raises:
      ArgumentError: there are no arrays, or lengths differ.
      ArgumentTypeError: dtypes differ.

    >>> import gpushard as gs
    >>> concatenate([gs.numpy.arange(2), gs.numpy.arange(1)], 0)
    Array([0, 1, 0], dtype=int64)
    """
    arrays = each("concatenate", "operands", operands, "a sequence of arrays")
    if not arrays:
        raise ArgumentError(
            "lax.concatenate: operands is empty; give one array at least", argument="operands"
        )
    return concat(as_arrays("concatenate", *arrays), axis=dimension)


@public(arrays=1, weak=True, array="an array.")
def expand_dims(array: Any, dimensions: Sequence[int]) -> Array:
    """Insert new axes of length 1.

    Args:
      dimensions: the positions of the new axes in the result.

    >>> import gpushard as gs
    >>> gs.lax.expand_dims(gs.numpy.arange(2), (0, 2)).shape
    (1, 2, 1)
    """
    return manipulation.expand_dims(array, tuple(each("expand_dims", "dimensions", dimensions)))


@public(arrays=1, weak=True, array="an array.")
def squeeze(array: Any, dimensions: Sequence[int]) -> Array:
    """Remove axes of length 1.

    Args:
      dimensions: the axes.

    >>> import gpushard as gs
    >>> gs.lax.squeeze(gs.numpy.ones((1, 2)), (0,)).shape
    (2,)
    """
    return manipulation.squeeze(array, tuple(each("squeeze", "dimensions", dimensions)))


@_moving
def reshape(
    operand: Any,
    new_sizes: Any,
    dimensions: Sequence[int] | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Change the shape of an array; elements keep their row-major order.

    Args:
      new_sizes: the new shape.
      dimensions: a permutation of the axes that is applied before the reshape; none by default.

    >>> import gpushard as gs
    >>> gs.lax.reshape(gs.numpy.arange(4).reshape(2, 2), (4,), (1, 0))
    Array([0, 2, 1, 3], dtype=int64)
    """
    turned = operand if dimensions is None else transpose(operand, dimensions)
    return manipulation.reshape(turned, as_shape(new_sizes, "new_sizes"), out_sharding=out_sharding)


@_moving
def rev(operand: Any, dimensions: Sequence[int]) -> Array:
    """Reverse the order of elements along dimensions.

    Args:
      dimensions: the dimensions.

    >>> import gpushard as gs
    >>> gs.lax.rev(gs.numpy.arange(3), (0,))
    Array([2, 1, 0], dtype=int64)
    """
    return manipulation.flip(operand, tuple(each("rev", "dimensions", dimensions)))


@_moving
def transpose(operand: Any, permutation: Sequence[int]) -> Array:
    """Permute the axes of an array.

    Args:
      permutation: the axes in their new order.

    >>> import gpushard as gs
    >>> gs.lax.transpose(gs.numpy.ones((2, 3)), (1, 0)).shape
    (3, 2)
    """
    order = integers("transpose", "permutation", permutation, operand.ndim)
    return manipulation.permute_dims(operand, order)


@_moving
def tile(operand: Any, reps: Sequence[int]) -> Array:
    """Repeat a whole array along its axes.

    Args:
      reps: the number of repetitions along each axis.

    >>> import gpushard as gs
    >>> gs.lax.tile(gs.numpy.arange(2), (2,))
    Array([0, 1, 0, 1], dtype=int64)
    """
    return manipulation.tile(operand, integers("tile", "reps", reps, operand.ndim))


@_moving
def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    """Split an array into parts along an axis.

    Args:
      sizes: the lengths of the parts; they sum to the length of the axis.
      axis: the axis.

    Raises:
      ArgumentError: the sizes do not sum to the length of the axis.

    >>> import gpushard as gs
    >>> gs.lax.split(gs.numpy.arange(3), (1, 2))
    [Array([0], dtype=int64), Array([1, 2], dtype=int64)]
    """
    parts, at = integers("split", "sizes", sizes), dim("split", axis, operand.ndim)
    if sum(parts) != operand.shape[at] or any(n < 0 for n in parts):
        raise ArgumentError.refusing(
            "sizes",
            sizes,
            f"must sum to {operand.shape[at]}, the length of axis {at}, and not be negative",
            "lax.split",
        )
    lead, stops = (builtins.slice(None),) * at, itertools.accumulate(parts)
    return [
        operand[(*lead, builtins.slice(stop - n, stop))]
        for stop, n in zip(stops, parts, strict=True)
    ]


@public(arrays=1, weak=True)
def unstack(x: Any, axis: int = 0) -> tuple[Array, ...]:
    """Split an array into its slices along an axis; the slices do not have this axis.

    Args:
      axis: the axis.

    >>> import gpushard as gs
    >>> gs.lax.unstack(gs.numpy.arange(2))
    (Array(0, dtype=int64), Array(1, dtype=int64))
    """
    at = dim("unstack", axis, x.ndim)
    lead = (builtins.slice(None),) * at
    return tuple(x[(*lead, place)] for place in range(x.shape[at]))


def pad(operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Array:
    """Pad an array with a value, before, after and between its elements.

    Args:
      operand: an array.
      padding_value: a scalar with the dtype of `operand`.
      padding_config: for each axis three numbers: how many values to insert before all elements,
        after all elements, and between neighbours. A negative number removes elements from that
        end.

    Raises:
      ArgumentError: the number of triples differs from the number of axes, or an axis would get a
        negative length.

    >>> import gpushard as gs
    >>> pad(gs.numpy.arange(3), 9, [(1, -1, 1)])
    Array([9, 0, 9, 1, 9], dtype=int64)
    """
    x, value = as_operands("pad", (operand, padding_value))
    x = as_operand("pad", x)
    check_shape("pad", "padding_value", value.shape, ())
    triples = each("pad", "padding_config", padding_config, "a sequence of triples of integers")
    config = [integers("pad", "padding_config", triple, 3) for triple in triples]
    if len(config) != x.ndim:
        raise ArgumentError.refusing(
            "padding_config",
            padding_config,
            f"must have {x.ndim} triples, one for each axis",
            "lax.pad",
        )
    spread = [
        n + builtins.max(n - 1, 0) * triple[2] for triple, n in zip(config, x.shape, strict=True)
    ]
    shape = tuple(low + n + high for (low, high, _), n in zip(config, spread, strict=True))
    if any(n < 0 for n in shape) or any(between < 0 for _, _, between in config):
        raise ArgumentError.refusing(
            "padding_config",
            padding_config,
            f"would give the array of shape {x.shape} the shape {shape}; take away no more than "
            "there is, and nothing from between",
            "lax.pad",
        )
    if is_value(value) or list(x.shape) != spread:
        whole = tuple(
            builtins.max(low, 0) + n + builtins.max(high, 0)
            for (low, high, _), n in zip(config, spread, strict=True)
        )
        at = tuple(
            builtins.slice(builtins.max(low, 0), builtins.max(low, 0) + n, between + 1)
            for (low, _, between), n in zip(config, spread, strict=True)
        )
        x = broadcast_to(as_operand("pad", value), whole).at[at].set(x)
    else:
        widths = tuple((builtins.max(low, 0), builtins.max(high, 0)) for low, high, _ in config)
        x = bind(PAD, (x, value), (widths,))
    padded: Array = x
    if x.shape != shape:
        starts = [builtins.max(-low, 0) for low, _, _ in config]
        padded = x[tuple(builtins.slice(a, a + n) for a, n in zip(starts, shape, strict=True))]
    return padded
