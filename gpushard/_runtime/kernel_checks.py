"""What must hold of every kernel, in C and in CUDA C, before it becomes text.

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
- arrays on the stack take no more bytes than the kernel may have.

In CUDA C spare rows, the threads of a row, and the parts of a row are loops, too (`AGAIN`). Each
thread does the same for itself, until `Along` deals out the elements of a row. Then:

- an operation along a row runs again in each pass that needs it, once in a pass;
- what a thread has added up is of its own elements, and only `Meet` reads it. Where rows have
  parts, `Meet` gives the sum of one: a thread puts it into memory, and the last block adds up all;
- one thread writes each element of a result, and every thread does everything else;
- all threads of a block come to every `Meet`, and to the `LastBlock`. So these stand in no
  condition, and in no loop that some threads leave before others.

Where a thread does several rows as `Units`, what is moved so has one element for each row, and a
row writes all results that are. The same holds of the elements of a row.

What a thread keeps of the elements of a row, the same thread reads: every `Along` that writes or
reads a kept value deals elements out as the value's array says. The rest follows as for all arrays:
a value is written once, for each element, and before it is read. The same holds of `EachRow` and
the rows of a thread. What stands outside `EachRow` has no index of a row: it is the same for all.
In `Shared` a thread has some indices only, so others read what it writes to shared memory alone.

Loops do not tell the rest, so tests compare results: what the text of an operation computes,
and the order of its operands; where the elements of an array lie; whether `Along`, `EachPart`,
`EachRow`, `Units` and `Patch` reach every element once, and a thread keeps as many as it has; the
barriers and fences in the functions that bring threads together; whether a launch has threads for
all rows, and memory for all parts.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpushard._runtime.kernel_tree import (
    EVERY_BLOCK,
    EVERY_THREAD,
    PARTS,
    ROW_THREADS,
    SPARE,
    Along,
    Apply,
    Array,
    Call,
    Deal,
    Declare,
    EachPart,
    EachRow,
    Element,
    Expr,
    First,
    For,
    FullStrip,
    Index,
    Lanes,
    LastBlock,
    Let,
    Loop,
    Meet,
    Register,
    Rows,
    Set,
    Shared,
    Statement,
    Strips,
    Units,
    statements_of,
)

MOST_STACK = 64 << 10
"""Bytes that a kernel's arrays may take of its thread's stack."""

MOST_SHARED = 16 << 10
"""Bytes that the arrays of a block of threads may take; the text may have them twice."""

STRIPS, LANES = "strips", "lanes"
"""The two halves of a loop that is cut into strips."""

AGAIN = frozenset[int | str]((SPARE, ROW_THREADS, PARTS, EVERY_THREAD, EVERY_BLOCK))
"""Loops in whose turns threads do the same again."""

_NONE = Array("", "", (), "")

Halves = frozenset[int | str]
Acting = Let | Set | Call | Apply | Meet
Path = tuple[Any, ...]
Name = tuple[str, int | None]
"""An array's name, and which declaration it stands for; None if it is no variable."""


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
    results: Mapping[str, frozenset[int]]  # loops of each, by the array's name
    lanes: int | None  # the loop that is cut into strips
    stack: Sequence[Array]  # arrays on the stack that are known everywhere
    values: Mapping[str, int]  # place of what each array holds, by the array's name
    body: Sequence[Statement]
    most_bytes: int = MOST_STACK  # that its arrays may take
    rows: bool = False  # whether threads run it, each for a row

    @property
    def array_bytes(self) -> int:
        """Bytes of all its arrays, whether or not they are needed at the same time."""
        arrays = [*self.stack, *self._declared("stack")]
        return sum(array.stack_bytes for array in arrays if array.dims)

    @property
    def shared_bytes(self) -> int:
        """Bytes of all arrays of a block of threads."""
        return sum(array.stack_bytes for array in self._declared("shared"))

    def _declared(self, memory: str) -> list[Array]:
        declared = [x.array for x in statements_of(self.body) if isinstance(x, Declare)]
        return [array for array in declared if array.memory == memory]


@dataclasses.dataclass(frozen=True, eq=False)
class _At:
    """A statement, where it stands."""

    order: int
    statement: Acting
    path: Path  # what stands around it, the outermost first
    halves: Halves  # loops that it goes over
    first: Halves  # loops around it in whose first turn it stands

    @property
    def over(self) -> Halves:
        """Loops in each of whose turns it is done."""
        return self.halves - self.first

    @property
    def kind(self) -> str:
        """What it does for the nest."""
        return self.statement.step.kind

    @property
    def place(self) -> int:
        """The place of the value for which it is done."""
        return self.statement.step.place

    @property
    def array(self) -> Array:
        """The array that it writes to; one without a name if it defines a name."""
        return getattr(self.statement.target, "array", _NONE)

    def is_in(self, *kinds: type) -> bool:
        """Whether it stands in statements of some kinds."""
        return any(isinstance(node, kinds) for node in self.path)


def check(program: Program) -> None:
    """Check a kernel.

    Raises:
      BrokenKernelError: the kernel is not what its operations say.
    """
    _Checker(program).run()


class _Checker:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._order = itertools.count()
        # Of each name: where it is defined, and when.
        self._defined: dict[str, list[tuple[Path, int]]] = {
            array.name: [((), next(self._order))] for array in program.stack
        }
        self._declared: set[Array] = set()
        self._alongs: list[Along] = []
        self._all = list(self._walk(program.body, (), Halves(), Halves()))
        self._by_array: dict[Name, list[_At]] = {}
        self._registers: dict[str, list[_At]] = {}
        for at in self._all:
            if isinstance(at.statement.target, Element):
                self._by_array.setdefault(self._name(at, at.array), []).append(at)
            else:
                self._registers.setdefault(str(at.statement.target), []).append(at)

    def run(self) -> None:
        """Check everything."""
        lasts = [x for x in statements_of(self._program.body) if isinstance(x, LastBlock)]
        self._require(len(lasts) <= 1, "blocks of threads count twice which one is the last")
        needed = self._program.array_bytes
        self._require(needed <= self._program.most_bytes, f"{needed} bytes of arrays")
        shared = self._program.shared_bytes
        self._require(shared <= MOST_SHARED, f"{shared} bytes of shared memory")
        for name, paths in self._defined.items():
            for (path, _), (other, _) in itertools.combinations(paths, 2):
                seen = path[: len(other)] == other[: len(path)]
                self._require(not seen, f"{name} is defined twice")
        for at in self._all:
            if isinstance(at.statement, Call):
                self._check_call(at, at.statement)
                continue
            for leaf in at.statement.value.leaves():
                self._check_leaf(at, leaf)
            if at.array.name:
                self._check_index(at, at.array)
            if at.kind == "keep":
                same = {at.place} == self._places(at) == {self._place_of(at.array)}
                self._require(same, f"something else is kept for {at.place}")
            self._check_threads(at)
        for place, task in self._program.tasks.items():
            self._check_task(place, task)
        for array in self._by_array:
            self._check_accumulator(array)
        for result, loops in self._program.results.items():
            self._check_result(result, loops)

    # Where statements stand.

    def _walk(
        self, body: Sequence[Statement], path: Path, halves: Halves, first: Halves
    ) -> Iterator[_At]:
        for statement in body:
            if isinstance(statement, Acting):
                if isinstance(statement.target, Register):
                    self._define(str(statement.target), path)
                yield _At(next(self._order), statement, path, halves, first)
            elif isinstance(statement, Declare):
                self._define(statement.array.name, path)
                self._declared.add(statement.array)
            elif isinstance(statement, FullStrip):
                yield from self._walk((statement.full,), (*path, statement), halves, first)
                yield from self._walk(statement.rest, path, halves, first)
            elif isinstance(statement, Loop):
                added = first
                if isinstance(statement, First):
                    known = {*statement.loops} <= halves
                    self._require(known, "a first turn of no loop around it")
                    added = first.union(statement.loops)
                if isinstance(statement, LastBlock):
                    self._check_together(path, halves)
                    once = all(isinstance(x, Rows) for x in path)
                    self._require(once, "blocks come more than once to where one is the last")
                if isinstance(statement, Along):
                    whole = not any(isinstance(x, LastBlock) for x in path)
                    self._require(whole, "the last block has its own part of a row only")
                    self._check_deal(statement, halves)
                    self._alongs.append(statement)
                if isinstance(statement, Rows) and statement.patch is not None:
                    loops = {*statement.loops[:-1]}
                    alone = not statement.again and statement.patch.across in loops
                    self._require(alone, "a patch has other loops, or threads that share rows")
                if isinstance(statement, Rows) and statement.units is not None:
                    self._require(not statement.again, "threads that do a row again have units")
                    self._check_units(statement.units, statement.loops, halves)
                if isinstance(statement, Rows):
                    shared = EVERY_THREAD in statement.again
                    alone = not statement.loops and statement.again == (EVERY_THREAD,)
                    self._require(alone or not shared, "every thread has rows of its own, too")
                if isinstance(statement, Shared):
                    together = all(isinstance(x, Rows) for x in path)
                    self._require(together, "not all threads come to where they share a loop")
                if isinstance(statement, EachRow):
                    exact = statement.deal.rows and statement.deal.unit == 1
                    self._require(exact, f"{statement.deal} is of no rows")
                if isinstance(statement, For) and statement.units is not None:
                    whole = int(str(statement.length)) % statement.units.count == 0
                    self._require(whole and not statement.units.results, "no units of a loop")
                    self._check_units(statement.units, (statement.loop,), halves)
                inside = self._loops_inside(statement, halves)
                yield from self._walk(statement.body, (*path, statement), inside, added)

    def _define(self, name: str, path: Path) -> None:
        self._defined.setdefault(name, []).append((path, next(self._order)))

    def _loops_inside(self, node: Any, halves: Halves) -> Halves:
        """Return the loops around what stands in a statement, from those around the statement."""
        loops, ended = self._halves(node), self._ended_loops(node, halves)
        self._require(ended <= halves, f"{ended} share work in a loop and are not all around it")
        halves -= ended
        self._require(not loops & halves, f"loops {loops} stand in one another")
        halves |= loops
        self._require(LANES not in halves or STRIPS in halves, "lanes stand in no strip")
        return halves

    def _halves(self, node: Any) -> Halves:
        """Return the loops that a statement is."""
        if isinstance(node, For):
            return frozenset([node.loop])
        if isinstance(node, Strips):
            return frozenset([STRIPS])
        if isinstance(node, Lanes):
            return frozenset([STRIPS, LANES] if node.whole else [LANES])
        if isinstance(node, Rows):
            return frozenset([*node.loops, *node.again])
        if isinstance(node, Along):
            return frozenset(node.deal.loops)
        if isinstance(node, EachRow):
            return frozenset([*node.deal.loops, SPARE])
        if isinstance(node, Shared):
            return frozenset([node.loop, EVERY_BLOCK])
        return frozenset([PARTS] if isinstance(node, EachPart) else [])

    def _ended_loops(self, node: Any, halves: Halves) -> Halves:
        """Return the loops around a statement that share its turns, or of which one goes on."""
        if isinstance(node, Along):
            return frozenset([ROW_THREADS]) | (halves & {PARTS})
        if isinstance(node, EachPart):
            return frozenset([ROW_THREADS])
        if isinstance(node, EachRow | Shared):
            return frozenset([EVERY_THREAD])
        return frozenset([PARTS] if isinstance(node, LastBlock) else [])

    def _half(self, loops: frozenset[int]) -> Halves:
        """Return loops with the one of the lanes in its halves."""
        cut = {STRIPS, LANES} if self._program.lanes in loops else set()
        return frozenset[int | str](loops - {self._program.lanes}) | cut

    def _room(self, array: Array) -> Halves:
        """Return the loops for whose indices an array has elements."""
        room: set[int | str] = set()
        for dim in array.dims:
            if isinstance(dim.loop, Deal):
                room.update(dim.loop.loops, [SPARE] * dim.loop.rows)
            elif dim.loop is not None:
                lanes = {LANES} if dim.lanes == "strip" else {STRIPS, LANES}
                room |= lanes if dim.lanes else {dim.loop}
        return frozenset(room)

    def _shared(self, a: _At, b: _At) -> Halves:
        """Return the loops that stand around both, without those of whose turns one has one."""
        halves = Halves()
        for own_loop, other in zip(a.path, b.path, strict=False):
            if own_loop is not other:
                break
            halves = self._loops_inside(own_loop, halves)
        return halves - a.first

    def _name(self, at: _At, array: Array) -> Name:
        """Return what an array's name stands for at a statement."""
        if array.memory not in ("stack", "shared"):
            return array.name, None
        known = [
            order for path, order in self._defined.get(array.name, ())
            if order < at.order and at.path[: len(path)] == path
        ]  # fmt: skip
        self._require(bool(known), f"{array.name} is not declared where it is used")
        return array.name, known[-1]

    # What they do.

    def _of(self, kind: str, name: Name) -> list[_At]:
        return [at for at in self._by_array.get(name, []) if at.kind == kind]

    def _check_index(self, at: _At, array: Array) -> None:
        missing = self._room(array) - at.halves
        self._require(not missing, f"{array.name} is indexed by {missing}, which are not around it")
        for units in [node.units for node in at.path if isinstance(node, Rows | Along | For)]:
            other = units and any(x.name == array.name and x != array for x in units.arrays)
            self._require(not other, f"{array.name} is no element of its units")
        for dim in array.dims:
            if isinstance(dim.loop, Deal):  # else it is not an element that the thread has
                same = any(isinstance(x, Along | EachRow) and x.deal == dim.loop for x in at.path)
                self._require(
                    same, f"{array.name} has elements of a row that is dealt out otherwise"
                )
                others = [x for x in array.dims if isinstance(x.loop, Deal)]
                alone = others == [dim] and str(dim.length) == str(dim.loop.each) != "0"
                alone &= dim.start == 0 and array.memory == "stack" and array.strides is None
                self._require(alone, f"{array.name} has not one element for each that a thread has")
                self._require(array in self._declared, f"{array.name} is declared otherwise")

    def _check_leaf(self, at: _At, leaf: Expr) -> None:
        if isinstance(leaf, Register):
            known = any(
                let.order < at.order and let.path == at.path[: len(let.path)]
                for let in self._registers.get(str(leaf), ())
            )
            self._require(known, f"{leaf} is not known where it is read")
        if isinstance(leaf, Index):
            self._require(leaf.loop in at.halves, f"{leaf} is the index of no loop around")
        if not isinstance(leaf, Element):
            return
        array = leaf.array
        self._check_index(at, array)
        if array.memory != "operand" and not self._of("start", self._name(at, array)):
            self._check_stored(at, array)

    def _check_threads(self, at: _At) -> None:
        """Check what threads do together, what one of them does, and what each does for itself."""
        known = not self._program.rows or at.is_in(Rows) or at.kind == "number"
        self._require(known, f"{at.place} is done for no row")
        if isinstance(at.statement, Meet):
            self._check_together(at.path, at.halves)
        if at.kind == "put":
            exact = at.over == self._room(at.array) and not at.is_in(LastBlock)
            self._require(exact, f"{at.array.name} is put over {at.over}")
        elif at.kind != "write":
            alone = at.first & AGAIN
            self._require(not alone, f"{at.place} is done in the first turn of {alone} only")
        some = at.is_in(EachPart) and at.kind != "add"
        self._require(not some, f"{at.place} is done by as many threads as there are parts")

    def _check_deal(self, along: Along, halves: Halves) -> None:
        """Check that each thread has elements that it can keep, and units of them."""
        deal = along.deal
        exact = deal.unit > 0 and deal.each % deal.unit == 0 and not deal.rows
        alone = PARTS not in halves if deal.each else deal.unit == 1
        self._require(exact and alone, f"{deal} does not deal out each element once")
        if along.units is not None:
            fits = deal.each > 0 and along.units.count == deal.unit
            self._require(fits, "units of other lengths")
            self._check_units(along.units, deal.loops, halves.union(deal.loops))

    def _check_units(self, units: Units, loops: Sequence[int], halves: Halves) -> None:
        """Check that each index of loops has one element of what is moved in units."""
        last = loops[-1]
        every = {loop for loop in halves.union(loops) if isinstance(loop, int)}
        for array in units.arrays:
            around = [dim.loop for dim in array.dims if dim.loop is not None]
            own = around.count(last) == 1 and every.issuperset(around)
            self._require(own, f"{array.name} has no unit of its own for some rows")
            dense = own and str(array.stride([dim.loop for dim in array.dims].index(last))) == "1"
            self._require(dense, f"{array.name} is not dense along {last}")
        for array in units.results:
            whole = every == {dim.loop for dim in array.dims if dim.loop is not None}
            self._require(whole, f"units of {array.name} are stored more than once")

    def _check_together(self, path: Path, halves: Halves) -> None:
        """Check that all threads of a block come somewhere, equally often."""
        together = {SPARE, ROW_THREADS} <= halves
        together &= not any(isinstance(node, First) for node in path)
        self._require(together, "not all threads come to where they meet")

    def _check_stored(self, at: _At, array: Array) -> None:
        """Check that what is read of an array was written."""
        name = self._name(at, array)
        writers = [x for x in self._by_array.get(name, []) if not x.is_in(FullStrip)]
        if {x.kind for x in writers} == {"pack"}:  # once in each pass over strips
            alike = itertools.pairwise(writers)
            twice = any(self._strips_of(a) is self._strips_of(b) for a, b in alike)
            self._require(not twice, f"{array.name} is packed twice")
            writers = [x for x in writers if x.order < at.order][-1:]
        self._require(len(writers) == 1, f"{array.name} is written {len(writers)} times")
        self._check_read(at, writers[0], array)
        last = array.memory != "slots" or at.is_in(LastBlock)
        self._require(last, f"{array.name} is read before all parts have been there")

    def _strips_of(self, at: _At) -> Strips | None:
        return next((node for node in at.path if isinstance(node, Strips)), None)

    def _check_read(self, at: _At, writer: _At, array: Array) -> None:
        """Check that a value was written for the index at which it is read."""
        room, over = self._room(array), self._over(writer)
        if isinstance(writer.statement, Call):
            over -= self._half(self._program.tasks[writer.statement.place].reduced)
        lost = over - self._shared(writer, at) - room
        if array.memory == "shared":
            self._require(writer.is_in(Shared), f"all threads write {array.name}")
            lost -= {EVERY_BLOCK}
        self._require(writer.order < at.order, f"{array.name} is read before it is written")
        self._require(not lost, f"{array.name} has one element for all indices of {lost}")
        self._require(room <= over, f"{array.name} is written in {over} only")
        alone = writer.first if writer.kind != "put" else writer.first - AGAIN
        self._require(alone <= at.first, f"{array.name} is written in a first turn only")

    def _over(self, at: _At) -> Halves:
        """Return the loops that a statement goes over, with those of a function."""
        if isinstance(at.statement, Call):
            inside = self._half(at.statement.loops)
            return at.over | (inside - {STRIPS})
        return at.over

    def _check_call(self, at: _At, call: Call) -> None:
        task, over = self._program.tasks[call.place], self._over(at)
        every = self._half(task.loops | task.reduced)
        self._require(over == every, f"a function goes over {over}, not {every}")
        self._require(at.is_in(FullStrip) == call.adds, f"no loops instead of {call.text}")
        places = set()
        for leaf in call.reads:
            places.add(self._place_of(leaf.array))
            self._require(self._room(leaf.array) <= over | {STRIPS}, f"{leaf} in a function")
            if leaf.array.memory != "operand":
                self._check_stored(at, leaf.array)
        self._require(places == task.operands, f"{call.text} reads {places}")

    def _place_of(self, array: Array) -> int:
        return self._program.values[array.name]

    def _places(self, at: _At) -> set[int]:
        """Return the places of what a statement reads."""
        leaves = list(at.statement.value.leaves())
        return {leaf.place for leaf in leaves if isinstance(leaf, Register)} | {
            self._place_of(leaf.array) for leaf in leaves if isinstance(leaf, Element)
        }

    def _check_task(self, place: int, task: Task) -> None:
        """Check that an operation runs once for each of its indices, on what it needs."""
        every_step = [at for at in self._all if at.place == place]
        calls = [at for at in every_step if isinstance(at.statement, Call)]
        own = [at for at in every_step if not isinstance(at.statement, Call)]
        every, kept = self._half(task.loops | task.reduced), self._half(task.loops)
        self._require(not task.loops & task.reduced, f"{place} reduces some of what it goes along")
        for at in own:
            over = at.over - AGAIN
            if at.kind == "compute":
                self._require(over == every, f"{place} is computed over {over}, not {every}")
            if at.kind == "keep":
                self._require(over == kept, f"{place} is kept over {over}")
            if at.kind in ("write", "meet", "put"):
                self._require(self._places(at) == {place}, f"something else is kept for {place}")
        alone = [at for at in own if at.kind in ("compute", "add")]
        self._require(bool(alone or calls), f"{place} is never done")
        if not task.reduced:
            passes = Counter([next((id(x) for x in at.path if isinstance(x, Along)), None)
                              for at in alone])  # fmt: skip
            self._require({*passes.values()} == {1}, f"{place} is done {len(alone)} times")
        read = set().union(*map(self._places, own)) - {place}
        self._require(read == task.operands or not own, f"{place} reads {read}")

    def _check_result(self, result: str, loops: frozenset[int]) -> None:
        """Check that a result is written once for each index, by one thread."""
        place, writers = self._program.values[result], self._of("write", (result, None))
        self._require(len(writers) == 1, f"{result} is written {len(writers)} times")
        written = writers[0]
        exact = written.over == self._room(written.array) == self._half(loops)
        self._require(exact, f"{result} of {place} is written over {written.over}")
        self._require(written.place == place, f"{result} is {written.place}, not {place}")
        for node in self._alongs:
            stores = node.units is not None and any(x.name == result for x in node.units.results)
            inside = any(node is x for x in written.path)
            self._require(inside or not stores, f"units of {result} are stored where none is made")

    def _check_accumulator(self, name: Name) -> None:
        """Check that what accumulates is started once, and that each element is added once."""
        starts, adds = self._of("start", name), self._of("add", name)
        if not starts and not adds:
            return
        array = name[0]
        index = self._index(name)
        start, add = starts[0], adds[0]
        task = self._program.tasks[add.place]
        self._require(start.order < add.order, f"{array} is added to before it is started")
        self._require(start.over == index, f"{array} is started over {start.over}, not {index}")
        whole = self._half(task.loops | task.reduced)
        for leaf in add.statement.value.leaves():
            if isinstance(leaf, Element) and self._place_of(leaf.array) == add.place:
                other = self._name(add, leaf.array)
                if leaf.array.memory == "slots":
                    whole = self._half(task.loops)
                elif other != name and self._of("start", other):
                    whole = self._index(other)
        over = add.over - AGAIN
        self._require(over == whole - AGAIN, f"{array} is added to over {over}, not {whole}")
        gone = add.over - index
        allowed = self._half(task.reduced) | {PARTS}
        self._require(gone <= allowed, f"{array} adds up over {gone}")
        adjusted = self._of("adjust", name)
        self._require(len(adjusted) <= 1, f"{array} is adjusted twice")
        self._require(all(add.order < at.order and at.over == index for at in adjusted),
                      f"{array} is adjusted before all has been added")  # fmt: skip
        readers = [at for at in self._all if at is not add and self._reads(at, name)]
        self._require(bool(readers), f"{array} is never read")
        for at in readers:
            if at.kind != "adjust" or at.array.name != array:
                self._check_end(array, index, start, add, at)
                self._check_met(at, index - add.halves)

    def _reads(self, at: _At, name: Name) -> bool:
        """Whether a statement reads an array, and not only to change it."""
        return any(
            isinstance(leaf, Element)
            and leaf.array.name == name[0]
            and self._name(at, leaf.array) == name
            for leaf in at.statement.value.leaves()
        )

    def _check_end(self, name: str, index: Halves, start: _At, add: _At, at: _At) -> None:
        """Check that an accumulator is read when all has been added."""
        alike = at.place == add.place and at.kind in ("compute", "add")
        if alike and self._shared(add, at) == add.over:
            return  # it decides what is added here, or to another accumulator of the operation
        self._require(add.order < at.order, f"{name} is read before it is added to")
        exact = at.over == index - at.first
        self._require(exact, f"{name} is read over {at.over}, not {index}")
        same = self._shared(add, at) & index == self._shared(start, add) & index
        self._require(same, f"{name} is read where it is started again")
        if at.kind in ("keep", "write", "meet"):
            left = index - self._half(self._program.tasks[at.place].loops) - AGAIN
            self._require(not left, f"{name} has not been added up over {left}")

    def _check_met(self, at: _At, apart: Halves) -> None:
        """Check that sums are brought together, if loops `apart` have added up some each."""
        meets = isinstance(at.statement, Meet)
        self._require(meets == (ROW_THREADS in apart), f"{at.place}: threads have to meet, once")
        if not meets:
            return
        left = apart - {ROW_THREADS}
        for reader in self._all:
            if at.statement.target in reader.statement.value.leaves():
                puts = reader.kind == "put"
                fits = left <= self._room(reader.array) if puts else not left
                problem = f"{reader.place} is read before {left} have been brought together"
                self._require(fits and puts == bool(left), problem)

    def _index(self, name: Name) -> Halves:
        """Return the loops for each of whose indices an accumulator is one of its own."""
        starts, adds = self._of("start", name), self._of("add", name)
        once = len(starts) == len(adds) == 1
        self._require(once, f"{name[0]}: started {len(starts)} times, added to {len(adds)} times")
        (start,), (add,) = starts, adds
        room = self._room(start.array)
        rows = any(isinstance(x.loop, Deal) and x.loop.rows for x in start.array.dims)
        return (
            self._shared(add, start) - {EVERY_THREAD} if rows else self._shared(add, start)
        ) | room

    def _require(self, holds: bool, problem: str) -> None:
        if not holds:
            raise BrokenKernelError(problem)
