"""The copies of a plan as work for streams: an ordered list of steps. Pure.

The arrays of a plan are its *operands*, numbered in one row: the shards of the source, then the
blocks that the plan allocates.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gpushard.movement.dim_map import Piece
from gpushard.typing import IntArray

if TYPE_CHECKING:
    from gpushard.movement.plan import Plan

BoxIndex: TypeAlias = tuple[Any, ...]

BoxMove: TypeAlias = tuple[int, BoxIndex, int, BoxIndex, int]
"""(operand written, index within it, operand read, index within it, memory domain read)."""


@dataclasses.dataclass(frozen=True)
class Phase:
    """Copies that may run in any order, given to the backend in one call."""

    moves: tuple[BoxMove, ...]
    """The copies."""

    order: tuple[int, ...] | None
    """How what is read is transposed before it is copied; None for not at all."""


@dataclasses.dataclass(frozen=True)
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


def make_steps(plan: Plan) -> tuple[Step, ...]:
    """Put the copies of a plan in an order in which every read follows its write.

    Args:
      plan: what to copy.

    Returns:
      One step for each domain that writes something.
    """
    copies, shards = plan.copies, len(plan.source.devices)
    domains = plan.overlap.wanted.domain[plan.copied]
    steps = []
    for domain in np.unique(domains).tolist():
        low, high = copies.domain.searchsorted([domain, domain + 1]).tolist()
        at = np.arange(low, high)
        made = np.full(len(at), -1) if copies.made is None else copies.made[low:high]
        moves = _from_shards(plan, at[made < 0])
        phases = [Phase(moves, None if plan.piece.in_order else plan.piece.order)]
        if (made >= 0).any():
            phases.append(Phase(_from_blocks(plan, at[made >= 0], made[made >= 0]), None))
        steps.append(
            Step(
                domain=domain,
                part=0,
                phases=tuple(phases),
                reads=tuple(sorted({of for _, _, of, _, _ in moves})),
                writes=tuple((shards + np.flatnonzero(domains == domain)).tolist()),
            )
        )
    return tuple(steps)


def _from_shards(plan: Plan, at: IntArray) -> tuple[BoxMove, ...]:
    """Return copies out of shards as Python objects."""
    copies = plan.copies
    rows = zip(
        _blocks(plan, copies.pair[at]),
        copies.destination_offset[:, at].T.tolist(),
        plan.overlap.held.home[copies.held[at]].tolist(),
        copies.source_offset[:, at].T.tolist(),
        copies.length[:, at].T.tolist(),
        copies.source_domain[at].tolist(),
        strict=True,
    )
    piece = plan.piece
    return tuple(
        (
            to,
            _destination_index(piece, offsets, lengths),
            of,
            source_index(piece, source_offsets, lengths),
            source_domain,
        )
        for to, offsets, of, source_offsets, lengths, source_domain in rows
    )


def _from_blocks(plan: Plan, at: IntArray, made: IntArray) -> tuple[BoxMove, ...]:
    """Return copies out of blocks that the plan makes: of the destination's dims throughout."""
    copies = plan.copies
    rows = zip(
        _blocks(plan, copies.pair[at]),
        copies.destination_offset[:, at].T.tolist(),
        _blocks(plan, made),
        copies.source_offset[:, at].T.tolist(),
        copies.length[:, at].T.tolist(),
        copies.source_domain[at].tolist(),
        strict=True,
    )
    piece = plan.piece
    return tuple(
        (
            to,
            _destination_index(piece, offsets, lengths),
            of,
            _destination_index(piece, source_offsets, lengths),
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
