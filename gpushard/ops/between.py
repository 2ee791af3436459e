"""Merging one block of a reduction between memory domains.

Each merges its own parts first. Then every one of them merges a piece of the block, for which it
takes that piece of the others' states, and the pieces go to whoever wants the block. So a block of
s bytes that d domains have parts of and n domains want moves (d - 1) + (n - 1) times s bytes. Where
every domain wants a part of its own, that is the piece it merges, and (d - 1) times s bytes move.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from gpushard.frozen import dataclass
from gpushard.geometry.free_boxes import tiling_from_indices
from gpushard.geometry.tiling import Tiling
from gpushard.movement.collectives import all_reduce, reduce_scatter, rows_of, tiling_over
from gpushard.ops.fold import Fold, as_state, merged_rows
from gpushard.ops.reduced import Reduced
from gpushard.ops.stage import Job, Parts, Stage
from gpushard.typing import Shape

Wanted: TypeAlias = tuple[int, int]
"""(memory domain, box of the result)."""


@dataclass(frozen=True, eq=False)
class Block:
    """A natural block whose parts lie in several domains, or not where they are wanted."""

    members: tuple[tuple[int, ...], ...]
    """The calls whose parts each domain merges, in mesh order."""

    wanting: dict[Wanted, int]
    """What is wanted of it where, with the device that pays."""

    @property
    def calls(self) -> list[int]:
        """All of these calls."""
        return [call for calls in self.members for call in calls]


class Between:
    """The merging of one block between domains: an all-reduce or a reduce-scatter of its parts.

    Args:
      reduced: the reduction.
      block: whose parts lie where.
      jobs: the calls that made the parts.
      own: how many elements each of them reduced.
    """

    def __init__(
        self, reduced: Reduced, block: Block, jobs: Sequence[Job], own: Sequence[int]
    ) -> None:
        homes = [jobs[calls[0]].home for calls in block.members]
        boxes = [box for _, box in block.wanting]
        wanted = sum(int(reduced.result.volumes[home]) for home in block.wanting.values())
        once = len(set(boxes)) == len(boxes) and wanted == int(reduced.natural.volumes[homes[0]])
        self.scatters = once and len(boxes) > 1
        """Whether every domain merges just what it wants, which no other one does."""
        self._name = reduced.row.name
        self._dtypes = reduced.dtypes
        self._members: list[Any] = [reduced.natural.devices[home] for home in homes]
        self._shape: Shape = reduced.natural.shard_shapes[homes[0]]
        self._wanting: list[Any] = [reduced.result.devices[h] for h in block.wanting.values()]
        width, merge = len(self._dtypes), reduced.make("merge")
        self._own = Fold(
            block.members,
            [None] * len(homes),
            reduced.runtime,
            self._name,
            functools.partial(as_state, width, merge),
            [
                Job(home, (self._shape,) * width, (tuple(own[call] for call in calls),))
                for home, calls in zip(homes, block.members, strict=True)
            ],
            [-1] * len(reduced.natural.devices),
            [reduced.natural] * width,
            self._dtypes,
        )
        self._sums = tuple(sum(own[call] for call in calls) for calls in block.members)
        self._rows_kernel = functools.partial(merged_rows, merge)
        if not self.scatters:
            pieces = tiling_over(self._members, (math.prod(self._shape),), 0)
        else:
            whole = tuple(slice(0, n) for n in self._shape)
            regions = [reduced.region(home) or whole for home in block.wanting.values()]
            places = dict(zip(self._wanting, regions, strict=True))
            rows = {place: (slice(0, len(homes)), *box) for place, box in places.items()}
            self._cut = tiling_from_indices((len(homes), *self._shape), rows)
            pieces = tiling_from_indices(self._shape, places)
        self._merged = self._merging(reduced, pieces)

    def _merging(self, reduced: Reduced, tiling: Tiling) -> Stage:
        """Return the calls that merge the rows of matrices, a piece each."""
        width = len(self._dtypes)
        there = [n for n in range(len(tiling.devices)) if tiling.volumes[n]]
        return Stage(
            reduced.runtime,
            self._name,
            self._rows_kernel,
            [Job(n, (tiling.shard_shapes[n],) * width, (self._sums,)) for n in there],
            [there.index(n) if n in there else -1 for n in range(len(tiling.devices))],
            [tiling] * width,
            self._dtypes,
        )

    def run(self, state: Sequence[Parts]) -> list[Parts]:
        """Return for each array of a state that of what is wanted, for each that wants some."""
        row = self._shape if self.scatters else (math.prod(self._shape),)
        rows = [
            rows_of(self._members, parts.values, parts.claims, dtype, row, settled=parts.settled)
            for parts, dtype in zip(self._own.fold(state), self._dtypes, strict=True)
        ]
        if self.scatters:
            made = reduce_scatter(rows, self._cut, self._merged.run, self._name)
            return [Parts(buffer.values, buffer.claims, buffer.settled) for buffer in made]
        made = all_reduce(rows, self._wanting, self._merged.run, self._name)
        return [
            Parts(
                [value.reshape(self._shape) for value in whole.values], whole.claims, whole.settled
            )
            for whole in made
        ]
