"""The copies of a plan as work for streams: an ordered list of steps. Pure.

The arrays of a plan are its *operands*, numbered in one row: the shards of the source, then the
blocks that the plan allocates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gpushard.frozen import dataclass
from gpushard.movement.dim_map import Piece
from gpushard.runtime.phase import BoxIndex, BoxMove, Phase
from gpushard.typing import IntArray

if TYPE_CHECKING:
    from gpushard.movement.plan import Plan


@dataclass(frozen=True)
class Step:
    """Copies into one memory domain: one item of its copy stream."""

    domain: int
    """The memory domain that is written."""

    part: int
    """0 for the first step that writes its blocks, more for those that add to them."""

    phases: tuple[Phase, ...]
    """They run one after the other; a later one may use what an earlier one wrote."""

    reads: tuple[int, ...]
    """Operands that must be there: shards, and blocks that other steps write."""

    writes: tuple[int, ...]
    """Operands that it writes, all of them allocated by the plan."""

    after: tuple[tuple[int, int], ...] = ()
    """(operand, step) for each block of another domain that it reads: what it reads of it is there
    after that step of the plan; later ones may add to it."""


def make_steps(plan: Plan) -> tuple[Step, ...]:
    """Put the copies of a plan in an order in which every read follows its write.

    Args:
      plan: what to copy.

    Returns:
      One step for each domain that writes something; with relays, one for each wave in which it
      does, wave after wave.
    """
    copies = plan.copies
    if not len(copies):
        return ()
    wave = np.zeros(len(copies), np.int64) if copies.wave is None else copies.wave
    order = np.lexsort((copies.domain, wave))
    edges = np.flatnonzero(np.diff(wave[order]) | np.diff(copies.domain[order])) + 1
    domains = plan.overlap.wanted.domain[plan.copied]
    number: dict[tuple[int, int], int] = {}  # of the step of each wave and domain
    begun: set[int] = set()
    steps = []
    for n, at in enumerate(np.split(order, edges)):
        now, domain = int(wave[at[0]]), int(copies.domain[at[0]])
        number[now, domain] = n
        phases, reads, others = _phases(plan, at)
        writes = {to for phase in phases for to, *_ in phase.moves}
        if domain not in begun:
            writes.update((len(plan.source.devices) + np.flatnonzero(domains == domain)).tolist())
        steps.append(
            Step(
                domain=domain,
                part=n if domain in begun else 0,
                phases=phases,
                reads=(*sorted(reads), *sorted(others)),
                writes=tuple(sorted(writes)),
                after=tuple((of, number[now - 1, others[of]]) for of in sorted(others)),
            )
        )
        begun.add(domain)
    return tuple(steps)


def _phases(plan: Plan, at: IntArray) -> tuple[tuple[Phase, ...], set[int], dict[int, int]]:
    """Return the copies of a step, the shards that they read, and other domains' new blocks."""
    made = None if plan.copies.made is None else plan.copies.made[at]
    moves = _from_shards(plan, at if made is None else at[made < 0])
    reads = {of for _, _, of, _, _ in moves}
    order = None if plan.piece.in_order else plan.piece.order
    if made is None or (made < 0).all():
        return (Phase(moves, order),), reads, {}
    again = _from_blocks(plan, at[made >= 0], made[made >= 0])
    if plan.copies.wave is None:  # of this domain, written by the first phase
        return (Phase(moves, order), Phase(again, None)), reads, {}
    others = {of: domain for _, _, of, _, domain in again}
    if order is None or not moves:
        return (Phase(moves + again, None),), reads, others
    return (Phase(moves, order), Phase(again, None)), reads, others


def _from_shards(plan: Plan, at: IntArray) -> tuple[BoxMove, ...]:
    """Return copies out of shards as Python objects."""
    operands = plan.overlap.held.home[plan.copies.held[at]].tolist()
    return _moves(plan, at, operands, source_index)


def _from_blocks(plan: Plan, at: IntArray, made: IntArray) -> tuple[BoxMove, ...]:
    """Return copies out of blocks that the plan makes: of the destination's dims throughout."""
    return _moves(plan, at, _blocks(plan, made), _destination_index)


def _moves(
    plan: Plan,
    at: IntArray,
    operands: list[int],
    index_in: Callable[[Piece, list[int], list[int]], BoxIndex],
) -> tuple[BoxMove, ...]:
    """Return copies as Python objects, with the operands that they read and indices in these."""
    copies, piece = plan.copies, plan.piece
    rows = zip(
        _blocks(plan, copies.pair[at]),
        copies.destination_offset[:, at].T.tolist(),
        operands,
        copies.source_offset[:, at].T.tolist(),
        copies.length[:, at].T.tolist(),
        copies.source_domain[at].tolist(),
        strict=True,
    )
    return tuple(
        (
            to,
            _destination_index(piece, offsets, lengths),
            of,
            index_in(piece, source_offsets, lengths),
            source_domain,
        )
        for to, offsets, of, source_offsets, lengths, source_domain in rows
    )


def _blocks(plan: Plan, pairs: IntArray) -> list[int]:
    """Return the operands that are the new blocks of wanted pairs."""
    numbers: list[int] = (len(plan.source.devices) + plan.copied.searchsorted(pairs)).tolist()
    return numbers


def _destination_index(piece: Piece, offsets: list[int], lengths: list[int]) -> BoxIndex:
    """Return the index of a box within a destination block."""
    index: list[Any] = []
    for m, offset, length in zip(piece.maps, offsets, lengths, strict=True):
        if m.destination is not None:
            index.append(offset if m.source is None else slice(offset, offset + length))
    return (*index, ...)


def source_index(piece: Piece, offsets: list[int], lengths: list[int]) -> BoxIndex:
    """Return the index of a box within a source block; new dims of the destination are not there.

    Args:
      piece: where the elements come from.
      offsets: first element within the block for each map of the piece.
      lengths: elements for each map.
    """
    index: dict[int, Any] = {}
    for m, offset, length in zip(piece.maps, offsets, lengths, strict=True):
        if m.source is None:
            continue
        if m.destination is None:
            index[m.source] = offset
        else:
            stop = offset + m.step * length
            index[m.source] = slice(offset, stop if stop >= 0 else None, m.step)
    return (*(index[dim] for dim in range(len(index))), ...)
