"""Phases of a plan as descriptors that serve all operands of the same layout. Pure.

Addresses are relative to operands, so that a phase is described once however often it runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpushard.runtime.backend import BoxIndex, Phase
from gpushard.runtime.cuda.pieces import Allocation, Box, Pieces, make_pieces
from gpushard.typing import LocalArray, Shape


@dataclasses.dataclass(frozen=True)
class View:
    """A strided part of an operand."""

    offset: int
    """Bytes from the operand's first element."""

    shape: Shape
    strides: tuple[int, ...]

    def is_dense(self, itemsize: int) -> bool:
        """Whether its elements lie one after the other in row-major order."""
        step = itemsize
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size > 1 and stride != step:
                return False
            step *= size
        return True


def view_of(index: BoxIndex, shape: Shape, strides: Sequence[int]) -> View:
    """Return the part of an array that an index of integers, slices and a last `...` selects.

    >>> view_of((1, slice(3, None, -1), ...), (2, 4, 5), (160, 40, 8))
    View(offset=280, shape=(4, 5), strides=(-40, 8))
    """
    entries = [entry for entry in index if entry is not ...]
    entries += [slice(None)] * (len(shape) - len(entries))
    offset = 0
    sizes, steps = [], []
    for entry, size, stride in zip(entries, shape, strides, strict=True):
        if isinstance(entry, slice):
            positions = range(*entry.indices(size))
            offset += positions.start * stride if positions else 0
            sizes.append(len(positions))
            steps.append(positions.step * stride)
        else:
            offset += entry * stride
    return View(offset, tuple(sizes), tuple(steps))


@dataclasses.dataclass(frozen=True)
class Span:
    """A dense box that a copy engine moves."""

    target: int
    """The operand written."""

    target_offset: int
    source: int
    """The operand read."""

    source_offset: int
    nbytes: int
    domain: int
    """The memory domain read."""


@dataclasses.dataclass(frozen=True, eq=False)
class Template:
    """A phase, ready for operands of a layout."""

    pieces: Pieces
    """What a kernel copies; addresses are relative to the operands."""

    targets: npt.NDArray[np.intp]
    """The operand that each piece is written to."""

    sources: npt.NDArray[np.intp]
    """The operand that each piece is read from."""

    operands: tuple[int, ...]
    """The operands that the pieces use: `targets` and `sources` are positions among these."""

    spans: tuple[Span, ...]
    """What copy engines move."""

    traffic: dict[int, int]
    """Bytes read from each memory domain."""

    def located(self, bases: npt.NDArray[np.uint64]) -> Pieces:
        """Return the pieces with addresses.

        Args:
          bases: the address of each of `operands`.
        """
        table = self.pieces.table.copy()
        table["target"] += bases[self.targets]
        table["source"] += bases[self.sources]
        return Pieces(table, self.pieces.first)


Choice = Callable[[int, int, bool], bool]
"""Says whether a copy engine moves a box: takes its bytes, the domain read, and if it is dense."""


def make_template(phase: Phase, operands: Sequence[LocalArray], by_engine: Choice) -> Template:
    """Describe a phase.

    Args:
      phase: which boxes.
      operands: the arrays; of these only shapes, strides and sizes count.
      by_engine: says what copy engines move.

    Raises:
      AssertionError: a box leaves its operand. This is a defect of the library.
    """
    boxes: list[tuple[Box, int, int]] = []
    spans: list[Span] = []
    traffic: dict[int, int] = {}
    for to, target, of, source, domain in _views(phase, operands):
        itemsize = operands[to].dtype.itemsize
        nbytes = itemsize * int(np.prod(target.shape))
        traffic[domain] = traffic.get(domain, 0) + nbytes
        dense = target.is_dense(itemsize) and source.is_dense(itemsize)
        if by_engine(nbytes, domain, dense):
            spans.append(Span(to, target.offset, of, source.offset, nbytes, domain))
            continue
        within = Allocation(0, operands[to].nbytes), Allocation(0, operands[of].nbytes)
        box = Box(
            target.offset, target.strides, within[0],
            source.offset, source.strides, within[1],
            target.shape, itemsize,
        )  # fmt: skip
        boxes.append((box, to, of))
    used = tuple(sorted({n for _, to, of in boxes for n in (to, of)}))
    number = {operand: position for position, operand in enumerate(used)}
    parts = [(make_pieces([box]), number[to], number[of]) for box, to, of in boxes]
    pieces = make_pieces(box for box, _, _ in boxes)
    counts = [len(part.table) for part, _, _ in parts]
    return Template(
        pieces,
        np.repeat(np.array([to for _, to, _ in parts], np.intp), counts),
        np.repeat(np.array([of for _, _, of in parts], np.intp), counts),
        used,
        tuple(spans),
        traffic,
    )


def _views(
    phase: Phase, operands: Sequence[LocalArray]
) -> Iterator[tuple[int, View, int, View, int]]:
    """Yield (operand written, part of it, operand read, part of it, domain read)."""
    for to, to_index, of, of_index, domain in phase.moves:
        target = view_of(to_index, operands[to].shape, operands[to].strides)
        source = view_of(of_index, operands[of].shape, operands[of].strides)
        if phase.order is not None:
            order: Any = phase.order
            shape = tuple(source.shape[d] for d in order)
            source = View(source.offset, shape, tuple(source.strides[d] for d in order))
        yield to, target, of, source, domain
