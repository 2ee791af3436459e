"""Phases of a plan as descriptors that serve all operands of the same layout. Pure.

Addresses are relative to operands, so that a phase is described once however often it runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from gpushard.frozen import dataclass
from gpushard.runtime.cuda.kernels.batches import Allocation
from gpushard.runtime.cuda.kernels.pieces import PIECE, Box, Pieces, make_counted_pieces
from gpushard.runtime.phase import Phase
from gpushard.typing import LocalArrays


@dataclass(frozen=True)
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


@dataclass(frozen=True, eq=False)
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

    on_gpus: bool
    """Whether all of `operands` lie there."""

    def located(self, bases: npt.NDArray[np.uint64]) -> Pieces:
        """Return the pieces with addresses."""
        table = self.pieces.table.copy()
        table["target"] += bases[self.targets]
        table["source"] += bases[self.sources]
        return Pieces(table, self.pieces.first)

    def aimed(self, addresses: Sequence[int]) -> Pieces:
        """Return the pieces, few enough for an argument, with addresses in that.

        It is one argument for all calls, so it has to be launched before the next one.
        """
        words, aims = self._aims
        for at, operand, offset in aims:
            words[at] = addresses[operand] + offset
        return self.pieces

    @functools.cached_property
    def _aims(self) -> tuple[memoryview, list[tuple[int, int, int]]]:
        """The argument as words; which of them are addresses, of which operands, and how far in."""
        table = self.pieces.table
        entries = self.pieces.inline()["pieces"][: len(table)]
        ends = zip(("target", "source"), (self.targets, self.sources), strict=True)
        aims = [
            (entry * PIECE.itemsize // 8 + number, operand, offset)
            for number, (end, operands) in enumerate(ends)
            for entry, (operand, offset) in enumerate(
                zip(operands.tolist(), table[end].tolist(), strict=True)
            )
        ]
        return np.ndarray(entries.nbytes // 8, np.uint64, entries).data, aims


Choice = Callable[[int, int, bool], bool]
"""Says whether a copy engine moves a box: takes its bytes, the domain read, and if it is dense."""


def make_template(phase: Phase, operands: LocalArrays, by_engine: Choice) -> Template:
    """Describe a phase of operands, of which only shapes, strides and sizes count.

    Raises:
      AssertionError: a box leaves its operand. This is a defect of the library.
    """
    boxes: list[tuple[Box, int, int]] = []
    spans: list[Span] = []
    itemsize = phase.itemsize
    for to, target, of, source, domain in phase.moves:
        nbytes = itemsize * int(np.prod(target.shape))
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
    pieces, counts = make_counted_pieces(box for box, _, _ in boxes)
    return Template(
        pieces,
        np.repeat(np.array([number[to] for _, to, _ in boxes], np.intp), counts),
        np.repeat(np.array([number[of] for _, _, of in boxes], np.intp), counts),
        used,
        tuple(spans),
        not any(isinstance(operands[n], np.ndarray) for n in used),
    )
