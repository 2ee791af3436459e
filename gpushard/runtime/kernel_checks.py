"""What must hold of every kernel before it becomes text.

The checks look at loops, not at numbers, so they hold for blocks of all lengths. A statement goes
over the loops around it. Two statements share the loops that stand around both. Whatever the first
one does in its other loops is over when the second one begins. From that follows, for each kernel:

- every operation runs exactly once for each index of its loops, in no other loop; where it lacks
  a loop around it, it stands in the first turn only;
- an accumulator is started once and read when all elements have been added, each of them once;
- a value is read after it was written for that index, and from an array that has room for all
  indices between writing and reading;
- every result is written, once for each of its indices;
- an element's indices are loops around it, so that they stay within the block;
- arrays on the stack take no more than `MOST_STACK` bytes.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpushard.runtime.kernel_tree import (
    Array,
    Call,
    Declare,
    Element,
    Expr,
    First,
    For,
    FullStrip,
    Lanes,
    Let,
    Register,
    Scope,
    Set,
    Statement,
    Strips,
)

MOST_STACK = 64 << 10
"""Bytes that a kernel's arrays may take of its thread's stack."""

STRIPS, LANES = "strips", "lanes"
"""The two halves of a loop that is cut into strips."""

Halves = frozenset[int | str]


class BrokenKernelError(AssertionError):
    """A kernel does not do what its nest says: a defect of the library, found before it runs."""


@dataclasses.dataclass(frozen=True)
class Task:
    """One operation, as a kernel has to do it."""

    loops: frozenset[int]  # that its result varies along, or in whose turns it is done again
    reduced: frozenset[int]
    operands: frozenset[int]  # places of the values that it needs


@dataclasses.dataclass(frozen=True)
class Program:
    """A kernel as a tree, and what it has to do."""

    tasks: Mapping[int, Task]  # by place
    results: Sequence[tuple[int, frozenset[int]]]  # place and loops of each
    lanes: int  # the loop that is cut into strips
    stack: Sequence[Array]  # arrays on the stack that are known everywhere
    values: Mapping[str, int]  # place of what each array holds, by the array's name
    body: Sequence[Statement]


@dataclasses.dataclass(frozen=True, eq=False)
class _At:
    """A statement, where it stands."""

    order: int
    statement: Let | Set | Call
    path: tuple[Any, ...]  # what stands around it, the outermost first
    halves: Halves  # loops that it goes over
    first: frozenset[int]  # loops around it in whose first turn it stands

    @property
    def over(self) -> Halves:
        """Loops in each of whose turns it is done."""
        return self.halves - self.first

    @property
    def array(self) -> Array:
        """The array that it writes to; one without a name if it defines a name."""
        return getattr(self.statement.target, "array", Array("", "", (), ""))


def check(program: Program) -> None:
    """Check a kernel.

    Raises:
      BrokenKernelError: the kernel is not what its operations say.
    """
    _Checker(program).run()


class _Checker:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._bytes = sum(array.stack_bytes for array in program.stack if array.dims)
        self._all = list(self._walk(program.body, ()))
        self._lets = [at for at in self._all if isinstance(at.statement, Let)]
        self._by_array: dict[str, list[_At]] = {}
        for at in self._all:
            if isinstance(at.statement, Set | Call):
                self._by_array.setdefault(at.array.name, []).append(at)

    def run(self) -> None:
        """Check everything."""
        self._require(self._bytes <= MOST_STACK, f"{self._bytes} bytes of stack")
        names = [str(let.statement.target) for let in self._lets]
        self._require(len(names) == len({*names}), "a name is defined twice")
        for at in self._all:
            statement = at.statement
            if isinstance(statement, Call):
                self._check_call(at, statement)
                continue
            for leaf in statement.value.leaves():
                self._check_leaf(at, leaf)
            if isinstance(statement, Set):
                self._check_index(at, at.array)
        for place, task in self._program.tasks.items():
            self._check_task(place, task)
        for name in self._by_array:
            self._check_accumulator(name)
        for n, (place, loops) in enumerate(self._program.results):
            written = self._of("write", f"r{n}")
            self._require(len(written) == 1, f"result {n} is written {len(written)} times")
            dims = self._room(written[0].array)
            exact = written[0].over == dims == self._half(loops)
            self._require(exact, f"result {n} of {place} is written over {written[0].over}")

    # Where statements stand.

    def _walk(self, body: Sequence[Statement], path: tuple[Any, ...]) -> Iterator[_At]:
        for statement in body:
            if isinstance(statement, Let | Set | Call):
                yield self._at(statement, path)
            elif isinstance(statement, Declare):
                self._bytes += statement.array.stack_bytes if statement.array.dims else 0
            elif isinstance(statement, For | Strips | Lanes | First | Scope):
                yield from self._walk(statement.body, (*path, statement))
            elif isinstance(statement, FullStrip):
                yield from self._walk((statement.full,), (*path, statement))
                yield from self._walk(statement.rest, path)

    def _at(self, statement: Let | Set | Call, path: tuple[Any, ...]) -> _At:
        halves: list[int | str] = []
        first: set[int] = set()
        for node in path:
            if isinstance(node, First):
                self._require(set(node.loops) <= {*halves}, "a first turn of no loop around it")
                first.update(node.loops)
            halves += self._halves(node)
        self._order = getattr(self, "_order", 0) + 1
        self._require(len(halves) == len({*halves}), f"loops {halves} stand in one another")
        self._require(LANES not in halves or STRIPS in halves, "lanes stand in no strip")
        return _At(self._order, statement, path, frozenset(halves), frozenset(first))

    def _halves(self, node: Any) -> list[int | str]:
        if isinstance(node, For):
            return [node.loop]
        if isinstance(node, Strips):
            return [STRIPS]
        if isinstance(node, Lanes):
            return [STRIPS, LANES] if node.whole else [LANES]
        return []

    def _half(self, loops: frozenset[int]) -> Halves:
        """Return loops with the one of the lanes in its halves."""
        cut = {STRIPS, LANES} if self._program.lanes in loops else set()
        return frozenset[int | str](loops - {self._program.lanes}) | cut

    def _room(self, array: Array) -> Halves:
        """Return the loops for whose indices an array has elements."""
        room: set[int | str] = set()
        for dim in array.dims:
            if dim.loop is not None:
                lanes = {LANES} if dim.lanes == "strip" else {STRIPS, LANES}
                room |= lanes if dim.lanes else {dim.loop}
        return frozenset(room)

    def _shared(self, a: _At, b: _At) -> Halves:
        """Return the loops that stand around both, without those of whose turns one has one."""
        halves: list[int | str] = []
        for one, other in zip(a.path, b.path, strict=False):
            if one is not other:
                break
            halves += self._halves(one)
        return frozenset(halves) - a.first

    # What they do.

    def _of(self, kind: str, name: str) -> list[_At]:
        return [at for at in self._by_array.get(name, []) if at.statement.step.kind == kind]

    def _check_index(self, at: _At, array: Array) -> None:
        missing = self._room(array) - at.halves
        self._require(not missing, f"{array.name} is indexed by {missing}, which are not around it")

    def _check_leaf(self, at: _At, leaf: Expr) -> None:
        if isinstance(leaf, Register):
            known = any(
                let.statement.target == leaf and let.order < at.order
                and let.path == at.path[: len(let.path)] for let in self._lets
            )  # fmt: skip
            self._require(known, f"{leaf} is not known where it is read")
        if not isinstance(leaf, Element):
            return
        array = leaf.array
        self._check_index(at, array)
        if array.memory != "operand" and not self._of("start", array.name):
            self._check_stored(at, array)

    def _check_stored(self, at: _At, array: Array) -> None:
        """Check that what is read of an array was written."""
        writers = [x for x in self._by_array.get(array.name, []) if not self._is_alternative(x)]
        if {x.statement.step.kind for x in writers} == {"pack"}:  # once in each pass over strips
            alike = itertools.pairwise(writers)
            twice = any(self._strips_of(a) is self._strips_of(b) for a, b in alike)
            self._require(not twice, f"{array.name} is packed twice")
            writers = [x for x in writers if x.order < at.order][-1:]
        self._require(len(writers) == 1, f"{array.name} is written {len(writers)} times")
        self._check_read(at, writers[0], array)

    def _strips_of(self, at: _At) -> Strips | None:
        return next((node for node in at.path if isinstance(node, Strips)), None)

    def _check_read(self, at: _At, writer: _At, array: Array) -> None:
        """Check that a value was written for the index at which it is read."""
        room, over = self._room(array), self._over(writer)
        if isinstance(writer.statement, Call):
            over -= self._half(self._program.tasks[writer.statement.place].reduced)
        lost = over - self._shared(writer, at) - room
        self._require(writer.order < at.order, f"{array.name} is read before it is written")
        self._require(not lost, f"{array.name} has one element for all indices of {lost}")
        self._require(room <= over, f"{array.name} is written in {over} only")
        self._require(writer.first <= at.first, f"{array.name} is written in a first turn only")

    def _over(self, at: _At) -> Halves:
        """Return the loops that a statement goes over, with those of a function."""
        if isinstance(at.statement, Call):
            inside = self._half(at.statement.loops)
            return at.over | (inside - {STRIPS})
        return at.over

    def _is_alternative(self, at: _At) -> bool:
        return any(isinstance(node, FullStrip) for node in at.path)

    def _check_call(self, at: _At, call: Call) -> None:
        task, over = self._program.tasks[call.place], self._over(at)
        every = self._half(task.loops | task.reduced)
        self._require(over == every, f"a function goes over {over}, not {every}")
        self._require(self._is_alternative(at) == call.adds, f"no loops instead of {call.text}")
        places = set()
        for leaf in call.reads:
            places.add(self._place_of(leaf.array))
            self._require(self._room(leaf.array) <= over | {STRIPS}, f"{leaf} in a function")
            if leaf.array.memory != "operand":
                self._check_stored(at, leaf.array)
        self._require(places == task.operands, f"{call.text} reads {places}")

    def _place_of(self, array: Array) -> int:
        return self._program.values[array.name]

    def _check_task(self, place: int, task: Task) -> None:
        """Check that an operation runs once for each of its indices, on what it needs."""
        every_step = [at for at in self._all if at.statement.step.place == place]
        calls = [at for at in every_step if isinstance(at.statement, Call)]
        own = [at for at in every_step if not isinstance(at.statement, Call)]
        every = self._half(task.loops | task.reduced)
        for at in own:
            kind = at.statement.step.kind
            if kind == "compute":
                self._require(at.over == every, f"{place} is computed over {at.over}, not {every}")
            if kind == "keep":
                exact = at.over == self._half(task.loops)
                self._require(exact, f"{place} is kept over {at.over}")
        alone = [at for at in own if at.statement.step.kind in ("compute", "add")]
        self._require(bool(alone or calls), f"{place} is never done")
        if not task.reduced:
            self._require(len(alone) == 1, f"{place} is done {len(alone)} times")
        places = set()
        for at in own:
            for leaf in at.statement.value.leaves():
                if isinstance(leaf, Register):
                    places.add(leaf.place)
                elif isinstance(leaf, Element):
                    places.add(self._place_of(leaf.array))
        read = places - {place}
        self._require(read == task.operands or not own, f"{place} reads {read}")

    def _check_accumulator(self, name: str) -> None:
        """Check that what accumulates is started once, and that each element is added once."""
        starts, adds = self._of("start", name), self._of("add", name)
        if not starts and not adds:
            return
        index = self._index(name)
        start, add = starts[0], adds[0]
        task = self._program.tasks[add.statement.step.place]
        self._require(start.order < add.order, f"{name} is added to before it is started")
        self._require(start.over == index, f"{name} is started over {start.over}, not {index}")
        whole = self._half(task.loops | task.reduced)
        for leaf in add.statement.value.leaves():
            if isinstance(leaf, Element) and leaf.array.name != name:
                whole = (
                    self._index(leaf.array.name) if self._of("start", leaf.array.name) else whole
                )
        self._require(add.over == whole, f"{name} is added to over {add.over}, not {whole}")
        gone = add.over - index
        self._require(gone <= self._half(task.reduced), f"{name} adds up over {gone}")
        adjusted = self._of("adjust", name)
        self._require(len(adjusted) <= 1, f"{name} is adjusted twice")
        self._require(all(add.order < at.order and at.over == index for at in adjusted),
                      f"{name} is adjusted before all has been added")  # fmt: skip
        readers = [at for at in self._all if at is not add and self._reads(at, name)]
        self._require(bool(readers), f"{name} is never read")
        for at in readers:
            if at.statement.step.kind != "adjust" or at.array.name != name:
                self._check_end(name, index, start, add, at)

    def _reads(self, at: _At, name: str) -> bool:
        """Whether a statement reads an array, and not only to change it."""
        return any(
            isinstance(leaf, Element) and leaf.array.name == name
            for leaf in at.statement.value.leaves()
        )

    def _check_end(self, name: str, index: Halves, start: _At, add: _At, at: _At) -> None:
        """Check that an accumulator is read when all has been added."""
        place, kind = at.statement.step.place, at.statement.step.kind
        alike = place == add.statement.step.place and kind in ("compute", "add")
        if alike and self._shared(add, at) == add.over:
            return  # it decides what is added here, or to another accumulator of the operation
        self._require(add.order < at.order, f"{name} is read before it is added to")
        exact = at.over == index - at.first
        self._require(exact, f"{name} is read over {at.over}, not {index}")
        same = self._shared(add, at) & index == self._shared(start, add) & index
        self._require(same, f"{name} is read where it is started again")
        if kind in ("keep", "write"):
            left = index - self._half(self._program.tasks[place].loops)
            self._require(not left, f"{name} has not been added up over {left}")

    def _index(self, name: str) -> Halves:
        """Return the loops for each of whose indices an accumulator is one of its own."""
        starts, adds = self._of("start", name), self._of("add", name)
        once = len(starts) == len(adds) == 1
        self._require(once, f"{name}: started {len(starts)} times, added to {len(adds)} times")
        (start,), (add,) = starts, adds
        return self._shared(add, start) | self._room(start.array)

    def _require(self, holds: bool, problem: str) -> None:
        if not holds:
            raise BrokenKernelError(problem)
