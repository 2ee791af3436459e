"""Launch copies and fills: entries go in the argument, or for large copies in tables on GPUs."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence

import numpy as np

from gpushard._runtime.copy_phase import Phase
from gpushard._runtime.cuda.driver.driver import Driver, EventHandle, StreamHandle, Table
from gpushard._runtime.cuda.kernels.batches import Allocation
from gpushard._runtime.cuda.kernels.copy_pieces import (
    BASES,
    ENDS,
    INLINE_PIECES,
    MOST_OPERANDS,
    Box,
    Pieces,
    make_pieces,
)
from gpushard._runtime.cuda.kernels.copy_templates import Choice, Template, make_template
from gpushard._runtime.cuda.kernels.fills import INLINE_FILLS, Filling, Fills, make_fills
from gpushard._runtime.cuda.memory.slabs import SlabRange
from gpushard._runtime.cuda.memory.stores import GpuStore, address_of, extent_of
from gpushard._runtime.cuda.streams import EventPool
from gpushard._typing import HostArray, LocalArray, LocalArrays


class _UploadedTable:
    """A table in the memory of a GPU, for launches on one stream."""

    __slots__ = ("block", "chip", "parts", "stream", "table")

    def __init__(
        self,
        chip: int,
        block: SlabRange,
        table: Table,
        stream: StreamHandle,
        parts: list[HostArray],
    ) -> None:
        self.parts = parts
        """The uploaded arrays, kept because some systems read them late."""
        self.chip = chip
        self.block = block
        self.table = table
        self.stream = stream


class _PhaseCache:
    """The template of a phase, and its tables on GPUs."""

    __slots__ = ("tables", "template")

    def __init__(self, template: Template) -> None:
        self.template = template
        self.tables: dict[int, _UploadedTable] = {}  # by id of the stream


class Launches:
    """Launches copies and fills of boxes on streams."""

    def __init__(self, driver: Driver, events: EventPool, stores: Sequence[GpuStore]) -> None:
        self._driver = driver
        self._events = events
        self._stores = stores
        self._dead: deque[dict[int, _UploadedTable]] = deque()  # of phases that are gone
        self._ending: list[tuple[_UploadedTable, EventHandle]] = []

    def launch_phase(
        self, phase: Phase, operands: LocalArrays, chip: int, stream: StreamHandle, choose: Choice
    ) -> Template:
        """Copy the boxes of a phase that kernels copy, and return its template; under the lock.

        Later calls for this phase must have operands of the same layouts. `choose` says which boxes
        copy engines move instead.
        """
        cache: _PhaseCache | None = phase.kept.get(self)
        if cache is None:
            cache = phase.kept[self] = _PhaseCache(make_template(phase, operands, choose))
            end = weakref.finalize(phase, self._dead.append, cache.tables)
            end.atexit = False
        template = cache.template
        pieces = len(template.pieces.table)
        if not pieces:
            return template
        used = [operands[n] for n in template.operands]
        if template.on_gpus:
            addresses = self._driver.addresses(used)
        else:
            addresses = [address_of(self._driver, operand) for operand in used]
        if pieces <= INLINE_PIECES:
            self._driver.launch_pieces(template.write_addresses(addresses), stream)
            return template
        bases = np.array(addresses, np.uint64)
        if len(bases) > MOST_OPERANDS:
            self._launch(template.add_addresses(bases), stream)
            return template
        argument = np.zeros((), BASES)
        argument["at"][: len(bases)] = bases
        table = self._find_table(cache, chip, stream)
        self._driver.launch_table(table, template.pieces, argument, stream)
        return template

    def launch_boxes(
        self, copies: Sequence[tuple[LocalArray, LocalArray]], stream: StreamHandle
    ) -> None:
        """Copy boxes, given as (target, source) arrays."""
        self._launch(make_pieces(self._box(to, of) for to, of in copies), stream)

    def launch_fills(self, targets: LocalArrays, value: np.generic, stream: StreamHandle) -> None:
        """Set all elements of boxes to a value of their dtype."""
        fills = make_fills(self._filling(target, value.tobytes()) for target in targets)
        for start in range(0, len(fills.table), INLINE_FILLS):
            stop = min(start + INLINE_FILLS, len(fills.table))
            first = fills.first[start : stop + 1] - fills.first[start]
            self._driver.launch_fills(Fills(fills.table[start:stop], first), stream)

    def collect(self, *, wait: bool = False) -> None:
        """Free dead tables that no launch reads any more; `wait` for launches that do."""
        while self._dead:
            for uploaded in self._dead.popleft().values():
                event = self._events.take(uploaded.chip)
                self._driver.record(event, uploaded.stream)
                self._ending.append((uploaded, event))
        ending, self._ending = self._ending, []
        for uploaded, event in ending:
            if wait:
                self._driver.synchronize(event)
            if self._driver.is_done(event):
                self._stores[uploaded.chip].free(uploaded.block)
                self._events.free[uploaded.chip].append(event)
            else:
                self._ending.append((uploaded, event))

    def _launch(self, pieces: Pieces, stream: StreamHandle) -> None:
        """Launch pieces in arguments, as many at a time as an argument has room for."""
        for start in range(0, len(pieces.table), INLINE_PIECES):
            stop = min(start + INLINE_PIECES, len(pieces.table))
            first = pieces.first[start : stop + 1] - pieces.first[start]
            self._driver.launch_pieces(Pieces(pieces.table[start:stop], first), stream)

    def _find_table(self, cache: _PhaseCache, chip: int, stream: StreamHandle) -> Table:
        """Find the table of a phase for a stream; the first launch uploads it."""
        uploaded = cache.tables.get(id(stream))
        if uploaded is None:
            pieces, template = cache.template.pieces, cache.template
            ends = np.empty(len(pieces.table), ENDS)
            ends["target"], ends["source"] = template.targets, template.sources
            parts = [part.view(np.uint8) for part in (pieces.table, pieces.first, ends)]
            block = self._stores[chip].allocate(sum(part.nbytes for part in parts))
            places = [block.address]
            for part in parts:
                self._driver.upload(places[-1], part, stream)
                places.append(places[-1] + part.nbytes)
            uploaded = _UploadedTable(chip, block, Table(*places[:3]), stream, parts)
            cache.tables[id(stream)] = uploaded
        return uploaded.table

    def _filling(self, target: LocalArray, value: bytes) -> Filling:
        memory = Allocation(*extent_of(self._driver, target))
        first = address_of(self._driver, target)
        return Filling(first, target.strides, memory, target.shape, value)

    def _box(self, target: LocalArray, source: LocalArray) -> Box:
        return Box(
            address_of(self._driver, target),
            target.strides,
            Allocation(*extent_of(self._driver, target)),
            address_of(self._driver, source),
            source.strides,
            Allocation(*extent_of(self._driver, source)),
            target.shape,
            target.dtype.itemsize,
        )
