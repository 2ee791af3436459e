"""Cut memory from slabs: few large allocations, as each call of the driver may take milliseconds.

Best fit: the smallest free range that is large enough is cut, and adjacent free ranges of a slab
are joined (D. Knuth, "The Art of Computer Programming", vol. 1, 2.5).
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable
from typing import Any

GRANULE = 512  # bytes that every range is a multiple of, and aligned to


class Slab:
    """One allocation of the driver."""

    __slots__ = ("address", "nbytes")

    def __init__(self, address: int, nbytes: int) -> None:
        self.address = address
        self.nbytes = nbytes


class SlabRange:
    """A range of a slab."""

    __slots__ = ("address", "cached", "nbytes", "owner", "slab")

    def __init__(self, owner: Slabs, slab: Slab, address: int, nbytes: int) -> None:
        self.owner = owner
        self.slab = slab
        self.address = address
        self.nbytes = nbytes
        self.cached: Any = None  # whatever a user caches with the range, for its next user


class Slabs:
    """Allocator of memory of one GPU, or of page-locked memory.

    The caller of `give` must know that nothing uses the range any more.

    Args:
      malloc: takes a number of bytes, returns an address or raises MemoryError.
      free: takes the address of a slab.
      slab_bytes: the smallest usual slab.
    """

    def __init__(
        self, malloc: Callable[[int], int], free: Callable[[int], None], slab_bytes: int
    ) -> None:
        self._malloc = malloc
        self._free = free
        self._slab_bytes = slab_bytes
        self._slabs: dict[int, Slab] = {}  # by address
        self._by_size: list[tuple[int, int]] = []  # (bytes, address) of free ranges, ascending
        self._starts: dict[int, tuple[int, Slab]] = {}  # address of a free range: (bytes, slab)
        self._ends: dict[int, int] = {}  # address behind a free range: its start
        self._lock = threading.RLock()
        self.total = 0  # bytes of all slabs
        self.free = 0  # bytes of all free ranges

    def take(self, nbytes: int) -> SlabRange:
        """Allocate a range of at least `nbytes`, or raise MemoryError."""
        wanted = max(GRANULE, -(-nbytes // GRANULE) * GRANULE)
        with self._lock:
            at = bisect.bisect_left(self._by_size, (wanted, 0))
            if at == len(self._by_size):
                self._grow(wanted)
                at = bisect.bisect_left(self._by_size, (wanted, 0))
            size, address = self._by_size[at]
            slab = self._remove(address)
            if size > wanted:
                self._add(slab, address + wanted, size - wanted)
        return SlabRange(self, slab, address, wanted)

    def give(self, block: SlabRange) -> None:
        """Take a range back, and join it with free neighbours."""
        address, nbytes, slab = block.address, block.nbytes, block.slab
        with self._lock:
            after = self._starts.get(address + nbytes)
            if after is not None and after[1] is slab:
                self._remove(address + nbytes)
                nbytes += after[0]
            start = self._ends.get(address)
            if start is not None and self._starts[start][1] is slab:
                nbytes += address - start
                self._remove(start)
                address = start
            self._add(slab, address, nbytes)

    def trim(self) -> int:
        """Free the slabs that have no part in use; return their bytes."""
        with self._lock:
            return self._trim()

    def _trim(self) -> int:
        idle = [s for s in self._slabs.values() if self._starts.get(s.address) == (s.nbytes, s)]
        for slab in idle:
            self._remove(slab.address)
            del self._slabs[slab.address]
            self.total -= slab.nbytes
            self._free(slab.address)
        return sum(slab.nbytes for slab in idle)

    def _grow(self, wanted: int) -> None:
        """Add a slab that has room: a usual one, or if the driver has no room, one just enough."""
        sizes = dict.fromkeys((max(wanted, self._slab_bytes), wanted))
        for number, nbytes in enumerate(sizes):
            try:
                address = self._malloc(nbytes)
            except MemoryError:
                if number + 1 < len(sizes):
                    continue
                if not self._trim():
                    raise
                address = self._malloc(nbytes)
            slab = self._slabs[address] = Slab(address, nbytes)
            self.total += nbytes
            self._add(slab, address, nbytes)
            return

    def _add(self, slab: Slab, address: int, nbytes: int) -> None:
        bisect.insort(self._by_size, (nbytes, address))
        self._starts[address] = nbytes, slab
        self._ends[address + nbytes] = address
        self.free += nbytes

    def _remove(self, address: int) -> Slab:
        nbytes, slab = self._starts.pop(address)
        del self._ends[address + nbytes]
        del self._by_size[bisect.bisect_left(self._by_size, (nbytes, address))]
        self.free -= nbytes
        return slab
