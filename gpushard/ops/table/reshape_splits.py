"""Which mesh axes split the dims of a reshaped array. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gpushard.movement.planning.maps import shared_factors
from gpushard.ops.row import Params
from gpushard.ops.rule import Splits
from gpushard.typing import Shape


def reshape_splits(
    shapes: Sequence[Shape], params: Params, splits: Splits, sizes: Mapping[str, int]
) -> Splits:
    """Return the mesh axes that split each dim of a reshaped array.

    Where the outermost factor of a dim is also that of a dim of the result, and its axes cut it
    evenly, they stay with it: nothing moves for them. Others go to the first dim of the result that
    has none and is at least as long as they are many, among those that share elements with theirs.

    >>> reshape_splits([(8, 8)], ((4, 16),), (("x",), ("y",)), {"x": 4, "y": 2})
    (('x',), ('y',))
    >>> reshape_splits([(8, 4)], ((32,),), (("x",), ()), {"x": 4})
    (('x',),)
    """
    (shape,), (new,) = shapes, params
    result: list[tuple[str, ...]] = [()] * len(new)
    if not math.prod(shape):
        return tuple(result)
    related = _related(shape, new)
    for dim, axes in enumerate(splits):
        if not axes or shape[dim] <= 1:
            continue
        many = math.prod(sizes[axis] for axis in axes)
        for target in related.get(dim, ()):
            if not result[target] and new[target] >= many:
                result[target] = axes
                break
    return tuple(result)


def _related(shape: Shape, new: Shape) -> dict[int, list[int]]:
    """Return for a dim of a shape the dims of another one that share elements with it.

    They are those in the same stretch, outer ones first: the stretches count as many elements in
    both.
    """
    groups: list[tuple[set[int], set[int]]] = []
    for old, others in shared_factors(shape, new):
        mine, theirs = {dim for dim, _ in old}, {dim for dim, _ in others}
        if groups and (groups[-1][0] & mine or groups[-1][1] & theirs):
            groups[-1][0].update(mine)
            groups[-1][1].update(theirs)
        else:
            groups.append((mine, theirs))
    return {dim: sorted(theirs) for mine, theirs in groups for dim in mine}
