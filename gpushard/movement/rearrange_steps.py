"""The copies and fills of a rearrangement as work for streams. Pure.

Operands are numbered in one row: the shards of all sources, then the blocks that are made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from gpushard.geometry.tiling import Tiling
from gpushard.movement.rearrangement import Bounds
from gpushard.movement.space_boxes import strides_of
from gpushard.movement.strided_copies import StridedCopies
from gpushard.runtime.backend import StridedPhase, ViewMove
from gpushard.runtime.view import View
from gpushard.typing import IntArray, Shape

Fill = tuple[int, View]
"""(operand, the part of it that gets the constant)."""


@dataclasses.dataclass(frozen=True, eq=False)
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
        shape, to_strides, of_strides = merged(length, to_steps, of_steps, itemsize)
        target = View(to * itemsize, shape, to_strides)
        source = View(of * itemsize, shape, of_strides)
        operand = numbers[made] if again else shards + device
        yield block, again, (numbers[block], target, operand, source, source_domain)


def merged(
    length: Sequence[int], target: Sequence[int], source: Sequence[int], itemsize: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return as few dims as describe a copy: lengths, and strides in bytes on both sides.

    >>> merged((2, 1, 3, 4), (12, 12, 4, 1), (24, 5, 4, 1), 8)
    ((2, 12), (96, 8), (192, 8))
    """
    dims = sorted(
        (dim for dim in zip(length, target, source, strict=True) if dim[0] > 1),
        key=lambda dim: -dim[1],
    )
    result: list[tuple[int, int, int]] = []
    for extent, to, of in dims:
        if result and result[-1][1:] == (extent * to, extent * of):
            extent *= result.pop()[0]
        result.append((extent, to, of))
    return (
        tuple(extent for extent, _, _ in result),
        tuple(to * itemsize for _, to, _ in result),
        tuple(of * itemsize for _, _, of in result),
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
    for box in filled:
        low, high = np.array(box, np.int64).T[:, :, None]
        begin, end = np.maximum(starts, low), np.minimum(stops, high)
        offsets = ((begin - starts) * strides).sum(axis=0)
        for at in np.flatnonzero((end > begin).all(axis=0)).tolist():
            lengths, steps = (end - begin)[:, at].tolist(), strides[:, at].tolist()
            shape, step, _ = merged(lengths, steps, steps, itemsize)
            found.append((int(blocks[at]), View(int(offsets[at]) * itemsize, shape, step)))
    return found
