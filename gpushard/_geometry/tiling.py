"""The boxes of an array on all devices, as arrays of integers.

An `Assignment` has the block number of every device in every dim. A `Tiling` adds the shape, and so
the edges of the blocks. A dim of length n over k blocks has blocks of ceil(n / k); trailing ones
are short or empty. Planners compute on these arrays and never on slices. Boxes that do not
form a grid are ranges of blocks: see `free_boxes`.
"""

from __future__ import annotations

import copy
import functools
import math
from typing import Any

import numpy as np

from gpushard._geometry.mesh import is_addressable
from gpushard._geometry.replicas import replica_numbers
from gpushard._typing import Device, Index, IntArray, Shape
from gpushard.errors import ArgumentError

MOST_ELEMENTS = 1 << 58
"""The most elements of an array: with 16 bytes each they take 2 to the power of 62 bytes."""

MOST_DIMS = 64
"""The most dims of an array: NumPy, which holds blocks on the host, allows 64."""


def check_shape(shape: Shape) -> None:
    """Check that an array of a shape has no more than the most elements and dims.

    Raises:
      ArgumentError: it has more.
    """
    if len(shape) > MOST_DIMS:
        raise ArgumentError(
            f"an array with ndim={len(shape)} has more than {MOST_DIMS} axes; use fewer",
            argument="shape",
            shape=shape,
            most=MOST_DIMS,
        )
    elements = math.prod(size for size in shape if size)
    if elements > MOST_ELEMENTS:
        raise ArgumentError(
            f"an array of shape={shape} has more than 2**58 elements; use smaller sizes",
            argument="shape",
            shape=shape,
            most=MOST_ELEMENTS,
        )


class Assignment:
    """Block numbers of devices, for any shape of the array.

    Args:
      devices: all devices, in the order of the sharding.
      counts: number of blocks of each dim.
      blocks: block number of each dim for each device, shape (ndim, devices).
    """

    def __init__(self, devices: tuple[Device, ...], counts: Shape, blocks: IntArray) -> None:
        self.devices = devices
        self.counts = counts
        self.blocks = blocks
        # The number of blocks of each device's box in each dim; None for a grid, with one each.
        self.spans: IntArray | None = None

    @property
    def ndim(self) -> int:
        """Number of dims."""
        return len(self.counts)

    @functools.cached_property
    def strides(self) -> Shape:
        """The difference in row-major block numbers for one step in each dim."""
        return tuple(math.prod(self.counts[dim + 1 :]) for dim in range(self.ndim))

    @property
    def boxes(self) -> int:
        """The number of boxes: the blocks of the grid."""
        return math.prod(self.counts)

    @functools.cached_property
    def flat(self) -> IntArray:
        """The number of each device's box: row-major in a grid. Equal numbers mean replicas."""
        return self._numbers()

    def _numbers(self) -> IntArray:
        strides = np.array(self.strides, np.int64)
        return np.asarray(strides @ self.blocks, np.int64)

    @property
    def is_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        return max(self.counts, default=1) == 1 and self.spans is None

    def of(self, positions: list[int]) -> Assignment:
        """Return the assignment of some of the devices."""
        part = copy.copy(self)
        for name in ("flat", "replica_ids", "replicas"):
            part.__dict__.pop(name, None)
        part.devices = tuple([self.devices[position] for position in positions])
        part.blocks = self.blocks[:, positions]
        part.spans = None if self.spans is None else self.spans[:, positions]
        return part

    @functools.cached_property
    def replica_ids(self) -> IntArray:
        """For each device, the number of earlier devices with the same block."""
        return replica_numbers(self.flat)

    @functools.cached_property
    def replicas(self) -> list[int]:
        """`replica_ids` as Python integers."""
        ids: list[int] = self.replica_ids.tolist()
        return ids


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
        # The devices again, set once callers have checked that they hold data.
        self.places: Any = None

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
    def local(self) -> Tiling:
        """The boxes of the devices that this process addresses."""
        if len(self.addressable) == len(self.devices):
            return self
        return type(self)(self.shape, self.assignment.of(list(self.addressable)), self.edges)

    @functools.cached_property
    def starts(self) -> IntArray:
        """The start of each device's box, shape (ndim, devices)."""
        return self._edges_at(self.assignment.blocks)

    @functools.cached_property
    def stops(self) -> IntArray:
        """The end of each device's box, shape (ndim, devices)."""
        spans = self.assignment.spans
        return self._edges_at(self.assignment.blocks + (1 if spans is None else spans))

    @functools.cached_property
    def shard_shapes(self) -> list[Shape]:
        """Shape of each device's box."""
        return list(map(tuple, (self.stops - self.starts).T.tolist()))

    @functools.cached_property
    def indices(self) -> list[Index]:
        """Each device's box as slices; an unsplit dim is `slice(None)`."""
        spans = self.assignment.spans
        split = [
            count > 1 or (spans is not None and not spans[dim].all())
            for dim, count in enumerate(self.assignment.counts)
        ]
        return [
            tuple(
                slice(start, stop) if cut else slice(None)
                for start, stop, cut in zip(low, high, split, strict=True)
            )
            for low, high in zip(self.starts.T.tolist(), self.stops.T.tolist(), strict=True)
        ]

    @functools.cached_property
    def homes(self) -> dict[tuple[tuple[int, int], ...], int]:
        """The first device of each box; a box is (start, stop) of each dim."""
        boxes = np.stack((self.starts, self.stops), -1).transpose(1, 0, 2).tolist()
        numbered = enumerate(tuple(map(tuple, box)) for box in boxes)
        return {box: position for position, box in reversed(list(numbered))}

    @functools.cached_property
    def volumes(self) -> IntArray:
        """Number of elements of each device's box."""
        return np.asarray(np.prod(self.stops - self.starts, axis=0, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays of this tiling, once all are computed."""
        return 1000 + len(self.devices) * (self.ndim + 1) * 200

    def _edges_at(self, numbers: IntArray) -> IntArray:
        result = np.empty((self.ndim, len(self.devices)), np.int64)
        for dim, edges in enumerate(self.edges):
            result[dim] = edges[numbers[dim]]
        return result


def block_bounds(size: int, blocks: int, position: int) -> tuple[int, int]:
    """Return the half-open range of one block of a dim.

    Args:
      size: length of the dim.
      blocks: the number of blocks.
      position: the number of the block, from 0.

    Returns:
      (start, stop). Trailing blocks are short or empty when `blocks` does not divide `size`.

    >>> [block_bounds(10, 4, i) for i in range(4)]
    [(0, 3), (3, 6), (6, 9), (9, 10)]
    """
    block = -(-size // blocks)
    return min(position * block, size), min((position + 1) * block, size)


def block_edges(size: int, blocks: int) -> IntArray:
    """Return the `blocks + 1` edges of a dim split into equal ceilings.

    Args:
      size: length of the dim.
      blocks: the number of blocks.

    Returns:
      Ascending edges; block j is [edges[j], edges[j + 1]).

    >>> block_edges(10, 4).tolist()
    [0, 3, 6, 9, 10]
    """
    block = -(-size // blocks)
    return np.minimum(
        np.arange(0, (blocks + 1) * block, block) if block else np.zeros(blocks + 1, np.int64), size
    )


def whole(shape: Shape) -> Index:
    """Return the index of a whole array.

    >>> whole((4, 2))
    (slice(0, 4, None), slice(0, 2, None))
    """
    return tuple(slice(0, size) for size in shape)
