"""Functions of rows, drawn from a seed, and their kernels.

Some go along rows several times. Others have short loops within a thread.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from gpushard._runtime.cuda.kernels import fused, thread_layout
from gpushard._runtime.cuda.kernels.elementwise import Signature, Statement
from gpushard._runtime.cuda.kernels.thread_nests import ThreadNest, function_of
from gpushard._runtime.kernel_checks import Program
from gpushard._runtime.nests import Load, Op
from gpushard._typing import Dtype
from tests.runtime.nests import dealt_nests

STATEMENTS: dict[Any, str] = {
    np.add: "out0 = out0_type(in0 + in1)", np.subtract: "out0 = out0_type(in0 - in1)",
    np.multiply: "out0 = out0_type(in0 * in1)", np.negative: "out0 = out0_type(-in0)",
    np.less: "out0 = in0 < in1", "astype": "out0 = out0_type(in0)",
}  # fmt: skip

REDUCTIONS = {
    "b": ["max", "min", "any"], "i": ["max", "min", "sum", "argmax"], "e": ["max", "mean", "min"],
    "f": ["max", "mean", "min", "sum", "argmin"], "d": ["mean", "max", "product", "any"],
    "F": ["sum", "mean"], "?": ["any", "all", "sum"],
}  # fmt: skip


class Builder:
    """Makes a function along `rows` loops of rows and `along` loops along these.

    Behind these come short loops `within` a thread, by their lengths. Values are named by numbers:
    first those of loads, then numbers that the function takes, then what operations give.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        rows: int,
        along: int,
        *,
        across: bool,
        within: Sequence[int] = (),
    ) -> None:
        self.rng = rng
        loops = list(range(rows + along))
        self.along = frozenset(loops[:along] if across else loops[rows:])
        self.rows = frozenset(loops) - self.along
        self.within = dict(enumerate(within, len(loops)))
        self.loops = (*loops, *self.within)
        self.loads: list[Load] = []
        self.dtypes: list[Dtype] = []  # of loads, then of numbers
        self.ops: list[Op] = []
        self.read: set[int] = set()  # values that operations take
        self.numbers = 0

    def load(
        self, dtype: Any, loops: Any = None, starts: int = 0, more: int = 0, periodic: int = 0
    ) -> int:
        """Read a block; its last dim has elements ahead of what is read, and behind.

        A periodic one has as many fewer elements in all.
        """
        dims = tuple(n for n in self.loops if loops is None or n in loops)
        ahead, beyond = [0] * len(dims), [0] * len(dims)
        if dims:
            ahead[-1], beyond[-1] = starts, starts + more - periodic
        place, dtype = len(self.loads), np.dtype(dtype)
        around = frozenset([len(dims) - 1] if dims and periodic else [])
        self.loads.append(Load(place, dtype, dims, tuple(ahead), tuple(beyond), around))
        self.dtypes.append(dtype)
        return len(self.loads) - 1

    def number(self, dtype: Any) -> int:
        self.numbers += 1
        self.dtypes.append(np.dtype(dtype))
        return len(self.dtypes) - 1

    @property
    def first(self) -> int:
        return len(self.loads) + self.numbers

    def dtype(self, place: int) -> Dtype:
        return self.dtypes[place] if place < self.first else self.ops[place - self.first].dtype

    def loops_of(self, place: int) -> frozenset[int]:
        if place < len(self.loads):
            return frozenset(n for n in self.loads[place].dims if n is not None)
        return self.ops[place - self.first].loops if place >= self.first else frozenset()

    def op(self, function: Any, *operands: int, dtype: Any = None) -> int:
        loops = frozenset[int]().union(*map(self.loops_of, operands))
        result = self.dtype(operands[0]) if dtype is None else np.dtype(dtype)
        return self._add(function, operands, result, loops, None)

    def _add(
        self, function: Any, operands: Sequence[int], dtype: Dtype, loops: frozenset[int],
        reduced: Sequence[int] | None,
    ) -> int:  # fmt: skip
        self.read.update(operands)
        types, made = list(map(self.dtype, operands)), list[Any]()
        for at, t in zip(operands, types, strict=True):
            number = t.type(0.5 if t.kind in "fc" else 2)
            place = at if at < self.first else at - self.numbers
            made.append(number if len(self.loads) <= at < self.first else place)
        self.ops.append(dealt_nests.op(function, made, types, dtype, loops, reduced))
        return self.first + len(self.ops) - 1

    def reduce(self, name: str, *operands: int, over: Collection[int] = ()) -> int:
        """Reduce along rows, or over some loops."""
        over = over or self.along
        types = tuple(map(self.dtype, operands))
        result = types[0]
        if name in ("any", "all"):
            result = np.dtype(bool)
        elif name in ("argmin", "argmax") or (name == "sum" and result.kind == "b"):
            result = np.dtype(np.int64)
        loops = frozenset[int]().union(*map(self.loops_of, operands)).difference(over)
        reduced = tuple(sorted(over))
        return self._add(name, operands, result, loops, reduced)

    def function(self, *results: int) -> ThreadNest:
        ends = [
            (place - self.numbers, tuple([n for n in self.loops if n in self.loops_of(place)]))
            for place in results
        ]
        return dealt_nests.dealt(
            self.loads, self.ops, ends, len(self.loops), along=self.along, within=self.within
        )


def drawn(seed: int) -> Kernel:
    """Draw a function of two to four passes along rows of one type."""
    rng = np.random.default_rng(seed)
    letter = "bieffddF"[seed % 8]
    build = Builder(rng, 1 + seed // 8 % 2, 1 + seed // 16 % 2, across=seed // 3 % 4 == 0)
    build.load(
        letter, None, *[(0, 0), (0, 0), (8, 0), (3, 2), (1, 0, 1), (3, 2, 4)][rng.integers(6)]
    )
    for loops in (build.along, build.rows, None):
        if rng.integers(2):
            build.load(letter, loops)
    numbered = rng.integers(2) == 0
    number = build.number(letter) if numbered else 0
    values = [*range(len(build.loads))]
    sums: list[int] = []
    last = 0
    if numbered:
        last = build.op(np.multiply, 0, number)
        values.append(last)
    for _ in range(rng.integers(1, 4)):  # passes before the last one
        for _ in range(rng.integers(3)):
            function = [np.add, np.subtract, np.multiply, np.negative][rng.integers(4)]
            count = 1 if function is np.negative else 2
            last = build.op(function, *[last, int(rng.choice(values))][:count])
            values.append(last)
        rounded = any(op.name == "mean" for op in build.ops)  # what is nearly 0 or equal
        names = [x for x in REDUCTIONS[letter] if not (rounded and x in ("any", "argmin"))]
        name = names[rng.integers(len(names))]
        along = [at for at in values if build.along <= build.loops_of(at)]
        of = last if last in along else int(rng.choice(along))
        sums.append(build.reduce(name, *([of] * (1 + (name == "product")))))
        met = sums[-1]
        if build.dtype(met) != np.dtype(letter):
            met = build.op("astype", met, dtype=letter)
        last = build.op(np.subtract, int(rng.choice(along)), met)
        values.append(last)
    every = frozenset(build.loops)
    full = [at for at in values if at >= build.first and build.loops_of(at) == every]
    results = [last] if last in full else []
    results += [at for at in (*full, *sums) if rng.integers(4) == 0 and at not in results]
    unread = {build.first + n for n in range(len(build.ops))} - build.read
    results += [at for at in sorted(unread) if at not in results]
    return Kernel(build.function(*results))


def drawn_short(seed: int) -> Kernel:
    """Draw a function with short loops within a thread; some operands are the same for all rows."""
    rng = np.random.default_rng(seed)
    letter = "bifddfF"[seed % 7]
    lengths = rng.choice([2, 3, 4, 8, 12], 1 + seed % 3)
    build = Builder(rng, 1 + seed // 3 % 2, 0, across=False, within=[int(n) for n in lengths])
    short = [*build.within]
    build.load(letter, {*build.rows, *short[-2:]})
    for n in range(rng.integers(1, 4)):
        loops = set(rng.choice(short, rng.integers(1, len(short) + 1), replace=False))
        places = [(0, 0), (8, 0), (3, 2), (1, 0, 1)][rng.integers(4)]
        build.load(letter, loops | ({0} if n == 2 else set()), *places)
    values = [*range(len(build.loads))]
    for _ in range(rng.integers(3, 9)):
        a, b = (int(rng.choice(values[-6:])) for _ in range(2))
        over = [n for n in short if n in build.loops_of(a)]
        over = [*rng.permutation(over)[: rng.integers(len(over) + 1)]]
        if rng.integers(2) and over:
            rounded = any(op.name == "mean" for op in build.ops)
            names = [x for x in REDUCTIONS[letter] if not (rounded and x in ("any", "argmin"))]
            name = names[rng.integers(len(names))]
            met = build.reduce(name, *[a] * (1 + (name == "product")), over=over)
            if build.dtype(met) != np.dtype(letter):
                met = build.op("astype", met, dtype=letter)
            values.append(met)
        else:
            function = [np.add, np.subtract, np.multiply][rng.integers(3)]
            values.append(build.op(function, a, b))
    unread = {build.first + n for n in range(len(build.ops))} - build.read
    more = {at for at in values if at >= build.first and rng.integers(5) == 0}
    return Kernel(build.function(*sorted(unread | more)))


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A function of rows."""

    function: ThreadNest

    def signature(self, calls: int, *, wide: bool = False) -> Signature:
        return self.function.signature(calls, wide=wide)

    def statements(self) -> list[Statement | None]:
        nest = self.function.nest
        return [
            None if op.kernel is None
            else Statement(STATEMENTS[function_of(op)], "", nest.types_of(op), (op.dtype,))
            for op in nest.ops
        ]  # fmt: skip

    def way(self, *lengths: Sequence[int]) -> thread_layout.Threads:
        return thread_layout.threads(self.function, [tuple(x) for x in lengths])

    def program(self, *lengths: Sequence[int]) -> Program:
        way = self.way(*lengths)
        return fused.program(self.function, self.signature(len(lengths)), self.statements(), way)

    def text(self, *lengths: Sequence[int], wide: bool = False) -> str:
        way, signature = self.way(*lengths), self.signature(len(lengths), wide=wide)
        text = fused.source(self.function, signature, self.statements(), way)
        assert text is not None
        return text

    def blocks(self, rng: np.random.Generator, lengths: Sequence[int]) -> list[Any]:
        """Return blocks for a call: small numbers of which sums are exact."""
        blocks = []
        for load in self.function.nest.loads:
            shape = [
                more + (1 if n is None else lengths[n])
                for n, more in zip(load.dims, load.more, strict=True)
            ]
            value = rng.integers(-2, 3, shape) + rng.integers(-2, 3, shape) * 0.25
            blocks.append(np.asarray(value).astype(load.dtype))
        return blocks


def softmax(letter: str = "f", *, across: bool = False, rows: int = 1) -> Kernel:
    """Return a function as softmax is, with a difference for the exponential."""
    build = Builder(np.random.default_rng(0), rows, 1, across=across)
    x = build.load(letter)
    most = build.reduce("max", x)
    e = build.op(np.subtract, x, most)
    total = build.reduce("sum", e)
    return Kernel(build.function(build.op(np.multiply, e, total)))


def layer_norm(letter: str = "f") -> Kernel:
    """Return a function as layer norm is, without the square root."""
    build = Builder(np.random.default_rng(0), 1, 1, across=False)
    x, scale, shift = build.load(letter), build.load(letter, {1}), build.load(letter, {1})
    apart = build.op(np.subtract, x, build.reduce("mean", x))
    variance = build.reduce("mean", build.op(np.multiply, apart, apart))
    scaled = build.op(np.multiply, build.op(np.multiply, apart, variance), scale)
    result = build.op(np.add, scaled, shift)
    return Kernel(build.function(result, variance))


def nearest(letter: str, centres: int, features: int) -> Kernel:
    """Return the function that finds the nearest of some centres for each point."""
    build = Builder(np.random.default_rng(0), 1, 0, across=False, within=[centres, features])
    points, middle = build.load(letter, {0, 2}), build.load(letter, {1, 2})
    own = build.reduce("sum", build.op(np.multiply, points, points), over={2})
    if letter in "fd":
        both = build.reduce("product", points, middle, over={2})
    else:
        both = build.reduce("sum", build.op(np.multiply, points, middle), over={2})
    squares = build.reduce("sum", build.op(np.multiply, middle, middle), over={2})
    apart = build.op(np.add, build.op(np.subtract, own, both), squares)
    return Kernel(build.function(build.reduce("argmin", apart, over={1})))


def lengths_of(kernel: Kernel, rows: int, length: int) -> tuple[int, ...]:
    """Return lengths of loops: of the rows, and of what lies along them."""
    along = sorted(kernel.function.along)
    within = kernel.function.within
    each = [n for n in range(len(kernel.function.loops)) if n not in (*along, *within)]
    own = {n: rows if n == each[-1] else 3 for n in each}
    own |= {n: length if n == along[-1] else 2 for n in along}
    own |= within
    return tuple(own[n] for n in range(len(own)))
