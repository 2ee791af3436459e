"""Choose regions: operations of a graph that become one kernel, so that data passes memory once.

An example: `y = exp(x + b); y / y.sum(1, keepdims=True)`. `x` has 512 x 1024 numbers and its rows
are split over 4 devices; `b` has 1024.

1. The addition fits no region and begins one with two loops, 0 of length 512 and 1 of length 1024.
   It reads `x` along loops 0 and 1, and `b` along loop 1.
2. `exp` reads the result of the addition, so its dims are these loops. It joins.
3. The sum reads `y`, and reduces loop 1, which is *inner* from now on: a kernel goes along it for
   each index of loop 0. Each device has whole rows, so the sum is known inside the kernel.
4. The division reads `y` and the sum, which varies along loop 0 only. It joins.

The kernel reads `x` and `b` and writes the quotient. `y` and the sums have no memory.

If columns were split, no device would know its sums before they are merged. The sum would then end
the region: it joins, but the division begins the next one.

Operations are put into groups that run one after the other. An operation may join a group if that
group or earlier ones compute all its operands, so that no group needs a later one. Views are no
operations: an operation that reads a view reads its base array, with other loops.

Values between the operations of a region have no memory. So a region is laid out as its results
are, whatever layouts the search chose for its operations. An operand in another layout is
moved if that moves no more bytes than the operations would have moved one by one.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from gpushard._geometry.tiling import Tiling
from gpushard._movement.sharding_devices import devices_of
from gpushard._ops.programs.local import Local
from gpushard._ops.programs.reduce import Reduce
from gpushard._ops.rule import Rule, elementwise, reduction
from gpushard._runtime.host.nests.expressions import TYPES, expression, is_reduction
from gpushard._runtime.kernel_tree import Atom
from gpushard._runtime.nests import REDUCTIONS, SHORT, runs_of, short_loops
from gpushard._transforms.fusion.layout import Member, laid_out, one, op_of, unrolled
from gpushard._transforms.fusion.views import RegionView, view_of
from gpushard._transforms.graph.graph import Graph, Operation, Var
from gpushard._transforms.graph.ops import RowOp

_MOST_SHORT = 1024
"""Most combinations of indices of short loops."""

_MOST_OPERATIONS = 64
"""Most operations of a region, where an operation that calls a function counts as `_CALL`.

Each operation that joins is compared with all others, and a compiler takes 5 to 90 ms for each. A
cut writes and reads a value once more, which is little next to so many operations.
"""

_CALL = 4
"""What an operation that calls a function in C, such as `exp`, counts as. Compilers inline about 20
calls in a loop. With more calls they go from element to element, which is 30 times slower."""

_MOST_ARRAYS = 48
"""Most arrays, or parts of arrays, that a region reads, plus values that no operation in it takes.
A kernel has a pointer for each. On a GPU it has one for each device, in 4,096 bytes for all."""

_MOST_TRIED = 32
"""Most regions that an operation tries for each operand: the last ones that read or compute it."""

_PRODUCTS = ("matmul", "dot", "einsum", "tensordot", "vecdot")


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
    weight: int = 0  # the number of operations, as `_MOST_OPERATIONS` counts them
    loads: set[tuple[Var, Any, Any]] = dataclasses.field(default_factory=set)  # parts it reads
    ends: set[Var] = dataclasses.field(default_factory=set)  # values that no member takes
    far: bool = False  # whether inner loops are too long for a GPU kernel to go along them twice
    long: frozenset[int] = frozenset()  # loops that are not short


def fuse_regions(graph: Graph) -> list[Operation]:
    """Return the needed operations of a graph in order, with each region as one operation."""
    groups: list[Region | Operation] = []
    group_of: dict[Var, int] = {}
    views: dict[Var, RegionView] = {}
    candidates = _Candidates()
    for step in graph.needed():
        view = view_of(step)
        if view is not None:
            views[step.results[0]] = views[view.base].then(view) if view.base in views else view
        form = None if view is not None else _form_of(step, views)
        needs = [views[x].base if x in views else x for x in step.arrays]
        after = max([group_of.get(x, -1) for x in needs], default=-1)
        place = None if form is None else candidates.join(form, max(after, 0))
        if place is None:
            place = len(groups)
            region = None if form is None else candidates.begin(form, place)
            groups.append(region or step)
        for x in step.results:
            group_of[x] = place
    return _sort_steps(_lay_out_groups(groups, views, graph), graph)


class _Candidates:
    """Regions that operations may still join.

    An operation may join a region that computes or reads one of its operands. It may also join one
    with a first result in the layout of its own. Regions are looked up by both.
    """

    def __init__(self) -> None:
        self._of: dict[Var | Tiling, dict[int, Region]] = {}

    def join(self, form: _Form, first: int) -> int | None:
        """Put an operation into a region, and return the number of that; None if it fits nowhere.

        Args:
          form: the operation.
          first: the number of the first group that it may join.
        """
        tried: dict[int, Region] = {}
        keys: list[Var | Tiling] = [view.base for view in form.views]
        for key in (*keys, form.step.results[0].tiling):
            tried |= self._of.get(key, {})
        for number in sorted(number for number in tried if number >= first):
            if _has_room(form, tried[number]) and _join(form, tried[number]):
                self._note(form, tried[number], number)
                return number
        return None

    def begin(self, form: _Form, number: int) -> Region | None:
        """Begin a region with an operation; None if the operation cannot be in one."""
        region = Region(form.expressible)
        if not _join(form, region):
            return None
        self._add(form.step.results[0].tiling, region, number)
        self._note(form, region, number)
        return region

    def _note(self, form: _Form, region: Region, number: int) -> None:
        region.weight, region.loads, region.ends = _extend(form, region)
        for key in (*(view.base for view in form.views), *form.step.results):
            self._add(key, region, number)

    def _add(self, key: Var | Tiling, region: Region, number: int) -> None:
        regions = self._of.setdefault(key, {})
        regions[number] = region
        if len(regions) > _MOST_TRIED:
            del regions[min(regions)]


def _extend(form: _Form, region: Region) -> tuple[int, set[tuple[Var, Any, Any]], set[Var]]:
    """Compute the weight, loads and ends that a region would have with one more operation."""
    loads = {(v.base, v.dims, v.starts) for v in form.views if v.base not in region.dims}
    ends = region.ends.union(form.step.results) - {view.base for view in form.views}
    return region.weight + form.weight, region.loads | loads, ends


def _has_room(form: _Form, region: Region) -> bool:
    """Whether a region stays within its bounds with one more operation."""
    weight, loads, ends = _extend(form, region)
    return weight <= _MOST_OPERATIONS and len(loads) + len(ends) <= _MOST_ARRAYS


def _lay_out_groups(
    groups: Sequence[Region | Operation], views: dict[Var, RegionView], graph: Graph
) -> list[Operation]:
    """Turn groups into operations of the graph: a region into one, if a layout fits all of it.

    Groups are taken from last to first, so that the values that later groups need are known.
    """
    used: set[Var] = set()  # the bases of views, instead of the views

    def use(values: Iterable[Var]) -> None:
        used.update(views[x].base if x in views else x for x in values)

    use(graph.results)
    laid: list[list[Operation]] = []
    for group in reversed(groups):
        steps = [group] if isinstance(group, Operation) else _region_steps(group, used)
        for step in steps:
            if views.keys().isdisjoint(step.results):
                use(step.arrays)
        laid.append(steps)
    return [step for steps in reversed(laid) for step in steps]


def _region_steps(region: Region, used: Collection[Var]) -> list[Operation]:
    """Turn a region into one operation; if that cannot be, return its operations.

    Args:
      region: the region.
      used: values that are needed outside of it.
    """
    steps = [member.step for member in region.members]
    results = [member for member in region.members if member.step.results[0] in used]
    if len(steps) < 2 or not results:
        return steps
    laid = laid_out(region.members, results, region.sizes, region.inner)
    kernel = None if laid is None else one(laid)
    return steps if kernel is None else [kernel]


def _sort_steps(steps: list[Operation], graph: Graph) -> list[Operation]:
    """Sort the needed operations, so that each comes after those that compute its operands."""
    wanted, ordered = set(graph.results), []
    maker = {x: step for step in steps for x in step.results}
    done: set[int] = set()
    needed: list[Operation] = [
        step for step in steps if step.op.has_effect or not wanted.isdisjoint(step.results)
    ]
    reached = {id(step) for step in needed}
    while needed:
        step = needed.pop()
        for x in step.arrays:
            producer = maker.get(x)
            if producer is not None and id(producer) not in reached:
                reached.add(id(producer))
                needed.append(producer)

    waiting = [step for step in reversed(steps) if id(step) in reached]
    while waiting:
        step = waiting[-1]
        makers = [maker[x] for x in step.arrays if x in maker]
        before = [x for x in makers if id(x) not in done]
        if id(step) in done or not before:
            waiting.pop()
            if id(step) not in done:
                done.add(id(step))
                ordered.append(step)
        waiting += reversed(before)
    return ordered


@dataclasses.dataclass(eq=False)
class _Form:
    """An operation as a candidate for regions."""

    step: Operation
    op: RowOp  # its kind and parameters
    rule: Rule  # of all operands, including numbers
    views: list[RegionView]  # its arrays, as views of their bases
    reduced: tuple[int, ...]  # factors that it reduces, in the order in which it counts positions
    expressible: bool  # whether it has an expression in C
    name: str = ""  # of the reduction
    # On GPUs: whether a kernel can reduce so many elements and then use the result.
    serves: Callable[[int], bool] | None = None
    weight: int = 1  # operations that it counts as


def _form_of(step: Operation, views: dict[Var, RegionView]) -> _Form | None:
    """Read an operation as a candidate; None if it cannot be in a region."""
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
    seen = [views.get(x) or RegionView.of(x) for x in arrays]
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
        values = [next(numbers) if at in op.scalars else None for at in range(len(avals))]
        if not _is_on_host(step):
            return _gpu_form(_Form(step, op, rule, seen, (), True))
        text = expression(row.name, [Atom("x")] * len(avals), types, result.dtype, values)
        calls = text is not None and "gs_" in str(text)  # a function of the prelude
        return _Form(step, op, rule, seen, (), text is not None, weight=_CALL if calls else 1)
    form = _reduction_form(step, op, rule, seen)
    return form if form is None or _is_on_host(step) else _gpu_form(form)


def _is_on_host(step: Operation) -> bool:
    """Whether kernels of an operation run on the host."""
    return devices_of(step.results[0].tiling)[0].runtime.backend.host_readable


def _gpu_form(form: _Form) -> _Form | None:
    """Complete a candidate for kernels of a GPU; None if it cannot be in one."""
    step = form.step
    op = op_of(step, form.op, form.name, range(len(step.operands)))
    numbers = [(value.dtype, t) for (at, value), t in zip(op.operands, op.types, strict=False)
               if at is None]  # fmt: skip
    if form.op.row.loop and any(dtype != t for dtype, t in numbers):
        return None  # a number beyond the type, which acts as an infinite one
    arrays = iter(step.arrays)
    types = [value.dtype if at is None else next(arrays).dtype for at, value in op.operands]
    fuses = devices_of(step.results[0].tiling)[0].runtime.backend.fuses
    form.serves, form.expressible = functools.partial(fuses, op, types), True
    return form if fuses(op, types, 0) else None


def _reduction_form(step: Operation, op: RowOp, rule: Rule, seen: list[RegionView]) -> _Form | None:
    """Read a reduction as a candidate; None if it cannot be in a region."""
    row, avals, result = op.row, op.avals(step.operands), step.results[0]
    if op.numbers or not isinstance(row.strategies[0], Reduce):
        return None
    types = [aval.dtype for aval in avals]
    if _is_on_host(step):
        known = {result.dtype, *types} <= TYPES.keys()
        if not known or all(rule.sizes[factor] == 1 for factor in rule.reduced):
            return None
    if not rule.reduced:
        return None
    if row.name in _PRODUCTS:
        settings = devices_of(result.tiling)[0].runtime.settings
        if _is_on_host(step) and not (settings.compiler and shutil.which(settings.compiler)):
            return None  # without a compiler, a library is faster
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
    if row.name == "mean" and result.dtype.kind in "biu":  # the quotient is rounded down
        return None
    known = is_reduction(row.name, x.dtype, result.dtype)
    return _Form(step, op, rule, seen, tuple(dims), known, row.name)


def _join(form: _Form, region: Region) -> bool:
    """Put an operation into a region if it fits; return whether it does.

    It fits if its dims are loops of the region, and if it adds no pass along a long loop to the
    kernel of the region.
    """
    if form.expressible != region.expressible:
        return False
    step, (result,) = form.step, form.step.results
    sizes = form.rule.sizes
    factors = [dims for n, dims in enumerate(form.rule.operands) if n not in form.op.scalars]
    loops: dict[int, int] = {}
    if not _match_operands(form, region, factors, loops):
        return False
    single = form.serves is not None and any(v.base in region.dims for v in form.views)
    if region.members and not loops and not single and not _has_same_loops(form, region, loops):
        return False
    more = [n for n in range(len(sizes)) if n not in loops and sizes[n] > 1]
    grown = [*region.sizes, *[sizes[n] for n in more]]
    names = {n: len(region.sizes) + at for at, n in enumerate(more)} | loops

    def as_loops(dims: Sequence[int | None]) -> tuple[int | None, ...]:
        return tuple([None if n is None else names.get(n) for n in dims])

    operand_loops = [as_loops(dims) for dims in factors]
    reduced = tuple([names[n] for n in form.reduced if n in names])
    read = [view.under(dims) for view, dims in zip(form.views, operand_loops, strict=True)]
    if not set(names.values()) <= {loop for dims in read for loop in dims}:
        return False  # a broadcast dim: no operand of the kernel has its length
    kept = as_loops(form.rule.results[0])
    member = Member(step, form.op, form.views, operand_loops, kept, reduced, form.name)
    runs = _runs(grown, [*region.members, member])
    short = short_loops(grown, runs)
    if any(short.intersection(m.reduced) & region.long for m in region.members):
        return False  # loops that earlier reductions go along as one would become several
    long = {loop for loop in reduced if loop not in short}
    read += [v.under(x) for m in region.members for v, x in zip(m.views, m.own, strict=True)]
    level = max(region.level.get(view.base, 0) for view in form.views)
    far = False
    if form.serves is not None:
        others = [{loop for loop in m.reduced if loop not in short} for m in region.members]
        if long and not all(loops in (set(), long) for loops in others):
            return False  # the threads of a row go along the same loops in all reductions
        far = region.far or (bool(long) and not form.serves(math.prod(grown[n] for n in long)))
        if far and level and not {*names.values()}.isdisjoint(region.inner | long):
            return False
        read = []  # GPU kernels take dims in any order
    ends = _is_split(form) or (
        bool(long)
        and (
            bool(region.inner and long != region.inner)
            or not all(_is_last(dims, long, short) for dims in read)
        )
    )
    if ends and form.name not in ("sum", "mean", "product", "max", "min"):
        return False
    members = [*region.members, dataclasses.replace(member, ends=ends)]
    within = {loop for m in members for loop in m.reduced if loop in short}
    if form.serves is None:
        within = {*unrolled(short, members, [*read, *[m.dims for m in members]])}
        within &= {*names.values()}
    if math.prod([grown[loop] for loop in within]) > _MOST_SHORT:
        return False
    inner = region.inner | (long if not ends else frozenset())
    if inner and not all(_is_last(dims, inner, short) for dims in read):
        return False
    spans = [{*m.dims, *m.reduced} - short - {None} for m in members]
    lacking = set().union(*spans) - set(spans[0]).intersection(*spans)
    apart = [run for run in runs if not lacking.isdisjoint(run)]
    if not lacking <= inner if inner else len(apart) > 1:
        return False  # operations without a loop would be repeated for each of its indices
    if lacking and not all(_is_last(dims, lacking, short) for dims in read):
        return False
    region.sizes, region.inner, region.far = grown, frozenset(inner), far
    region.long = frozenset(range(len(grown))) - short
    for view, dims in zip(form.views, operand_loops, strict=True):
        if view.base not in region.dims:
            region.read.setdefault(view.base, view.under(dims))
    region.dims[result] = kept
    region.level[result] = level + bool(long and not ends)
    if ends:
        region.ended.add(result)
    region.members.append(members[-1])
    return True


def _runs(sizes: Sequence[int], members: Sequence[Member]) -> list[list[int]]:
    """Group the loops of a region that may be one longer loop."""
    arrays, alike = [], list[Collection[int]]()
    for member in members:
        views = [view.under(own) for view, own in zip(member.views, member.own, strict=True)]
        arrays += [*views, member.dims]
        # Loops over a part of an array are not next to each other in its memory.
        alone = {dim for view, own in zip(member.views, views, strict=True) if view.part
                 for dim in own if dim is not None}  # fmt: skip
        if member.name in REDUCTIONS and REDUCTIONS[member.name].position:
            alone.update(member.reduced)
        alike += [member.reduced, *[{loop} for loop in alone]]
    return runs_of(range(len(sizes)), arrays, alike)


def _is_last(
    dims: Sequence[int | None], loops: Collection[int | None], short: Collection[int | None]
) -> bool:
    """Whether all dims of an array behind the first of some loops are of these loops, or short."""
    at = [n for n, dim in enumerate(dims) if dim in loops]
    rest = dims[at[0] :] if at else ()
    return all(dim is None or dim in loops or dim in short for dim in rest)


def _is_split(form: _Form) -> bool:
    """Whether an operation reduces a dim that is split over devices."""
    for x, dims in zip(form.step.arrays, form.rule.operands, strict=False):
        for dim, factor in enumerate(dims):
            if factor in form.reduced and x.shape[dim] > 1:
                tiling = x.tiling
                if (tiling.stops[dim] - tiling.starts[dim] != tiling.shape[dim]).any():
                    return True
    return False


def _match_operands(
    form: _Form, region: Region, factors: Sequence[Sequence[int | None]], loops: dict[int, int]
) -> bool:
    """Match factors of an operation to loops by its operands; False if they do not fit."""
    for view, dims in zip(form.views, factors, strict=True):
        if view.base in region.ended:
            return False
        if view.base not in region.dims:
            continue
        if view.part:
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
    form: _Form,
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


def _has_same_loops(form: _Form, region: Region, loops: dict[int, int]) -> bool:
    """Match all loops of an operation by its result, if it and the region reduce nothing."""
    first = region.members[0]
    result, other = form.step.results[0], first.step.results[0]
    if form.reduced or first.reduced or form.step.moved or result.tiling is not other.tiling:
        return False
    for factor, dim in zip(form.rule.results[0], first.dims, strict=True):
        if factor is not None and dim is not None:
            loops[factor] = dim
    return True
