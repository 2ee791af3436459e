"""Who copies what from whom: the overlaps as box copies, with a holder for each. Pure.

Boxes that form no grid are cut into cells at the edges of all boxes. Cells are found and shared out
like the blocks of a grid; they get their places within boxes, and are put together again.
"""

from __future__ import annotations

import numpy as np

from gpushard.frozen import dataclass
from gpushard.geometry.columns import distinct_columns
from gpushard.movement.planning.broadcast_tree import Wants, find_relays, may_relay
from gpushard.movement.planning.dims import cut_dim, cut_rows
from gpushard.movement.planning.holders import Overlap, cells_of, within
from gpushard.typing import IntArray

_ROWS_WORTH_CUTTING = 16


@dataclass(frozen=True, eq=False)
class Copies:
    """Box copies, sorted by the domain that receives them."""

    pair: IntArray  # destination pair of each copy
    held: IntArray  # the held pair that it reads; nothing where `made` says otherwise
    # The wanted pair whose new block it reads, after that was written; -1 for none. None if all are
    # read from held pairs.
    made: IntArray | None
    # When it runs: what is relayed is read from blocks of other domains, as they were written in
    # the wave before. None if nothing is relayed; then `made` blocks are of the same domain.
    wave: IntArray | None
    domain: IntArray  # domain that receives it
    source_domain: IntArray  # domain that it is read from
    # First element within what is read, in each mapped dim, shape (maps, copies).
    source_offset: IntArray
    destination_offset: IntArray  # first element within the destination block, likewise
    length: IntArray  # elements in each mapped dim, likewise

    @property
    def volume(self) -> IntArray:
        """Elements of each copy."""
        return np.asarray(np.prod(self.length, axis=0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.pair)


def expand(overlap: Overlap, pairs: IntArray, latency: float | None = None) -> Copies:
    """List the box copies that write the given wanted pairs.

    One copy per pair and source block. A block that the domain lacks is read from the domains that
    hold it; where there are several, what is asked of the block is lined up and the line cut into
    equal byte ranges, one per holder. Blocks that few hold and many want may be relayed. Where
    boxes form no grid, cells next to one another that come from the same place are one copy, and
    what several boxes of a domain want and it lacks is received once.

    Args:
      overlap: wanted and held pairs.
      pairs: the wanted pairs to write.
      latency: as `find_relays` takes it; None for no relays.
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
    made = _received_before(overlap, pair, run, local) if overlap.free else None
    wave = None
    if not local.all():
        if latency is not None and not may_relay(overlap, pairs):
            latency = None
        lacking = np.flatnonzero(~local if made is None else ~local & (made < 0))
        wants = Wants(pair, within(cells), block, boxes, lacking)
        pair, held, made, wave, boxes = _received(overlap, wants, held, made, latency)
    if overlap.free:
        assert made is not None
        pair, held, made, boxes = _merged(overlap, pair, held, made, boxes)
    domain, source_domain = overlap.wanted.domain[pair], overlap.held.domain[held]
    if made is not None:
        source_domain = np.where(made < 0, source_domain, overlap.wanted.domain[made])
    return Copies(
        pair=pair,
        held=held,
        made=made,
        wave=wave,
        domain=domain,
        source_domain=source_domain,
        source_offset=boxes[0],
        destination_offset=boxes[1],
        length=boxes[2],
    )


def _received(
    overlap: Overlap, wants: Wants, held: IntArray, made: IntArray | None, latency: float | None
) -> tuple[IntArray, IntArray, IntArray | None, IntArray | None, IntArray]:
    """Replace the copies of what a domain lacks by copies from holders, or by relays.

    Returns:
      Pair, held, made, wave and boxes of all copies, sorted by pair.
    """
    pair, boxes, lacking = wants.pair, wants.boxes, wants.lacking
    kept = np.delete(np.arange(len(pair)), lacking)
    relays = None if latency is None else find_relays(overlap, wants, latency)
    if relays is not None:
        lacking = np.setdiff1d(lacking, relays.replaced)
    copy, held_remote, remote = _share_among_holders(overlap, lacking, wants.block, boxes)
    boxes = np.concatenate((boxes[:, :, kept], remote), axis=2)
    held = np.concatenate((held[kept], held_remote))
    made = None if made is None else np.concatenate((made[kept], made[copy]))
    pair = np.concatenate((pair[kept], pair[copy]))
    wave = None
    if relays is not None:
        made = np.concatenate((np.full(len(pair), -1), relays.made))
        early = np.zeros(len(copy), np.int64)
        wave = np.concatenate((relays.closing(overlap, pair[: len(kept)]), early, relays.wave))
        boxes = np.concatenate((boxes, relays.boxes), axis=2)
        held = np.concatenate((held, relays.held))
        pair = np.concatenate((pair, relays.pair))
    order = np.argsort(pair, kind="stable")
    return (
        pair[order],
        held[order],
        None if made is None else made[order],
        None if wave is None else wave[order],
        boxes[:, :, order],
    )


def _share_among_holders(
    overlap: Overlap, remote: IntArray, block: IntArray, boxes: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Choose holders for the copies `remote`, cutting those that straddle two holders' shares.

    Returns:
      The copy that each part belongs to, the held pair that it reads, and its box.
    """
    block, order, first, holders = overlap.held.holders(block)
    if (holders[block[remote]] == 1).all():
        return remote, order[first[block[remote]]], boxes[:, :, remote]
    copy = remote[np.argsort(block[remote], kind="stable")]
    volume = boxes[2][:, copy].prod(axis=0)
    start, total = _lines(block[copy], volume)
    shares = holders[block[copy]]
    low = start * shares // total
    parts = (start + volume - 1) * shares // total - low + 1
    part_copy = np.repeat(copy, parts)
    holder = np.repeat(low, parts) + within(parts)
    box = boxes[:, :, part_copy]
    if not overlap.runs:  # a scalar, which nothing can cut
        return part_copy, order[first[block[part_copy]] + holder], box
    dim = cut_dim(box[2], _ROWS_WORTH_CUTTING)
    rows = box[2, dim, np.arange(len(part_copy))]
    start, total = np.repeat(start, parts), np.repeat(total, parts)
    row_volume = np.repeat(volume, parts) // rows
    share = np.repeat(shares, parts)
    low_row = _row(holder, share, total, start, row_volume, rows)
    high_row = _row(holder + 1, share, total, start, row_volume, rows)
    cut_rows(overlap.map_steps, box, dim, low_row, high_row)
    kept = high_row > low_row
    part_copy, holder = part_copy[kept], holder[kept]
    return part_copy, order[first[block[part_copy]] + holder], box[:, :, kept]


def _lines(block: IntArray, volume: IntArray) -> tuple[IntArray, IntArray]:
    """Line up the demands on each block: where each starts on its line, and the line's length."""
    ends = np.cumsum(volume)
    starts = ends - volume
    new = np.flatnonzero(np.concatenate(([True], block[1:] != block[:-1])))
    sizes = np.diff(new, append=len(block))
    begin = np.repeat(starts[new], sizes)
    end = np.repeat(ends[np.append(new[1:], len(block)) - 1], sizes)
    return starts - begin, end - begin


def _row(
    holder: IntArray,
    shares: IntArray,
    total: IntArray,
    start: IntArray,
    row_volume: IntArray,
    rows: IntArray,
) -> IntArray:
    """Return the row of a box nearest to where the share of `holder` begins."""
    position = -(-holder * total // shares) - start
    return np.asarray(np.clip((2 * position + row_volume) // (2 * row_volume), 0, rows))


def _to_positions(overlap: Overlap, run: IntArray, boxes: IntArray) -> None:
    """Change offsets within cells to positions in the arrays, in place.

    Args:
      overlap: what is moved.
      run: the run of each cell in each mapped dim, shape (maps, cells).
      boxes: source offset, destination offset and length, shape (3, maps, cells).
    """
    for dim, runs in enumerate(overlap.runs):
        boxes[0, dim] += runs.source_edges[runs.source_block[run[dim]]]
        boxes[1, dim] += runs.destination_edges[runs.destination_block[run[dim]]]


def _received_before(overlap: Overlap, pair: IntArray, run: IntArray, local: IntArray) -> IntArray:
    """Find what a domain would receive twice, for boxes that overlap.

    Returns:
      For each cell the first wanted pair of the domain that receives it; -1 if that is its own.
    """
    made = np.full(len(pair), -1, np.int64)
    remote = np.flatnonzero(~local)
    if overlap.wanted.spans is None or not len(remote):
        return made
    counts = tuple(len(runs.length) for runs in overlap.runs)
    cell = np.ravel_multi_index(tuple(run[:, remote]), counts)
    keys = np.stack((overlap.wanted.domain[pair[remote]], cell))
    first, inverse = distinct_columns(keys)
    receiver = first[inverse]
    again = receiver != np.arange(len(remote))
    made[remote[again]] = pair[remote[receiver[again]]]
    return made


def _merged(
    overlap: Overlap, pair: IntArray, held: IntArray, made: IntArray, boxes: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Put cells together that lie side by side and come from the same place.

    Args:
      overlap: what is moved.
      pair: the wanted pair that each cell is written to.
      held: the held pair that it is read from, unless
      made: is the wanted pair that it is read from.
      boxes: source position, destination position and length, shape (3, maps, cells).

    Returns:
      The same of the copies, sorted by pair; offsets are within the blocks.
    """
    held = np.where(made < 0, held, 0)
    rows = np.concatenate((np.stack((pair, held, made)), *boxes))
    maps = len(overlap.runs)
    for dim in range(maps - 1, -1, -1):
        rows = _joined(rows, 3 + maps + dim, 3 + 2 * maps + dim)
    pair, held, made = rows[:3]
    boxes = rows[3:].reshape(3, maps, -1).copy()
    _to_offsets(overlap, pair, held, made, boxes)
    return pair, held, made, boxes


def _joined(rows: IntArray, start: int, length: int) -> IntArray:
    """Join columns that continue one another along a dim and agree in all else.

    Args:
      rows: facts about each box; one column for each.
      start: the row of its position in the dim. The row of its source position in the same dim
        follows from the others, and is that of the first of the columns that are joined.
      length: the row of its length in the dim.
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
    overlap: Overlap, pair: IntArray, held: IntArray, made: IntArray, boxes: IntArray
) -> None:
    """Change positions in the arrays to offsets within blocks, in place."""
    of, to = overlap.held.home[held], overlap.wanted.home
    again = made >= 0
    for dim, runs in enumerate(overlap.runs):
        if runs.map.destination is not None:
            starts = overlap.destination.starts[runs.map.destination]
            offset = boxes[1, dim] - starts[to[made]]
            boxes[1, dim] -= starts[to[pair]]
        else:
            offset = boxes[1, dim]
        if runs.map.source is not None:
            boxes[0, dim] -= overlap.source.starts[runs.map.source][of]
        boxes[0, dim] = np.where(again, offset, boxes[0, dim])
