"""When the operations of a loop nest in C are done, in which loops, and where their values are.

Operations that go over the same loops share them, as a group. Reductions along the lanes are
levels: what needs their results is done in another pass over the strips.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from gpushard.transforms.expressions import TYPES
from gpushard.transforms.nests import Nest, Op

_LANES, _STRIP = 128, 512
"""Elements of a strip where there are short loops, and where there are none."""


@dataclasses.dataclass
class Group:
    """Operations that share their loops."""

    loops: frozenset[int]  # short ones, and the lanes
    ops: list[int] = dataclasses.field(default_factory=list)
    reduced: frozenset[int] | None = None  # those that it reduces, if it does


def _lanes(nest: Nest) -> int:
    """Return the loop whose elements are lanes: a long one that is reduced for what is in the nest.

    Where there is none, it is the one along which most arrays are dense.
    """
    for loop in nest.inner - nest.short:
        return loop
    loops = [loop for loop in range(len(nest.sizes)) if loop not in nest.short]
    if not loops:
        return max(range(len(nest.sizes)), key=lambda loop: (nest.sizes[loop], loop))
    every = [op.loops.union(op.reduced) for op in nest.ops]
    lacking = [loop for loop in loops if not all(loop in own for own in every)]
    if lacking:
        return lacking[0]
    dense = [load.dims[-1] for load in nest.loads if load.dims]
    dense += [result.dims[-1] for result in nest.results if result.dims]
    return max(loops, key=lambda loop: (dense.count(loop), loop))


class Schedule:
    """What is done when, and where values are.

    Args:
      nest: what is computed; at most one of its long loops is reduced for what is in it.
    """

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.lanes = lanes = _lanes(nest)
        """The loop whose elements are the lanes of strips."""
        self.first = len(nest.loads)
        self.ops = dict(enumerate(nest.ops, self.first))
        self.short = [loop for loop in sorted(nest.short) if loop != lanes]
        self.outer = [n for n in range(len(nest.sizes)) if n != lanes and n not in nest.short]
        self.strip = _LANES if self.short else _STRIP
        self.result_of: dict[int, list[int]] = {}
        for n, result in enumerate(nest.results):
            self.result_of.setdefault(result.place, []).append(n)
        self.level: dict[int, int] = {}
        self.groups: dict[tuple[int, bool], list[Group]] = {}
        self.group_of: dict[int, Group] = {}
        self.rows: list[tuple[int, ...]] = []
        self.declared: list[str] = []  # what is known in all loops
        self._schedule()
        self._store()

    def is_last(self, op: Op) -> bool:
        """Whether an operation reduces loops outside of all others."""
        return any(loop in self.outer for loop in op.reduced)

    # What is done when.

    def _schedule(self) -> None:
        """Say for each operation after which reductions along the lanes it is, and its loops."""
        for load in range(self.first):
            self.level[load] = 0
        for place, op in self.ops.items():
            needs = [at for at, _ in op.operands if at is not None]
            own = max((self.level[at] for at in needs), default=0)
            space = (op.loops | set(op.reduced)) - set(self.outer)
            reduced = frozenset(op.reduced) - set(self.outer) if op.reduced else None
            groups = self.groups.setdefault((own, self.lanes in space), [])
            after = 0
            for at in needs:
                of = self.group_of.get(at)
                if of in groups:
                    n = groups.index(of)
                    after = max(after, n + (self.ops[at].reduced != () or of.loops != space))
            for group in groups[after:]:
                if group.loops == space and (reduced is None or group.reduced in (None, reduced)):
                    break
            else:
                group = Group(frozenset(space))
                groups.append(group)
            group.ops.append(place)
            group.reduced = group.reduced if reduced is None else reduced
            self.group_of[place] = group
            self.level[place] = own + (self.lanes in op.reduced)

    def _store(self) -> None:
        """Say where values are that other loops need."""
        self.stored: dict[int, str] = {}
        used: dict[int, set[int]] = {}
        for place, op in self.ops.items():
            for at, _ in op.operands:
                same = self.group_of.get(at) is self.group_of[place] if at is not None else True
                if at is not None and not (
                    same and not (at >= self.first and self.ops[at].reduced)
                ):
                    level = self.level[place] - (self.lanes in op.reduced)
                    used.setdefault(at, set()).add(level)
        self.packed: dict[int, set[int]] = {}
        for place, op in self.ops.items():
            t = TYPES[op.dtype]
            if self.is_last(op):
                continue
            own = [loop for loop in self.short if loop in op.loops]
            if self.lanes not in op.loops:
                if op.reduced or place in used:
                    self._array(place, t, own, 1)
            elif place in used and max(used[place]) > self.level[place]:
                if place in self.result_of:
                    n = self.result_of[place][0]
                    self.stored[place] = f"r{n}[{self.at(self.nest.results[n].dims, n + 10**6)}]"
                else:
                    self._row(place, t, own)
            elif place in used:
                self._array(place, t, own, self.strip)
        for at in [at for at in used if at < self.first]:
            load = self.nest.loads[at]
            if not self.short or self.lanes not in load.loops or load.dims[-1] == self.lanes:
                continue
            own = [loop for loop in self.short if loop in load.loops]
            if self.outer and not load.loops.intersection(self.outer):
                self._row(at, TYPES[load.dtype], own)
                self.packed[at] = set()
            else:
                self._array(at, TYPES[load.dtype], own, self.strip)
                self.packed[at] = used[at]

    def _array(self, place: int, t: str, loops: Sequence[int], lanes: int) -> None:
        size = lanes
        for loop in loops:
            size *= self.nest.sizes[loop]
        self.declared.append(f"{t} b{place}[{size}];")
        at = self.dense(loops)
        self.stored[place] = f"b{place}[{f'({at}) * {lanes} + t' if lanes > 1 else at}]"

    def _row(self, place: int, t: str, loops: Sequence[int]) -> None:
        self.memory((*loops, self.lanes), f"{t} *restrict w{place}", t)
        self.stored[place] = f"w{place}[({self.dense(loops)}) * n{self.lanes} + j0 + t]"

    def memory(self, loops: tuple[int, ...], name: str, t: str) -> None:
        """Take some of the memory that the function is given."""
        self.rows.append(loops)
        size = " * ".join([f"n{loop}" for loop in loops] or ["1"])
        self.declared += [f"{name} = ({t} *)rows;", f"rows += 8 * ({size});"]

    def around(self, loops: Iterable[int]) -> list[str]:
        """Return what short loops begin with."""
        return [f"for (int64_t i{n} = 0; i{n} < {self.nest.sizes[n]}; i{n}++)" for n in loops]

    def dense(self, loops: Iterable[int]) -> str:
        """Return the number of an element in an array over short loops."""
        text = "0"
        for loop in loops:
            text = f"({text}) * {self.nest.sizes[loop]} + i{loop}"
        return text

    def strides(self, dims: Sequence[int | None], load: int) -> list[str]:
        """Return the distance of neighbours along each dim of an array."""
        if load < self.first and any(self.nest.loads[load].more):
            return [*(f"z{load}_{dim}" for dim in range(len(dims) - 1)), "1"]
        found = []
        for dim in range(len(dims)):
            later = [f"n{loop}" for loop in dims[dim + 1 :] if loop is not None]
            found.append(" * ".join(later) or "1")
        return found

    def at(self, dims: Sequence[int | None], load: int, *, outer: bool = False) -> str:
        """Return which element of an array it is, from where independent loops are (or until)."""
        terms = []
        for dim, stride in zip(dims, self.strides(dims, load), strict=True):
            if dim is not None and (dim in self.outer) == outer:
                index = "(j0 + t)" if dim == self.lanes else f"i{dim}"
                terms.append(index if stride == "1" else f"{index} * {stride}")
        return " + ".join(terms) or "0"

    def value(self, place: int, group: Group) -> str:
        """Return the text of a value in the loops of a group."""
        if place in self.stored and not self._is_here(place, group):
            return self.stored[place]
        if place < self.first:
            return f"a{place}[{self.at(self.nest.loads[place].dims, place)}]"
        return f"v{place}"

    def _is_here(self, place: int, group: Group) -> bool:
        return self.group_of.get(place) is group and not self.ops[place].reduced
