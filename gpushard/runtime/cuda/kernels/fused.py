"""Kernels of several functions, one after the other, on dense blocks of many devices. Pure.

Elements of a block are loops' indices: those that are kept, and then those that functions reduce.
A thread does an element of what is kept; where something is reduced, `width` threads do a row
together, so that a block of threads has several rows that are short. They go along the row once
for each function that needs what was reduced before, and compute again what they need: what they
read comes from the cache then, and nothing but results is written.

A row's threads add up what is `width` elements apart, and then meet in pairs, as in `reduction`: so
results depend on the length of a row alone, not on timing nor on how an array is split.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpushard.runtime.backend import Fused, FusedOp
from gpushard.runtime.cuda.kernels.batches import THREADS
from gpushard.runtime.cuda.kernels.elementwise import Signature, Statement, cuda_name, is_known
from gpushard.runtime.cuda.kernels.reduction import MOST_ELEMENTS
from gpushard.typing import Dtype

MOST_BYTES = 4096  # what an argument may have on every GPU
_WARP = 32
_SHORT = 8 * _WARP  # elements of a row from which on a whole block of threads has work with it

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

template <class W, class Combine>
__device__ W brought_together(unsigned char* shared, W a, Combine combine) {
  W* const parts = (W*)shared;
  const unsigned int lane = threadIdx.x %% %(width)d;
  __syncthreads();
  parts[threadIdx.x] = a;
  for (unsigned int half = %(width)d / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half) parts[threadIdx.x] = combine(parts[threadIdx.x], parts[threadIdx.x + half]);
  }
  __syncthreads();
  return parts[threadIdx.x - lane];
}

extern "C" __global__ void fused(const __grid_constant__ Batch batch) {
  alignas(16) __shared__ unsigned char shared[%(shared)d];
  typedef %(index)s Index;
  const unsigned int call = blockIdx.y, calls = gridDim.y, lane = threadIdx.x %% %(width)d;
  %(counts)s
  const Index rows = %(rows)s, length = %(length)s;
  const Index first = blockIdx.x * Index(%(threads)d / %(width)d);
  if (first >= rows) return;
  const Index own = first + threadIdx.x / %(width)d;
  const bool there = own < rows;
  const Index row = there ? own : rows - 1;  // all threads come to where they meet
  %(body)s
}
"""

_REDUCTIONS: dict[str, tuple[str, str, str]] = {
    "sum": ("W(x)", "W(a + b)", "W(0)"),
    "mean": ("W(x)", "W(a + b)", "W(0)"),
    "prod": ("W(x)", "W(a * b)", "W(1)"),
    "any": ("x != T(0)", "a || b", "false"),
    "all": ("x != T(0)", "a && b", "true"),
    "min": ("W(x)", "b < a ? b : a", ""),
    "max": ("W(x)", "a < b ? b : a", ""),
}
"""What becomes of an element, how two come together, and what to start with."""


def width(fused: Fused, length: int) -> int:
    """Return how many threads work on a row."""
    if not fused.reduced:
        return 1
    return min(_WARP, 1 << (length - 1).bit_length()) if length < _SHORT else THREADS


def reduces(name: str, given: Dtype, result: Dtype, length: int) -> bool:
    """Whether there is a reduction for types, and rows are not so long that few threads have work.

    >>> reduces("max", np.dtype(float), np.dtype(float), 100)
    True
    """
    if name not in _REDUCTIONS or not (is_known(given) and is_known(result)):
        return False
    if given.kind == "c" and (result.kind not in "cb" or name in ("min", "max")):
        return False
    same = name not in ("min", "max") or given == result
    return same and 0 < length <= MOST_ELEMENTS and not (name == "mean" and result.kind in "biu")


def source(
    fused: Fused, signature: Signature, statements: Sequence[Statement | None], width: int
) -> str:
    """Return the kernel, which is called `fused`.

    Args:
      fused: what it does.
      signature: what it takes and gives.
      statements: what each operation does; None for a reduction.
      width: threads that work on a row.
    """
    writer = _Writer(fused, signature, statements, width)
    loops, kept = len(fused.loops), len(fused.loops) - fused.reduced
    counts = [f"const Index n{n} = batch.count[{n} * calls + call];" for n in range(loops)]
    preambles = dict.fromkeys(x.preamble for x in statements if x is not None)
    return _SOURCE % {
        "arrays": signature.arrays,
        "calls": signature.calls,
        "loops": max(1, loops),
        "scalars": max(1, len(signature.scalars)),
        "preamble": "\n".join(preambles),
        "threads": THREADS,
        "width": width,
        "shared": 16 * THREADS if fused.reduced else 16,
        "index": "unsigned long long" if signature.wide else "unsigned int",
        "counts": "\n  ".join(counts),
        "rows": _product(range(kept)),
        "length": _product(range(kept, loops)),
        "body": "\n  ".join(writer.body()),
    }


class _Writer:
    """Writes what a thread does."""

    def __init__(
        self,
        fused: Fused,
        signature: Signature,
        statements: Sequence[Statement | None],
        width: int,
    ) -> None:
        self._width = width
        self._fused = fused
        self._signature = signature
        self._statements = statements
        self._kept = len(fused.loops) - fused.reduced
        self._blocks = len(signature.operands) - len(signature.scalars)
        ahead = len(signature.operands)
        self._ops = {ahead + n: op for n, op in enumerate(fused.ops)}
        patterns = zip(*fused.loops, strict=True) if fused.loops else [()] * self._blocks
        self._patterns = list(patterns)
        # Of each place: whether it differs along a row, and how many passes come before it.
        self._full = {n: any(p[self._kept :]) for n, p in enumerate(self._patterns)}
        self._level = dict.fromkeys(range(ahead), 0)
        for place, op in self._ops.items():
            level = max((self._level[at] for at in op.operands), default=0)
            self._level[place] = level + (op.reduction is not None)
            alike = op.reduction is not None
            self._full[place] = not alike and any(self._full.get(at) for at in op.operands)

    def body(self) -> list[str]:
        """Return what is done once the row is known."""
        lines = ["if (!there) return;"] if not self._fused.reduced else []
        lines += self._indices("row", range(self._kept))
        types = self._signature.operands
        for n in range(self._blocks):
            name = cuda_name(types[n])
            place = f"batch.at[{n} * calls + call]"
            lines.append(f"const {name}* const __restrict__ from{n} = (const {name}*){place};")
            if not self._full[n]:
                lines.append(self._load(n))
        for n, at in enumerate(self._signature.scalars):
            name = cuda_name(types[at])
            lines.append(f"const {name} v{at} = *(const {name}*)batch.scalar[{n}];")
        for n, own in enumerate(self._signature.results):
            place = f"batch.at[{self._blocks + n} * calls + call]"
            lines.append(f"{cuda_name(own)}* const to{n} = ({cuda_name(own)}*){place};")
        for level in range(1 + max(self._level.values())):
            lines += self._pass(level)
        return lines

    def _pass(self, level: int) -> list[str]:
        """Return what is done along a row, and before."""
        lines, ends = [], []
        inner: set[int] = set()
        for place, op in self._ops.items():
            if op.reduction is not None and self._level[place] == level + 1:
                lines.append(f"{self._work(op)} t{place} = {self._start(op)};")
                ends += self._brought(place, op)
                inner.update(op.operands)
            elif not self._full[place] and self._level[place] == level and not op.reduction:
                lines += self._done(place, op)
        writes = []
        for n, place in enumerate(self._fused.results):
            if self._level[place] != level:
                continue
            if self._fused.reduced and self._ops[place].full:
                writes.append(f"if (there) to{n}[row * length + j] = v{place};")
                inner.add(place)
            else:
                lines.append(f"if (there && lane == 0) to{n}[row] = v{place};")
        if not inner:
            return lines
        every = range(self._kept, len(self._fused.loops))
        lines.append(f"for (Index j = lane; j < length; j += {self._width}) {{")
        lines += self._indices("j", every)
        needed = self._needed(inner)
        for place in sorted(needed):
            lines += (
                self._done(place, self._ops[place]) if place in self._ops else [self._load(place)]
            )
        for place, op in self._ops.items():
            if op.reduction is not None and self._level[place] == level + 1:
                lines += self._taken(place, op)
        return [*lines, *writes, "}", *ends]

    def _needed(self, wanted: set[int]) -> set[int]:
        """Return the values along a row that some values need, these among them."""
        found: set[int] = set()
        rest = [place for place in wanted if self._full[place]]
        while rest:
            place = rest.pop()
            if place not in found:
                found.add(place)
                if place in self._ops:
                    rest += [at for at in self._ops[place].operands if self._full.get(at)]
        return found

    def _indices(self, of: str, loops: Sequence[int]) -> list[str]:
        """Return the indices of loops from that of all of them together."""
        if len(loops) < 2:
            return [f"const Index i{loop} = {of};" for loop in loops]
        lines = [f"Index rest_{of} = {of};"]
        for loop in list(loops)[:0:-1]:
            lines.append(f"const Index i{loop} = rest_{of} % n{loop};")
            lines.append(f"rest_{of} /= n{loop};")
        return [*lines, f"const Index i{loops[0]} = rest_{of};"]

    def _load(self, n: int) -> str:
        pattern, name = self._patterns[n], cuda_name(self._signature.operands[n])
        if all(pattern):
            at = "row * length + j" if self._fused.reduced else "row"
        else:
            own = [loop for loop, has in enumerate(pattern) if has]
            terms = [
                " * ".join([f"i{loop}", *[f"n{later}" for later in own if later > loop]])
                for loop in own
            ]
            at = " + ".join(terms) or "0"
        return f"const {name} v{n} = from{n}[{at}];"

    def _done(self, place: int, op: FusedOp) -> list[str]:
        """Return the statement of an operation, with the names that it has for its operands."""
        statement = self._statements[place - len(self._signature.operands)]
        assert statement is not None
        name = cuda_name(op.dtype)
        lines = [f"{name} v{place};", "{"]
        for n, (at, own) in enumerate(zip(op.operands, statement.operands, strict=True)):
            lines.append(f"typedef {cuda_name(own)} in{n}_type; const in{n}_type in{n}(v{at});")
        lines.append(f"typedef {name} out0_type; out0_type& out0 = v{place};")
        return [*lines, f"{statement.text};", "}"]

    def _taken(self, place: int, op: FusedOp) -> list[str]:
        """Return how a reduction takes an element."""
        element, combine, _ = _REDUCTIONS[str(op.reduction)]
        own = f"typedef {cuda_name(op.types[0])} T; typedef {self._work(op)} W;"
        return [
            f"{{ {own} const T x = v{op.operands[0]}; const W a = t{place}, b = {element};",
            f"t{place} = {_extreme(op, combine)}; }}",
        ]

    def _brought(self, place: int, op: FusedOp) -> list[str]:
        """Return how what the threads of a row have of a reduction becomes its result."""
        combine, work = _extreme(op, _REDUCTIONS[str(op.reduction)][1]), self._work(op)
        together = f"[](W a, W b) -> W {{ return {combine}; }}"
        name = cuda_name(op.dtype)
        mean = f" / {self._real(op)}(length)" if op.reduction == "mean" else ""
        return [
            f"{name} v{place};",
            f"{{ typedef {work} W;",
            f"const W all = brought_together<W>(shared, t{place}, {together});",
            f"v{place} = ({name})(all{mean}); }}",
        ]

    def _work(self, op: FusedOp) -> str:
        return "float" if op.dtype == np.float16 else cuda_name(op.dtype)

    def _real(self, op: FusedOp) -> str:
        return "double" if op.dtype in (np.float64, np.complex128) else "float"

    def _start(self, op: FusedOp) -> str:
        name, own = str(op.reduction), op.dtype
        if name not in ("min", "max"):
            return _REDUCTIONS[name][2].replace("W", f"({self._work(op)})")
        if own.kind == "f":
            return f"{self._work(op)}({'-' * (name == 'max')}CUDART_INF)"
        if own.kind == "b":
            return "true" if name == "min" else "false"
        number = int(np.iinfo(own).min if name == "max" else np.iinfo(own).max)
        text = f"{number}ULL" if number >= 0 else f"(-{-(number + 1)}LL - 1)"
        return f"({self._work(op)}){text}"


def _extreme(op: FusedOp, combine: str) -> str:
    """Return how two elements come together; NaNs win."""
    if op.reduction in ("min", "max") and op.dtype.kind == "f":
        nearer = "b < a" if op.reduction == "min" else "a < b"
        return f"a != a || !(b != b || {nearer}) ? a : b"
    return combine


def _product(loops: Sequence[int]) -> str:
    return " * ".join(f"n{loop}" for loop in loops) or "1"
