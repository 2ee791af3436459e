"""Regions: operations of a graph that become one kernel, so that data goes through memory once.

A region has loops, as `nests` says: dims of its operations that are one and the same are one loop.
Operations are put into groups that run one after the other. One may join a group if all that it
needs is made by that group or earlier ones: so no group ever needs a later one. Views are no
operations: who reads one reads the array itself, with other loops.

What is between the operations of a region lies nowhere. So a region is laid out as its results
are, whatever was found for each operation; operands that lie otherwise are moved, where that is no
more than would have been moved without it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import devices_of
from gpushard.ops.programs.local import Local
from gpushard.ops.programs.reduce import Reduce
from gpushard.ops.rule import Rule, elementwise, reduction
from gpushard.runtime.host.nests.expressions import TYPES, expression, is_reduction
from gpushard.runtime.kernel_tree import Atom
from gpushard.runtime.nests import REDUCTIONS, SHORT
from gpushard.transforms.graph.graph import Graph, Step, Var
from gpushard.transforms.graph.ops import RowOp
from gpushard.transforms.regions.layout import Member, laid_out, one, op_of
from gpushard.transforms.regions.views import View, view_of

_MOST_SHORT = 1024
"""Combinations of indices of short loops, for a value."""

_MOST_OPERATIONS = 64
"""Operations of a region, those that call a function as `_CALL` each.

To add one, all operations of the region are looked at, and a compiler takes 5 to 90 ms for each. A
cut writes and reads a value once more, which is little next to so many operations.
"""

_CALL = 4
"""An operation that calls a function in C, such as `exp`, counts as so many. Compilers inline about
20 calls in a loop. With more calls they go from element to element, which is 30 times slower."""

_MOST_ARRAYS = 48
"""Arrays, or parts of them, that a region reads, and values that no operation in it takes. A kernel
has a pointer for each. On a GPU it has one for each device, in 4,096 bytes for all."""

_MOST_TRIED = 32
"""An operation tries the last so many regions that read or make a value which it takes."""

_PRODUCTS = ("matmul", "dot", "einsum", "tensordot", "vecdot")


@dataclasses.dataclass(eq=False)
class Region:
    """Operations that are to become one."""

    expressible: bool  # whether there are expressions for all of them
    sizes: list[int] = dataclasses.field(default_factory=list)  # of loops
    inner: frozenset[int] = frozenset()  # long loops that are reduced for what is in the region
    members: list[Member] = dataclasses.field(default_factory=list)
    dims: dict[Var, tuple[int | None, ...]] = dataclasses.field(default_factory=dict)  # of values
    read: dict[Var, tuple[int | None, ...]] = dataclasses.field(default_factory=dict)  # of operands
    ended: set[Var] = dataclasses.field(default_factory=set)  # what is known only in the end
    # How many reductions of long loops are before what a value is of.
    level: dict[Var, int] = dataclasses.field(default_factory=dict)
    weight: int = 0  # operations, as they count
    loads: set[tuple[Var, Any, Any]] = dataclasses.field(default_factory=set)  # parts of operands
    ends: set[Var] = dataclasses.field(default_factory=set)  # values that no member takes
    far: bool = False  # whether inner loops are so long that a kernel goes along them only once


def fuse_regions(graph: Graph) -> list[Step]:
    """Return the operations of a graph, regions of them as one each."""
    groups: list[Region | Step] = []
    group_of: dict[Var, int] = {}
    views: dict[Var, View] = {}
    candidates = _Candidates()
    for step in graph.needed():
        view = view_of(step)
        if view is not None:
            views[step.results[0]] = views[view.base].then(view) if view.base in views else view
        form = None if view is not None else _form(step, views)
        needs = [views[x].base if x in views else x for x in step.arrays]
        after = max([group_of.get(x, -1) for x in needs], default=-1)
        place = None if form is None else candidates.join(form, max(after, 0))
        if place is None:
            place = len(groups)
            region = None if form is None else candidates.begin(form, place)
            groups.append(region or step)
        for x in step.results:
            group_of[x] = place
    return _in_order(_laid_out(groups, views, graph), graph)


class _Candidates:
    """Regions that operations may still join.

    Loops of an operation are known from values that a region makes or reads, or, if the region has
    none of them, because its first result lies alike. So regions are found by these.
    """

    def __init__(self) -> None:
        self._of: dict[Var | Tiling, dict[int, Region]] = {}

    def join(self, form: _Form, first: int) -> int | None:
        """Put an operation into a region, and return its number; None if it fits nowhere.

        Args:
          form: the operation.
          first: number of the first region that it may be in.
        """
        tried: dict[int, Region] = {}
        keys: list[Var | Tiling] = [view.base for view in form.views]
        for key in (*keys, form.step.results[0].tiling):
            tried |= self._of.get(key, {})
        for number in sorted(number for number in tried if number >= first):
            if _has_room(form, tried[number]) and _joined(form, tried[number]):
                self._note(form, tried[number], number)
                return number
        return None

    def begin(self, form: _Form, number: int) -> Region | None:
        """Return a new region that has an operation; None if the operation can't be in one."""
        region = Region(form.expressible)
        if not _joined(form, region):
            return None
        self._add(form.step.results[0].tiling, region, number)
        self._note(form, region, number)
        return region

    def _note(self, form: _Form, region: Region, number: int) -> None:
        region.weight, region.loads, region.ends = _grown(form, region)
        for key in (*(view.base for view in form.views), *form.step.results):
            self._add(key, region, number)

    def _add(self, key: Var | Tiling, region: Region, number: int) -> None:
        regions = self._of.setdefault(key, {})
        regions[number] = region
        if len(regions) > _MOST_TRIED:
            del regions[min(regions)]


def _grown(form: _Form, region: Region) -> tuple[int, set[tuple[Var, Any, Any]], set[Var]]:
    """Return the operations, loads and ends of a region with an operation more."""
    loads = {(v.base, v.dims, v.starts) for v in form.views if v.base not in region.dims}
    ends = region.ends.union(form.step.results) - {view.base for view in form.views}
    return region.weight + form.weight, region.loads | loads, ends


def _has_room(form: _Form, region: Region) -> bool:
    """Whether a region stays small enough with an operation more."""
    weight, loads, ends = _grown(form, region)
    return weight <= _MOST_OPERATIONS and len(loads) + len(ends) <= _MOST_ARRAYS


def _laid_out(groups: Sequence[Region | Step], views: dict[Var, View], graph: Graph) -> list[Step]:
    """Return what groups become: one operation each, where a layout serves all of it.

    The last group comes first: then it is known which values of a group the later ones need. Who
    needs a view needs what it is a view of.
    """
    used: set[Var] = set()

    def use(values: Iterable[Var]) -> None:
        used.update(views[x].base if x in views else x for x in values)

    use(graph.results)
    laid: list[list[Step]] = []
    for group in reversed(groups):
        steps = [group] if isinstance(group, Step) else _steps_of(group, used)
        for step in steps:
            if views.keys().isdisjoint(step.results):
                use(step.arrays)
        laid.append(steps)
    return [step for steps in reversed(laid) for step in steps]


def _steps_of(region: Region, used: Collection[Var]) -> list[Step]:
    """Return what a region becomes: one operation, or those that it has where that can't be.

    Args:
      region: it.
      used: values that are needed outside of it.
    """
    steps = [member.step for member in region.members]
    results = [member for member in region.members if member.step.results[0] in used]
    if len(steps) < 2 or not results:
        return steps
    laid = laid_out(region.members, results, region.sizes, region.inner)
    kernel = None if laid is None else one(laid)
    return steps if kernel is None else [kernel]


def _in_order(steps: list[Step], graph: Graph) -> list[Step]:
    """Return the operations that are needed, each after those that make what it takes."""
    wanted, kept = set(graph.results), []
    maker = {x: step for step in steps for x in step.results}
    done: set[int] = set()
    needed: list[Step] = [
        step for step in steps if step.op.has_effect or not wanted.isdisjoint(step.results)
    ]
    reached = {id(step) for step in needed}
    while needed:
        step = needed.pop()
        for x in step.arrays:
            of = maker.get(x)
            if of is not None and id(of) not in reached:
                reached.add(id(of))
                needed.append(of)

    waiting = [step for step in reversed(steps) if id(step) in reached]
    while waiting:
        step = waiting[-1]
        makers = [maker[x] for x in step.arrays if x in maker]
        before = [x for x in makers if id(x) not in done]
        if id(step) in done or not before:
            waiting.pop()
            if id(step) not in done:
                done.add(id(step))
                kept.append(step)
        waiting += reversed(before)
    return kept


@dataclasses.dataclass(eq=False)
class _Form:
    """An operation that may be in a region."""

    step: Step
    op: RowOp  # what it does
    rule: Rule  # of all operands, numbers among them
    views: list[View]  # its arrays
    reduced: tuple[int, ...]  # factors that it reduces, in the order in which they are counted
    expressible: bool  # whether there is an expression for it
    name: str = ""  # of the reduction
    # On GPUs, whether a kernel can reduce so many elements for what follows in it.
    serves: Callable[[int], bool] | None = None
    weight: int = 1  # operations that it counts as


def _form(step: Step, views: dict[Var, View]) -> _Form | None:
    """Return what an operation is in a region; None if it can't be in one."""
    op, arrays = step.op, step.arrays
    if not isinstance(op, RowOp) or op.row.creates or len(step.results) != 1 or not arrays:
        return None
    if len(arrays) < len(step.operands):
        return None
    row, result = op.row, step.results[0]
    if result.sharding.memory_kind != "device":
        return None
    if any(0 in x.shape for x in (*arrays, result)):
        return None
    seen = [views.get(x) or View.of(x) for x in arrays]
    avals = op.avals(arrays)
    rule = row.rule_for(avals, op.params)
    if len(row.strategies) == 1:
        if row.positional or type(row.strategies[0]) is not Local or rule.whole:
            return None
        full = elementwise([aval.shape for aval in avals], result.shape)
        if rule.operands != full.operands or rule.results != full.results:
            return None
        types = tuple(row.loop(avals)[: len(avals)] if row.loop else [a.dtype for a in avals])
        numbers = iter(op.numbers)
        given = [next(numbers) if at in op.scalars else None for at in range(len(avals))]
        if not _is_here(step):
            return _launched(_Form(step, op, rule, seen, (), True))
        text = expression(row.name, [Atom("x")] * len(avals), types, result.dtype, given)
        calls = text is not None and "gs_" in str(text)  # a function of the prelude
        return _Form(step, op, rule, seen, (), text is not None, weight=_CALL if calls else 1)
    form = _reducing(step, op, rule, seen)
    return form if form is None or _is_here(step) else _launched(form)


def _is_here(step: Step) -> bool:
    """Whether a kernel is the host's."""
    return devices_of(step.results[0].tiling)[0].runtime.backend.host_readable


def _launched(form: _Form) -> _Form | None:
    """Return an operation as one of kernels of a GPU, if it can be in one."""
    step = form.step
    op = op_of(step, form.op, form.name, range(len(step.operands)))
    numbers = [(value.dtype, t) for (at, value), t in zip(op.operands, op.types, strict=False)
               if at is None]  # fmt: skip
    if form.op.row.loop and any(own != t for own, t in numbers):
        return None  # beyond the type: as infinite
    arrays = iter(step.arrays)
    types = [value.dtype if at is None else next(arrays).dtype for at, value in op.operands]
    fuses = devices_of(step.results[0].tiling)[0].runtime.backend.fuses
    form.serves, form.expressible = functools.partial(fuses, op, types), True
    return form if fuses(op, types, 0) else None


def _reducing(step: Step, op: RowOp, rule: Rule, seen: list[View]) -> _Form | None:
    """Return what a reduction is in a region; None if it can't be in one."""
    row, avals, result = op.row, op.avals(step.operands), step.results[0]
    if op.numbers or not isinstance(row.strategies[0], Reduce):
        return None
    types = [aval.dtype for aval in avals]
    if _is_here(step):
        known = {result.dtype, *types} <= TYPES.keys()
        if not known or all(rule.sizes[factor] == 1 for factor in rule.reduced):
            return None
    if not rule.reduced:
        return None
    if row.name in _PRODUCTS:
        settings = devices_of(result.tiling)[0].runtime.settings
        if _is_here(step) and not (settings.compiler and shutil.which(settings.compiler)):
            return None  # a library's is faster than tiles
        (a, b) = rule.operands if len(rule.operands) == 2 else ((), ())
        factors = set(rule.reduced)
        plain = len(set(a)) == len(a) and len(set(b)) == len(b) and None not in (*a, *b)
        whole = (
            not rule.whole and result.dtype.kind in "f" and all(t == result.dtype for t in types)
        )
        if not (plain and whole and factors <= set(a) and factors <= set(b)):
            return None
        short = sum(n <= SHORT for n in rule.sizes) >= len(rule.sizes) - 1
        if not short or math.prod(n for n in rule.sizes if n <= SHORT) > _MOST_SHORT:
            return None
        return _Form(step, op, rule, seen, rule.reduced, True, "product")
    if row.name not in REDUCTIONS or len(avals) != 1:
        return None
    x, axes = avals[0], op.params[0]
    dims = [len(x.shape) + axis if axis < 0 else axis for axis in axes]
    if rule != reduction(x.shape, dims, keepdims=op.params[1]):
        return None
    if REDUCTIONS[row.name].position and any(x.shape[dim] > SHORT for dim in dims):
        return None
    if row.name == "mean" and result.dtype.kind in "biu":  # a quotient that is cut off
        return None
    known = is_reduction(row.name, x.dtype, result.dtype)
    return _Form(step, op, rule, seen, tuple(dims), known, row.name)


def _joined(form: _Form, region: Region) -> bool:
    """Put an operation into a region if it belongs there."""
    if form.expressible != region.expressible:
        return False
    step, (result,) = form.step, form.step.results
    sizes = form.rule.sizes
    factors = [dims for n, dims in enumerate(form.rule.operands) if n not in form.op.scalars]
    loops: dict[int, int] = {}
    if not _inside(form, region, factors, loops):
        return False
    single = form.serves is not None and any(v.base in region.dims for v in form.views)
    if region.members and not loops and not single and not _alike(form, region, loops):
        return False
    more = [n for n in range(len(sizes)) if n not in loops and sizes[n] > 1]
    grown = [*region.sizes, *[sizes[n] for n in more]]
    names = {n: len(region.sizes) + at for at, n in enumerate(more)} | loops

    def named(dims: Sequence[int | None]) -> tuple[int | None, ...]:
        return tuple([None if n is None else names.get(n) for n in dims])

    own = [named(dims) for dims in factors]
    reduced = tuple([names[n] for n in form.reduced if n in names])
    unrolled = {*names.values()} if form.serves is None else {
        loop for own in (reduced, *[m.reduced for m in region.members]) for loop in own
    }  # fmt: skip
    if math.prod([grown[n] for n in unrolled if grown[n] <= SHORT]) > _MOST_SHORT:
        return False
    long = {loop for loop in reduced if grown[loop] > SHORT}
    read = [view.under(dims) for view, dims in zip(form.views, own, strict=True)]
    if not set(names.values()) <= {loop for dims in read for loop in dims}:
        return False  # nothing that is read says how long a broadcast dim is
    read += [v.under(x) for m in region.members for v, x in zip(m.views, m.own, strict=True)]
    level = max(region.level.get(view.base, 0) for view in form.views)
    far = False
    if form.serves is not None:
        others = [{loop for loop in m.reduced if grown[loop] > SHORT} for m in region.members]
        if long and not all(loops in (set(), long) for loops in others):
            return False  # the threads of a row go along the same loops for all
        far = region.far or (bool(long) and not form.serves(math.prod(grown[n] for n in long)))
        if far and level and not {*names.values()}.isdisjoint(region.inner | long):
            return False
        read = []  # in whatever order dims are
    ends = bool(long) and (
        _is_split(form)
        or (region.inner and long != region.inner)
        or not all(_is_last(dims, long, grown) for dims in read)
    )
    if ends and form.name not in ("sum", "product", "max", "min"):
        return False
    inner = region.inner | (long if not ends else frozenset())
    if inner and not all(_is_last(dims, inner, grown) for dims in read):
        return False
    spans = [{*m.dims, *m.reduced} for m in region.members]
    spans.append({*named(form.rule.results[0]), *reduced})
    over = [{loop for loop in span if loop is not None and grown[loop] > SHORT} for span in spans]
    lacking = set().union(*over) - set(over[0]).intersection(*over)
    if not lacking <= inner if inner else len(lacking) > 1:
        return False  # what lacks a loop would be done again and again
    if lacking and not all(_is_last(dims, lacking, grown) for dims in read):
        return False
    region.sizes, region.inner, region.far = grown, frozenset(inner), far
    for view, dims in zip(form.views, own, strict=True):
        if view.base not in region.dims:
            region.read.setdefault(view.base, view.under(dims))
    region.dims[result] = dims = named(form.rule.results[0])
    region.level[result] = level + bool(long and not ends)
    if ends:
        region.ended.add(result)
    region.members.append(
        Member(step, form.op, form.views, own, dims, reduced, form.name, bool(ends))
    )
    return True


def _is_last(
    dims: Sequence[int | None], loops: Collection[int | None], sizes: Sequence[int]
) -> bool:
    """Whether an array that has some loops has no others, but for short ones, behind them."""
    at = [n for n, dim in enumerate(dims) if dim in loops]
    rest = dims[at[0] :] if at else ()
    return all(dim is None or dim in loops or sizes[dim] <= SHORT for dim in rest)


def _is_split(form: _Form) -> bool:
    """Whether a long dim that is reduced has parts on several devices."""
    for x, dims in zip(form.step.arrays, form.rule.operands, strict=False):
        for dim, factor in enumerate(dims):
            if factor in form.reduced and x.shape[dim] > SHORT:
                tiling = x.tiling
                if (tiling.stops[dim] - tiling.starts[dim] != tiling.shape[dim]).any():
                    return True
    return False


def _inside(
    form: _Form, region: Region, factors: Sequence[Sequence[int | None]], loops: dict[int, int]
) -> bool:
    """Find the loops of factors from values that a region knows, unless they contradict it."""
    for view, own in zip(form.views, factors, strict=True):
        if view.base in region.ended:
            return False
        if view.base not in region.dims:
            continue
        if view.part:
            return False
        found = _matched(view.over(region.dims[view.base]), own, form, region, loops)
        if found is None:
            return False
        loops |= found
    for view, own in zip(form.views, factors, strict=True):
        if view.base in region.read and view.base not in region.dims:
            loops |= _matched(view.over(region.read[view.base]), own, form, region, loops) or {}
    return True


def _matched(
    dims: Sequence[int | None],
    factors: Sequence[int | None],
    form: _Form,
    region: Region,
    loops: dict[int, int],
) -> dict[int, int] | None:
    """Return the loops of factors that dims say; None if that contradicts what is known of them."""
    found = dict(loops)
    for factor, loop in zip(factors, dims, strict=True):
        if factor is None or loop is None:
            continue
        if region.sizes[loop] != form.rule.sizes[factor] or found.setdefault(factor, loop) != loop:
            return None
    return found if len(set(found.values())) == len(found) else None


def _alike(form: _Form, region: Region, loops: dict[int, int]) -> bool:
    """Whether an operation goes over just what a region does; then its loops are the same ones."""
    first = region.members[0]
    result, other = form.step.results[0], first.step.results[0]
    if form.reduced or first.reduced or form.step.moved or result.tiling is not other.tiling:
        return False
    for factor, dim in zip(form.rule.results[0], first.dims, strict=True):
        if factor is not None and dim is not None:
            loops[factor] = dim
    return True
