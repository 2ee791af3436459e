"""Putting one array together from several others: allocate everything, then keep, fill and copy."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.cache import BoundedCache
from gpushard.errors import ShardingError
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer, claim_nothing, devices_of
from gpushard.movement.execute import Targets, allocate, plan_for
from gpushard.movement.move import move
from gpushard.movement.nearby import nearby_tiling
from gpushard.movement.rearrange_plan import (
    EMPTY,
    NEW,
    WHOLE,
    RearrangePlan,
    make_rearrange,
)
from gpushard.movement.rearrange_steps import Task
from gpushard.movement.rearrangement import Rearrangement
from gpushard.runtime.memory import Claim
from gpushard.runtime.runtime import Runtime
from gpushard.runtime.stream import Stream
from gpushard.typing import HostArray, LocalArray


@dataclasses.dataclass(frozen=True, eq=False)
class _Job:
    """A plan and what a runtime has to say to it."""

    plan: RearrangePlan

    nearby: dict[int, Tiling]
    """Where the sources go first that lie where the copies cannot read them."""

    by_host: bool
    """Whether the memory is out of the reach of streams."""

    streams: tuple[Stream, ...]
    """The streams that write."""

    @property
    def nbytes(self) -> int:
        """Bytes that it takes, about."""
        return self.plan.nbytes + sum(tiling.nbytes for tiling in self.nearby.values())


def rearrange(
    sources: Sequence[ShardedBuffer],
    how: Rearrangement,
    destination: Tiling,
    name: str = "rearrange",
    fill: Any = 0,
) -> ShardedBuffer:
    """Put an array together from parts of others.

    Args:
      sources: the data, of one dtype, laid out in any ways.
      how: where the elements of the result come from.
      destination: tiling of the result.
      name: what it is, for errors.
      fill: the constant of elements that come from nowhere, of the sources' dtype.

    Raises:
      OutOfMemoryError: a device has no room; nothing has changed.
      ShardingError: the sources and the destination belong to different runtimes.
    """
    if how.piece is not None:
        return move(sources[0], plan_for(sources[0], destination, how.piece), name)
    sources, numbers = _distinct(sources)
    job = _job_for(sources, numbers, how, destination)
    if job.nearby:
        sources = [
            move(source, plan_for(source, job.nearby[n]), name) if n in job.nearby else source
            for n, source in enumerate(sources)
        ]
        job = _job_for(sources, numbers, how, destination)
    value = np.asarray(fill, sources[0].dtype) if how.filled else None
    return _Run(sources[0].runtime, job, sources, value, name).result()


def rearrange_plan_for(
    sources: Sequence[ShardedBuffer], how: Rearrangement, destination: Tiling
) -> RearrangePlan:
    """Return the cached plan of a rearrangement, as `rearrange` takes it.

    Raises:
      ShardingError: the sources and the destination belong to different runtimes.
    """
    return _job_for(*_distinct(sources), how, destination).plan


def _distinct(
    sources: Sequence[ShardedBuffer],
) -> tuple[Sequence[ShardedBuffer], tuple[int, ...]]:
    """Return the distinct sources, and for each source which of these it is."""
    if len(sources) == 1:
        return sources, (0,)
    numbers: dict[int, int] = {}
    which = tuple(numbers.setdefault(id(source), len(numbers)) for source in sources)
    return list({id(source): source for source in sources}.values()), which


def _job_for(
    sources: Sequence[ShardedBuffer],
    numbers: tuple[int, ...],
    how: Rearrangement,
    destination: Tiling,
) -> _Job:
    plans: BoundedCache[_Job] = sources[0].runtime.plans
    tilings = tuple([source.tiling for source in sources])
    key = (how, destination, tilings, numbers, sources[0].dtype.itemsize)
    job = plans.get(key)
    if job is not None and not job.plan.by_roots:
        return job
    roots = tuple([source.root_nbytes for source in sources])
    exact = plans.get((*key, roots))
    if exact is None:
        exact = _make_job(sources, numbers, how, destination, roots)
        if exact.plan.by_roots:
            plans.put((*key, roots), exact, exact.nbytes)
        if job is None:
            plans.put(key, exact, exact.nbytes)
    return exact


def _make_job(
    sources: Sequence[ShardedBuffer],
    numbers: tuple[int, ...],
    how: Rearrangement,
    destination: Tiling,
    roots: tuple[int, ...],
) -> _Job:
    runtime, tilings = sources[0].runtime, [source.tiling for source in sources]
    for tiling in (destination, *tilings):
        _check_runtime(runtime, tiling)
    plan = make_rearrange(how, tilings, numbers, destination, sources[0].dtype.itemsize, roots)
    nearby = {
        n: nearby_tiling(tiling.shape, _parts_of(how, numbers, n), destination)
        for n, tiling in enumerate(tilings)
        if _is_far(runtime, plan, n)
    }
    by_host = devices_of(destination)[0].domain.kind == "unpinned_host"
    streams = tuple(runtime.domains[domain].copy for domain in plan.domains)
    return _Job(plan, nearby, by_host, () if by_host else streams)


def _check_runtime(runtime: Runtime, tiling: Tiling) -> None:
    if devices_of(tiling)[0].runtime is not runtime:
        raise ShardingError(
            "the arrays and the sharding name devices of different runtimes; take all from one "
            "gpushard.devices()",
            argument="sharding",
        )


def _parts_of(how: Rearrangement, numbers: Sequence[int], source: int) -> list[Any]:
    return [part for part in how.parts if numbers[part.source] == source]


def _is_far(runtime: Runtime, plan: RearrangePlan, source: int) -> bool:
    """Whether a source lies where the copies cannot read it."""
    kinds = [devices_of(t)[0].domain.kind for t in (plan.sources[source], plan.destination)]
    reaches = runtime.backend.reaches
    return kinds[0] != kinds[1] or not all(reaches(to, of) for of, to in plan.links[source])


@dataclasses.dataclass(slots=True)
class _Run:
    """One rearrangement that is about to be submitted."""

    runtime: Runtime
    job: _Job
    sources: Sequence[ShardedBuffer]
    fill: HostArray | None
    name: str

    def result(self) -> ShardedBuffer:
        """Run it."""
        plan, job = self.job.plan, self.job
        operands = [value for source in self.sources for value in source.values]
        targets = Targets([], [], inline=True)
        if job.by_host:
            for source in self.sources:
                source.wait()
        if plan.allocations:
            targets = self.runtime.commit(functools.partial(self._submit, operands), job.streams)
            if targets.inline or job.by_host:
                operands += targets.values
                for task in plan.tasks:
                    run_task(self.runtime, task, operands, self.fill)
        return self._assembled(operands, targets)

    def _submit(self, operands: list[LocalArray]) -> Targets:
        """Allocate the new blocks; give the copies to streams unless the caller can run them."""
        runtime, plan, by_host = self.runtime, self.job.plan, self.job.by_host
        small = plan.total <= runtime.settings.inline_bytes and runtime.backend.host_readable
        inline = by_host or (small and all([source.is_settled() for source in self.sources]))
        places, dtype = devices_of(plan.destination), self.sources[0].dtype
        targets = allocate(runtime, places, plan.allocations, plan.largest, dtype, inline)
        if not targets.inline and not by_host:
            operands = [*operands, *targets.values]  # the items must hold no claim
            claims = [claim for source in self.sources for claim in source.claims]
            memories = [claim.memory for claim in (*claims, *targets.claims)]
            for task in plan.tasks:
                runtime.submit(
                    runtime.domains[task.domain].copy,
                    self.name,
                    functools.partial(run_task, runtime, task, operands, self.fill),
                    tuple(dict.fromkeys(memories[of] for of in task.reads)),
                    [memories[to] for to in task.writes],
                )
        return targets

    def _assembled(self, operands: list[LocalArray], targets: Targets) -> ShardedBuffer:
        """Return the result: new, kept and empty blocks by device."""
        plan, dtype, settled = self.job.plan, self.sources[0].dtype, targets.inline
        values: list[LocalArray] = []
        claims: list[Claim] = []
        nothing: Claim | None = None
        old: list[Claim] = []
        for kind, of, offset, shape in plan.slots:
            if kind == NEW:
                values.append(targets.values[of])
                claims.append(targets.claims[of])
            elif kind == EMPTY:
                place = devices_of(plan.destination)[0]
                values.append(self.runtime.backend.empty(place.memory_domain, shape, dtype))
                claims.append(nothing := nothing or claim_nothing(place))
            else:
                value = operands[of]
                if kind != WHOLE:
                    value = value.reshape(-1)[offset : offset + math.prod(shape)]
                values.append(value if value.shape == shape else value.reshape(shape))
                old = old or [claim for source in self.sources for claim in source.claims]
                claims.append(old[of])
        settled = settled and all([source.settled for source in self.sources])
        return ShardedBuffer(plan.destination, dtype, values, claims, settled)


def run_task(
    runtime: Runtime, task: Task, operands: Sequence[LocalArray], fill: HostArray | None
) -> None:
    """Fill and copy all that is written in one domain.

    Args:
      runtime: of the domain.
      task: what to do.
      operands: the shards of the sources, then the new blocks.
      fill: the constant, if there is any.
    """
    if fill is not None and task.fills:
        boxes = [(operands[to], view) for to, view in task.fills]
        runtime.backend.fill_boxes(boxes, fill, task.domain)
    for phase in task.phases:
        runtime.backend.copy_phase(phase, operands, task.domain)
