"""Work that is no plan: what other choices of who reads from whom would give on a topology.

Bytes may be split at will here, so that a figure says what a choice could give at best.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpushard.testing import Needs, Topology, Work, simulate

CHUNKS = (1, 4, 16)
"""Into how many parts `shared` may cut what it passes on."""

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


def nearest(needs: Needs, topology: Topology) -> float:
    """Return the time if every domain reads what it lacks from the holders nearest to it.

    Near is what has a route over few resources. Several holders share what is read of a cell
    equally.
    """
    flows = _from_nearest(needs, _distances(topology), needs.wanted & ~needs.held)
    flows += np.diag(needs.written - flows.sum(axis=0))
    return simulate(_items("read", flows), topology).makespan


def shared(needs: Needs, topology: Topology) -> float:
    """Return the time if neighbours fetch together what all of them lack, and then exchange it.

    Neighbours are the domains that are nearest to one another, such as those of a host. Of a cell
    that none of them holds, each of those that want it fetches an equal part and gives it to the
    others, in chunks, so that fetching and giving overlap; the best number of chunks counts.
    """
    distance = _distances(topology)
    groups = _neighbours(distance)
    lacked = needs.wanted & ~needs.held
    absent = lacked & ~_any_neighbour(groups, needs.held)
    near = _from_nearest(needs, distance, lacked & ~absent)
    among = np.where(absent, groups.astype(int) @ absent, 1)  # how many fetch a cell together
    far = _from_nearest(needs, distance, absent, 1 / among)
    parts = absent * needs.nbytes / among
    given = (parts @ absent.T) * (groups & ~np.eye(len(groups), dtype=bool))
    near += np.diag(needs.written - (near + far + given).sum(axis=0))
    times = []
    for chunks in CHUNKS:
        work = _items("read", near)
        work += [w for i in range(chunks) for w in _items("fetch", far / chunks, i + 1)]
        for i in range(chunks):
            for item in _items("give", given / chunks, i + 1):
                waits = tuple((("fetch", source), i + 1) for source, _ in item.flows)
                work.append(Work(item.stream, item.tick, waits, item.flows))
        times.append(simulate(work, topology).makespan)
    return min(times)


def _distances(topology: Topology) -> npt.NDArray[Any]:
    distance = np.zeros((topology.domains, topology.domains), np.int64)
    for pair, route in topology.routes.items():
        distance[pair] = len(route)
    return distance


def _neighbours(distance: npt.NDArray[Any]) -> BoolArray:
    """Return which domains are neighbours; each is its own."""
    remote = distance[~np.eye(len(distance), dtype=bool)]
    return np.asarray(distance <= remote.min(initial=np.iinfo(np.int64).max))


def _any_neighbour(groups: BoolArray, cells: BoolArray) -> BoolArray:
    return np.asarray(groups.astype(int) @ cells > 0)


def _from_nearest(
    needs: Needs, distance: npt.NDArray[Any], cells: BoolArray, part: Any = 1
) -> FloatArray:
    """Return the bytes from each domain to each if the given cells are read from near holders."""
    flows = np.zeros(distance.shape)
    nbytes = needs.nbytes * part * cells
    for domain in range(len(cells)):
        far = np.where(needs.held, distance[:, domain, None], np.iinfo(np.int64).max)
        near = far == far.min(axis=0)
        flows[:, domain] = near @ (nbytes[domain] / near.sum(axis=0))
    return flows


def _items(name: str, flows: FloatArray, tick: int = 1) -> list[Work]:
    """Return one item for each domain that something flows to."""
    nbytes = flows.round().astype(np.int64)
    items = []
    for domain in np.flatnonzero(nbytes.any(axis=0)).tolist():
        sources = np.flatnonzero(nbytes[:, domain]).tolist()
        pairs = {(source, domain): int(nbytes[source, domain]) for source in sources}
        items.append(Work((name, domain), tick, flows=pairs))
    return items
