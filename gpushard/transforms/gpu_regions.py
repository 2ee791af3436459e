"""Regions on GPUs: operations that become one kernel, one launch for all devices of a GPU.

A region has a domain: a shape, and how it is laid out. Its operations are elementwise on the
domain, or reduce the last dims of it, which no device has a part of only, to length 1; so every
device does its block by itself, row by row. What is not so ends a region.

Operations are put into groups that run one after the other. One may join a group if all that it
needs is made by that group or earlier ones: so no group ever needs a later one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import devices_of
from gpushard.ops.programs.local import Local
from gpushard.ops.rule import elementwise, reduction
from gpushard.transforms.cuda_kernels import launched_region, launches
from gpushard.transforms.graph import Graph, Step, Var
from gpushard.typing import Shape


@dataclasses.dataclass(eq=False)
class Region:
    """Operations that are to become one."""

    tiling: Tiling  # of the domain
    reduced: tuple[int, ...]  # its dims that some operation reduces: the last ones
    steps: list[Step] = dataclasses.field(default_factory=list)


def launched(graph: Graph) -> list[Step]:
    """Return the operations of a graph on GPUs, regions of them as one each."""
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
            return (result.tiling, ()) if _has_kernel(step, ()) else None
        return None
    (x,) = arrays if len(arrays) == 1 else (None,)
    if x is None or len(result.shape) != len(x.shape):
        return None
    dims = tuple(dim for dim, n in enumerate(x.shape) if rule.results[0][dim] is None)
    if rule != reduction(shapes[0], dims, keepdims=True) or not dims or 0 in x.shape:
        return None
    if dims != tuple(range(len(x.shape) - len(dims), len(x.shape))):
        return None
    inside = _fits(result, x.tiling) and _whole(x.tiling, dims)
    return (x.tiling, dims) if inside and _has_kernel(step, dims) else None


def _has_kernel(step: Step, reduced: Sequence[int]) -> bool:
    """Whether the backend can do an operation in a kernel with others."""
    return launches(step, devices_of(step.results[0].tiling)[0].runtime, reduced)


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
    one = launched_region(group.tiling, len(group.reduced), group.steps, outside, results)
    return group.steps if one is None else [one]
