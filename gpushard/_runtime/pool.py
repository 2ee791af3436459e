"""Pools: which free block is used again, when a pool grows, and what it gives back.

Free blocks keep their clocks: whoever takes one waits for all who used it before.
"""

from __future__ import annotations

import functools
import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from gpushard._frozen import dataclass
from gpushard._runtime.memory import Account, Memory
from gpushard._runtime.stream import Stream, Tick
from gpushard._typing import Dtype, Shape

_CLASSES_PER_DOUBLING = 8
_NO_CLOCK: Mapping[Stream, int] = {}

_MOST_LOOKS = 16  # so many blocks that are waited for are looked at before a pool grows
_MOST_EMPTY = 64  # so many sizes are remembered though there are no free blocks of some


class Store(Protocol):
    """The part of a backend that holds memory."""

    listens: bool
    """Whether it wants to hear of what is released."""

    def allocate(self, domain: int, nbytes: int) -> Any:
        """Make a raw buffer, aligned for any element type."""

    def free(self, raw: Any) -> None:
        """Give a raw buffer back to the system; nothing uses it any more."""

    def released(self, raw: Any, ticks: Sequence[Tick]) -> None:
        """Hear that nobody claims a buffer now; who writes it next waits for the ticks."""

    def taken(self, raw: Any) -> None:
        """Hear that a buffer which was released is claimed again."""


class NoRoomError(Exception):
    """A pool cannot serve an allocation now."""

    def __init__(self, nbytes: int, account: Account | None, pool: Pool) -> None:
        self.nbytes = nbytes
        self.account = account
        self.pool = pool


@dataclass(frozen=True, slots=True)
class Room:
    """One memory that work needs, and the dense arrays that lie in it."""

    pool: Pool  # where the memory comes from
    charges: tuple[tuple[Account, int], ...]  # who pays for it, and for how many bytes
    nbytes: int  # bytes of the memory
    stream: Stream | None = None  # the stream that writes it; None: the host does
    kinds: tuple[tuple[Shape, Dtype], ...] = ()  # shapes and types of the arrays
    starts: tuple[int, ...] = (0,)  # where they begin in it


class _Shelf:
    """The free blocks of one size, each by the number of its release, in that order."""

    __slots__ = ("idle", "waiting")

    def __init__(self) -> None:
        self.idle: dict[int, Memory] = {}  # those known to be used by nothing any more
        # The others, by the stream that wrote them last, which looks there first.
        self.waiting: dict[Stream | None, dict[int, Memory]] = {}

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of all of them in order."""
        return heapq.merge(sorted(self.idle), *self.waiting.values())


class Pool:
    """The memory of one domain: what is in use, and free blocks with their clocks.

    Every method is called under the runtime's submission lock.

    Work ends about in the order in which memory is let go of. So free blocks are kept in order of
    release, and a search looks at the first ones only.
    """

    def __init__(self, store: Store, domain: int, limit: int | None) -> None:
        self._store = store
        self._listens = store.listens
        self._domain = domain
        self._limit = limit
        self._blocks: dict[int, tuple[Any, int]] = {}  # all that it has, by id; their capacities
        self._shelves: dict[int, _Shelf] = {}  # by capacity
        self._idle: dict[int, Memory] = {}  # what is free and used by nothing, by its release
        self._waiting: dict[int, Memory] = {}  # what is free and not known to be idle
        self._idle_bytes = 0  # bytes of what is idle
        self._releases = 0
        # How often a free block was asked whether its users are done: what searches cost.
        self.looks = 0
        self.total = 0  # bytes of all blocks
        self.in_use = 0  # bytes of those that are not free
        self.peak = 0  # the most that these ever were

    @property
    def free(self) -> int:
        """Bytes of the free blocks."""
        return self.total - self.in_use

    def take(
        self, charges: tuple[tuple[Account, int], ...], nbytes: int, stream: Stream | None
    ) -> Memory:
        """Return memory for `stream`, or else the host, to write; accounts pay for parts of it.

        A free block that the stream may overwrite at once comes first, then new memory within the
        limit, then the free block that was released first; its clock comes with it.

        Raises:
          NoRoomError: neither the accounts nor the limit leave room.
        """
        for account, own in charges:
            if account.limit is not None and not account.fits(own):
                raise NoRoomError(own, account, self)
        # Under a limit sizes are exact, so that what fits by the user's arithmetic does fit.
        capacity = size_class(nbytes) if self._limit is None else nbytes
        block = self._covered(capacity, stream) or self._grow(capacity) or self._oldest(capacity)
        if block is None:
            raise NoRoomError(nbytes, charges[0][0] if charges else None, self)
        memory = Memory(block.raw, nbytes, capacity, charges, self)
        memory.written, memory.used = block.written, block.used
        if block.released:
            self._unlist(block)
            self._store.taken(block.raw)
        self.in_use = in_use = self.in_use + capacity
        if in_use > self.peak:
            self.peak = in_use
        self.charge(memory)
        return memory

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit, so that sizes are not rounded."""
        return self._limit is not None

    def adopt(self, charges: tuple[tuple[Account, int], ...]) -> Memory:
        """Return unpooled memory that is only counted; what owns its bytes holds them.

        Raises:
          NoRoomError: an account has no room.
        """
        total = 0
        for account, nbytes in charges:
            if account.limit is not None and not account.fits(nbytes):
                raise NoRoomError(nbytes, account, self)
            total += nbytes
        memory = Memory(None, total, 0, charges, self)
        self.charge(memory)
        return memory

    def release(self, memory: Memory) -> None:
        """Take back memory that nobody claims any more."""
        for account, nbytes in memory.charges:
            account.in_use -= nbytes
        if memory.capacity:
            if self._listens:
                self._store.released(memory.raw, memory.clock())
            self._list(memory)
            self.in_use = in_use = self.in_use - memory.capacity
            if self.total - in_use > self.peak:
                self._trim_idle(self.free - self.peak)

    def trim(self) -> int:
        """Give free blocks that nothing uses any more back to the system; return their bytes."""
        return self._trim(self.free, self._by_release())

    def settle(self) -> None:
        """Wait until nothing uses any free block."""
        for block in self._waiting.values():
            for stream, tick in block.clock():
                stream.synchronize(tick)
            block.written, block.used = None, {}

    def pending(self) -> list[Tick]:
        """The ticks that free blocks wait for."""
        return [tick for block in self._waiting.values() for tick in block.clock()]

    def repair(self, claimed: Iterable[Memory], clock: Mapping[Stream, int] = _NO_CLOCK) -> None:
        """Make all sums right again after a call that was cut short, by what is claimed now.

        A block that the call took or gave back may be in no list. It is free then, and whoever
        takes it waits for everything: for `clock`.
        """
        listed = {**self._idle, **self._waiting}
        taken = {id(memory.raw) for memory in claimed}
        in_order = [listed[number] for number in sorted(listed)]
        free = {id(block.raw): block for block in in_order if id(block.raw) in self._blocks}
        self._shelves, self._idle, self._waiting, self._idle_bytes = {}, {}, {}, 0
        self.total = self.in_use = 0
        for key in (*free, *self._blocks.keys() - free.keys()):
            raw, capacity = self._blocks[key]
            self.total += capacity
            if key in taken:
                self.in_use += capacity
            elif key in free:
                self._list(free[key])
            else:
                block = Memory(raw, capacity, capacity, (), self)
                block.used = dict(clock)
                self._list(block)

    def charge(self, memory: Memory) -> None:
        """Let the accounts of a memory pay for it."""
        for account, nbytes in memory.charges:  # a small array has one for each device
            account.in_use = in_use = account.in_use + nbytes
            account.allocations += 1
            if in_use > account.peak:
                account.peak = in_use
            if nbytes > account.largest:
                account.largest = nbytes

    def _covered(self, capacity: int, stream: Stream | None) -> Memory | None:
        """Return a free block that needs no wait: the newest one that is idle, if there is one."""
        shelf = self._shelves.get(capacity)
        if shelf is None:
            return None
        if not shelf.idle:
            waiting = shelf.waiting.get(stream)
            if waiting and stream is not None:
                own = next(iter(waiting.values()))
                self.looks += 1
                if not own.used or own.covered(stream):  # nobody but the stream has used most
                    return own
            self._settle()
        if shelf.idle:
            return next(reversed(shelf.idle.values()))
        oldest = map(self._waiting.__getitem__, itertools.islice(shelf.numbers(), _MOST_LOOKS))
        return next((block for block in oldest if self._is_covered(block, stream)), None)

    def _is_covered(self, block: Memory, stream: Stream | None) -> bool:
        self.looks += 1
        return not block.busy() if stream is None else block.covered(stream)

    def _is_idle(self, block: Memory) -> bool:
        self.looks += 1
        return not block.busy()

    def _settle(self) -> None:
        """Find what is idle now, in order of release, up to the first block that is not."""
        while (block := _first(self._waiting)) is not None and self._is_idle(block):
            number, shelf = block.released, self._shelves[block.capacity]
            self._idle[number] = shelf.idle[number] = block
            del shelf.waiting[block.home][number], self._waiting[number]
            self._idle_bytes += block.capacity

    def _grow(self, capacity: int) -> Memory | None:
        if self._limit is not None and self.total + capacity > self._limit:
            self._trim(self.total + capacity - self._limit, self._by_release())
            if self.total + capacity > self._limit:
                return None
        in_use = self.in_use + capacity
        kept = in_use + self._idle_bytes
        most = max(self.peak, in_use)
        if kept > most:  # other sizes were needed before
            self._trim_idle(kept - most)
        try:
            raw = self._store.allocate(self._domain, capacity)
        except MemoryError:
            if not self.trim():
                return None
            return self._grow(capacity)
        if capacity:
            self._blocks[id(raw)] = raw, capacity
        self.total += capacity
        return Memory(raw, capacity, capacity, (), self)

    def _oldest(self, capacity: int) -> Memory | None:
        shelf = self._shelves.get(capacity)
        number = None if shelf is None else next(shelf.numbers(), None)
        return None if number is None else self._block(number)

    def _by_release(self) -> Iterator[int]:
        """Yield the numbers of all free blocks in order of release."""
        return heapq.merge(sorted(self._idle), self._waiting)

    def _block(self, number: int) -> Memory:
        return self._waiting.get(number) or self._idle[number]

    def _trim_idle(self, wanted: int) -> int:
        """Drop at least `wanted` bytes of blocks known to be idle, if there are."""
        self._settle()
        return self._trim(wanted, sorted(self._idle))

    def _trim(self, wanted: int, candidates: Iterable[int]) -> int:
        """Drop at least `wanted` bytes of idle free blocks, the first candidates first."""
        chosen = []
        dropped = 0
        for number in candidates:
            if dropped >= wanted:
                break
            block = self._block(number)
            if number not in self._waiting or self._is_idle(block):
                chosen.append(block)
                dropped += block.capacity
        for block in chosen:
            self._unlist(block)
            del self._blocks[id(block.raw)]
            self.total -= block.capacity
            self._store.free(block.raw)
        return dropped

    def _list(self, block: Memory) -> None:
        """Count a block as free."""
        capacity = block.capacity
        number = block.released = self._releases = self._releases + 1
        shelf = self._shelves.get(capacity)
        if shelf is None:
            if len(self._shelves) > _MOST_EMPTY:
                for size, other in list(self._shelves.items()):
                    if next(other.numbers(), None) is None:
                        del self._shelves[size]
            shelf = self._shelves[capacity] = _Shelf()
        written = block.written
        if written is None and not block.used:
            self._idle[number] = shelf.idle[number] = block
            self._idle_bytes += capacity
        else:
            home = block.home = None if written is None else written[0]
            waiting = shelf.waiting.get(home)
            if waiting is None:
                waiting = shelf.waiting[home] = {}
            self._waiting[number] = waiting[number] = block

    def _unlist(self, block: Memory) -> None:
        """Count a block as no longer free."""
        number, capacity = block.released, block.capacity
        shelf = self._shelves[capacity]
        if self._waiting.pop(number, None) is None:
            del self._idle[number], shelf.idle[number]
            self._idle_bytes -= capacity
        else:
            del shelf.waiting[block.home][number]


def _first(blocks: dict[int, Memory]) -> Memory | None:
    return next(iter(blocks.values()), None)


@functools.lru_cache(maxsize=1024)
def size_class(nbytes: int) -> int:
    """Round up so that blocks of similar size can be reused for one another.

    Returns:
      The next of eight sizes per doubling, at most an eighth more, and at least 64.

    >>> [size_class(n) for n in (0, 64, 1000, 1 << 20, (1 << 20) + 1)]
    [64, 64, 1024, 1048576, 1179648]
    """
    if nbytes <= 64:
        return 64
    step = max(64, (1 << (nbytes - 1).bit_length() - 1) // _CLASSES_PER_DOUBLING)
    return -(-nbytes // step) * step
