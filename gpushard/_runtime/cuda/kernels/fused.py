"""Loop nests in CUDA C: one launch for the blocks of many devices, whatever the nest does. Pure.

Elements are indices of loops. A thread has one of each loop that is in no way special: together
these are a row. Where no threads share a row, and all that varies along the last loop is dense
there, a thread has several rows instead, which are neighbours, and moves units of their elements
(`units`).

Along some loops the threads of a row go together, `width` of them, so that a block of threads has
several rows that are short. Where functions reduce these, threads go along once for each function
that needs what was reduced before (`passes`). What later passes need a thread keeps in registers,
if rows are short enough: then it loads each element once, in units where neighbours are of the same
row. Otherwise each pass computes again what it needs: what it reads comes from the cache then.
Either way nothing but results is written. Loops that are within a thread are short; what is reduced
over these is kept, in registers or next to them. Operations share such a loop where they can, and
loops of few operations are unrolled. Where all rows read the same elements in such loops, a thread
has several rows (`EachRow`) and loads these elements once. What is made of these elements alone, a
block of threads makes once, in shared memory.

Long rows that are gone along only once are cut into parts, for a block of threads each. What these
have goes to memory, and the block that is the last to come there goes on with all of it.

A row's threads add up their elements, which lie where the row's length and its types say, and then
meet in pairs: so results do not depend on timing, on how an array is split, or on where it lies.

What a thread does is a tree of statements (`kernel_tree`), which `kernel_checks` proves right
before it becomes text.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from gpushard._runtime.cuda.kernels import division, elementwise, thread_layout, units
from gpushard._runtime.cuda.kernels.batches import THREADS
from gpushard._runtime.cuda.kernels.elementwise import Signature, cuda_name, is_known, with_headers
from gpushard._runtime.cuda.kernels.limits import index_type
from gpushard._runtime.cuda.kernels.nesting import ROW, Loop, NestGroup, Nesting, shared_loops
from gpushard._runtime.cuda.kernels.passes import Passes, Spans
from gpushard._runtime.cuda.kernels.reduction import LANES, MOST_ELEMENTS, SHUFFLES
from gpushard._runtime.cuda.kernels.thread_layout import Threads
from gpushard._runtime.cuda.kernels.thread_nests import COUNTERS, ThreadNest
from gpushard._runtime.cuda.kernels.units import UNIT_BYTES, elements_of
from gpushard._runtime.kernel_checks import Program, Task, check
from gpushard._runtime.kernel_tree import (
    EVERY_BLOCK,
    EVERY_THREAD,
    PARTS,
    ROW_THREADS,
    SPARE,
    Along,
    Apply,
    Argument,
    Array,
    Atom,
    CallOf,
    Deal,
    Declare,
    Dim,
    EachPart,
    EachRow,
    Expr,
    First,
    For,
    LastBlock,
    Let,
    Meet,
    Patch,
    Point,
    Register,
    Rows,
    Set,
    Shared,
    Statement,
    Step,
    Units,
    around,
    element,
    index,
    lines_of,
    number,
    product,
    total,
)
from gpushard._runtime.nests import REDUCTIONS, Load, Op, Reduction, Result
from gpushard._typing import Dtype

MOST_IN_BLOCK = 16 << 10
"""Bytes of shared memory for what is made of these elements; 16 for each value, or less."""

_SOURCE = """
struct Batch {
  unsigned long long at[%(arrays)d * %(calls)d];
  unsigned long long count[%(loops)d * %(calls)d];
  alignas(16) unsigned char scalar[%(scalars)d][16];
};

%(units)s
%(divisor)s
%(preamble)s

// The element of a row, in the place of an array.
template <class T>
struct Held {
  T& value;
  template <class Index>
  __device__ T& operator[](Index) const { return value; }
};

const unsigned int kNowhere = 0xffffffff;

template <class T>
struct Position {
  T value;
  unsigned int at;
};

template <bool least, class T>
__device__ Position<T> nearer(Position<T> a, Position<T> b) {
  if (a.at == kNowhere || b.at == kNowhere) return a.at == kNowhere ? b : a;
  const bool first = a.at < b.at, a_nan = a.value != a.value, b_nan = b.value != b.value;
  if (a_nan || b_nan) return a_nan && (first || !b_nan) ? a : b;
  if (a.value == b.value) return first ? a : b;
  return (least ? a.value < b.value : b.value < a.value) ? a : b;
}

// The same where `b` comes after `a`, and there is an `a`.
template <bool least, class T>
__device__ Position<T> nearer_behind(Position<T> a, Position<T> b) {
  const bool stays = (least ? a.value <= b.value : b.value <= a.value) || a.value != a.value;
  return stays ? a : b;
}

%(shuffles)s
template <class W, class Combine>
__device__ W brought_together(unsigned char* shared, W a, Combine combine) {
  const unsigned int among = %(among)d, apart = %(apart)d, within = %(within)d;
  if (among > 1) {
    W* const parts = (W*)shared;
    __syncthreads();
    parts[threadIdx.x] = a;
    __syncthreads();
    W part[among];
    #pragma unroll
    for (unsigned int n = 0; n < among; n++) part[n] = parts[threadIdx.x %% apart + n * apart];
    #pragma unroll
    for (unsigned int half = among / 2; half > 0; half /= 2) {
      #pragma unroll
      for (unsigned int n = 0; n < half; n++) part[n] = combine(part[n], part[n + half]);
    }
    a = part[0];
  }
  #pragma unroll
  for (unsigned int half = within / 2; half > 0; half /= 2) a = combine(a, of_later(a, half));
  return within > 1 ? of_first(a, within) : a;
}

struct Slot {
  unsigned long long raw[2];
};

template <class W>
__device__ void put(volatile Slot& slot, W value) {
  unsigned long long raw[2] = {0, 0};
  memcpy(raw, &value, sizeof(W));
  slot.raw[0] = raw[0];
  slot.raw[1] = raw[1];
}

template <class W>
__device__ W taken(const volatile Slot& slot) {
  const unsigned long long raw[2] = {slot.raw[0], slot.raw[1]};
  W value;
  memcpy(&value, raw, sizeof(W));
  return value;
}

// Says whether all other parts of some rows have been here.
__device__ bool is_last(unsigned int* count, unsigned int parts) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(count, 1u) == parts - 1;
  __syncthreads();
  __threadfence();
  return last;
}

extern "C" __global__ void fused(const __grid_constant__ Batch batch) {
  alignas(16) __shared__ unsigned char shared[%(shared)d];
  typedef %(index)s Index;
  const unsigned int call = blockIdx.y, calls = gridDim.y, threads = %(threads)d;
  %(counts)s
  const Index rows = %(rows)s, length = %(length)s;
  const unsigned int parts = %(parts)d, part = blockIdx.x %% parts, piece = blockIdx.x / parts;
  %(own)s
  %(body)s
}
"""

_FIRST = """const Index first = piece * Index(%(together)d);
  if (first >= rows) return;"""
"""Which rows a block of threads has, where these come in order."""

_OWN = """
  const unsigned int lane = threadIdx.x %(split)s %(lanes)d;
  const Index own = first + threadIdx.x %(other)s %(lanes)d;
  const bool there = own < rows;
  const Index row = there ? own : rows - 1;  // all threads come to where they meet
"""
"""Which row a thread has, where that is one."""

_COMBINED: dict[np.ufunc, str] = {
    np.add: "W(a + b)",
    np.multiply: "W(a * b)",
    np.logical_or: "a || b",
    np.logical_and: "a && b",
    np.minimum: "b < a ? b : a",
    np.maximum: "a < b ? b : a",
}
"""How two elements come together, where neither is NaN."""


def _whole_units(load: Load, loop: int) -> int:
    """Return how many neighbours along a loop are whole units: each divisor of that, too.

    Elements behind a loop are not dense along it: then it is 1, as it is in a periodic dim.
    """
    at = load.dims.index(loop)
    behind = [*zip(load.dims[at + 1 :], load.more[at + 1 :], strict=True)]
    if any(x != (None, 0) for x in behind) or at in load.periodic:
        return 1
    return math.gcd(load.starts[at], load.more[at])


def reduces(op: Op, length: int) -> bool:
    """Whether there is a reduction, and rows are not so long that few threads have work.

    >>> double = np.dtype(float)
    >>> reduces(Op("max", ((0, None),), double, frozenset(), (double,)), 100)
    True
    """
    name, operand, result = op.name, op.types[0], op.dtype
    if name not in REDUCTIONS or not all(map(is_known, (*op.types, result))):
        return False
    extreme = REDUCTIONS[name].start is None
    if operand.kind == "c" and (result.kind not in "cb" or extreme):
        return False
    if name == "product" and not (result.char in "fd" and {*op.types} == {result}):
        return False
    same = not extreme or REDUCTIONS[name].position or operand == result
    return same and length <= MOST_ELEMENTS and not (name == "mean" and result.kind in "biu")


def program(
    dealt: ThreadNest,
    signature: Signature,
    statements: Sequence[elementwise.Statement | None],
    way: Threads,
) -> Program:
    """Make the tree of a thread's statements, with the tasks that it must fulfil.

    Args:
      dealt: the loop nest that the kernel computes.
      signature: its operands and results.
      statements: the statement of each operation; None for a reduction.
      way: how loops are dealt out to threads.
    """
    return _Writer(dealt, signature, statements, way).program()


def source(
    dealt: ThreadNest,
    signature: Signature,
    statements: Sequence[elementwise.Statement | None],
    way: Threads,
) -> str | None:
    """Write the kernel, which is called `fused`; the arguments are those of `program`.

    Returns:
      Its text. None if a thread would need more than `MOST_LOCAL` bytes of arrays.

    Raises:
      BrokenKernelError: the kernel is wrong, which is a defect of this module.
    """
    tree = program(dealt, signature, statements, way)
    if tree.array_bytes > tree.most_bytes:
        return None
    check(tree)
    known = dealt.within
    places = [f"batch.count[{n} * calls + call]" for n in range(len(dealt.loops))]
    counts = [
        f"const Index n{n} = {known.get(n, place if signature.wide else f'(Index){place}')};"
        for n, place in enumerate(places)
    ]
    counts += [f"const Divisor by{n}({places[n]});" for n in (*way.rows[1:], *way.along[1:])]
    preambles = dict.fromkeys(x.preamble for x in statements if x is not None)
    step = THREADS // way.width
    opening = "" if way.patched is not None else _FIRST % {"together": way.together}
    if way.each == 1 and way.patched is None and not way.at_once:
        opening += _OWN % {
            "split": "/" if way.across else "%",
            "other": "%" if way.across else "/",
            "lanes": step if way.across else way.width,
        }
    body = "\n  ".join(lines_of(tree.body))
    text = _SOURCE % {
        "arrays": signature.arrays,
        "calls": signature.calls,
        "loops": signature.loops,
        "scalars": max(1, len(signature.scalars)),
        "preamble": "\n".join(preambles),
        "units": units.SOURCE if "Unit<" in body else "",
        "divisor": division.WIDE if signature.wide else division.NARROW,
        "threads": THREADS,
        "own": opening,
        "shuffles": SHUFFLES,
        **_meeting(way),
        "parts": dealt.parts,
        "index": index_type(signature.wide),
        "counts": "\n  ".join(counts),
        "rows": _lengths(way.rows),
        "length": _lengths(way.along),
        "body": body,
    }
    return with_headers(text)


def _meeting(way: Threads) -> dict[str, int]:
    """Say how the threads of a row meet: the two of a pair are always half of what is left apart.

    Up to 32 threads meet within a warp. Of 256 those of 8 warps meet in shared memory first, which
    are `apart` by 32. Threads across rows are `apart` by the rows of a block of threads.
    """
    among, apart, within = 1, 1, way.width
    if way.across:
        among, apart, within = way.width, THREADS // way.width, 1
    elif way.width > LANES:
        among, apart, within = way.width // LANES, LANES, LANES
    shared = 16 * THREADS if among > 1 else 16
    return {"among": among, "apart": apart, "within": within, "shared": shared}


class _Writer:
    """Writes what a thread does."""

    def __init__(
        self,
        dealt: ThreadNest,
        signature: Signature,
        statements: Sequence[elementwise.Statement | None],
        way: Threads,
    ) -> None:
        self._dealt, self._nest, self._signature, self._way = dealt, dealt.nest, signature, way
        self._within = dealt.within
        if way.at_once:
            self._within[ROW] = way.at_once
        self._of_block: dict[int, int] = {}  # the loop that the threads of a block share, by place
        self._inside: dict[int, frozenset[int]] = {}  # loops around all that reads a value
        self._fetched: set[int] = set()  # loads that are kept in registers where it writes
        self._fetched_before: set[int] = set()
        assert len(dealt.nest.numbers) == len(signature.scalars)
        self._passes = Passes(dealt)
        self._nesting = Nesting(self._passes, self._within, way.rows)
        self._first = self._passes.first
        self._ops, self._level = self._passes.ops, self._passes.level
        self._operands = self._passes.operands
        self._spans: Spans = self._passes.spans(way.kept) if way.kept else {}
        self._statements = dict(enumerate(statements, self._first))
        self._blocks = signature.arrays - len(signature.results)
        self._loads = [
            Array(f"from{n}", cuda_name(load.dtype), self._dims(load), "operand")
            for n, load in enumerate(dealt.nest.loads)
        ]
        ends = [self._dims(result) for result in dealt.nest.results]
        ends += [()] * (dealt.parts > 1)  # where parts meet
        self._results = [
            Array(f"to{n}", cuda_name(dtype), dims, "result")
            for n, (dims, dtype) in enumerate(zip(ends, signature.results, strict=True))
        ]

    def program(self) -> Program:
        """Return the tree, and what it has to do."""
        body: list[Statement] = []
        for level in reversed(range(self._passes.count)):
            body = self._pass(level, body)
        again = [SPARE, ROW_THREADS] if self._way.along else []
        again += [PARTS] if self._dealt.parts > 1 else []
        again += [EVERY_THREAD] if self._way.at_once else []
        patch = None
        if self._way.patched is not None:
            patch = Patch(self._way.patched, self._way.sides)
        row_loops = () if self._way.at_once else self._way.rows
        rows = Rows(row_loops, tuple(again), tuple(body), self._units(), patch)
        values = {f"{name}{n}": n for n in range(len(self._loads)) for name in ("b", "from")}
        results = {}
        for n, (place, result) in enumerate(
            zip(self._passes.result_places, self._nest.results, strict=True)
        ):
            values[f"to{n}"] = place
            results[f"to{n}"] = frozenset([x for x in result.dims if x is not None])
        for place in self._ops:
            values |= {f"{name}{place}": place for name in ("a", "b", "p", "slots", "t", "v")}
        return Program(
            {place: self._task(place) for place in self._ops},
            results, None, (), values, (*self._parameters(), rows), thread_layout.MOST_LOCAL,
            rows=True,
        )  # fmt: skip

    def _units(self) -> Units | None:
        """Return how threads do several rows, if they do."""
        if self._way.each == 1:
            return None
        last = self._way.rows[-1]
        loads, results = (
            tuple([x for x in arrays if any(dim.loop == last for dim in x.dims)])
            for arrays in (self._loads, self._results)
        )
        return Units(self._way.each, loads, results)

    def _units_along(self, loads: Iterable[int], results: Iterable[int]) -> Units | None:
        """Find the arrays that a pass moves in units, among loads and results at some places."""
        moved = [
            tuple([array for array, block in pairs if self._has_units(block)])
            for pairs in (
                [(self._loads[at], self._nest.loads[at]) for at in sorted(loads)],
                [(self._results[n], self._nest.results[n])
                 for at in results for n in self._results_of(at)],
            )
        ]  # fmt: skip
        return Units(self._way.unit, *moved) if any(moved) else None

    def _has_units(self, block: Load | Result) -> bool:
        """Whether the elements of a row that are neighbours are so in a block, too."""
        count, dims, last = self._way.unit, block.dims, self._way.along[-1]
        if count == 1 or not dims or dims.count(last) != 1:
            return False
        if isinstance(block, Result):
            every = {*self._way.rows, *self._way.along}
            return dims[-1] == last and every == {loop for loop in dims if loop is not None}
        return _whole_units(block, last) % count == 0

    def _task(self, place: int) -> Task:
        """Say over which loops an operation runs: each row does it again, if not all along it.

        Where a thread has several rows, what lacks these is done once for all of them.
        """
        op = self._ops[place]
        along = self._way.along if self._passes.is_along(place) else ()
        alike = self._way.at_once and not self._nesting.is_of_rows(op.loops)
        rows = () if alike else self._way.rows
        return Task(
            op.loops.union(rows, along), frozenset(op.reduced), frozenset(self._operands[place])
        )

    def _parameters(self) -> list[Statement]:
        """Name everything that the kernel takes."""
        signature, statements = self._signature, list[Statement]()
        for load, array in zip(self._nest.loads, self._loads, strict=True):
            statements.append(self._pointer(f"const {array.type}", array, load.operand))
        for place, at in enumerate(signature.scalars, len(self._loads)):
            kind, n = cuda_name(signature.operands[at]), place - len(self._loads)
            value = Atom(f"*(const {kind}*)batch.scalar[{n}]")
            statements.append(Let(_register(place), kind, value, Step("number", place)))
        for n, array in enumerate(self._results):
            statements.append(self._pointer(array.type, array, self._blocks + n))
        return statements

    def _pointer(self, kind: str, array: Array, block: int) -> Point:
        """Point to the element of a block that has index 0 along all loops."""
        first_ones = [self._number(0 if dim.period else dim.start) for dim in array.dims]
        starts = array.offset(range(len(array.dims)), first_ones)
        first = total([Atom(f"({kind}*)batch.at[{block} * calls + call]"), starts])
        return Point((f"{kind}* const __restrict__ {array.name} = {first};",))

    def _dims(self, block: Load | Result) -> tuple[Dim, ...]:
        """Return the dims of a block as it is read or written."""
        starts = more = (0,) * len(block.dims)
        periodic = frozenset[int]()
        if isinstance(block, Load):
            starts, more, periodic = block.starts, block.more, block.periodic
        dims = []
        for at, (loop, start, beyond) in enumerate(zip(block.dims, starts, more, strict=True)):
            length = total([number(1) if loop is None else Atom(f"n{loop}"), self._number(beyond)])
            period = length if at in periodic else None
            dims.append(Dim(loop, length, start=start, period=period))
        return tuple(dims)

    def _number(self, value: int) -> Atom:
        """Write a number of a place: C++ multiplies two plain literals with 32 bits."""
        return Atom(f"{value}ull") if value and self._signature.wide else number(value)

    # Passes along a row.

    def _pass(self, level: int, rest: Sequence[Statement]) -> list[Statement]:
        """Write the operations of a row, then those of a pass along it, then the rest."""
        places = [place for place in self._ops if self._level[place] == level]
        plain = [
            at for at in places if not self._passes.is_along(at) and not self._passes.is_sum(at)
        ]
        body = self._scope(plain, level, along=False)
        sums, results = self._passes.sums(level), self._passes.results(level)
        if not sums and not results:
            return [*body, *rest]
        for place in sums:
            array = self._variable("t", place)
            body += [Declare(array), *self._start_of(array, place)]
        body += self._along(level)
        if not sums or self._dealt.parts == 1:
            return [*body, *[x for place in sums for x in self._bring_together(place)], *rest]
        last: list[Statement] = []
        size = 0
        for place in sums:
            slots = self._slots(place)
            body += [self._point(slots, size), *self._put(place, slots)]
            last += self._bring_together(place, slots)
            size += self._size(self._ops[place].loops)
        address = f"batch.at[{self._signature.arrays - 1} * calls]"
        counter = f"(unsigned int*){address} + call * (gridDim.x / parts) + piece"
        return [*body, LastBlock(counter, (*last, *rest))]

    def _along(self, level: int) -> list[Statement]:
        """Write what the threads of a row do when they go along it together."""
        known = {at for at, (first, _) in self._spans.items() if first < level}
        needed = self._passes.needed(level, known) - known
        new = sorted([at for at, (first, _) in self._spans.items() if first == level])
        loads = {at for at in needed if at < len(self._loads)}
        body: list[Statement] = [Declare(self._variable("b", at)) for at in new]
        fetched = [at for at in new if at in loads]  # all of a thread at once
        if fetched:
            body.append(Along(
                self._way.deal,
                tuple([
                    Set(element(self._variable("b", at)), element(self._loads[at]),
                        Step("keep", at))
                    for at in fetched
                ]),
                self._units_along(fetched, ()),
            ))  # fmt: skip
        places = sorted([*(needed - loads), *self._passes.sums(level)])
        moved = self._units_along(loads.difference(fetched), self._passes.results(level))
        body.append(Along(self._way.deal, tuple(self._scope(places, level, along=True)), moved))
        return body

    def _start_of(self, array: Array, place: int) -> Sequence[Statement]:
        """Start an accumulator."""
        op = self._ops[place]
        value = _start(op)
        if self._is_in_order(op):
            value = f"{{{_number(REDUCTIONS[op.name], op.types[0])}, 0}}"
        start = Set(element(array), Atom(value), Step("start", place))
        loops = [ROW if isinstance(dim.loop, Deal) else dim.loop for dim in array.dims]
        return self._each(loops, [start])

    def _slots(self, place: int) -> Array:
        """Return the memory in which all parts of all rows put their sums."""
        loops = self._loops_of(self._ops[place].loops)
        dims = [Dim(loop, Atom(f"n{loop}")) for loop in self._way.rows]
        dims += [Dim(PARTS, Atom("parts")), *[Dim(x, number(self._within[x])) for x in loops]]
        return Array(f"slots{place}", "volatile Slot", tuple(dims), "slots")

    def _point(self, slots: Array, skipped: int) -> Point:
        """Point to slots, which lie behind so many others of each part."""
        first = f"(volatile Slot*)to{len(self._results) - 1} + (rows * {COUNTERS})"
        first += f" + (rows * parts * {skipped})" if skipped else ""
        return Point((f"volatile Slot* const {slots.name} = {first};",))

    def _put(self, place: int, slots: Array) -> Sequence[Statement]:
        """Put the sum of each part into slots."""
        op, met = self._ops[place], Register(f"part{place}", place=place)
        meet = self._meet(met, self._variable("t", place))
        put = Apply(
            element(slots), slots.type, (Argument("a", meet.type, met),), "put<a_type>(out0, a)",
            Step("put", place),
        )  # fmt: skip
        return self._each(op.loops, [meet, First((SPARE, ROW_THREADS), (put,))])

    def _bring_together(self, place: int, slots: Array | None = None) -> list[Statement]:
        """Make the result of a reduction from the sums of threads, or of parts in their slots."""
        op, work, body = self._ops[place], _work(self._ops[place]), list[Statement]()
        array = self._variable("t", place)
        if slots is not None:
            array = dataclasses.replace(array, name=f"p{place}", dims=())
            part = Argument("b", work, CallOf(f"taken<{work}>({{}})", (element(slots),)))
            text = f"const {work} a = out0; out0 = {_combined(op)}"
            add = Apply(element(array), work, (part,), text, Step("add", place))
            body = [
                Declare(array), *self._start_of(array, place), EachPart(self._way.width, (add,)),
            ]  # fmt: skip
        met, result = Register(f"all{place}", place=place), self._variable("b", place)
        body += [
            self._meet(met, array),
            *self._finish(place, met, self._level[place], along=False),
        ]
        return [Declare(result), *self._each(op.loops, body)]

    def _meet(self, met: Register, array: Array) -> Meet:
        op = self._ops[met.place]
        return Meet(met, _work(op), element(array), _combined(op), Step("meet", met.place))

    # Loops within a thread.

    def _loops_of(self, loops: Iterable[object]) -> list[int]:
        """Return those of some loops that are within a thread, in order."""
        return self._nesting.loops_of(loops)

    def _size(self, loops: Iterable[int]) -> int:
        return math.prod([self._within[loop] for loop in self._loops_of(loops)])

    def _each(self, loops: Iterable[object], body: Sequence[Statement]) -> tuple[Statement, ...]:
        """Do something for all indices of loops within a thread."""
        inner = self._loops_of(loops)
        inside = tuple(body)
        if ROW in inner and inside:
            inside = (EachRow(self._way.deal_of_rows, inside),)
        lengths = [(loop, number(self._within[loop])) for loop in inner if loop != ROW]
        return around(lengths, inside, "Index")

    def _scope(self, places: Sequence[int], level: int, *, along: bool) -> list[Statement]:
        """Write operations, in loops of their own."""
        self._fetched_before |= self._fetched
        self._fetched = set()
        groups = self._nesting.groups(places)
        group_of = {place: group for group in groups for place in group.places}
        readers = places if along else self._ops  # what is along a row, each pass computes again
        alike = [group for group in groups if ROW not in group.loops]
        sizes = {
            at: self._size(self._ops[at].loops) * UNIT_BYTES
            for group in groups for n in group.places for at in self._operands[n]
            if group_of.get(at) in alike and at not in group.places
        }  # fmt: skip
        if self._way.at_once and sum(sizes.values()) <= MOST_IN_BLOCK:
            groups = [*alike, *[group for group in groups if ROW in group.loops]]
            whole = self._nesting.nest(alike, of_block=True)
            whole.body += self._nesting.nest(groups[len(alike) :]).body
        else:
            whole = self._nesting.nest(groups)
        for place, group in group_of.items():
            if group.path and group.path[0].of_block:
                self._of_block[place] = group.path[0].loop
        stored, declared = set[int](), defaultdict[Loop, list[Array]](list)
        for place, group in group_of.items():
            if self._passes.is_sum(place):
                continue
            loops = self._ops[place].loops
            users = [n for n in readers if place in self._operands[n] and n not in group.places]
            paths = [group_of[n].path if n in group_of else () for n in users]
            shared = shared_loops([tuple([x for x in group.path if x.loop in loops]), *paths])
            self._inside[place] = frozenset([x.loop for x in shared])
            if self._is_plain(place) and not users:
                continue
            stored.add(place)
            array = self._variable("b", place)
            if array.dims or not self._is_plain(place):  # others are declared where they are known
                declared[(whole, *shared)[-1]].append(array)
        for path, array in self._fetch(groups):
            declared[(whole, *path)[-1]].append(array)
        return self._block(whole, stored, declared, level, along)

    def _fetch(self, groups: Sequence[NestGroup]) -> Iterator[tuple[tuple[Loop, ...], Array]]:
        """Find the loads that are kept in registers: units of neighbours along an unrolled loop.

        Yields:
          Where each is kept: what is around, and the array.
        """
        places = {at for group in groups for n in group.places for at in self._operands[n]}
        for at in sorted(places.intersection(range(len(self._loads))) - self._spans.keys()):
            load, (last, unit) = self._nest.loads[at], self._unit(at)
            if unit == 1 or at in self._fetched_before:
                continue
            others = {loop for loop in self._loops_of(load.dims) if loop not in (last, ROW)}
            array = self._variable("b", at)
            before: dict[tuple[Loop, ...], Loop] = {}  # by what is around it: the loop after it
            for group in groups:
                if any(at in self._operands[n] for n in group.places):
                    rest = [*group.path]
                    while others.intersection([x.loop for x in rest]):
                        rest.pop(0)
                    if not any(x.loop == last and x.is_unrolled for x in rest):
                        break
                    before.setdefault(group.path[: len(group.path) - len(rest)], rest[0])
            else:
                if array.stack_bytes <= thread_layout.MOST_LOADED:
                    self._fetched.add(at)
                    for path, node in before.items():
                        node.fetched.append(at)
                        yield path, array

    def _unit(self, at: int) -> tuple[int, int]:
        """Return the last loop of a load, and how many neighbours along it are a unit."""
        load = self._nest.loads[at]
        last = next((x for x in reversed(load.dims) if x is not None), None)
        if last not in self._within or load.dims.count(last) > 1:
            return ROW, 1
        whole = math.gcd(self._within[last], _whole_units(load, last))
        return last, elements_of([load.dtype], whole & -whole)

    def _fetches(self, node: Loop) -> list[Statement]:
        """Write the loads that are kept before a loop."""
        body = list[Statement]()
        for at in node.fetched:
            last, count = self._unit(at)
            keep = Set(element(self._variable("b", at)), element(self._loads[at]), Step("keep", at))
            units, length = Units(count, (self._loads[at],), ()), number(self._within[last])
            loop = For(last, length, (keep,), "Index", True, units)
            rows = [ROW] * (ROW in self._loops_of(self._nest.loads[at].dims))
            body += self._each(rows, (loop,))
        return body

    def _block(
        self,
        node: Loop,
        stored: set[int],
        declared: Mapping[Loop, Sequence[Array]],
        level: int,
        along: bool,
    ) -> list[Statement]:
        """Write what stands in a loop.

        Args:
          node: the loop, or what stands for all loops.
          stored: values that are kept for other groups.
          declared: arrays by the loop in which they are known.
          level: how many passes come before.
          along: whether it stands in a loop along a row.
        """
        body: list[Statement] = [Declare(array) for array in declared.get(node, ())]
        for inner in node.body:
            if isinstance(inner, NestGroup):
                before, inside, after = self._group(inner, stored, level, along)
                body += [*before, *inside, *after] if not inner.reduced else inside
                continue
            ends = [self._group(group, stored, level, along) for group in inner.ends]
            body += self._fetches(inner)
            body += [x for before, _, _ in ends for x in before]
            turns = tuple(self._block(inner, stored, declared, level, along))
            length = number(inner.length)
            loop = For(inner.loop, length, turns, "Index", inner.is_unrolled)
            body.append(Shared(inner.loop, length, turns) if inner.of_block else loop)
            body += [x for _, _, after in ends for x in after]
        return body

    def _group(
        self, group: NestGroup, stored: set[int], level: int, along: bool
    ) -> tuple[Sequence[Statement], ...]:
        """Write the operations of a group, and what comes before and after what it reduces."""
        here = {at for at in group.places if self._is_plain(at)}
        before: list[Statement] = []
        inside: list[Statement] = []
        after: list[Statement] = []
        for place in group.places:
            op = self._ops[place]
            if self._passes.is_sum(place):
                inside.append(self._add(place, self._variable("t", place), here))
            elif op.kernel is None:
                array = self._variable("a", place)
                before += [Declare(array), *self._start_of(array, place)]
                inside.append(self._add(place, array, here))
                after += self._finish(place, element(array), level, along=along)
            else:
                inside.append(self._apply(place, here))
                array = self._variable("b", place)
                if array.dims and (place in stored or place in self._spans):
                    keep = Set(element(array), _register(place), Step("keep", place))
                    inside.append(keep)
                inside += self._write(place, _register(place), level, along)
        rows = group.loops.intersection([ROW])
        return before, self._each(rows, inside), self._each(rows, after)

    def _is_plain(self, place: int) -> bool:
        """Whether a value is known where its operands are."""
        return self._ops[place].kernel is not None

    # Values.

    def _variable(self, letter: str, place: int) -> Array:
        """Make the variable of a thread for a value: letter "b" keeps it, others accumulate it."""
        if place in self._spans:
            dtype = self._passes.dtypes[place]
            dim = Dim(self._way.deal, number(self._way.kept))
            return Array(f"b{place}", cuda_name(dtype), (dim,), "stack", max(4, dtype.itemsize))
        if place not in self._ops:
            load = self._nest.loads[place]
            dtype, last = load.dtype, self._unit(place)[0]
            dims = self._room(x for x in load.dims if x == last or x in self._way.rows)
            kind = cuda_name(dtype)
            return Array(f"b{place}", kind, dims, "stack", max(4, dtype.itemsize))
        op = self._ops[place]
        dims = self._room(op.loops)
        if letter == "b":
            around = self._inside.get(place, frozenset())
            dims = tuple([dim for dim in dims if dim.loop not in around])
        elif letter == "a":
            dims = tuple([dim for dim in dims if isinstance(dim.loop, Deal)])
        name = f"{letter}{place}" if dims or letter != "b" else f"v{place}"
        kind = cuda_name(op.dtype) if letter == "b" else _work(op)
        itemsize = 16 if _is_position(op) else max(4, op.dtype.itemsize)
        of_block = letter == "b" and self._of_block.get(place, ROW) in [dim.loop for dim in dims]
        return Array(name, kind, dims, "shared" if of_block else "stack", itemsize)

    def _room(self, loops: Iterable[object]) -> tuple[Dim, ...]:
        """Return dims of an array of a thread for loops within it, and for its rows."""
        return tuple(
            [
                Dim(self._way.deal_of_rows if loop == ROW else loop, number(self._within[loop]))
                for loop in self._loops_of(loops)
            ]
        )

    def _value(self, place: int, here: set[int]) -> Expr:
        """Read a value; `here` are those known in the same loops."""
        if place < len(self._loads):
            near = place in self._spans or place in self._fetched
            return element(self._variable("b", place) if near else self._loads[place])
        if place < self._first or place in here:
            return _register(place)
        array = self._variable("b", place)
        return element(array) if array.dims or not self._is_plain(place) else _register(place)

    def _results_of(self, place: int) -> list[int]:
        return [n for n, at in enumerate(self._passes.result_places) if at == place]

    def _write(self, place: int, value: Expr, level: int, along: bool) -> list[Statement]:
        """Write a value into results, in the first pass that has it."""
        if self._level[place] != level:
            return []
        body: list[Statement] = []
        for n in self._results_of(place):
            every = (*self._way.rows, *self._way.along) if along else self._way.rows
            first: list[int | str] = []
            if self._way.at_once:
                alike = not self._nesting.is_of_rows(self._ops[place].loops)
                once = EVERY_BLOCK if place in self._of_block else EVERY_THREAD
                first, every = ([once], ()) if alike else ([SPARE], every)
            if self._way.along:
                first = [SPARE] if along else [SPARE, ROW_THREADS]
            if self._dealt.parts > 1 and not along and level == 0:  # later, one block has gone on
                first.append(PARTS)
            first += [loop for loop in every if loop not in self._nest.results[n].dims]
            write = Set(element(self._results[n]), value, Step("write", place))
            body.append(First(tuple(first), (write,)) if first else write)
        return body

    def _apply(self, place: int, here: set[int]) -> Apply:
        """Write the statement of an operation, with the names that it has for its operands."""
        op, statement = self._ops[place], self._statements[place]
        assert statement is not None
        operands = enumerate(zip(self._operands[place], statement.operands, strict=True))
        arguments = [
            Argument(f"in{n}", cuda_name(dtype), self._value(at, here))
            for n, (at, dtype) in operands
        ]
        name, step = cuda_name(op.dtype), Step("compute", place)
        return Apply(_register(place), name, tuple(arguments), statement.text, step)

    def _add(self, place: int, array: Array, here: set[int]) -> Apply:
        """Bring an element into an accumulator."""
        op, work = self._ops[place], _work(self._ops[place])
        dtype = cuda_name(op.types[0])
        arguments = [
            Argument(name, dtype, self._value(at, here))
            for name, at in zip("xy", self._operands[place], strict=False)
        ]
        if _is_position(op):
            at: Expr = number(0)
            for loop in op.reduced:
                at = total([product([at, Atom(f"n{loop}")]), index(loop)])
            arguments.append(Argument("n", "unsigned int", at))
        text = "out0 = fma(x, y, out0)"  # rounded once
        if op.name != "product":
            taken, combined = _element(op), _combined(op)
            if self._is_in_order(op):
                combined = combined.replace("nearer", "nearer_behind")
            text = f"const {work} a = out0, b = {taken}; out0 = {combined}"
        return Apply(element(array), work, tuple(arguments), text, Step("add", place))

    def _is_in_order(self, op: Op) -> bool:
        """Whether a thread has all elements to find a position among, the first one first."""
        return _is_position(op) and [*op.reduced] == self._loops_of(op.reduced)

    def _finish(self, place: int, value: Expr, level: int, *, along: bool) -> list[Statement]:
        """Make a result of an accumulator that has all elements."""
        op, target = self._ops[place], element(self._variable("b", place))
        result: Expr = value
        if _is_position(op):
            result = CallOf("{}.at", (value,))
        elif op.name == "mean":
            real = "double" if op.dtype in (np.float64, np.complex128) else "float"
            result = Expr("{} / {}", (value, Atom(f"{real}({_lengths(op.reduced)})")))
        result = CallOf(f"({cuda_name(op.dtype)})({{}})", (result,))
        keep = Set(target, result, Step("keep", place))
        return [keep, *self._write(place, target, level, along)]


def _register(place: int) -> Register:
    return Register(f"v{place}", place=place)


def _work(op: Op) -> str:
    """Return the type in which elements come together."""
    dtype = op.types[0] if _is_position(op) else op.dtype
    name = "float" if dtype == np.float16 else cuda_name(dtype)
    return f"Position<{name}>" if _is_position(op) else name


def _is_position(op: Op) -> bool:
    """Whether an operation finds the place of an element."""
    return op.kernel is None and REDUCTIONS[op.name].position


def _element(op: Op) -> str:
    """Write the value of an element for a reduction, before it is combined with others."""
    if _is_position(op):
        return "{x, n}"
    return _typed("x != T(0)" if op.name in ("any", "all") else "W(x)", op)


def _start(op: Op) -> str:
    """Write the start of an accumulator."""
    return "{0, kNowhere}" if _is_position(op) else _number(REDUCTIONS[op.name], op.dtype)


def _number(reduction: Reduction, dtype: Dtype) -> str:
    """Write the start of a reduction of elements of a dtype."""
    value, work = reduction.start_of(dtype), "float" if dtype == np.float16 else cuda_name(dtype)
    if reduction.combine in (np.add, np.multiply):
        return f"({work})({value})"
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind == "f":
        return f"{work}({'-' * (value < 0)}CUDART_INF)"
    text = f"{value}ULL" if value >= 0 else f"(-{-(value + 1)}LL - 1)"
    return f"({work}){text}"


def _typed(text: str, op: Op) -> str:
    """Put the types of an element, T, and of what elements come to, W, into a text."""
    names = {"T": cuda_name(op.types[0]), "W": _work(op)}
    return re.sub(r"\b[TW]\b", lambda match: f"({names[match[0]]})", text)


def _combined(op: Op) -> str:
    """Return how two elements come together; NaNs win."""
    combine = REDUCTIONS[op.name].combine
    if _is_position(op):
        return f"nearer<{'true' if combine is np.minimum else 'false'}>(a, b)"
    if combine in (np.minimum, np.maximum) and op.dtype.kind == "f":
        nearer = "b < a" if combine is np.minimum else "a < b"
        return f"a != a || !(b != b || {nearer}) ? a : b"
    return _typed(_COMBINED[combine], op)


def _lengths(loops: Sequence[int]) -> str:
    return " * ".join(f"n{loop}" for loop in loops) or "1"
