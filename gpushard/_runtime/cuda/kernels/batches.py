"""Pack the arguments of batched kernels: merge dims, cut boxes, deal out blocks. Pure."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from gpushard._frozen import dataclass
from gpushard._runtime.cuda.kernels.limits import MOST_BLOCKS
from gpushard._runtime.host.keep_alive import address
from gpushard._typing import HostArray, Shape

THREADS = 256  # threads of a block; `kThreads` of the kernels
DIMS = 4  # most dims of an entry
MOST_UNITS = 1 << 30  # units of a part, so that the kernel counts them with 32 bits
LONGEST_STEP = (1 << 31) - 1
"""Bytes per step of a dim, so that the kernel counts them with 32 bits and a sign."""

Dim = tuple[int, int, int]
"""(extent, bytes per step in the target, bytes per step in the source)."""


@dataclass(frozen=True)
class Allocation:
    """Memory that a box must not leave."""

    address: int  # its first byte
    nbytes: int  # its size

    def check(self, low: int, high: int) -> None:
        """Check that the bytes from `low` up to `high` lie inside.

        Raises:
          AssertionError: some do not. This is a defect of the library.
        """
        inside = self.address <= low and high <= self.address + self.nbytes
        assert inside, f"bytes {low:#x} to {high:#x} of a kernel are outside of {self}"


def batch_type(name: str, entry: np.dtype[np.void], count: int) -> np.dtype[np.void]:
    """Make the struct of a launch's argument, with up to `count` entries in the field `name`."""
    fields = [(name, entry, count), ("first", np.uint32, count + 1), ("count", np.uint32)]
    return np.dtype(fields, align=True)


@dataclass(frozen=True, eq=False)
class Batch:
    """The work of one launch: entries of a table, and the blocks dealt out to them."""

    table: npt.NDArray[np.void]  # the entries
    first: npt.NDArray[np.uint32]  # the first block of each entry, and the number of all blocks
    # The struct for a few entries, which is the launch's argument; made by `batch_type`.
    argument: ClassVar[np.dtype[np.void]]

    @functools.cached_property
    def blocks(self) -> int:
        """Number of blocks of the launch."""
        return int(self.first[-1])

    def inline(self) -> npt.NDArray[np.void]:
        """Pack the entries into one struct of type `argument`, made only once.

        Raises:
          ValueError: there are more entries than it holds.
        """
        return self._inline

    @functools.cached_property
    def parameters(self) -> tuple[int, HostArray]:
        """The parameter of a launch: the address of the struct's address, and the array of that."""
        pointers = np.array([address(self.inline())], np.uint64)
        return address(pointers), pointers

    @functools.cached_property
    def _inline(self) -> npt.NDArray[np.void]:
        batch = np.zeros((), self.argument)
        assert self.argument.names is not None
        batch[self.argument.names[0]][: len(self.table)] = self.table
        batch["first"][: len(self.first)] = self.first
        batch["count"] = len(self.table)
        return batch


def make_table(
    rows: Iterable[tuple[tuple[Any, ...], int]], entry: np.dtype[np.void]
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.uint32]]:
    """Make (table, first) of a `Batch` from the fields and the number of blocks of each entry."""
    rows = list(rows)
    table = np.zeros(len(rows), entry)
    for number, (fields, _) in enumerate(rows):
        table[number] = fields
    return table, first_blocks([blocks for _, blocks in rows])


def first_blocks(blocks: Sequence[int]) -> npt.NDArray[np.uint32]:
    """Number the blocks: the first block of each entry, and the number of all blocks.

    >>> first_blocks([2, 1, 4]).tolist()
    [0, 2, 3, 7]
    """
    first = np.concatenate(([0], np.cumsum(blocks, dtype=np.uint64)))
    assert first[-1] <= MOST_BLOCKS, f"a launch has at most {MOST_BLOCKS} blocks"
    return first.astype(np.uint32)


def merge_dims(
    shape: Shape, target: Sequence[int], source: Sequence[int], itemsize: int
) -> list[Dim]:
    """Merge dims of a box to as few as possible; the last is a run of bytes, dense on both sides.

    >>> merge_dims((2, 3, 4), (48, 16, 4), (96, 16, 4), 4)
    [(2, 48, 96), (48, 1, 1)]
    >>> merge_dims((2, 3), (4, 8), (12, 4), 4)
    [(3, 8, 4), (2, 4, 12), (4, 1, 1)]
    """
    dims = [entry for entry in zip(shape, target, source, strict=True) if entry[0] > 1]
    dims.sort(key=lambda dim: -abs(dim[1]))
    result: list[Dim] = []
    for extent, to, of in (*dims, (itemsize, 1, 1)):
        if result and result[-1][1] == extent * to and result[-1][2] == extent * of:
            extent *= result.pop()[0]
        result.append((extent, to, of))
    return result


def short_steps(target: int, source: int, dims: list[Dim]) -> Iterator[tuple[int, int, list[Dim]]]:
    """Cut a box along each dim with steps longer than `LONGEST_STEP`.

    Yields:
      Target, source and dims of each part.
    """
    for position, (extent, to, of) in enumerate(dims):
        if not -LONGEST_STEP <= to <= LONGEST_STEP or not -LONGEST_STEP <= of <= LONGEST_STEP:
            rest = dims[:position] + dims[position + 1 :]
            for step in range(extent):
                yield from short_steps(target + step * to, source + step * of, rest)
            return
    yield target, source, dims


def parts(target: int, source: int, dims: list[Dim]) -> Iterator[tuple[int, int, list[Dim]]]:
    """Cut a box along its first dim until it has at most `DIMS` dims and `MOST_UNITS` units.

    Yields:
      Target, source and dims of each part.
    """
    if len(dims) > DIMS:
        extent, to, of = dims[0]
        for step in range(extent):
            yield from parts(target + step * to, source + step * of, dims[1:])
        return
    units = math.prod(extent for extent, _, _ in dims)
    if units <= MOST_UNITS:
        yield target, source, dims
        return
    cut = max(range(len(dims)), key=lambda position: dims[position][0])
    extent, to, of = dims[cut]
    half = extent // 2
    for start, length in ((0, half), (half, extent - half)):
        part = [*dims[:cut], (length, to, of), *dims[cut + 1 :]]
        yield from parts(target + start * to, source + start * of, part)


def rows_form(dims: list[Dim]) -> int:
    """Choose the form of the kernel for a number of dims: it is for 1, 2 or 4 dims."""
    return max(1, len(dims)) if len(dims) < 3 else DIMS


def check_units(memory: Allocation, first: int, dims: Iterable[tuple[int, int]], unit: int) -> None:
    """Check that units lie inside an allocation, and each at a multiple of its size.

    Dims are (extent, bytes per step).

    Raises:
      AssertionError: a unit does not. This is a defect of the library.
    """
    dims = list(dims)
    reach = [(extent - 1) * step for extent, step in dims]
    low = first + sum(min(0, n) for n in reach)
    memory.check(low, first + sum(max(0, n) for n in reach) + unit)
    assert all(n % unit == 0 for n in (first, *(step for _, step in dims))), "a unit is misaligned"


def divider(divisor: int) -> tuple[int, int]:
    """Compute the numbers that turn a division into a multiplication.

    T. Granlund and P. Montgomery, "Division by invariant integers using multiplication", 1994.

    Args:
      divisor: from 1 to 2**31.

    Returns:
      (magic, shift) with n // divisor == ((n * magic >> 32) + n) >> shift for n < 2**31.

    >>> magic, shift = divider(7)
    >>> [((n * magic >> 32) + n) >> shift for n in (0, 6, 7, 2**31 - 1)]
    [0, 0, 1, 306783378]
    """
    shift = (divisor - 1).bit_length()
    return ((1 << 32) * ((1 << shift) - divisor)) // divisor + 1, shift
