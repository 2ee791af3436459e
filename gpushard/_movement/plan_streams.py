"""What a runtime knows of a plan before it runs: which streams write, and into which memory.

The caches of a runtime (`plan_cache`) hold plans with that. It is worked out when a plan first
runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from gpushard._frozen import dataclass
from gpushard._movement.messages import buffer_sizes
from gpushard._movement.plan import Plan
from gpushard._movement.sharding_devices import devices_of
from gpushard._runtime.claims import Claim
from gpushard._runtime.launch import one_room, room_on
from gpushard._runtime.pool import Room
from gpushard._runtime.runtime import Place, Runtime
from gpushard._runtime.stream import Stream
from gpushard._runtime.traffic import Link
from gpushard._typing import Dtype


@dataclass(frozen=True, eq=False)
class Prepared:
    """A plan, with what the runtime of its devices has to say to it; make one with `prepare`."""

    plan: Plan
    runtime: Runtime  # the runtime of all devices
    places: tuple[Place, ...]  # the devices of the result, or the memories beside them
    # Whether the host makes the copies, as no stream can reach the memory on one side.
    by_host: bool
    kinds: frozenset[str]  # of memory that the sources are in

    @property
    def within(self) -> bool:
        """Whether all is the same kind of memory."""
        return self.kinds == {self.places[0].domain.kind}

    @functools.cached_property
    def streams(self) -> dict[int, Stream]:
        """The stream that writes each memory domain."""
        runtime, kind = self.runtime, self.places[0].domain.kind
        if kind == "device" and self.within and not runtime.backend.host_readable:
            taking_part = {*self.places}.union(*map(devices_of, self.plan.sources))
            chips = {place.domain for place in taking_part}
            green = runtime.settings.partition_mode == "green"
            if len(taking_part if green else chips) == 1:  # in turn with what computes there
                device = self.places[0].device
                return {device.domain.index: device.stream}
        up = "pinned_host" in self.kinds and kind == "device"
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
        """Whether there are steps and the caller runs them, if what they read is there."""
        plan, runtime = self.plan, self.runtime
        nbytes = plan.bytes_written if plan.in_place else plan.total
        most = runtime.settings.shared_bytes if runtime.backend.host_readable else 0
        return 0 < nbytes <= most

    @functools.cached_property
    def count(self) -> Callable[[], Claim] | None:
        """Counts all blocks, where they are so small that each owns its bytes."""
        plan, runtime = self.plan, self.runtime
        small = plan.allocations and plan.largest < runtime.settings.small_bytes
        if not (self.few and small) or self.by_host:
            return None
        charges = tuple((self.places[home].account, n) for home, _, n in plan.allocations)
        room = Room(self.places[0].domain.pool, charges, plan.total)
        return functools.partial(runtime.count, room)

    def rooms(self, dtype: Dtype) -> Sequence[Room]:
        """Return what it allocates for elements of a type."""
        rooms = self._rooms.get(dtype)
        if rooms is None:
            rooms = self._rooms[dtype] = self._rooms_of(dtype)
        return rooms

    @functools.cached_property
    def _rooms(self) -> dict[Dtype, Sequence[Room]]:
        return {}

    def _rooms_of(self, dtype: Dtype) -> list[Room]:
        """Return a room for each block; one for all if streams write small ones in one domain."""
        plan, rooms = self.plan, []
        for home, shape, _ in plan.allocations:
            place = self.places[home]
            rooms.append(room_on(place, shape, dtype, self.streams.get(place.memory_domain)))
        by_streams = not (self.runtime.backend.host_readable or self.by_host)
        alike = len(plan.writers) == 1 and not rooms[0].pool.is_limited
        small = plan.largest < self.runtime.settings.small_bytes
        if by_streams and alike and small and len(rooms) > 1 and not (self.staged or self.sent):
            return [one_room(rooms)]
        return rooms


def prepare(plan: Plan) -> Prepared:
    """Return a plan with what its runtime has to say to it, most of which is worked out later."""
    places = devices_of(plan.destination)
    kinds = frozenset([devices_of(tiling)[0].domain.kind for tiling in plan.sources])
    by_host = "unpinned_host" in {*kinds, places[0].domain.kind}
    return Prepared(plan, places[0].device.runtime, places, by_host, kinds)
