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

import numpy as np

from gpushard.frozen import dataclass
from gpushard.geometry.free_boxes import tiling_from_indices
from gpushard.geometry.tiling import Assignment, Tiling
from gpushard.movement.buffer import ShardedBuffer
from gpushard.movement.execute import run
from gpushard.movement.reshard import plan_for
from gpushard.ops.fold import Fold, as_state, merged_rows
from gpushard.ops.reduced import Reduced
from gpushard.ops.stage import Job, Parts, Stage
from gpushard.typing import Device, Shape

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


def between(
    reduced: Reduced, block: Block, jobs: Sequence[Job], own: Sequence[int]
) -> Everywhere | Scattered:
    """Return what merges a block between domains."""
    boxes = [box for _, box in block.wanting]
    wanted = sum(int(reduced.result.volumes[home]) for home in block.wanting.values())
    size = int(reduced.natural.volumes[jobs[block.calls[0]].home])
    once = len(set(boxes)) == len(boxes) and wanted == size
    return (Scattered if once and len(boxes) > 1 else Everywhere)(reduced, block, jobs, own)


class _Between:
    """The merging of one block between domains.

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
        self._name = reduced.row.name
        self._dtypes = reduced.dtypes
        self._devices = [reduced.natural.devices[home] for home in homes]
        self._shape: Shape = reduced.natural.shard_shapes[homes[0]]
        self._wanting = [reduced.result.devices[home] for home in block.wanting.values()]
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

    def _pieces(self, reduced: Reduced, tiling: Tiling) -> Stage:
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

    def _matrices(
        self, state: Sequence[Parts], shape: Shape, rows: Tiling, to: Tiling
    ) -> list[ShardedBuffer]:
        """Return each array of a state with a row of `shape` from each domain, cut as `to` says."""
        matrices = []
        for parts, dtype in zip(self._own.fold(state), self._dtypes, strict=True):
            values = [value.reshape((1, *shape)) for value in parts.values]
            matrix = ShardedBuffer(rows, dtype, values, parts.claims, parts.settled)
            matrices.append(run(plan_for(matrix, to), (matrix,), self._name))
        return matrices


class Everywhere(_Between):
    """Every domain merges an equal piece, and who wants the block gets all pieces."""

    scatters = False

    def __init__(self, reduced: Reduced, *block: Any) -> None:
        super().__init__(reduced, *block)
        members, size = len(self._devices), math.prod(self._shape)
        self._rows = _tiling(self._devices, (members, size), 0)
        self._columns = _tiling(self._devices, (members, size), 1)
        self._merged = self._pieces(reduced, _tiling(self._devices, (size,), 0))
        self._everywhere = _tiling(self._wanting, (size,), None)

    def run(self, state: Sequence[Parts]) -> list[Parts]:
        """Return for each array of a state that of the whole block, for each that wants some."""
        size = math.prod(self._shape)
        matrices = self._matrices(state, (size,), self._rows, self._columns)
        merged = []
        for vector in self._merged.run(matrices):
            whole = run(plan_for(vector, self._everywhere), (vector,), self._name)
            values = [value.reshape(self._shape) for value in whole.values]
            merged.append(Parts(values, whole.claims, whole.settled))
        return merged


class Scattered(_Between):
    """Every domain merges just what it wants, which no other one does."""

    scatters = True

    def __init__(self, reduced: Reduced, block: Block, *jobs: Any) -> None:
        super().__init__(reduced, block, *jobs)
        members = len(self._devices)
        whole = tuple(slice(0, n) for n in self._shape)
        regions = [reduced.region(home) or whole for home in block.wanting.values()]
        boxes = dict(zip(self._wanting, regions, strict=True))
        rows = {device: (slice(0, members), *box) for device, box in boxes.items()}
        self._rows = _tiling(self._devices, (members, *self._shape), 0)
        self._cut = tiling_from_indices((members, *self._shape), rows)
        self._merged = self._pieces(reduced, tiling_from_indices(self._shape, boxes))

    def run(self, state: Sequence[Parts]) -> list[Parts]:
        """Return for each array of a state that of each box that is wanted."""
        matrices = self._matrices(state, self._shape, self._rows, self._cut)
        made = self._merged.run(matrices)
        return [Parts(buffer.values, buffer.claims, buffer.settled) for buffer in made]


def _tiling(devices: Sequence[Device], shape: Shape, split: int | None) -> Tiling:
    """Return the tiling that splits one dim, or none, over devices."""
    blocks = np.zeros((len(shape), len(devices)), np.int64)
    counts = [1] * len(shape)
    if split is not None:
        blocks[split] = np.arange(len(devices))
        counts[split] = len(devices)
    return Tiling.regular(shape, Assignment(tuple(devices), tuple(counts), blocks))
