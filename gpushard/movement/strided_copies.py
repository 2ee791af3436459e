"""Copies between strided parts of blocks, as arrays of numbers. Pure."""

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

    block: IntArray
    """The wanted pair whose new block is written."""

    device: IntArray
    """The source's device whose shard is read; -1 where a new block is."""

    made: IntArray
    """The wanted pair of the same domain whose new block is read, after what is copied from shards
    was written; -1 where a shard is."""

    source_domain: IntArray
    """Domain that is read."""

    remote: IntArray
    """Whether that is another one than the block's."""

    target_offset: IntArray
    """First element within the new block."""

    source_offset: IntArray
    """First element within what is read."""

    point: IntArray
    """The first point of the space, shape (axes of the space, copies)."""

    length: IntArray
    """Elements in each axis, those of repetitions as well, shape (axes, copies)."""

    target_stride: IntArray
    """Elements between neighbours in the new block, likewise."""

    source_stride: IntArray
    """And in what is read; 0 in axes of repetitions."""

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
