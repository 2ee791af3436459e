"""By whom the copies of a plan are made."""

from __future__ import annotations

from gpushard.frozen import dataclass
from gpushard.movement.buffer import devices_of
from gpushard.movement.plan import Plan
from gpushard.movement.windows import WindowAt
from gpushard.runtime.device import Domain
from gpushard.runtime.stream import Stream


@dataclass(frozen=True, slots=True)
class Way:
    """Who makes the copies of a plan."""

    by_host: bool
    """Whether the host does, as no stream can reach the memory on one side."""

    within: bool
    """Whether both sides are the same kind of memory."""

    up: bool
    """Whether they go from page-locked memory to devices."""

    place: int
    """The memory domain of the first shard of the result."""

    def stream(self, domain: Domain) -> Stream:
        """Return the stream that writes into a memory domain."""
        return domain.feed if self.up else domain.copy


def way_of(plan: Plan | WindowAt) -> Way:
    """Return the way of a plan, which is kept with it."""
    way: Way | None = plan.recipe.way
    if way is None:
        ends = [devices_of(tiling)[0].domain for tiling in (plan.source, plan.destination)]
        kinds = ends[0].kind, ends[1].kind
        way = plan.recipe.way = Way(
            by_host="unpinned_host" in kinds,
            within=kinds[0] == kinds[1],
            up=kinds == ("pinned_host", "device"),
            place=ends[1].index,
        )
    return way
