"""Specs that fit a shape. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from gpushard.geometry.partition_spec import PartitionSpec
from gpushard.typing import Shape


def cut_spec(spec: PartitionSpec, shape: Shape) -> PartitionSpec:
    """Return a spec without entries beyond the rank and of dims that have nothing to split.

    >>> cut_spec(PartitionSpec("x", "y", "z"), (8, 1))
    PartitionSpec('x', None)
    """
    return PartitionSpec(*(e if n > 1 else None for e, n in zip(spec, shape, strict=False)))


def spread(shape: Shape, axes: Mapping[str, int]) -> PartitionSpec:
    """Return a spec that cuts the longest dims by the largest mesh axes.

    Each axis, the largest first, cuts the dim whose blocks are the longest by then; if they are
    shorter than the axis, some devices get nothing. Where blocks have one element, it is left out.

    >>> spread((8, 6), {"x": 2, "y": 4}), spread((3, 1), {"x": 4}), spread((), {"x": 4})
    (PartitionSpec('y', 'x'), PartitionSpec('x', None), PartitionSpec())
    """
    blocks = list(shape)
    names: list[tuple[str, ...]] = [()] * len(shape)
    for name, size in sorted(axes.items(), key=lambda item: -item[1]):
        longest = max(blocks, default=0)
        if longest <= 1 or size == 1:
            continue
        dim = blocks.index(longest)
        names[dim] += (name,)
        blocks[dim] = -(-longest // size)
    return PartitionSpec(*names)
