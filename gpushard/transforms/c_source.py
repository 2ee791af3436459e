"""Loop nests in C: each array is read once, and written once.

Loops that are independent come first. One loop, of unit stride where arrays allow it, is cut into
strips of a fixed number of elements, the lanes; short loops are within a strip, around the lanes.
Operations that go over the same loops share them: what is only used there is a number in a
register, what is used elsewhere in a strip is in an array as long as that, and what is needed once
the strips have been reduced is in one as long as the loop. So there is one pass over the strips
for each reduction along them that others need, all in cache.

Sums are over the lanes of a strip in the type of the result, strips are added in double precision:
they do not depend on how other loops are split.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import numpy as np

from gpushard.ops.aval import Dtype
from gpushard.transforms.c_products import PRELUDE as PRODUCTS
from gpushard.transforms.c_products import Product, product_source
from gpushard.transforms.c_schedule import Group, Schedule
from gpushard.transforms.expressions import (
    POSITIONS,
    PRELUDE,
    SUMS,
    TYPES,
    expression,
    is_reduction,
    literal,
)
from gpushard.transforms.nests import Nest, Op


@dataclasses.dataclass(frozen=True)
class Source:
    """A function in C: `region(operands and results, lengths and strides, memory)`."""

    text: str
    rows: tuple[tuple[int, ...], ...]  # the loops over which memory has 8 bytes for each element
    strided: tuple[int, ...]  # loads whose strides it takes, one for each dim


def c_source(nest: Nest) -> Source | None:
    """Return a nest as a function in C; None where something has no expression."""
    known = all(nest.dtype(place) in TYPES for place in range(len(nest.loads) + len(nest.ops)))
    if not known or len(nest.inner - nest.short) > 1 or not nest.sizes:
        return None
    return _Writer(nest).source()


class _Writer(Schedule):
    """Writes one nest."""

    def __init__(self, nest: Nest) -> None:
        super().__init__(nest)
        self._products: dict[str, str] = {}  # functions that it calls

    def source(self) -> Source | None:
        """Write it."""
        body: list[str] = []
        for level in range(1 + max(self.level.values(), default=0)):
            body += self._totals_of(level)
            for group in self.groups.get((level, False), []):
                lines = self._loops(group)
                if lines is None:
                    return None
                body += lines
            groups = self.groups.get((level, True), [])
            if groups:
                strip = [self._packed(level)]
                for group in groups:
                    lines = self._loops(group)
                    if lines is None:
                        return None
                    strip.append(lines)
                body += self._strips(level, [line for lines in strip for line in lines])
        body += self._totals_of(1 + max(self.level.values(), default=0))
        return self._function(body)

    def _loops(self, group: Group) -> list[str] | None:
        """Return the loops of a group."""
        product = self._product(group.ops[0]) if len(group.ops) == 1 else None
        if product is not None and not product.across:
            return [self._call(group.ops[0], product)]
        lines = self._loop_lines(group)
        if lines is None or product is None:
            return lines
        return [f"if (m == {self.strip}) {self._call(group.ops[0], product)} else", *lines]

    def _product(self, place: int) -> Product | None:
        """Return an operation as a product of strips, which has a function of its own."""
        op = self.ops[place]
        if op.name != "product" or self.is_last(op) or not self.short:
            return None
        across = self.lanes in op.reduced
        factors = [at for at, _ in op.operands if at is not None]
        factors.sort(key=lambda at: self.lanes not in self.nest.loops(at))
        if across != all(self.lanes in self.nest.loops(at) for at in factors):
            return None
        if not across and (self.lanes not in op.loops or place in self.result_of):
            return None
        x, y = [self._strides_in_strip(at) for at in factors]
        if x is None or y is None or not (across or self.stored.get(place, "").startswith("b")):
            return None
        sizes = {loop: self.nest.sizes[loop] for loop in self.short}
        return Product(
            f"product{place}", TYPES[op.dtype], self.strip,
            {loop: n for loop, n in sizes.items() if loop in op.loops},
            {loop: n for loop, n in sizes.items() if loop in op.reduced},
            x, y, self._dense_strides(op.loops), across, (factors[0], factors[1]),
        )  # fmt: skip

    def _strides_in_strip(self, at: int) -> dict[int, int] | None:
        """Return the strides of a value in a strip along short loops; None if it is not dense."""
        loops = self.nest.loops(at)
        if at in self.stored:
            return self._dense_strides(loops) if self.stored[at].startswith("b") else None
        if at >= self.first or self.lanes in loops or any(self.nest.loads[at].more):
            return None
        size, own = 1, {}
        dims = [dim for dim in self.nest.loads[at].dims if dim is not None]
        for n, loop in enumerate(reversed(dims)):
            if loop in self.short:
                own[loop], size = size, size * self.nest.sizes[loop]
            elif any(other in self.short for other in dims[: len(dims) - n]):
                return None
        return own

    def _dense_strides(self, loops: Collection[int]) -> dict[int, int]:
        """Return the strides of an array over short loops, and over lanes if it has these."""
        size, own = self.strip if self.lanes in loops else 1, {}
        for loop in reversed([loop for loop in self.short if loop in loops]):
            own[loop], size = size, size * self.nest.sizes[loop]
        return own

    def _call(self, place: int, product: Product) -> str:
        if product.name not in self._products:
            self._products[product.name] = product_source(product)
        x, y = [f"{'b' if at in self.stored else 'a'}{at}" for at in product.factors]
        return f"{product.name}({x}, {y}, {'t' if product.across else 'b'}{place});"

    def _loop_lines(self, group: Group) -> list[str] | None:
        reduced = group.reduced or frozenset()
        kept = [loop for loop in self.short if loop in group.loops and loop not in reduced]
        within = [loop for loop in self.short if loop in reduced]
        in_lanes = self.lanes in group.loops
        parts = _Parts(in_lanes and self.lanes not in reduced)
        for place in group.ops:
            if not (self._reduction if self.ops[place].reduced else self._plain)(
                place, group, parts
            ):
                return None
        lines = [f"{head} {{" for head in self.around(kept)]
        lines += parts.before
        lines += [f"{head} {{" for head in self.around(within)]
        if in_lanes:
            lines += [
                f"#pragma omp simd {' '.join(parts.clauses)}",
                "for (int64_t t = 0; t < m; t++) {",
            ]
        lines += parts.body
        lines += ["}"] * (len(within) + in_lanes) + parts.after + ["}"] * len(kept)
        return ["{", *lines, "}"]

    def _given(self, op: Op, group: Group) -> list[str] | None:
        given = []
        for (at, number), own in zip(op.operands, op.types, strict=False):
            text = literal(number, own) if at is None else self.value(at, group)
            if text is None:
                return None
            given.append(text)
        return given

    def _plain(self, place: int, group: Group, parts: _Parts) -> bool:
        op = self.ops[place]
        given = self._given(op, group)
        if given is None:
            return False
        text = expression(op.name, given, op.types, op.dtype, [x for _, x in op.operands])
        if text is None:
            return False
        kind = "int" if op.dtype.kind == "b" else TYPES[op.dtype]  # as wide as what it decides of
        parts.body.append(f"const {kind} v{place} = {text};")
        if place in self.stored and not self.stored[place].startswith("r"):
            parts.body.append(f"{self.stored[place]} = v{place};")
        parts.body += self._results(place, f"v{place}")
        return True

    def _results(self, place: int, text: str) -> list[str]:
        """Return what writes a value into results, in the loops along which it varies."""
        return [
            f"r{n}[{self.at(self.nest.results[n].dims, 10**6)}] = {text};"
            for n in self.result_of.get(place, [])
        ]

    def _reduction(self, place: int, group: Group, parts: _Parts) -> bool:
        op = self.ops[place]
        given = self._given(op, group)
        if given is None or not is_reduction(op.name, op.types[0], op.dtype):
            return False
        made, wide, start = TYPES[op.dtype], _wide(op.dtype), _start(op)
        name = f"c{place}[t]" if parts.lanes else f"c{place}"
        lane = "for (int64_t t = 0; t < m; t++) " if parts.lanes else ""
        across = self.lanes in op.reduced
        if op.name in POSITIONS:
            if across or self.is_last(op):
                return False
            return self._position(place, given[0], name, lane, parts)
        parts.before.append(f"{made} {name.replace('[t]', f'[{self.strip}]')};")
        parts.before.append(f"{lane}{name} = {start};")
        text = " * ".join([f"(({made})({x}))" for x in given])
        if op.name in SUMS:
            parts.body.append(f"{name} += {text};")
            parts.clauses += [f"reduction(+:c{place})"] * across
        elif across:  # what is not a number is looked for apart: so lanes are independent
            sign = ">" if op.name == "max" else "<"
            parts.before.append(f"int q{place} = 0;")
            parts.body += [
                f"const {made} x{place} = {text};",
                f"{name} = x{place} {sign} {name} ? x{place} : {name};",
                f"q{place} |= x{place} != x{place};",
            ]
            parts.clauses += [f"reduction({op.name}:c{place})", f"reduction(|:q{place})"]
            nan = '__builtin_nan("")' if op.dtype.kind == "f" else "0"
            parts.after.append(f"if (q{place}) c{place} = {nan};")
        else:
            parts.body += [f"const {made} x{place} = {text};", _extreme(op, name, f"x{place}")]
        if across or self.is_last(op):
            own = [loop for loop in self.short if loop in op.loops]
            if self.is_last(op):
                result = self.nest.results[self.result_of[place][0]]
                at = self.at(result.dims, 10**6)
                outer = self.at(result.dims, 10**6, outer=True)
                to = f"t{place}[{at} + {outer}]"
                self.memory(
                    tuple(d for d in result.dims if d is not None), f"{wide} *t{place}", wide
                )
            else:
                size = " * ".join([str(self.nest.sizes[loop]) for loop in own] or ["1"])
                self.declared.append(f"{wide} t{place}[{size}];")
                to = f"t{place}[{self.dense(own)}]"
            if op.name in SUMS:
                parts.after.append(f"{lane}{to} += {name};")
            else:
                parts.after.append(f"{lane}{{ {_extreme(op, to, name)} }}")
            return True
        value = f"{name} / {self._count(op)}" if op.name == "mean" else name
        self._keep(place, f"({made})({value})", lane, parts)
        return True

    def _keep(self, place: int, text: str, lane: str, parts: _Parts) -> None:
        to = [f"{self.stored[place]} = {text};"] if place in self.stored else []
        to += self._results(place, text)
        parts.after.append(f"{lane}{{ {' '.join(to)} }}")

    def _position(self, place: int, text: str, name: str, lane: str, parts: _Parts) -> bool:
        op = self.ops[place]
        own = TYPES[op.types[0]]
        best = name.replace(f"c{place}", f"m{place}")
        size = f"[{self.strip}]" if parts.lanes else ""
        parts.before += [f"int32_t c{place}{size};", f"{own} m{place}{size};"]
        sign = "<" if op.name == "argmin" else ">"
        parts.before.append(
            f"{lane}{{ {name} = 0; {best} = {_worst(op.types[0], op.name == 'argmin')}; }}"
        )
        number = self.dense(op.reduced)
        nan = f" | (x{place} != x{place} & {best} == {best})" if op.types[0].kind == "f" else ""
        parts.body += [
            f"const {own} x{place} = {text};",
            f"const int y{place} = x{place} {sign} {best}{nan};",
            f"{best} = y{place} ? x{place} : {best};",
            f"{name} = y{place} ? (int32_t)({number}) : {name};",
        ]
        self._keep(place, name, lane, parts)
        return True

    def _count(self, op: Op) -> str:
        return " * ".join([f"({TYPES[op.dtype]})n{loop}" for loop in op.reduced])

    def _totals_of(self, level: int) -> list[str]:
        """Return what ends the reductions along the strips before, and begins the next ones."""
        lines: list[str] = []
        for place, op in self.ops.items():
            if self.lanes not in op.reduced or self.is_last(op):
                continue
            own = [loop for loop in self.short if loop in op.loops]
            around = self.around(own)
            total = f"t{place}[{self.dense(own)}]"
            if self.level[place] == level + 1:
                lines.append(f"{' '.join(around)} {total} = {_start(op)};")
            if self.level[place] == level:
                value = f"{total} / ({self._count(op)})" if op.name == "mean" else total
                made = f"({TYPES[op.dtype]})({value})"
                to = [f"{self.stored[place]} = {made};", *self._results(place, made)]
                lines.append(f"{' '.join(around)} {{ {' '.join(to)} }}")
        return lines

    def _packed(self, level: int) -> list[str]:
        """Return what brings elements of a strip next to each other that are not."""
        lines: list[str] = []
        for at, levels in self.packed.items():
            if level in levels:
                lines += self._pack(at, "m")
        return lines

    def _pack(self, at: int, count: str) -> list[str]:
        load = self.nest.loads[at]
        own = [loop for loop in self.short if loop in load.loops]
        around = self.around(own)
        text = f"a{at}[{self.at(load.dims, at)}]"
        return [f"for (int64_t t = 0; t < {count}; t++)", *around, f"{self.stored[at]} = {text};"]

    def _strips(self, level: int, lines: list[str]) -> list[str]:
        n, strip = self.lanes, self.strip
        opened = f"for (int64_t j0 = 0; j0 < n{n}; j0 += {strip}) {{"
        if not self.short:
            return [
                opened,
                f"const int64_t m = j0 + {strip} < n{n} ? {strip} : n{n} - j0;",
                *lines,
                "}",
            ]
        return [
            opened, f"if (j0 + {strip} <= n{n}) {{ enum {{ m = {strip} }};", *lines,
            f"}} else {{ const int64_t m = n{n} - j0;", *lines, "} }",
        ]  # fmt: skip

    def _function(self, body: list[str]) -> Source:
        """Return all of it."""
        nest, head = self.nest, []
        for loop in range(len(nest.sizes)):
            known = loop in nest.short and loop != self.lanes
            head.append(f"const int64_t n{loop} = {nest.sizes[loop] if known else f'n[{loop}]'};")
        at = len(nest.sizes)
        strided = [n for n, load in enumerate(nest.loads) if any(load.more)]
        for n in strided:
            for dim in range(len(nest.loads[n].dims)):
                head.append(f"const int64_t z{n}_{dim} = n[{at}];")
                at += 1
        start, pointers, ends = [], [], []
        for n, load in enumerate(nest.loads):
            t, base = TYPES[load.dtype], f"p[{load.operand}]"
            pairs = zip(load.starts, self.strides(load.dims, n), strict=True)
            moved = "".join(f" + {first} * {stride}" for first, stride in pairs if first)
            outer = self.at(load.dims, n, outer=True)
            line = f"const {t} *restrict a{n} = (const {t} *){base}{moved} + {outer};"
            if at_start := (n in self.packed and not self.packed[n]):
                start += [line, "{ const int64_t j0 = 0;", *self._pack(n, f"n{self.lanes}"), "}"]
            if not at_start:
                pointers.append(line)
        for n, result in enumerate(nest.results):
            t, op = TYPES[nest.dtype(result.place)], self.ops[result.place]
            whole = f"({t} *)p[{nest.operands + n}]"
            if not self.is_last(op):
                outer = self.at(result.dims, 10**6, outer=True)
                pointers.append(f"{t} *restrict r{n} = {whole} + {outer};")
                continue
            size = " * ".join([f"n{dim}" for dim in result.dims if dim is not None] or ["1"])
            each = f"for (int64_t x = 0; x < {size}; x++)"
            total = f"t{result.place}[x]"
            if n == self.result_of[result.place][0]:
                start.append(f"{each} {total} = {_start(op)};")
            value = f"{total} / ({self._count(op)})" if op.name == "mean" else total
            ends.append(f"{each} ({whole})[x] = ({t})({value});")
        opened = [f"for (int64_t i{n} = 0; i{n} < n{n}; i{n}++) {{" for n in self.outer]
        lines = [
            "void region(char **p, const int64_t *n, char *rows) {",
            *head, *self.declared, *start, *opened, *pointers, *body, *["}"] * len(self.outer),
            *ends, "}",
        ]  # fmt: skip
        functions = [PRODUCTS, *self._products.values()] if self._products else []
        text = "\n".join([PRELUDE, *functions, *lines, ""])
        return Source(text, tuple(self.rows), tuple(strided))


@dataclasses.dataclass
class _Parts:
    """What is before, in and after the loops of a group that reduce."""

    lanes: bool  # whether there is one result for each lane
    before: list[str] = dataclasses.field(default_factory=list)
    body: list[str] = dataclasses.field(default_factory=list)
    after: list[str] = dataclasses.field(default_factory=list)
    clauses: list[str] = dataclasses.field(default_factory=list)


def _wide(dtype: Dtype) -> str:
    """Return the type in which strips are added."""
    return "double" if dtype.kind == "f" else "int64_t"


def _worst(dtype: Dtype, least: bool) -> str:
    """Return what every number is before, or as good as, if the `least` one is looked for."""
    if dtype.kind == "f":
        return "__builtin_inf()" if least else "-__builtin_inf()"
    info = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return str(literal(info[least], dtype))


def _start(op: Op) -> str:
    return "0" if op.name in SUMS else _worst(op.dtype, op.name == "min")


def _extreme(op: Op, to: str, x: str) -> str:
    """Return what keeps the greater, or the lesser, of two, or what is not a number."""
    sign = ">" if op.name == "max" else "<"
    nan = f" | ({x} != {x})" if op.dtype.kind == "f" else ""
    return f"{to} = ({x} {sign} {to}{nan}) ? {x} : {to};"
