"""Which boxes a movement between shardings must copy, by brute force.

Nothing here asks gpushard's planner: only `devices_indices_map` and the devices' memory domains.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from gpushard._geometry.sharding import Sharding

Box = tuple[tuple[int, int], ...]
"""(start, stop) in every dim of the global array."""

Place = tuple[Any, Box]
"""A block in a memory domain."""

ALIGNMENT = 16


@dataclasses.dataclass(frozen=True)
class Copy:
    """A box that is read from a held block and written to a wanted one."""

    wanted: Place
    held: Place
    box: Box


@dataclasses.dataclass(frozen=True)
class Movement:
    """What has to happen so that every memory domain has what it wants."""

    copies: list[Copy]
    """What each domain has to write, once per distinct block, cut at the source's blocks."""

    reused: list[Place]
    """Wanted blocks that are all or part of one that the domain holds."""

    @property
    def elements(self) -> int:
        """Elements that are written."""
        return sum(volume(copy.box) for copy in self.copies)


def places(sharding: Sharding, shape: tuple[int, ...]) -> list[Place]:
    """Return the distinct blocks that each memory domain holds; empty ones left out."""
    found: dict[Place, None] = {}
    for device, index in sharding.devices_indices_map(shape).items():
        bounds = [part.indices(n)[:2] for part, n in zip(index, shape, strict=True)]
        box = tuple((start, max(start, stop)) for start, stop in bounds)
        if volume(box):
            found[getattr(device, "memory_domain", device), box] = None
    return list(found)


def movement(
    source: Sharding, destination: Sharding, shape: tuple[int, ...], itemsize: int
) -> Movement:
    """Return what a reshard must copy: all that no view of the same domain's memory can give."""
    held, wanted = places(source, shape), places(destination, shape)
    parents = _parents(held, wanted, itemsize)
    copies = [
        copy
        for number, place in enumerate(wanted)
        if place not in parents
        for copy in _fill(place, held, number)
    ]
    return Movement(copies, list(parents))


def volume(box: Box) -> int:
    """Return the number of elements of a box."""
    return math.prod(stop - start for start, stop in box)


def intersect(a: Box, b: Box) -> Box:
    """Return the common part of two boxes; it may be empty."""
    bounds = ((max(p[0], q[0]), min(p[1], q[1])) for p, q in zip(a, b, strict=True))
    return tuple((start, max(start, stop)) for start, stop in bounds)


def within(box: Box, block: Box) -> tuple[slice, ...]:
    """Return the slices of a box within the block that holds it."""
    return tuple(slice(b - at, e - at) for (b, e), (at, _) in zip(box, block, strict=True))


def _parents(held: list[Place], wanted: list[Place], itemsize: int) -> dict[Place, Place]:
    """Return, for each wanted block that is a view of a held one, that one.

    Views must be dense and aligned, and leave at least half of what they refer to useful.
    """
    parents: dict[Place, Place] = {}
    useful = dict.fromkeys(held, 0)
    for place in wanted:
        for parent in held:
            if parent[0] == place[0] and _is_view(place[1], parent[1], itemsize):
                parents[place] = parent
                useful[parent] += volume(place[1])
    return {
        place: parent
        for place, parent in parents.items()
        if place == parent or 2 * useful[parent] >= volume(parent[1])
    }


def _is_view(box: Box, block: Box, itemsize: int) -> bool:
    """Whether a box is a dense and aligned part of a row-major block."""
    if intersect(box, block) != box:
        return False
    full_after, dense, offset, stride = True, True, 0, 1
    for (start, stop), (first, last) in reversed(list(zip(box, block, strict=True))):
        dense &= full_after or stop - start == 1
        full_after &= (start, stop) == (first, last)
        offset += (start - first) * stride
        stride *= last - first
    return dense and offset * itemsize % ALIGNMENT == 0


def _fill(place: Place, held: list[Place], number: int) -> list[Copy]:
    """Cover a wanted block with boxes of held ones, those of its own domain first."""
    holders: dict[Box, list[Place]] = {}
    for other in held:
        if volume(intersect(place[1], other[1])):
            holders.setdefault(other[1], []).append(other)
    copies = []
    for block, choice in holders.items():
        own = (place[0], block)
        chosen = own if own in choice else choice[number % len(choice)]
        copies.append(Copy(place, chosen, intersect(place[1], block)))
    return copies
