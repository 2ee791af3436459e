"""Cut and pack box copies so that they fit into a buffer of limited size. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from gpushard._frozen import dataclass
from gpushard._typing import HostArray, LocalArray

ALIGNMENT = 16  # bytes that every box in a buffer is aligned to
LEAST_SLOT = 64  # bytes of the smallest buffer in page-locked memory
Tag = TypeVar("Tag")


@dataclass(frozen=True, slots=True)
class Move(Generic[Tag]):
    """A box to copy."""

    target: LocalArray  # where it goes
    source: LocalArray  # where it comes from; of the same shape and type
    tag: Tag  # passed on to its parts

    def parts(self, limit: int) -> Iterator[Move[Tag]]:
        """Cut the box into boxes of at most `limit` bytes; `limit` must hold one element."""
        nbytes = self.target.nbytes
        if nbytes <= limit:
            if nbytes:
                yield self
            return
        shape = self.target.shape
        dim = next(dim for dim, size in enumerate(shape) if size > 1)
        rows = max(1, limit * shape[dim] // nbytes)
        lead = (slice(None),) * dim
        for start in range(0, shape[dim], rows):
            index = (*lead, slice(start, start + rows))
            yield from Move(self.target[index], self.source[index], self.tag).parts(limit)


def chunks(moves: Iterable[Move[Tag]], limit: int) -> Iterator[list[Move[Tag]]]:
    """Cut and group moves so that each group fits into a buffer.

    Yields:
      Groups of moves that take at most `limit` bytes together.

    >>> import numpy as np
    >>> row = Move(np.zeros(10, np.int64), np.arange(10), None)
    >>> [[part.source.tolist() for part in group] for group in chunks([row], 32)]
    [[[0, 1, 2, 3]], [[4, 5, 6, 7]], [[8, 9]]]
    """
    group: list[Move[Tag]] = []
    filled = 0
    for move in moves:
        for part in move.parts(limit):
            nbytes = align(part.target.nbytes)
            if group and filled + nbytes > limit:
                yield group
                group, filled = [], 0
            group.append(part)
            filled += nbytes
    if group:
        yield group


def bytes_of(group: Sequence[Move[Tag]]) -> int:
    """Count the bytes that a group takes in a buffer."""
    return sum(align(move.target.nbytes) for move in group)


def lay_out(buffer: HostArray, group: Sequence[Move[Tag]]) -> list[HostArray]:
    """Create a dense array in a buffer for each move of a group, one after the other."""
    boxes = []
    at = 0
    for move in group:
        shape, dtype = move.target.shape, move.target.dtype
        stop = at + math.prod(shape) * dtype.itemsize
        boxes.append(buffer[at:stop].view(dtype).reshape(shape))
        at = align(stop)
    return boxes


def align(nbytes: int) -> int:
    """Round a number of bytes up to `ALIGNMENT`."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
