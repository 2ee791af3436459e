"""Describe phases of a plan once, for all operands of one layout. Pure.

Addresses are relative to operands, so the description serves every run of a phase.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from gpushard._frozen import dataclass
from gpushard._runtime.copy_phase import Phase
from gpushard._runtime.cuda.kernels.batches import Allocation
from gpushard._runtime.cuda.kernels.copy_pieces import PIECE, Box, Pieces, make_counted_pieces
from gpushard._typing import LocalArrays


@dataclass(frozen=True)
class Span:
    """A dense box that a copy engine moves."""

    target: int
    """The operand that is written."""

    target_offset: int
    source: int
    """The operand that is read."""

    source_offset: int
    nbytes: int
    domain: int
    """The memory domain that is read."""


@dataclass(frozen=True, eq=False)
class Template:
    """A phase, ready for operands of a layout."""

    pieces: Pieces
    """The boxes that a kernel copies; addresses are relative to operands."""

    targets: npt.NDArray[np.intp]
    """The operand that each piece is written to."""

    sources: npt.NDArray[np.intp]
    """The operand that each piece is read from."""

    operands: tuple[int, ...]
    """The operands that the pieces use: `targets` and `sources` are positions among these."""

    spans: tuple[Span, ...]
    """The boxes that copy engines move."""

    on_gpus: bool
    """Whether all of `operands` lie on GPUs."""

    def add_addresses(self, bases: npt.NDArray[np.uint64]) -> Pieces:
        """Make the pieces for operands at some addresses."""
        table = self.pieces.table.copy()
        table["target"] += bases[self.targets]
        table["source"] += bases[self.sources]
        return Pieces(table, self.pieces.first)

    def write_addresses(self, addresses: Sequence[int]) -> Pieces:
        """Write addresses of operands into the argument of the pieces, which must be few.

        All calls share the argument, so it must be launched before the next call.
        """
        words, aims = self._aims
        for at, operand, offset in aims:
            words[at] = addresses[operand] + offset
        return self.pieces

    @functools.cached_property
    def _aims(self) -> tuple[memoryview, list[tuple[int, int, int]]]:
        """The argument as words, and its addresses: (word, operand, offset in the operand)."""
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
"""Whether a copy engine moves a box: takes its bytes, its source domain, whether it is dense."""


def make_template(phase: Phase, operands: LocalArrays, by_engine: Choice) -> Template:
    """Describe a phase; only shapes, strides and sizes of the operands are used.

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
