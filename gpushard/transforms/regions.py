"""Regions: operations of a graph that become one kernel, so that data goes through memory once.

A region has a domain: a shape, and how it is laid out. Its operations are elementwise on the
domain, or reduce the last dims of it, which no device has a part of only, to length 1; so every
device does its block by itself, and a block tile by tile. What is not so ends a region.

Operations are put into groups that run one after the other. One may join a group if all that it
needs is made by that group or earlier ones: so no group ever needs a later one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import devices_of
from gpushard.ops.aval import Aval
from gpushard.ops.programs.calls import LocalCalls, Work, calls_of
from gpushard.ops.programs.local import Local
from gpushard.ops.row import Row
from gpushard.ops.rule import elementwise, reduction
from gpushard.ops.scalars import converter
from gpushard.transforms.c_kernels import c_kernel
from gpushard.transforms.graph import Graph, Step, Var
from gpushard.transforms.tiles import Part, straight_kernel, tile_kernel
from gpushard.typing import Shape

_LARGE = 1 << 14
"""Elements of a domain from which on a kernel is compiled. It is that of the whole array, so that
results do not depend on how it is split."""


@dataclasses.dataclass(eq=False)
class Region:
    """Operations that are to become one."""

    tiling: Tiling  # of the domain
    reduced: tuple[int, ...]  # its dims that some operation reduces: the last ones
    steps: list[Step] = dataclasses.field(default_factory=list)


def fused(graph: Graph) -> list[Step]:
    """Return the operations of a graph, regions of them as one each."""
    groups: list[Region | Step] = []
    group_of: dict[Any, int] = {}
    for step in graph.needed():
        after = max([group_of.get(x, -1) for x in step.operands if isinstance(x, Var)], default=-1)
        found = None
        domain = _domain(step)
        if domain is not None:
            for number in range(max(after, 0), len(groups)):
                group = groups[number]
                if isinstance(group, Region) and _joins(step, domain, group):
                    found = number
                    break
        if found is None:
            found = len(groups)
            groups.append(step if domain is None else Region(*domain))
        group = groups[found]
        if isinstance(group, Region) and domain is not None:
            group.steps.append(step)
            group.reduced = group.reduced or domain[1]
        for x in step.results:
            group_of[x] = found
    return [step for group in groups for step in _done(group, groups, graph)]


def _domain(step: Step) -> tuple[Tiling, tuple[int, ...]] | None:
    """Return the domain of an operation that may be in a region, and the dims that it reduces."""
    row = step.row
    if row is None or row.positional or row.creates or len(step.results) != 1 or not step.operands:
        return None
    if not all(isinstance(x, Var) for x in step.operands) or type(row.strategies[-1]) is not Local:
        return None
    (result,), arrays = step.results, [x for x in step.operands if isinstance(x, Var)]
    if not devices_of(result.tiling)[0].runtime.backend.host_readable:
        return None
    if result.sharding.memory_kind != "device":
        return None
    shapes = [x.shape for x in arrays]
    rule = row.rule_for(step.avals(), step.params)
    if len(row.strategies) == 1:
        if any(len(shape) > len(result.shape) for shape in shapes):
            return None
        full = elementwise([aval.shape for aval in step.avals()], result.shape)
        same = rule.operands == full.operands and rule.results == full.results
        if same and not rule.whole and all(_fits(x, result.tiling) for x in arrays):
            return result.tiling, ()
        return None
    (x,) = arrays if len(arrays) == 1 else (None,)
    if x is None or len(result.shape) != len(x.shape):
        return None
    dims = tuple(dim for dim, n in enumerate(x.shape) if rule.results[0][dim] is None)
    if rule != reduction(shapes[0], dims, keepdims=True) or not dims or 0 in x.shape:
        return None
    if dims != tuple(range(len(x.shape) - len(dims), len(x.shape))):
        return None
    return (x.tiling, dims) if _fits(result, x.tiling) and _whole(x.tiling, dims) else None


def _fits(x: Var, tiling: Tiling) -> bool:
    """Whether every device has of a value what its block of a domain needs, and no more."""
    own, lead = x.tiling, len(tiling.shape) - len(x.shape)
    if own is tiling:
        return True
    if own.devices != tiling.devices or lead < 0:
        return False
    for dim, n in enumerate(x.shape):
        if n == tiling.shape[lead + dim]:
            same = (own.starts[dim] == tiling.starts[lead + dim]).all()
            if not same or not (own.stops[dim] == tiling.stops[lead + dim]).all():
                return False
        elif n != 1:
            return False
    return True


def _whole(tiling: Tiling, dims: Sequence[int]) -> bool:
    """Whether every device has all of some dims."""
    return all(
        bool((tiling.stops[dim] - tiling.starts[dim] == tiling.shape[dim]).all()) for dim in dims
    )


def _joins(step: Step, domain: tuple[Tiling, tuple[int, ...]], region: Region) -> bool:
    """Whether an operation belongs into a region."""
    tiling, reduced = domain
    if reduced:
        return tiling is region.tiling and region.reduced in ((), reduced)
    (result,) = step.results
    if tiling is region.tiling:
        return True
    # What has length 1 along the reduced dims.
    return bool(region.reduced) and (
        result.shape == _reduced_shape(region)
        and _fits(result, region.tiling)
        and all(len(x.shape) <= len(result.shape) for x in step.operands if isinstance(x, Var))
    )


def _reduced_shape(region: Region) -> Shape:
    return tuple(1 if dim in region.reduced else n for dim, n in enumerate(region.tiling.shape))


def _done(group: Region | Step, groups: Sequence[Any], graph: Graph) -> list[Step]:
    """Return what a group becomes: one operation, if its kernel serves the whole domain."""
    if isinstance(group, Step):
        return [group]
    made = {x for step in group.steps for x in step.results}
    outside = list(
        dict.fromkeys(
            x for step in group.steps for x in step.operands if isinstance(x, Var) and x not in made
        )
    )
    shapes = [x.shape for x in outside]
    if len(group.steps) == 1 or np.broadcast_shapes(*shapes) != group.tiling.shape:
        return group.steps
    used = set(graph.results)
    for other in groups:
        if other is not group:
            for step in other.steps if isinstance(other, Region) else [other]:
                used.update(x for x in step.operands if isinstance(x, Var))
    results = [x for step in group.steps for x in step.results if x in used]
    return [_one(group, outside, results)]


def _one(region: Region, operands: list[Var], results: list[Var]) -> Step:
    """Return a region as one operation."""
    places: dict[Var, int] = {x: n for n, x in enumerate(operands)}
    parts = []
    for step in region.steps:
        row, avals = step.row, step.avals()
        assert row is not None
        found = row.infer(avals, step.params)
        inside = avals if row.loop is None else [
            Aval((), t) if at in step.scalars else aval
            for at, (aval, t) in enumerate(zip(avals, row.loop(avals), strict=False))
        ]  # fmt: skip
        kernel = row.kernel(np, inside, step.params)
        given: list[Any] = []
        arrays, numbers = iter(step.operands), iter(step.numbers)
        for at in range(len(avals)):
            if at in step.scalars:
                given.append((None, converter(row, found, avals, at)(next(numbers))))
            else:
                given.append((places[next(arrays)], None))  # type: ignore[index]
        (result,) = step.results
        places[result] = len(places)
        lead = len(region.tiling.shape) - len(result.shape)
        small = bool(region.reduced) and (lead > 0 or result.shape != region.tiling.shape)
        reduces = len(row.strategies) > 1
        types = tuple(row.loop(avals)[: len(avals)] if row.loop else [a.dtype for a in inside])
        parts.append(
            Part(
                kernel, tuple(given), places[result], result.dtype, small,
                row.name, step.params, types, reduces,
            )
        )  # fmt: skip
    name = "fused " + " ".join(step.name for step in region.steps)
    runtime, ends = devices_of(region.tiling)[0].runtime, [places[x] for x in results]
    ndim, reduced = len(region.tiling.shape), len(region.reduced)
    kernel = tile_kernel(parts, len(operands), ends, ndim, reduced)
    if not reduced:
        blocks = [x.tiling.shard_shapes for x in operands]
        kernel = straight_kernel(parts, blocks, ends) or kernel
    if math.prod(region.tiling.shape) >= _LARGE:
        taken = [(x.shape, x.dtype) for x in operands]
        compiler = runtime.settings.compiler
        shape = region.tiling.shape
        kernel = c_kernel(compiler, parts, taken, ends, shape, reduced) or kernel
    read = [(x.tiling, x.dtype.itemsize) for x in operands]
    tilings = [x.tiling for x in results]
    calls, of_device = calls_of(_REGION, read, tilings)
    work = Work(runtime, name, kernel, calls, of_device, tilings, [x.dtype for x in results])
    run = LocalCalls(work, steps=len(parts)).run
    scope = " ".join(dict.fromkeys(step.scope for step in region.steps if step.scope))
    return Step(name, lambda given, _: run(given), tuple(operands), tuple(results), scope=scope)


_REGION = Row("fused", lambda avals, params: (), "", lambda xp, avals, params: len, (Local(),))
"""What stands for regions where blocks are listed."""
