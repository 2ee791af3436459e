"""Positions of elements that are not 0: masks as positions, `nonzero`, `argwhere`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._functions.argument_checks import count, ranged
from gpushard._functions.docstrings import described
from gpushard._functions.element_types import check_dtype
from gpushard._functions.host_reads import concrete
from gpushard._functions.index_bounds import INDEX, Positions
from gpushard._functions.masks import is_in_place, true_places
from gpushard._functions.values import Array, is_value, laid_out, sharding_of
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import PartitionSpec
from gpushard._ops.bind import bind
from gpushard._ops.table.elementwise import ufunc_row
from gpushard._ops.table.manipulation import RESHAPE, STACK
from gpushard._ops.table.nonzero import NONZERO
from gpushard._ops.table.reductions import COUNT_NONZERO
from gpushard._typing import Shape
from gpushard.errors import ArgumentError, ArgumentTypeError, ArrayIndexError, TracedValueError

_NOT_EQUAL = ufunc_row(np.not_equal)


def positions_of_mask(mask: Any, shape: Shape, dim: int) -> Sequence[Positions]:
    """Find where a mask is true; one without dims selects a new dim, of length 1 or 0."""
    if not mask.ndim:
        return (np.zeros(int(mask), INDEX),)
    for at, (length, size) in enumerate(zip(mask.shape, shape[dim:], strict=False)):
        if length not in (size, 0):  # no elements select none, as the Array API has it
            raise ArrayIndexError(
                f"the boolean index of shape {mask.shape} has length {length} where axis "
                f"{dim + at} of the array has length {size}; make them equal",
                argument="index",
                dim=dim + at,
                size=size,
                length=length,
            )
    return true_positions(mask) if is_value(mask) else np.nonzero(mask)


def count_true(mask: Any) -> int:
    """Count the elements that are true, on the host or on devices; waits for the mask."""
    if not mask.size:
        return 0
    if not is_value(mask):
        return int(np.count_nonzero(mask))
    every = tuple(range(-mask.ndim, 0))
    return int(concrete(bind(COUNT_NONZERO, (mask,), (every, False, None)), "x[mask]"))


def true_positions(
    mask: Any, size: int | None = None, fills: tuple[int, ...] | None = None
) -> tuple[Any, ...]:
    """Find where a mask is true: an array of positions for each dim, in row-major order.

    They are split over the mesh axes that split the mask. The mask is gathered, a byte for each
    element, if it is small, or if the number of positions is given.

    Args:
      mask: at least one dim.
      size: the number of positions; by default as many as are true, which the host has to read.
      fills: for each dim the value of surplus positions; 0 by default.
    """
    if mask.dtype != bool:
        mask = bind(_NOT_EQUAL, (mask, 0))
    if size is None and is_in_place(mask):
        return true_places(mask)
    number = count_true(mask) if size is None else size
    mask_sharding = sharding_of(mask)
    out = None
    if isinstance(mask_sharding, NamedSharding) and isinstance(mask_sharding.mesh, Mesh):
        axes = tuple(axis for dim in range(mask.ndim) for axis in mask_sharding.spec.axes(dim))
        out = mask_sharding.with_spec(PartitionSpec(axes) if axes else PartitionSpec())
    result = bind(NONZERO, (mask,), (number, fills or (0,) * mask.ndim), out)
    return result if isinstance(result, tuple) else (result,)


_finding = described(
    size="the number of positions; by default the host waits for the array and counts them.",
    fill_value="the index that pads the result up to `size`, or an index per axis; 0 by default.",
    out_sharding="a sharding for the result; by default over the mesh axes that split the array.",
)


@_finding
def nonzero(
    a: Array, *, size: int | None = None, fill_value: Any = None, out_sharding: Any = None
) -> tuple[Array, ...]:
    """Find the positions of elements that are not 0: an array of positions for each axis.

    Raises:
      ArgumentError: the array has no axes.

    >>> import gpushard as gs
    >>> gs.numpy.nonzero(gs.numpy.asarray([0, 3, 0, 4]), size=3, fill_value=-1)
    (Array([ 1,  3, -1], dtype=int64),)
    """
    places = _nonzero(a, size, fill_value, "nonzero")
    return tuple(laid_out(place, out_sharding) for place in places)


def _nonzero(x: Any, size: Any, fill_value: Any, name: str) -> tuple[Any, ...]:
    """Find the positions of elements that are not 0."""
    if not x.ndim:
        raise ArgumentError(
            f"{name} needs at least one axis, the shape is (); use atleast_1d(x)",
            argument="x",
            shape=(),
        )
    number = None if size is None else count(size, name, "size")
    if fill_value is None:
        return true_positions(x, number)
    values = fill_value if isinstance(fill_value, tuple | list) else (fill_value,) * x.ndim
    try:
        fills = tuple(ranged(operator.index(value), name, "fill_value") for value in values)
    except TracedValueError:
        raise
    except TypeError:
        raise ArgumentTypeError.refusing(
            "fill_value", fill_value, "must be an integer, or a tuple of them", name
        ) from None
    if len(fills) != x.ndim:
        raise ArgumentError(
            f"{name}: fill_value has {len(fills)} numbers for an array with ndim={x.ndim}; give "
            "one for each axis",
            argument="fill_value",
            value=fill_value,
        )
    return true_positions(x, number, fills)


@_finding
def flatnonzero(
    a: Array, *, size: int | None = None, fill_value: Any = None, out_sharding: Any = None
) -> Array:
    """Find the positions, in row-major order, of elements that are not 0."""
    flat = a if a.ndim == 1 else bind(RESHAPE, (a,), ((a.size,),))
    (places,) = _nonzero(flat, size, fill_value, "nonzero")
    return laid_out(places, out_sharding)


@_finding
def argwhere(
    a: Array, *, size: int | None = None, fill_value: Any = None, out_sharding: Any = None
) -> Array:
    """Find the positions of elements that are not 0: a matrix with a row for each element.

    For an array without axes, the result has the shape (1, 0) if the element is not 0, else (0, 0).
    """
    if not a.ndim:
        (at,) = _nonzero(bind(RESHAPE, (a,), ((1,),)), size, fill_value, "argwhere")
        return laid_out(at[:, None][:, :0], out_sharding)
    places = _nonzero(a, size, fill_value, "argwhere")
    return laid_out(bind(STACK, places, (-1,)), out_sharding)


def as_mask(mask: Any, argument: str) -> Any:
    """Convert a mask to an array that can be compared with 0."""
    array = mask if is_value(mask) else np.asarray(mask)
    check_dtype(array.dtype, argument)
    return array
