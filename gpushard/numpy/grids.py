"""Coordinates of grids: `indices`, `meshgrid`, `mgrid` and `ogrid`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import check_choice
from gpushard._functions.element_types import as_dtype
from gpushard._functions.shapes import as_shape
from gpushard._placement.arguments import as_value, settle
from gpushard._placement.creation import zeros
from gpushard.errors import ArgumentError
from gpushard.numpy.joining import stack
from gpushard.numpy.manipulation import broadcast_arrays, broadcast_to, expand_dims
from gpushard.numpy.matrices import created_from_shapes
from gpushard.numpy.ranges import arange, linspace

__all__ = ["indices", "meshgrid", "mgrid", "ogrid"]


def indices(
    dimensions: Any, dtype: Any = np.int64, sparse: bool = False, *, out_sharding: Any = None
) -> Any:
    """Create the positions of a grid: for each axis an array of positions along this axis.

    Args:
      dimensions: the shape of the grid.
      dtype: the dtype of the positions.
      sparse: whether to return a tuple of arrays that have length 1 along all other axes, rather
        than one array of all positions.
      out_sharding: a sharding for the results; by default they go where new arrays go.
    """
    sizes = as_shape(dimensions, "dimensions")
    lines = [arange(n, dtype=as_dtype(dtype)) for n in sizes]
    if sparse:
        return meshgrid(*lines, indexing="ij", sparse=True, out_sharding=out_sharding)
    if not lines:
        return zeros(0, dtype, out_sharding=out_sharding)
    return stack(meshgrid(*lines, indexing="ij"), out_sharding=out_sharding)


@created_from_shapes
def meshgrid(
    *xs: Any,
    copy: bool = True,
    sparse: bool = False,
    indexing: str = "xy",
    out_sharding: Any = None,
) -> tuple[Array, ...]:
    """Create the coordinates of a grid: one array for each vector of coordinates.

    Args:
      *xs: the vectors.
      sparse: whether each result has length 1 along all axes except its own.
      indexing: "xy" puts the first vector along the second axis, "ij" along the first.
      out_sharding: the sharding or `PartitionSpec` of the results; gpushard chooses by default.

    Raises:
      ArgumentError: an operand is not a vector, or `indexing` is unknown.
    """
    check_choice("meshgrid", "indexing", indexing, ("xy", "ij"))
    vectors = [as_value(x, "meshgrid") for x in xs]
    for x in vectors:
        if x.ndim > 1:
            raise ArgumentError(
                f"meshgrid: an operand has shape {x.shape}; give vectors, such as x.ravel()",
                argument="xs",
                shape=x.shape,
            )
    ndim = len(vectors)
    order = list(range(ndim))
    if indexing == "xy" and ndim > 1:
        order[:2] = 1, 0
    lines = []
    for number, x in enumerate(vectors):
        others = tuple(dim for dim in range(ndim) if dim != order[number])
        lines.append(expand_dims(x.ravel(), others))
    if not sparse:
        shape = np.broadcast_shapes(*(x.shape for x in lines))
        lines = [broadcast_to(x, shape) for x in lines]
    return tuple(settle(x, out_sharding) for x in lines)


def line_of_slice(entry: slice) -> Array:
    """Create the numbers of a slice; a step of 5j gives five numbers, both ends included."""
    start, stop, step = entry.start or 0, entry.stop, 1 if entry.step is None else entry.step
    if stop is None:
        raise ArgumentError(
            f"{entry} has no end; say where it stops", argument="index", index=entry
        )
    if isinstance(step, complex):
        return linspace(start, stop, int(abs(step)))
    return arange(start, stop, step)


class _OpenGrid:
    """Vectors that broadcast to a grid; see `ogrid`."""

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return line_of_slice(key)
        lines = [line_of_slice(entry) for entry in key]
        if any(line.dtype.kind == "f" for line in lines):
            lines = [line.astype(np.float64) for line in lines]
        return tuple(
            line.reshape([-1 if at == dim else 1 for at in range(len(lines))])
            for dim, line in enumerate(lines)
        )

    def __repr__(self) -> str:
        return "ogrid"


class _Grid:
    """Positions of a grid; see `mgrid`."""

    def __getitem__(self, key: Any) -> Array:
        if isinstance(key, slice):
            return line_of_slice(key)
        return stack(broadcast_arrays(*ogrid[key]))

    def __repr__(self) -> str:
        return "mgrid"


ogrid = _OpenGrid()


"""`ogrid[:3, :4]` gives for each dim the positions along it, with length 1 in the others.

>>> ogrid[:2, :3]
(Array([[0],
       [1]], dtype=int64), Array([[0, 1, 2]], dtype=int64))
"""


mgrid = _Grid()


"""`mgrid[:3, :4]` gives for each dim the positions along it, in one array; `mgrid[0:1:5j]` five.

>>> mgrid[:2, 0:1:3j].shape
(2, 2, 3)
"""
