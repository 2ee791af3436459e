"""Which box of an array each device holds, as arrays of integers.

An `Assignment` says which block number every device has in every dim; a `Tiling` adds the shape,
and so the edges of the blocks. Planners compute on these arrays and never on slices.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpushard.errors import ArgumentTypeError, ShardingError
from gpushard.geometry.box import block_edges
from gpushard.geometry.mesh import is_addressable
from gpushard.typing import Device, Index, IntArray, Shape


class Assignment:
    """Block numbers of devices, whatever the shape of the array.

    Args:
      devices: all devices, in the order of the sharding.
      counts: how many blocks each dim has.
      blocks: block number of each dim for each device, shape (ndim, devices).
    """

    def __init__(self, devices: tuple[Device, ...], counts: Shape, blocks: IntArray) -> None:
        self.devices = devices
        self.counts = counts
        self.blocks = blocks

    @property
    def ndim(self) -> int:
        """Number of dims."""
        return len(self.counts)

    @functools.cached_property
    def strides(self) -> Shape:
        """What one step in each dim adds to the row-major number of a block."""
        return tuple(math.prod(self.counts[dim + 1 :]) for dim in range(self.ndim))

    @functools.cached_property
    def flat(self) -> IntArray:
        """Row-major number of each device's block; equal numbers are replicas."""
        strides = np.array(self.strides, np.int64)
        return np.asarray(strides @ self.blocks, np.int64)

    @functools.cached_property
    def replica_ids(self) -> IntArray:
        """For each device, how many devices before it hold the same block."""
        return replica_numbers(self.flat)


def replica_numbers(keys: IntArray) -> IntArray:
    """Number equal keys from 0, in order.

    >>> replica_numbers(np.array([5, 7, 5, 5])).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(keys, kind="stable")
    in_order = keys[order]
    first = np.r_[True, in_order[1:] != in_order[:-1]] if keys.size else np.zeros(0, bool)
    positions = np.arange(keys.size)
    starts = np.maximum.accumulate(np.where(first, positions, 0))
    numbers = np.empty(keys.size, np.int64)
    numbers[order] = positions - starts
    return numbers


class Tiling:
    """The box of every device for one shape.

    Args:
      shape: shape of the global array.
      assignment: block numbers of the devices.
      edges: for each dim, the ascending edges of its blocks, from 0 to its length.
    """

    def __init__(self, shape: Shape, assignment: Assignment, edges: tuple[IntArray, ...]) -> None:
        self.shape = shape
        self.assignment = assignment
        self.edges = edges

    @classmethod
    def regular(cls, shape: Shape, assignment: Assignment) -> Tiling:
        """Cut every dim into blocks of equal ceilings."""
        sizes = zip(shape, assignment.counts, strict=True)
        return cls(shape, assignment, tuple(block_edges(n, k) for n, k in sizes))

    @property
    def devices(self) -> tuple[Device, ...]:
        """All devices, in the order of the sharding."""
        return self.assignment.devices

    @property
    def ndim(self) -> int:
        """Number of dims."""
        return len(self.shape)

    @functools.cached_property
    def addressable(self) -> tuple[int, ...]:
        """Positions of the devices that this process addresses."""
        return tuple(i for i, device in enumerate(self.devices) if is_addressable(device))

    @functools.cached_property
    def starts(self) -> IntArray:
        """Where each device's box starts, shape (ndim, devices)."""
        return self._at_blocks(0)

    @functools.cached_property
    def stops(self) -> IntArray:
        """Where each device's box stops, shape (ndim, devices)."""
        return self._at_blocks(1)

    @functools.cached_property
    def shard_shapes(self) -> list[Shape]:
        """Shape of each device's box."""
        return list(map(tuple, (self.stops - self.starts).T.tolist()))

    @functools.cached_property
    def indices(self) -> list[Index]:
        """Each device's box as slices; an unsplit dim is `slice(None)`."""
        split = [
            count > 1 or edges[-1] != n or edges[0] != 0
            for count, edges, n in zip(self.assignment.counts, self.edges, self.shape, strict=True)
        ]
        return [
            tuple(
                slice(start, stop) if cut else slice(None)
                for start, stop, cut in zip(low, high, split, strict=True)
            )
            for low, high in zip(self.starts.T.tolist(), self.stops.T.tolist(), strict=True)
        ]

    @functools.cached_property
    def volumes(self) -> IntArray:
        """Number of elements of each device's box."""
        return np.asarray(np.prod(self.stops - self.starts, axis=0, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays of this tiling take, when all are made."""
        return 1000 + len(self.devices) * (self.ndim + 1) * 200

    def _at_blocks(self, side: int) -> IntArray:
        result = np.empty((self.ndim, len(self.devices)), np.int64)
        for dim, edges in enumerate(self.edges):
            result[dim] = edges[self.assignment.blocks[dim] + side]
        return result


def tiling_from_indices(shape: Shape, indices: Mapping[Device, Sequence[Any]]) -> Tiling:
    """Find the grid that the boxes of a user's own sharding form.

    Args:
      shape: shape of the global array.
      indices: for each device, the slices of the box that it holds.

    Returns:
      The tiling, devices in the order of `indices`.

    Raises:
      ShardingError: a box has steps, boxes overlap without being equal, do not line up in a grid,
        or leave part of the array uncovered.

    >>> tiling = tiling_from_indices((5,), {"a": [slice(0, 1)], "b": [slice(1, 5)]})
    >>> tiling.edges[0].tolist(), tiling.shard_shapes
    ([0, 1, 5], [(1,), (4,)])
    """
    bounds = np.array(
        [_bounds(shape, device, index) for device, index in indices.items()], np.int64
    ).reshape(len(indices), len(shape), 2)
    columns = [_dim_blocks(dim, n, bounds[:, dim]) for dim, n in enumerate(shape)]
    edges = tuple(column[0] for column in columns)
    counts = tuple(len(edge) - 1 for edge in edges)
    blocks = np.array([column[1] for column in columns], np.int64).reshape(len(shape), len(indices))
    tiling = Tiling(shape, Assignment(tuple(indices), counts, blocks), edges)
    covered = np.unique(tiling.assignment.flat, return_index=True)[1]
    if tiling.volumes[covered].sum() != math.prod(shape):
        raise ShardingError(
            f"devices_indices_map({shape}) leaves elements that no device holds; its boxes must "
            "form a full grid",
            argument="devices_indices_map",
            shape=shape,
        )
    return tiling


def _bounds(shape: Shape, device: Device, index: Sequence[Any]) -> list[tuple[int, int]]:
    if len(index) != len(shape):
        raise ShardingError(
            f"devices_indices_map gives {len(index)} slices for {device!r}, the array of shape "
            f"{shape} has {len(shape)} dims; give one slice per dim",
            argument="devices_indices_map",
            device=device,
        )
    bounds = []
    for size, part in zip(shape, index, strict=True):
        if not isinstance(part, slice):
            raise ArgumentTypeError(
                f"devices_indices_map gives {part!r} for {device!r}; give one slice per dim",
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


def _dim_blocks(dim: int, size: int, bounds: IntArray) -> tuple[IntArray, IntArray]:
    """Return the edges of one dim, an empty block last if needed, and each box's block number."""
    filled = bounds[:, 0] < bounds[:, 1]
    starts = np.unique(bounds[filled, 0])
    edges = np.r_[starts, size] if starts.size else np.array([0, size], np.int64)
    block = np.searchsorted(starts, bounds[:, 0], side="right") - 1
    block = np.clip(block, 0, len(edges) - 2)
    exact = (edges[block] == bounds[:, 0]) & (edges[block + 1] == bounds[:, 1])
    if starts.size and (starts[0] != 0 or not exact[filled].all()):
        raise ShardingError(
            f"devices_indices_map gives boxes that do not line up in dim {dim} of length {size} "
            f"(starts {starts.tolist()}); the distinct intervals of every dim must follow one "
            "another without gap or overlap",
            argument="devices_indices_map",
            dim=dim,
        )
    if not exact.all():
        edges = np.r_[edges, size]
        block = np.where(exact, block, len(edges) - 2)
    return edges.astype(np.int64), block.astype(np.int64)
