"""Which groups of operations share loops within a thread. Pure.

Groups that follow one another share a loop where none needs what another one reduces over it. For
the nearest of 32 centres, of 16 features each:

    groups                                 loops
    d = points * centres, a = sum(d)       over 32 centres: over 16 features: d, add to a
    e = own - a, p = argmin(e)                              e, compare with p

Of `d`, `a` and `e` a thread has one element then, in a register. Loops of few operations are
unrolled, so that what is kept across them can be in registers, too.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence

from gpushard.runtime.cuda.kernels.passes import MOST_UNROLLED, Passes
from gpushard.runtime.loop_groups import LoopGroup, loop_groups

ROW = -1
"""Stands for the loop over the rows of a thread, which is inside all others."""

NO_LOOPS = frozenset[int]()


@dataclasses.dataclass(eq=False)
class Group(LoopGroup):
    """Operations that go over the same loops within a thread."""

    path: tuple[Loop, ...] = ()  # what is around it

    def next_loops(self, around: Iterable[Loop], order: Sequence[int]) -> list[int]:
        """Return which loops may be next inside of others; those that it reduces are innermost."""
        left = self.loops - {ROW, *[node.loop for node in around]}
        ordered = [loop for loop in order if loop in left]
        return [loop for loop in ordered if loop not in (self.reduced or ())] or ordered[:1]


@dataclasses.dataclass(eq=False)
class Loop:
    """A loop that groups share, one after the other."""

    loop: int
    length: int
    body: list[Loop | Group] = dataclasses.field(default_factory=list)
    ends: list[Group] = dataclasses.field(default_factory=list)  # that have all they reduce then
    fetched: list[int] = dataclasses.field(default_factory=list)  # loads that are kept before it
    statements: int = 0  # of all turns
    of_block: bool = False  # whether the threads of a block share its turns

    @property
    def is_unrolled(self) -> bool:
        """Whether each turn is a text of its own."""
        return self.statements <= MOST_UNROLLED


class Nesting:
    """Finds the loops of operations.

    Args:
      passes: the operations.
      within: lengths of the loops, in order, the rows of a thread last.
      rows: loops of rows; what varies along these a thread does for each of its rows.
    """

    def __init__(self, passes: Passes, within: Mapping[int, int], rows: Iterable[int]) -> None:
        self._passes, self._ops = passes, passes.ops
        self.within, self._rows = within, frozenset(rows)

    def is_of_rows(self, loops: Iterable[object]) -> bool:
        """Whether something varies along the loops of rows."""
        return not self._rows.isdisjoint(loops)

    def loops_of(self, loops: Iterable[object]) -> list[int]:
        """Return those of some loops that are within a thread, in order."""
        own = set(loops)
        rows = self.is_of_rows(own)
        return [loop for loop in self.within if loop in own or (loop == ROW and rows)]

    def groups(self, places: Iterable[int]) -> list[Group]:
        """Return operations in groups; none comes before what it needs."""

        def alone(place: int) -> Group:
            op = self._ops[place]
            plain = op.kernel is not None or self._passes.is_sum(place)
            reduced = None if plain else frozenset(self.loops_of(op.reduced))
            return Group(frozenset(self.loops_of({*op.loops, *op.reduced})), reduced=reduced)

        ops = {place: self._ops[place] for place in places}
        return loop_groups(ops, self._passes.operands, alone)

    def nest(self, groups: Sequence[Group], *, of_block: bool = False) -> Loop:
        """Put groups into loops, and return what stands for all of them.

        Args:
          groups: what there is to do, in an order in which it can be done.
          of_block: whether the threads of a block share outer loops that no group reduces.
        """
        whole = Loop(ROW, 1)
        self._fill(whole, groups, (), of_block)
        return whole

    def _fill(
        self, node: Loop, groups: Sequence[Group], path: tuple[Loop, ...], of_block: bool
    ) -> None:
        rest, order = [*groups], [*self.within]
        while rest:
            first = rest.pop(0)
            first.path = path
            loops = first.next_loops(path, order)
            if not loops:
                node.body.append(first)
                rows = self.within[ROW] if ROW in first.loops else 1
                node.statements += len(first.places) * rows
                continue
            inner = Loop(loops[0], self.within[loops[0]])
            members = [first]
            while rest and inner.loop in rest[0].next_loops(path, order):
                if of_block and _reduces(rest[0], inner) != _reduces(first, inner):
                    break
                ended = {n for group in members if _reduces(group, inner) for n in group.places}
                if any(not ended.isdisjoint(self._passes.operands[n]) for n in rest[0].places):
                    break
                members.append(rest.pop(0))
            inner.ends = [
                group for group in members
                if _reduces(group, inner) and not any(_reduces(group, other) for other in path)
            ]  # fmt: skip
            inner.of_block = of_block and not inner.ends
            self._fill(inner, members, (*path, inner), of_block=False)
            inner.statements *= inner.length
            node.body.append(inner)
            node.statements += inner.statements


def _reduces(group: Group, node: Loop) -> bool:
    return node.loop in (group.reduced or NO_LOOPS)


def shared_loops(paths: Sequence[tuple[Loop, ...]]) -> tuple[Loop, ...]:
    """Return the loops that stand around all."""
    alike = itertools.takewhile(lambda nodes: len({*nodes}) == 1, zip(*paths, strict=False))
    return tuple([nodes[0] for nodes in alike])
