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

What is cheap to compute again is not written for other regions: see `recompute`.

Values between the operations of a region have no memory. So a region is laid out as its results
are, whatever layouts the search chose for its operations. An operand in another layout is
moved if that moves no more bytes than the operations would have moved one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from gpushard._geometry.tiling import Tiling
from gpushard._transforms.fusion.forms import Form, form_of
from gpushard._transforms.fusion.layout import laid_out, one
from gpushard._transforms.fusion.recompute import recompute
from gpushard._transforms.fusion.region import Region
from gpushard._transforms.fusion.views import RegionView, view_of
from gpushard._transforms.graph.graph import Graph, Operation, Var

_MOST_TRIED = 32
"""Most regions that an operation tries for each operand: the last ones that read or compute it."""


def fuse_regions(graph: Graph) -> list[Operation]:
    """Return the needed operations of a graph in order, with each region as one operation."""
    groups, views = _put_into_groups(graph, arrays := set[Var]())
    while more := _moved_again(groups, views, graph):
        groups, views = _put_into_groups(graph, arrays := arrays | more)
    recompute(groups, views, graph)
    return _sort_steps(_lay_out_groups(groups, views, graph), graph)


def _put_into_groups(
    graph: Graph, arrays: set[Var]
) -> tuple[list[Region | Operation], dict[Var, RegionView]]:
    """Put the needed operations of a graph into groups; return these, and the views.

    Args:
      graph: the graph.
      arrays: results of operations that are no views.
    """
    groups: list[Region | Operation] = []
    group_of: dict[Var, int] = {}
    views: dict[Var, RegionView] = {}
    candidates = _Candidates()
    for step in graph.needed():
        view = None if not arrays.isdisjoint(step.results) else view_of(step)
        if view is not None and view.base in views:
            view = views[view.base].then(view)
        if view is not None:
            views[step.results[0]] = view
        form = None if view is not None else form_of(step, views)
        needs = [views[x].base if x in views else x for x in step.arrays]
        after = max([group_of.get(x, -1) for x in needs], default=-1)
        place = None if form is None else candidates.join(form, max(after, 0))
        if place is None:
            place = len(groups)
            region = None if form is None else candidates.begin(form, place)
            groups.append(region or step)
        for x in step.results:
            group_of[x] = place
    return groups, views


def _moved_again(
    groups: Sequence[Region | Operation], views: dict[Var, RegionView], graph: Graph
) -> set[Var]:
    """Find views for which bytes move, and would move again: several groups read them.

    They are better arrays, which receive the bytes once.
    """
    if not any(view.moved for view in views.values()):
        return set()
    # Of each value the regions that read it, and -1 if anything needs it as an array.
    readers: dict[Var, set[int]] = {x: {-1} for x in graph.results}
    for number, group in enumerate(groups):
        if isinstance(group, Region):
            read = [(x, number) for member in group.members for x in member.step.arrays]
        else:
            read = [(x, -1) for x in group.arrays if views.keys().isdisjoint(group.results)]
        for x, reader in read:
            readers.setdefault(x, set()).add(reader)
    again = set()
    for step in reversed(graph.needed()):
        for x in [x for x in step.results if x in views]:
            (base,), of = step.arrays, readers.get(x, set())
            before = views[base].moved if base in views else 0
            if len(of) > 1 and views[x].moved > before:
                again.add(x)
            else:
                readers.setdefault(base, set()).update(of)
    return again


class _Candidates:
    """Regions that operations may still join.

    An operation may join a region that computes or reads one of its operands. It may also join one
    with a first result in the layout of its own. Regions are looked up by both.
    """

    def __init__(self) -> None:
        self._of: dict[Var | Tiling, dict[int, Region]] = {}

    def join(self, form: Form, first: int) -> int | None:
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
            if tried[number].join(form):
                self._note(form, tried[number], number)
                return number
        return None

    def begin(self, form: Form, number: int) -> Region | None:
        """Begin a region with an operation; None if the operation cannot be in one."""
        region = Region(form.expressible)
        if not region.join(form):
            return None
        self._add(form.step.results[0].tiling, region, number)
        self._note(form, region, number)
        return region

    def _note(self, form: Form, region: Region, number: int) -> None:
        for key in (*(view.base for view in form.views), *form.step.results):
            self._add(key, region, number)

    def _add(self, key: Var | Tiling, region: Region, number: int) -> None:
        regions = self._of.setdefault(key, {})
        regions[number] = region
        if len(regions) > _MOST_TRIED:
            del regions[min(regions)]


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
    wanted = {x for step in steps for x in step.results if step not in region.again and x in used}
    members, sizes, inner = region.without_others(wanted)
    results = [member for member in members if member.step.results[0] in wanted]
    around = any(view.periodic for member in members for view in member.views)
    alone = [form for form in region.forms if len(members) == 1 and form.step is members[0].step]
    if results and (len(members) > 1 or around or alone[0].pays_alone):
        laid = laid_out(members, results, sizes, inner)
        kernel = None if laid is None else one(laid)
        if kernel is not None:
            return [kernel]
    if region.plain is not None:
        return _region_steps(region.plain, used)
    return steps


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
