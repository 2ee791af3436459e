"""The least time in which a movement can be done on a topology, whatever the plan. Pure."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from gpushard.testing.topology import Topology
from gpushard.typing import IntArray

BoolArray = npt.NDArray[np.bool_]
Box = tuple[tuple[int, int], ...]
"""(start, stop) in every dim of the global array."""


@dataclasses.dataclass(frozen=True, eq=False)
class Needs:
    """Which memory domain holds what, and which wants what, in cells of the global array."""

    nbytes: IntArray
    """Bytes of each cell."""

    held: BoolArray
    """Whether a domain holds a cell before, shape (domains, cells)."""

    wanted: BoolArray
    """Whether it must hold it afterwards, likewise."""

    written: IntArray
    """Bytes that each domain must write: all that no alias or view of its memory can give."""

    @classmethod
    def of_boxes(
        cls,
        held: Iterable[tuple[int, Box]],
        wanted: Iterable[tuple[int, Box]],
        itemsize: int,
        written: Sequence[int],
    ) -> Needs:
        """Cut the global array at the edges of all boxes, so that a cell is in a box or outside.

        Args:
          held: (domain, box) of every block of the source.
          wanted: (domain, box) of every block of the destination.
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
        """Return the bytes, each counted once, that some of these domains want and none holds."""
        part = list(inside)
        return int(self.nbytes[self.wanted[part].any(axis=0) & ~self.held[part].any(axis=0)].sum())


def lower_bound(needs: Needs, topology: Topology) -> float:
    """Return a time in seconds that no plan and no schedule of it can beat on a topology.

    The largest of these, over all resources, divided by the resource's bandwidth:

    - bytes that a set S of domains lacks, where every route into S from outside uses the resource
      (the complement of such a set gives what only S's outside holds and must be let out);
    - the sum of what single domains lack, over those whose every route from another one uses it;
    - the sum of what single domains must write, over those whose every route, local ones too, does.

    Proof: A byte that no domain of S holds can come to be there only by a copy from outside,
    directly or through relays, and that copy uses the resource. A copy serves one destination
    domain, so what different domains receive or write adds up, and within one domain (or set S)
    each byte is counted once, which every plan must copy at least once. A resource carries at most
    its bandwidth times the time, and no byte moves before the latency of the first item is over.

    Args:
      needs: who holds and who wants what.
      topology: what it runs on.

    >>> from gpushard.testing.topology import nvlink
    >>> spread = Needs.of_boxes([(0, ((0, 45),))], [(1, ((0, 45),))], 10_000_000, [0, 450_000_000])
    >>> round(lower_bound(spread, nvlink(2)) * 1e6)
    1010
    """
    lacked = np.array([needs.lacked([domain]) for domain in range(topology.domains)])
    load = np.array(
        [
            max(
                lacked[list(cuts.remote)].sum(),
                needs.written[list(cuts.all)].sum(),
                *(needs.lacked(inside) for inside in cuts.sets),
            )
            for cuts in _cuts(topology)
        ]
    )
    seconds = float((load / topology.capacity[:-1]).max(initial=0.0))
    return seconds + topology.latency if seconds else 0.0


@dataclasses.dataclass(frozen=True)
class _Cuts:
    """Where a resource cannot be avoided."""

    remote: tuple[int, ...]
    """Domains whose every route from another one uses it."""

    all: tuple[int, ...]
    """Domains whose every route, local ones too, uses it."""

    sets: tuple[tuple[int, ...], ...]
    """Sets of domains whose every route from outside uses it."""


@functools.lru_cache(maxsize=8)
def _cuts(topology: Topology) -> list[_Cuts]:
    return [_cuts_of(topology, resource) for resource in range(len(topology.bandwidth))]


def _cuts_of(topology: Topology, resource: int) -> _Cuts:
    """Try the domains that the routes of a resource lead to, and all but those they come from."""
    used = (topology.table == resource).any(axis=2)
    remote = used & ~np.eye(topology.domains, dtype=bool)
    every = (used | np.eye(topology.domains, dtype=bool)).all(axis=0)
    candidates = (remote.any(axis=0), ~remote.any(axis=1))
    return _Cuts(
        remote=tuple(np.flatnonzero(every & remote.any(axis=0)).tolist()),
        all=tuple(np.flatnonzero(used.all(axis=0)).tolist()),
        sets=tuple(tuple(np.flatnonzero(c).tolist()) for c in candidates if _is_cut(used, c)),
    )


def _is_cut(used: BoolArray, inside: BoolArray) -> bool:
    crossing = used[np.ix_(~inside, inside)]
    return bool(crossing.size and crossing.all())
