"""The plan of one movement: what is aliased, viewed, copied and sent. Pure.

A destination block that a memory domain already holds is aliased or viewed; everything else is
written once per domain, and only what the domain lacks is received. Both amounts are the least:

- W(M): elements of the distinct destination boxes of domain M that are neither aliased nor viewed;
- R(M): distinct source elements that those boxes read and that no device of M holds.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from gpushard.geometry.tiling import Tiling
from gpushard.movement.copies import Copies, expand
from gpushard.movement.crossings import count_crossings
from gpushard.movement.dim_map import Piece
from gpushard.movement.overlap import Overlap, overlap, volumes
from gpushard.movement.recipe import Recipe
from gpushard.movement.relays import may_relay
from gpushard.movement.reuse import COPY, copy_all, find_reuse
from gpushard.typing import Device, IntArray

_KINDS = ("aliased", "viewed", "copied", "empty")


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """How an array gets from one tiling to another. Make one with `make_plan`."""

    source: Tiling
    """Tiling of the source."""

    destination: Tiling
    """Tiling of the destination."""

    piece: Piece
    """Where the elements of the destination come from."""

    itemsize: int
    """Bytes of an element."""

    overlap: Overlap
    """Who holds and who wants which block; the pairs below are the wanted ones."""

    kind: IntArray
    """ALIAS, VIEW, COPY or EMPTY for each pair."""

    reused: IntArray
    """For an aliased or viewed pair, the held pair that it reuses; 0 for others."""

    relay_bytes: int | None
    """Bytes that a domain could receive in the time of one more wave; None if nothing may be
    relayed."""

    engine_bytes: int | None = None
    """Bytes from which a dense box goes from one domain to another by a copy engine; None where
    there are none."""

    @functools.cached_property
    def copied(self) -> IntArray:
        """The pairs that are written."""
        return np.flatnonzero(self.kind == COPY)

    @functools.cached_property
    def domains(self) -> list[int]:
        """The memory domains that want something, ascending."""
        return [int(domain) for domain in np.unique(self.overlap.wanted.domain)]

    @functools.cached_property
    def written(self) -> dict[int, int]:
        """W: bytes that each domain writes."""
        return self._per_domain(self.overlap.volume[self.copied])

    @functools.cached_property
    def received(self) -> dict[int, int]:
        """R: bytes that each domain receives from others."""
        return self._per_domain(self._received_volume())

    @property
    def bytes_written(self) -> int:
        """W over all domains."""
        return sum(self.written.values())

    @property
    def bytes_received(self) -> int:
        """R over all domains."""
        return sum(self.received.values())

    @functools.cached_property
    def copies(self) -> Copies:
        """Every box copy; made when first asked for."""
        latency = None if self.relay_bytes is None else self.relay_bytes / self.itemsize
        return expand(self.overlap, self.copied, latency)

    @functools.cached_property
    def relays(self) -> int:
        """How many box copies read what another domain has received in the wave before."""
        made = self.copies.made
        return 0 if made is None or self.copies.wave is None else int((made >= 0).sum())

    @property
    def waves(self) -> int:
        """In how many waves the copies are made, one after the other; 1 without relays."""
        return 1 if self.copies.wave is None else int(self.copies.wave.max()) + 1

    @functools.cached_property
    def recipe(self) -> Recipe:
        """The plan as Python objects, ready to run."""
        return Recipe(self)

    @functools.cached_property
    def link_bytes(self) -> dict[tuple[int, int], int]:
        """Bytes over each (source domain, destination domain), local copies included."""
        copies = self.copies
        domains = int(max(copies.source_domain.max(initial=0), copies.domain.max(initial=0))) + 1
        keys = copies.source_domain * domains + copies.domain
        links, inverse = np.unique(keys, return_inverse=True)
        sums = np.bincount(inverse, copies.volume, len(links)).astype(np.int64) * self.itemsize
        pairs = zip(links.tolist(), sums.tolist(), strict=True)
        return {divmod(link, domains): nbytes for link, nbytes in pairs}

    @functools.cached_property
    def peak(self) -> dict[Device, int]:
        """Bytes that each device holds at most while the plan runs: sources and new blocks."""
        held, wanted = self.overlap.held, self.overlap.wanted
        sources, targets = self.source.devices, self.destination.devices
        before = np.bincount(held.home, volumes(held, self.source), len(sources))
        new = self.overlap.volume[self.copied]
        after = np.bincount(wanted.home[self.copied], new, len(targets))
        if sources == targets:
            before, after = before + after, after[:0]
        peak = dict(zip(sources, (before.astype(np.int64) * self.itemsize).tolist(), strict=True))
        for device, nbytes in zip(targets, (after * self.itemsize).tolist(), strict=False):
            peak[device] = peak.get(device, 0) + int(nbytes)
        return peak

    @property
    def nbytes(self) -> int:
        """Bytes that this plan takes once expanded, about."""
        copies = int(self.overlap.cells[self.copied].sum())
        if self.relay_bytes is not None and may_relay(self.overlap, self.copied):
            copies = len(self.copies)
        return 4000 + 200 * len(self.kind) + copies * (600 + 100 * len(self.overlap.runs))

    def explain(self) -> str:
        """Describe the plan in a few lines of text."""
        counts = np.bincount(self.kind, minlength=len(_KINDS)).tolist()
        blocks = ", ".join(f"{n} {name}" for n, name in zip(counts, _KINDS, strict=True) if n)
        lines = [
            f"move {self.source.shape} on {len(self.source.devices)} devices to "
            f"{self.destination.shape} on {len(self.destination.devices)} devices in "
            f"{len(self.domains)} memory domains",
            f"  blocks, once per domain: {blocks}",
            f"  written: {self.bytes_written:,} bytes, the least possible",
            f"  received from other domains: {self.bytes_received:,} bytes, the least possible",
            f"  peak: {max(self.peak.values()):,} bytes on one device",
        ]
        between = {link: n for link, n in self.link_bytes.items() if link[0] != link[1]}
        if between:
            link, most = max(between.items(), key=lambda entry: entry[1])
            lines.append(
                f"  links: {len(between)} between domains, the busiest {link[0]} -> {link[1]} with "
                f"{most:,} bytes"
            )
        if between and self.engine_bytes is not None:
            engines, kernels = count_crossings(self, self.engine_bytes)
            lines.append(
                f"  between domains: {engines:,} dense boxes of at least {self.engine_bytes:,} "
                f"bytes by copy engines, {kernels:,} boxes by kernels"
            )
        if self.relays:
            lines.append(
                f"  relayed: {self.relays:,} of {len(self.copies):,} box copies read what another "
                f"domain received before, in {self.waves} waves"
            )
        return "\n".join(lines)

    def _per_domain(self, copied_volume: IntArray) -> dict[int, int]:
        domain = self.overlap.wanted.domain[self.copied]
        sums = np.bincount(domain, copied_volume, max(self.domains) + 1).astype(np.int64)
        return {domain: int(sums[domain]) * self.itemsize for domain in self.domains}

    def _received_volume(self) -> IntArray:
        """Elements that each copied pair receives, without expansion where that is shorter."""
        held, wanted = self.overlap.held, self.overlap.wanted
        start, count = held.in_domains(wanted.domain[self.copied])
        if self.overlap.free or count.sum() > self.overlap.cells[self.copied].sum():
            remote = self.copies.source_domain != self.copies.domain
            pair, volume = self.copies.pair[remote], self.copies.volume[remote]
            return np.bincount(pair, volume, len(self.kind)).astype(np.int64)[self.copied]
        pair = np.repeat(np.arange(len(self.copied)), count)
        within = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count)
        present = self.overlap.volume_between(self.copied[pair], start[pair] + within)
        sums = np.bincount(pair, present, len(self.copied)).astype(np.int64)
        return np.asarray(self.overlap.volume[self.copied] - sums)


def make_plan(
    source: Tiling,
    destination: Tiling,
    piece: Piece,
    itemsize: int,
    root_nbytes: int = 0,
    *,
    reuse: bool = True,
    relay_bytes: int | None = None,
    engine_bytes: int | None = None,
) -> Plan:
    """Plan a movement.

    Args:
      source: tiling of the source.
      destination: tiling of the destination, of the piece's shape.
      piece: where the elements of the destination come from.
      itemsize: bytes of an element.
      root_nbytes: bytes of the largest root allocation of the source, where that is more than a
        shard (the source is a view itself).
      reuse: whether blocks may be aliased and viewed; if not, all are written.
      relay_bytes: bytes that a domain could receive in the time of one more item of work, by which
        it is decided whether and how to relay; None for no relays.
      engine_bytes: bytes from which a dense box goes between domains by a copy engine; None where
        there are none.

    Returns:
      The plan; it meets both bounds.

    >>> from gpushard.geometry.mesh import Mesh
    >>> from gpushard.geometry.partition_spec import P
    >>> from gpushard.geometry.named_sharding import NamedSharding
    >>> from gpushard.movement.dim_map import identity
    >>> mesh = Mesh(["a", "b"], "x")
    >>> rows, columns = (NamedSharding(mesh, s).tiling((4, 4)) for s in (P("x"), P(None, "x")))
    >>> plan = make_plan(rows, columns, identity((4, 4)), itemsize=4)
    >>> plan.bytes_written, plan.bytes_received
    (64, 32)
    """
    cut = overlap(source, destination, piece)
    if reuse:
        kind, reused = find_reuse(cut, piece, itemsize, root_nbytes)
    else:
        kind, reused = copy_all(cut)
    return Plan(source, destination, piece, itemsize, cut, kind, reused, relay_bytes, engine_bytes)
