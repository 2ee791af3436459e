"""A plan as Python objects, ready to run: what to allocate, reuse and copy. Pure."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from gpushard.movement.reuse import COPY, EMPTY, VIEW
from gpushard.movement.steps import Step, make_steps, source_index
from gpushard.runtime.phase import BoxIndex
from gpushard.typing import Shape

if TYPE_CHECKING:
    from gpushard.movement.plan import Plan


class Recipe:
    """What a plan does, independent of any particular array.

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
        self.domains: list[int] = np.unique(wanted.domain[plan.copied]).tolist()
        """The memory domains that write something."""
        self.claim: Any = None
        """Counts all of them inside `commit`, where they are small; once that was asked."""
        self.way: Any = None
        """By which streams it runs, once that was asked; see `gpushard.movement.ways`."""
        self.slots: list[tuple[int, int, BoxIndex | None]] = self._slots()
        """For each destination device (kind, allocation or source device, index of a view)."""
        self.writes_all: bool = all(kind == COPY for kind, _, _ in self.slots)
        """Whether every device gets a block that is written."""

    @functools.cached_property
    def steps(self) -> tuple[Step, ...]:
        """The copies, in an order in which they may run."""
        return make_steps(self._plan)

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
            home = int(held.home[reused])
            if kind == VIEW:  # all of one root, should devices hold copies of their own
                slots.append((kind, home, self._view_index(pair)))
                continue
            mine = own.get(plan.destination.devices[position], home)
            slots.append((kind, mine if held.of_device[mine] == reused else home, None))
        return slots

    def _view_index(self, pair: int) -> BoxIndex:
        plan = self._plan
        of = plan.overlap.held.home[plan.reused[pair]]
        to = plan.overlap.wanted.home[pair]
        offsets, lengths = [], []
        for m in plan.piece.maps:
            start, length = m.start, 1
            if m.destination is not None:
                start += m.step * int(plan.destination.starts[m.destination, to])
                length = plan.destination.shard_shapes[to][m.destination]
            if m.source is not None:
                start -= int(plan.source.starts[m.source, of])
            offsets.append(start)
            lengths.append(length)
        return source_index(plan.piece, offsets, lengths)
