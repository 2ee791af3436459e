"""Kernels of several functions, one after the other, on dense blocks of many devices. Pure.

Elements are indices of loops. A thread has one of each loop that is in no way special: together
these are a row. Along some loops the threads of a row go together, `width` of them, so that a block
of threads has several rows that are short. Where functions reduce these, threads go along once for
each function that needs what was reduced before, and compute again what they need: what they read
comes from the cache then, and nothing but results is written. Loops that are within a thread are
short; what is reduced over these is kept, in registers or next to them.

Long rows that are gone along only once are cut into parts, for a block of threads each. What these
have goes to memory, and the block that is the last to come there goes on with all of it.

A row's threads add up what is `width` elements apart, and then meet in pairs, as in `reduction`: so
results depend on the length of a row alone, not on timing nor on how an array is split.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

import numpy as np

from gpushard.runtime.backend import COUNTERS, Fused, FusedOp
from gpushard.runtime.cuda.kernels.batches import THREADS
from gpushard.runtime.cuda.kernels.elementwise import Signature, Statement, cuda_name, is_known
from gpushard.runtime.cuda.kernels.reduction import MOST_ELEMENTS
from gpushard.typing import Shape

MOST_BYTES = 4096  # what an argument may have on every GPU
_WARP = 32
_SHORT = 8 * _WARP  # elements of a row from which on a whole block of threads has work with it
_ACROSS = 8  # threads of a row whose neighbours in memory are of other rows

_SOURCE = """
#include <cupy/complex.cuh>
#include <cupy/carray.cuh>
#include <cupy/math_constants.h>

struct Batch {
  unsigned long long at[%(arrays)d * %(calls)d];
  unsigned long long count[%(loops)d * %(calls)d];
  alignas(16) unsigned char scalar[%(scalars)d][16];
};

%(preamble)s

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

template <class W, class Combine>
__device__ W brought_together(unsigned char* shared, W a, Combine combine) {
  W* const parts = (W*)shared;
  const unsigned int lane = threadIdx.x %(split)s %(lanes)d, step = %(step)d;
  __syncthreads();
  parts[threadIdx.x] = a;
  for (unsigned int half = %(width)d / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half) {
      parts[threadIdx.x] = combine(parts[threadIdx.x], parts[threadIdx.x + half * step]);
    }
  }
  __syncthreads();
  return parts[threadIdx.x - lane * step];
}

template <class W>
__device__ void put(volatile unsigned long long* slot, W value) {
  unsigned long long raw[2] = {0, 0};
  memcpy(raw, &value, sizeof(W));
  slot[0] = raw[0];
  slot[1] = raw[1];
}

template <class W>
__device__ W taken(const volatile unsigned long long* slot) {
  const unsigned long long raw[2] = {slot[0], slot[1]};
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
  const unsigned int call = blockIdx.y, calls = gridDim.y;
  const unsigned int lane = threadIdx.x %(split)s %(lanes)d;
  %(counts)s
  const Index rows = %(rows)s, length = %(length)s;
  const unsigned int parts = %(parts)d, part = blockIdx.x %% parts, piece = blockIdx.x / parts;
  const Index first = piece * Index(%(together)d);
  if (first >= rows) return;
  const Index own = first + threadIdx.x %(other)s %(lanes)d;
  const bool there = own < rows;
  const Index row = there ? own : rows - 1;  // all threads come to where they meet
  %(body)s
}
"""

_REDUCTIONS: dict[str, tuple[str, str, str]] = {
    "sum": ("W(x)", "W(a + b)", "W(0)"),
    "mean": ("W(x)", "W(a + b)", "W(0)"),
    "product": ("W(x) * W(y)", "W(a + b)", "W(0)"),
    "prod": ("W(x)", "W(a * b)", "W(1)"),
    "any": ("x != T(0)", "a || b", "false"),
    "all": ("x != T(0)", "a && b", "true"),
    "min": ("W(x)", "b < a ? b : a", ""),
    "max": ("W(x)", "a < b ? b : a", ""),
    "argmin": ("{x, n}", "nearer<true>(a, b)", "{0, kNowhere}"),
    "argmax": ("{x, n}", "nearer<false>(a, b)", "{0, kNowhere}"),
}
"""What becomes of an element, how two come together, and what to start with."""

_POSITIONS = ("argmin", "argmax")


@dataclasses.dataclass(frozen=True)
class Threads:
    """How loops are dealt out to threads."""

    rows: tuple[int, ...]  # loops of which each row has one index, the slowest first
    along: tuple[int, ...]  # those that the threads of a row go along
    across: bool  # whether neighbours in memory are of different rows
    width: int  # threads of a row

    def rows_of(self, lengths: Shape) -> int:
        """Return how many rows there are, from the lengths of the loops."""
        return math.prod([lengths[loop] for loop in self.rows])


def lengths_of(fused: Fused, lengths: Shape) -> Shape:
    """Return the lengths of the loops of a call."""
    return tuple([math.prod([lengths[n] for n in group]) for group in fused.loops])


def threads(fused: Fused, lengths: Sequence[Shape]) -> Threads:
    """Return how the loops of functions are dealt out; `lengths` are those of each call's loops."""
    arrays = sorted([r.dims for r in fused.results], key=len, reverse=True)
    arrays += sorted([x.dims for x in fused.loads], key=len, reverse=True)
    within = {loop for loop, _ in fused.within}
    every = [[n for n in dims if n is not None and n not in within] for dims in arrays]
    order = list(dict.fromkeys([n for own in every for n in own]))
    rows = tuple([n for n in order if n not in fused.along])
    along = tuple([n for n in order if n in fused.along])
    largest = max(every, key=len, default=[])
    across = bool(along and largest) and largest[-1] not in fused.along
    longest = max([math.prod([own[n] for n in along]) for own in lengths])
    width = 1
    if along and across:
        width = min(_ACROSS, _power(longest))
    elif along:
        width = min(_WARP, _power(longest)) if longest < _SHORT else THREADS
    return Threads(rows, along, across, width)


def _power(n: int) -> int:
    """Return the least power of 2 that is no less."""
    return 1 << max(0, n - 1).bit_length()


def reduces(op: FusedOp, length: int) -> bool:
    """Whether there is a reduction, and rows are not so long that few threads have work.

    >>> double = np.dtype(float)
    >>> reduces(FusedOp(None, (0,), (double,), double, "max"), 100)
    True
    """
    name, given, result = str(op.reduction), op.types[0], op.dtype
    if name not in _REDUCTIONS or not all(map(is_known, (*op.types, result))):
        return False
    if given.kind == "c" and (result.kind not in "cb" or name in ("min", "max", *_POSITIONS)):
        return False
    if name == "product" and not (result.char in "fd" and {*op.types} == {result}):
        return False
    same = name not in ("min", "max") or given == result
    return same and length <= MOST_ELEMENTS and not (name == "mean" and result.kind in "biu")


def source(
    fused: Fused, signature: Signature, statements: Sequence[Statement | None], way: Threads
) -> str:
    """Return the kernel, which is called `fused`.

    Args:
      fused: what it does.
      signature: what it takes and gives.
      statements: what each operation does; None for a reduction.
      way: how loops are dealt out to threads.
    """
    writer = _Writer(fused, signature, statements, way)
    known = dict(fused.within)
    counts = [
        f"const Index n{n} = {known.get(n, f'batch.count[{n} * calls + call]')};"
        for n in range(len(fused.loops))
    ]
    preambles = dict.fromkeys(x.preamble for x in statements if x is not None)
    together = THREADS // way.width
    return _SOURCE % {
        "arrays": signature.arrays,
        "calls": signature.calls,
        "loops": signature.loops,
        "scalars": max(1, len(signature.scalars)),
        "preamble": "\n".join(preambles),
        "width": way.width,
        "split": "/" if way.across else "%",
        "other": "%" if way.across else "/",
        "lanes": together if way.across else way.width,
        "step": together if way.across else 1,
        "together": together,
        "parts": fused.parts,
        "shared": 16 * THREADS if way.along else 16,
        "index": "unsigned long long" if signature.wide else "unsigned int",
        "counts": "\n  ".join(counts),
        "rows": _product(way.rows),
        "length": _product(way.along),
        "body": "\n  ".join(writer.body()),
    }


@dataclasses.dataclass
class _Group:
    """Operations that share loops within a thread."""

    space: frozenset[int]
    reduced: frozenset[int] | None = None  # those that it reduces, if it does
    places: list[int] = dataclasses.field(default_factory=list)


class _Writer:
    """Writes what a thread does."""

    def __init__(
        self,
        fused: Fused,
        signature: Signature,
        statements: Sequence[Statement | None],
        way: Threads,
    ) -> None:
        self._fused, self._signature, self._way = fused, signature, way
        self._within = dict(fused.within)
        self._blocks = signature.arrays - len(fused.results)
        self._loads = len(fused.loads)
        first = self._loads + len(signature.scalars)
        self._ops = {first + n: op for n, op in enumerate(fused.ops)}
        self._statements = dict(enumerate(statements, first))
        self._results: dict[int | None, list[int]] = {}
        for n, result in enumerate(fused.results):
            self._results.setdefault(result.place, []).append(n)
        # Of each place: how many passes along a row come before it.
        self._level = dict.fromkeys(range(first), 0)
        for place, op in self._ops.items():
            level = max((self._level[at] for at in op.operands), default=0)
            self._level[place] = level + self._sums(op)

    def _sums(self, op: FusedOp) -> bool:
        """Whether an operation reduces what the threads of a row go along."""
        return any(loop in self._fused.along for loop in op.reduced)

    def body(self) -> list[str]:
        """Return what is done once the row is known."""
        signature = self._signature
        lines = ["if (!there) return;"] if not self._way.along else []
        lines += _indices("row", self._way.rows)
        for n, own in enumerate(signature.operands[: self._blocks]):
            name, place = cuda_name(own), f"batch.at[{n} * calls + call]"
            lines.append(f"const {name}* const __restrict__ from{n} = (const {name}*){place};")
        for n, at in enumerate(signature.scalars):
            name = cuda_name(signature.operands[at])
            lines.append(f"const {name} v{self._loads + n} = *(const {name}*)batch.scalar[{n}];")
        for n, own in enumerate(signature.results):
            name, place = cuda_name(own), f"batch.at[{self._blocks + n} * calls + call]"
            lines.append(f"{name}* const __restrict__ to{n} = ({name}*){place};")
        for level in range(1 + max(self._level.values(), default=0)):
            lines += self._pass(level)
        return lines

    def _pass(self, level: int) -> list[str]:
        """Return what is done for a row, and along it."""
        own = [place for place in self._ops if self._level[place] == level]
        plain = [at for at in own if not self._is_along(at) and not self._sums(self._ops[at])]
        lines = self._scope(plain, level, along=False)
        sums = [
            at for at, op in self._ops.items() if self._sums(op) and self._level[at] == 1 + level
        ]
        results = [at for at in own if at in self._results and self._is_along(at)]
        if not sums and not results:
            return lines
        for place in sums:
            op = self._ops[place]
            size = f"[{self._size(op.loops)}]" if self._loops_of(op.loops) else ""
            start = f"{_work(op)} t{place}{size}"
            lines += [f"{start};", *self._each(op.loops, [f"{self._total(place)} = {_start(op)};"])]
        stride = f"{self._way.width} * parts"
        lines.append(
            f"for (Index j = part * {self._way.width} + lane; j < length; j += {stride}) {{"
        )
        lines += _indices("j", self._way.along)
        lines += self._scope(self._needed(sums, results), level, along=True)
        lines.append("}")
        if sums and self._fused.parts > 1:
            lines += self._met(sums)
        for place in sums:
            lines += self._brought(place, self._ops[place])
        return lines

    def _met(self, sums: Sequence[int]) -> list[str]:
        """Return how what all parts of a row have comes to the block of threads that goes on."""
        width, count = self._way.width, sum(self._size(self._ops[at].loops) for at in sums)
        name = f"to{len(self._signature.results) - 1}"
        start = f"(volatile unsigned long long*){name} + 2 * {COUNTERS} * rows"
        lines = [f"volatile unsigned long long* const slots = {start};"]
        before, after, first = [], [], 0
        for place in sums:
            op = self._ops[place]
            combine = _extreme(op, _REDUCTIONS[str(op.reduction)][1])
            at = f"{first} + {self._dense(op.loops) or 0}"
            slot = f"slots + 2 * (({{0}}) * {count} + {at})"
            typed = f"typedef {_work(op)} W;"
            total = self._total(place)
            together = self._together(op, total)
            before += self._each(op.loops, [
                f"{{ {typed} const W all = {together};",
                f"if (there && lane == 0) put<W>({slot.format('row * parts + part')}, all); }}",
            ])  # fmt: skip
            after += self._each(op.loops, [
                f"{{ {typed} {total} = {_start(op)};",
                f"for (unsigned int p = lane; p < parts; p += {width}) {{",
                f"const W a = {total}, b = taken<W>({slot.format('row * parts + p')});",
                f"{total} = {combine}; }} }}",
            ])  # fmt: skip
            first += self._size(op.loops)
        address = f"batch.at[{self._signature.arrays - 1} * calls]"
        count_at = f"(unsigned int*){address} + call * (gridDim.x / parts) + piece"
        return [*lines, *before, f"if (!is_last({count_at}, parts)) return;", *after]

    def _is_along(self, place: int) -> bool:
        return place in self._ops and not self._ops[place].loops.isdisjoint(self._fused.along)

    def _needed(self, sums: Iterable[int], results: Iterable[int]) -> list[int]:
        """Return the operations along a row that some need, these among them, in order."""
        found = set(sums)
        rest = [at for place in sums for at in self._ops[place].operands if self._is_along(at)]
        rest += results
        while rest:
            place = rest.pop()
            if place not in found:
                found.add(place)
                rest += [at for at in self._ops[place].operands if self._is_along(at)]
        return sorted(found)

    # Loops within a thread.

    def _loops_of(self, loops: Iterable[int]) -> list[int]:
        """Return those of some loops that are within a thread, in order."""
        own = set(loops)
        return [loop for loop in self._within if loop in own]

    def _size(self, loops: Iterable[int]) -> int:
        return math.prod([self._within[loop] for loop in self._loops_of(loops)])

    def _each(self, loops: Iterable[int], lines: Sequence[str]) -> list[str]:
        """Return what does something for all indices of loops within a thread."""
        opened = [
            f"for (Index i{n} = 0; i{n} < {self._within[n]}; ++i{n}) {{"
            for n in self._loops_of(loops)
        ]
        return [*opened, *lines, *["}"] * len(opened)]

    def _dense(self, loops: Iterable[int]) -> str:
        """Return the number of an element in an array over loops within a thread."""
        text = ""
        for loop in self._loops_of(loops):
            text = f"({text}) * {self._within[loop]} + i{loop}" if text else f"i{loop}"
        return text

    def _total(self, place: int) -> str:
        at = self._dense(self._ops[place].loops)
        return f"t{place}[{at}]" if at else f"t{place}"

    def _kept(self, place: int) -> str:
        """Return the name of a value where other loops need it."""
        at = self._dense(self._ops[place].loops)
        return f"b{place}[{at}]" if at else f"v{place}"

    def _scope(self, places: Sequence[int], level: int, *, along: bool) -> list[str]:
        """Return operations, in loops of their own."""
        groups: list[_Group] = []
        group_of: dict[int, _Group] = {}
        for place in places:
            op = self._ops[place]
            space = frozenset(self._loops_of({*op.loops, *op.reduced}))
            plain = op.reduction is None or self._sums(op)
            reduced = None if plain else frozenset(self._loops_of(op.reduced))
            after = 0
            for of in [group_of[at] for at in op.operands if at in group_of]:
                same = of.space == space and all(
                    self._is_plain(at) for at in op.operands if group_of.get(at) is of
                )
                after = max(after, groups.index(of) + (not same))
            for group in groups[after:]:
                same = reduced is None or group.reduced in (None, reduced)
                if group.space == space and same:
                    break
            else:
                group = _Group(space)
                groups.append(group)
            group.places.append(place)
            group.reduced = group.reduced if reduced is None else reduced
            group_of[place] = group
        lines: list[str] = []
        for group in groups:
            stored = {
                place for place in group.places
                if not self._sums(self._ops[place])
                and (not self._is_plain(place) or self._is_taken(place, group))
            }  # fmt: skip
            lines += self._group(group, stored, level, along)
        return lines

    def _is_plain(self, place: int) -> bool:
        """Whether a value is known where its operands are."""
        return self._ops[place].reduction is None

    def _is_taken(self, place: int, group: _Group) -> bool:
        """Whether something in other loops needs a value."""
        return any(
            place in op.operands and other not in group.places for other, op in self._ops.items()
        )

    def _group(self, group: _Group, stored: set[int], level: int, along: bool) -> list[str]:
        """Return the operations of a group, in loops."""
        here = set(group.places) - {at for at in group.places if not self._is_plain(at)}
        lines: list[str] = []
        for place in sorted(stored):
            op = self._ops[place]
            if self._is_plain(place) and not group.space:
                continue  # it is declared where it is known
            size = self._loops_of(op.loops)
            name = f"b{place}[{self._size(op.loops)}]" if size else f"v{place}"
            lines.append(f"{cuda_name(op.dtype)} {name};")
        before, inside, after = [], [], []
        for place in group.places:
            op = self._ops[place]
            if self._sums(op):
                inside += self._taken(place, op, self._total(place), here)
            elif op.reduction is not None:
                before.append(f"{_work(op)} a{place} = {_start(op)};")
                inside += self._taken(place, op, f"a{place}", here)
                after.append(f"{self._kept(place)} = {self._finished(op, f'a{place}')};")
                after += self._written(place, self._kept(place), level, along)
            else:
                inside += self._done(place, op, here)
                if place in stored and self._kept(place) != f"v{place}":
                    inside.append(f"{self._kept(place)} = v{place};")
                inside += self._written(place, f"v{place}", level, along)
        reduced = group.reduced or frozenset()
        body = [*before, *self._each(reduced, inside), *after]
        return lines + self._each(group.space - reduced, body)

    # Values.

    def _value(self, place: int, here: set[int]) -> str:
        """Return the text of a value; `here` are those known in the same loops."""
        if place < self._loads:
            load = self._fused.loads[place]
            return f"from{load.block}[{self._at(load.dims, load.starts, load.more)}]"
        return f"v{place}" if place not in self._ops or place in here else self._kept(place)

    def _at(self, dims: Sequence[int | None], starts: Shape = (), more: Shape = ()) -> str:
        """Return which element of an array it is."""
        starts, more = starts or (0,) * len(dims), more or (0,) * len(dims)
        terms = []
        for dim, (loop, start) in enumerate(zip(dims, starts, strict=True)):
            index = [] if loop is None else [f"i{loop}"]
            index += [str(start)] if start else []
            if index:
                behind = zip(dims[dim + 1 :], more[dim + 1 :], strict=True)
                strides = [_extent(n, beyond) for n, beyond in behind if n is not None or beyond]
                first = " + ".join(index)
                terms.append(" * ".join([f"({first})" if strides and start else first, *strides]))
        return " + ".join(terms) or "0"

    def _written(self, place: int, text: str, level: int, along: bool) -> list[str]:
        """Return what writes a value into results, where it is its turn."""
        if self._level[place] != level:
            return []
        lines = []
        for n in self._results.get(place, ()):
            dims = self._fused.results[n].dims
            every = (*self._way.rows, *self._way.along) if along else self._way.rows
            alone = [f"i{loop} == 0" for loop in every if loop not in dims]
            if self._way.along:
                alone = ["there", *alone] if along else ["there", "lane == 0", *alone]
            ahead = f"if ({' && '.join(alone)}) " if alone else ""
            lines.append(f"{ahead}to{n}[{self._at(dims)}] = {text};")
        return lines

    def _done(self, place: int, op: FusedOp, here: set[int]) -> list[str]:
        """Return the statement of an operation, with the names that it has for its operands."""
        statement = self._statements[place]
        assert statement is not None
        name = cuda_name(op.dtype)
        lines = [f"{name} v{place};", "{"]
        for n, (at, own) in enumerate(zip(op.operands, statement.operands, strict=True)):
            text = self._value(at, here)
            lines.append(f"typedef {cuda_name(own)} in{n}_type; const in{n}_type in{n}({text});")
        lines.append(f"typedef {name} out0_type; out0_type& out0 = v{place};")
        return [*lines, f"{statement.text};", "}"]

    def _taken(self, place: int, op: FusedOp, total: str, here: set[int]) -> list[str]:
        """Return how a reduction takes an element."""
        element, combine, _ = _REDUCTIONS[str(op.reduction)]
        lines = [f"{{ typedef {cuda_name(op.types[0])} T; typedef {_work(op)} W;"]
        for name, at in zip("xy", op.operands, strict=False):
            lines.append(f"const T {name} = {self._value(at, here)};")
        if op.reduction == "product":  # rounded once
            return [*lines, f"{total} = fma(x, y, {total}); }}"]
        if op.reduction in _POSITIONS:
            number = "0"
            for loop in op.reduced:
                number = f"({number}) * n{loop} + i{loop}"
            lines.append(f"const unsigned int n = {number};")
        lines.append(f"const W a = {total}, b = {element};")
        return [*lines, f"{total} = {_extreme(op, combine)}; }}"]

    def _brought(self, place: int, op: FusedOp) -> list[str]:
        """Return how what the threads of a row have of a reduction becomes its result."""
        size = f"b{place}[{self._size(op.loops)}]" if self._loops_of(op.loops) else f"v{place}"
        body = [
            f"typedef {_work(op)} W;",
            f"const W all = {self._together(op, self._total(place))};",
            f"{self._kept(place)} = {self._finished(op, 'all')};",
            *self._written(place, self._kept(place), self._level[place], along=False),
        ]
        return [f"{cuda_name(op.dtype)} {size};", "{", *self._each(op.loops, body), "}"]

    def _together(self, op: FusedOp, total: str) -> str:
        """Return what the threads of a row have of a reduction, brought together."""
        combine = _extreme(op, _REDUCTIONS[str(op.reduction)][1])
        return f"brought_together<W>(shared, {total}, [](W a, W b) -> W {{ return {combine}; }})"

    def _finished(self, op: FusedOp, text: str) -> str:
        """Return a result of what all elements have come to."""
        if op.reduction in _POSITIONS:
            text = f"{text}.at"
        elif op.reduction == "mean":
            real = "double" if op.dtype in (np.float64, np.complex128) else "float"
            text = f"{text} / {real}({_product(op.reduced)})"
        return f"({cuda_name(op.dtype)})({text})"


def _indices(of: str, loops: Sequence[int]) -> list[str]:
    """Return the indices of loops from that of all of them together."""
    if len(loops) < 2:
        return [f"const Index i{loop} = {of};" for loop in loops]
    lines = [f"Index rest_{of} = {of};"]
    for loop in loops[:0:-1]:
        lines.append(f"const Index i{loop} = rest_{of} % n{loop};")
        lines.append(f"rest_{of} /= n{loop};")
    return [*lines, f"const Index i{loops[0]} = rest_{of};"]


def _extent(loop: int | None, more: int) -> str:
    """Return how many elements an array has along a dim."""
    if loop is None:
        return str(1 + more)
    return f"(n{loop} + {more})" if more else f"n{loop}"


def _work(op: FusedOp) -> str:
    """Return the type in which elements come together."""
    own = op.types[0] if op.reduction in _POSITIONS else op.dtype
    name = "float" if own == np.float16 else cuda_name(own)
    return f"Position<{name}>" if op.reduction in _POSITIONS else name


def _start(op: FusedOp) -> str:
    name, own = str(op.reduction), op.dtype
    if name not in ("min", "max"):
        return _REDUCTIONS[name][2].replace("W", f"({_work(op)})")
    if own.kind == "f":
        return f"{_work(op)}({'-' * (name == 'max')}CUDART_INF)"
    if own.kind == "b":
        return "true" if name == "min" else "false"
    number = int(np.iinfo(own).min if name == "max" else np.iinfo(own).max)
    text = f"{number}ULL" if number >= 0 else f"(-{-(number + 1)}LL - 1)"
    return f"({_work(op)}){text}"


def _extreme(op: FusedOp, combine: str) -> str:
    """Return how two elements come together; NaNs win."""
    if op.reduction in ("min", "max") and op.dtype.kind == "f":
        nearer = "b < a" if op.reduction == "min" else "a < b"
        return f"a != a || !(b != b || {nearer}) ? a : b"
    return combine


def _product(loops: Sequence[int]) -> str:
    return " * ".join(f"n{loop}" for loop in loops) or "1"
