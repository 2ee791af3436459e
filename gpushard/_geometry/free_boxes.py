"""Boxes of a user's own sharding: arbitrary boxes that cover every element of the array.

The edges of all boxes cut the array into a grid of *cells*. A box is a range of cells in every dim.
If each box is one cell, the tiling is a grid.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpushard._geometry.distinct_columns import distinct_columns
from gpushard._geometry.tiling import Assignment, Tiling
from gpushard._typing import Device, IntArray, Shape
from gpushard.errors import ArgumentTypeError, ShardingError


class FreeAssignment(Assignment):
    """Boxes of devices that do not form a grid.

    Args:
      devices: all devices, in the order of the sharding.
      edges: for each dim, the ascending edges of all boxes.
      cells: first cell of each device's box in each dim, shape (ndim, devices).
      spans: number of cells of the box in each dim, in the same shape.
    """

    def __init__(
        self,
        devices: tuple[Device, ...],
        edges: tuple[IntArray, ...],
        cells: IntArray,
        spans: IntArray,
    ) -> None:
        super().__init__(devices, tuple(len(edge) - 1 for edge in edges), cells)
        self.spans = spans
        self._edges = edges

    def _numbers(self) -> IntArray:
        """Number the distinct boxes, larger ones first."""
        assert self.spans is not None
        volumes = np.ones(len(self.devices), np.int64)
        for edge, first, span in zip(self._edges, self.blocks, self.spans, strict=True):
            volumes *= edge[first + span] - edge[first]
        rows: IntArray = np.concatenate((-volumes[None], self.blocks, self.spans))
        return distinct_columns(rows)[1]

    @property
    def boxes(self) -> int:
        """Number of distinct boxes."""
        return int(self.flat.max()) + 1


def tiling_from_indices(shape: Shape, indices: Mapping[Device, Sequence[Any]]) -> Tiling:
    """Build the tiling of a user's own sharding from the slices of each device.

    Args:
      shape: shape of the global array.
      indices: for each device, the slices of its box.

    Returns:
      The tiling, devices in the order of `indices`.

    Raises:
      ArgumentTypeError: an entry of an index is not a slice.
      ShardingError: a box has steps or too few slices, or an element is in no box.

    >>> tiling = tiling_from_indices((5,), {"a": [slice(0, 3)], "b": [slice(1, 5)]})
    >>> tiling.edges[0].tolist(), tiling.shard_shapes
    ([0, 1, 3, 5], [(3,), (4,)])
    """
    bounds = np.array(
        [_bounds(shape, device, index) for device, index in indices.items()], np.int64
    ).reshape(len(indices), len(shape), 2)
    tiling = tiling_of_boxes(shape, tuple(indices), bounds[:, :, 0].T, bounds[:, :, 1].T)
    if math.prod(shape):
        _check_covered(tiling)
    return tiling


def tiling_of_boxes(
    shape: Shape, devices: tuple[Device, ...], starts: IntArray, stops: IntArray
) -> Tiling:
    """Build the tiling of arbitrary boxes, which need not cover every element.

    Args:
      shape: shape of the global array.
      devices: the device of each box.
      starts: start of each box, shape (ndim, boxes).
      stops: end of each box, in the same shape.

    >>> tiling_of_boxes((5,), ("a", "b"), np.array([[0, 3]]), np.array([[3, 5]])).edges[0].tolist()
    [0, 3, 5]
    """
    edges = tuple(
        _edges(n, np.concatenate((low, high)))
        for n, low, high in zip(shape, starts, stops, strict=True)
    )
    cells = np.zeros((len(shape), len(devices)), np.int64)
    spans = np.ones_like(cells)
    for dim, n in enumerate(shape):
        if n:  # a dim without elements is one cell, which every box has
            cells[dim] = edges[dim].searchsorted(starts[dim])
            spans[dim] = edges[dim].searchsorted(stops[dim]) - cells[dim]
    if (spans == 1).all():
        assignment = Assignment(devices, tuple(len(edge) - 1 for edge in edges), cells)
    else:
        assignment = FreeAssignment(devices, edges, cells, spans)
    return Tiling(shape, assignment, edges)


def _edges(size: int, bounds: IntArray) -> IntArray:
    return np.unique(np.append(bounds, (0, size))) if size else np.zeros(2, np.int64)


def _check_covered(tiling: Tiling) -> None:
    shape, edges, cells = tiling.shape, tiling.edges, tiling.assignment.blocks
    spans = 1 if tiling.assignment.spans is None else tiling.assignment.spans
    covered = np.zeros(tuple(len(edge) - 1 for edge in edges), bool)
    boxes = np.concatenate((cells, cells + spans))
    for box in boxes[:, distinct_columns(boxes)[0]].T.tolist():
        low, high = box[: len(shape)], box[len(shape) :]
        covered[tuple(slice(a, b) for a, b in zip(low, high, strict=True))] = True
    if not covered.all():
        cell = np.unravel_index(int(covered.argmin()), covered.shape)
        index = tuple(int(edge[at]) for edge, at in zip(edges, cell, strict=True))
        raise ShardingError(
            f"devices_indices_map({shape}) leaves elements that no device holds, such as {index}; "
            "every element must be in some device's box",
            argument="devices_indices_map",
            shape=shape,
            index=index,
        )


def _bounds(shape: Shape, device: Device, index: Sequence[Any]) -> list[tuple[int, int]]:
    if len(index) != len(shape):
        raise ShardingError(
            f"devices_indices_map gives {len(index)} slices for {device!r}, and the array has "
            f"the shape {shape}; give one slice per axis of the array",
            argument="devices_indices_map",
            device=device,
        )
    bounds = []
    for size, part in zip(shape, index, strict=True):
        if not isinstance(part, slice):
            raise ArgumentTypeError(
                f"devices_indices_map gives {part!r} for {device!r}; give one slice per axis of "
                "the array",
                argument="devices_indices_map",
                device=device,
            )
        start, stop, step = part.indices(size)
        if step != 1:
            raise ShardingError(
                f"devices_indices_map gives the step {step} for {device!r}; a shard is a box "
                "without steps",
                argument="devices_indices_map",
                device=device,
            )
        bounds.append((start, max(start, stop)))
    return bounds
