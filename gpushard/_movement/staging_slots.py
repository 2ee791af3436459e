"""Slots of page-locked memory, for devices that cannot read the memory of one another."""

from __future__ import annotations

from collections.abc import Sequence

from gpushard._frozen import dataclass
from gpushard._runtime.chunks import LEAST_SLOT

_SLOTS = 4  # so many slots of a domain keep packing and unpacking apart


@dataclass(frozen=True)
class Staging:
    """Page-locked memory through which others read what they cannot reach of a memory domain.

    All that goes through it is cut into chunks, each of which fits into a slot. Where there are
    more chunks than slots these are used in rounds.
    """

    slots: int  # how many slots there are
    slot_bytes: int  # bytes of each
    chunk_bytes: int  # bytes of the largest chunk: no more, unless a slot cannot be as small
    chunks: int  # how many chunks there are at least

    @property
    def nbytes(self) -> int:
        """Bytes of all slots."""
        return self.slots * self.slot_bytes

    @property
    def rounds(self) -> int:
        """How often the slots are filled, at least."""
        return -(-self.chunks // self.slots)


def staging_of(sizes: Sequence[int], pinned_bytes: int) -> Staging:
    """Choose the slots for groups of boxes.

    Args:
      sizes: bytes of each group.
      pinned_bytes: the most bytes of all slots.
    """
    most = 1 << (pinned_bytes // _SLOTS).bit_length() - 1
    chunk = min(most, 1 << (max(sizes) - 1).bit_length())
    slot, chunks = max(LEAST_SLOT, chunk), sum(-(-nbytes // chunk) for nbytes in sizes)
    return Staging(min(_SLOTS, chunks, pinned_bytes // slot), slot, chunk, chunks)
