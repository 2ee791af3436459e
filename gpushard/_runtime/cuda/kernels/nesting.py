"""Find the groups of operations that share loops within a thread. Pure.

Consecutive groups share a loop if none of them needs a value that another reduces over that loop.
For the nearest of 32 centres, of 16 features each:

    groups                                 loops
    d = points * centres, a = sum(d)       over 32 centres: over 16 features: d, add to a
    e = own - a, p = argmin(e)                              e, compare with p

So a thread has one element of `d`, `a` and `e` at a time, in a register. Loops of few operations
are unrolled, so that values that are kept across them can be in registers, too.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence

from gpushard._runtime.cuda.kernels.passes import MOST_UNROLLED, Passes
from gpushard._runtime.loop_groups import LoopGroup, loop_groups

ROW = -1
"""Stands for the loop over the rows of a thread, which is inside all others."""

NO_LOOPS = frozenset[int]()


@dataclasses.dataclass(eq=False)
class NestGroup(LoopGroup):
    """Operations that go over the same loops within a thread."""

    path: tuple[Loop, ...] = ()  # the loops around it

    def next_loops(self, around: Iterable[Loop], order: Sequence[int]) -> list[int]:
        """List the loops that may come next inside others; loops that it reduces are innermost."""
        left = self.loops - {ROW, *[node.loop for node in around]}
        ordered = [loop for loop in order if loop in left]
        return [loop for loop in ordered if loop not in (self.reduced or ())] or ordered[:1]


@dataclasses.dataclass(eq=False)
class Loop:
    """A loop that consecutive groups share."""

    loop: int
    length: int
    body: list[Loop | NestGroup] = dataclasses.field(default_factory=list)
    # Groups that have reduced everything when the loop ends.
    ends: list[NestGroup] = dataclasses.field(default_factory=list)
    fetched: list[int] = dataclasses.field(default_factory=list)  # loads that are kept before it
    statements: int = 0  # statements of all turns
    of_block: bool = False  # whether the threads of a block share its turns

    @property
    def is_unrolled(self) -> bool:
        """Whether the source has a text for each turn."""
        return self.statements <= MOST_UNROLLED


class Nesting:
    """Finds the loops of operations within a thread.

    Args:
      passes: the operations.
      within: lengths of the loops, in order, the rows of a thread last.
      rows: loops of rows; a thread does operations that vary along these for each of its rows.
    """

    def __init__(self, passes: Passes, within: Mapping[int, int], rows: Iterable[int]) -> None:
        self._passes, self._ops = passes, passes.ops
        self.within, self._rows = within, frozenset(rows)

    def is_of_rows(self, loops: Iterable[object]) -> bool:
        """Whether some of the loops are loops of rows."""
        return not self._rows.isdisjoint(loops)

    def loops_of(self, loops: Iterable[object]) -> list[int]:
        """Select the loops that are within a thread, in order."""
        selected = set(loops)
        rows = self.is_of_rows(selected)
        return [loop for loop in self.within if loop in selected or (loop == ROW and rows)]

    def groups(self, places: Iterable[int]) -> list[NestGroup]:
        """Group operations; each group comes after the groups that it needs."""

        def alone(place: int) -> NestGroup:
            op = self._ops[place]
            plain = op.kernel is not None or self._passes.is_sum(place)
            reduced = None if plain else frozenset(self.loops_of(op.reduced))
            return NestGroup(frozenset(self.loops_of({*op.loops, *op.reduced})), reduced=reduced)

        ops = {place: self._ops[place] for place in places}
        return loop_groups(ops, self._passes.operands, alone)

    def nest(self, groups: Sequence[NestGroup], *, of_block: bool = False) -> Loop:
        """Put groups into loops, and return a loop of one turn around all of them.

        Args:
          groups: the groups, in an order in which they can run.
          of_block: whether the threads of a block share outer loops that no group reduces.
        """
        whole = Loop(ROW, 1)
        self._fill(whole, groups, (), of_block)
        return whole

    def _fill(
        self, node: Loop, groups: Sequence[NestGroup], path: tuple[Loop, ...], of_block: bool
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


def _reduces(group: NestGroup, node: Loop) -> bool:
    return node.loop in (group.reduced or NO_LOOPS)


def shared_loops(paths: Sequence[tuple[Loop, ...]]) -> tuple[Loop, ...]:
    """Find the loops that are around all groups, by the paths of the groups."""
    alike = itertools.takewhile(lambda nodes: len({*nodes}) == 1, zip(*paths, strict=False))
    return tuple([nodes[0] for nodes in alike])
