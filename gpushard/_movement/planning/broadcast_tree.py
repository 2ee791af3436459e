"""Relays: domains that want a box pass it on to one another. Pure.

If few domains hold a box and many want it, and each reads it from the holders, the links out of the
holders are the limit. With relays the holders send each byte about once. The domains that want a
box are divided into neighbourhoods: runs of domain numbers, as near numbers tend to be near in the
machine. The box goes from neighbourhood to neighbourhood, and each member receives an equal part of
it. Within a neighbourhood the members read the parts of one another. So all links carry about the
same load, and a slow link between neighbourhoods carries each byte once. The box is cut into
chunks, which follow each other in *waves*: in each wave, a domain reads elements that other domains
received in the wave before.

Every domain still writes and receives each element once; it only reads from other domains. Within
neighbourhoods this is the broadcast by scatter and all-gather (M. Barnett et al., the InterCom
library, 1994); between them it is a pipelined chain.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpushard._frozen import dataclass
from gpushard._movement.planning.dim_maps import cut_dim, cut_rows
from gpushard._movement.planning.holdings import Overlap, within
from gpushard._typing import IntArray

_CHUNKS = (1, 2, 3, 4, 6, 8, 12, 16)  # numbers of chunks that the search tries for relayed boxes
_ENOUGH_ROWS = 256
"""A dim this long is cut rather than a longer, later one: that one has shorter rows in memory."""

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Wants:
    """The copies of wanted pairs, one per pair and source block, before holders are chosen."""

    pair: IntArray  # the wanted pair of each copy
    number: IntArray  # the number of each copy among those of its pair
    block: IntArray  # the source block that each reads
    # Source offset, destination offset and length in each mapped dim, shape (3, maps, copies).
    boxes: IntArray
    lacking: IntArray  # the copies that read a block which their domain lacks


@dataclass(frozen=True, eq=False)
class Relays:
    """Box copies, in waves, that replace some copies from holders."""

    replaced: IntArray  # the copies that they replace
    pair: IntArray  # wanted pair that each writes
    held: IntArray  # the held pair that each reads, unless it reads a new block
    # The wanted pair of another domain, if each reads the new block of that; -1 if it does not.
    read_pair: IntArray
    wave: IntArray  # when it runs: after the new block that it reads was written, a wave before
    # As in `Wants`. A copy of a new block has its destination offset as its source offset.
    boxes: IntArray

    def closing(self, overlap: Overlap, pair: IntArray) -> IntArray:
        """Choose waves for copies within a domain: after its last relay, as no domain waits."""
        domain = overlap.wanted.domain
        last = np.full(int(domain.max()) + 1, -1)
        np.maximum.at(last, domain[self.pair], self.wave)
        return np.asarray(np.minimum(last[domain[pair]] + 1, self.wave.max()))


@dataclass(frozen=True, eq=False)
class _Box:
    """A box that several domains want and lack."""

    copy: int  # one of the copies of this box
    pairs: IntArray  # wanted pairs of all copies of this box, ascending
    holders: IntArray  # held pairs that contain it
    rows: int  # rows of the dim along which it is cut


def may_relay(overlap: Overlap, pairs: IntArray) -> bool:
    """Whether some wanted pairs belong to a domain that holds nothing of the source.

    If there is no such domain, each holds a part of the source, and the links of all are in use
    already. Boxes that form no grid are never relayed.
    """
    held = overlap.held.in_domains(overlap.wanted.domain[pairs])[1]
    return not overlap.free and bool(overlap.runs) and not held.all()


def find_relays(overlap: Overlap, wants: Wants, latency: float) -> Relays | None:
    """Plan relays, if they take less time than reading all boxes from the holders.

    The time is the sum over waves of that of the busiest domain and a latency. A box is relayed if
    more domains lack it than hold it, and one of them holds nothing of the source.

    Args:
      overlap: wanted and held pairs.
      wants: the copies.
      latency: time of a wave without any bytes, as the elements that a domain receives meanwhile.

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
    pair, held, read_pair, wave, copy, low, high = _hops(overlap, boxes, chunks)
    cut = wants.boxes[:, :, copy]
    cut_rows(overlap.map_steps, cut, _dim(cut[2]), low, high)
    cut[0] = np.where(read_pair < 0, cut[0], cut[1])
    return Relays(replaced, pair, held, read_pair, wave, cut)


def _shared_boxes(overlap: Overlap, wants: Wants) -> tuple[list[_Box], IntArray]:
    """Find the boxes to relay, and the copies that they would replace."""
    lacking = wants.lacking
    pair, block = wants.pair[lacking], wants.block[lacking]
    most = int(wants.number.max()) + 1
    box_keys = overlap.wanted.block[pair] * most + wants.number[lacking]
    _, group, wanting = np.unique(box_keys, return_inverse=True, return_counts=True)
    _, order, first, holders = overlap.held.holders(block)
    empty = overlap.held.in_domains(overlap.wanted.domain[pair])[1] == 0
    chosen = (np.bincount(group, empty) > 0)[group] & (wanting[group] > holders[block])
    at = np.flatnonzero(chosen)
    at = at[np.argsort(group[at], kind="stable")]
    if not len(at):
        return [], lacking[at]
    edges = np.flatnonzero(np.diff(group[at])) + 1
    boxes = []
    for members in np.split(at, edges):
        copy, number = int(lacking[members[0]]), int(block[members[0]])
        length = wants.boxes[2][:, copy]
        held = order[first[number] : first[number] + holders[number]]
        boxes.append(_Box(copy, pair[members], held, int(length[_dim(length[:, None])[0]])))
    return boxes, np.sort(lacking[at])


def _dim(length: IntArray) -> IntArray:
    return cut_dim(length, _ENOUGH_ROWS)


def _hops(overlap: Overlap, boxes: list[_Box], chunks: int) -> IntArray:
    """List all copies that relay boxes, as columns.

    Returns:
      Rows of: wanted pair, held pair, pair whose new block is read (or -1), wave, copy of the box,
      first row of the box, row after the last.
    """
    size = _neighbourhood_size(int(overlap.wanted.domain.max()) + 1)
    hops_of_shares = []
    for box in boxes:
        shares = len(box.holders)
        for share, holder in enumerate(box.holders.tolist()):
            groups = _ring(overlap, box.pairs, holder, size)
            low, high = (box.rows * n // shares for n in (share, share + 1))
            most = max(map(len, groups))
            count = max(1, min(chunks, (high - low) // most))
            edges = low + (high - low) * np.arange(count + 1) // count
            hops = _send_chunks(groups, edges)
            head = np.full((1, hops.shape[1]), holder), np.full((1, hops.shape[1]), box.copy)
            hops_of_shares.append(np.concatenate((hops[:1], head[0], hops[1:3], head[1], hops[3:])))
    return np.concatenate(hops_of_shares, axis=1)


def _neighbourhood_size(domains: int) -> int:
    """Choose the size of a neighbourhood: about the root of all domains, a power of 2, 4 or more.

    >>> [_neighbourhood_size(n) for n in (2, 8, 16, 17, 64, 100)]
    [4, 4, 4, 8, 8, 16]
    """
    size = 4
    while size * size < domains:
        size *= 2
    return size


def _ring(overlap: Overlap, pairs: IntArray, holder: int, size: int) -> list[IntArray]:
    """Divide wanted pairs into neighbourhoods, from the holder's on in ascending order."""
    place = overlap.wanted.domain[pairs] // size
    start = overlap.held.domain[holder] // size
    turn = (place - start) % (max(int(place.max()), int(start)) + 1)
    order = np.argsort(turn, kind="stable")
    return np.split(pairs[order], np.flatnonzero(np.diff(turn[order])) + 1)


def _send_chunks(groups: list[IntArray], edges: IntArray) -> IntArray:
    """Send chunks through neighbourhoods, and round within each.

    Args:
      groups: wanted pairs of each neighbourhood.
      edges: rows where chunks begin and end.

    Returns:
      Rows of: wanted pair, pair whose new block is read (or -1), wave, first row, row after the
      last.
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
    """List copies that are not empty; `low` and `high` have shape (chunks, sources, readers)."""
    at = high > low
    to, of, wave = np.broadcast_arrays(to[None, None], of[None, :, None], wave + 0 * low)
    return np.stack([rows[at] for rows in (to, of, wave, low, high)])


def _direct_loads(overlap: Overlap, wants: Wants, copies: IntArray, volume: IntArray) -> FloatArray:
    """Count the elements into and out of each domain if copies read from the holders."""
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
    """Count the elements into and out of each domain in each wave, shape (waves, 2, domains)."""
    pair, held, read_pair, wave, copy, low, high = hops
    length = wants.boxes[2][:, copy]
    rows = length[_dim(length), np.arange(len(copy))]
    elements = length.prod(axis=0) // rows * (high - low)
    to = overlap.wanted.domain[pair]
    of = np.where(read_pair < 0, overlap.held.domain[held], overlap.wanted.domain[read_pair])
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
    """Estimate the time of all waves if relayed boxes are cut into chunks.

    Chunk n does in wave w + n what the whole box would do in wave w. Direct copies count in wave 0
    for domains that receive relays; other domains make them during all waves.
    """
    sums = np.concatenate((np.zeros_like(loads[:1]), np.cumsum(loads, axis=0)))
    wave = np.arange(1, len(loads) + chunks)
    load = (sums[np.minimum(wave, len(loads))] - sums[np.maximum(wave - chunks, 0)]) / chunks
    load[0] += direct * loads[:, 0].any(axis=0)
    return max(float(load.max(axis=(1, 2)).sum()), float(direct.max())) + latency * len(load)
