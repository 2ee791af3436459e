"""Pack box copies as pieces for the kernel in `kernels/box_copy.cu`. Pure; needs no GPU."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from gpushard._frozen import dataclass
from gpushard._runtime.cuda.kernels.batches import (
    DIMS,
    THREADS,
    Allocation,
    Batch,
    Dim,
    batch_type,
    check_units,
    divider,
    make_table,
    merge_dims,
    parts,
    rows_form,
    short_steps,
)
from gpushard._typing import Shape

PIECE = np.dtype(
    [
        ("target", np.uint64),
        ("source", np.uint64),
        ("target_stride", np.int32, 4),
        ("source_stride", np.int32, 4),
        ("extent", np.uint32, 4),
        ("magic", np.uint32, 3),
        ("shift", np.uint32, 3),
        ("unit", np.uint32),
        ("form", np.uint32),
    ]
)
"""`struct Piece` of the kernel."""

INLINE_PIECES = 40
"""Most pieces in the argument of a launch; `kInlinePieces` of the kernel."""

BATCH = batch_type("pieces", PIECE, INLINE_PIECES)  # `struct Batch` of the kernel
MOST_OPERANDS = 448
"""Most operands of the pieces of a table; `kMostOperands` of the kernel."""

ENDS = np.dtype([("target", np.uint32), ("source", np.uint32)])  # `struct Ends` of the kernel
BASES = np.dtype([("at", np.uint64, MOST_OPERANDS)])  # `struct Bases` of the kernel
UNITS_PER_BLOCK = 8 * THREADS

TILES = 8
"""The form of a transposed piece; `kTiles` of the kernel. Rows have 1, 2 or 4: their dims."""

WORDS = 9  # the form of a transposed piece in whole words; `kWords` of the kernel
WORD = 4  # bytes of such a word
SIDES = {
    (TILES, 1): (64, 64),
    (TILES, 2): (64, 64),
    (TILES, 4): (32, 64),
    (TILES, 8): (32, 32),
    (TILES, 16): (32, 32),
    (WORDS, 1): (128, 128),
    (WORDS, 2): (64, 64),
}
"""The sides of a tile in units, by form and bytes of a unit: along the dim that is dense in the
source, and along the dim that is dense in the target."""


@dataclass(frozen=True)
class Box:
    """A strided copy of a box."""

    target: int  # address of its first element in the target
    target_strides: Sequence[int]  # bytes per step of each dim in the target
    target_memory: Allocation  # the memory of the target
    source: int  # address of its first element in the source
    source_strides: Sequence[int]  # bytes per step of each dim in the source; may be negative
    source_memory: Allocation  # the memory of the source
    shape: Shape  # elements of each dim
    itemsize: int  # bytes of an element


class Pieces(Batch):
    """The boxes that a launch copies; entries of type `PIECE`."""

    argument = BATCH


def make_pieces(boxes: Iterable[Box]) -> Pieces:
    """Cut boxes into pieces and deal out blocks; targets must not overlap.

    Dims that are adjacent on both sides are merged, and the unit is the largest that is aligned and
    dense on both sides.

    Raises:
      AssertionError: a piece leaves its allocation. This is a defect of the library.
    """
    return make_counted_pieces(boxes)[0]


def make_counted_pieces(boxes: Iterable[Box]) -> tuple[Pieces, list[int]]:
    """Cut boxes as `make_pieces` does; return also the number of pieces of each box."""
    rows = [list(_pieces_of(box)) for box in boxes]
    table = make_table(itertools.chain.from_iterable(rows), PIECE)
    return Pieces(*table), [len(of_box) for of_box in rows]


def _pieces_of(box: Box) -> Iterator[tuple[tuple[object, ...], int]]:
    if 0 in box.shape:
        return
    dims = merge_dims(box.shape, box.target_strides, box.source_strides, box.itemsize)
    run = dims.pop()[0]
    steps = [step for _, *both in dims for step in both]
    unit = math.gcd(16, run, box.target, box.source, *steps)
    if run > unit:
        dims.append((run // unit, unit, unit))
    for start in short_steps(box.target, box.source, dims):
        tiled = _tile(start[2], unit)
        for target, source, part in parts(*start):
            yield _row(box, target, source, part, unit, tiled)


def _tile(dims: list[Dim], unit: int) -> bool:
    """Whether the box is transposed; if so, put the dim that is dense in the source next to last.

    A box is transposed if its last dim is dense in the target and another dim is dense in the
    source. Both dims must be long enough for tiles to pay.
    """
    if len(dims) < 2 or dims[-1][1] != unit or dims[-1][2] == unit or dims[-1][0] < 8:
        return False
    for position, (extent, _, of) in enumerate(dims[:-1]):
        if of == unit and extent >= 8:
            dims.insert(-1, dims.pop(position))
            return True
    return False


def _row(
    box: Box, target: int, source: int, dims: list[Dim], unit: int, tiled: bool
) -> tuple[tuple[object, ...], int]:
    """Make the fields of a piece, and its number of blocks."""
    check_units(box.target_memory, target, ((extent, to) for extent, to, _ in dims), unit)
    check_units(box.source_memory, source, ((extent, of) for extent, _, of in dims), unit)
    padded: list[Dim] = [(1, 0, 0)] * (DIMS - len(dims)) + dims
    extents, to_strides, of_strides = zip(*padded, strict=True)
    divisors = extents[1:]
    if tiled:
        form = WORDS if unit < WORD and _in_words(target, source, padded) else TILES
        side2, side3 = SIDES[form, unit]
        divisors = (extents[1], -(-extents[2] // side2), -(-extents[3] // side3))
        blocks = extents[0] * math.prod(divisors)
    else:
        form = rows_form(dims)
        blocks = -(-math.prod(extents) // UNITS_PER_BLOCK)
    magic, shift = zip(*map(divider, divisors), strict=True)
    row = (target, source, to_strides, of_strides, extents, magic, shift, unit, form)
    return row, blocks


def _in_words(target: int, source: int, dims: list[Dim]) -> bool:
    """Whether both sides of a transposed piece are whole words, each at a multiple of its size."""
    *outer, (extent2, to2, unit), (extent3, _, of3) = dims
    steps = [step for _, *both in outer for step in both]
    lengths = extent2 * unit, extent3 * unit
    return math.gcd(WORD, target, source, to2, of3, *lengths, *steps) == WORD
