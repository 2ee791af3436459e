"""Plans of rearrangements, kept with what a runtime has to say to them."""

from __future__ import annotations

from collections.abc import Sequence

from gpushard.cache import BoundedCache
from gpushard.errors import ShardingError
from gpushard.frozen import dataclass
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer, devices_of
from gpushard.movement.nearby import nearby_tiling
from gpushard.movement.rearrange_plan import RearrangePlan, make_rearrange
from gpushard.movement.rearrangement import Part, Rearrangement
from gpushard.runtime.runtime import Runtime
from gpushard.runtime.stream import Stream


@dataclass(frozen=True, eq=False)
class Job:
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


def rearrange_plan_for(
    sources: Sequence[ShardedBuffer], how: Rearrangement, destination: Tiling
) -> RearrangePlan:
    """Return the cached plan of a rearrangement, as `rearrange` takes it.

    Raises:
      ShardingError: the sources and the destination belong to different runtimes.
    """
    return job_for(*distinct(sources), how, destination).plan


def distinct(
    sources: Sequence[ShardedBuffer],
) -> tuple[Sequence[ShardedBuffer], tuple[int, ...]]:
    """Return the distinct sources, and for each source which of these it is."""
    if len(sources) == 1:
        return sources, (0,)
    numbers: dict[int, int] = {}
    which = tuple(numbers.setdefault(id(source), len(numbers)) for source in sources)
    return list({id(source): source for source in sources}.values()), which


def job_for(
    sources: Sequence[ShardedBuffer],
    numbers: tuple[int, ...],
    how: Rearrangement,
    destination: Tiling,
) -> Job:
    """Return the cached job of a rearrangement.

    Args:
      sources: the distinct ones.
      numbers: for each source of `how`, which of them it is.
      how: where the elements come from.
      destination: tiling of the result.

    Raises:
      ShardingError: the sources and the destination belong to different runtimes.
    """
    plans: BoundedCache[Job] = sources[0].runtime.plans
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
) -> Job:
    runtime, tilings = sources[0].runtime, [source.tiling for source in sources]
    shapes = tuple(tilings[number].shape for number in numbers)
    assert (shapes, destination.shape) == (how.sources, how.shape), "of another rearrangement"
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
    return Job(plan, nearby, by_host, () if by_host else streams)


def _check_runtime(runtime: Runtime, tiling: Tiling) -> None:
    if devices_of(tiling)[0].runtime is not runtime:
        raise ShardingError(
            "the arrays and the sharding name devices of different runtimes; take all from one "
            "gpushard.devices()",
            argument="sharding",
        )


def _parts_of(how: Rearrangement, numbers: Sequence[int], source: int) -> list[Part]:
    return [part for part in how.parts if numbers[part.source] == source]


def _is_far(runtime: Runtime, plan: RearrangePlan, source: int) -> bool:
    """Whether a source lies where the copies cannot read it."""
    kinds = [devices_of(t)[0].domain.kind for t in (plan.sources[source], plan.destination)]
    reaches = runtime.backend.reaches
    return kinds[0] != kinds[1] or not all(reaches(to, of) for of, to in plan.links[source])
