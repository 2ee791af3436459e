"""Which operations of a loop nest share loops, whatever the loops are. Pure.

Operations that go over the same loops, and need of one another no more than the same turn has, are
a group. For the nearest of 32 centres, of 16 features each:

    d = points * centres, a = sum(d)       over 32 centres and 16 features
    e = own - a, p = argmin(e)             over 32 centres: `a` is complete after all features
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from gpushard._runtime.nests import Op


@dataclasses.dataclass(eq=False)
class LoopGroup:
    """Operations that share their loops."""

    loops: frozenset[int]
    first: frozenset[int] = frozenset()  # loops around them in whose first turn alone they are done
    reduced: frozenset[int] | None = None  # those of `loops` that they reduce, if they do
    places: list[int] = dataclasses.field(default_factory=list)  # of the operations


G = TypeVar("G", bound=LoopGroup)


def loop_groups(
    ops: Mapping[int, Op], operands: Mapping[int, Sequence[int]], alone: Callable[[int], G]
) -> list[G]:
    """Return operations in groups; none comes before what it needs.

    Args:
      ops: the operations by place, each after those that it needs.
      operands: the places of what each takes.
      alone: makes the group of one operation, by its place, which is not yet in it.
    """
    groups: list[G] = []
    group_of: dict[int, G] = {}
    for place in ops:
        own, after = alone(place), 0
        for at in operands[place]:
            if at in group_of:
                of = group_of[at]
                same = (of.loops, of.first) == (own.loops, own.first)
                apart = not same or ops[at].kernel is None  # complete when its loops are over
                after = max(after, groups.index(of) + apart)
        for group in groups[after:]:
            same = (group.loops, group.first) == (own.loops, own.first)
            if same and (own.reduced is None or group.reduced in (None, own.reduced)):
                break
        else:
            group = own
            groups.append(group)
        group.places.append(place)
        group.reduced = group.reduced if own.reduced is None else own.reduced
        group_of[place] = group
    return groups
