"""What a runtime knows of a plan before it runs: which streams write, and into which memory.

The caches of a runtime hold plans with that beside them. It is worked out when a plan first runs.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from gpushard.frozen import dataclass
from gpushard.movement.buffer import ShardedBuffer, devices_of
from gpushard.movement.messages import buffer_sizes
from gpushard.movement.plan import Plan
from gpushard.runtime.memory import Account, Claim, packed
from gpushard.runtime.pool import Pool
from gpushard.runtime.runtime import Place, Runtime
from gpushard.runtime.stream import Stream
from gpushard.runtime.traffic import Link
from gpushard.typing import Shape


@dataclass(frozen=True, slots=True)
class Shared:
    """One memory for all blocks of a plan."""

    pool: Pool
    """Where it comes from."""

    charges: tuple[tuple[Account, int], ...]
    """Who pays for each block, and for how many bytes."""

    shapes: tuple[Shape, ...]
    """Shapes of the blocks."""

    starts: tuple[int, ...]
    """Where they begin in it."""

    nbytes: int
    """Bytes of it."""

    stream: Stream
    """The stream that writes it."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A plan, with what the runtime of its devices has to say to it."""

    plan: Plan

    @functools.cached_property
    def places(self) -> tuple[Place, ...]:
        """The devices of the result, or the memories beside them."""
        return devices_of(self.plan.destination)

    @functools.cached_property
    def runtime(self) -> Runtime:
        """The runtime of all devices."""
        return self.places[0].device.runtime

    @functools.cached_property
    def _kinds(self) -> tuple[set[str], str]:
        """The kinds of memory of the sources, and that of the result."""
        sources = {devices_of(tiling)[0].domain.kind for tiling in self.plan.sources}
        return sources, self.places[0].domain.kind

    @functools.cached_property
    def by_host(self) -> bool:
        """Whether the host makes the copies, as no stream can reach the memory on one side."""
        sources, kind = self._kinds
        return "unpinned_host" in sources or kind == "unpinned_host"

    @functools.cached_property
    def within(self) -> bool:
        """Whether all is the same kind of memory."""
        sources, kind = self._kinds
        return sources == {kind}

    @functools.cached_property
    def streams(self) -> dict[int, Stream]:
        """The stream that writes each memory domain."""
        runtime, (sources, kind) = self.runtime, self._kinds
        if sources == {kind} == {"device"} and not runtime.backend.host_readable:
            taking_part = {*self.places}.union(*map(devices_of, self.plan.sources))
            chips = {place.domain for place in taking_part}
            green = runtime.settings.partition_mode == "green"
            if len(taking_part if green else chips) == 1:  # in turn with what computes there
                device = self.places[0].device
                return {device.domain.index: device.stream}
        up = "pinned_host" in sources and kind == "device"
        domains = [runtime.domains[domain] for domain in self.plan.writers]
        return {domain.index: domain.feed if up else domain.copy for domain in domains}

    @functools.cached_property
    def staged(self) -> bool:
        """Whether some step reads what its domain cannot reach."""
        return bool(self.plan.staging)

    @functools.cached_property
    def sent(self) -> dict[Link, int]:
        """What goes by messages, with the bytes of the buffers for them."""
        return {} if self.by_host else buffer_sizes(self.plan, self.runtime)

    @functools.cached_property
    def few(self) -> bool:
        """Whether the caller runs the steps, if what they read is there."""
        plan, runtime = self.plan, self.runtime
        nbytes = plan.bytes_written if plan.in_place else plan.total
        return nbytes <= runtime.settings.shared_bytes and runtime.backend.host_readable

    @functools.cached_property
    def count(self) -> Callable[[], Claim] | None:
        """Counts all blocks, where they are so small that each owns its bytes."""
        plan, runtime = self.plan, self.runtime
        small = plan.allocations and plan.largest < runtime.settings.small_bytes
        if not (self.few and small) or self.by_host:
            return None
        charges = tuple((self.places[home].account, n) for home, _, n in plan.allocations)
        pool = self.places[0].domain.pool
        return functools.partial(runtime.claim_at_once, pool, charges, plan.total)

    @functools.cached_property
    def shared(self) -> Shared | None:
        """The memory of all blocks, where several small ones are written in one domain."""
        plan, runtime = self.plan, self.runtime
        if runtime.backend.host_readable or self.by_host or self.staged or self.sent:
            return None
        blocks = plan.allocations
        if len(plan.writers) > 1 or len(blocks) < 2 or plan.largest >= runtime.settings.small_bytes:
            return None
        first = self.places[blocks[0][0]]
        pool = first.domain.pool
        if pool.is_limited:
            return None
        starts, nbytes = packed(n for _, _, n in blocks)
        charges = tuple((self.places[home].account, n) for home, _, n in blocks)
        shapes = tuple(shape for _, shape, _ in blocks)
        return Shared(pool, charges, shapes, starts, nbytes, self.streams[first.memory_domain])


def prepared_plan(
    runtime: Runtime,
    make: Callable[..., Plan],
    how: tuple[Any, ...],
    sources: Sequence[ShardedBuffer] = (),
) -> Prepared:
    """Return what a planner makes of the runtime, `how` and the roots of sources; cached.

    How much memory the sources keep alive is looked at only where the plan depends on it.
    """
    plans, key = runtime.plans, (make, how)
    known: Prepared | None = plans.get(key)
    if known is not None and not known.plan.kept.by_roots:
        return known
    roots = tuple([source.root_nbytes for source in sources])
    prepared: Prepared | None = plans.get((key, roots))
    if prepared is None:
        prepared = new_plan(runtime, make, *how, roots)
        if prepared.plan.kept.by_roots:
            plans.put((key, roots), prepared, prepared.plan.nbytes)
        if known is None:
            plans.put(key, prepared, prepared.plan.nbytes)
    return prepared


def new_plan(runtime: Runtime, make: Callable[..., Plan], *how: Any) -> Prepared:
    """Make a plan, and tell it which domains reach one another, and what there is for others."""
    plan = make(runtime, *how)
    pinned_bytes = runtime.settings.pinned_bytes
    return Prepared(dataclasses.replace(plan, reach=runtime.backend, pinned_bytes=pinned_bytes))
