"""The runtime and its devices: memory, and the one door through which work is submitted."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from gpushard._cache import BoundedCache
from gpushard._frozen import dataclass
from gpushard._geometry.memory_kind import MEMORY_KINDS, check_kind
from gpushard._runtime.backend import HOST_DOMAIN, Backend, DeviceInfo
from gpushard._runtime.callbacks import Callbacks
from gpushard._runtime.claims import Claim, Claims
from gpushard._runtime.item import Item
from gpushard._runtime.memory import Account, Memory, Passing
from gpushard._runtime.memory_domain import Domain
from gpushard._runtime.pool import NoRoomError, Pool, Room
from gpushard._runtime.reclaim import out_of_memory, pools_of_chip, reclaim, reclaim_locked
from gpushard._runtime.stream import Clock, Stream
from gpushard.config import Settings
from gpushard.errors import ReentrantCallError

T = TypeVar("T")

_ALL: Mapping[Memory, int] = {}

_MOST_DEAD = 1000
"""So many arrays that are gone, beside as many as are there, are not yet forgotten."""

_MOST_QUEUED = 64  # so many claims that began or ended wait for the next submission


class Device:
    """A place that holds shards and runs work: a GPU, a part of one, or a virtual CPU device.

    Get devices from `gpushard.devices()`; do not create them yourself.
    """

    def __init__(
        self,
        runtime: Runtime,
        id: int,
        platform: str,
        device_kind: str,
        local_hardware_id: int,
        partition: int,
        domain: Domain,
        account: Account,
        stream: Stream,
    ) -> None:
        self.runtime = runtime
        self.id = id
        """Position of the device among the devices of all processes."""
        self.platform = platform
        """"cpu" or "gpu"."""
        self.device_kind = device_kind
        """The name of the hardware, as its driver reports it."""
        self.process_index = 0
        """The number of the process that controls the device."""
        self.local_hardware_id = local_hardware_id
        """Position of the GPU among those of the process that controls it."""
        self.partition = partition
        """The number of the part of the GPU that this device is."""
        self.domain = domain
        self.account = account
        self.stream = stream
        """The stream that runs the work of the device."""
        self.host_account = Account(f"page-locked memory of {account.owner}")
        """Counts the bytes of shards in the host memory of this device."""

    def __repr__(self) -> str:
        return f"{self.platform.capitalize()}Device(id={self.id})"

    @property
    def memory_domain(self) -> int:
        """Number of the memory domain; devices with equal numbers share memory, without copies."""
        return self.domain.index

    @property
    def host_id(self) -> int:
        """An older name of `process_index`."""
        return self.process_index

    @property
    def live_buffers(self) -> Any:
        """Raise an error that names the replacement; older versions of JAX had this attribute."""
        raise AttributeError("live_buffers is gone; use gpushard.live_arrays()")

    @property
    def is_addressable(self) -> bool:
        """Whether this process can reach the memory of the device."""
        return self.process_index == self.runtime.process_index

    @property
    def device(self) -> Device:
        """This device. A memory of a device has the same attribute."""
        return self

    def memory(self, kind: str) -> Place:
        """Return the memory of a kind, as a place for `device_put`.

        Args:
          kind: "device", "pinned_host" or "unpinned_host".

        Raises:
          ArgumentError: there is no such kind.
        """
        return self if check_kind(kind) == "device" else MemorySpace(self, kind)

    @property
    def kind(self) -> str:
        """The kind of memory that the device stands for as a place: "device"."""
        return "device"

    def default_memory(self) -> Place:
        """Return the memory that holds shards by default: this device."""
        return self

    def addressable_memories(self) -> list[Place]:
        """Return all memories of the device, as places for `device_put`."""
        return [self.memory(kind) for kind in MEMORY_KINDS]

    def memory_stats(self) -> dict[str, int | None]:
        """Return the use of the device's memory, in bytes.

        Returns:
          A dict. For this device: bytes_in_use, peak_bytes_in_use, bytes_limit (None without a
          quota), largest_alloc_size, and num_allocs, a count. For its memory domain: pool_bytes and
          pool_free_bytes.
        """
        account, pool = self.account, self.domain.pool
        return self.runtime.run_locked(
            lambda: {
                "bytes_in_use": account.in_use,
                "peak_bytes_in_use": account.peak,
                "bytes_limit": account.limit,
                "largest_alloc_size": account.largest,
                "num_allocs": account.allocations,
                "pool_bytes": pool.total,
                "pool_free_bytes": pool.free,
            }
        )

    def synchronize(self) -> None:
        """Wait until the device has finished all work that was submitted so far."""
        memories = set(self.domain.memories.values())
        streams = {self.stream, *(s for domain in memories for s in domain.streams)}
        for stream, tick in self.runtime.run_locked(lambda: [(s, s.issued) for s in streams]):
            stream.synchronize(tick)


@dataclass(frozen=True)
class MemorySpace:
    """Memory of the host beside a device; what a tiling has for a device whose shards lie there."""

    device: Device  # the device
    kind: str  # "pinned_host" or "unpinned_host"

    def __repr__(self) -> str:
        return f"{self.device!r}.memory({self.kind!r})"

    @property
    def id(self) -> int:
        """That of the device."""
        return self.device.id

    @property
    def runtime(self) -> Runtime:
        """The runtime of the device."""
        return self.device.runtime

    @property
    def platform(self) -> str:
        """That of the device."""
        return self.device.platform

    @property
    def process_index(self) -> int:
        """That of the device."""
        return self.device.process_index

    @property
    def is_addressable(self) -> bool:
        """Whether this process can reach it."""
        return self.device.is_addressable

    @property
    def domain(self) -> Domain:
        """The memory domain."""
        return self.device.domain.memories[self.kind]

    @property
    def memory_domain(self) -> int:
        """Number of the memory domain."""
        return self.domain.index

    @property
    def account(self) -> Account:
        """What is charged for shards in it."""
        shared = self.domain is self.device.domain
        return self.device.account if shared else self.device.host_account


Place: TypeAlias = Device | MemorySpace
"""Where a shard lies."""


_runtimes: weakref.WeakSet[Runtime] = weakref.WeakSet()


class Runtime:
    """A backend with its devices, streams, memory and settings."""

    process_index = 0  # the number of this process

    def __init__(self, settings: Settings, backend: Backend) -> None:
        self._threshold: int | None = None  # of collections, while a step may have changed it
        _runtimes.add(self)
        self.settings = settings
        self.backend = backend
        # The submission lock: its order is the order between threads. A signal handler or a
        # finalizer may come to it on the thread that holds it; `run_locked` finds that out.
        self.lock = backend.new_lock()
        # Movement plans, for reuse.
        self.plans: BoundedCache[Any] = BoundedCache(settings.plan_cache_bytes)
        self._claims = Claims()
        self._changing = False  # whether somebody is between two states that others may see
        self._cut_short = False  # whether whoever held the lock last did not come to the end
        self._reclaiming = backend.new_lock()
        self.streams: list[Stream] = []  # every stream that was made
        self._places: dict[Stream, tuple[int, int | None]] = {}  # their domains and devices
        self._arrays: list[weakref.ref[Any]] = []
        self._most_arrays = _MOST_DEAD  # so many are registered before dead ones are forgotten
        self.domains: list[Domain] = []
        self.devices: tuple[Device, ...] = self._make_devices()
        # Host memory for values that were read back.
        self.host_pool = Pool(backend, HOST_DOMAIN, None)
        # Functions of users that are called once work is done.
        self.callbacks = Callbacks(backend.new_caller())
        backend.serve(self._claim_temporary, self._borrow, self.commit)

    def _make_devices(self) -> tuple[Device, ...]:
        infos = self.backend.describe()
        limit = self.settings.memory_limit
        self._make_domains(infos)
        devices = []
        for id, info in enumerate(infos):
            name = f"{self.backend.platform.capitalize()}Device(id={id})"
            devices.append(
                Device(
                    self,
                    id,
                    self.backend.platform,
                    info.kind,
                    info.hardware_id,
                    info.partition,
                    self.domains[info.domain],
                    Account(name, limit),
                    self.new_stream(f"device {id}", info.domain, id),
                )
            )
        return tuple(devices)

    def _make_domains(self, infos: Sequence[DeviceInfo]) -> None:
        backend, settings = self.backend, self.settings
        pinned = {info.domain: info.pinned_domain for info in infos}
        host = {*pinned.values(), *(info.pageable_domain for info in infos)}
        for index in range(max((*pinned, *host)) + 1):
            members = sum(info.domain == index for info in infos)
            limit = settings.memory_limit if members else None
            self.domains.append(
                Domain(
                    index,
                    Pool(backend, index, None if limit is None else limit * members),
                    Pool(backend, pinned.get(index, index), settings.pinned_bytes),
                    *(self.new_stream(f"{use} {index}", index) for use in Domain.USES),
                    readable=index in host or backend.host_readable,
                )
            )
        for info in infos:
            self.domains[info.domain].memories = {
                "device": self.domains[info.domain],
                "pinned_host": self.domains[info.pinned_domain],
                "unpinned_host": self.domains[info.pageable_domain],
            }
            for kind, domain in self.domains[info.domain].memories.items():
                domain.kind = kind if domain.index not in pinned else "device"

    def new_stream(self, name: str, domain: int, device: int | None = None) -> Stream:
        """Make a stream on a memory domain, with the share of a device or the whole chip."""
        stream = Stream(self.backend, name)
        self.backend.add_stream(stream, domain, device)
        self._places[stream] = domain, device
        self.streams.append(stream)
        return stream

    def pools(self) -> Iterator[Pool]:
        """Yield every pool of memory."""
        yield self.host_pool
        for domain in self.domains:
            yield domain.pool
            yield domain.ring

    def commit(
        self,
        step: Callable[..., T],
        streams: Sequence[Stream] = (),
        args: tuple[Any, ...] = (),
    ) -> T:
        """Run one submission under the lock: all of its allocations, waits and items.

        Waits, outside the lock, for room in the queues. When memory is short, frees what can be
        freed, outside the lock too, and tries again.

        Args:
          step: allocates first and then submits, so that running out of memory changes nothing.
          streams: the streams that `step` may submit to.
          args: the arguments of `step`.

        Raises:
          OutOfMemoryError: a quota has no room, even after garbage collection.
          ReentrantCallError: this thread is in the middle of another submission.
        """
        try:
            return self.run_locked(step, streams, args)
        except NoRoomError as shortage:
            pool = shortage.pool
        gc.collect()  # first: what it finds may wait for work, too, and finalizers may come here
        with self._reclaiming:
            reclaim(self.backend, pools_of_chip(pool, self.domains), self.run_locked)
            self.empty_cache()
            try:
                return self.run_locked(step, streams, args)
            except NoRoomError as shortage:
                raise out_of_memory(shortage, self._live_arrays()) from None

    def empty_cache(self) -> int:
        """Give unused memory back to the system; return its size in bytes."""
        return self.run_locked(
            lambda: max(sum([pool.trim() for pool in self.pools()]), self.backend.empty_cache())
        )

    def run_locked(
        self,
        step: Callable[..., T],
        streams: Sequence[Stream] = (),
        args: tuple[Any, ...] = (),
    ) -> T:
        """Run `step` under the lock, once there is room in the queues of `streams`.

        An interrupt may strike anywhere under the lock. The next call finds that out here, and
        corrects all counts before it does anything else.

        Meanwhile, no other code uses the library on this thread. No collection starts, so no
        finalizer runs, and a signal handler that calls the library gets an error. The order of the
        lines leaves no gap: a call before `_changing` is set, or after, is a call like any other. A
        threshold of 0 prevents collections. `gc.disable` would, too, but other threads use it, such
        as `timeit`, which would restore the state that it finds here.

        Raises:
          NoRoomError: a quota has no room; nothing was submitted.
          ReentrantCallError: this thread is in the middle of another step.
        """
        while True:
            with self.lock:
                if self._changing:
                    raise _reentrant()
                self._threshold = threshold = gc.get_threshold()[0] or _threshold_beside()
                try:
                    gc.set_threshold(0)
                    self._changing = True
                    if self._cut_short:
                        self._repair()
                    self._cut_short = True
                    self._claims.drain()
                    for stream in streams:
                        tick = stream.issued - self.settings.queue_limit + 1
                        if tick > stream.done and not stream.finished(tick):
                            self._cut_short = False
                            break
                    else:
                        try:
                            result = step(*args)
                        except NoRoomError:
                            self._cut_short = False  # nothing was submitted
                            raise
                        self._cut_short = False
                        return result
                finally:
                    self._changing = False
                    gc.set_threshold(threshold)
                    self._threshold = None
            stream.synchronize(tick)

    def _repair(self) -> None:
        """Make right what was cut short; repeated from the start if it is itself cut short.

        A tick that was given out and whose item was never queued gets an item that does nothing.
        One that was queued gets a second item, which does no harm and wakes its stream.
        """
        for stream in self.streams:
            if not stream.finished(stream.issued):
                self.backend.enqueue(Item("interrupted", _nothing, stream, stream.issued))
        claimed, everything = self._claims.repair(), {s: s.issued for s in self.streams}
        for pool in self.pools():
            pool.repair([memory for memory in claimed if memory.pool is pool], everything)
        for device in self.devices:
            device.account.in_use = device.host_account.in_use = 0
        for memory in claimed:
            for account, nbytes in memory.charges:
                account.in_use += nbytes

    def claim(self, room: Room, *, here: bool = False) -> Claim:
        """Allocate memory for its stream to write, or `here` for the caller; inside `commit`."""
        stream = None if here else room.stream
        return self._claims.make(room.pool.take(room.charges, room.nbytes, stream))

    def _claim_temporary(self, stream: Stream, nbytes: int) -> Claim:
        """Allocate for what a library needs while an item of `stream` is launched.

        It is under the lock like the launch, which may be the only one to know what the library
        holds: so what others wait for when memory is short is waited for here. The library may use
        the memory in that stream's items as long as it holds the claim.

        Raises:
          OutOfMemoryError: there is no room, even if everything is waited for.
        """
        self._claims.drain()
        try:
            return self._borrow(stream, nbytes)
        except NoRoomError as shortage:
            pool = shortage.pool
        reclaim_locked(self.backend, pools_of_chip(pool, self.domains), self._claims.drain)
        try:
            return self._borrow(stream, nbytes)
        except NoRoomError as shortage:
            raise out_of_memory(shortage, self._live_arrays()) from None

    def _borrow(self, stream: Stream, nbytes: int) -> Claim:
        """Allocate for what a library uses in items of `stream`; inside `commit`."""
        index, device = self._places[stream]
        charges = () if device is None else ((self.devices[device].account, nbytes),)
        memory = self.domains[index].pool.take(charges, nbytes, stream)
        memory.borrower = stream
        return self._claims.make(memory)

    def count(self, room: Room) -> Claim:
        """Claim room for arrays that own their bytes, as small ones do; outside of `commit`.

        Without quotas there is room, and nothing else has to be in order: then this takes no lock,
        and whoever takes it next charges the accounts.

        Raises:
          OutOfMemoryError: a quota has no room.
        """
        if self.settings.memory_limit is not None:
            return self.commit(self._adopt, args=(room,))
        claims = self._claims
        if len(claims.queue) > _MOST_QUEUED:
            with contextlib.suppress(ReentrantCallError):
                self.run_locked(_nothing)
        return claims.begin(Memory(None, room.nbytes, 0, room.charges, room.pool))

    def count_passing(self, passing: Passing) -> None:
        """Count memory that is gone already; like `count` without quotas, and before it.

        Results that are claimed next were there at the same time, so they are part of it.
        """
        self._claims.queue.append(passing)

    def _adopt(self, room: Room) -> Claim:
        return self._claims.make(room.pool.adopt(room.charges))

    def submit(
        self,
        stream: Stream,
        name: str,
        run: Callable[[], None],
        reads: Collection[Memory],
        writes: Sequence[Memory],
        *,
        part: int = 0,
        until: Mapping[Memory, int] = _ALL,
        effect: bool = False,
        scoped: bool = True,
    ) -> int:
        """Give a stream work that runs after everything it depends on; inside `commit`.

        An interrupt may strike between any two lines. Their order makes every state in between a
        safe one: a memory's clock never misses an item that is queued, and `seen` never names a
        wait that no item carries.

        Args:
          stream: where it runs.
          name: what it is, for errors.
          run: the work; an exception becomes the error of all that it writes.
          reads: memory whose content it needs.
          writes: memory that it overwrites.
          part: 0 overwrites the whole memory. Part n adds to memory of which this stream has
            written the parts below n, in the same `commit`. It touches no byte of another part, so
            it waits for nobody who reads those.
          until: for memory that is written in parts, in this `commit`, of which it needs only the
            first: the tick of the stream that writes it with which they are there.
          effect: whether the work has an effect outside, so that an exit must not drop it.
          scoped: whether it calls functions of the backend's namespace, which are told where they
            work; not if it calls the backend alone, which knows.

        Returns:
          Its tick in the stream.
        """
        waits: Clock = {}
        for memory in reads:
            written = memory.written
            if written is not None and written[0] is not stream:
                _wait(waits, stream, written[0], until.get(memory, written[1]))
        if not part:
            for memory in writes:
                written = memory.written
                if memory.used or (written is not None and written[0] is not stream):
                    for other, tick in memory.clock():
                        if other is not stream:
                            _wait(waits, stream, other, tick)
        tick, ordered = stream.issued + 1, tuple(waits.items()) if waits else ()
        read, over = tuple(reads), tuple(writes)
        item = Item(name, run, stream, tick, ordered, read, over, part, until, effect, scoped)
        stream.issued = tick
        for memory in reads:
            memory.used[stream] = tick
        for memory in writes:
            memory.used[stream] = tick
        self.backend.enqueue(item)
        if waits:
            stream.seen.update(waits)
        for memory in writes:
            memory.written = (stream, tick)
            if part:
                memory.used.pop(stream, None)
            else:
                memory.used = {}
        return tick

    def register(self, array: Any) -> None:
        """Keep a weak reference to a live array."""
        arrays = self._arrays
        arrays.append(weakref.ref(array))
        if len(arrays) > self._most_arrays:
            with contextlib.suppress(ReentrantCallError):
                self.run_locked(self._forget_dead)

    def _forget_dead(self) -> None:
        arrays, count = self._arrays, len(self._arrays)
        alive = [reference for reference in arrays[:count] if reference() is not None]
        arrays[:count] = alive  # other threads may have added to the end
        self._most_arrays = 2 * len(arrays) + _MOST_DEAD

    def live_arrays(self) -> list[Any]:
        """Return the arrays that are still reachable."""
        return self.run_locked(self._live_arrays)

    def _live_arrays(self) -> list[Any]:
        arrays = [reference() for reference in self._arrays.copy()]
        return [array for array in arrays if array is not None]

    def claimed_bytes(self) -> int:
        """Return the bytes of all memory, of devices and of the host, that is claimed."""
        memories = self.run_locked(self._claims.memories)
        return sum(memory.nbytes for memory in memories)

    def close(self) -> None:
        """Stop the backend and give back the memory of its pools.

        What arrays still hold is given back when they are gone.
        """
        self.callbacks.close()
        self.backend.close()
        self.plans.clear()  # their tilings, as keys of weak tables, would keep this runtime
        self._trim_pools()
        self._claims.follow(self._trim_pools)

    def _trim_pools(self) -> None:
        self.run_locked(lambda: [pool.trim() for pool in self.pools()])

    def renew_locks(self, *, torn: bool) -> None:
        """In a forked child: forget threads that held locks; if `torn`, the submission lock."""
        self.lock, self._reclaiming = self.backend.new_lock(), self.backend.new_lock()
        self.plans.renew_lock()
        self._cut_short = self._cut_short or torn
        self._changing = self._changing and not torn
        if torn and self._threshold is not None:
            gc.set_threshold(self._threshold)


def _threshold_beside() -> int:
    """Return the threshold of collections that a step of another runtime has set to 0, if any.

    That step sets it back before it forgets it, so that who comes too late for one sees the other.
    """
    kept = [runtime._threshold for runtime in list(_runtimes)]
    return next(filter(None, kept), None) or gc.get_threshold()[0]


def _reentrant() -> ReentrantCallError:
    return ReentrantCallError(
        "a signal handler or a finalizer uses gpushard in the middle of a call that gives work to "
        "devices, on the same thread, which cannot go on before it returns. Let a handler set a "
        "flag, or use the loop of asyncio, and do the work outside of it"
    )


def _nothing() -> None:
    """What an item does whose work was interrupted before it was queued, and a step for order."""


def _wait(waits: Clock, stream: Stream, other: Stream, tick: int) -> None:
    """Note that work on `stream` has to wait for a tick, unless that is known to have run."""
    if not stream.covers(other, tick) and waits.get(other, 0) < tick:
        waits[other] = tick
