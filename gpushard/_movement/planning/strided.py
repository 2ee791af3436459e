"""Copies between strided parts of blocks, as arrays of numbers. Pure.

If dims of source and result have no common factor, blocks overlap in short runs. There may be a run
for every row, or for every element. Neighbouring runs are often equally far apart in both blocks;
then they are joined to one copy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from gpushard._frozen import dataclass
from gpushard._typing import IntArray


@dataclass(frozen=True, eq=False)
class StridedCopies:
    """Copies from shards or new blocks into new blocks; offsets and strides count elements.

    Axes of repetitions come last; they have stride 0 in the block that is read.
    """

    block: IntArray  # the wanted pair of the new block that is written
    device: IntArray  # the source's device that has the shard to read; -1 to read a new block
    # The wanted pair of the new block to read, once those elements are written; -1 to read a shard.
    read_pair: IntArray
    source_domain: IntArray  # domain that is read
    remote: IntArray  # whether that is another domain than the new block's
    target_offset: IntArray  # first element within the new block
    source_offset: IntArray  # first element within the block that is read
    length: IntArray  # elements in each axis, including repetitions, shape (axes, copies)
    target_stride: IntArray  # elements between neighbours in the new block, of that shape
    source_stride: IntArray  # elements between neighbours in the block that is read, of that shape
    # When it runs. Elements that it reads of another domain's new blocks were written in the wave
    # before; elements of its own domain's new blocks, in a phase before.
    wave: IntArray
    phase: IntArray  # the phase within its wave
    # The first point of the space, shape (axes of the space, copies); no axes if it is not needed.
    point: IntArray

    @property
    def volume(self) -> IntArray:
        """Elements of each copy."""
        return np.asarray(self.length.prod(axis=0))

    def take(self, at: IntArray) -> StridedCopies:
        """Return some of the copies."""
        return StridedCopies(
            **{field.name: getattr(self, field.name)[..., at] for field in dataclasses.fields(self)}
        )


def concat_copies(tables: Sequence[StridedCopies]) -> StridedCopies:
    """Concatenate the copies of several tables; at least one table."""
    return StridedCopies(
        **{
            field.name: np.concatenate([getattr(table, field.name) for table in tables], axis=-1)
            for field in dataclasses.fields(StridedCopies)
        }
    )


FEW = 64  # up to this many copies are not worth a search for joins


def join_copies(copies: StridedCopies, axis: int) -> StridedCopies:
    """Join copies of equal boxes that follow each other in equal steps along an axis of the space.

    If there are many copies, the result has one axis more. Few copies are returned as they are.
    """
    if len(copies.block) <= FEW:
        return copies
    fields = [copies.block, copies.device, copies.read_pair, copies.source_domain, copies.remote]
    fields.append(copies.wave)
    beside = np.delete(copies.point, axis, axis=0)
    alike = np.concatenate(
        (np.stack(fields), beside, copies.length, copies.target_stride, copies.source_stride)
    )
    order = np.lexsort((copies.point[axis], *alike))
    copies, alike = copies.take(order), alike[:, order]
    same = (alike[:, 1:] == alike[:, :-1]).all(axis=0)
    steps = np.stack((np.diff(copies.target_offset), np.diff(copies.source_offset)))
    first = _progression_starts(same, steps)
    count = np.diff(first, append=len(order))
    step = np.zeros((2, len(first)), np.int64)
    longer = np.flatnonzero(count > 1)
    step[:, longer] = steps[:, first[longer]]
    joint = copies.take(first)
    return dataclasses.replace(
        joint,
        length=np.concatenate((joint.length, count[None])),
        target_stride=np.concatenate((joint.target_stride, step[:1])),
        source_stride=np.concatenate((joint.source_stride, step[1:])),
    )


def _progression_starts(same: IntArray, steps: IntArray) -> IntArray:
    """Find where arithmetic progressions of copies start.

    If the step changes, the copy at which it changes belongs to the progression before, and the
    next progression starts behind it.

    Args:
      same: whether each copy but the first is like the copy before.
      steps: steps from the copy before to each copy, in both blocks.
    """
    starts = np.ones(len(same) + 1, bool)
    going_on = np.zeros(len(same), bool)
    going_on[1:] = same[1:] & same[:-1] & (steps[:, 1:] == steps[:, :-1]).all(axis=0)
    second = same.copy()
    second[1:] &= ~same[:-1]  # the second copy of its kind joins the first with any step
    starts[1:] = ~(going_on | second)
    return np.flatnonzero(starts)
