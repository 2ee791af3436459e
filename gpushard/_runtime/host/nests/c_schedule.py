"""When the operations of a loop nest in C are done, in which loops, and where their values are.

Operations that go over the same loops share them, as a group. Reductions along the lanes are
levels: what needs their results is done in another pass over the strips.

Independent loops are around everything. An operation that lacks one of them is done in its first
turn only, if nothing needs the result in other turns. Otherwise it is done again in each turn: it
counts as one that varies along the loop.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence

from gpushard._runtime.host.nests.expressions import TYPES
from gpushard._runtime.kernel_checks import MOST_STACK
from gpushard._runtime.kernel_tree import Array, Atom, Dim, Expr, number, total
from gpushard._runtime.loop_groups import LoopGroup, loop_groups
from gpushard._runtime.nests import Load, Nest, Op

_LANES, _STRIP = 128, 512
"""Elements of a strip where there are short loops, and where there are none."""

_ROW = 16
"""Elements of a short loop that may be lanes: some vectors."""


def _lanes(nest: Nest) -> int:
    """Return the loop whose elements are lanes: a long one that is reduced for what is in the nest.

    Where there is none, it is the one along which most arrays are dense.
    """
    for loop in nest.inner - nest.short:
        return loop
    rows = _rows(nest)
    if rows is not None:
        return rows
    loops = [loop for loop in range(len(nest.sizes)) if loop not in nest.short]
    if not loops:
        return max(range(len(nest.sizes)), key=lambda loop: (nest.sizes[loop], loop))
    every = [op.loops.union(op.reduced) for op in nest.ops]
    lacking = [loop for loop in loops if not all(loop in own for own in every)]
    dense = [load.dims[-1] for load in nest.loads if load.dims]
    dense += [result.dims[-1] for result in nest.results if result.dims]
    return max(lacking or loops, key=lambda loop: (dense.count(loop), loop))


def _rows(nest: Nest) -> int | None:
    """Find a short loop that is worth to be lanes: rows of several vectors in all large arrays.

    An operation that needs all elements of a row has lanes across rows instead.
    """
    loops = [loop for loop in nest.short if nest.sizes[loop] >= _ROW]
    for loop in loops:
        arrays = [load.dims for load in nest.loads] + [result.dims for result in nest.results]
        long = [dims for dims in arrays if any(x is not None and x not in nest.short for x in dims)]
        dense = all(dims[-1] == loop for dims in long)
        if dense and long and not any(loop in op.reduced for op in nest.ops):
            return loop
    return None


def _lacked(nest: Nest, outer: Collection[int]) -> dict[int, frozenset[int]]:
    """Find the independent loops in whose first turn alone each operation is done."""
    lacked: dict[int, frozenset[int]] = {}
    ahead = len(nest.loads)
    for place, op in reversed(list(enumerate(nest.ops, ahead))):
        loops = frozenset(outer) - op.loops.union(op.reduced)
        for user, other in enumerate(nest.ops[place + 1 - ahead :], place + 1):
            if place in other.places:
                loops &= lacked[user]
        lacked[place] = loops
    return lacked


class Schedule:
    """What is done when, and where values are.

    Args:
      nest: what is computed; at most one of its long loops is reduced for what is in it.
    """

    def __init__(self, nest: Nest) -> None:
        self.lanes = lanes = _lanes(nest)
        """The loop whose elements are the lanes of strips."""
        self.first = len(nest.loads)
        self.short = [loop for loop in sorted(nest.short) if loop != lanes]
        self.outer = [n for n in range(len(nest.sizes)) if n != lanes and n not in nest.short]
        self.lacked = _lacked(nest, self.outer)
        """For each operation the independent loops in whose first turn alone it is done."""
        spread = [
            op.loops | (frozenset(self.outer) - {*op.reduced} - self.lacked[place])
            for place, op in enumerate(nest.ops, self.first)
        ]
        self.nest = dataclasses.replace(nest, ops=tuple([
            dataclasses.replace(op, loops=loops) for op, loops in zip(nest.ops, spread, strict=True)
        ]))  # fmt: skip
        """The nest, in which operations vary along the loops in whose turns they are done again."""
        self.ops = dict(enumerate(self.nest.ops, self.first))
        self.strip = _LANES if self.short else _STRIP
        self.result_of = {result.place: n for n, result in enumerate(nest.results)}
        """For each value that is a result the number of that."""
        self.level = self.nest.levels([lanes])
        """For each place after how many reductions along the lanes it is known."""
        self.groups: dict[tuple[int, bool], list[LoopGroup]] = {}
        """Those of a level, and of operations that do or do not go along the lanes."""
        self.group_of: dict[int, LoopGroup] = {}
        self.scratch: list[Array] = []  # in memory that the kernel is given, one behind the other
        self.stack: list[Array] = []  # known in all loops
        self._bytes = 0  # of the stack
        self._schedule()
        self.loads = [self._load(n) for n in range(self.first)]
        self.cuts: dict[int, Expr] = {}
        """For each load that is periodic along the lanes the first one that begins again."""
        for n, array in enumerate(self.loads):
            for dim in array.dims:
                if dim.lanes and dim.period is not None:
                    self.cuts[n] = Expr("{} - {}", (dim.period, number(dim.start)))
        self.results = [self._result(n) for n in range(len(nest.results))]
        self.totals: dict[int, Array] = {}  # of each reduction that is added to strip by strip
        self._store()

    def is_last(self, op: Op) -> bool:
        """Whether an operation reduces loops outside of all others."""
        return any(loop in self.outer for loop in op.reduced)

    # What is done when.

    def _schedule(self) -> None:
        """Say which operations share loops: of each pass over the strips, and of what is around."""

        def alone(place: int) -> LoopGroup:
            op, outer = self.ops[place], frozenset(self.outer)
            reduced = frozenset(op.reduced) - outer if op.reduced else None
            return LoopGroup((op.loops | {*op.reduced}) - outer, self.lacked[place], reduced)

        apart: dict[tuple[int, bool], dict[int, Op]] = {}
        for place, op in self.ops.items():
            level = self.level[place] - (self.lanes in op.reduced)
            apart.setdefault((level, self.lanes in alone(place).loops), {})[place] = op
        operands = {place: op.places for place, op in self.ops.items()}
        for key, ops in apart.items():
            self.groups[key] = loop_groups(ops, operands, alone)
            for group in self.groups[key]:
                self.group_of |= dict.fromkeys(group.places, group)

    # Where values are.

    def length(self, loop: int) -> Expr:
        """Atom the length of a loop."""
        return number(self.nest.sizes[loop]) if self.is_known(loop) else Atom(f"n{loop}")

    def is_known(self, loop: int) -> bool:
        """Whether all blocks have as many elements along a loop."""
        nest = self.nest
        return loop in nest.short and loop not in nest.split

    def lengths(self, loops: Iterable[int]) -> list[tuple[int, Expr]]:
        """Return loops with their lengths, as statements are put into them."""
        return [(loop, self.length(loop)) for loop in loops]

    def dim(self, loop: int | None) -> Dim:
        """Return the dim of a block along a loop."""
        if loop is None:
            return Dim(None, number(1))
        return Dim(loop, self.length(loop), "whole" if loop == self.lanes else "")

    def period(self, load: Load, dim: int) -> Expr | None:
        """Return the length of a dim of an operand if it is periodic."""
        loop = load.dims[dim]
        if dim not in load.periodic or loop is None:
            return None
        return total([self.length(loop), number(load.more[dim])])

    def room(self, loop: int) -> Dim:
        """Return the dim of an array between operations: a strip, or all of a short loop."""
        if loop == self.lanes:
            return Dim(loop, number(self.strip), "strip")
        return Dim(loop, number(self.nest.sizes[loop]))

    def _load(self, n: int) -> Array:
        load = self.nest.loads[n]
        strides = None
        if any(load.more):
            strides = (*[Atom(f"z{n}_{dim}") for dim in range(len(load.dims) - 1)], number(1))
        dims = tuple([
            dataclasses.replace(self.dim(loop), start=start, period=self.period(load, dim))
            for dim, (loop, start) in enumerate(zip(load.dims, load.starts, strict=True))
        ])  # fmt: skip
        name = TYPES[load.dtype]
        size = load.dtype.itemsize
        return Array(f"a{n}", name, dims, "operand", size, strides, frozenset(self.outer))

    def _result(self, n: int) -> Array:
        result = self.nest.results[n]
        dtype, last = self.nest.dtype(result.place), self.is_last(self.ops[result.place])
        dims = tuple([self.dim(loop) for loop in result.dims])
        ahead = frozenset[int]() if last else frozenset(self.outer)
        return Array(f"r{n}", TYPES[dtype], dims, "result", dtype.itemsize, None, ahead)

    def array(self, name: str, kind: str, dims: Sequence[Dim], itemsize: int) -> Array:
        """Return an array for values between operations: on the stack while there is room.

        What is beyond lies in memory that the kernel is given, as does all whose size depends on
        lengths.
        """
        array = Array(name, kind, tuple(dims), "stack", itemsize)
        known = all(str(dim.length).isdigit() for dim in dims)
        if not dims or (known and self._bytes + array.stack_bytes <= MOST_STACK):
            self._bytes += array.stack_bytes
            return array
        array = dataclasses.replace(array, memory="scratch")
        self.scratch.append(array)
        return array

    def _keep(self, name: str, kind: str, dims: Sequence[Dim], itemsize: int) -> Array:
        """Return the same, as an array that is known in all loops."""
        array = self.array(name, kind, dims, itemsize)
        if array.memory == "stack":
            self.stack.append(array)
        return array

    def _store(self) -> None:
        """Say where values are that other loops need."""
        self.stored: dict[int, Array] = {}
        used: dict[int, set[int]] = {}
        for place, op in self.ops.items():
            for at in op.places:
                if not self.is_here(at, self.group_of[place]):
                    level = self.level[place] - (self.lanes in op.reduced)
                    used.setdefault(at, set()).add(level)
        for place, op in self.ops.items():
            self._store_op(place, op, used.get(place, set()))
        self.packed: dict[int, set[int]] = {}
        for at in [at for at in used if at < self.first]:
            load = self.nest.loads[at]
            if not self.short or self.lanes not in load.loops or load.dims[-1] == self.lanes:
                continue
            once = bool(self.outer) and not load.loops.intersection(self.outer)
            once = once and at not in self.cuts
            dims = [self.room(loop) for loop in self.short if loop in load.loops]
            dims.append(self.dim(self.lanes) if once else self.room(self.lanes))
            kind, size = TYPES[load.dtype], load.dtype.itemsize
            self.stored[at] = self._keep(f"{'w' if once else 'b'}{at}", kind, dims, size)
            self.packed[at] = set() if once else used[at]

    def _store_op(self, place: int, op: Op, used: Collection[int]) -> None:
        """Say where the value of an operation is; `used` are the levels of who needs it."""
        kind, size = TYPES[op.dtype], op.dtype.itemsize
        dims = [self.room(loop) for loop in self.short if loop in op.loops]
        wide = "double" if op.dtype.kind == "f" else "int64_t"
        if self.is_last(op):
            result = self.nest.results[self.result_of[place]]
            over = [self.dim(loop) for loop in result.dims if loop is not None]
            self.totals[place] = self._keep(f"t{place}", wide, over, 8)
            return
        if self.lanes in op.reduced:
            self.totals[place] = self._keep(f"t{place}", wide, dims, 8)
        if self.lanes not in op.loops:
            if used:
                self.stored[place] = self._keep(f"b{place}", kind, dims, size)
        elif used and max(used) > self.level[place]:
            result_number = self.result_of.get(place)
            if result_number is not None and self.is_exact(result_number):
                self.stored[place] = self.results[result_number]
            else:
                over = [*dims, self.dim(self.lanes)]
                self.stored[place] = self._keep(f"w{place}", kind, over, size)
        elif used:
            over = [*dims, self.room(self.lanes)]
            self.stored[place] = self._keep(f"b{place}", kind, over, size)

    def is_exact(self, result: int) -> bool:
        """Whether a result varies along all loops in whose turns its operation is done."""
        place, dims = self.nest.results[result].place, self.nest.results[result].dims
        return self.ops[place].loops <= frozenset(dims)

    def is_here(self, place: int, group: LoopGroup) -> bool:
        """Whether a value is a name in the loops of a group."""
        return self.group_of.get(place) is group and not self.ops[place].reduced
