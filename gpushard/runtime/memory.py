"""Memory: root allocations that know who wrote and who uses them, and pools of free ones.

A `Memory` is one root allocation with its clocks. A `Claim` is the right to it: arrays, views,
exports and running calls hold references to one claim, and when the last is gone the memory goes
back to its pool. It keeps its clock there, so that the next taker waits for every earlier user and
a release never waits for anyone.
"""

from __future__ import annotations

import contextlib
import functools
import heapq
import itertools
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from gpushard.errors import ReentrantCallError
from gpushard.runtime.stream import Clock, Stream, Tick

_CLASSES_PER_DOUBLING = 8

_MOST_LOOKS = 16
"""So many blocks that are waited for are looked at before a pool grows."""

_MOST_EMPTY = 64
"""So many sizes are remembered though there are no free blocks of some."""


class Account:
    """What one device is charged for.

    Args:
      owner: the device's name, for messages.
      limit: quota in bytes, or None.
    """

    __slots__ = ("allocations", "in_use", "largest", "limit", "owner", "peak")

    def __init__(self, owner: str, limit: int | None = None) -> None:
        self.owner = owner
        self.limit = limit
        self.in_use = 0
        self.peak = 0
        self.allocations = 0
        self.largest = 0

    def restart(self, limit: int | None) -> None:
        """Be as if nothing was ever charged."""
        self.limit = limit
        self.in_use = self.peak = self.allocations = self.largest = 0

    def fits(self, nbytes: int) -> bool:
        """Whether the quota leaves room for `nbytes` more."""
        return self.limit is None or self.in_use + nbytes <= self.limit


class Memory:
    """One root allocation.

    Args:
      raw: the backend's buffer; None when the shards of a small array own theirs.
      nbytes: bytes asked for.
      capacity: bytes that the pool holds for it; 0 when it is not pooled.
      charges: the accounts that pay, with the bytes.
      pool: where it goes back to.
    """

    __slots__ = (
        "borrower",
        "capacity",
        "charges",
        "error",
        "home",
        "nbytes",
        "pool",
        "raw",
        "released",
        "used",
        "written",
    )

    def __init__(
        self,
        raw: Any,
        nbytes: int,
        capacity: int,
        charges: tuple[tuple[Account, int], ...],
        pool: Pool,
    ) -> None:
        self.raw = raw
        self.nbytes = nbytes
        self.capacity = capacity
        self.charges = charges
        self.pool = pool
        self.written: Tick | None = None
        """The item that writes the current content; None when it is known to be there."""
        self.used: Clock = {}
        """The last item of each stream that reads it, or that used it before it was freed."""
        self.error: BaseException | None = None
        """Why the content will never be there."""
        self.released = 0
        """When it was freed, as a number that grows with every release to its pool; 0 for never."""
        self.home: Stream | None = None
        """Once freed: the stream that wrote it last."""
        self.borrower: Stream | None = None
        """The stream whose items a library uses it in, without a tick that says which."""

    def pending(self) -> bool:
        """Whether its content is still to be written."""
        written = self.written
        return written is not None and not written[0].finished(written[1])

    def busy(self) -> bool:
        """Whether some item still reads or writes it; under the lock, forgets what is over."""
        if self.written is None and not self.used:
            return False
        self.used = {s: n for s, n in self.used.items() if not s.finished(n)}
        if not self.pending():
            self.written = None
        return self.written is not None or bool(self.used)

    def clock(self) -> tuple[Tick, ...]:
        """The ticks that whoever overwrites it has to wait for."""
        written, used = self.written, self.used
        if used:
            return tuple(used.items()) if written is None else (written, *used.items())
        return () if written is None else (written,)

    def covered(self, stream: Stream) -> bool:
        """Whether `stream` may overwrite it without a wait."""
        written = self.written
        if written is not None and written[0] is not stream and not stream.covers(*written):
            return False
        for other, tick in self.used.items():
            if other is not stream and not stream.covers(other, tick):
                return False
        return True


class Claim:
    """The right to a memory, shared by reference; the memory is free when no reference is left."""

    __slots__ = ("__weakref__", "memory")

    def __init__(self, memory: Memory) -> None:
        self.memory = memory


class _ClaimEnd(weakref.ref[Claim]):
    """Watches a claim; when it dies, `Claims._ended.append` is called with this, from C."""

    __slots__ = ("memory",)
    memory: Memory


class Claims:
    """All claims of a runtime, and the queue of those that began without the lock, or ended."""

    def __init__(self) -> None:
        self._open: dict[int, _ClaimEnd] = {}
        self.queue: deque[Any] = deque()
        """Ends of claims; those that began, each in a tuple, to be charged first."""
        self._followed: list[weakref.ref[Claim]] = []

    def memories(self) -> list[Memory]:
        """Return the memories that are claimed."""
        return [end.memory for end in self._open.values()]

    def make(self, memory: Memory) -> Claim:
        """Return the claim on a fresh memory."""
        claim = Claim(memory)
        end = _ClaimEnd(claim, self.queue.append)
        end.memory = memory
        self._open[id(end)] = end
        return claim

    def begin(self, memory: Memory) -> Claim:
        """Return the claim on a fresh memory that `drain` is to charge; needs no lock."""
        claim, queue = Claim(memory), self.queue
        end = _ClaimEnd(claim, queue.append)
        end.memory = memory
        queue.append((end,))
        return claim

    def drain(self) -> None:
        """Charge claims that began, give back the memory of those that ended; under the lock.

        What an interrupt cuts short here comes again after `repair`. What comes meanwhile, from
        other threads and signal handlers, is for the next time: this ends, however busy they are.
        """
        queue, still_open = self.queue, self._open
        for _ in range(len(queue)):
            end = queue[0]
            if type(end) is tuple:
                (end,) = end
                if id(end) not in still_open:
                    end.memory.pool.charge(end.memory)
                    still_open[id(end)] = end
            elif id(end) in still_open:
                memory = end.memory
                borrower = memory.borrower
                if borrower is not None:  # any item that was launched so far may have used it
                    memory.written, memory.used = (borrower, borrower.issued), {}
                memory.pool.release(memory)
                del still_open[id(end)]
            queue.popleft()

    def follow(self, drain: Callable[[], object]) -> None:
        """From now on do not wait until somebody drains: call what does so when a claim ends.

        Args:
          drain: calls `drain` under the submission lock.
        """
        for end in list(self._open.values()):
            if (claim := end()) is not None:
                gone = functools.partial(self._drain_at_once, end, drain)
                self._followed.append(weakref.ref(claim, gone))

    def _drain_at_once(self, end: _ClaimEnd, drain: Callable[[], object], _: object) -> None:
        self.queue.append(end)  # its own callback comes after this one
        if sys.is_finalizing():
            return
        with contextlib.suppress(ReentrantCallError):  # it ended within a submission
            drain()

    def repair(self) -> list[Memory]:
        """Forget claims whose end was cut short, and return the memories that are claimed."""
        self._open = {key: end for key, end in self._open.items() if end() is not None}
        return self.memories()


class Store(Protocol):
    """The part of a backend that holds memory."""

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


class _Shelf:
    """The free blocks of one size, each by the number of its release, in that order."""

    __slots__ = ("idle", "waiting")

    def __init__(self) -> None:
        self.idle: dict[int, Memory] = {}
        """Those known to be used by nothing any more."""
        self.waiting: dict[Stream | None, dict[int, Memory]] = {}
        """The others, by the stream that wrote them last, which looks there first."""

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of all of them in order."""
        return heapq.merge(sorted(self.idle), *self.waiting.values())


class Pool:
    """The memory of one domain: what is in use, and free blocks with their clocks.

    Every method is called under the runtime's submission lock.

    Work ends about in the order in which memory is let go of. So free blocks are kept in order of
    release, and a search looks at the first ones only.

    Args:
      store: makes raw buffers.
      domain: the memory domain.
      limit: bytes that blocks, in use or free, may take together; None for no limit.
    """

    def __init__(self, store: Store, domain: int, limit: int | None) -> None:
        self._store = store
        self._domain = domain
        self._limit = limit
        self._used: dict[int, Memory] = {}  # pooled memory that is claimed, by id
        self._shelves: dict[int, _Shelf] = {}  # by capacity
        self._idle: dict[int, Memory] = {}  # what is free and used by nothing, by its release
        self._waiting: dict[int, Memory] = {}  # what is free and not known to be idle
        self._waited_for = 0  # bytes of those
        self._releases = 0
        self.looks = 0
        """How often a free block was asked whether its users are done: what searches cost."""
        self.total = 0
        """Bytes of all blocks."""
        self.free = 0
        """Bytes of the free ones."""
        self.peak = 0
        """The most bytes that were in use at once."""

    def take(self, nbytes: int, account: Account | None, stream: Stream | None) -> Memory:
        """Return memory for `stream` to write.

        A free block that the stream may overwrite at once comes first, then new memory within the
        limit, then the free block that was released first; its clock comes with it.

        Args:
          nbytes: bytes needed.
          account: who pays; None for memory that no device is charged for.
          stream: who writes first; None for the host.

        Raises:
          NoRoomError: neither the account nor the limit leaves room.
        """
        charges = () if account is None else ((account, nbytes),)
        return self.take_for(charges, nbytes, stream)

    def take_for(
        self, charges: tuple[tuple[Account, int], ...], nbytes: int, stream: Stream | None
    ) -> Memory:
        """Return memory that several may share, as `take` does.

        Args:
          charges: who pays, and for how many bytes.
          nbytes: bytes needed.
          stream: who writes first; None for the host.

        Raises:
          NoRoomError: an account or the limit leaves no room.
        """
        for account, own in charges:
            if account.limit is not None and not account.fits(own):
                raise NoRoomError(own, account, self)
        # Under a limit sizes are exact, so that what fits by the user's arithmetic does fit.
        capacity = size_class(nbytes) if self._limit is None else nbytes
        block = self._covered(capacity, stream) or self._grow(capacity) or self._oldest(capacity)
        if block is None:
            raise NoRoomError(nbytes, charges[0][0] if charges else None, self)
        memory = Memory(block.raw, nbytes, block.capacity, charges, self)
        memory.written, memory.used = block.written, block.used
        if memory.capacity:
            self._used[id(memory)] = memory
        if block.released:
            self._unlist(block)
            self._store.taken(block.raw)
        in_use = self.total - self.free
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
            self._store.released(memory.raw, memory.clock())
            self._list(memory)
            del self._used[id(memory)]
            if self.free > self.peak:
                self._trim_idle(self.free - self.peak)

    def trim(self) -> int:
        """Give free blocks that nothing uses any more back to the system.

        Returns:
          The bytes given back.
        """
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

    def repair(self, claimed: Iterable[Memory]) -> None:
        """Make lists and sums right again after a call that was cut short at any point.

        Args:
          claimed: every memory that is claimed now.
        """
        claims = {id(memory) for memory in claimed}
        used, listed = self._used, {**self._idle, **self._waiting}
        self._used = {key: memory for key, memory in used.items() if key in claims}
        taken = {id(memory.raw) for memory in self._used.values()}
        self._shelves, self.free = {}, 0
        self._idle, self._waiting, self._waited_for = {}, {}, 0
        in_order = [listed[number] for number in sorted(listed)]
        blocks = {id(block.raw): block for block in (*in_order, *used.values())}
        for raw, block in blocks.items():
            if raw not in taken:
                self._list(block)
        self.total = self.free + sum(memory.capacity for memory in self._used.values())

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
                if own.covered(stream):
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
            self._waited_for -= block.capacity

    def _grow(self, capacity: int) -> Memory | None:
        if self._limit is not None and self.total + capacity > self._limit:
            self._trim(self.total + capacity - self._limit, self._by_release())
            if self.total + capacity > self._limit:
                return None
        in_use = self.total - self.free
        kept = in_use + capacity + self.free - self._waited_for
        most = max(self.peak, in_use + capacity)
        if kept > most:  # other sizes were needed before
            self._trim_idle(kept - most)
        try:
            raw = self._store.allocate(self._domain, capacity)
        except MemoryError:
            if not self.trim():
                return None
            return self._grow(capacity)
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
        """Return the free block of a release."""
        return self._waiting.get(number) or self._idle[number]

    def _trim_idle(self, wanted: int) -> int:
        """Drop at least `wanted` bytes of blocks known to be idle, if there are."""
        self._settle()
        return self._trim(wanted, sorted(self._idle))

    def _trim(self, wanted: int, candidates: Iterable[int]) -> int:
        """Drop at least `wanted` bytes of idle free blocks, if there are.

        Args:
          wanted: bytes.
          candidates: the numbers of their releases; the first ones go first.
        """
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
            self.total -= block.capacity
            self._store.free(block.raw)
        return dropped

    def _list(self, block: Memory) -> None:
        """Count a block as free."""
        capacity = block.capacity
        number = block.released = self._releases = self._releases + 1
        shelf = self._shelves.get(capacity)
        if shelf is None:
            shelf = self._shelves[capacity] = _Shelf()
        written = block.written
        if written is None and not block.used:
            self._idle[number] = shelf.idle[number] = block
        else:
            home = block.home = None if written is None else written[0]
            waiting = shelf.waiting.get(home)
            if waiting is None:
                waiting = shelf.waiting[home] = {}
            self._waiting[number] = waiting[number] = block
            self._waited_for += capacity
        self.free += capacity

    def _unlist(self, block: Memory) -> None:
        """Count a block as no longer free."""
        number, capacity = block.released, block.capacity
        shelf = self._shelves[capacity]
        if self._waiting.pop(number, None) is None:
            del self._idle[number], shelf.idle[number]
        else:
            del shelf.waiting[block.home][number]
            self._waited_for -= capacity
        if len(self._shelves) > _MOST_EMPTY and next(shelf.numbers(), None) is None:
            del self._shelves[capacity]
        self.free -= capacity


def _first(blocks: dict[int, Memory]) -> Memory | None:
    return next(iter(blocks.values()), None)


@functools.lru_cache(maxsize=1024)
def size_class(nbytes: int) -> int:
    """Round up so that blocks of similar size can be reused for one another.

    Args:
      nbytes: bytes needed.

    Returns:
      The next of eight sizes per doubling, at most an eighth more, and at least 64.

    >>> [size_class(n) for n in (0, 64, 1000, 1 << 20, (1 << 20) + 1)]
    [64, 64, 1024, 1048576, 1179648]
    """
    if nbytes <= 64:
        return 64
    step = max(64, (1 << (nbytes - 1).bit_length() - 1) // _CLASSES_PER_DOUBLING)
    return -(-nbytes // step) * step
