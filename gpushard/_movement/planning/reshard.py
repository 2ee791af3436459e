"""Plan movements of one source by one map per dim: reshards, slices, transposes. Pure."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.tiling import Tiling
from gpushard._movement.plan import Plan, Table
from gpushard._movement.planning.aliasing import COPY, copy_all, find_reuse
from gpushard._movement.planning.broadcast_tree import may_relay
from gpushard._movement.planning.copies import Copies, expand
from gpushard._movement.planning.digit_boxes import strides_of
from gpushard._movement.planning.dim_maps import Piece
from gpushard._movement.planning.holdings import Overlap, overlap
from gpushard._movement.planning.strided import StridedCopies
from gpushard._typing import IntArray


@dataclass(frozen=True, eq=False)
class Reshard:
    """The copies of a movement; they are listed only when they are asked for."""

    piece: Piece  # where the elements of the destination come from
    overlap: Overlap  # wanted and held blocks
    copied: IntArray  # the wanted pairs that are written
    # Elements that a domain could receive in the time of one more wave; None for no relays.
    latency: float | None

    @functools.cached_property
    def copies(self) -> Copies:
        """Every box copy."""
        return expand(self.overlap, self.copied, self.latency)

    @property
    def count(self) -> int:
        """Number of copies, about."""
        if self.latency is not None and may_relay(self.overlap, self.copied):
            return len(self.copies)
        return int(self.overlap.cells[self.copied].sum())

    def tables(self) -> Sequence[Table]:
        """List (source, copies)."""
        return [(0, self._table)]

    @functools.cached_property
    def _table(self) -> StridedCopies:
        destination, homes = self.overlap.destination, self.overlap.wanted.home
        strides = strides_of(destination.stops - destination.starts)[:, homes]
        return place_copies(self, np.zeros(len(homes), np.int64), strides)

    def received(self) -> IntArray:
        """Count the elements that each wanted pair receives; list copies if that is quicker."""
        cut, copied = self.overlap, self.copied
        received = np.zeros(len(cut.volume), np.int64)
        start, count = cut.held.in_domains(cut.wanted.domain[copied])
        if cut.free or count.sum() > cut.cells[copied].sum():
            copies = self.copies
            remote = copies.source_domain != copies.domain
            sums = np.bincount(copies.pair[remote], copies.volume[remote], len(received))
            return sums.astype(np.int64)
        pair = np.repeat(np.arange(len(copied)), count)
        within = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count)
        present = cut.volume_between(copied[pair], start[pair] + within)
        sums = np.bincount(pair, present, len(copied)).astype(np.int64)
        received[copied] = cut.volume[copied] - sums
        return received


def place_copies(reshard: Reshard, offset: IntArray, strides: IntArray) -> StridedCopies:
    """Give the copies of a movement the places in memory that they read and write.

    Args:
      reshard: the movement.
      offset: first element of each wanted pair within the block that contains it.
      strides: elements between neighbours in that block, in each dim of the destination, shape
        (dims, pairs).
    """
    cut, copies, maps = reshard.overlap, reshard.copies, reshard.piece.maps
    device, pair, read_pair = cut.held.home[copies.held], copies.pair, copies.read_pair
    destinations = [m.destination for m in maps]
    to = _rows_of_dims(strides[:, pair], destinations)
    lengths = cut.source.stops - cut.source.starts
    of = _rows_of_dims(strides_of(lengths)[:, device], [m.source for m in maps])
    source_stride = of * np.array([m.step for m in maps], np.int64)[:, None]
    phase = zero = source_offset = np.zeros(len(pair), np.int64)
    if read_pair is not None:
        again = read_pair >= 0
        of = np.where(again, _rows_of_dims(strides[:, read_pair], destinations), of)
        source_stride = np.where(again, of, source_stride)
        device = np.where(again, -1, device)
        source_offset = np.where(again, offset[read_pair], 0)
        phase = again.astype(np.int64) if copies.wave is None else zero
    dims = [dim for dim, m in enumerate(maps) if m.source is not None and m.destination is not None]
    return StridedCopies(
        block=pair,
        device=device,
        read_pair=zero - 1 if read_pair is None else read_pair,
        source_domain=copies.source_domain,
        remote=copies.source_domain != copies.domain,
        target_offset=offset[pair] + (copies.destination_offset * to).sum(axis=0),
        source_offset=source_offset + (copies.source_offset * of).sum(axis=0),
        length=_rows_of_dims(copies.length, dims),
        target_stride=_rows_of_dims(to, dims),
        source_stride=_rows_of_dims(source_stride, dims),
        wave=zero if copies.wave is None else copies.wave,
        phase=phase,
        point=zero[None][:0],
    )


def _rows_of_dims(rows: IntArray, dims: Sequence[int | None]) -> IntArray:
    """Take the rows of some dims; zeros for None."""
    if dims == list(range(len(rows))):
        return rows
    if None not in dims:
        return rows[np.array(dims, np.intp)]
    padded = np.concatenate((rows, np.zeros((1, *rows.shape[1:]), np.int64)))
    return padded[[len(rows) if dim is None else dim for dim in dims]]


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
    """Plan a movement of one source.

    Args:
      source: tiling of the source.
      destination: tiling of the destination, of the piece's shape.
      piece: where the elements of the destination come from.
      itemsize: bytes of an element.
      root_nbytes: bytes of the largest root allocation of the source, if that is more than a shard
        (the source is a view itself).
      reuse: whether blocks may become aliases and views; if not, all are written.
      relay_bytes: bytes that a domain could receive in the time of one more item of work. This
        decides whether and how to relay; None for no relays.
      engine_bytes: smallest dense box, in bytes, that a copy engine moves between domains; None if
        there are no copy engines.

    Returns:
      The plan; it meets both bounds.

    >>> from gpushard._geometry.mesh import Mesh
    >>> from gpushard._geometry.partition_spec import P
    >>> from gpushard._geometry.named_sharding import NamedSharding
    >>> from gpushard._movement.planning.dim_maps import identity
    >>> mesh = Mesh(["a", "b"], "x")
    >>> rows, columns = (NamedSharding(mesh, s).tiling((4, 4)) for s in (P("x"), P(None, "x")))
    >>> plan = make_plan(rows, columns, identity((4, 4)), itemsize=4)
    >>> plan.bytes_written, plan.bytes_received
    (64, 32)
    """
    cut = overlap(source, destination, piece)
    aliases = find_reuse(cut, piece, itemsize, root_nbytes) if reuse else copy_all(cut.volume)
    copied = aliases.kind == COPY
    latency = None if relay_bytes is None else relay_bytes / itemsize
    return Plan(
        verb="move",
        sources=(source,),
        destination=destination,
        itemsize=itemsize,
        kept=aliases,
        volume=cut.volume,
        written_elements=cut.volume * copied,
        how=Reshard(piece, cut, np.flatnonzero(copied), latency),
        engine_bytes=engine_bytes,
    )
