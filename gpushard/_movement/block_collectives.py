"""Collectives, under NCCL's names: functions of blocks that the members of a group have.

The blocks are the rows of an array: member i, the i-th device, has row i. Each collective is one or
two plans; what reduces takes a function that merges the rows which a device has of its piece, in
the order of the members. So results do not depend on when anything arrives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gpushard._cache import BoundedCache
from gpushard._geometry.tiling import Assignment, Tiling
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.planning.rearrangements import permute as permutation
from gpushard._movement.rearrange import rearrange
from gpushard._movement.reshard import move
from gpushard._movement.sharding_devices import devices_of
from gpushard._runtime.claims import Claim
from gpushard._runtime.runtime import Place
from gpushard._typing import LocalArray, Shape
from gpushard.errors import ArgumentError

Merge: TypeAlias = Callable[[Sequence[ShardedBuffer]], Sequence[ShardedBuffer]]
"""Takes each array of a state with all rows of a piece on the device that merges it; gives them
merged, laid out like the pieces of a row."""


def tiling_over(devices: Sequence[Place], shape: Shape, split: int | None) -> Tiling:
    """Return the tiling that splits one dim, or none, over devices; cached."""
    how = tuple(devices), shape, split
    plans: BoundedCache[Tiling] = devices[0].device.runtime.plans
    return plans.get_or_make((_tiling_over, *how), _tiling_over, *how)


def _tiling_over(devices: tuple[Place, ...], shape: Shape, split: int | None) -> Tiling:
    blocks, counts = np.zeros((len(shape), len(devices)), np.int64), [1] * len(shape)
    if split is not None:
        blocks[split], counts[split] = np.arange(len(devices)), len(devices)
    return Tiling.regular(shape, Assignment(devices, tuple(counts), blocks))


def rows_of(
    devices: Sequence[Place],
    blocks: Sequence[LocalArray],
    claims: list[Claim],
    dtype: np.dtype[Any],
    shape: Shape,
    *,
    settled: bool = False,
) -> ShardedBuffer:
    """Return the blocks that members have as rows, of some shape, of one array."""
    tiling = tiling_over(devices, (len(devices), *shape), 0)
    return ShardedBuffer(
        tiling, dtype, [block.reshape((1, *shape)) for block in blocks], claims, settled
    )


def all_gather(
    rows: ShardedBuffer, devices: Sequence[Place] | None = None, name: str = "all_gather"
) -> ShardedBuffer:
    """Return the rows of all members on each device; by default on each member."""
    everywhere = tiling_over(devices or devices_of(rows.tiling), rows.tiling.shape, None)
    return move(rows, everywhere, name=name)


def all_to_all(rows: ShardedBuffer, name: str = "all_to_all") -> ShardedBuffer:
    """Return, for member j, column j of the rows of all members.

    Rows are of shape (members, columns, ...), one of each member; columns are split as evenly as a
    sharding does.
    """
    columns = tiling_over(devices_of(rows.tiling), rows.tiling.shape, 1)
    return move(rows, columns, name=name)


def permute(
    rows: ShardedBuffer, pairs: Sequence[tuple[int, int]], name: str = "permute"
) -> ShardedBuffer:
    """Return the rows of other members, by pairs (sender, receiver); zeros where none comes.

    Raises:
      ArgumentError: a member receives twice, or there is no such member.
    """
    shape, receivers = rows.tiling.shape, [to for _, to in pairs]
    members = {member for pair in pairs for member in pair}
    if len(set(receivers)) < len(receivers) or not members <= set(range(shape[0])):
        raise ArgumentError(
            f"{name}: pairs={list(pairs)} must name members from 0 to {shape[0] - 1}, and each of "
            "them at most once as a receiver",
            argument="pairs",
            pairs=list(pairs),
        )
    return rearrange((rows,), permutation(shape, (0,), tuple(pairs)), rows.tiling, name)


def reduce_scatter(
    states: Sequence[ShardedBuffer], pieces: Tiling, merge: Merge, name: str = "reduce_scatter"
) -> list[ShardedBuffer]:
    """Merge the rows of all members; every device merges the piece that it gets.

    Args:
      states: rows of each array of a state.
      pieces: tiling of such rows, by which a device has all rows of its piece.
      merge: merges them.
      name: what it is, for errors.
    """
    return list(merge([move(rows, pieces, name=name) for rows in states]))


def all_reduce(
    states: Sequence[ShardedBuffer],
    devices: Sequence[Place],
    merge: Merge,
    name: str = "all_reduce",
) -> list[ShardedBuffer]:
    """Merge the rows of all members: each of them merges an equal piece, which then goes around.

    Each array of a state has rows of shape (members, elements); every device gets all merged
    elements.
    """
    members, shape = devices_of(states[0].tiling), states[0].tiling.shape
    everywhere = tiling_over(devices, (math.prod(shape[1:]),), None)
    merged = reduce_scatter(states, tiling_over(members, shape, 1), merge, name)
    return [move(piece, everywhere, name=name) for piece in merged]
