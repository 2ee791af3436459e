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
    outer, related = _related(shape, new)
    moved = []
    for dim, axes in enumerate(splits):
        if not axes or shape[dim] <= 1:
            continue
        many = math.prod(sizes[axis] for axis in axes)
        target, common = outer.get(dim, (-1, 1))
        if target >= 0 and not result[target] and common % many == 0:
            result[target] = axes
        else:
            moved.append((dim, axes, many))
    for dim, axes, many in moved:
        for target in related.get(dim, ()):
            if not result[target] and new[target] >= many:
                result[target] = axes
                break
    return tuple(result)


def _related(shape: Shape, new: Shape) -> tuple[dict[int, tuple[int, int]], dict[int, list[int]]]:
    """Return which dims of two shapes belong together.

    Returns:
      For a dim of the first whose outermost factor is the outermost one of a dim of the second,
      that dim and the factor; and for every dim the dims of the second in the same stretch, outer
      ones first: the stretches count as many elements in both.
    """
    outer: dict[int, tuple[int, int]] = {}
    groups: list[tuple[set[int], set[int]]] = []
    seen_old: set[int] = set()
    seen_new: set[int] = set()
    for old, others in shared_factors(shape, new):
        mine, theirs = {dim for dim, _ in old}, {dim for dim, _ in others}
        if len(old) == len(others) == 1:
            (dim, n), (target, _) = old[0], others[0]
            if dim not in seen_old and target not in seen_new:
                outer[dim] = target, n
        seen_old |= mine
        seen_new |= theirs
        if groups and (groups[-1][0] & mine or groups[-1][1] & theirs):
            groups[-1][0].update(mine)
            groups[-1][1].update(theirs)
        else:
            groups.append((mine, theirs))
    related = {dim: sorted(theirs) for mine, theirs in groups for dim in mine}
    return outer, related
