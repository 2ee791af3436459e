"""Expansion of a plan into box copies, with a holder for each. Pure."""

from __future__ import annotations

import numpy as np

from gpushard.frozen import dataclass
from gpushard.movement.cuts import cut_dim, cut_rows
from gpushard.movement.free_boxes import merged, received_before, to_positions
from gpushard.movement.holdings import cells_of, within
from gpushard.movement.overlap import Overlap
from gpushard.movement.relays import Wants, find_relays, may_relay
from gpushard.typing import IntArray

_ROWS_WORTH_CUTTING = 16


@dataclass(frozen=True, eq=False)
class Copies:
    """Box copies, sorted by the domain that receives them."""

    pair: IntArray
    """Destination pair of each copy."""

    held: IntArray
    """The held pair that it reads; nothing where `made` says otherwise."""

    made: IntArray | None
    """The wanted pair whose new block it reads, after that was written; -1 for none. None if all
    are read from held pairs."""

    wave: IntArray | None
    """When it runs: what is relayed is read from blocks of other domains, as they were written in
    the wave before. None if nothing is relayed; then `made` blocks are of the same domain."""

    domain: IntArray
    """Domain that receives it."""

    source_domain: IntArray
    """Domain that it is read from."""

    source_offset: IntArray
    """First element within what is read, in each mapped dim, shape (maps, copies)."""

    destination_offset: IntArray
    """First element within the destination block, likewise."""

    length: IntArray
    """Elements in each mapped dim, likewise."""

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
        to_positions(overlap, run, boxes)
    held, local = overlap.held.find(overlap.wanted.domain[pair], block)
    made = received_before(overlap, pair, run, local) if overlap.free else None
    wave = None
    if not local.all():
        if latency is not None and not may_relay(overlap, pairs):
            latency = None
        lacking = np.flatnonzero(~local if made is None else ~local & (made < 0))
        wants = Wants(pair, within(cells), block, boxes, lacking)
        pair, held, made, wave, boxes = _received(overlap, wants, held, made, latency)
    if overlap.free:
        assert made is not None
        pair, held, made, boxes = merged(overlap, pair, held, made, boxes)
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
    cut_rows(overlap, box, dim, low_row, high_row)
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
