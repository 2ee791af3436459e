"""The copies and fills of a rearrangement as work for streams. Pure.

Operands are numbered in one row: the shards of all sources, then the blocks that are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gpushard.frozen import dataclass
from gpushard.geometry.tiling import Tiling
from gpushard.movement.rearrangement import Bounds
from gpushard.movement.space_boxes import strides_of
from gpushard.movement.strided_copies import StridedCopies
from gpushard.runtime.phase import StridedPhase, ViewMove
from gpushard.runtime.view import View
from gpushard.typing import IntArray, Shape

Fill = tuple[int, View]
"""(operand, the part of it that gets the constant)."""


@dataclass(frozen=True, eq=False)
class Task:
    """All that is written in one memory domain: one item of its copy stream."""

    domain: int
    """The memory domain."""

    fills: tuple[Fill, ...]
    """What gets the constant."""

    phases: tuple[StridedPhase, ...]
    """They run one after the other; a later one may use what an earlier one wrote."""

    reads: tuple[int, ...]
    """Operands that must be there."""

    writes: tuple[int, ...]
    """Operands that it writes."""


def make_tasks(
    tables: Sequence[tuple[int, StridedCopies]],
    fills: Sequence[tuple[int, View]],
    blocks: IntArray,
    domain: IntArray,
    shapes: Sequence[Shape],
    itemsize: int,
) -> tuple[Task, ...]:
    """Return a task for each domain that writes something.

    Args:
      tables: (operand of the first shard, copies) of blocks that are made.
      fills: (wanted pair, part of its block), likewise.
      blocks: the wanted pairs that are made, ascending.
      domain: their domains, ascending.
      shapes: of all operands, the new blocks last.
      itemsize: bytes of an element.
    """
    first = len(shapes) - len(blocks)
    numbers = {pair: first + number for number, pair in enumerate(blocks.tolist())}
    moves: dict[int, tuple[list[ViewMove], list[ViewMove]]] = {}
    writes: dict[int, list[int]] = {}
    filled: dict[int, list[Fill]] = {}
    of_block = dict(zip(blocks.tolist(), domain.tolist(), strict=True))
    for pair, number in numbers.items():
        writes.setdefault(of_block[pair], []).append(number)
    for pair, view in fills:
        filled.setdefault(of_block[pair], []).append((numbers[pair], view))
    for shards, copies in tables:
        for pair, again, move in _moves(copies, shards, numbers, itemsize):
            moves.setdefault(of_block[pair], ([], []))[again].append(move)
    tasks = []
    for number, mine in writes.items():
        groups = [group for group in moves.get(number, ()) if group]
        reads = {of for group in groups for _, _, of, _, _ in group if of < first}
        phases = tuple(StridedPhase((), None, tuple(group), itemsize, shapes) for group in groups)
        tasks.append(
            Task(number, tuple(filled.get(number, ())), phases, tuple(sorted(reads)), tuple(mine))
        )
    return tuple(tasks)


def _moves(
    copies: StridedCopies, shards: int, numbers: dict[int, int], itemsize: int
) -> Iterator[tuple[int, bool, ViewMove]]:
    """Yield (wanted pair, whether a new block is read, copy)."""
    rows = zip(
        copies.block.tolist(),
        copies.device.tolist(),
        copies.made.tolist(),
        copies.source_domain.tolist(),
        copies.target_offset.tolist(),
        copies.source_offset.tolist(),
        copies.length.T.tolist(),
        copies.target_stride.T.tolist(),
        copies.source_stride.T.tolist(),
        strict=True,
    )
    for block, device, made, source_domain, to, of, length, to_steps, of_steps in rows:
        again = made >= 0
        target, source = views(length, (to, to_steps), (of, of_steps), itemsize)
        operand = numbers[made] if again else shards + device
        yield block, again, (numbers[block], target, operand, source, source_domain)


def views(
    length: Sequence[int],
    target: tuple[int, Sequence[int]],
    source: tuple[int, Sequence[int]],
    itemsize: int,
) -> tuple[View, View]:
    """Return both sides of a copy, its dims in the order of the target.

    Args:
      length: elements in each axis.
      target: offset and strides in elements.
      source: likewise.
      itemsize: bytes of an element.

    >>> views((2, 1, 3), (4, (1, 9, 8)), (0, (2, 9, 0)), 2)
    (View(offset=8, shape=(3, 2), strides=(16, 2)), View(offset=0, shape=(3, 2), strides=(0, 4)))
    """
    dims = [dim for dim in zip(length, target[1], source[1], strict=True) if dim[0] > 1]
    dims.sort(key=lambda dim: -dim[1])
    shape = tuple([extent for extent, _, _ in dims])
    return (
        View(target[0] * itemsize, shape, tuple([to * itemsize for _, to, _ in dims])),
        View(source[0] * itemsize, shape, tuple([of * itemsize for _, _, of in dims])),
    )


def find_fills(
    filled: Sequence[Bounds], destination: Tiling, homes: IntArray, blocks: IntArray, itemsize: int
) -> list[tuple[int, View]]:
    """Return (wanted pair, part of its block) for all that gets a constant.

    Args:
      filled: boxes of the result.
      destination: its tiling.
      homes: position of the device that is charged for each pair.
      blocks: the pairs that are made.
      itemsize: bytes of an element.
    """
    starts, stops = destination.starts[:, homes[blocks]], destination.stops[:, homes[blocks]]
    strides = strides_of(stops - starts)
    found = []
    for bounds in filled:
        low, high = np.array(bounds, np.int64).T[:, :, None]
        begin, end = np.maximum(starts, low), np.minimum(stops, high)
        offsets = ((begin - starts) * strides).sum(axis=0)
        for at in np.flatnonzero((end > begin).all(axis=0)).tolist():
            box = int(offsets[at]), strides[:, at].tolist()
            view, _ = views((end - begin)[:, at].tolist(), box, box, itemsize)
            found.append((int(blocks[at]), view))
    return found
