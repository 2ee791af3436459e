"""Putting one array together from several others, or from one whose dims are cut into factors.

Arrays that follow one another and are split alike across that dim are one array: blocks of a tiling
need not be equally long. Then one plan of a reshard moves them all, in time that grows with the
number of copies.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.cache import BoundedCache
from gpushard.errors import ShardingError
from gpushard.geometry.tiling import Assignment, Tiling
from gpushard.movement.buffer import ShardedBuffer, devices_of
from gpushard.movement.execute import is_out_of_reach, run, through_host, within_reach
from gpushard.movement.plan import Plan
from gpushard.movement.planning.maps import Rearrangement
from gpushard.movement.planning.rearrange import make_rearrange
from gpushard.movement.reshard import move


def rearrange(
    sources: Sequence[ShardedBuffer],
    how: Rearrangement,
    destination: Tiling,
    name: str = "rearrange",
    fill: Any = 0,
) -> ShardedBuffer:
    """Put an array together from parts of others.

    Raises:
      OutOfMemoryError: a device has no room; nothing has changed.
      ShardingError: the sources and the destination belong to different runtimes.
    """
    if how.piece is not None:
        return move(sources[0], destination, how.piece, name)
    if how.along is not None and (joined := _join(sources, how, destination, name)) is not None:
        return joined
    sources, numbers = _distinct(sources)
    plan = _plan_for(sources, numbers, how, destination)
    if is_out_of_reach(plan):
        sources = [within_reach(source, destination) for source in sources]
        plan = _plan_for(sources, numbers, how, destination)
    return run(plan, sources, name, sources[0].dtype.type(fill) if how.filled else None)


def rearrange_plan_for(
    sources: Sequence[ShardedBuffer], how: Rearrangement, destination: Tiling
) -> Plan:
    """Return the cached plan of a rearrangement, as `rearrange` takes it."""
    return _plan_for(*_distinct(sources), how, destination)


def _distinct(sources: Sequence[ShardedBuffer]) -> tuple[Sequence[ShardedBuffer], tuple[int, ...]]:
    """Return the distinct sources, and for each source which of these it is."""
    if len(sources) == 1:
        return sources, (0,)
    numbers: dict[int, int] = {}
    which = tuple(numbers.setdefault(id(source), len(numbers)) for source in sources)
    return list({id(source): source for source in sources}.values()), which


def _plan_for(
    sources: Sequence[ShardedBuffer],
    numbers: tuple[int, ...],
    how: Rearrangement,
    destination: Tiling,
) -> Plan:
    """Return the cached plan of a rearrangement."""
    plans: BoundedCache[Plan] = sources[0].runtime.plans
    tilings = tuple([source.tiling for source in sources])
    key = (how, destination, tilings, numbers, sources[0].dtype.itemsize)
    plan = plans.get(key)
    if plan is not None and not plan.kept.by_roots:
        return plan
    roots = tuple([source.root_nbytes for source in sources])
    exact = plans.get((*key, roots))
    if exact is None:
        shapes = tuple(tilings[number].shape for number in numbers)
        assert (shapes, destination.shape) == (how.sources, how.shape), "of another rearrangement"
        for tiling in (destination, *tilings):
            _check_runtime(sources[0], tiling)
        itemsize = sources[0].dtype.itemsize
        relay_bytes = sources[0].runtime.settings.relay_bytes
        exact = make_rearrange(
            how, tilings, numbers, destination, itemsize, roots, relay_bytes=relay_bytes
        )
        exact = through_host(exact, sources[0].runtime)
        if exact.kept.by_roots:
            plans.put((*key, roots), exact, exact.nbytes)
        if plan is None:
            plans.put(key, exact, exact.nbytes)
    return exact


def _check_runtime(source: ShardedBuffer, tiling: Tiling) -> None:
    if devices_of(tiling)[0].runtime is not source.runtime:
        raise ShardingError(
            "the arrays and the sharding name devices of different runtimes; take all from one "
            "gpushard.devices()",
            argument="sharding",
        )


def _join(
    sources: Sequence[ShardedBuffer], how: Rearrangement, destination: Tiling, name: str
) -> ShardedBuffer | None:
    """Put arrays together that follow one another.

    Returns:
      The result; None if they are split in different ways, lie in several kinds of memory, or are
      there more than once for several memory domains.
    """
    plans = sources[0].runtime.plans
    key = (how, *[source.tiling for source in sources])
    known: tuple[Tiling | None] | None = plans.get(key)
    if known is None:
        tiling = _joined([source.tiling for source in sources], how)
        known = (tiling,)
        plans.put(key, known, 1000 + 8 * len(key) + (0 if tiling is None else tiling.nbytes))
    (tiling,) = known
    if tiling is None or _kinds(tiling) != _kinds(destination):
        return None
    repeated = len(set(map(id, sources))) < len(sources)
    if repeated and len(_domains(tiling) | _domains(destination)) > 1:
        return None  # who lacks a source would receive it as often as it is there
    shapes = None if len(how.shape) == len(how.sources[0]) else tiling.shard_shapes
    values = [value for source in sources for value in source.values]
    if shapes is not None:
        values = [value.reshape(shape) for value, shape in zip(values, shapes, strict=True)]
    whole = ShardedBuffer(
        tiling,
        sources[0].dtype,
        values,
        [claim for source in sources for claim in source.claims],
        all([source.settled for source in sources]),
        max([source.root_nbytes for source in sources]),
    )
    return move(whole, destination, name=name)


def _kinds(tiling: Tiling) -> set[str]:
    return {place.domain.kind for place in devices_of(tiling)}


def _domains(tiling: Tiling) -> set[int]:
    return {place.memory_domain for place in devices_of(tiling)}


def _joined(tilings: Sequence[Tiling], how: Rearrangement) -> Tiling | None:
    """Return the tiling of sources as one array, if they are split alike."""
    axis = how.along
    assert axis is not None
    new = len(how.shape) > tilings[0].ndim
    first = tilings[0]
    across = [dim for dim in range(first.ndim) if new or dim != axis]
    for tiling in dict.fromkeys(tilings):
        own = tiling.assignment
        if (
            own.spans is not None
            or devices_of(tiling)[0].runtime is not devices_of(first)[0].runtime
        ):
            return None
        if any(
            own.counts[dim] != first.assignment.counts[dim]
            or not np.array_equal(tiling.edges[dim], first.edges[dim])
            for dim in across
        ):
            return None
    counts = [1 if new else tiling.assignment.counts[axis] for tiling in tilings]
    begins = list(itertools.accumulate(counts, initial=0))
    blocks, edges, at = [], [], 0
    for tiling, begin in zip(tilings, begins, strict=False):
        numbers = tiling.assignment.blocks
        if new:
            numbers = np.insert(numbers, axis, [begin], axis=0)
        else:
            numbers = numbers.copy()
            numbers[axis] += begin
        blocks.append(numbers)
        edges.append(np.array([at]) if new else tiling.edges[axis][:-1] + at)
        at += 1 if new else tiling.shape[axis]
    edges.append(np.array([at]))
    every = list(first.assignment.counts)
    cuts = list(first.edges)
    every[axis : axis if new else axis + 1] = [begins[-1]]
    cuts[axis : axis if new else axis + 1] = [np.concatenate(edges)]
    places = tuple(itertools.chain.from_iterable(map(devices_of, tilings)))
    assignment = Assignment(places, tuple(every), np.concatenate(blocks, axis=1))
    return Tiling(how.shape, assignment, tuple(cuts))
