"""The plan of a rearrangement: what is kept, made, copied and filled. Pure.

It meets the bounds of `gpushard.movement.plan`: a domain writes its distinct new blocks once, and
receives every element that it lacks once, however often these blocks have it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import numpy as np

from gpushard.frozen import dataclass
from gpushard.geometry.columns import distinct_columns
from gpushard.geometry.tiling import Tiling
from gpushard.movement.holdings import Holdings, holdings
from gpushard.movement.kept_blocks import Kept, find_kept
from gpushard.movement.overlap import volumes
from gpushard.movement.rearrange_steps import Fill, Task, find_fills, make_tasks
from gpushard.movement.rearrangement import Part, Rearrangement, Side
from gpushard.movement.space_copies import copy_space
from gpushard.movement.strided_copies import StridedCopies
from gpushard.typing import IntArray, Shape

NEW, EMPTY, WHOLE, VIEW = range(4)
"""What a device of the result gets: a new block, nothing, a shard of a source as it lies in another
shape, or a part of one."""

Table = tuple[int, StridedCopies]
"""(source, copies of it)."""

Slot = tuple[int, int, int, Shape]
"""(what, operand or number of the new block, first element of a part, shape)."""


@dataclass(frozen=True, eq=False)
class RearrangePlan:
    """How sources are put together. Make one with `make_rearrange`."""

    sources: tuple[Tiling, ...]
    """Tilings of the distinct sources."""

    destination: Tiling
    """Tiling of the result."""

    slots: tuple[Slot, ...]
    """What each device of the result gets."""

    allocations: tuple[tuple[int, Shape, int], ...]
    """(position of the home device, shape, bytes) of each block that is made."""

    domains: tuple[int, ...]
    """The memory domains that write something."""

    tasks: tuple[Task, ...]
    """What is written there."""

    written: dict[int, int]
    """W: bytes that each domain of the result writes, constants included."""

    received: dict[int, int]
    """R: bytes that each of them receives from others."""

    links: tuple[frozenset[tuple[int, int]], ...]
    """For each source the (domain read, domain written) of copies between domains."""

    copies: int
    """How many box copies there are."""

    by_roots: bool
    """Whether the plan depends on the root allocations of the sources."""

    @functools.cached_property
    def total(self) -> int:
        """Bytes of the new blocks."""
        return sum(self.written.values())

    @functools.cached_property
    def largest(self) -> int:
        """Bytes of the largest of them."""
        return max((nbytes for _, _, nbytes in self.allocations), default=0)

    @property
    def nbytes(self) -> int:
        """Bytes that this plan takes, about."""
        return 4000 + 300 * len(self.slots) + 900 * self.copies

    def explain(self) -> str:
        """Describe the plan in a few lines of text."""
        kinds = [kind for kind, *_ in self.slots]
        kept = kinds.count(WHOLE) + kinds.count(VIEW)
        received = sum(self.received.values())
        shapes = " and ".join(str(tiling.shape) for tiling in self.sources)
        return (
            f"rearrange {shapes} to {self.destination.shape} on {len(kinds)} devices in "
            f"{len(self.written)} memory domains\n"
            f"  shards: {kept} share memory with a source, {kinds.count(NEW)} lie in "
            f"{len(self.allocations)} new blocks, {kinds.count(EMPTY)} empty\n"
            f"  written: {self.total:,} bytes in {self.copies:,} box copies, the least possible\n"
            f"  received from other domains: {received:,} bytes, the least possible"
        )


def make_rearrange(
    how: Rearrangement,
    sources: Sequence[Tiling],
    numbers: Sequence[int],
    destination: Tiling,
    itemsize: int,
    root_nbytes: Sequence[int],
) -> RearrangePlan:
    """Plan a rearrangement.

    Args:
      how: where the elements come from.
      sources: tilings of the distinct sources.
      numbers: for each source of `how`, which of them it is.
      destination: tiling of the result.
      itemsize: bytes of an element.
      root_nbytes: for each distinct source, bytes of its largest root allocation, where that is
        more than a shard.

    >>> from gpushard.geometry.mesh import Mesh
    >>> from gpushard.geometry.partition_spec import P
    >>> from gpushard.geometry.named_sharding import NamedSharding
    >>> from gpushard.movement.rearrangements import roll
    >>> tiling = NamedSharding(Mesh(["a", "b"], "x"), P("x")).tiling((8,))
    >>> plan = make_rearrange(roll((8,), (1,), (0,)), [tiling], [0], tiling, 4, [0])
    >>> plan.written, plan.received
    ({0: 16, 1: 16}, {0: 4, 1: 4})
    """
    wanted = holdings(destination.assignment)
    volume = volumes(wanted, destination)
    tables = _tables(how.parts, sources, numbers, destination, np.flatnonzero(volume))
    kept = find_kept(sources, tables, volume, itemsize, root_nbytes)
    new = _New(destination, wanted, np.flatnonzero((volume > 0) & (kept.source < 0)), itemsize)
    tables = [
        (number, copies.take(np.flatnonzero(kept.source[copies.block] < 0)))
        for number, copies in tables
    ]
    fills = find_fills(how.filled, destination, wanted.home, new.pairs, itemsize)
    return RearrangePlan(
        sources=tuple(sources),
        destination=destination,
        slots=tuple(_slots(sources, destination, wanted, volume, kept, new.pairs)),
        allocations=new.allocations(),
        domains=tuple(np.unique(new.domain).tolist()),
        tasks=_tasks(sources, tables, fills, new),
        written=new.written(),
        received=new.received(tables),
        links=new.links(tables, len(sources)),
        copies=sum(len(copies.block) for _, copies in tables) + len(fills),
        by_roots=kept.by_roots,
    )


@dataclass(frozen=True, eq=False)
class _New:
    """The blocks that are made."""

    destination: Tiling
    wanted: Holdings
    pairs: IntArray
    """The wanted pairs that they are, ascending."""
    itemsize: int

    @functools.cached_property
    def domain(self) -> IntArray:
        """Where each lies; ascending."""
        return self.wanted.domain[self.pairs]

    @functools.cached_property
    def nbytes(self) -> IntArray:
        """Bytes of each."""
        return volumes(self.wanted, self.destination)[self.pairs] * self.itemsize

    def allocations(self) -> tuple[tuple[int, Shape, int], ...]:
        """Return (position of the home device, shape, bytes) of each."""
        shapes = self.destination.shard_shapes
        homes = zip(self.wanted.home[self.pairs].tolist(), self.nbytes.tolist(), strict=True)
        return tuple((home, shapes[home], nbytes) for home, nbytes in homes)

    def written(self) -> dict[int, int]:
        """Return the bytes that each domain writes."""
        domains = np.unique(self.wanted.domain).tolist()
        return {m: int(self.nbytes[self.domain == m].sum()) for m in domains}

    def received(self, tables: Sequence[Table]) -> dict[int, int]:
        """Return the bytes that each domain receives."""
        received = dict.fromkeys(np.unique(self.wanted.domain).tolist(), 0)
        for _, copies in tables:
            domain = self.wanted.domain[copies.block]
            volume = np.bincount(domain, copies.volume * copies.remote * self.itemsize)
            for m in np.flatnonzero(volume).tolist():
                received[m] += int(volume[m])
        return received

    def links(
        self, tables: Sequence[Table], sources: int
    ) -> tuple[frozenset[tuple[int, int]], ...]:
        """Return for each source the (domain read, domain written) of copies between domains."""
        found: list[set[tuple[int, int]]] = [set() for _ in range(sources)]
        for number, copies in tables:
            to = self.wanted.domain[copies.block]
            pairs = np.stack((copies.source_domain, to))[:, copies.remote]
            found[number].update(map(tuple, pairs[:, distinct_columns(pairs)[0]].T.tolist()))
        return tuple(map(frozenset, found))


def _tasks(
    sources: Sequence[Tiling], tables: Sequence[Table], fills: Sequence[Fill], new: _New
) -> tuple[Task, ...]:
    """Return what is done in each domain."""
    first = _first_operands(sources)
    shapes = [shape for tiling in sources for shape in tiling.shard_shapes]
    shapes += [shape for _, shape, _ in new.allocations()]
    numbered = [(first[number], copies) for number, copies in tables]
    return make_tasks(numbered, fills, new.pairs, new.domain, shapes, new.itemsize)


def _first_operands(sources: Sequence[Tiling]) -> list[int]:
    """Return the operand that is the first shard of each source."""
    counts = (len(tiling.devices) for tiling in sources)
    return list(itertools.accumulate(counts, initial=0))[:-1]


def _tables(
    parts: Sequence[Part],
    sources: Sequence[Tiling],
    numbers: Sequence[int],
    destination: Tiling,
    pairs: IntArray,
) -> list[Table]:
    """Return (source, copies) for each space in which sources are read."""
    spaces: dict[tuple[int, Side], list[Part]] = {}
    for part in parts:
        spaces.setdefault((numbers[part.source], part.read), []).append(part)
    return [
        (number, copy_space(sources[number], group, destination, pairs))
        for (number, _), group in spaces.items()
    ]


def _slots(
    sources: Sequence[Tiling],
    destination: Tiling,
    wanted: Holdings,
    volume: IntArray,
    kept: Kept,
    new: IntArray,
) -> list[Slot]:
    """Return what each device of the result gets."""
    first = _first_operands(sources)
    number = {pair: position for position, pair in enumerate(new.tolist())}
    own = [{device: i for i, device in enumerate(tiling.devices)} for tiling in sources]
    slots: list[Slot] = []
    for position, pair in enumerate(wanted.of_device.tolist()):
        shape = destination.shard_shapes[position]
        if not volume[pair]:
            slots.append((EMPTY, 0, 0, shape))
            continue
        if pair in number:
            slots.append((NEW, number[pair], 0, shape))
            continue
        source, device = int(kept.source[pair]), int(kept.device[pair])
        tiling = sources[source]
        if volume[pair] != tiling.volumes[device]:
            slots.append((VIEW, first[source] + device, int(kept.offset[pair]), shape))
            continue
        mine = own[source].get(destination.devices[position], device)
        of_device = holdings(tiling.assignment).of_device
        if of_device[mine] == of_device[device]:
            device = mine
        slots.append((WHOLE, first[source] + device, 0, shape))
    return slots
