"""Lay out a region, and make it one operation of a graph.

The results of a region keep the layouts that they have in the graph. The boxes of their dims are
the boxes of the loops, and these say which part of each operand a device reads. For
`(x[1:] - x[:-1]) * 2` with `x` of 9 numbers, split over 2 devices:

    results           0..4 on device 0, 4..8 on device 1        the boxes of the only loop
    reads of x[1:]    1..5              5..9                    loop + 1
    reads of x[:-1]   0..4              4..8                    loop
    boxes of x        0..5              4..9                    all reads of a device in one block

`x` itself is split 0..5 and 5..9, so device 1 receives one number. A region is not made if more
bytes would move than by its operations one by one.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gpushard._geometry.free_boxes import tiling_of_boxes
from gpushard._geometry.tiling import Tiling
from gpushard._movement.sharding_devices import devices_of
from gpushard._ops.aval import Aval
from gpushard._ops.programs.bring import Bring, Extend
from gpushard._ops.programs.calls import CallPlan, LocalCalls, calls_of
from gpushard._ops.programs.launched import launched_nest
from gpushard._ops.programs.local import Compute, Local
from gpushard._ops.programs.reduce import Merge
from gpushard._ops.row import Row
from gpushard._ops.rule import elementwise
from gpushard._ops.scalars import converter
from gpushard._ops.steps import Draft, Steps
from gpushard._runtime.nests import LARGE, MOST_SHORT, Load, Nest, Op, Result, short_loops
from gpushard._transforms.fusion.halos import halos, in_parts
from gpushard._transforms.fusion.views import RegionView
from gpushard._transforms.graph.graph import Operation, Var
from gpushard._transforms.graph.layouts import program_for
from gpushard._transforms.graph.ops import Region, RowOp
from gpushard._typing import IntArray, Shape


@dataclasses.dataclass(frozen=True, eq=False)
class Member:
    """An operation of a region."""

    step: Operation
    op: RowOp  # what it does
    views: Sequence[RegionView]  # its arrays
    operand_loops: Sequence[tuple[int | None, ...]]  # for each array the loops of its dims
    dims: tuple[int | None, ...]  # the loops of the dims of its result
    reduced: tuple[int, ...] = ()  # loops that it reduces
    name: str = ""  # name of its reduction; "" if it is elementwise
    ends: bool = False  # whether its result is known only when all loops have ended

    @functools.cached_property
    def base_loops(self) -> list[tuple[int | None, ...]]:
        """For each array the loops of the dims of its base."""
        return [
            view.under(loops) for view, loops in zip(self.views, self.operand_loops, strict=True)
        ]


@dataclasses.dataclass(frozen=True, eq=False)
class RegionLayout:
    """A region with its loops, and the boxes of its operands and results."""

    members: Sequence[Member]
    sizes: tuple[int, ...]  # of the loops
    inner: frozenset[int]
    operands: list[Var]  # the arrays that the kernel reads
    loads: tuple[Load, ...]
    places: dict[tuple[int, int], int]  # the load of each operand of each member, if it is one
    tilings: list[Tiling]  # boxes of the operands that the kernel reads
    before: list[Shape]  # for each operand how many elements of these are ahead of its first ones
    results: Sequence[Member]
    merges: list[Merge | None]  # for each result what merges the parts of devices

    @property
    def natural(self) -> list[Tiling]:
        """Boxes of the results that the kernel writes, before parts are merged."""
        return [
            member.step.results[0].tiling if merge is None else merge.natural
            for member, merge in zip(self.results, self.merges, strict=True)
        ]


Boxes = tuple[IntArray, IntArray]

_Read = tuple[Var, tuple[int | None, ...], Shape, frozenset[int]]
"""An array, the loops that its dims run along, the first element of each dim that is read, and the
dims that are periodic."""


def merge_of(member: Member) -> Merge | None:
    """Find what merges the parts of a reduction; None if there is nothing to merge, or more."""
    steps = program_for(member.op, member.step.operands).steps if member.ends else ()
    last = steps[-1].work if len(steps) == 2 else None  # what gives the parts, and what merges them
    return last if isinstance(last, Merge) else None


def laid_out(
    members: Sequence[Member],
    results: Sequence[Member],
    sizes: Sequence[int],
    inner: frozenset[int],
) -> RegionLayout | None:
    """Lay out a region as its results lie; None if they disagree, or more bytes would move."""
    boxes: dict[int, Boxes] = {}
    merges = [merge_of(member) for member in results]
    devices = results[0].step.results[0].tiling.devices
    count = len(devices)
    zero = np.zeros(count, np.int64)

    def put(dims: Sequence[int | None], tiling: Tiling) -> bool:
        for dim, loop in enumerate(dims):
            box = tiling.starts[dim], tiling.stops[dim]
            own = (zero, zero + 1) if loop is None else boxes.setdefault(loop, box)
            if not all(np.array_equal(a, b) for a, b in zip(own, box, strict=True)):
                return False  # or a dim of length 1 that some device has nothing of
        return tiling.devices == devices

    def whole(loop: int) -> bool:
        box = zero, zero + sizes[loop]
        own = boxes.setdefault(loop, box)
        return all(np.array_equal(a, b) for a, b in zip(own, box, strict=True))

    for member, merge in zip(results, merges, strict=True):
        if merge is None:
            if not put(member.dims, member.step.results[0].tiling):
                return None
        else:
            if len(merge.dtypes) != 1 or merge.dtypes[0] != member.step.results[0].dtype:
                return None
            for x, dims in zip(member.step.arrays, member.operand_loops, strict=True):
                if not put(dims, x.tiling):
                    return None
    for member in members:
        reduced = member.reduced if merge_of(member) is None else ()
        if not all(whole(loop) for loop in reduced) or (member.ends and member not in results):
            return None
    for loop, size in enumerate(sizes):
        boxes.setdefault(loop, (zero, zero + size))
    empty = {loop: begin >= end for loop, (begin, end) in boxes.items()}
    nowhere = zero > 0
    for member in results:  # where a loop has no elements, nothing is done in the others
        own = [empty[loop] for loop in (*member.dims, *member.reduced) if loop is not None]
        if not np.array_equal(np.any([nowhere, *own], 0), np.any([nowhere, *empty.values()], 0)):
            return None
    return _read(members, results, merges, tuple(sizes), inner, boxes)


def _read(
    members: Sequence[Member],
    results: Sequence[Member],
    merges: list[Merge | None],
    sizes: tuple[int, ...],
    inner: frozenset[int],
    boxes: dict[int, Boxes],
) -> RegionLayout | None:
    """Find the reads of a region, and the boxes of its operands."""
    inside = {member.step.results[0] for member in members}
    places: dict[tuple[int, int], _Read] = {}
    for number, member in enumerate(members):
        for at, (view, loops) in enumerate(zip(member.views, member.base_loops, strict=True)):
            if view.base not in inside:
                places[number, at] = view.base, loops, view.starts, view.periodic
    reads = list(dict.fromkeys(places.values()))
    result = results[0].step.results[0].tiling
    if any(x.tiling.devices != result.devices for x, *_ in reads):
        return None
    groups = _grouped(reads, boxes)
    operands = [group[0][0] for group in groups]
    cuts, received = [], 0
    load_of: dict[_Read, Load] = {}
    for number, (x, group) in enumerate(zip(operands, groups, strict=True)):
        cut = _cut(x, group, boxes)
        for read, starts in zip(group, cut.starts, strict=True):
            periodic = [dim for dim in read[3] & cut.whole if starts[dim] > cut.more[dim]]
            load_of[read] = Load(number, x.dtype, read[1], starts, cut.more, frozenset(periodic))
        if cut.tiling is not x.tiling:
            received += _bring(x, cut.tiling, cut.before, "fused").bytes_received
        cuts.append(cut)
    views = {id(v): v.moved for m in members for v in m.views}
    if received > sum(member.step.moved for member in members) + sum(views.values()):
        return None
    loads = tuple([load_of[read] for read in reads])
    numbers = {at: reads.index(read) for at, read in places.items()}
    tilings, before = [cut.tiling for cut in cuts], [cut.before for cut in cuts]
    return RegionLayout(
        members, sizes, inner, operands, loads, numbers, tilings, before, results, merges
    )


def _bring(x: Var, to: Tiling, before: Shape, name: str) -> Bring | Extend:
    """Return the step that copies an operand to other boxes, perhaps beyond its ends."""
    runtime, itemsize = devices_of(to)[0].runtime, x.dtype.itemsize
    if to.shape == x.shape:
        return Bring(runtime, x.tiling, to, itemsize, name)
    return Extend(runtime, x.tiling, to, before, itemsize, name)


def _grouped(reads: Sequence[_Read], boxes: dict[int, Boxes]) -> list[list[_Read]]:
    """Group the reads of each array: those of a group are cut out of the array as one block.

    Reads along the same loops share a block, as those of a stencil do, unless it has more elements
    than a block for each: `x[:9] + x[-9:]` needs nothing of what lies between.
    """
    alike: dict[Any, list[_Read]] = {}
    for read in reads:
        alike.setdefault(read[:2], []).append(read)
    groups: list[list[_Read]] = []
    for (x, _), own in alike.items():
        cut = _cut(x, own, boxes).tiling
        apart = sum(int(_cut(x, [read], boxes).tiling.volumes.sum()) for read in own)
        shared = cut is x.tiling or int(cut.volumes.sum()) <= apart
        groups += [own] if shared else [[read] for read in own]
    return groups


@dataclasses.dataclass(frozen=True, eq=False)
class _Cut:
    """The boxes of an operand that hold all reads of a group."""

    tiling: Tiling
    before: Shape  # for each dim how many elements it has ahead of the operand's first one
    starts: list[Shape]  # for each read its first elements, from the start of a box
    more: Shape  # how many elements each dim has beyond the loop's
    whole: frozenset[int]  # periodic dims that all boxes have whole: kernels go around them


def _cut(x: Var, reads: Sequence[_Read], boxes: dict[int, Boxes]) -> _Cut:
    """Cut out of an operand what reads along the same loops need of it.

    A read of a periodic dim may go beyond one of its ends. If devices have only a part of the dim,
    boxes go beyond that end, too: they are boxes of an array that has further elements there.
    """
    begins = np.array([begin for _, _, begin, _ in reads])
    zero = np.zeros(len(x.tiling.devices), np.int64)
    starts, stops, shape = [], [], list(x.shape)
    low, high, before = [0] * len(shape), [0] * len(shape), [0] * len(shape)
    around = set[int]()
    for dim, n in enumerate(x.shape):
        loop = reads[0][1][dim]
        a, b = boxes[loop] if loop is not None else (zero, zero + 1)
        whole = bool((x.tiling.stops[dim] - x.tiling.starts[dim] == n).all())
        periodic = [at for at, read in enumerate(reads) if dim in read[3] and loop is not None]
        length = int(b.max())
        if periodic and whole and not a.any() and (b == length).all():
            around.add(dim)
            starts.append(zero)
            stops.append(zero + n)
            high[dim] = n - length
            continue
        for at in periodic:
            if begins[at, dim] + length - n > n - begins[at, dim]:
                begins[at, dim] -= n  # beyond the first element it has fewer than beyond the last
        low[dim], high[dim] = int(begins[:, dim].min()), int(begins[:, dim].max())
        first, last = a + low[dim], b + high[dim]
        ahead, behind = int(first.min()), n - int(last.max())
        alike = (first == ahead).all() and (n - last == behind).all()
        if whole and alike and min(ahead, behind) >= 0:
            # Blocks have all of it: they are read where they lie, and nothing is cut off.
            first, last = first - ahead, last + behind
            low[dim] -= ahead
            high[dim] += behind
        before[dim] = max(0, -ahead)
        shape[dim] += before[dim] + max(0, -behind)
        starts.append(first + before[dim])
        stops.append(last + before[dim])
    cut = x.tiling
    same = tuple(shape) == x.shape and np.array_equal(cut.starts, starts)
    if shape and not (same and np.array_equal(cut.stops, stops)):
        cut = tiling_of_boxes(tuple(shape), cut.devices, np.array(starts), np.array(stops))
    return _Cut(
        cut,
        tuple(before),
        [tuple((begin - low).tolist()) for begin in begins],
        tuple([most - least for least, most in zip(low, high, strict=True)]),
        frozenset(around),
    )


def op_of(
    step: Operation, op: RowOp, name: str, arrays: Sequence[int | None],
    dims: Sequence[int | None] = (), reduced: tuple[int, ...] = (),
) -> Op:  # fmt: skip
    """Write an operation of a graph as one of a loop nest.

    Args:
      step: the operation of the graph.
      op: what it does.
      name: name of its reduction; "" if it is elementwise.
      arrays: places of its arrays in the nest.
      dims: loops of the dims of its result.
      reduced: loops that it reduces.
    """
    row, avals, (result,) = op.row, op.avals(step.operands), step.results
    results = row.infer(avals, op.params)
    inside = avals if row.loop is None or name else [
        Aval((), t) if at in op.scalars else aval
        for at, (aval, t) in enumerate(zip(avals, row.loop(avals), strict=False))
    ]  # fmt: skip
    numbers, places = iter(op.numbers), iter(arrays)
    operands: list[Any] = [
        (None, converter(row, results, avals, at)(next(numbers)))
        if at in op.scalars else (next(places), None)
        for at in range(len(avals))
    ]  # fmt: skip
    types = row.loop(avals)[: len(avals)] if row.loop and not name else [a.dtype for a in inside]
    plain = row
    while plain.within is not None:  # in a nest, loops stand for the named dims in front
        plain = plain.within
    backend = devices_of(result.tiling)[0].runtime.backend
    kernel = None if name else plain.kernel(backend.namespace, inside, op.params)
    loops = frozenset(loop for loop in dims if loop is not None)
    return Op(
        name or row.name, tuple(operands), result.dtype, loops, tuple(types), kernel, reduced
    )  # fmt: skip


def nest_of(laid: RegionLayout) -> Nest:
    """Write a region as a loop nest."""
    places: dict[Var, int] = {}
    first = len(laid.loads)
    ops: list[Op] = []
    merged = [member for member, merge in zip(laid.results, laid.merges, strict=True) if merge]
    for number, member in enumerate(laid.members):
        bases = [view.base for view in member.views]
        arrays = [
            places[base] if base in places else laid.places[number, at]
            for at, base in enumerate(bases)
        ]
        places[member.step.results[0]] = first + len(ops)
        name = "sum" if member.name == "mean" and member in merged else member.name
        ops.append(op_of(member.step, member.op, name, arrays, member.dims, member.reduced))
    ends = tuple(Result(places[m.step.results[0]], m.dims) for m in laid.results)
    boxes = [(load.dims, laid.tilings[load.operand]) for load in laid.loads]
    boxes += [(m.dims, tiling) for m, tiling in zip(laid.results, laid.natural, strict=True)]
    nest = Nest(
        laid.sizes, len(laid.operands), laid.loads, tuple(ops), ends, frozenset(), laid.inner
    )
    short = unrolled(
        short_loops(laid.sizes, nest.runs()), laid.sizes, laid.members, [dims for dims, _ in boxes]
    )
    return dataclasses.replace(
        nest, short=short, inner=laid.inner - short, split=_split(laid, boxes, short)
    )


def unrolled(
    short: Iterable[int],
    sizes: Sequence[int],
    members: Sequence[Member],
    arrays: Sequence[Sequence[int | None]],
) -> frozenset[int]:
    """Choose the short loops that kernels may unroll.

    A loop is unrolled if an operation of the region reduces it and another needs the result. It is
    also unrolled if no array has a long loop after it, unless that is too much to unroll.

    Args:
      short: the short loops.
      sizes: the lengths of all loops.
      members: the operations.
      arrays: for each array the loops of its dims.
    """
    few = {None, *short}
    reduced = {loop for member in members if not member.ends for loop in member.reduced}
    outer = {
        loop for dims in arrays for at, loop in enumerate(dims)
        if any(x not in few for x in dims[at:])
    }  # fmt: skip
    chosen = frozenset([loop for loop in short if loop in reduced or loop not in outer])
    return chosen if math.prod([sizes[loop] for loop in chosen]) <= MOST_SHORT else chosen & reduced


def _split(
    laid: RegionLayout,
    boxes: Sequence[tuple[tuple[int | None, ...], Tiling]],
    loops: frozenset[int],
) -> frozenset[int]:
    """Find the loops whose elements are split over devices."""
    return frozenset([
        loop for dims, tiling in boxes for dim, loop in enumerate(dims)
        if loop in loops and (tiling.stops[dim] - tiling.starts[dim] < laid.sizes[loop]).any()
    ])  # fmt: skip


def one(laid: RegionLayout) -> Operation | None:
    """Make a region one operation of the graph; return None if there is no kernel for it."""
    nest = nest_of(laid)
    results = [member.step.results[0] for member in laid.results]
    runtime = devices_of(results[0].tiling)[0].runtime
    tilings = laid.natural
    name = "fused " + " ".join(member.step.name for member in laid.members)
    kernel = runtime.backend.compile(nest, [tiling.shard_shapes for tiling in laid.tilings])
    if kernel is None:
        return None
    split = None
    if not kernel.launched and nest.large >= LARGE:
        split = halos(nest, laid.operands, laid.tilings, laid.before, tilings)
    read = laid.tilings if split is None else split.tilings
    sources = [*range(len(laid.operands)), *(split.sources if split else [])]
    sizes = [laid.operands[n].dtype.itemsize for n in sources]
    calls, of_device = calls_of(_REGION, list(zip(read, sizes, strict=True)), tilings)
    through = nest.large * max(x.dtype.itemsize for x in results) // max(len(calls), 1)
    calls = [
        dataclasses.replace(
            call,
            reads=max(call.reads, through),  # small operands may meet in many pairs
            site=() if split is None else (split.parts[call.home],),
        )
        for call in calls
    ]
    function = kernel.function if split is None else in_parts(kernel.function, len(laid.operands))
    plan = CallPlan(runtime, name, function, calls, of_device, tilings, [x.dtype for x in results])
    if kernel.launched:
        launched = launched_nest(plan, nest, kernel, laid.tilings)
        if launched is None:
            return None
        local: LocalCalls = launched
    else:
        local = LocalCalls(plan, steps=kernel.steps)
    draft, moved = Draft(len(laid.operands)), 0
    values: list[int] = []
    for at, (n, tiling) in enumerate(zip(sources, read, strict=True)):
        x = laid.operands[n]
        if tiling is x.tiling and at == n:
            values.append(n)
            continue
        step = _bring(x, tiling, laid.before[n], name)
        values += draft.add(step, [n])
        moved += step.bytes_received
    numbers = list(enumerate(kernel.numbers, len(laid.operands)))
    parts = {
        n: [of_device[call.home] for call in merge.calls]
        for n, merge in enumerate(laid.merges)
        if merge
    }
    ends = draft.add(Compute(local, lambda _: numbers, parts, len(results)), values)
    for n, merge in enumerate(laid.merges):
        if merge:
            (ends[n],) = draft.add(merge, [ends[n]])
    region = Region(name, Steps(draft, ends), members=tuple(m.step for m in laid.members))
    scope = " ".join(dict.fromkeys(m.step.scope for m in laid.members if m.step.scope))
    return Operation(region, tuple(laid.operands), tuple(results), moved, scope)


_REGION = Row(
    "fused",
    lambda avals, params: (),
    lambda avals, params: elementwise([], ()),
    lambda xp, avals, params: len,
    (Local(),),
)
"""What stands for regions where blocks are listed."""
