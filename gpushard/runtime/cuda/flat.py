"""Copies in flat order as jobs for the kernels in `kernels/flat.cu`. Pure; needs no GPU."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpushard.runtime.cuda.batches import (
    THREADS,
    Allocation,
    Batch,
    check_units,
    divider,
    make_table,
)
from gpushard.typing import IntArray, Shape

MOST_DIMS = 8
"""Dims of a box; `kDims` of the kernels."""

FLAT_JOB = np.dtype(
    [
        ("storage", np.uint64),
        ("buffer", np.uint64),
        ("total", np.int64),
        ("rows", np.int64),
        ("start", np.int64),
        ("extent", np.int64, MOST_DIMS),
        ("stride", np.int64, MOST_DIMS),
        ("magic", np.uint64, MOST_DIMS),
        ("shift", np.uint32, MOST_DIMS),
        ("row_count", np.uint32),
        ("dims", np.uint32),
        ("unit", np.uint32),
        ("mapped", np.uint32),
    ],
    align=True,
)
"""`struct FlatJob` of the kernels."""

UNITS_PER_BLOCK = 4 * THREADS
"""Units of a block; `kThreads * kFlatUnits` of the kernels."""

WIDEST = 16
"""Bytes of the largest unit."""

WORTH_MAPPING = 4
"""How many times fewer rows pay for a division per dim and element."""


@dataclasses.dataclass(frozen=True)
class FlatBox:
    """A box of an array in one of its shapes."""

    shape: Shape
    """The array's."""

    starts: Shape
    """First index of the box in each dim."""

    stops: Shape
    """The index behind its last."""

    def __post_init__(self) -> None:
        for size, start, stop in zip(self.shape, self.starts, self.stops, strict=True):
            assert 0 <= start <= stop <= size, f"{self} is not a box of its array"


@dataclasses.dataclass(frozen=True)
class FlatCopy:
    """A copy of what a shard and another box have in common, between the shard and a buffer."""

    storage: int
    """Address of the shard's first element."""

    storage_memory: Allocation
    """Where it lies, dense and row-major."""

    box: FlatBox
    """What the shard holds."""

    other: FlatBox
    """The other box, of the same elements in another shape."""

    buffer: int
    """Address of the buffer's first element."""

    buffer_memory: Allocation
    """Where that lies."""

    itemsize: int
    """Bytes of an element: 1, 2, 4, 8 or 16."""


@dataclasses.dataclass(frozen=True, eq=False)
class FlatJobs(Batch):
    """What a launch packs or unpacks; entries of type `FLAT_JOB`."""

    rows: IntArray
    """The numbers of the rows of all jobs."""

    block_rows: npt.NDArray[np.uint32]
    """The row of each block's first unit."""


def count_common(box: FlatBox, other: FlatBox) -> int:
    """Return how many elements two boxes have in common: the size of a buffer.

    Args:
      box: a box of an array.
      other: a box of the same elements in another shape.

    Returns:
      The number; the order of the boxes does not matter.

    Raises:
      AssertionError: the shapes differ in size, or have too many dims. This is a defect of the
        library.

    >>> rows = FlatBox((4, 6), (1, 0), (3, 6))
    >>> columns = FlatBox((3, 8), (0, 2), (3, 4))
    >>> count_common(rows, columns)
    2
    """
    one, two = _grid(box), _grid(other)
    assert one.space == two.space, f"{box.shape} and {other.shape} differ in size"
    if one.rows_within(two) > two.rows_within(one):
        one, two = two, one
    return int(_common_rows(one, two).common.sum())


def make_flat_jobs(copies: Iterable[FlatCopy]) -> FlatJobs:
    """Number the common elements of each copy by rows, and deal out blocks.

    Args:
      copies: what to pack or unpack, all in the same direction.

    Returns:
      The jobs; none of a copy of boxes without common elements.

    Raises:
      AssertionError: the boxes of a copy are not of the same elements, have too many dims, or leave
        their allocation. This is a defect of the library.
    """
    jobs: list[tuple[tuple[Any, ...], int]] = []
    rows: list[IntArray] = [np.zeros(0, np.int64)]
    block_rows: list[IntArray] = [np.zeros(0, np.int64)]
    used = 0
    for copy in copies:
        unit, shard, other = _units(copy)
        numbers, mapped, total = _numbers(shard, other)
        if not total:
            continue
        _check(copy, unit, shard, total)
        magic, shift = zip(*(divider(extent, 64) for extent in other.extents), strict=True)
        dims = map(_padded, (other.extents, other.strides, magic, shift))
        kind = (numbers.shape[1], len(other.extents), unit, mapped)
        place = (copy.storage, copy.buffer, total, used, other.start)
        blocks = -(-total // UNITS_PER_BLOCK)
        jobs.append(((*place, *dims, *kind), blocks))
        firsts = np.arange(blocks) * UNITS_PER_BLOCK
        block_rows.append(np.searchsorted(numbers[0], firsts, side="right") - 1)
        rows.append(numbers.ravel())
        used += numbers.size
    table, first = make_table(jobs, FLAT_JOB)
    return FlatJobs(table, first, np.concatenate(rows), np.concatenate(block_rows).astype("u4"))


@dataclasses.dataclass(frozen=True)
class _Grid:
    """A box in flat order, in few dims; the last one is a contiguous run."""

    space: int
    """Elements of the array."""

    sizes: Shape
    """Of the array, per dim."""

    starts: Shape
    """Of the box, per dim."""

    extents: Shape
    """Of the box, per dim."""

    @property
    def strides(self) -> Shape:
        """Elements of the flat order per step of each dim."""
        inner = itertools.accumulate(reversed(self.sizes[1:]), int.__mul__, initial=1)
        return tuple(inner)[::-1]

    @property
    def size(self) -> int:
        """Elements of the box."""
        return math.prod(self.extents)

    @property
    def start(self) -> int:
        """Flat index of its first element."""
        return _dot(self.starts, self.strides)

    @property
    def stop(self) -> int:
        """Flat index behind its last element."""
        return self.start + _dot([extent - 1 for extent in self.extents], self.strides) + 1

    def rank(self, flat: IntArray) -> IntArray:
        """Return how many elements of the box lie before each flat index."""
        rank = np.zeros_like(flat)
        if not self.size:
            return rank
        within = np.ones(flat.shape, bool)
        volume = self.size
        for start, extent, stride in zip(self.starts, self.extents, self.strides, strict=True):
            volume //= extent
            digit, flat = np.divmod(flat, stride)
            digit -= start
            rank += np.where(within, np.clip(digit, 0, extent) * volume, 0)
            within &= (digit >= 0) & (digit < extent)
        return rank

    def rows_within(self, other: _Grid) -> int:
        """Return how many rows lie between the first and the last element of another box."""
        low, high = self.rank(np.array([other.start, other.stop])).tolist()
        run = self.extents[-1]
        return -(-high // run) - low // run if high > low else 0


@dataclasses.dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a box that have elements in common with another, in flat order."""

    flat: IntArray
    """Flat index of the first element."""

    number: IntArray
    """Position among all rows of the box."""

    common: IntArray
    """How many elements are common."""

    rank: IntArray
    """The other box's elements before the row."""


def _padded(values: Shape) -> Shape:
    return values + (0,) * (MOST_DIMS - len(values))


def _dot(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(map(int.__mul__, a, b))


def _grid(box: FlatBox) -> _Grid:
    """Return a box in as few dims as describe it.

    >>> _grid(FlatBox((1, 6, 2, 5), (0, 3, 0, 0), (1, 5, 2, 5)))
    _Grid(space=60, sizes=(60,), starts=(30,), extents=(20,))
    >>> _grid(FlatBox((4, 6, 5), (0, 3, 1), (4, 4, 3)))
    _Grid(space=120, sizes=(4, 30), starts=(0, 16), extents=(4, 2))
    """
    space = math.prod(box.shape)
    assert space < 1 << 62, f"an array of shape {box.shape} is too large"
    dims: list[tuple[int, int, int]] = []
    for size, start, stop in zip(box.shape, box.starts, box.stops, strict=True):
        if dims and (stop - start == size or dims[-1][2] - dims[-1][1] == 1):
            outer_size, outer_start, outer_stop = dims.pop()
            start, stop = outer_start * size + start, (outer_stop - 1) * size + stop
            size *= outer_size
        dims.append((size, start, stop))
    dims = dims or [(1, 0, 1)]
    assert len(dims) <= MOST_DIMS, f"{box} has more than {MOST_DIMS} dims"
    sizes, starts, stops = zip(*dims, strict=True)
    extents = tuple(stop - start for start, stop in zip(starts, stops, strict=True))
    return _Grid(space, sizes, starts, extents)


def _units(copy: FlatCopy) -> tuple[int, _Grid, _Grid]:
    """Return the bytes of the largest unit, and the shard's and the other box in such units."""
    grids = _grid(copy.box), _grid(copy.other)
    shard, other = grids
    assert shard.space == other.space, f"{copy.box.shape} and {copy.other.shape} differ in size"
    assert copy.itemsize in (1, 2, 4, 8, 16), f"no element has {copy.itemsize} bytes"
    ends = [n for grid in grids for n in (grid.sizes[-1], grid.starts[-1], grid.extents[-1])]
    unit = math.gcd(WIDEST, *(n * copy.itemsize for n in ends), copy.storage, copy.buffer)
    unit = max(unit, copy.itemsize)
    by = unit // copy.itemsize
    return unit, _divided(shard, by), _divided(other, by)


def _divided(grid: _Grid, by: int) -> _Grid:
    """Return a box of an array with `by` neighbours as one element."""

    def last(values: Shape) -> Shape:
        return (*values[:-1], values[-1] // by)

    return _Grid(grid.space // by, last(grid.sizes), last(grid.starts), last(grid.extents))


def _numbers(shard: _Grid, other: _Grid) -> tuple[IntArray, bool, int]:
    """Return the numbers of each row as the kernels read them, whether mapped, and the total."""
    mapped = other.rows_within(shard) > WORTH_MAPPING * shard.rows_within(other)
    rows = _common_rows(shard, other) if mapped else _common_rows(other, shard)
    ends = np.cumsum(rows.common)
    before = ends - rows.common
    numbers = [before, rows.rank - before]
    if mapped:
        numbers.append(rows.number * shard.extents[-1] - rows.flat)
    return np.stack(numbers), mapped, int(ends[-1]) if len(ends) else 0


def _common_rows(box: _Grid, other: _Grid) -> _Rows:
    """Return the rows of a box with common elements.

    Dims are enumerated from the outermost, and what spans nothing of the other box is dropped at
    each, so that the work follows the rows near common elements and not all of them.
    """
    flat = np.full(1 if box.size else 0, box.start, np.int64)
    number = np.zeros_like(flat)
    span = box.stop - box.start
    for extent, stride in zip(box.extents[:-1], box.strides[:-1], strict=True):
        span -= (extent - 1) * stride
        parent, step = _steps(other, flat, extent, stride, span)
        flat = flat[parent] + step * stride
        number = number[parent] * extent + step
        some = _between(other, flat, span)[1] > 0
        flat, number = flat[some], number[some]
    rank, common = _between(other, flat, span)
    some = common > 0
    return _Rows(flat[some], number[some], common[some], rank[some])


def _steps(
    other: _Grid, flat: IntArray, extent: int, stride: int, span: int
) -> tuple[IntArray, IntArray]:
    """Return (parent, step) of all steps of a dim whose span meets that of another box.

    Args:
      other: the other box.
      flat: flat index of the dim's first step, for each parent.
      extent: how many steps the dim has.
      stride: and how far apart they are.
      span: elements of the flat order from the first to the last of a step.
    """
    low = np.clip((other.start - flat - span) // stride + 1, 0, extent)
    high = np.clip(-((flat - other.stop) // stride), low, extent)
    count = high - low
    parent = np.repeat(np.arange(len(flat)), count)
    before = np.cumsum(count) - count
    return parent, np.arange(len(parent)) - before[parent] + low[parent]


def _between(box: _Grid, flat: IntArray, span: int) -> tuple[IntArray, IntArray]:
    """Return the rank of each flat index, and how many elements the span from there holds."""
    rank = box.rank(flat)
    return rank, box.rank(flat + span) - rank


def _check(copy: FlatCopy, unit: int, shard: _Grid, total: int) -> None:
    check_units(copy.storage_memory, copy.storage, [(shard.size, unit)], unit)
    check_units(copy.buffer_memory, copy.buffer, [(total, unit)], unit)
