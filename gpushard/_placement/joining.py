"""Joining arrays, also those that are on the host, and sequences of both.

Types are promoted first, and shapes checked, before anything moves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import refuse_out
from gpushard._functions.element_types import as_dtype
from gpushard._functions.promotion import result_type
from gpushard._functions.values import is_value, offered
from gpushard._ops.axes import one_from_end
from gpushard._ops.bind import bind
from gpushard._ops.table import manipulation
from gpushard._placement.arguments import as_value, host_data
from gpushard._placement.public_functions import public
from gpushard.dtypes import can_cast
from gpushard.errors import ArgumentError, ArgumentTypeError

joining = public(
    tup="a sequence of arrays.",
    dtype="the dtype of the result; by default the one that the arrays promote to.",
    casting="which conversions to `dtype` are allowed, as in `numpy.can_cast`.",
)


def joined(arrays: Any, name: str, dtype: Any = None, casting: str = "same_kind") -> list[Any]:
    """Read arrays that are to be joined, and convert them to one type."""
    if is_value(arrays):
        arrays = list(arrays)
    if not isinstance(arrays, list | tuple | np.ndarray):
        raise ArgumentTypeError.refusing("arrays", arrays, "must be a sequence of arrays", name)
    if not len(arrays):
        raise ArgumentError(f"{name} got no arrays; give at least one", argument="arrays")
    values = map(offered, arrays)
    xs = [x if is_value(x) else host_data(x, name) for x in values]
    if not any(map(is_value, xs)):
        xs = [as_value(x, name) for x in xs]
    first = xs[0].dtype
    if dtype is None and casting == "same_kind" and all(x.dtype == first for x in xs):
        return xs  # of keys, too
    common = result_type(*xs)
    target = common if dtype is None else as_dtype(dtype)
    if not can_cast(common, target, casting):
        raise ArgumentTypeError(
            f"{name}: arrays of {common} do not become dtype={target} under casting={casting!r}; "
            "convert them with astype",
            argument="dtype",
            dtype=target,
        )
    return [x if x.dtype == target else x.astype(target) for x in xs]


@joining
def concat(
    arrays: Any,
    axis: int | None = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
    out_sharding: Any = None,
) -> Array:
    """Join arrays along an existing axis.

    Args:
      arrays: a sequence of arrays that have equal lengths along all other axes.
      axis: the axis; None flattens each array in row-major order first.

    Raises:
      ArgumentError: there are no arrays, or lengths differ along another axis.
    """
    refuse_out("concat", out)
    xs = joined(arrays, "concat", dtype, casting)
    if axis is None:
        xs, axis = [x.ravel() for x in xs], 0
    first = xs[0].shape
    if not first:
        raise ArgumentError(
            "concat: arrays without axes cannot be joined along one; use stack, or axis=None",
            argument="arrays",
            shapes=tuple(x.shape for x in xs),
        )
    at = one_from_end(axis, len(first), "concat")
    for x in xs[1:]:
        fits = len(x.shape) == len(first) and all(
            x.shape[dim] == first[dim] for dim in range(-len(first), 0) if dim != at
        )
        if not fits:
            raise ArgumentError(
                f"concat: arrays of shapes {first} and {x.shape} do not fit along axis={axis}; "
                "lengths must be equal along all other axes",
                argument="arrays",
                shapes=tuple(each.shape for each in xs),
                axis=axis,
            )
    return bind(manipulation.CONCATENATE, xs, (at,))


@joining
def stack(
    arrays: Any,
    axis: int = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
    out_sharding: Any = None,
) -> Array:
    """Join arrays of equal shape along a new axis.

    Args:
      arrays: a sequence of arrays.
      axis: the position of the new axis in the result.

    Raises:
      ArgumentError: there are no arrays, or shapes differ.
    """
    refuse_out("stack", out)
    xs = joined(arrays, "stack", dtype, casting)
    shapes = [x.shape for x in xs]
    if len(set(shapes)) > 1:
        other = next(shape for shape in shapes if shape != shapes[0])
        raise ArgumentError(
            f"stack: arrays have shapes {shapes[0]} and {other}; all must have one",
            argument="arrays",
            shapes=tuple(shapes),
        )
    at = one_from_end(axis, len(shapes[0]) + 1, "stack")
    return bind(manipulation.STACK, xs, (at,))
