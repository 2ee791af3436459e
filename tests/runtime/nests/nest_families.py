"""All small loop nests, up to renaming of loops, on which emitters meet the definition.

A *shape* of a nest says which loops each operation has, which of them it reduces, and what it
takes: loads over subsets of the loops, or earlier operations. Shapes are enumerated in full:

- three operations over up to two loops, and two over up to three;
- chains of three over up to four loops, which begin with all loops, where each operation takes the
  one before, and others broadcast from any subset of the loops.

Each shape is enumerated with every choice of short and long loops, and with only those results that
nothing else needs or with all of them. What does not change the loops rotates through the shapes:
names of operations, types, orders of dims, offsets of loads, numbers in place of loads, and lengths
of blocks: 0, 1, short, and more than two strips.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from gpushard._runtime.nests import Load, Nest, Op, Result

Loops = frozenset[int]
Operand = int | Loops
"""The number of an earlier operation, or the loops of a load."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """The structure of one operation."""

    operands: tuple[Operand, ...]
    reduced: Loops = frozenset()


def _loops_of(shapes: tuple[Shape, ...], operand: Operand) -> Loops:
    if not isinstance(operand, int):
        return operand
    shape = shapes[operand]
    return frozenset[int]().union(*[_loops_of(shapes, x) for x in shape.operands]) - shape.reduced


def subsets(loops: Loops) -> list[Loops]:
    """List the subsets of some loops."""
    every = sorted(loops)
    return [frozenset(x) for n in range(len(every) + 1) for x in itertools.combinations(every, n)]


def _operations(before: tuple[Shape, ...], loops: Loops, *, chain: bool) -> Iterator[Shape]:
    """Yield the operations that may follow others."""
    values: list[Operand] = list(range(len(before)))
    loads: list[Operand] = list(subsets(loops))
    if chain:
        values = [len(before) - 1] if before else [loops]
    singles = values if chain else values + loads
    for x in singles:
        yield Shape((x,))
        for reduced in subsets(_loops_of(before, x))[1:]:
            yield Shape((x,), reduced)
    pairs = [*itertools.product(values, loads), *itertools.combinations(values, 2)]
    if chain and len(before) > 1:
        pairs += [(values[0], n) for n in range(len(before) - 1)]
    if not chain:
        pairs += [*itertools.combinations_with_replacement(loads, 2)]
    for x, y in pairs:
        yield Shape((x, y))
        if not chain:
            both = _loops_of(before, x) & _loops_of(before, y)
            for reduced in subsets(both)[1:]:
                yield Shape((x, y), reduced)


def _programs(count: int, loops: Loops, *, chain: bool) -> Iterator[tuple[Shape, ...]]:
    """Yield programs of so many operations."""

    def extended(before: tuple[Shape, ...]) -> Iterator[tuple[Shape, ...]]:
        if len(before) == count:
            yield before
            return
        for shape in _operations(before, loops, chain=chain):
            yield from extended((*before, shape))

    yield from extended(())


def _coded(shapes: tuple[Shape, ...]) -> tuple[int, ...]:
    """Return a program as numbers: sets of loops as bits, earlier operations as less than 0."""
    return tuple([
        code for shape in shapes
        for code in (*[-1 - x if isinstance(x, int) else _bits(x) for x in shape.operands], 99,
                     _bits(shape.reduced))
    ])  # fmt: skip


@functools.cache
def _bits(loops: Loops) -> int:
    return sum(1 << loop for loop in loops)


@functools.cache
def _renamings(count: int) -> list[list[int]]:
    """Return, for each renaming of loops, what becomes of the bits of a set."""
    return [
        [*[sum(1 << names[x] for x in range(count) if bits >> x & 1) for bits in range(1 << count)],
         *range(1 << count, 100), *range(-9, 0)]
        for names in itertools.permutations(range(count))
    ]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Case:
    """A shape with a choice of short loops and of results."""

    shapes: tuple[Shape, ...]
    count: int  # of loops
    short: Loops
    every: bool  # whether all values are results
    number: int  # in the enumeration: what rotates is chosen by it


def cases() -> Iterator[Case]:
    """Yield all cases."""
    number = 0
    wanted = [(k, n, False) for k, n in ((1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1), (2, 3),
                                         (3, 2))]  # fmt: skip
    wanted += [(3, 3, True), (3, 4, True)]
    for operations, count, chain in wanted:
        seen: set[Any] = set()
        loops = frozenset(range(count))
        for shapes in _programs(operations, loops, chain=chain):
            used = frozenset[int]().union(
                *[x for s in shapes for x in s.operands if not isinstance(x, int)]
            )
            if used != loops:
                continue
            code = _coded(shapes)
            ways = [(of, tuple([of[x] for x in code])) for of in _renamings(count)]
            least = min([own for _, own in ways])
            alike = [of for of, own in ways if own == least]
            for short in subsets(loops):
                key = least, min([of[_bits(short)] for of in alike])
                if key in seen:
                    continue
                seen.add(key)
                needed = {x for s in shapes for x in s.operands if isinstance(x, int)}
                for every in (False, True) if needed else (False,):
                    yield Case(shapes, count, short, every, number)
                    number += 1


FLOATS = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.int32)]
UNARY = ["negative", "square", "absolute", "isnan"]
BINARY = ["subtract", "multiply", "maximum", "add", "less"]
INSIDE = ["sum", "max", "mean", "argmin", "min", "any", "prod", "argmax", "sum", "all"]
"""Reductions of short loops."""
ALONG = ["sum", "max", "mean", "min", "all", "prod", "sum", "any"]
"""Reductions of long loops that something in the nest needs."""
ENDED = ["sum", "max", "min", "mean"]
"""Reductions of long loops that are results only."""


class _Builder:
    """Makes the nest of a case."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.turn = case.number * 7 + case.number // 11
        self.loads: list[Load] = []
        self.places: list[dict[Operand, Any]] = []
        self.inexact: set[int] = set()  # operations whose values depend on how they are rounded

    def rotate(self, values: list[Any]) -> Any:
        """Choose what comes next."""
        self.turn = (self.turn * 1_103_515_245 + 12_345) & 0x7FFFFFFF
        return values[(self.turn >> 8) % len(values)]

    def nest(self) -> Nest | None:
        case = self.case
        dtype = self.rotate(FLOATS)
        specs: list[tuple[tuple[Any, ...], Shape]] = []
        for shape in case.shapes:
            operands = []
            for x in shape.operands:
                alone = len(shape.operands) == 1 or shape.reduced
                if isinstance(x, int) or x or alone or self.rotate([0, 1]):
                    operands.append(x if isinstance(x, int) else self._load(x, dtype))
                else:
                    operands.append(None)  # a number
            if all(x is None for x in operands):
                operands[0] = self._load(frozenset(), dtype)
            specs.append((tuple(operands), shape))
        ahead = len(self.loads)
        needed = {x for operands, _ in specs for x in operands if isinstance(x, int)}
        ops: list[Op] = []
        inner: set[int] = set()
        for number, (operands, shape) in enumerate(specs):
            taken = [
                ahead + x if isinstance(x, int) else None if x is None else x.operand
                for x in operands
            ]
            loops = _loops_of(case.shapes, number)
            types = [dtype if at is None else self._dtype(at, ops) for at in taken]
            long = shape.reduced - case.short
            if number in needed:
                inner |= long
            op = self._op(number, shape, taken, types, loops, bool(long), number in needed)
            if op is None:
                return None
            ops.append(op)
        wanted = [n for n in range(len(ops)) if case.every or n not in needed]
        results = []
        for n in wanted:
            dims: list[int | None] = sorted(ops[n].loops)
            if self.rotate([0, 0, 1]):
                dims.reverse()
            if self.rotate([0, 0, 1]):
                dims.insert(self.rotate(list(range(len(dims) + 1))), None)
            results.append(Result(ahead + n, tuple(dims)))
        sizes = tuple(self.rotate([2, 3]) if loop in case.short else 70 for loop in
                      range(case.count))  # fmt: skip
        split = frozenset(sorted(case.short)[:1]) if self.rotate([0, 0, 1]) else frozenset[int]()
        loads = [self._with_period(load, split) for load in self.loads]
        return Nest(
            sizes, len(loads), tuple(loads), tuple(ops), tuple(results), case.short,
            frozenset(inner), split,
        )  # fmt: skip

    def _load(self, loops: Loops, dtype: Any) -> Load:
        dims: list[int | None] = sorted(loops)
        if self.rotate([0, 0, 1]):
            dims.reverse()
        if self.rotate([0, 0, 0, 1]):
            dims.insert(self.rotate(list(range(len(dims) + 1))), None)
        starts, more = [0] * len(dims), [0] * len(dims)
        if dims and self.rotate([0, 0, 0, 1]):
            at = self.rotate(list(range(len(dims))))
            starts[at], more[at] = self.rotate([(0, 2), (1, 2), (2, 2), (1, 1)])
        load = Load(len(self.loads), dtype, tuple(dims), tuple(starts), tuple(more))
        self.loads.append(load)
        return load

    def _with_period(self, load: Load, split: Loops) -> Load:
        """Make a dim of some loads periodic."""
        dims = [n for n, loop in enumerate(load.dims) if loop is not None and loop not in split]
        if not dims or self.rotate([0, 0, 1]):
            return load
        at, starts, more = self.rotate(dims), [*load.starts], [*load.more]
        starts[at], more[at] = self.rotate([(1, 0), (2, 1), (1, 0), (1, 1)])
        return dataclasses.replace(
            load, starts=tuple(starts), more=tuple(more), periodic=frozenset([at])
        )

    def _dtype(self, at: int, ops: list[Op]) -> Any:
        ahead = len(self.loads)
        return self.loads[at].dtype if at < ahead else ops[at - ahead].dtype

    def _op(
        self, number: int, shape: Shape, taken: list[Any], types: list[Any], loops: Loops,
        long: bool, needed: bool,
    ) -> Op | None:  # fmt: skip
        ahead = len(self.loads)
        inexact = any(at is not None and at - ahead in self.inexact for at in taken)
        common = np.result_type(*types)
        operands = tuple((at, common.type(3) if at is None else None) for at in taken)
        if not shape.reduced:
            names = UNARY if len(taken) == 1 else BINARY
            name = self.rotate([x for x in names if x != "isnan" or common.kind == "f"])
            if common.kind == "b":
                name = "logical_not" if len(taken) == 1 else "logical_or"
            if common.kind == "i" and name == "isnan":
                name = "negative"
            result = np.dtype(bool) if name in ("isnan", "less") else common
            if inexact:
                self.inexact.add(number)
            return Op(name, operands, result, loops, (common,) * len(taken), getattr(np, name))
        order = tuple(sorted(shape.reduced))
        if len(taken) == 2:
            if common.kind != "f" or {*types} != {common}:
                return None
            return Op("product", operands, common, loops, tuple(types), None, order)
        names = INSIDE if not long else ALONG if needed else ENDED
        name = self.rotate(names)
        if name in ("argmin", "argmax") and inexact:
            name = "sum"
        if common.kind == "b" and name not in ("any", "all"):
            name = "any" if not long or needed else None
            if name is None:
                return None
        result = common
        if name in ("argmin", "argmax"):
            result = np.dtype(np.int64)
        elif name in ("any", "all"):
            result = np.dtype(bool)
        elif common.kind == "i" and name in ("sum", "prod"):
            result = self.rotate([np.dtype(np.int64), np.dtype(np.float64)])
        elif name in ("sum", "prod") and not long and self.rotate([0, 0, 0, 1]):
            result = np.dtype(np.int32)  # elements are converted before they come together
        elif name == "mean":
            result = common if common.kind == "f" else np.dtype(np.float64)
            self.inexact.add(number)
        if inexact:
            self.inexact.add(number)
        return Op(name, operands, result, loops, tuple(types), None, order)


def nest_of(case: Case) -> Nest | None:
    """Return the nest of a case; None where no region is like that."""
    return _Builder(case).nest()


def lengths_of(case: Case, nest: Nest) -> list[list[int]]:
    """Return lengths of the loops of some blocks: long ones, and one that is short in some way."""
    long = [loop for loop in range(case.count) if loop not in case.short]
    usual = [n - (loop in nest.split) for loop, n in enumerate(nest.sizes)]
    strips = 70 if any(op.name in ("product", "isnan") for op in nest.ops) else 11
    for n, loop in enumerate(long):
        usual[loop] = strips if n == case.number % len(long) else 2 + n % 2
    blocks = [usual]
    if long:
        other, chosen = list(usual), long[case.number // 3 % len(long)]
        periodic = any(load.dims[at] == chosen for load in nest.loads for at in load.periodic)
        other[chosen] = (2, 3, 4, 5)[case.number % 4] if periodic else (0, 1, 4, 1)[case.number % 4]
        blocks.append(other)
    return blocks


def operands_of(case: Case, nest: Nest, lengths: list[int]) -> list[Any]:
    """Return blocks of operands."""
    rng = np.random.default_rng(case.number)
    values = np.array([-2, -1, 1, 2, 1, -1, 4, 3])
    if any(op.name == "prod" for op in nest.ops):
        values = np.array([-1, 1, -1, 1, 2])
    blocks = []
    for load in nest.loads:
        shape = tuple(
            (1 if loop is None else lengths[loop]) + more
            for loop, more in zip(load.dims, load.more, strict=True)
        )
        block = rng.choice(values, shape).astype(load.dtype)
        if load.dtype.kind == "f" and block.size and rng.random() < 0.2:
            block[tuple(rng.integers(0, n) for n in shape)] = np.nan
        blocks.append(block)
    return blocks


@functools.cache
def every_case() -> tuple[Case, ...]:
    """Return all cases."""
    return tuple(cases())
