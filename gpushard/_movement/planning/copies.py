"""List the box copies of a movement. Pure.

Boxes that form no grid are cut into cells at the edges of all boxes. Cells are looked up and shared
out like the blocks of a grid. In the end adjacent cells from one place are joined again.
"""

from __future__ import annotations

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.distinct_columns import distinct_columns
from gpushard._movement.planning.broadcast_tree import Wants, find_relays, may_relay
from gpushard._movement.planning.choose_holders import share_among_holders
from gpushard._movement.planning.holdings import Overlap, cells_of, within
from gpushard._typing import IntArray


@dataclass(frozen=True, eq=False)
class Copies:
    """Box copies, sorted by the domain that receives them."""

    pair: IntArray  # destination pair of each copy
    held: IntArray  # the held pair that it reads, unless it reads a new block
    # The wanted pair whose new block it reads, after that was written; -1 if it reads a held pair.
    # None if all copies read held pairs.
    read_pair: IntArray | None
    # When it runs: a relay reads a block of another domain, which was written in the wave before.
    # None without relays; then new blocks are read by their own domain only.
    wave: IntArray | None
    domain: IntArray  # domain that receives it
    source_domain: IntArray  # domain that it reads from
    # First element within the block that is read, in each mapped dim, shape (maps, copies).
    source_offset: IntArray
    destination_offset: IntArray  # first element within the destination block, of that shape
    length: IntArray  # elements in each mapped dim, of that shape

    @property
    def volume(self) -> IntArray:
        """Elements of each copy."""
        return np.asarray(np.prod(self.length, axis=0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.pair)


def expand(overlap: Overlap, pairs: IntArray, latency: float | None = None) -> Copies:
    """List the box copies that write some wanted pairs.

    There is one copy per pair and source block. If the domain lacks the block, it reads it from the
    domains that hold it. With several holders, all demands on the block are put in a line. The line
    is cut into equal ranges of bytes, one per holder. If few domains hold a block and many want it,
    it may be relayed.

    If boxes form no grid, adjacent cells that come from one place are one copy. A domain receives a
    cell once, even if several of its boxes want it.

    Args:
      overlap: wanted and held pairs.
      pairs: the wanted pairs to write.
      latency: as for `find_relays`; None for no relays.
    """
    cells = overlap.cells[pairs]
    pair = np.repeat(pairs, cells)
    run = cells_of(overlap.first[:, pairs], overlap.counts[:, pairs], cells)
    boxes = np.empty((3, *run.shape), np.int64)
    for dim, runs in enumerate(overlap.runs):
        boxes[0, dim] = runs.source_offset[run[dim]]
        boxes[1, dim] = runs.destination_offset[run[dim]]
        boxes[2, dim] = runs.length[run[dim]]
    block = overlap.source_block(run)
    if overlap.free:
        _to_positions(overlap, run, boxes)
    held, local = overlap.held.find(overlap.wanted.domain[pair], block)
    read_pair = _find_received(overlap, pair, run, local) if overlap.free else None
    wave = None
    if not local.all():
        if latency is not None and not may_relay(overlap, pairs):
            latency = None
        lacking = np.flatnonzero(~local if read_pair is None else ~local & (read_pair < 0))
        wants = Wants(pair, within(cells), block, boxes, lacking)
        pair, held, read_pair, wave, boxes = _read_lacking(overlap, wants, held, read_pair, latency)
    if overlap.free:
        assert read_pair is not None
        pair, held, read_pair, boxes = _join_cells(overlap, pair, held, read_pair, boxes)
    domain, source_domain = overlap.wanted.domain[pair], overlap.held.domain[held]
    if read_pair is not None:
        source_domain = np.where(read_pair < 0, source_domain, overlap.wanted.domain[read_pair])
    return Copies(
        pair=pair,
        held=held,
        read_pair=read_pair,
        wave=wave,
        domain=domain,
        source_domain=source_domain,
        source_offset=boxes[0],
        destination_offset=boxes[1],
        length=boxes[2],
    )


def _read_lacking(
    overlap: Overlap,
    wants: Wants,
    held: IntArray,
    read_pair: IntArray | None,
    latency: float | None,
) -> tuple[IntArray, IntArray, IntArray | None, IntArray | None, IntArray]:
    """Replace copies of blocks that a domain lacks by copies from holders, or by relays.

    Returns:
      Pair, held, read_pair, wave and boxes of all copies, sorted by pair.
    """
    pair, boxes, lacking = wants.pair, wants.boxes, wants.lacking
    present = np.delete(np.arange(len(pair)), lacking)
    relays = None if latency is None else find_relays(overlap, wants, latency)
    if relays is not None:
        lacking = np.setdiff1d(lacking, relays.replaced)
    copy, held_remote, remote = share_among_holders(overlap, lacking, wants.block, boxes)
    boxes = np.concatenate((boxes[:, :, present], remote), axis=2)
    held = np.concatenate((held[present], held_remote))
    read_pair = None if read_pair is None else np.concatenate((read_pair[present], read_pair[copy]))
    pair = np.concatenate((pair[present], pair[copy]))
    wave = None
    if relays is not None:
        read_pair = np.concatenate((np.full(len(pair), -1), relays.read_pair))
        early = np.zeros(len(copy), np.int64)
        wave = np.concatenate((relays.closing(overlap, pair[: len(present)]), early, relays.wave))
        boxes = np.concatenate((boxes, relays.boxes), axis=2)
        held = np.concatenate((held, relays.held))
        pair = np.concatenate((pair, relays.pair))
    order = np.argsort(pair, kind="stable")
    return (
        pair[order],
        held[order],
        None if read_pair is None else read_pair[order],
        None if wave is None else wave[order],
        boxes[:, :, order],
    )


def _to_positions(overlap: Overlap, run: IntArray, boxes: IntArray) -> None:
    """Change offsets within cells to positions in the arrays, in place.

    Args:
      overlap: wanted and held pairs.
      run: the run of each cell in each mapped dim, shape (maps, cells).
      boxes: source offset, destination offset and length, shape (3, maps, cells).
    """
    for dim, runs in enumerate(overlap.runs):
        boxes[0, dim] += runs.source_edges[runs.source_block[run[dim]]]
        boxes[1, dim] += runs.destination_edges[runs.destination_block[run[dim]]]


def _find_received(overlap: Overlap, pair: IntArray, run: IntArray, local: IntArray) -> IntArray:
    """Find cells that a domain would receive twice because its boxes overlap.

    Returns:
      For each cell the wanted pair of the domain that received it before; -1 if none has.
    """
    read_pair = np.full(len(pair), -1, np.int64)
    remote = np.flatnonzero(~local)
    if overlap.wanted.spans is None or not len(remote):
        return read_pair
    counts = tuple(len(runs.length) for runs in overlap.runs)
    cell = np.ravel_multi_index(tuple(run[:, remote]), counts)
    keys = np.stack((overlap.wanted.domain[pair[remote]], cell))
    first, inverse = distinct_columns(keys)
    receiver = first[inverse]
    again = receiver != np.arange(len(remote))
    read_pair[remote[again]] = pair[remote[receiver[again]]]
    return read_pair


def _join_cells(
    overlap: Overlap, pair: IntArray, held: IntArray, read_pair: IntArray, boxes: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Join adjacent cells that come from one place.

    Args:
      overlap: wanted and held pairs.
      pair: the wanted pair that each cell is written to.
      held: the held pair that each cell is read from, unless it is read from a new block.
      read_pair: the wanted pair of that new block; -1 for none.
      boxes: source position, destination position and length, shape (3, maps, cells).

    Returns:
      Pair, held, read_pair and boxes of the copies, sorted by pair; offsets are within blocks.
    """
    held = np.where(read_pair < 0, held, 0)
    rows = np.concatenate((np.stack((pair, held, read_pair)), *boxes))
    maps = len(overlap.runs)
    for dim in range(maps - 1, -1, -1):
        rows = _join_columns(rows, 3 + maps + dim, 3 + 2 * maps + dim)
    pair, held, read_pair = rows[:3]
    boxes = rows[3:].reshape(3, maps, -1).copy()
    _to_offsets(overlap, pair, held, read_pair, boxes)
    return pair, held, read_pair, boxes


def _join_columns(rows: IntArray, start: int, length: int) -> IntArray:
    """Join columns that continue one another along a dim and agree in all other rows.

    Args:
      rows: one column for each box.
      start: the row of the position in the dim. The row of the source position in that dim need not
        agree: it follows from the other rows, and the first of joined columns gives it.
      length: the row of the length in the dim.
    """
    maps = (len(rows) - 3) // 3
    source = start - maps
    others = [row for at, row in enumerate(rows) if at not in (start, length, source)]
    order = np.lexsort((rows[start], *reversed(others)))
    rows = rows[:, order]
    alike = np.ones(max(rows.shape[1] - 1, 0), bool)
    for at, row in enumerate(rows):
        if at not in (start, length, source):
            alike &= row[1:] == row[:-1]
    alike &= rows[start, 1:] == (rows[start] + rows[length])[:-1]
    first = np.flatnonzero(np.concatenate(([True], ~alike)))[: rows.shape[1]]
    result = rows[:, first]
    if len(first):
        result[length] = np.add.reduceat(rows[length], first)
    return result


def _to_offsets(
    overlap: Overlap, pair: IntArray, held: IntArray, read_pair: IntArray, boxes: IntArray
) -> None:
    """Change positions in the arrays to offsets within blocks, in place."""
    of, to = overlap.held.home[held], overlap.wanted.home
    again = read_pair >= 0
    for dim, runs in enumerate(overlap.runs):
        if runs.map.destination is not None:
            starts = overlap.destination.starts[runs.map.destination]
            offset = boxes[1, dim] - starts[to[read_pair]]
            boxes[1, dim] -= starts[to[pair]]
        else:
            offset = boxes[1, dim]
        if runs.map.source is not None:
            boxes[0, dim] -= overlap.source.starts[runs.map.source][of]
        boxes[0, dim] = np.where(again, offset, boxes[0, dim])
