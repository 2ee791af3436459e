"""Kernels as trees: statements that can be checked, and only then become text in C or CUDA C.

A kernel goes over the loops of a nest, which are numbered. Its statements stand in loops, and read
and write elements of arrays. Both say so in fields, from which the text follows:

    For(0, ..., body=(
        Let(v3, a0[i0] * a1[i0], Step("compute", 3)),
        Set(r0[i0], v3, Step("write", 3)),
    ))

is

    for (int64_t i0 = 0; i0 < n0; i0++) {
    const float v3 = a0[i0] * a1[i0];
    r0[i0] = v3;
    }

An operand of an expression that is more than a name stands in parentheses, always. One loop of a
nest may be cut into *strips*, within which its elements are *lanes*: `Strips` and `Lanes` together
are that loop. `kernel_checks` proves that a tree does what its nest says.

In CUDA C every thread runs the whole text. `Rows` gives each thread one row: one index of some
loops. `Along` deals the elements of a row out to its threads, and `Meet` brings together what each
of them has added up. The threads of a row do all else alike, each for itself. Several blocks of
threads may share rows, each with a *part* of every row. Each of these blocks stores what it has
added up, and the last one reads that from memory, in `LastBlock`.

    Rows((0,), (SPARE, ROW_THREADS), body=(
        Set(t3, 0, Step("start", 3)),
        Along(Deal((1,), 32), body=(
            Apply(t3, "float", (from0[i0 * n1 + i1],), "...", Step("add", 3)),
        )),
        Meet(all3, "float", t3, "a + b", 3),
        First((SPARE, ROW_THREADS), body=(Set(to0[i0], all3, Step("write", 3)),)),
    ))

Where rows are short enough, a thread keeps values of its elements in an array of registers, from
one `Along` to others that deal out the same elements.

Where rows read the same elements, a thread may have several rows, and does each step for all of
them: `EachRow` goes over these. What stands outside is the same for all rows: it is done once. The
threads of a block share the turns of a loop there (`Shared`), and what they find.

    Rows((), (EVERY_THREAD,), body=(
        For(1, 16, body=(
            Set(b1[i1], from1[i1], Step("keep", 1)),
            EachRow(Deal((0,), 256, 4, rows=True), body=(
                Apply(a3[k], "float", (from0[i0 * n1 + i1], b1[i1]), "...", Step("add", 3)),
            )),
        )),
        ...
    ))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Expr:
    """An expression: a form with a hole for each operand.

    >>> n, m = Atom("n"), Atom("m")
    >>> print(Expr("{} / {}", (n, Expr("{} * {}", (n, m)))))
    n / (n * m)
    """

    form: str
    operands: tuple[Expr, ...] = ()

    @property
    def is_atom(self) -> bool:
        """Whether it needs no parentheses as an operand."""
        return False

    def __str__(self) -> str:
        return self.form.format(*[str(x) if x.is_atom else f"({x})" for x in self.operands])

    def leaves(self) -> Iterator[Expr]:
        """Yield the names and elements that it reads."""
        if not self.operands:
            yield self
            return
        for operand in self.operands:
            yield from operand.leaves()


@dataclasses.dataclass(frozen=True)
class Atom(Expr):
    """A name or a number."""

    @property
    def is_atom(self) -> bool:
        """Names never need parentheses."""
        return True

    def __str__(self) -> str:
        return self.form


@dataclasses.dataclass(frozen=True)
class Register(Atom):
    """A value that is known in its scope: the one at a place of the nest."""

    place: int = -1


@dataclasses.dataclass(frozen=True)
class Index(Atom):
    """The index of a loop around."""

    loop: int = -1


@dataclasses.dataclass(frozen=True)
class CallOf(Expr):
    """A function's result; the form is its name with one hole per argument in parentheses."""

    def __str__(self) -> str:
        return self.form.format(*self.operands)


def number(value: int) -> Atom:
    """Write a number that is not negative."""
    return Atom(str(value))


def infix(sign: str, terms: Sequence[Expr], nothing: int) -> Expr:
    """Join terms by a sign; `nothing` stands for no terms."""
    if len(terms) < 2:
        return terms[0] if terms else number(nothing)
    return Expr(f" {sign} ".join(["{}"] * len(terms)), tuple(terms))


def product(factors: Sequence[Expr]) -> Expr:
    """Multiply."""
    return infix("*", [x for x in factors if str(x) != "1"], 1)


def total(terms: Sequence[Expr]) -> Expr:
    """Add."""
    return infix("+", [x for x in terms if str(x) != "0"], 0)


def index(loop: int) -> Index:
    """Name the index of a loop."""
    return Index(f"i{loop}", loop=loop)


LANE, STRIP = Atom("t"), Atom("j0")
"""The element of a strip, and the first element of the strip."""

SPARE, ROW_THREADS, PARTS = "spare rows", "threads of a row", "parts of a row"
EVERY_THREAD, EVERY_BLOCK = "every thread", "every block of threads"
"""Loops whose turns are threads of a GPU, which run at the same time.

Threads beyond the last row do that row once more (`SPARE`), so that they come to every `Meet`.
What is the same for all rows, `EVERY_THREAD` of a call does, or `EVERY_BLOCK`.
"""

_FIRST = {
    SPARE: "there",
    ROW_THREADS: "lane == 0",
    PARTS: "part == 0",
    EVERY_THREAD: "piece == 0 && threadIdx.x == 0",
    EVERY_BLOCK: "piece == 0",
}


@dataclasses.dataclass(frozen=True)
class Deal:
    """Which elements of a row each of its threads has. Or which rows, for `EachRow`.

    A thread has units of neighbours, and between two of its units each other thread has one.

    >>> deal = Deal((1,), width=32, each=8, unit=4)  # thread 1 has elements 4 to 7 and 132 to 135
    """

    loops: tuple[int, ...]  # whose indices are the elements, the slowest first
    width: int  # threads of a row
    each: int = 0  # how many elements a thread has at most; 0: any number, one after the other
    unit: int = 1  # how many neighbours are a unit; of it all are in the row, or none
    rows: bool = False  # whether these are rows, and the threads those of a block


@dataclasses.dataclass(frozen=True)
class Dim:
    """One dim of an array."""

    # That it runs along: a number or `PARTS`; None: it has one element. A `Deal`: it has those
    # elements of a row that the thread has, or rows.
    loop: int | str | Deal | None
    length: Expr  # how many elements it has
    lanes: str = ""  # "strip": it has a strip of the loop; "whole": all of it, strip by strip
    start: int = 0  # its element for index 0 of the loop
    period: Expr | None = None  # how many elements it has, if the first one follows the last one

    @property
    def index(self) -> Expr:
        """The element that a statement in the loop reads or writes, without `start`.

        Of a periodic dim it is the element itself. Along lanes, a strip ends where such a dim
        does, and pointers are to element `start`, or as many elements before the first one.
        """
        if self.loop is None:
            return number(0)
        if self.lanes:
            return LANE if self.lanes == "strip" else total([STRIP, LANE])
        if self.period is not None and isinstance(self.loop, int):
            at = total([index(self.loop), number(self.start)])
            return Expr("{0} < {1} ? {0} : {0} - {1}", (at, self.period))
        if isinstance(self.loop, Deal):
            return Atom("k")
        return index(self.loop) if isinstance(self.loop, int) else Atom("part")


@dataclasses.dataclass(frozen=True)
class Array:
    """An array that a kernel reads or writes.

    Arrays without dims are variables. Those of memory "scratch" lie in what the kernel is given,
    one behind the other; those of memory "stack" are the kernel's own. Blocks of threads write to
    memory "slots" what the last one of them reads. The threads of a block have memory "shared".
    """

    name: str
    type: str
    dims: tuple[Dim, ...]
    memory: str  # "operand", "result", "stack", "scratch", "slots" or "shared"
    itemsize: int = 8
    strides: tuple[Expr, ...] | None = None  # of each dim, unless elements are dense
    ahead: frozenset[int] = frozenset()  # loops whose index is in the pointer already

    def stride(self, dim: int) -> Expr:
        """The distance between neighbours along a dim."""
        if self.strides is not None:
            return self.strides[dim]
        return product([later.length for later in self.dims[dim + 1 :]])

    def offset(self, dims: Sequence[int], index: Sequence[Expr]) -> Expr:
        """Add up what indices of some dims contribute."""
        return total([
            product([at, self.stride(dim)])
            for dim, at in zip(dims, index, strict=True) if str(at) != "0"
        ])  # fmt: skip

    @property
    def size(self) -> Expr:
        """How many elements it has."""
        return product([dim.length for dim in self.dims])

    @property
    def stack_bytes(self) -> int:
        """How many bytes it takes on the stack; its lengths are numbers."""
        count = self.itemsize
        for dim in self.dims:
            count *= int(str(dim.length))
        return count


@dataclasses.dataclass(frozen=True)
class Element(Expr):
    """The element of an array at the indices of the loops around."""

    array: Array = Array("", "", (), "")

    @property
    def is_atom(self) -> bool:
        """Elements never need parentheses."""
        return True

    def __str__(self) -> str:
        array = self.array
        if not array.dims and array.memory == "stack":
            return array.name
        dims = [n for n, dim in enumerate(array.dims) if dim.loop not in array.ahead]
        return f"{array.name}[{array.offset(dims, [array.dims[n].index for n in dims])}]"


def element(array: Array) -> Element:
    """Name the element of an array at the indices of the loops around."""
    return Element(array.name, (), array)


@dataclasses.dataclass(frozen=True)
class Step:
    """What a statement does for the nest.

    Kinds: "compute" an elementwise operation; "start" an accumulator, "add" to it, "finish" a
    reduction; "keep" a value in an array; "write" a result; "pack" a load into an array.

    In CUDA C: read a "number"; "meet" to bring together what threads have added up; "put" that
    into memory for the last block of threads.
    """

    kind: str
    place: int  # of the value


@dataclasses.dataclass(frozen=True)
class Let:
    """Define a name in its scope."""

    target: Register
    type: str
    value: Expr
    step: Step

    def lines(self) -> list[str]:
        """Write it in C."""
        return [f"const {self.type} {self.target} = {self.value};"]


@dataclasses.dataclass(frozen=True)
class Set:
    """Write an element."""

    target: Element
    value: Expr
    step: Step
    sign: str = "="

    def lines(self) -> list[str]:
        """Write it in C."""
        return [f"{self.target} {self.sign} {self.value};"]


@dataclasses.dataclass(frozen=True)
class Argument:
    """An operand with the name that a statement in C++ has for it."""

    name: str
    type: str
    value: Expr


@dataclasses.dataclass(frozen=True)
class Apply:
    """Run a statement in C++ that reads arguments by name, and sets or changes `out0`."""

    target: Register | Element  # `out0`; a register is defined
    type: str
    arguments: tuple[Argument, ...]
    text: str
    step: Step

    @property
    def value(self) -> Expr:
        """An expression that reads what it reads."""
        return Expr("", tuple([x.value for x in self.arguments]))

    def lines(self) -> list[str]:
        """Write it in CUDA C."""
        head = [f"{self.type} {self.target};"] if isinstance(self.target, Register) else []
        named = [
            f"typedef {x.type} {x.name}_type; const {x.name}_type {x.name}({x.value});"
            for x in self.arguments
        ]
        out = f"typedef {self.type} out0_type; out0_type& out0 = {self.target};"
        return [*head, "{", *named, out, f"{self.text};", "}"]


@dataclasses.dataclass(frozen=True)
class Meet:
    """Define a name for what all threads of a row have added up together.

    Every thread of a block must come here, as often as all others.
    """

    target: Register
    type: str
    value: Element  # what this thread has
    combine: str  # how two of them, `a` and `b`, become one
    step: Step

    def lines(self) -> list[str]:
        """Write it in CUDA C."""
        name = self.type
        combine = f"[]({name} a, {name} b) -> {name} {{ return {self.combine}; }}"
        call = f"brought_together<{name}>(shared, {self.value}, {combine})"
        return [f"const {name} {self.target} = {call};"]


@dataclasses.dataclass(frozen=True)
class Declare:
    """Make room for an array of the stack, or of a block of threads."""

    array: Array

    def lines(self) -> list[str]:
        """Write it in C."""
        if self.array.memory == "shared":
            return [
                f"alignas(16) __shared__ {self.array.type} {self.array.name}[{self.array.size}];"
            ]
        size = f"[{self.array.size}]" if self.array.dims else ""
        return [f"{self.array.type} {self.array.name}{size};"]


@dataclasses.dataclass(frozen=True)
class Call:
    """Do a whole reduction over short loops, and over the lanes of a full strip, by a function."""

    text: str
    place: int
    loops: frozenset[int]  # that the function goes over, lanes among them
    reads: tuple[Element, ...]
    target: Element  # to which it adds if it goes over reduced lanes, and which it sets if not
    adds: bool

    @property
    def step(self) -> Step:
        """What it does for the nest: all of a reduction."""
        return Step("call", self.place)

    @property
    def value(self) -> Expr:
        """An expression that reads what it reads."""
        return Expr("", self.reads)

    def lines(self) -> list[str]:
        """Write it in C."""
        return [f"{self.text};"]


@dataclasses.dataclass(frozen=True)
class For:
    """Go over all indices of a loop."""

    loop: int
    length: Expr
    body: tuple[Statement, ...]
    type: str = "int64_t"  # of the index
    unrolled: bool = False  # whether its text is repeated, so that arrays can be in registers
    units: Units | None = None  # what is loaded in units; `Rows` asks whether these are aligned

    def lines(self) -> list[str]:
        """Write it in C."""
        i, body = f"i{self.loop}", lines_of(self.body)
        pragma = ["#pragma unroll"] if self.unrolled else []
        single = [*pragma, f"for ({self.type} {i} = 0; {i} < {self.length}; {i}++) {{", *body, "}"]
        if self.units is None:
            return single
        count = self.units.count
        return [
            *pragma,
            f"for ({self.type} ahead = 0; ahead < {self.length}; ahead += {count}) {{",
            f"const {self.type} {i} = ahead;",
            *self.units.load(),
            "#pragma unroll",
            f"for (unsigned int u = 0; u < {count}; u++) {{",
            *self.units.held("u"),
            f"const {self.type} {i} = ahead + u;",
            *body,
            "}",
            "}",
        ]


@dataclasses.dataclass(frozen=True)
class Strips:
    """Go over the strips of a loop: `j0` is the first element of one, `m` its length."""

    loop: int
    width: int
    body: tuple[Statement, ...]
    twice: bool  # whether the text of full strips stands apart, with a constant length
    cuts: tuple[Expr, ...] = ()  # elements that begin a strip in any case

    def lines(self) -> list[str]:
        """Write it in C."""
        n, w, body = f"n{self.loop}", self.width, lines_of(self.body)
        if self.cuts:
            return self._cut(n, body)
        head = f"for (int64_t j0 = 0; j0 < {n}; j0 += {w}) {{"
        if not self.twice:
            return [head, f"const int64_t m = j0 + {w} < {n} ? {w} : {n} - j0;", *body, "}"]
        return [
            head, f"if (j0 + {w} <= {n}) {{ enum {{ m = {w} }};", *body,
            f"}} else {{ const int64_t m = {n} - j0;", *body, "} }",
        ]  # fmt: skip

    def _cut(self, n: str, body: Sequence[str]) -> list[str]:
        """Write strips that end at cuts: `left` elements are left up to the next one."""
        head = [
            f"for (int64_t j0 = 0, left; j0 < {n}; j0 += left) {{",
            f"left = {n} - j0 < {self.width} ? {n} - j0 : {self.width};",
            *[f"if (j0 < {cut} && {cut} - j0 < left) left = {cut} - j0;" for cut in self.cuts],
        ]
        if not self.twice:
            return [*head, "const int64_t m = left;", *body, "}"]
        return [
            *head, f"if (left == {self.width}) {{ enum {{ m = {self.width} }};", *body,
            "} else { const int64_t m = left;", *body, "} }",
        ]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Lanes:
    """Go over the elements of a strip, all at once where the processor can."""

    loop: int
    body: tuple[Statement, ...]
    clauses: tuple[str, ...] | None = None  # of `omp simd`; None: no such promise
    whole: bool = False  # whether the strip is the whole loop

    def lines(self) -> list[str]:
        """Write it in C."""
        count = f"n{self.loop}" if self.whole else "m"
        head = [] if self.clauses is None else [f"#pragma omp simd {' '.join(self.clauses)}"]
        if self.whole:
            head = ["{ const int64_t j0 = 0;", *head]
        head.append(f"for (int64_t t = 0; t < {count}; t++) {{")
        return [*head, *lines_of(self.body), "}" * (1 + self.whole)]


@dataclasses.dataclass(frozen=True)
class First:
    """Do something in the first turn of loops around it only.

    The first turn of `ROW_THREADS` is the first thread, and so on.
    """

    loops: tuple[int | str, ...]
    body: tuple[Statement, ...]

    def lines(self) -> list[str]:
        """Write it in C."""
        test = " && ".join(
            _FIRST[loop] if isinstance(loop, str) else f"{index(loop)} == 0" for loop in self.loops
        )
        return [f"if ({test}) {{", *lines_of(self.body), "}"]


@dataclasses.dataclass(frozen=True)
class Scope:
    """Statements with names of their own."""

    body: tuple[Statement, ...]

    def lines(self) -> list[str]:
        """Write it in C."""
        return ["{", *lines_of(self.body), "}"]


@dataclasses.dataclass(frozen=True)
class FullStrip:
    """Do something for full strips in one way, and for the last, shorter one in another."""

    width: int
    full: Call
    rest: tuple[Statement, ...]

    def lines(self) -> list[str]:
        """Write it in C."""
        head = f"if (m == {self.width}) {{"
        return [head, *self.full.lines(), "} else {", *lines_of(self.rest), "}"]


@dataclasses.dataclass(frozen=True)
class Point:
    """Name the elements of arrays where the loops around have come to."""

    text: tuple[str, ...]

    def lines(self) -> list[str]:
        """Write it in C."""
        return list(self.text)


@dataclasses.dataclass(frozen=True)
class Units:
    """How a thread does several rows, or elements of a row, which are neighbours.

    They are neighbours along the last loop. Elements of arrays that vary along it are loaded and
    stored as units of so many neighbours. Within a row each of these arrays stands for its one
    element that belongs to the row; `kernel_checks` proves that a row reads or writes no other one.
    So the statements of a row are the same, whether its elements lie in a unit or in memory. Rows
    that are in no whole unit, and all rows where units are not aligned, are done one by one.

    All that holds of the elements of a row, too, where the threads of the row go along it, and of
    the elements of a short loop that a thread goes over.
    """

    count: int  # rows of a unit
    loads: tuple[Array, ...]  # arrays that are loaded so; all have the loop as their dense dim
    results: tuple[Array, ...]  # arrays that are stored so, with all loops around

    def begin(self, loops: Sequence[int]) -> list[str]:
        """Write what has to hold so that all units are aligned, and each lies in one dim.

        A result has all loops, so the last one is as long as that dim of it.
        """
        tests = [f"Unit<{x.type}, {self.count}>::begins_at({x.name})" for x in self.arrays]
        for array in self.arrays:
            (dim,) = [dim for dim in array.dims if dim.loop == loops[-1]]
            if any(other.loop is not None for other in array.dims if other is not dim):
                tests.append(f"({dim.length}) % {self.count} == 0")
        return list(dict.fromkeys(tests))

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Return all arrays that are moved in units."""
        return (*self.loads, *self.results)

    def load(self) -> list[str]:
        """Write the loads of a unit."""
        return [
            *[f"Unit<{x.type}, {self.count}> unit_{x.name};" for x in self.arrays],
            *[f"unit_{x.name}.load(&{element(x)});" for x in self.loads],
        ]

    def held(self, at: str) -> list[str]:
        """Let the names of arrays stand for one of the elements in a unit."""
        return [f"const Held<{x.type}> {x.name} = {{unit_{x.name}.value[{at}]}};"
                for x in self.arrays]  # fmt: skip

    def store(self) -> list[str]:
        """Write the stores of a unit."""
        return [f"unit_{x.name}.store(&{element(x)});" for x in self.results]

    def lines(self, loops: Sequence[int], body: Sequence[str]) -> list[str]:
        """Write the rows of a thread in CUDA C."""
        each, last = self.count, index(loops[-1])
        tests = " && ".join(self.begin(loops))
        return [
            f"Index row = piece * Index(threads * {each}) + threadIdx.x;",
            f"Index stop = (piece + Index(1)) * (threads * {each});",
            f"if ({tests}) {{",
            f"const Index start = (piece * Index(threads) + threadIdx.x) * {each};",
            f"if (start + {each} <= rows) {{",
            *_indices("start", loops),
            *self.load(),
            f"const Index ahead = {last};",
            "#pragma unroll",
            f"for (unsigned int k = 0; k < {each}; k++) {{",
            *self.held("k"),
            f"const Index {last} = ahead + k;",
            *body,
            "}",
            *self.store(),
            "}",
            # What no whole unit has is left to the block of threads that the next unit belongs to.
            f"const Index whole = rows / {each} * {each};",
            "row = whole + threadIdx.x;",
            f"stop = whole / (threads * {each}) == piece ? rows : 0;",
            "}",
            "if (stop > rows) stop = rows;",
            "#pragma unroll 1",
            "for (; row < stop; row += threads) {",
            *_indices("row", loops),
            *body,
            "}",
        ]


@dataclasses.dataclass(frozen=True)
class Patch:
    """How rows are dealt out where some array is dense along another loop than others are.

    A block of threads has a patch of both loops, and each warp 8 by 4 rows of it. So what a warp
    reads or writes of any of the arrays lies in 8 runs at most, not in 32.
    """

    across: int  # the other loop
    sides: tuple[int, int]  # rows of a patch along the other loop, and along the last one

    def lines(self, loops: Sequence[int]) -> list[str]:
        """Write the indices of a thread's row in CUDA C."""
        warps = self.sides[0] // 4  # of a patch, along the other loop
        inside = {
            self.across: f"threadIdx.x / 8 % 4 + threadIdx.x / 32 % {warps} * 4",
            loops[-1]: f"threadIdx.x % 8 + threadIdx.x / {32 * warps} * 8",
        }
        sides = dict(zip((self.across, loops[-1]), self.sides, strict=True))
        lines = ["Index rest_patch = piece;"]
        for loop in reversed(loops):
            side, at = sides.get(loop, 1), "rest_patch"
            if loop != loops[0]:
                lines.append(f"const Index all{loop}_patches = (n{loop} + {side - 1}) / {side};")
                at = f"rest_patch % all{loop}_patches"
            more = f" * {side} + ({inside[loop]})" if loop in inside else ""
            lines.append(f"const Index {index(loop)} = {at}{more};")
            if loop != loops[0]:
                lines.append(f"rest_patch /= all{loop}_patches;")
        beyond = " || ".join(f"{index(loop)} >= n{loop}" for loop in loops)
        return [*lines, f"if ({beyond}) return;"]


@dataclasses.dataclass(frozen=True)
class Rows:
    """Give each thread one row: one index of some loops. Or several, with `units`.

    Threads have rows in order, but for those of a `patch`.
    """

    loops: tuple[int, ...]  # the slowest first
    # Which of `SPARE`, `ROW_THREADS` and `PARTS` there are: these threads do the same row. Without
    # `SPARE`, threads beyond the last row return.
    again: tuple[str, ...]  # Without loops: `EVERY_THREAD`, and `EachRow` inside gives it rows.
    body: tuple[Statement, ...]
    units: Units | None = None
    patch: Patch | None = None

    def lines(self) -> list[str]:
        """Write it in CUDA C."""
        if self.units is not None:
            return self.units.lines(self.loops, lines_of(self.body))
        if self.patch is not None:
            return [*self.patch.lines(self.loops), *lines_of(self.body)]
        head = [] if {SPARE, EVERY_THREAD} & {*self.again} else ["if (!there) return;"]
        head += _indices("row", self.loops)
        tests = [
            test
            for x in statements_of(self.body)
            if isinstance(x, For) and x.units is not None
            for test in x.units.begin((x.loop,))
        ]
        if not tests:
            return [*head, *lines_of(self.body)]
        return [
            *head,
            f"if ({' && '.join(dict.fromkeys(tests))}) {{",
            *lines_of(self.body),
            "} else {",
            *lines_of(without_units(self.body)),
            "}",
        ]


@dataclasses.dataclass(frozen=True)
class EachRow:
    """Go over the rows of a thread, which has each `width`th of its block of threads.

    Rows beyond the last one are the last one again (`SPARE`).
    """

    deal: Deal
    body: tuple[Statement, ...]

    def lines(self) -> list[str]:
        """Write it in CUDA C."""
        return [
            "#pragma unroll",
            f"for (unsigned int k = 0; k < {self.deal.each}; k++) {{",
            f"const Index own = first + (k * {self.deal.width} + threadIdx.x);",
            "const bool there = own < rows;",
            "const Index row = there ? own : rows - 1;",
            *_indices("row", self.deal.loops),
            *lines_of(self.body),
            "}",
        ]


@dataclasses.dataclass(frozen=True)
class Along:
    """Deal out the elements of a row to its threads, and to its parts if there are any."""

    deal: Deal
    body: tuple[Statement, ...]
    units: Units | None = None  # what is moved in units, if elements are dealt out so

    def lines(self) -> list[str]:
        """Write it in CUDA C."""
        w, body = self.deal.width, lines_of(self.body)
        if not self.deal.each:
            head = f"for (Index j = part * {w} + lane; j < length; j += {w} * parts) {{"
            return [head, *_indices("j", self.deal.loops), *body, "}"]
        single = self._turns(body, None)
        if self.units is None:
            return single
        tests = " && ".join(self.units.begin(self.deal.loops))
        return [f"if ({tests}) {{", *self._turns(body, self.units), "} else {", *single, "}"]

    def _turns(self, body: Sequence[str], units: Units | None) -> list[str]:
        """Write loops that are unrolled, so that what a thread keeps can be in registers."""
        each, unit, last = self.deal.each, self.deal.unit, index(self.deal.loops[-1])
        store = ["if (there) {", *units.store(), "}"] if units and units.results else []
        return [
            "#pragma unroll",
            f"for (unsigned int turn = 0; turn < {each // unit}; turn++) {{",
            f"const Index j = (turn * {self.deal.width} + lane) * {unit};",
            "if (j < length) {",
            *_indices("j", self.deal.loops),
            *(units.load() if units else []),
            f"const Index ahead = {last};",
            "#pragma unroll",
            f"for (unsigned int u = 0; u < {unit}; u++) {{",
            f"const unsigned int k = turn * {unit} + u;",
            *(units.held("u") if units else []),
            f"const Index {last} = ahead + u;",
            *body,
            "}",
            *store,
            "}",
            "}",
        ]


@dataclasses.dataclass(frozen=True)
class Shared:
    """Deal out the indices of a loop to the threads of a block, which then wait for one another.

    What each has put into shared memory all of them can read afterwards. Each block does it again.
    """

    loop: int
    length: Expr
    body: tuple[Statement, ...]

    def lines(self) -> list[str]:
        """Write it in CUDA C."""
        i = index(self.loop)
        head = f"for (Index {i} = threadIdx.x; {i} < {self.length}; {i} += threads) {{"
        return [head, *lines_of(self.body), "}", "__syncthreads();"]


@dataclasses.dataclass(frozen=True)
class LastBlock:
    """Do something in the block of threads that comes here last of all those that share rows.

    Every thread of a block must come here. What all these blocks have put before can be read.
    """

    counter: str  # points to how many have been here
    body: tuple[Statement, ...]

    def lines(self) -> list[str]:
        """Write it in CUDA C."""
        return [f"if (is_last({self.counter}, parts)) {{", *lines_of(self.body), "}"]


@dataclasses.dataclass(frozen=True)
class EachPart:
    """Deal out the parts of a row to its threads."""

    width: int  # threads of a row
    body: tuple[Statement, ...]

    def lines(self) -> list[str]:
        """Write it in CUDA C."""
        head = f"for (unsigned int part = lane; part < parts; part += {self.width}) {{"
        return [head, *lines_of(self.body), "}"]


Loop = For | Strips | Lanes | First | Scope | Rows | EachRow | Along | Shared | LastBlock | EachPart
"""Statements that hold others, in `body`."""

Statement = Let | Set | Apply | Meet | Declare | Call | Loop | FullStrip | Point


def _indices(of: str, loops: Sequence[int]) -> list[str]:
    """Write the indices of loops, from the number of an element of all of them together."""
    if len(loops) < 2:
        return [f"const Index {index(loop)} = {of};" for loop in loops]
    lines = [f"Index rest_{of} = {of};"]
    lines += [f"const Index {index(loop)} = by{loop}.take(rest_{of});" for loop in loops[:0:-1]]
    return [*lines, f"const Index {index(loops[0])} = rest_{of};"]


def statements_of(body: Sequence[Statement]) -> Iterator[Statement]:
    """Yield statements, and all that stand in them."""
    for statement in body:
        yield statement
        for field in ("body", "rest"):
            yield from statements_of(getattr(statement, field, ()))


def without_units(body: Sequence[Statement]) -> list[Statement]:
    """Return statements whose loops within a thread load one element at a time."""
    single: list[Statement] = []
    for statement in body:
        plain: Any = statement
        if hasattr(plain, "body"):
            plain = dataclasses.replace(plain, body=tuple(without_units(plain.body)))
        single.append(dataclasses.replace(plain, units=None) if isinstance(plain, For) else plain)
    return single


def lines_of(body: Sequence[Statement]) -> list[str]:
    """Write statements in C, line by line."""
    return [line for statement in body for line in statement.lines()]


def around(
    loops: Sequence[tuple[int, Expr]], body: Sequence[Statement], kind: str = "int64_t"
) -> tuple[Statement, ...]:
    """Put statements into loops with indices of some type, the first one outermost."""
    inside = tuple(body)
    for loop, length in reversed(loops):
        inside = (For(loop, length, inside, kind),)
    return inside
