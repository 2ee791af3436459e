"""Regions of operations, and which operations may join them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from gpushard._runtime.nests import MOST_SHORT, REDUCTIONS, runs_of, short_loops
from gpushard._transforms.fusion.forms import Form
from gpushard._transforms.fusion.layout import Member, unrolled
from gpushard._transforms.graph.graph import Operation, Var

_MOST_OPERATIONS = 64
"""Most operations of a region, where an operation that calls a function counts as `_CALL`.

Each operation that joins is compared with all others, and a compiler takes 5 to 90 ms for each. A
cut writes and reads a value once more, which is little next to so many operations.
"""

_MOST_ARRAYS = 48
"""Most arrays, or parts of arrays, that a region reads, plus values that no operation in it takes.
A kernel has a pointer for each. On a GPU it has one for each device, in 4,096 bytes for all."""


@dataclasses.dataclass(eq=False)
class Region:
    """Operations that are to become one kernel, and their loops.

    A tuple of loops has one for each dim of a value; None for a dim of length 1.
    """

    expressible: bool  # whether all operations have expressions in C
    sizes: list[int] = dataclasses.field(default_factory=list)  # lengths of the loops
    inner: frozenset[int] = frozenset()  # long loops with a reduction that the region itself reads
    members: list[Member] = dataclasses.field(default_factory=list)
    dims: dict[Var, tuple[int | None, ...]] = dataclasses.field(default_factory=dict)  # of results
    read: dict[Var, tuple[int | None, ...]] = dataclasses.field(default_factory=dict)  # of operands
    ended: set[Var] = dataclasses.field(default_factory=set)  # reductions known only at the end
    # For each value, how many reductions of long loops, one after the other, it depends on.
    level: dict[Var, int] = dataclasses.field(default_factory=dict)
    forms: list[Form] = dataclasses.field(default_factory=list)  # the same as `members`
    again: frozenset[Operation] = frozenset()  # operations that another region does, too
    plain: Region | None = None  # the region without these
    weight: int = 0  # the number of operations, as `_MOST_OPERATIONS` counts them
    loads: set[tuple[Var, Any, Any, Any]] = dataclasses.field(default_factory=set)  # parts it reads
    ends: set[Var] = dataclasses.field(default_factory=set)  # values that no member takes
    far: bool = False  # whether inner loops are too long for a GPU kernel to go along them twice
    long: frozenset[int] = frozenset()  # loops that are not short

    def join(self, form: Form) -> bool:
        """Put an operation into the region if it fits; return whether it does.

        It fits if its dims are loops of the region, and if it adds no pass along a long loop to the
        kernel of the region. It also has to stay within bounds.
        """
        if form.expressible != self.expressible:
            return False
        sizes = form.rule.sizes
        loops: dict[int, int] = {}
        if not _match_operands(form, self, loops):
            return False
        single = form.serves is not None and any(v.base in self.dims for v in form.views)
        if self.members and not loops and not single and not _has_same_loops(form, self, loops):
            return False
        more = [n for n in range(len(sizes)) if n not in loops and sizes[n] > 1]
        grown = [*self.sizes, *[sizes[n] for n in more]]
        names = {n: len(self.sizes) + at for at, n in enumerate(more)} | loops
        member = form.along(names)
        if not set(names.values()) <= {loop for dims in member.base_loops for loop in dims}:
            return False  # a broadcast dim: no operand of the kernel has its length
        return self._add(form, member, grown)

    def preceded(self, chain: Sequence[Form], order: Mapping[Operation, int]) -> Region | None:
        """Return the region with the operations that compute a value it reads; None if none fits.

        Args:
          chain: elementwise operations, the last of which gives the value.
          order: the number of each operation, by which they are sorted.
        """
        value = chain[-1].step.results[0]
        loops = {value: self.read[value]}
        inside = {form.step.results[0] for form in chain}

        def is_along(member: Member) -> bool:
            """Note along which loops an operation reads the chain; False if others are noted."""
            return all(
                not view.is_shifted and loops.setdefault(view.base, dims) == dims
                for view, dims in zip(member.views, member.base_loops, strict=True)
                if view.base in inside
            )

        if not all(map(is_along, self.members)):
            return None
        members: list[tuple[Form, Member]] = []
        for form in reversed(chain):
            dims = zip(form.rule.results[0], loops[form.step.results[0]], strict=True)
            member = form.along({n: loop for n, loop in dims if n is not None and loop is not None})
            if not is_along(member) or form.expressible != self.expressible:
                return None
            members.append((form, member))
        region = Region(
            self.expressible, self.sizes, self.inner, self.members.copy(), self.dims.copy(),
            self.read.copy(), self.ended.copy(), self.level.copy(), self.forms.copy(),
            self.again.union([form.step for form in chain]), self.plain or self, self.weight,
            {load for load in self.loads if load[0] is not value}, self.ends, self.far, self.long,
        )  # fmt: skip
        del region.read[value]
        for form, member in reversed(members):
            if form.step not in self.again and not region._add(form, member, self.sizes):
                return None
        region.ends = region.ends - {value}
        region.forms.sort(key=lambda form: order[form.step])
        region.members.sort(key=lambda member: order[member.step])
        return region

    def without_others(
        self, wanted: Collection[Var]
    ) -> tuple[list[Member], list[int], frozenset[int]]:
        """Return the operations that wanted values need, the lengths of their loops, and `inner`.

        If other regions compute all that read a value, this one need not compute it.
        """
        needed, members = set(wanted), list[Member]()
        for member in reversed(self.members):
            if member.step.results[0] in needed:
                needed.update(view.base for view in member.views)
                members.insert(0, member)
        if len(members) == len(self.members):
            return members, self.sizes, self.inner
        arrays = [x for m in members for x in (*m.operand_loops, m.dims, m.reduced)]
        loops = sorted({loop for dims in arrays for loop in dims if loop is not None})
        number: dict[Any, Any] = {None: None} | {loop: n for n, loop in enumerate(loops)}

        def renamed(dims: Sequence[int | None]) -> tuple[Any, ...]:
            return tuple([number[loop] for loop in dims])

        members = [
            dataclasses.replace(
                m, operand_loops=list(map(renamed, m.operand_loops)), dims=renamed(m.dims),
                reduced=renamed(m.reduced),
            )
            for m in members
        ]  # fmt: skip
        sizes = [self.sizes[loop] for loop in loops]
        return members, sizes, frozenset(number[x] for x in self.inner if x in number)

    def _add(self, form: Form, member: Member, sizes: Sequence[int]) -> bool:
        """Add an operation along loops of some lengths if it stays within bounds."""
        result = form.step.results[0]
        loads = self.loads.union([
            (v.base, v.dims, v.starts, v.periodic) for v in form.views if v.base not in self.dims
        ])  # fmt: skip
        ends = self.ends.union([result]) - {view.base for view in form.views}
        weight = self.weight + form.weight
        if weight > _MOST_OPERATIONS or len(loads) + len(ends) > _MOST_ARRAYS:
            return False
        if not self._goes_along(form, member, sizes):
            return False
        self.weight, self.loads, self.ends = weight, loads, ends
        for view, dims in zip(form.views, member.base_loops, strict=True):
            if view.base not in self.dims:
                self.read.setdefault(view.base, dims)
        self.dims[result] = member.dims
        self.forms.append(form)
        return True

    def _goes_along(self, form: Form, member: Member, sizes: Sequence[int]) -> bool:
        """Add an operation if that adds no pass along a long loop, and unrolls few elements."""
        runs = _runs(sizes, [*self.members, member])
        short = short_loops(sizes, runs)
        if any(short.intersection(m.reduced) & self.long for m in self.members):
            return False  # loops that earlier reductions go along as one would become several
        arrays = (*member.operand_loops, member.dims, member.reduced)
        every = {loop for dims in arrays for loop in dims if loop is not None}
        split = _is_split(form)
        long = {loop for loop in member.reduced if loop not in short}
        read = [dims for m in (*self.members, member) for dims in m.base_loops]
        level = max(self.level.get(view.base, 0) for view in form.views)
        far = False
        if form.serves is not None:
            # A kernel has no lengths of split loops, so these are no short ones.
            along = {*member.reduced} if split else long
            others = [
                {loop for loop in m.reduced if m.ends or loop not in short} for m in self.members
            ]
            if along and not all(loops in (set(), along) for loops in others):
                return False  # the threads of a row go along the same loops in all reductions
            far = self.far or (bool(long) and not form.serves(math.prod(sizes[n] for n in long)))
            if far and level and not every.isdisjoint(self.inner | long):
                return False
            read = []  # GPU kernels take dims in any order
        ends = split
        if long and not ends:
            ends = bool(self.inner and long != self.inner) or not _are_last(read, long, short)
        if ends and form.name not in ("sum", "mean", "product", "max", "min"):
            return False
        member = dataclasses.replace(member, ends=ends)
        members = [*self.members, member]
        if form.serves is None:
            within = every & unrolled(short, sizes, members, [*read, *[m.dims for m in members]])
        else:
            within = {loop for m in members if not m.ends for loop in m.reduced if loop in short}
        if math.prod([sizes[loop] for loop in within]) > MOST_SHORT:
            return False
        inner = self.inner | (frozenset() if ends else long)
        spans = [{*m.dims, *m.reduced} - short - {None} for m in members]
        lacking = set().union(*spans) - set(spans[0]).intersection(*spans)
        apart = [run for run in runs if not lacking.isdisjoint(run)]
        if not lacking <= inner if inner else len(apart) > 1:
            return False  # operations without a loop would be repeated for each of its indices
        if not _are_last(read, inner, short) or not _are_last(read, lacking, short):
            return False
        self.sizes, self.inner, self.far = [*sizes], frozenset(inner), far
        self.long = frozenset(range(len(sizes))) - short
        result = form.step.results[0]
        self.level[result] = level + bool(long and not ends)
        if ends:
            self.ended.add(result)
        self.members.append(member)
        return True


def _runs(sizes: Sequence[int], members: Sequence[Member]) -> list[list[int]]:
    """Group the loops of a region that may be one longer loop."""
    arrays, alike = [], list[Collection[int]]()
    for member in members:
        arrays += [*member.base_loops, member.dims]
        # Loops over a part of an array are not next to each other in its memory.
        alone = {
            loop for view, dims in zip(member.views, member.base_loops, strict=True)
            if view.is_shifted for loop in dims if loop is not None
        }  # fmt: skip
        if member.name in REDUCTIONS and REDUCTIONS[member.name].position:
            alone.update(member.reduced)
        alike += [member.reduced, *[{loop} for loop in alone]]
    return runs_of(range(len(sizes)), arrays, alike)


def _are_last(
    arrays: Sequence[Sequence[int | None]],
    loops: Collection[int | None],
    short: Collection[int | None],
) -> bool:
    """Whether all dims of arrays behind the first of some loops are of these loops, or short."""
    fine = {None, *loops, *short}
    return all(
        fine.issuperset(dims[n:])
        for dims in arrays
        for n in [next((n for n, dim in enumerate(dims) if dim in loops), len(dims))]
    )


def _is_split(form: Form) -> bool:
    """Whether an operation reduces a dim that is split over devices."""
    for x, dims in zip(form.step.arrays, form.rule.operands, strict=False):
        for dim, factor in enumerate(dims):
            if factor in form.reduced and x.shape[dim] > 1:
                tiling = x.tiling
                if (tiling.stops[dim] - tiling.starts[dim] != tiling.shape[dim]).any():
                    return True
    return False


def _match_operands(form: Form, region: Region, loops: dict[int, int]) -> bool:
    """Match factors of an operation to loops by its operands; False if they do not fit."""
    factors = form.factors
    for view, dims in zip(form.views, factors, strict=True):
        if view.base in region.ended:
            return False
        if view.base not in region.dims:
            continue
        if view.is_shifted:
            return False
        matched = _match_loops(view.over(region.dims[view.base]), dims, form, region, loops)
        if matched is None:
            return False
        loops |= matched
    for view, dims in zip(form.views, factors, strict=True):
        if view.base in region.read and view.base not in region.dims:
            base_loops = view.over(region.read[view.base])
            loops |= _match_loops(base_loops, dims, form, region, loops) or {}
    return True


def _match_loops(
    dims: Sequence[int | None],
    factors: Sequence[int | None],
    form: Form,
    region: Region,
    loops: dict[int, int],
) -> dict[int, int] | None:
    """Match factors to the loops of dims; None if lengths, or earlier matches, contradict that."""
    matched = dict(loops)
    for factor, loop in zip(factors, dims, strict=True):
        if factor is None or loop is None:
            continue
        if region.sizes[loop] != form.rule.sizes[factor]:
            return None
        if matched.setdefault(factor, loop) != loop:
            return None
    return matched if len(set(matched.values())) == len(matched) else None


def _has_same_loops(form: Form, region: Region, loops: dict[int, int]) -> bool:
    """Match all loops of an operation by its result, if it and the region reduce nothing."""
    first = region.members[0]
    result, other = form.step.results[0], first.step.results[0]
    if form.reduced or first.reduced or form.step.moved or result.tiling is not other.tiling:
        return False
    for factor, dim in zip(form.rule.results[0], first.dims, strict=True):
        if factor is not None and dim is not None:
            loops[factor] = dim
    return True
