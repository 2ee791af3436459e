"""A lower bound for the time of a move on a topology, for every plan. Pure."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from gpushard._typing import IntArray
from gpushard.testing.topology import Topology

BoolArray = npt.NDArray[np.bool_]
Box = tuple[tuple[int, int], ...]
"""(start, stop) in every dim of the global array."""


@dataclasses.dataclass(frozen=True, eq=False)
class Needs:
    """The cells of a global array that each memory domain holds, and the cells that it needs."""

    nbytes: IntArray
    """Bytes of each cell."""

    held: BoolArray
    """Whether a domain holds a cell before the move, shape (domains, cells)."""

    wanted: BoolArray
    """Whether a domain must hold a cell after the move, shape (domains, cells)."""

    written: IntArray
    """Bytes that each domain must write: those that no alias or view of its memory provides."""

    @classmethod
    def of_boxes(
        cls,
        held: Iterable[tuple[int, Box]],
        wanted: Iterable[tuple[int, Box]],
        itemsize: int,
        written: Sequence[int],
    ) -> Needs:
        """Cut the global array into cells at the edges of all boxes.

        Args:
          held: a pair (domain, box) for each block of the source.
          wanted: a pair (domain, box) for each block of the destination.
          itemsize: bytes of an element.
          written: bytes that each domain must write.

        >>> halves = [(0, ((0, 2),)), (1, ((2, 4),))]
        >>> needs = Needs.of_boxes(halves, [(0, ((0, 3),))], itemsize=4, written=[12, 0])
        >>> needs.nbytes.tolist(), needs.wanted.tolist()
        ([8, 4, 4], [[True, True, False], [False, False, False]])
        """
        held, wanted = list(held), list(wanted)
        spans = list(zip(*(box for _, box in (*held, *wanted)), strict=True))
        edges = [np.unique(np.array(span, np.int64)) for span in spans]
        lengths = (np.diff(edge) for edge in edges)
        nbytes = functools.reduce(np.multiply.outer, lengths, np.array(itemsize, np.int64))
        masks = [np.zeros((len(written), *nbytes.shape), bool) for _ in range(2)]
        for mask, places in zip(masks, (held, wanted), strict=True):
            for domain, box in places:
                cells = zip(edges, box, strict=True)
                mask[domain][tuple(slice(*edge.searchsorted(span)) for edge, span in cells)] = True
        flat = [mask.reshape(len(written), -1) for mask in masks]
        return cls(nbytes.ravel(), flat[0], flat[1], np.array(written, np.int64))

    def lacked(self, inside: Sequence[int]) -> int:
        """Count the bytes that at least one of these domains needs and none of them holds."""
        part = list(inside)
        return int(self.nbytes[self.wanted[part].any(axis=0) & ~self.held[part].any(axis=0)].sum())


def lower_bound(needs: Needs, topology: Topology) -> float:
    """Compute a lower bound for the time of a move on a topology, in seconds.

    No plan and no schedule can be faster. The bound is the maximum over all resources of the bytes
    that must use the resource, divided by its bandwidth. These bytes are the largest of:

    - the bytes that a set of domains needs and does not hold, for each set that bytes can enter
      only through the resource. For the egress of a domain, that is the set of all other domains,
      for the NIC of a host the set of its domains;
    - the sum of such bytes over sets that do not overlap;
    - the sum of the bytes to write, over the domains that write only through the resource.

    Proof: A byte that no domain of a set holds can enter the set only by a copy from outside, maybe
    after other copies. That copy uses the resource. A copy ends in one domain. So bytes that enter
    sets that do not overlap add up, and so do bytes written to different domains. A resource
    carries at most its bandwidth times the time, and no byte moves before a latency is over.

    Args:
      needs: the cells that domains hold and need.
      topology: the machine.

    >>> from gpushard.testing.topology import nvlink
    >>> spread = Needs.of_boxes([(0, ((0, 45),))], [(1, ((0, 45),))], 10_000_000, [0, 450_000_000])
    >>> round(lower_bound(spread, nvlink(2)) * 1e6)
    1010
    """
    lacked = functools.cache(needs.lacked)
    load = [
        max(
            sum(map(lacked, cuts.disjoint)),
            max(map(lacked, cuts.sets), default=0),
            int(needs.written[list(cuts.writes)].sum()),
        )
        for cuts in _cuts(topology)
    ]
    seconds = float((np.array(load) / topology.capacity[:-1]).max(initial=0.0))
    return seconds + topology.latency if seconds else 0.0


@dataclasses.dataclass(frozen=True)
class _Cuts:
    """The sets of domains that cannot avoid a resource."""

    # Sets of domains that every route from outside enters by it: the least set for each domain.
    sets: tuple[tuple[int, ...], ...]
    # Minimal sets among these; they do not overlap, since the intersection of two is such a set.
    disjoint: tuple[tuple[int, ...], ...]
    writes: tuple[int, ...]  # domains to which every route uses it, also the local one


@functools.lru_cache(maxsize=8)
def _cuts(topology: Topology) -> list[_Cuts]:
    return [_cuts_of(topology, resource) for resource in range(len(topology.bandwidth))]


def _cuts_of(topology: Topology, resource: int) -> _Cuts:
    used = (topology.table == resource).any(axis=2)
    reach = ~used | np.eye(topology.domains, dtype=bool)
    for _ in range(topology.domains.bit_length()):
        reach = reach.astype(np.float32) @ reach.astype(np.float32) > 0
    columns = [frozenset(np.flatnonzero(column).tolist()) for column in reach.T]
    sets = [inside for inside in dict.fromkeys(columns) if len(inside) < topology.domains]
    return _Cuts(
        sets=tuple(tuple(sorted(inside)) for inside in sets),
        disjoint=tuple(tuple(sorted(s)) for s in sets if not any(other < s for other in sets)),
        writes=tuple(np.flatnonzero(used.all(axis=0)).tolist()),
    )
