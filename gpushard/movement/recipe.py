"""A plan as Python objects, ready to run: what to allocate, reuse and copy. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpushard.movement.reuse import COPY, EMPTY, VIEW
from gpushard.typing import IntArray, Shape

if TYPE_CHECKING:
    from gpushard.movement.plan import Plan

BoxIndex = tuple[Any, ...]


class Recipe:
    """The steps of a plan, independent of any particular array.

    Args:
      plan: what to do.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        wanted = plan.overlap.wanted
        homes = wanted.home[plan.copied].tolist()
        shapes = plan.destination.shard_shapes
        nbytes = (plan.overlap.volume[plan.copied] * plan.itemsize).tolist()
        self.allocations: list[tuple[int, Shape, int]] = [
            (home, shapes[home], size) for home, size in zip(homes, nbytes, strict=True)
        ]
        """(position of the home device, shape, bytes) of each block that is written."""
        self.largest: int = max(nbytes, default=0)
        """Bytes of the largest of them."""
        self.total: int = sum(nbytes)
        """Bytes of all of them."""
        self.order: tuple[int, ...] | None = None if plan.piece.in_order else plan.piece.order
        """How a source view is transposed before it is copied; None for not at all."""
        self.domains: list[int] = np.unique(wanted.domain[plan.copied]).tolist()
        """The memory domains that write something."""
        self.slots: list[tuple[int, int, BoxIndex | None]] = self._slots()
        """For each destination device (kind, allocation or source device, index of a view)."""
        self._boxes: dict[int, list[tuple[int, BoxIndex, int, BoxIndex, int]]] = {}

    def _slots(self) -> list[tuple[int, int, BoxIndex | None]]:
        plan = self._plan
        held = plan.overlap.held
        number = np.zeros(len(plan.kind), np.int64)
        number[plan.copied] = np.arange(len(plan.copied))
        own = {device: i for i, device in enumerate(plan.source.devices)}
        slots: list[tuple[int, int, BoxIndex | None]] = []
        for position, pair in enumerate(plan.overlap.wanted.of_device.tolist()):
            kind = int(plan.kind[pair])
            if kind in (COPY, EMPTY):
                slots.append((kind, int(number[pair]), None))
                continue
            reused = int(plan.reused[pair])
            if kind == VIEW:  # all of one root, should devices hold copies of their own
                slots.append((kind, int(held.home[reused]), self._view_index(pair)))
                continue
            mine = own.get(plan.destination.devices[position], -1)
            if mine < 0 or held.of_device[mine] != reused:
                mine = int(held.home[reused])
            slots.append((kind, mine, None))
        return slots

    def _view_index(self, pair: int) -> BoxIndex:
        runs = self._plan.overlap.runs
        at = self._plan.overlap.first[:, pair]
        offsets = [int(run.source_offset[i]) for run, i in zip(runs, at, strict=True)]
        lengths = [int(run.length[i]) for run, i in zip(runs, at, strict=True)]
        return self._source_index(offsets, lengths)

    def boxes(self, domain: int) -> list[tuple[int, BoxIndex, int, BoxIndex, int]]:
        """Return the copies into one domain.

        Returns:
          (allocation, index within it, source device, index within its shard, source domain).
        """
        found = self._boxes.get(domain)
        if found is None:
            found = self._boxes[domain] = self._make_boxes(domain)
        return found

    def sources(self, domain: int) -> list[int]:
        """Return the source devices that the copies into one domain read."""
        part = self._part(domain)
        home = self._plan.overlap.held.home[self._plan.copies.held[part]]
        return [int(position) for position in np.unique(home)]

    def targets(self, domain: int) -> list[int]:
        """Return the allocations that lie in one domain."""
        domains = self._plan.overlap.wanted.domain[self._plan.copied]
        return [int(i) for i in np.flatnonzero(domains == domain)]

    def _part(self, domain: int) -> slice:
        low, high = self._plan.copies.domain.searchsorted([domain, domain + 1]).tolist()
        return slice(low, high)

    def _make_boxes(self, domain: int) -> list[tuple[int, BoxIndex, int, BoxIndex, int]]:
        copies, part = self._plan.copies, self._part(domain)
        number = self._plan.copied.searchsorted(copies.pair[part])
        home = self._plan.overlap.held.home[copies.held[part]]
        length = _rows(copies.length[:, part])
        rows = zip(
            number.tolist(),
            _rows(copies.destination_offset[:, part]),
            home.tolist(),
            _rows(copies.source_offset[:, part]),
            length,
            copies.source_domain[part].tolist(),
            strict=True,
        )
        return [
            (
                target,
                self._destination_index(offsets, lengths),
                source,
                self._source_index(source_offsets, lengths),
                source_domain,
            )
            for target, offsets, source, source_offsets, lengths, source_domain in rows
        ]

    def _destination_index(self, offsets: list[int], lengths: list[int]) -> BoxIndex:
        index: list[Any] = []
        for m, offset, length in zip(self._plan.piece.maps, offsets, lengths, strict=True):
            if m.destination is not None:
                index.append(offset if m.source is None else slice(offset, offset + length))
        return (*index, ...)

    def _source_index(self, offsets: list[int], lengths: list[int]) -> BoxIndex:
        index: list[Any] = [None] * self._plan.source.ndim
        for m, offset, length in zip(self._plan.piece.maps, offsets, lengths, strict=True):
            if m.source is None:
                continue
            if m.destination is None:
                index[m.source] = offset
            else:
                stop = offset + m.step * length
                index[m.source] = slice(offset, stop if stop >= 0 else None, m.step)
        return (*index, ...)


def _rows(columns: IntArray) -> list[list[int]]:
    rows: list[list[int]] = columns.T.tolist()
    return rows
