"""Copies between strided parts of blocks, as arrays of numbers. Pure.

Where the dims of source and result have no common factor, blocks meet in short runs: there may be
one for every row, or for every element. Neighbours are often equally far apart on both sides; then
they are one copy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from gpushard.frozen import dataclass
from gpushard.typing import IntArray


@dataclass(frozen=True, eq=False)
class StridedCopies:
    """Copies into new blocks, of shards or of other new blocks; places are counted in elements.

    Axes of repetitions come last; in these nothing moves in what is read.
    """

    block: IntArray  # the wanted pair whose new block is written
    device: IntArray  # the source's device whose shard is read; -1 where a new block is
    # The wanted pair whose new block is read, after what is read of it was written; -1 where a
    # shard is.
    made: IntArray
    source_domain: IntArray  # domain that is read
    remote: IntArray  # whether that is another one than the block's
    target_offset: IntArray  # first element within the new block
    source_offset: IntArray  # first element within what is read
    length: IntArray  # elements in each axis, those of repetitions as well, shape (axes, copies)
    target_stride: IntArray  # elements between neighbours in the new block, likewise
    source_stride: IntArray  # and in what is read; 0 in axes of repetitions
    # When it is made: what it reads of new blocks of other domains was written in the wave before;
    # what it reads of its own domain's in the phases before.
    wave: IntArray
    phase: IntArray  # in which phase of its wave
    # The first point of the space, shape (axes of the space, copies); of no axes where nobody needs
    # it.
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


def concatenated(tables: Sequence[StridedCopies]) -> StridedCopies:
    """Return the copies of several tables in one; at least one table."""
    return StridedCopies(
        **{
            field.name: np.concatenate([getattr(table, field.name) for table in tables], axis=-1)
            for field in dataclasses.fields(StridedCopies)
        }
    )


FEW = 64  # so many copies are not worth the search


def joined(copies: StridedCopies, axis: int) -> StridedCopies:
    """Join copies of equal boxes that follow each other in equal steps, if there are many.

    The copies get one axis more.
    """
    if len(copies.block) <= FEW:
        return copies
    fields = [copies.block, copies.device, copies.made, copies.source_domain, copies.remote]
    fields.append(copies.wave)
    beside = np.delete(copies.point, axis, axis=0)
    alike = np.concatenate(
        (np.stack(fields), beside, copies.length, copies.target_stride, copies.source_stride)
    )
    order = np.lexsort((copies.point[axis], *alike))
    copies, alike = copies.take(order), alike[:, order]
    same = (alike[:, 1:] == alike[:, :-1]).all(axis=0)
    steps = np.stack((np.diff(copies.target_offset), np.diff(copies.source_offset)))
    first = _starts(same, steps)
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


def _starts(same: IntArray, steps: IntArray) -> IntArray:
    """Return where progressions start.

    A copy belongs to the progression that ends in it; so where the step changes, the next
    progression starts behind the copy that both could have.

    Args:
      same: whether each copy but the first is like the one before.
      steps: from the one before to it, on both sides.
    """
    starts = np.ones(len(same) + 1, bool)
    going_on = np.zeros(len(same), bool)
    going_on[1:] = same[1:] & same[:-1] & (steps[:, 1:] == steps[:, :-1]).all(axis=0)
    second = same.copy()
    second[1:] &= ~same[:-1]  # right behind the first of its kind: any step will do
    starts[1:] = ~(going_on | second)
    return np.flatnonzero(starts)
