"""Pack fills of boxes as entries for the kernel in `kernels/fill.cu`. Pure; needs no GPU."""

from __future__ import annotations

import dataclasses
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

FILL = np.dtype(
    [
        ("target", np.uint64),
        ("pattern", np.uint64, 2),
        ("stride", np.int32, 4),
        ("extent", np.uint32, 4),
        ("magic", np.uint32, 3),
        ("shift", np.uint32, 3),
        ("unit", np.uint32),
        ("form", np.uint32),
    ],
    align=True,
)
"""`struct Fill` of the kernel."""

INLINE_FILLS = 44
"""Most entries in the argument of a launch; `kInlineFills` of the kernel."""

FILL_BATCH = batch_type("fills", FILL, INLINE_FILLS)  # `struct FillBatch` of the kernel
UNITS_PER_BLOCK = 8 * THREADS

WIDEST = 16  # bytes of the largest unit, and of a pattern
LONG_RUN = 4 * WIDEST
"""Bytes of the shortest run that has its unaligned ends filled separately, as this pays."""


@dataclass(frozen=True)
class Filling:
    """A strided box and the value that all its elements get."""

    target: int  # address of its first element
    strides: Sequence[int]  # bytes per step of each dim; may be negative
    memory: Allocation  # where it lies
    shape: Shape  # elements of each dim
    value: bytes  # an element: 1, 2, 4, 8 or 16 bytes


class Fills(Batch):
    """The boxes that a launch fills; entries of type `FILL`."""

    argument = FILL_BATCH


def make_fills(boxes: Iterable[Filling]) -> Fills:
    """Cut boxes into entries and deal out blocks; if boxes overlap, either value may stay.

    Adjacent dims are merged, and the unit is the largest that is aligned and dense. The unaligned
    ends of long runs become separate entries. If elements are not aligned to their size, their
    aligned parts become separate entries, too.

    Raises:
      AssertionError: an entry leaves its allocation, or a value has another size than those of
        the kernel. This is a defect of the library.
    """
    return Fills(*make_table((row for box in boxes for row in _rows(box)), FILL))


def _rows(box: Filling) -> Iterator[tuple[tuple[object, ...], int]]:
    """Yield the fields of each entry of a box, and its number of blocks."""
    assert len(box.value) in (1, 2, 4, 8, 16), f"no element has {len(box.value)} bytes"
    if 0 in box.shape:
        return
    box = _drop_negative_steps(box)
    itemsize = len(box.value)
    aligned = math.gcd(itemsize, box.target, *box.strides)
    if aligned < itemsize:
        for start in range(0, itemsize, aligned):
            value = box.value[start : start + aligned]
            yield from _rows(dataclasses.replace(box, target=box.target + start, value=value))
        return
    *dims, (run, _, _) = merge_dims(box.shape, box.strides, box.strides, itemsize)
    pattern = tuple(np.frombuffer(box.value * (WIDEST // itemsize), np.uint64).tolist())
    for start, length in _runs(box.target, run, [step for _, step, _ in dims]):
        low = box.target + start
        unit = math.gcd(WIDEST, length, low, *(step for _, step, _ in dims))
        units = [*dims, (length // unit, unit, unit)] if length > unit else dims
        for box_or_part in short_steps(low, low, units):
            for target, _, part in parts(*box_or_part):
                yield _row(box.memory, target, pattern, part, unit)


def _drop_negative_steps(box: Filling) -> Filling:
    """Describe a box by positive steps only, with each element once."""
    first, shape, strides = box.target, [], []
    for extent, step in zip(box.shape, box.strides, strict=True):
        if extent > 1 and step:
            first += min(0, step) * (extent - 1)
            shape.append(extent)
            strides.append(abs(step))
    return dataclasses.replace(box, target=first, shape=tuple(shape), strides=strides)


def _runs(first: int, run: int, steps: Sequence[int]) -> list[tuple[int, int]]:
    """Cut a run into (start, length) of parts that get a unit each.

    >>> _runs(8, 160, [])
    [(0, 8), (8, 144), (152, 8)]
    >>> _runs(8, 160, [168])
    [(0, 160)]
    """
    widest = math.gcd(WIDEST, *steps)
    if run < LONG_RUN or math.gcd(widest, first, run) == widest:
        return [(0, run)]
    head = -first % widest
    tail = (first + run) % widest
    ends = [(0, head), (head, run - head - tail), (run - tail, tail)]
    return [(start, length) for start, length in ends if length]


def _row(
    memory: Allocation, target: int, pattern: tuple[int, ...], dims: list[Dim], unit: int
) -> tuple[tuple[object, ...], int]:
    check_units(memory, target, ((extent, step) for extent, step, _ in dims), unit)
    padded = [(1, 0)] * (DIMS - len(dims)) + [(extent, step) for extent, step, _ in dims]
    extents, strides = zip(*padded, strict=True)
    magic, shift = zip(*map(divider, extents[1:]), strict=True)
    blocks = -(-math.prod(extents) // UNITS_PER_BLOCK)
    row = (target, pattern, strides, extents, magic, shift, unit, rows_form(dims))
    return row, blocks
