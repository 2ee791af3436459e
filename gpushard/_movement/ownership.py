"""Whether anything else holds the memory of an array, so that it may be written in place.

Whoever can see memory holds a reference to its `Claim`, or to a `ShardedBuffer` that does: other
arrays, views of a part, the `.data` of a shard, NumPy views and exports through DLPack (their
owner is the claim), what CUDA's loans keep until the GPUs have been waited for, reads that are
under way and calls of other threads. Work in queues holds memories instead, and is known from their
clocks: an item that writes waits for it. So the claims of a sole owner have the references from its
own list of claims and no others.

References are counted by CPython, exactly while there is the GIL: nobody can come by a reference to
what one thread holds alone. Without the GIL counts are not exact, and nothing is written in place.
A reference too many, as from a cycle that is still to be collected, only costs a copy.

Memory of users, which was borrowed and not allocated, is never written: its claims have no bytes.
"""

from __future__ import annotations

import sys
from collections import Counter

from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.planning.update import Tile, Touched

COUNTS_ARE_EXACT = (
    sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
)
"""Whether this interpreter counts references, and does so exactly."""

_FEW = 16  # so many claims are counted one by one faster than all at once


class Holder:
    """Holds the data of an array in a slot, where its references can be counted.

    Args:
      buffer: the data; the caller must let go of its own references to it.
    """

    __slots__ = ("buffer",)

    def __init__(self, buffer: ShardedBuffer) -> None:
        self.buffer = buffer


def _count_in_slot() -> int:
    holder = Holder(object())  # type: ignore[arg-type]
    return sys.getrefcount(holder.buffer)


def _count_in_list() -> int:
    held = [object()]
    return sys.getrefcount(held[0])


ALONE = _count_in_slot()
"""What `sys.getrefcount` says of what one slot holds; this depends on the version of Python."""

_CALL = _count_in_list() - 1
"""References to an entry of a list that its look-up for `sys.getrefcount` adds."""


def owns_alone(holder: Holder, touched: Touched) -> bool:
    """Whether nobody else can see the blocks that a part touches.

    Args:
      holder: of the data; nobody else must be able to see it, which is for the caller to know.
      touched: the blocks.
    """
    if not COUNTS_ARE_EXACT or sys.getrefcount(holder.buffer) != ALONE:
        return False
    buffer = holder.buffer
    if sys.getrefcount(buffer.claims) != ALONE:  # two buffers may have one list
        return False
    claims = buffer.claims
    own = Counter(map(id, claims)) if len(claims) > _FEW else None
    checked = 0
    for block in touched.blocks:
        home = block.home
        name = id(claims[home])
        if name != checked:
            listed = claims.count(claims[home]) if own is None else own[name]
            if sys.getrefcount(claims[home]) != listed + _CALL or not claims[home].memory.nbytes:
                return False
            if listed > len(block.sharers) and not buffer.are_apart():
                return False
            checked = name
        if len(block.sharers) > 1 and not _is_one(buffer, block):
            return False
    return True


def _is_one(buffer: ShardedBuffer, block: Tile) -> bool:
    """Whether devices that hold the same block also share its memory, as all plans have it."""
    home = buffer.values[block.home]
    claim, address = buffer.claims[block.home], buffer.runtime.backend.address
    return all(
        buffer.claims[other] is claim
        and (buffer.values[other] is home or address(buffer.values[other]) == address(home))
        for other in block.sharers
    )
