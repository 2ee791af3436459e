"""Box copies as pieces for the kernel in `kernels/box_copy.cu`. Pure; needs no GPU."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from gpushard.typing import Shape

PIECE = np.dtype(
    [
        ("target", np.uint64),
        ("source", np.uint64),
        ("target_stride", np.int64, 4),
        ("source_stride", np.int64, 4),
        ("extent", np.uint32, 4),
        ("magic", np.uint32, 3),
        ("shift", np.uint32, 3),
        ("unit", np.uint32),
        ("tiled", np.uint32),
    ]
)
"""`struct Piece` of the kernel."""

INLINE_PIECES = 30
"""How many pieces travel as an argument of the launch; `kInlinePieces` of the kernel."""

BATCH = np.dtype(
    [
        ("pieces", PIECE, INLINE_PIECES),
        ("first", np.uint32, INLINE_PIECES + 1),
        ("count", np.uint32),
    ],
    align=True,
)
"""`struct Batch` of the kernel."""

THREADS = 256
UNITS_PER_BLOCK = 8 * THREADS
DIMS = 4
MOST_UNITS = 1 << 30
"""Units of a piece, so that the kernel counts them with 32 bits."""

Dim = tuple[int, int, int]
"""(extent, bytes per step in the target, bytes per step in the source)."""


@dataclasses.dataclass(frozen=True)
class Allocation:
    """Memory that a box must not leave."""

    address: int
    """Its first byte."""

    nbytes: int
    """How many there are."""


@dataclasses.dataclass(frozen=True)
class Box:
    """A strided copy of a box."""

    target: int
    """Address of its first element in the target."""

    target_strides: Sequence[int]
    """Bytes per step of each dim in the target."""

    target_memory: Allocation
    """Where it lies."""

    source: int
    """Address of its first element in the source."""

    source_strides: Sequence[int]
    """Bytes per step of each dim in the source; may be negative."""

    source_memory: Allocation
    """Where that lies."""

    shape: Shape
    """Elements of each dim."""

    itemsize: int
    """Bytes of an element."""


@dataclasses.dataclass(frozen=True, eq=False)
class Pieces:
    """What a launch copies."""

    table: npt.NDArray[np.void]
    """The pieces, of type `PIECE`."""

    first: npt.NDArray[np.uint32]
    """The first block of each piece, and the number of all blocks."""

    @property
    def blocks(self) -> int:
        """How many blocks the launch has."""
        return int(self.first[-1])

    def inline(self) -> npt.NDArray[np.void]:
        """Return them as one `BATCH`.

        Raises:
          ValueError: there are more than `INLINE_PIECES`.
        """
        batch = np.zeros((), BATCH)
        batch["pieces"][: len(self.table)] = self.table
        batch["first"][: len(self.first)] = self.first
        batch["count"] = len(self.table)
        return batch


def make_pieces(boxes: Iterable[Box]) -> Pieces:
    """Cut boxes into pieces and deal out blocks.

    Dims that lie one after the other on both sides are merged, and the largest unit is taken that
    is aligned and dense on both sides.

    Args:
      boxes: what to copy; targets do not overlap.

    Returns:
      The pieces; none of a box without elements.

    Raises:
      AssertionError: a piece leaves its allocation. This is a defect of the library.
    """
    rows = []
    blocks = []
    for box in boxes:
        for row, count in _pieces_of(box):
            rows.append(row)
            blocks.append(count)
    table = np.zeros(len(rows), PIECE)
    for number, row in enumerate(rows):
        table[number] = row
    first = np.concatenate(([0], np.cumsum(blocks, dtype=np.uint64)))
    assert first[-1] < 1 << 31, "a launch has at most 2**31 - 1 blocks"
    return Pieces(table, first.astype(np.uint32))


def _pieces_of(box: Box) -> Iterator[tuple[tuple[object, ...], int]]:
    if 0 in box.shape:
        return
    dims = merged(box.shape, box.target_strides, box.source_strides, box.itemsize)
    run = dims.pop()[0]
    steps = [step for _, *both in dims for step in both]
    unit = math.gcd(16, run, box.target, box.source, *steps)
    if run > unit:
        dims.append((run // unit, unit, unit))
    tiled = _tile(dims, unit)
    for target, source, part in _parts(box.target, box.source, dims):
        yield _row(box, target, source, part, unit, tiled)


def merged(shape: Shape, target: Sequence[int], source: Sequence[int], itemsize: int) -> list[Dim]:
    """Return as few dims as describe a box; the last one is a run of bytes, dense on both sides.

    >>> merged((2, 3, 4), (48, 16, 4), (96, 16, 4), 4)
    [(2, 48, 96), (48, 1, 1)]
    >>> merged((2, 3), (4, 8), (12, 4), 4)
    [(3, 8, 4), (2, 4, 12), (4, 1, 1)]
    """
    found = [entry for entry in zip(shape, target, source, strict=True) if entry[0] > 1]
    found.sort(key=lambda dim: -abs(dim[1]))
    result: list[Dim] = []
    for extent, to, of in (*found, (itemsize, 1, 1)):
        if result and result[-1][1] == extent * to and result[-1][2] == extent * of:
            extent *= result.pop()[0]
        result.append((extent, to, of))
    return result


def _tile(dims: list[Dim], unit: int) -> bool:
    """Whether the box is transposed; if so, put the dim that is dense in the source next to last.

    A box is if the last dim is dense in the target, another one in the source, and both are long
    enough for a square to pay.
    """
    if len(dims) < 2 or dims[-1][1] != unit or dims[-1][2] == unit or dims[-1][0] < 8:
        return False
    for position, (extent, _, of) in enumerate(dims[:-1]):
        if of == unit and extent >= 8:
            dims.insert(-1, dims.pop(position))
            return True
    return False


def _parts(target: int, source: int, dims: list[Dim]) -> Iterator[tuple[int, int, list[Dim]]]:
    """Cut a box along its first dim until it has few enough dims and units."""
    if len(dims) > DIMS:
        extent, to, of = dims[0]
        for step in range(extent):
            yield from _parts(target + step * to, source + step * of, dims[1:])
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
        yield from _parts(target + start * to, source + start * of, part)


def _row(
    box: Box, target: int, source: int, dims: list[Dim], unit: int, tiled: bool
) -> tuple[tuple[object, ...], int]:
    """Return the fields of a piece, and how many blocks it takes."""
    _check(box.target_memory, target, [(extent, to) for extent, to, _ in dims], unit)
    _check(box.source_memory, source, [(extent, of) for extent, _, of in dims], unit)
    padded: list[Dim] = [(1, 0, 0)] * (DIMS - len(dims)) + dims
    extents, to_strides, of_strides = zip(*padded, strict=True)
    magic, shift = zip(*map(divider, extents[1:]), strict=True)
    if tiled:
        side = 32 if unit >= 4 else 64
        squares = -(-extents[2] // side) * -(-extents[3] // side)
        blocks = extents[0] * extents[1] * squares
    else:
        blocks = -(-math.prod(extents) // UNITS_PER_BLOCK)
    row = (target, source, to_strides, of_strides, extents, magic, shift, unit, tiled)
    return row, blocks


def _check(memory: Allocation, first: int, dims: Sequence[tuple[int, int]], unit: int) -> None:
    reach = [(extent - 1) * step for extent, step in dims]
    low = first + sum(min(0, n) for n in reach)
    high = first + sum(max(0, n) for n in reach) + unit
    inside = memory.address <= low and high <= memory.address + memory.nbytes
    assert inside, f"bytes {low:#x} to {high:#x} of a copy are outside of {memory}"
    assert all(n % unit == 0 for n in (first, *(step for _, step in dims))), "a unit is misaligned"


def divider(divisor: int) -> tuple[int, int]:
    """Return (magic, shift) with n // divisor == ((n * magic >> 32) + n) >> shift for n < 2**31.

    T. Granlund and P. Montgomery, "Division by invariant integers using multiplication", 1994.

    >>> magic, shift = divider(7)
    >>> [((n * magic >> 32) + n) >> shift for n in (0, 6, 7, 2**31 - 1)]
    [0, 0, 1, 306783378]
    """
    shift = (divisor - 1).bit_length()
    return ((1 << 32) * ((1 << shift) - divisor)) // divisor + 1, shift
