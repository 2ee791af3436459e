"""Loop nests in C: each array is read once, and written once.

Loops that are independent come first. One loop, of unit stride where arrays allow it, is cut into
strips of a fixed number of elements, the lanes; short loops are within a strip, around the lanes.
Operations that go over the same loops share them: what is only used there is a number in a
register, what is used elsewhere in a strip is in an array as long as that, and what is needed once
the strips have been reduced is in one as long as the loop. So there is one pass over the strips
for each reduction along them that others need, all in cache. For `x / x.sum()` of a vector:

    for (j0 ...) { c = 0; for (t ...) c += x[j0 + t]; total += c; }      the strips, first pass
    b = total;                                                           a level is over
    for (j0 ...) for (t ...) r[j0 + t] = x[j0 + t] / b;                  second pass

Sums are over the lanes of a strip in the type of the result, strips are added in double precision:
they do not depend on how other loops are split.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Sequence

import numpy as np

from gpushard._runtime.host.nests.c_products import PRELUDE as PRODUCTS
from gpushard._runtime.host.nests.c_products import Product, product_source
from gpushard._runtime.host.nests.c_schedule import Schedule
from gpushard._runtime.host.nests.expressions import (
    TYPES,
    cast,
    expression,
    is_reduction,
    literal,
    prelude,
)
from gpushard._runtime.kernel_checks import Program, Task
from gpushard._runtime.kernel_tree import (
    Array,
    Atom,
    Call,
    Declare,
    Element,
    Expr,
    First,
    FullStrip,
    Lanes,
    Let,
    Point,
    Register,
    Scope,
    Set,
    Statement,
    Step,
    Strips,
    around,
    element,
    index,
    infix,
    lines_of,
    product,
    total,
)
from gpushard._runtime.loop_groups import LoopGroup
from gpushard._runtime.nests import REDUCTIONS, Nest, Op, Result
from gpushard._typing import Dtype


@dataclasses.dataclass(frozen=True)
class Source:
    """A function in C: `region(operands and results, lengths and strides, memory)`."""

    text: str
    # Memory that it takes: 8 bytes for each element of arrays, so many times loops.
    scratch: tuple[tuple[int, tuple[int, ...]], ...]
    strided: tuple[int, ...]  # loads whose strides it takes, one for each dim
    program: Program  # what the text is made of


def c_source(nest: Nest) -> Source | None:
    """Write a nest as a function in C; None where something has no expression."""
    dtypes = [nest.dtype(place) for place in range(len(nest.loads) + len(nest.ops))]
    if len(nest.inner - nest.short) > 1 or not nest.sizes or not {*dtypes} <= TYPES.keys():
        return None
    try:
        return _Writer(nest).source()
    except _UnknownError:
        return None


class _UnknownError(Exception):
    """There is no expression for an operation."""


class _Writer(Schedule):
    """Writes one nest."""

    def __init__(self, nest: Nest) -> None:
        super().__init__(nest)
        self._products: list[str] = []  # functions that it calls

    def source(self) -> Source:
        """Write it."""
        levels = 1 + max(self.level, default=0)
        body: list[Statement] = []
        for level in range(levels):
            body += self._totals_of(level)
            for group in self.groups.get((level, False), []):
                body += self._loops(group)
            strip: list[Statement] = []
            for group in self.groups.get((level, True), []):
                strip += self._loops(group)
            if strip:
                body += self._strips([*self._packed(level), *strip])
        body += self._totals_of(levels)
        before, points, after = self._ends()
        whole = around(
            [(loop, Atom(f"n{loop}")) for loop in self.outer], [Point(tuple(points)), *body]
        )
        return self._function((*before, *whole, *after))

    def _strips(self, body: Sequence[Statement]) -> list[Statement]:
        points = [self._point_in_strip(n, cut) for n, cut in self.cuts.items()]
        cuts = dict.fromkeys(map(str, self.cuts.values()))
        return [
            Strips(
                self.lanes, self.strip, (*points, *body), bool(self.short),
                tuple([Atom(f"({cut})") for cut in cuts]),
            )
        ]  # fmt: skip

    def _point_in_strip(self, n: int, cut: Expr) -> Point:
        """Point to the elements of a load that is periodic along the lanes."""
        array = self.loads[n]
        ((at, dim),) = [(at, x) for at, x in enumerate(array.dims) if x.lanes]
        start = Expr(f"j0 < {{}} ? {dim.start} : -{{}}", (cut, cut))
        first = total([Atom(f"row{n}"), product([start, array.stride(at)])])
        return Point((f"const {array.type} *restrict {array.name} = {first};",))

    def _guarded(self, loops: Collection[int], body: Sequence[Statement]) -> list[Statement]:
        """Do something in the first turn of some loops only."""
        return [First(tuple(sorted(loops)), tuple(body))] if loops and body else [*body]

    # Groups of operations.

    def _loops(self, group: LoopGroup) -> list[Statement]:
        """Return the loops of a group."""
        call = self._call(group.places[0]) if len(group.places) == 1 else None
        if call is not None and not call.adds:
            return self._guarded(group.first, [call])
        loops: Statement = Scope(self._loop_statements(group))
        if call is not None:
            loops = FullStrip(self.strip, call, (loops,))
        return self._guarded(group.first, [loops])

    def _loop_statements(self, group: LoopGroup) -> tuple[Statement, ...]:
        reduced = group.reduced or frozenset()
        over = [loop for loop in self.short if loop in group.loops and loop not in reduced]
        within = [loop for loop in self.short if loop in reduced]
        in_lanes = self.lanes in group.loops
        parts = _Parts(in_lanes and self.lanes not in reduced, self)
        for place in group.places:
            (self._reduction if self.ops[place].reduced else self._plain)(place, group, parts)
        body: Sequence[Statement] = parts.body
        if in_lanes:
            body = [Lanes(self.lanes, tuple(body), tuple(parts.clauses))]
        inside = around(self.lengths(within), body)
        return around(self.lengths(over), [*parts.before, *inside, *parts.after])

    def _value(self, place: int, group: LoopGroup) -> Expr:
        """Name a value in the loops of a group."""
        if place in self.stored and not self.is_here(place, group):
            return element(self.stored[place])
        if place < self.first:
            return element(self.loads[place])
        return Register(f"v{place}", place=place)

    def _operands(self, op: Op, group: LoopGroup) -> list[Expr]:
        operands = [
            literal(value, dtype) if at is None else self._value(at, group)
            for (at, value), dtype in zip(op.operands, op.types, strict=False)
        ]
        known = [x for x in operands if x is not None]
        if len(known) < len(operands):
            raise _UnknownError
        return known

    def _plain(self, place: int, group: LoopGroup, parts: _Parts) -> None:
        """Write an elementwise operation."""
        op = self.ops[place]
        numbers = [x for _, x in op.operands]
        value = expression(op.name, self._operands(op, group), op.types, op.dtype, numbers)
        if value is None:
            raise _UnknownError
        kind = "int" if op.dtype.kind == "b" else TYPES[op.dtype]  # as wide as what it decides of
        name = Register(f"v{place}", place=place)
        parts.body.append(Let(name, kind, value, Step("compute", place)))
        parts.body += self._stored(place, name)

    def _stored(self, place: int, value: Expr) -> list[Statement]:
        """Write a value to where others need it, and to results."""
        statements: list[Statement] = []
        if place in self.stored and self.stored[place].memory != "result":
            statements.append(Set(element(self.stored[place]), value, Step("keep", place)))
        if place in self.result_of:
            n = self.result_of[place]
            dims = self.nest.results[n].dims
            written = Set(element(self.results[n]), value, Step("write", place))
            again = self.ops[place].loops.difference(loop for loop in dims if loop is not None)
            statements += self._guarded(again, [written])
        return statements

    # Reductions.

    def _reduction(self, place: int, group: LoopGroup, parts: _Parts) -> None:
        op = self.ops[place]
        operands = self._operands(op, group)
        if not is_reduction(op.name, op.types[0], op.dtype):
            raise _UnknownError
        across = self.lanes in op.reduced
        if REDUCTIONS[op.name].position:
            if across or self.is_last(op):
                raise _UnknownError
            self._position(place, operands[0], parts)
            return
        name = TYPES[op.dtype]
        value = product([cast(x, name) for x in operands])
        if not group.reduced:  # outer loops alone: each element is added to the total
            to = element(self.totals[place])
            self._combine(place, to, value, parts)
            return
        sums = parts.accumulator(place, "c", name, op.dtype.itemsize)
        parts.start(place, sums, _start(op, op.dtype))
        if _adds(op):
            self._combine(place, sums, value, parts)
            parts.clauses += [f"reduction(+:{sums})"] * across
        elif across:
            self._extreme_of_lanes(place, sums, value, parts)
        else:
            self._combine(place, sums, value, parts)
        if across or self.is_last(op):
            self._add_strip(place, sums, parts)
            return
        value = self._mean(op, sums) if op.name == "mean" else sums
        parts.ending(self._stored(place, cast(value, name)))

    def _combine(self, place: int, to: Element, value: Expr, parts: _Parts) -> None:
        """Bring an element into an accumulator."""
        op, x = self.ops[place], Register(f"x{place}", place=place)
        if _adds(op):
            parts.body.append(Set(to, value, Step("add", place), "+="))
            return
        parts.body.append(Let(x, TYPES[op.dtype], value, Step("compute", place)))
        parts.body.append(Set(to, _extreme(op, to, x), Step("add", place)))

    def _extreme_of_lanes(self, place: int, best: Element, value: Expr, parts: _Parts) -> None:
        """Look for what is not a number apart, so that lanes are independent."""
        op = self.ops[place]
        sign, name = ">" if op.name == "max" else "<", TYPES[op.dtype]
        x = Register(f"x{place}", place=place)
        better = Set(
            best, Expr(f"{{0}} {sign} {{1}} ? {{0}} : {{1}}", (x, best)), Step("add", place)
        )
        parts.body += [Let(x, name, value, Step("compute", place)), better]
        parts.clauses.append(f"reduction({op.name}:{best})")
        if op.dtype.kind != "f":
            return
        nan = parts.accumulator(place, "q", "int", 4)
        parts.start(place, nan, Atom("0"))
        parts.body.append(Set(nan, Expr("{0} != {0}", (x,)), Step("add", place), "|="))
        parts.clauses.append(f"reduction(|:{nan})")
        chosen = Expr("{} ? {} : {}", (nan, Atom('__builtin_nan("")'), best))
        parts.after.append(Set(best, chosen, Step("adjust", place)))

    def _add_strip(self, place: int, sums: Element, parts: _Parts) -> None:
        """Add what a strip has come to."""
        op, to = self.ops[place], element(self.totals[place])
        if _adds(op):
            parts.ending([Set(to, sums, Step("add", place), "+=")])
        else:
            parts.ending([Set(to, _extreme(op, to, sums), Step("add", place))])

    def _position(self, place: int, value: Expr, parts: _Parts) -> None:
        op = self.ops[place]
        own, least = op.types[0], op.name == "argmin"
        at = parts.accumulator(place, "c", "int32_t", 4)
        best = parts.accumulator(place, "m", TYPES[own], own.itemsize)
        parts.start(place, at, Atom("0"))
        parts.start(place, best, _start(op, own))
        x, better = Register(f"x{place}", place=place), Register(f"y{place}", place=place)
        form = f"{{0}} {'<' if least else '>'} {{1}}"
        if own.kind == "f":
            form = f"({form}) | (({{0}} != {{0}}) & ({{1}} == {{1}}))"
        number: Expr = Atom("0")
        for loop in op.reduced:
            number = total([product([number, self.length(loop)]), index(loop)])
        step = Step("add", place)
        parts.body += [
            Let(x, TYPES[own], value, Step("compute", place)),
            Let(better, "int", Expr(form, (x, best)), Step("compute", place)),
            Set(best, Expr("{} ? {} : {}", (better, x, best)), step),
            Set(at, Expr("{} ? {} : {}", (better, cast(number, "int32_t"), at)), step),
        ]
        parts.ending(self._stored(place, at))

    def _mean(self, op: Op, sums: Expr) -> Expr:
        lengths = [cast(self.length(loop), TYPES[op.dtype]) for loop in op.reduced]
        return Expr("{} / {}", (sums, infix("*", lengths, 1)))

    def _totals_of(self, level: int) -> list[Statement]:
        """Return what ends the reductions along the strips before, and begins the next ones."""
        statements: list[Statement] = []
        for place, op in self.ops.items():
            if self.lanes not in op.reduced or self.is_last(op):
                continue
            loops = self.lengths([loop for loop in self.short if loop in op.loops])
            sums, body = element(self.totals[place]), list[Statement]()
            if self.level[place] == level + 1:
                body = [Set(sums, _start(op, op.dtype), Step("start", place))]
            if self.level[place] == level:
                value = self._mean(op, sums) if op.name == "mean" else sums
                body = self._stored(place, cast(value, TYPES[op.dtype]))
            if body:
                statements += self._guarded(self.lacked[place], around(loops, body))
        return statements

    # Products, by functions.

    def _call(self, place: int) -> Call | None:
        """Return an operation as a call of a function of its own, if it is a product of strips."""
        function = self._product(place)
        if function is None:
            return None
        self._products.append(product_source(function))
        arrays = [self._array_of(at) for at in function.factors]
        to = (self.totals if function.across else self.stored)[place]
        op = self.ops[place]
        loops = (op.loops | {*op.reduced, self.lanes}) - {*self.outer}
        pointers = [x.name if x.dims else f"&{x.name}" for x in (*arrays, to)]
        text = f"{function.name}({', '.join(pointers)})"
        reads = (element(arrays[0]), element(arrays[1]))
        return Call(text, place, frozenset(loops), reads, element(to), function.across)

    def _array_of(self, at: int) -> Array:
        return self.stored[at] if at in self.stored else self.loads[at]

    def _product(self, place: int) -> Product | None:
        op = self.ops[place]
        if op.name != "product" or self.is_last(op) or not self.short or self.nest.split:
            return None
        across = self.lanes in op.reduced
        factors = [*op.places]
        factors.sort(key=lambda at: self.lanes not in self.nest.loops(at))
        if across != all(self.lanes in self.nest.loops(at) for at in factors):
            return None
        if not across and (self.lanes not in op.loops or place in self.result_of):
            return None
        x, y = [self._strides_in_strip(at) for at in factors]
        if x is None or y is None or not (across or self._is_of_strips(place)):
            return None
        sizes = {loop: self.nest.sizes[loop] for loop in self.short}
        return Product(
            f"product{place}", TYPES[op.dtype], self.strip,
            {loop: n for loop, n in sizes.items() if loop in op.loops},
            {loop: n for loop, n in sizes.items() if loop in op.reduced},
            x, y, self._dense_strides(op.loops), across, (factors[0], factors[1]),
        )  # fmt: skip

    def _is_of_strips(self, place: int) -> bool:
        """Whether an array has no more of a value than a strip of it."""
        dims = self.stored[place].dims if place in self.stored else None
        return dims is not None and all(dim.lanes != "whole" for dim in dims)

    def _strides_in_strip(self, at: int) -> dict[int, int] | None:
        """Return the strides of a value in a strip along short loops; None if it is not dense."""
        loops = self.nest.loops(at)
        if at in self.stored:
            return self._dense_strides(loops) if self._is_of_strips(at) else None
        if at >= self.first or self.lanes in loops or self.nest.loads[at].is_cut:
            return None
        size, strides = 1, {}
        dims = [dim for dim in self.nest.loads[at].dims if dim is not None]
        for n, loop in enumerate(reversed(dims)):
            if loop in self.short:
                strides[loop], size = size, size * self.nest.sizes[loop]
            elif any(other in self.short for other in dims[: len(dims) - n]):
                return None
        return strides

    def _dense_strides(self, loops: Collection[int]) -> dict[int, int]:
        """Return the strides of an array over short loops, and over lanes if it has these."""
        size, strides = self.strip if self.lanes in loops else 1, {}
        for loop in reversed([loop for loop in self.short if loop in loops]):
            strides[loop], size = size, size * self.nest.sizes[loop]
        return strides

    # The function.

    def _packed(self, level: int) -> list[Statement]:
        """Return what brings elements of a strip next to each other that are not."""
        return [self._pack(at) for at, levels in self.packed.items() if level in levels]

    def _pack(self, at: int, *, whole: bool = False) -> Statement:
        load = self.nest.loads[at]
        loops = self.lengths([loop for loop in self.short if loop in load.loops])
        copied = Set(element(self.stored[at]), element(self.loads[at]), Step("pack", at))
        return Lanes(self.lanes, around(loops, [copied]), None, whole)

    def _pointer(self, array: Array, number: int, *, const: bool, name: str = "") -> str:
        """Point to the elements of an operand or result where the loops around have come to."""
        kind = f"const {array.type}" if const else array.type
        dims = range(len(array.dims))
        starts = array.offset(
            dims, [Atom("0" if dim.period else str(dim.start)) for dim in array.dims]
        )
        ahead = [n for n in dims if array.dims[n].loop in array.ahead]
        outer = array.offset(ahead, [array.dims[n].index for n in ahead])
        value = total([Atom(f"(({kind} *)p[{number}])"), starts, outer])
        return f"{kind} *restrict {name or array.name} = {value};"

    def _ends(self) -> tuple[list[Statement], list[str], list[Statement]]:
        """Return what is done before the independent loops, first in them, and after them."""
        before: list[Statement] = []
        points: list[str] = []
        after: list[Statement] = []
        for n, (load, array) in enumerate(zip(self.nest.loads, self.loads, strict=True)):
            once = n in self.packed and not self.packed[n]
            name = f"row{n}" if n in self.cuts else ""
            line = self._pointer(array, load.operand, const=True, name=name)
            if once:
                before += [Point((line,)), self._pack(n, whole=True)]
            else:
                points.append(line)
        for n, (result, array) in enumerate(zip(self.nest.results, self.results, strict=True)):
            op, place = self.ops[result.place], result.place
            line = self._pointer(array, self.nest.operands + n, const=False)
            if not self.is_last(op):
                points.append(line)
                continue
            sums = element(self.totals[place])
            before += self._everywhere(
                result, Set(sums, _start(op, op.dtype), Step("start", place))
            )
            value = cast(self._mean(op, sums) if op.name == "mean" else sums, array.type)
            before.append(Point((line,)))
            after += self._everywhere(result, Set(element(array), value, Step("write", place)))
        return before, points, after

    def _everywhere(self, result: Result, statement: Statement) -> tuple[Statement, ...]:
        """Do something for each element of a result."""
        body: tuple[Statement, ...] = (statement,)
        for loop in reversed([loop for loop in result.dims if loop is not None]):
            if loop == self.lanes:
                body = (Lanes(loop, body, None, whole=True),)
            else:
                body = around(self.lengths([loop]), body)
        return body

    def _function(self, body: tuple[Statement, ...]) -> Source:
        """Return all of it."""
        nest, head = self.nest, []
        for loop in range(len(nest.sizes)):
            length = nest.sizes[loop] if self.is_known(loop) else f"n[{loop}]"
            head.append(f"const int64_t n{loop} = {length};")
        at = len(nest.sizes)
        strided = [n for n, load in enumerate(nest.loads) if any(load.more)]
        for n in strided:
            for dim in range(len(nest.loads[n].dims)):
                head.append(f"const int64_t z{n}_{dim} = n[{at}];")
                at += 1
        head += [line for array in self.stack for line in Declare(array).lines()]
        scratch = []
        for array in self.scratch:
            head.append(f"{array.type} *restrict {array.name} = ({array.type} *)rows;")
            head.append(f"rows += {product([Atom('8'), array.size])};")
            fixed = [int(str(dim.length)) for dim in array.dims if str(dim.length).isdigit()]
            loops = [dim.loop for dim in array.dims if not str(dim.length).isdigit()]
            scratch.append((math.prod(fixed), tuple([n for n in loops if isinstance(n, int)])))
        lines = [
            "void region(char **p, const int64_t *n, char *rows) {", *head, *lines_of(body), "}",
        ]  # fmt: skip
        functions = [PRODUCTS, *self._products] if self._products else []
        body_text = "\n".join([*functions, *lines, ""])
        text = prelude(body_text) + body_text
        return Source(text, tuple(scratch), tuple(strided), self._program(body))

    def _program(self, body: tuple[Statement, ...]) -> Program:
        """Say what the function has to do."""
        tasks = {
            place: Task(op.loops, frozenset(op.reduced), frozenset(op.places))
            for place, op in self.ops.items()
        }
        loops = [frozenset([x for x in r.dims if x is not None]) for r in self.nest.results]
        results = {f"r{n}": own for n, own in enumerate(loops)}
        values = {f"r{n}": result.place for n, result in enumerate(self.nest.results)}
        for place in range(self.first + len(self.ops)):
            values |= {f"{letter}{place}": place for letter in "abwtcqm"}
        return Program(tasks, results, self.lanes, self.stack, values, body)


class _Parts:
    """What is before, in and after the loops of a group that reduce."""

    def __init__(self, lanes: bool, schedule: Schedule) -> None:
        self.lanes = lanes  # whether there is one result for each lane
        self.before: list[Statement] = []
        self.body: list[Statement] = []
        self.after: list[Statement] = []
        self.clauses: list[str] = []
        self._schedule = schedule

    def accumulator(self, place: int, letter: str, kind: str, itemsize: int) -> Element:
        """Make room for what elements come to, one for each lane if lanes are not reduced."""
        schedule = self._schedule
        dims = [schedule.room(schedule.lanes)] if self.lanes else []
        array = schedule.array(f"{letter}{place}", kind, dims, itemsize)
        if array.memory == "stack":
            self.before.append(Declare(array))
        return element(array)

    def start(self, place: int, target: Element, value: Expr) -> None:
        """Start an accumulator."""
        self.before += self._each([Set(target, value, Step("start", place))])

    def ending(self, body: Sequence[Statement]) -> None:
        """Do something with what all elements have come to."""
        self.after += self._each(body)

    def _each(self, body: Sequence[Statement]) -> list[Statement]:
        if not self.lanes or not body:
            return list(body)
        return [Lanes(self._schedule.lanes, tuple(body))]


def _adds(op: Op) -> bool:
    return REDUCTIONS[op.name].combine is np.add


def _start(op: Op, dtype: Dtype) -> Expr:
    """Return what an accumulator of a type starts with."""
    value = REDUCTIONS[op.name].start_of(dtype)
    if math.isinf(value):
        return Atom("__builtin_inf()") if value > 0 else Expr("-{}", (Atom("__builtin_inf()"),))
    start = Atom("0") if _adds(op) else literal(value, dtype)
    assert start is not None
    return start


def _extreme(op: Op, best: Expr, x: Expr) -> Expr:
    """Return the greater, or the lesser, of two, or what is not a number."""
    form = f"{{0}} {'>' if op.name == 'max' else '<'} {{1}}"
    if op.dtype.kind == "f":
        form = f"({form}) | ({{0}} != {{0}})"
    return Expr(f"({form}) ? {{0}} : {{1}}", (x, best))
