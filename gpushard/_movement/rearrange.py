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

from gpushard._geometry.tiling import Assignment, Tiling
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.execute import check_runtime, is_out_of_reach, run, within_reach
from gpushard._movement.plan import Plan
from gpushard._movement.plan_cache import prepared_plan
from gpushard._movement.plan_streams import Prepared
from gpushard._movement.planning.rearrange import make_rearrange
from gpushard._movement.planning.rearrangements import Rearrangement
from gpushard._movement.reshard import move
from gpushard._movement.sharding_devices import devices_of
from gpushard._runtime.runtime import Runtime


def rearrange(
    sources: Sequence[ShardedBuffer],
    how: Rearrangement,
    destination: Tiling,
    name: str = "rearrange",
    fill: Any = 0,
) -> ShardedBuffer:
    """Put an array together from parts of others."""
    if how.piece is not None:
        return move(sources[0], destination, how.piece, name)
    if how.along is not None and (joined := _join(sources, how, destination, name)) is not None:
        return joined
    prepared, different = plan_for(sources, how, destination)
    if is_out_of_reach(prepared):
        near = {id(source): within_reach(source, destination) for source in different}
        near_sources = [near[id(source)] for source in sources]
        prepared, different = plan_for(near_sources, how, destination)
    return run(prepared, different, name, sources[0].dtype.type(fill) if how.filled else None)


def plan_for(
    sources: Sequence[ShardedBuffer], how: Rearrangement, destination: Tiling
) -> tuple[Prepared, Sequence[ShardedBuffer]]:
    """Return the cached plan of a rearrangement, and the different ones of the sources."""
    which: tuple[int, ...] = (0,)
    if len(sources) > 1:
        numbers: dict[int, int] = {}
        which = tuple([numbers.setdefault(id(source), len(numbers)) for source in sources])
        sources = list({id(source): source for source in sources}.values())
        tilings = tuple([source.tiling for source in sources])
    else:
        tilings = (sources[0].tiling,)
    of = how, tilings, which, destination, sources[0].dtype.itemsize
    return prepared_plan(sources[0].runtime, _plan, of, sources), sources


def plan_of(
    runtime: Runtime, how: Rearrangement, source: Tiling, destination: Tiling, itemsize: int
) -> Plan:
    """Return the plan of a rearrangement of one array, for what it costs."""
    return prepared_plan(runtime, _plan, (how, (source,), (0,), destination, itemsize)).plan


def _plan(
    runtime: Runtime,
    how: Rearrangement,
    tilings: Sequence[Tiling],
    which: Sequence[int],
    destination: Tiling,
    itemsize: int,
    root_nbytes: Sequence[int],
) -> Plan:
    shapes = tuple(tilings[number].shape for number in which)
    assert (shapes, destination.shape) == (how.sources, how.shape), "of another rearrangement"
    check_runtime(runtime, destination, *tilings)
    return make_rearrange(
        how,
        tilings,
        which,
        destination,
        itemsize,
        root_nbytes or [0] * len(tilings),
        runtime.settings.relay_bytes,
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
        if not all(np.array_equal(tiling.edges[dim], first.edges[dim]) for dim in across):
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
