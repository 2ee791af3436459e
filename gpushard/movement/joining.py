"""Arrays that follow one another, as one array: `concatenate` and `stack` as a reshard.

Blocks of a tiling need not be equally long. So the blocks of arrays that are split alike across the
dim in which they follow one another are those of one array, and one plan moves them all, in time
that grows with the number of copies.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from gpushard.geometry.tiling import Assignment, Tiling
from gpushard.movement.buffer import ShardedBuffer, devices_of
from gpushard.movement.execute import plan_for
from gpushard.movement.move import move
from gpushard.movement.rearrangement import Rearrangement


def join(
    sources: Sequence[ShardedBuffer], how: Rearrangement, destination: Tiling, name: str
) -> ShardedBuffer | None:
    """Put arrays together that follow one another.

    Args:
      sources: the data of every source of `how`.
      how: where the elements of the result come from.
      destination: tiling of the result.
      name: what it is, for errors.

    Returns:
      The result; None if they are split in different ways, lie in several kinds of memory, or are
      there more than once for several memory domains.
    """
    plans = sources[0].runtime.plans
    key = (how, *[source.tiling for source in sources])
    found: tuple[Tiling | None] | None = plans.get(key)
    if found is None:
        tiling = _joined([source.tiling for source in sources], how)
        found = (tiling,)
        plans.put(key, found, 1000 + 8 * len(key) + (0 if tiling is None else tiling.nbytes))
    (tiling,) = found
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
    return move(whole, plan_for(whole, destination), name)


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
