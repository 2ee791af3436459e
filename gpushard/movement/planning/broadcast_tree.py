"""Relays: what few domains hold and many want is passed on among those that want it. Pure.

Where every domain reads all that it lacks from the holders, the links out of these are the limit.
With relays the holders send each byte about once. The domains that want the same box are divided
into neighbourhoods, runs of domain numbers, as near numbers tend to be near one another. The box
goes from neighbourhood to neighbourhood, each member taking in an equal part of it, and within one
the members read the parts of one another. So every link carries about as much as every other, and
a slow link between neighbourhoods carries each byte once. All of it happens in chunks, in *waves*:
in each wave a domain reads what others have received in the wave before.

Every domain still writes and receives each element once; only whom it reads from changes. This is
the broadcast by scatter and all-gather (M. Barnett et al., the InterCom library, 1994) within
neighbourhoods, and a pipelined chain between them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpushard.frozen import dataclass
from gpushard.movement.planning.dims import cut_dim, cut_rows
from gpushard.movement.planning.holders import Overlap, within
from gpushard.typing import IntArray

_CHUNKS = (1, 2, 3, 4, 6, 8, 12, 16)  # into how many chunks what is relayed may be cut
_ENOUGH_ROWS = 256
"""A dim this long is cut rather than a longer, later one, whose rows are shorter in memory."""

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Wants:
    """Who lacks which source block, one entry ("copy") per wanted pair and block."""

    pair: IntArray  # the wanted pair of each copy
    number: IntArray  # which copy of its pair each is
    block: IntArray  # the source block that each reads
    # Source offset, destination offset and length in each mapped dim, shape (3, maps, copies).
    boxes: IntArray
    lacking: IntArray  # the copies that read a block which their domain lacks


@dataclass(frozen=True, eq=False)
class Relays:
    """Box copies, in waves, in place of some that would all be read from holders."""

    replaced: IntArray  # the copies that they replace
    pair: IntArray  # wanted pair that each writes
    held: IntArray  # the held pair that each reads, unless `made` says otherwise
    made: IntArray  # the wanted pair of another domain whose new block each reads; -1 for none
    wave: IntArray  # when: it reads what was written in the wave before
    # As in `Wants`. A copy of a new block has its destination offset as its source offset.
    boxes: IntArray

    def closing(self, overlap: Overlap, pair: IntArray) -> IntArray:
        """Return the waves for copies within a domain: when nobody waits for it any more."""
        domain = overlap.wanted.domain
        last = np.full(int(domain.max()) + 1, -1)
        np.maximum.at(last, domain[self.pair], self.wave)
        return np.asarray(np.minimum(last[domain[pair]] + 1, self.wave.max()))


@dataclass(frozen=True, eq=False)
class _Box:
    """A box that several domains want and lack."""

    copy: int  # one of the copies that want it
    pairs: IntArray  # wanted pairs of all of them, ascending
    holders: IntArray  # held pairs that have it
    rows: int  # rows along the dim that it is cut along


def may_relay(overlap: Overlap, pairs: IntArray) -> bool:
    """Whether some of the wanted pairs are of a domain that holds nothing of the source.

    Without one, all domains are holders of something already and their links are used as they are.
    Boxes that form no grid are never relayed.
    """
    held = overlap.held.in_domains(overlap.wanted.domain[pairs])[1]
    return not overlap.free and bool(overlap.runs) and not held.all()


def find_relays(overlap: Overlap, wants: Wants, latency: float) -> Relays | None:
    """Plan relays, if they take less time than it takes to read all from the holders.

    The time is that of the busiest domain of each wave and a latency per wave. A box is relayed if
    more domains lack it than hold it and one of them holds nothing of the source.

    Args:
      overlap: wanted and held pairs.
      wants: what is copied.
      latency: time that a wave takes besides, as the elements that a domain receives in that time.

    Returns:
      The relays, or None.
    """
    volume = wants.boxes[2].prod(axis=0)
    direct = _direct_loads(overlap, wants, wants.lacking, volume)
    least = float(direct.max()) + latency
    if least <= direct[0].max() + 2 * latency:
        return None
    boxes, replaced = _shared_boxes(overlap, wants)
    if not boxes:
        return None
    others = np.setdiff1d(wants.lacking, replaced)
    loads = _wave_loads(overlap, wants, _hops(overlap, boxes, 1))
    direct = _direct_loads(overlap, wants, others, volume)
    times = [_time(direct, loads, chunks, latency) for chunks in _CHUNKS]
    if min(times) >= least:
        return None
    chunks = _CHUNKS[int(np.argmin(times))]
    pair, held, made, wave, copy, low, high = _hops(overlap, boxes, chunks)
    cut = wants.boxes[:, :, copy]
    cut_rows(overlap.map_steps, cut, _dim(cut[2]), low, high)
    cut[0] = np.where(made < 0, cut[0], cut[1])
    return Relays(replaced, pair, held, made, wave, cut)


def _shared_boxes(overlap: Overlap, wants: Wants) -> tuple[list[_Box], IntArray]:
    """Return the boxes to relay, and the copies that want them."""
    lacking = wants.lacking
    pair, block = wants.pair[lacking], wants.block[lacking]
    most = int(wants.number.max()) + 1
    same = overlap.wanted.block[pair] * most + wants.number[lacking]
    _, group, wanting = np.unique(same, return_inverse=True, return_counts=True)
    _, order, first, holders = overlap.held.holders(block)
    empty = overlap.held.in_domains(overlap.wanted.domain[pair])[1] == 0
    chosen = (np.bincount(group, empty) > 0)[group] & (wanting[group] > holders[block])
    at = np.flatnonzero(chosen)
    at = at[np.argsort(group[at], kind="stable")]
    if not len(at):
        return [], lacking[at]
    edges = np.flatnonzero(np.diff(group[at])) + 1
    found = []
    for members in np.split(at, edges):
        copy, number = int(lacking[members[0]]), int(block[members[0]])
        length = wants.boxes[2][:, copy]
        held = order[first[number] : first[number] + holders[number]]
        found.append(_Box(copy, pair[members], held, int(length[_dim(length[:, None])[0]])))
    return found, np.sort(lacking[at])


def _dim(length: IntArray) -> IntArray:
    return cut_dim(length, _ENOUGH_ROWS)


def _hops(overlap: Overlap, boxes: list[_Box], chunks: int) -> IntArray:
    """Return all copies that relay boxes, one row for each fact: as `Relays`, its box as rows.

    Returns:
      Rows of: wanted pair, held pair, made pair, wave, copy of the box, first row, row after the
      last.
    """
    size = _neighbours(int(overlap.wanted.domain.max()) + 1)
    hops_of_shares = []
    for box in boxes:
        shares = len(box.holders)
        for share, holder in enumerate(box.holders.tolist()):
            groups = _ring(overlap, box.pairs, holder, size)
            low, high = (box.rows * n // shares for n in (share, share + 1))
            most = max(map(len, groups))
            count = max(1, min(chunks, (high - low) // most))
            edges = low + (high - low) * np.arange(count + 1) // count
            hops = _through(groups, edges)
            head = np.full((1, hops.shape[1]), holder), np.full((1, hops.shape[1]), box.copy)
            hops_of_shares.append(np.concatenate((hops[:1], head[0], hops[1:3], head[1], hops[3:])))
    return np.concatenate(hops_of_shares, axis=1)


def _neighbours(domains: int) -> int:
    """Return how many domains are a neighbourhood: about the root of all, a power of 2, 4 or more.

    >>> [_neighbours(n) for n in (2, 8, 16, 17, 64, 100)]
    [4, 4, 4, 8, 8, 16]
    """
    size = 4
    while size * size < domains:
        size *= 2
    return size


def _ring(overlap: Overlap, pairs: IntArray, holder: int, size: int) -> list[IntArray]:
    """Divide wanted pairs into neighbourhoods, from that of a holder on in ascending order."""
    place = overlap.wanted.domain[pairs] // size
    start = overlap.held.domain[holder] // size
    turn = (place - start) % (max(int(place.max()), int(start)) + 1)
    order = np.argsort(turn, kind="stable")
    return np.split(pairs[order], np.flatnonzero(np.diff(turn[order])) + 1)


def _through(groups: list[IntArray], edges: IntArray) -> IntArray:
    """Send chunks through neighbourhoods, and round within each.

    Args:
      groups: wanted pairs of each neighbourhood.
      edges: rows where chunks begin and end.

    Returns:
      Rows of: wanted pair, made pair, wave, first row, row after the last.
    """
    start, length = edges[:-1, None], np.diff(edges)[:, None]
    chunk = np.arange(len(start))[:, None, None]
    before, parts_before = np.array([-1]), np.stack((edges[:-1], edges[1:]), axis=1)
    hops = []
    for turn, group in enumerate(groups):
        parts = start + length * np.arange(len(group) + 1) // len(group)
        low = np.maximum(parts_before[:, :-1, None], parts[:, None, :-1])
        high = np.minimum(parts_before[:, 1:, None], parts[:, None, 1:])
        hops.append(_rows(group, before, chunk + turn, low, high))
        other = ~np.eye(len(group), dtype=bool)
        low, high = parts[:, :-1, None] * other, parts[:, 1:, None] * other
        hops.append(_rows(group, group, chunk + turn + 1, low, high))
        before, parts_before = group, parts
    return np.concatenate(hops, axis=1)


def _rows(to: IntArray, of: IntArray, wave: IntArray, low: IntArray, high: IntArray) -> IntArray:
    """List the copies that have rows, of arrays of shape (chunks, readers of, readers to)."""
    at = high > low
    to, of, wave = np.broadcast_arrays(to[None, None], of[None, :, None], wave + 0 * low)
    return np.stack([rows[at] for rows in (to, of, wave, low, high)])


def _direct_loads(overlap: Overlap, wants: Wants, copies: IntArray, volume: IntArray) -> FloatArray:
    """Return the elements into and out of each domain if copies are read from the holders."""
    block = wants.block[copies]
    _, order, first, counts = overlap.held.holders(block)
    holders, elements = counts[block], volume[copies]
    holder = order[np.repeat(first[block], holders) + within(holders)]
    return _loads(
        overlap,
        (overlap.wanted.domain[wants.pair[copies]], elements),
        (overlap.held.domain[holder], np.repeat(elements / holders, holders)),
    )


def _wave_loads(overlap: Overlap, wants: Wants, hops: IntArray) -> FloatArray:
    """Return the elements into and out of each domain in each wave, shape (waves, 2, domains)."""
    pair, held, made, wave, copy, low, high = hops
    length = wants.boxes[2][:, copy]
    rows = length[_dim(length), np.arange(len(copy))]
    elements = length.prod(axis=0) // rows * (high - low)
    to = overlap.wanted.domain[pair]
    of = np.where(made < 0, overlap.held.domain[held], overlap.wanted.domain[made])
    loads = []
    for n in range(int(wave.max()) + 1):
        now = wave == n
        loads.append(_loads(overlap, (to[now], elements[now]), (of[now], elements[now])))
    return np.stack(loads)


def _loads(
    overlap: Overlap,
    arriving: tuple[IntArray, IntArray],
    leaving: tuple[IntArray, IntArray | FloatArray],
) -> FloatArray:
    domains = int(max(overlap.wanted.domain.max(), overlap.held.domain.max())) + 1
    return np.stack([np.bincount(*side, domains) for side in (arriving, leaving)])


def _time(direct: FloatArray, loads: FloatArray, chunks: int, latency: float) -> float:
    """Return the time of all waves if what is relayed is cut into chunks.

    Chunk n does in wave w + n what the whole would have done in wave w. Direct copies are part of
    wave 0 in domains that are relayed to, and run beside all waves in others.
    """
    sums = np.concatenate((np.zeros_like(loads[:1]), np.cumsum(loads, axis=0)))
    wave = np.arange(1, len(loads) + chunks)
    load = (sums[np.minimum(wave, len(loads))] - sums[np.maximum(wave - chunks, 0)]) / chunks
    load[0] += direct * loads[:, 0].any(axis=0)
    return max(float(load.max(axis=(1, 2)).sum()), float(direct.max())) + latency * len(load)
