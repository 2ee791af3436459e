"""Putting one array together from several others: allocate everything, then keep, fill and copy."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer, claim_nothing, devices_of
from gpushard.movement.execute import Targets, allocate, plan_for
from gpushard.movement.joining import join
from gpushard.movement.move import move
from gpushard.movement.rearrange_jobs import Job, distinct, job_for
from gpushard.movement.rearrange_plan import EMPTY, NEW, WHOLE
from gpushard.movement.rearrange_steps import Task
from gpushard.movement.rearrangement import Rearrangement
from gpushard.runtime.memory import Claim
from gpushard.runtime.runtime import Runtime
from gpushard.typing import LocalArray


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
    if how.along is not None and (joined := join(sources, how, destination, name)) is not None:
        return joined
    sources, numbers = distinct(sources)
    job = job_for(sources, numbers, how, destination)
    if job.nearby:
        sources = [
            move(source, plan_for(source, job.nearby[n]), name) if n in job.nearby else source
            for n, source in enumerate(sources)
        ]
        job = job_for(sources, numbers, how, destination)
    value: np.generic | None = sources[0].dtype.type(fill) if how.filled else None
    return _Run(sources[0].runtime, job, sources, value, name).result()


@dataclasses.dataclass(slots=True)
class _Run:
    """One rearrangement that is about to be submitted."""

    runtime: Runtime
    job: Job
    sources: Sequence[ShardedBuffer]
    fill: np.generic | None
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
        small = plan.total <= runtime.settings.shared_bytes and runtime.backend.host_readable
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
                    value = value.ravel()[offset : offset + math.prod(shape)]
                values.append(value if value.shape == shape else value.reshape(shape))
                old = old or [claim for source in self.sources for claim in source.claims]
                claims.append(old[of])
        settled = settled and all([source.settled for source in self.sources])
        return ShardedBuffer(plan.destination, dtype, values, claims, settled)


def run_task(
    runtime: Runtime, task: Task, operands: Sequence[LocalArray], fill: np.generic | None
) -> None:
    """Fill and copy all that is written in one domain.

    Args:
      runtime: of the domain.
      task: what to do.
      operands: the shards of the sources, then the new blocks.
      fill: the constant, if there is any.
    """
    if fill is not None and task.fills:
        boxes = [view.of(operands[to]) for to, view in task.fills]
        runtime.backend.fill_boxes(boxes, fill, task.domain)
    for phase in task.phases:
        runtime.backend.copy_phase(phase, operands, task.domain)
