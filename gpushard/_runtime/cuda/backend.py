"""The CUDA backend: GPUs, or parts of them, as devices.

The thread that submits an item launches it at once, on the CUDA stream of its stream. If the item
has to wait for others, CUDA gets their events. No method waits for a GPU unless it says so.
"""

from __future__ import annotations

import functools
import importlib
import math
import sys
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from gpushard._runtime.backend import (
    HOST_DOMAIN,
    ROOM,
    Claiming,
    Committing,
    DeviceInfo,
    Memories,
    NestKernel,
    Reducing,
    T,
    Tasks,
)
from gpushard._runtime.callbacks import CallingThread
from gpushard._runtime.claims import Claim
from gpushard._runtime.copy_phase import BoxCopy, Message, Phase
from gpushard._runtime.cuda.copier import Copier
from gpushard._runtime.cuda.devices.health import Health
from gpushard._runtime.cuda.devices.selection import select
from gpushard._runtime.cuda.devices.topology import make_topology
from gpushard._runtime.cuda.driver.driver import Driver, Share
from gpushard._runtime.cuda.graphs import Graphs, Launch, Replays
from gpushard._runtime.cuda.kernels import fused, thread_layout
from gpushard._runtime.cuda.kernels.batches import THREADS
from gpushard._runtime.cuda.kernels.calls import Calls, Direct, Products
from gpushard._runtime.cuda.kernels.copy_launches import Launches
from gpushard._runtime.cuda.kernels.division import pack_divisor
from gpushard._runtime.cuda.kernels.elementwise import MOST_CALLS, Signature
from gpushard._runtime.cuda.kernels.limits import MOST_ARGUMENT_BYTES, grid_of, is_wide
from gpushard._runtime.cuda.kernels.reduction import (
    LEAST_ELEMENTS,
    LENGTHS,
    MOST_ELEMENTS,
    power_of,
)
from gpushard._runtime.cuda.kernels.thread_nests import COUNTERS, ThreadNest, launched_kernel
from gpushard._runtime.cuda.loans import Loans
from gpushard._runtime.cuda.memory.bounce import Bounce
from gpushard._runtime.cuda.memory.slabs import Slabs
from gpushard._runtime.cuda.memory.stores import (
    GpuStore,
    PageableStore,
    PinnedStore,
    address_of,
    reach_of,
)
from gpushard._runtime.cuda.nccl import Communicators, Parcel
from gpushard._runtime.cuda.streams import CudaEvent, EventPool, Lease, LostEvent, Queue
from gpushard._runtime.host import dlpack
from gpushard._runtime.host.keep_alive import keep
from gpushard._runtime.item import Item
from gpushard._runtime.kernel_checks import BrokenKernelError
from gpushard._runtime.nests import Nest, Op
from gpushard._runtime.stream import Event, Stream, Tick
from gpushard._runtime.work_sharing import Pace
from gpushard._typing import Dtype, HostArray, Kinds, LocalArray, LocalArrays, Shape
from gpushard.config import Settings
from gpushard.dtypes import is_custom
from gpushard.errors import DeviceLostError, OutOfMemoryError

_DLPACK_CUDA = 2

_MOST_SPARE = 1 << 20
"""Larger memory goes back to its pool at once, where it can serve requests of other sizes."""

_MOST_PRODUCTS = 1 << 24
"""Products of matrices with at most this many multiplications take less time than their launch."""

_HEAD_NS = 250_000
"""Nanoseconds after which a busy stream gets an event, so that a wait for an old result does not
include newer work."""


_PATIENCE = 2.0
"""Seconds to wait at closing for a call that hangs."""


class CudaBackend:
    """Runs devices on GPUs.

    Args:
      settings: gpus, partitions, partition_mode, separate_domains, slab_bytes, engine_bytes and
        nccl are used.
      driver: makes the calls of CUDA; by default through CuPy.

    Raises:
      ConfigurationError: the settings name GPUs that do not exist, or that cannot be divided.
    """

    name = "cuda"
    platform = "gpu"
    exact = False
    host_readable = False
    listens = False

    def __init__(self, settings: Settings, driver: Driver | None = None) -> None:
        if driver is None:
            driver = importlib.import_module(
                "gpushard._runtime.cuda.driver.cupy_driver"
            ).CupyDriver()
        self._driver: Driver = driver
        self._health = Health(driver)
        self._settings = settings
        self._inside = threading.local()
        self._closed = False
        self._queues: dict[Stream, Queue] = {}
        self._find_gpus()
        self._pinned = PinnedStore(driver)
        self._pageable = PageableStore()
        self._gpu_stores = [GpuStore(driver, gpu, settings.slab_bytes) for gpu in self._ordinals]
        pinned: PinnedStore | GpuStore = self._pinned
        self._stores = {store.slabs: store for store in (pinned, *self._gpu_stores)}
        self._events = EventPool(driver, self._ordinals)
        self._loans = Loans(driver, self._ordinals, self._events, self._launched)
        self._launches = Launches(driver, self._events, self._gpu_stores)
        self._graphs = Graphs(driver)
        self._bounces = [Bounce(driver, gpu, self._launches) for gpu in self._ordinals]
        self._copier = Copier(
            driver,
            self._topology,
            self._ordinals,
            self._launches,
            self._bounces,
            settings.engine_bytes,
        )
        self._communicators = Communicators(driver, self._ordinals)
        self._prefetcher = CallingThread("gpushard-prefetch")
        self._claim: Callable[[Stream, int], Claim]
        self._borrow: Callable[[Stream, int], Claim]
        self._commit: Callable[[Callable[[], Claim]], Claim]

    def _find_gpus(self) -> None:
        driver, gpus = self._driver, self._driver.gpus()
        selected = select(self._settings, len(gpus))
        self._ordinals = [choice.ordinal for choice in selected]
        driver.use(self._ordinals)
        peers = [
            frozenset(
                other
                for other, peer in enumerate(self._ordinals)
                if other != chip and driver.enable_peer(gpu, peer)
            )
            for chip, gpu in enumerate(self._ordinals)
        ]
        green = self._settings.partition_mode == "green"
        self._shares: list[list[Share]] = [
            driver.divide(choice.ordinal, choice.partitions)
            if green and choice.partitions > 1
            else []
            for choice in selected
        ]
        self._topology = make_topology(
            selected,
            [gpus[ordinal] for ordinal in self._ordinals],
            peers,
            self._shares,
            separate_domains=self._settings.separate_domains,
        )
        self._peers = peers
        for gpu in self._ordinals:
            driver.prepare(gpu)

    @property
    def namespace(self) -> Any:
        """CuPy."""
        return self._driver.namespace

    def computes(self, dtype: Dtype) -> bool:
        """Whether CuPy has a dtype; it lacks longdouble and most dtypes of `ml_dtypes`."""
        return dtype.name == "bfloat16" if is_custom(dtype) else dtype.char not in "gG"

    def describe(self) -> list[DeviceInfo]:
        """List the devices."""
        return list(self._topology.devices)

    def reaches(self, domain: int, source: int) -> bool:
        """Whether streams of `domain` can read memory of `source`."""
        topology = self._topology
        if topology.pageable in (domain, source):
            return False
        chip, other = topology.chips[domain], topology.chips[source]
        page_locked = topology.kind(source) == "pinned_host"  # every GPU can read it
        return page_locked or chip == other or other in self._peers[chip]

    def sends(self, domain: int, source: int) -> bool:
        """Whether `domain` gets memory of `source` through NCCL.

        Between GPUs that reach one another it is used only if the settings demand it. A copy
        engine, or a kernel that reads the other GPU, needs no second kernel and no buffers.
        """
        chips, wanted = self._topology.chips, self._settings.nccl
        far = max(domain, source) < self._topology.device_domains and chips[domain] != chips[source]
        if not far or wanted == "never" or (wanted == "auto" and self.reaches(domain, source)):
            return False
        return self._health.is_usable and self._communicators.are_ready()

    def new_lock(self) -> AbstractContextManager[Any]:
        """Make a lock."""
        return threading.RLock()

    def new_caller(self) -> CallingThread:
        """Make the thread that calls callbacks."""
        return CallingThread("gpushard-callbacks")

    def _store(self, domain: int) -> GpuStore | PinnedStore | PageableStore:
        if domain in (HOST_DOMAIN, self._topology.pageable):
            return self._pageable
        if domain >= self._topology.device_domains:
            return self._pinned
        return self._gpu_stores[self._topology.chips[domain]]

    def allocate(self, domain: int, nbytes: int) -> Any:
        """Allocate a raw buffer.

        Raises:
          MemoryError: the GPU, or the host, has no room.
          DeviceLostError: the GPU failed.
        """
        with self._health.watch():
            self._loans.collect()
            self._launches.collect()
            self._graphs.collect()
            return self._store(domain).allocate(nbytes)

    def free(self, raw: Any) -> None:
        """Take back a raw buffer that nothing uses any more."""
        if isinstance(raw, np.ndarray) or not self._health.is_usable:
            return
        raw.owner.give(raw)
        if self._closed:
            self._launches.collect(wait=True)
            raw.owner.trim()

    def released(self, raw: Any, ticks: Sequence[Tick]) -> None:
        """Do nothing."""

    def taken(self, raw: Any) -> None:
        """Collect loans and graphs that are over."""
        loans, graphs = self._loans, self._graphs
        if (loans.ended or loans.waiting or graphs.dead) and not self._health.is_lost:
            loans.collect()
            graphs.collect()

    def empty_cache(self) -> int:
        """Give unused memory back to the driver, under the submission lock; return its bytes."""
        with self._health.watch():
            self._launches.collect()
            self._graphs.collect()
            self._driver.empty_cache()
            return sum(slabs.trim() for slabs in self._slabs())

    def _slabs(self) -> list[Slabs]:
        return [self._pinned.slabs, *(store.slabs for store in self._gpu_stores)]

    def view(self, raw: Any, shape: Shape, dtype: Any) -> LocalArray:
        """View the start of a raw buffer as a dense array."""
        if isinstance(raw, np.ndarray):
            return self._pageable.view(raw, shape, dtype)
        return self._stores[raw.owner].view(raw, shape, dtype)

    def views(self, raw: Any, starts: Sequence[int], kinds: Kinds) -> LocalArrays:
        """View parts of a raw buffer that streams can reach as dense arrays."""
        return self._stores[raw.owner].views(raw, starts, kinds)

    def empty(self, domain: int, shape: Shape, dtype: Any) -> LocalArray:
        """Make an array without elements."""
        return self._store(domain).empty(shape, dtype)

    def address(self, array: LocalArray) -> int:
        """Return the address of the first element of an array."""
        return address_of(self._driver, array)

    def host_view(self, array: LocalArray, owner: Any) -> HostArray:
        """View host memory as a read-only NumPy array that keeps `owner` alive."""
        return keep(array, owner)

    def dlpack_device(self, domain: int) -> tuple[int, int]:
        """Return DLPack's device type and id of a memory domain."""
        if self._topology.kind(domain) != "device":
            return dlpack.CPU, 0
        return _DLPACK_CUDA, self._ordinals[self._topology.chips[domain]]

    def lend(self, array: LocalArray, owner: Any, *, consumer: int | None = None) -> Any:
        """Lend data as a CuPy array, or a NumPy array in host memory, that keeps `owner` alive."""
        gpu = self._driver.gpu_of(array)
        if gpu is None:
            return keep(array, owner)
        token: Any = (array, owner)
        if consumer is not None:
            token = self._loans.lend(token, self._ordinals.index(gpu), consumer)
        start = self.address(array)
        return self._driver.array(gpu, start, array.nbytes, array.shape, array.dtype, token)

    def borrow(self, producer: Any, domain: int, stream: Stream) -> LocalArray:
        """Borrow the array of a DLPack producer on a GPU; `stream` waits until it is written."""
        self._health.check()
        queue = self._queues[stream]
        with self._driver.scope(queue.handle, functools.partial(self._lend_memory, stream, queue)):
            local = self._driver.from_dlpack(producer)
        start, shape, strides = self.address(local), local.shape, local.strides
        gpu, owner = self._ordinals[queue.chip], self._loans.borrow(local)
        return self._driver.array(gpu, start, reach_of(local), shape, local.dtype, owner, strides)

    def follow(self, consumer: int | None, ticks: Sequence[Tick], domain: int) -> None:
        """Make a consumer's stream, or the host, wait for ticks."""
        self._health.check()
        for stream, tick in ticks:
            if consumer is None:
                stream.synchronize(tick)
            elif not stream.finished(tick):
                event: Any = stream.event(tick)
                gpu = self._ordinals[self._topology.chips[domain]]
                self._driver.let_wait(consumer, gpu, event.handle)
        self._health.check()  # if a GPU was lost meanwhile, nothing was waited for

    def on_stream(self, stream: Stream, tick: int) -> AbstractContextManager[None]:
        """Make a context in which work of this thread goes to the CUDA stream of a stream."""
        self._health.check()
        queue = self._queues[stream]
        return self._driver.scope(queue.handle, functools.partial(self._lend_memory, stream, queue))

    def recall(self) -> None:
        """Wait for the GPUs if other libraries may still use lent memory, and drop that memory."""
        self._loans.recall(self.synchronize)

    def _launched(self) -> list[Tick]:
        """List the last item of each stream, if it is not over."""
        return [(s, q.launched) for s, q in list(self._queues.items()) if q.launched > s.done]

    def add_stream(self, stream: Stream, domain: int, device: int | None = None) -> None:
        """Make the CUDA stream of a stream; none for memory that no stream can reach."""
        if domain == self._topology.pageable:
            return
        chip = self._topology.chips[domain]
        share = None
        if device is not None and self._shares[chip]:
            share = self._shares[chip][self._topology.devices[device].partition]
        handle = self._driver.stream(self._ordinals[chip], share)
        noting = functools.cache(
            functools.partial(self._driver.stream, self._ordinals[chip], share)
        )
        queue = self._queues[stream] = Queue(chip, domain, handle, noting)
        self._driver.provide(handle, functools.partial(self._take_temporary, stream, queue))

    def serve(self, claim: Claiming, borrow: Claiming, commit: Committing) -> None:
        """Let CuPy's temporary memory come from our pools."""
        self._claim, self._borrow, self._commit = claim, borrow, commit

    def _lend_memory(self, stream: Stream, queue: Queue, nbytes: int) -> tuple[int, Claim | Lease]:
        """Give memory to work of a caller in a stream: its address and its owner.

        Memory that the caller releases serves the caller again. It goes back to the pool when the
        stream gets its next item, because the event of that item covers all uses of the memory.
        """

        def lend() -> Claim:
            for claim in tuple(queue.returned):
                if claim.memory.nbytes == nbytes:
                    queue.returned.remove(claim)
                    return claim
            return self._order_after_users(stream, queue, self._borrow(stream, nbytes))

        claim = self._commit(lend)
        return claim.memory.raw.address, Lease(claim, queue.returned)

    def _take_temporary(
        self, stream: Stream, queue: Queue, nbytes: int
    ) -> tuple[int, Claim | Lease]:
        """Give temporary memory to the current item of a stream: its address and its owner.

        A function of CuPy allocates and frees dozens of small blocks of few sizes. Within an item
        these are reused, so each comes from the pool once.
        """
        if nbytes > _MOST_SPARE:
            claim = self._claim_memory(stream, queue, nbytes)
            return claim.memory.raw.address, claim
        spare = queue.spare.get(nbytes)
        if spare is None:
            spare = queue.spare[nbytes] = deque()
        claim = spare.pop() if spare else self._claim_memory(stream, queue, nbytes)
        return claim.memory.raw.address, Lease(claim, spare)

    def _claim_memory(self, stream: Stream, queue: Queue, nbytes: int) -> Claim:
        try:
            claim = self._claim(stream, nbytes)
        except OutOfMemoryError:
            if not any(queue.spare.values()):
                raise
            self._drop_spare(queue)
            claim = self._claim(stream, nbytes)
        return self._order_after_users(stream, queue, claim)

    def _order_after_users(self, stream: Stream, queue: Queue, claim: Claim) -> Claim:
        """Let a stream wait for the former users of memory."""
        memory = claim.memory
        for other, tick in memory.clock():
            if not stream.covers(other, tick):
                event: Any = other.event(tick)
                self._driver.wait(queue.handle, event.handle)
                stream.seen[other] = tick
        return claim

    def _drop_spare(self, queue: Queue) -> None:
        """Give spare memory of the item back to its pool; memory in use follows when freed."""
        for spare in queue.spare.values():
            spare.clear()
        queue.spare = {}

    def enqueue(self, item: Item) -> None:
        """Launch an item; never waits.

        Raises:
          KeyboardInterrupt: the thread was interrupted while it launched; the item has failed.
        """
        stream, driver = item.stream, self._driver
        queue, handled = self._queues[stream], sys.exception()
        try:
            self._health.check()
            if time.monotonic_ns() - queue.recorded_at > _HEAD_NS:
                self._record_head(stream, queue)
            for other, tick in item.waits:
                event: Any = other.event(tick)
                driver.wait(queue.handle, event.handle)
            give = driver.run if item.scoped else driver.give
            give(queue.handle, self._execute, queue, item)
        except Exception as error:
            item.fail(self._health.note(error), handled)
        queue.launched = item.tick
        if queue.returned:
            queue.returned.clear()

    def _execute(self, queue: Queue, item: Item) -> None:
        if type(item.run) is Direct:
            raised = item.execute()
        else:
            inside = self._inside
            inside.queue = queue
            try:
                raised = item.execute()
            finally:
                inside.queue = None
                if queue.spare:
                    self._drop_spare(queue)
        if raised is None:
            return
        if isinstance(raised, KeyboardInterrupt):
            try:
                raise raised
            finally:
                del raised  # else the frame and the error hold each other, and keep memory alive
        if (noted := self._health.note(raised)) is not raised:
            item.fail(noted)

    def _record_head(self, stream: Stream, queue: Queue) -> None:
        if queue.launched > stream.done:
            stream.event(queue.launched)
        else:
            queue.recorded_at = time.monotonic_ns()

    def record(self, stream: Stream, tick: int) -> Event:
        """Record an event behind all work that a stream was given."""
        queue = self._queues[stream]
        self._health.check_process()
        launched = queue.launched
        if self._health.is_lost:
            return LostEvent(launched, self._health.check)
        try:
            handle = self._events.take(queue.chip)
            self._driver.record(handle, queue.handle)
        except Exception as error:
            if self._health.note(error) is error:
                raise
            return LostEvent(launched, self._health.check)
        queue.recorded_at = time.monotonic_ns()
        pool = self._events.free[queue.chip]
        return CudaEvent(self._driver, handle, launched, pool, self._health.note)

    def calls(
        self,
        function: Any,
        operands: Sequence[Dtype],
        scalars: Sequence[int],
        results: Sequence[Dtype],
        batches: Sequence[tuple[Stream, Sequence[Shape]]],
        blocks: Sequence[Shape],
        *,
        together: bool,
    ) -> Sequence[Calls | Products] | None:
        """Prepare calls of a function on dense blocks, one launch per batch; None if it cannot."""
        most = max(len(shapes) for _, shapes in batches)
        if most > MOST_CALLS:
            return None
        if isinstance(function, ThreadNest):
            return self._prepare_nest(function, batches, together)
        if len(operands) == 2 and not scalars:
            dtypes = {*operands, *results}
            products = self._prepare_products(function, dtypes, batches, blocks, together)
            if products is not None:
                return products
        sizes = [math.prod(shape) for _, shapes in batches for shape in shapes]
        wide = is_wide(max(sizes))
        loops = LENGTHS if isinstance(function, Reducing) else 1
        signature = Signature(tuple(operands), tuple(scalars), tuple(results), most, wide, loops)
        if signature.nbytes > MOST_ARGUMENT_BYTES:
            return None
        chip = self._queues[batches[0][0]].chip
        driver, store, gpu = self._driver, self._gpu_stores[chip], self._ordinals[chip]
        length = None
        if isinstance(function, Reducing):
            length = _row_length(function, blocks, results, sizes)
            name = getattr(function.function, "__name__", "")
            kernel = None if length is None else driver.reduction(gpu, name, signature)
        else:
            kernel = None if blocks else driver.elementwise(gpu, function, signature)
        if kernel is None:
            return None
        prepared = []
        for stream, shapes in batches:
            handle, counts = self._queues[stream].handle, [math.prod(shape) for shape in shapes]
            kinds = [(shape, t) for t in results for shape in shapes]
            share = THREADS * signature.each  # elements, or rows, for a block of threads
            if length is not None:
                power = power_of(length, operands[0])
                share = THREADS >> power
            grid = grid_of(-(-max(counts) // share), len(counts))
            if grid is None:
                return None
            if length is not None:
                counts = [*[length] * len(counts), *counts, *[power] * len(counts)]
            call = Calls(
                driver, store, handle, kernel, signature, kinds, counts, grid, together=together
            )
            prepared.append(call)
        return prepared

    def replay(self, stream: Stream, calls: Sequence[Launch]) -> Replays:
        """Prepare several calls in a row, which run as a graph if their addresses come again."""
        queue = self._queues[stream]
        return Replays(self._graphs, queue.handle, queue.noting(), calls)

    def fuses(self, op: Op, types: Sequence[Dtype], length: int) -> bool:
        """Whether `calls` can fuse an operation with others."""
        if op.kernel is None:
            return fused.reduces(op, length)
        return self._driver.fuses(op, types)

    def compile(self, nest: Nest, blocks: Sequence[Sequence[Shape]]) -> NestKernel | None:
        """Convert a nest to a function for `calls`; None if threads cannot share its loops."""
        return launched_kernel(nest)

    def _prepare_nest(
        self,
        dealt: ThreadNest,
        batches: Sequence[tuple[Stream, Sequence[Shape]]],
        together: bool,
    ) -> list[Calls] | None:
        """Prepare calls of a loop nest; None if there is no kernel for it.

        There is none for too many arrays, for too large arrays within threads, for more rows than a
        grid has blocks, or if `kernel_checks` finds a fault in the kernel. If rows are cut into
        parts, all calls count their parts in memory of the first call, which must have room.
        """
        lengths_of = [[dealt.lengths(lengths) for lengths in wholes] for _, wholes in batches]
        every = [lengths for calls in lengths_of for lengths in calls]
        way = thread_layout.threads(dealt, every)
        wide = is_wide(max(thread_layout.largest_index(dealt, way, lengths) for lengths in every))
        signature = dealt.signature(max(map(len, lengths_of)), wide=wide)
        if signature.nbytes > MOST_ARGUMENT_BYTES:
            return None
        chip = self._queues[batches[0][0]].chip
        driver, store, gpu = self._driver, self._gpu_stores[chip], self._ordinals[chip]
        try:
            kernel = driver.fused(gpu, dealt, signature, way)
        except BrokenKernelError as error:
            warnings.warn(
                "a kernel in CUDA C is wrong and is not used, kernels of single operations are: "
                f"{error}",
                RuntimeWarning,
                stacklevel=2,
            )
            return None
        if kernel is None:
            return None
        prepared = []
        for (stream, wholes), calls in zip(batches, lengths_of, strict=True):
            kinds = [
                (dealt.whole.shape(result, lengths), t)
                for result, t in zip(dealt.whole.results, signature.results, strict=False)
                for lengths in wholes
            ]
            if dealt.parts > 1:
                kinds += [((dealt.room(lengths),), ROOM) for lengths in wholes]
            rows = [way.rows_of(lengths) for lengths in calls]
            pieces = max(1, *[way.blocks_of(lengths) for lengths in calls])
            grid = grid_of(pieces * dealt.parts, len(calls))
            cleared = 4 * pieces * len(calls) if dealt.parts > 1 else 0
            if grid is None or cleared > rows[0] * COUNTERS * ROOM.itemsize:
                return None
            counts = [n for loop in zip(*calls, strict=True) for n in loop]
            counts = counts if wide else list(map(pack_divisor, counts))
            handle = self._queues[stream].handle
            call = Calls(
                driver, store, handle, kernel, signature, kinds, counts, grid,
                together=together, cleared=cleared,
            )  # fmt: skip
            prepared.append(call)
        return prepared

    def _prepare_products(
        self,
        function: Any,
        dtypes: set[Dtype],
        batches: Sequence[tuple[Stream, Sequence[Shape]]],
        blocks: Sequence[Shape],
        together: bool,
    ) -> list[Products] | None:
        """Prepare products of matrices; None if the function is another, or CuPy is faster.

        For small products, all devices of a chip share a call. For large ones, each device has its
        own call, so that the calls share the chip.
        """
        shape = batches[0][1][0]
        left, right = blocks or (shape, shape)
        single = math.prod(shape) == 1  # CuPy sums this by a kernel of its own
        if single or len(dtypes) > 1 or not math.prod(left) * math.prod(right):
            return None
        if len(right) != 2 or len(left) < 2 or len(shape) != len(left):
            return None
        (*lead, _), (depth, columns), (dtype,) = shape, right, dtypes
        rows = math.prod(lead)  # those of all matrices on the left are rows of one
        if is_wide(max(depth, rows, columns)):
            return None
        several = max(len(shapes) for _, shapes in batches) > 1
        if several and not (together and rows * columns * depth <= _MOST_PRODUCTS):
            return None
        chip = self._queues[batches[0][0]].chip
        if not self._driver.multiplies(self._ordinals[chip], function, dtype):
            return None
        driver, store = self._driver, self._gpu_stores[chip]
        handles = [self._queues[stream].handle for stream, _ in batches]
        return [
            Products(driver, store, handle, shapes, depth, dtype, together=together)
            for handle, (_, shapes) in zip(handles, batches, strict=True)
        ]

    def copy_phase(self, phase: Phase, operands: LocalArrays, domain: int) -> None:
        """Copy the boxes of a phase: by one launch, and one call for each box by copy engine."""
        queue: Queue | None = getattr(self._inside, "queue", None)
        if queue is None:
            self.copy_boxes(phase.copies(operands), domain)
        else:
            self._copier.copy_phase(phase, operands, domain, queue.chip, queue.handle)

    def copy_boxes(self, copies: Sequence[BoxCopy], domain: int) -> None:
        """Copy boxes: on the stream of the current item, or at once, and then wait for them."""
        queue: Queue | None = getattr(self._inside, "queue", None)
        if queue is not None:
            self._copier.copy_boxes(copies, domain, queue.handle)
            return
        with self._health.watch():
            self._copier.copy_now(copies, domain)

    def exchange(self, messages: Sequence[Message]) -> None:
        """Send messages between streams; they start together."""
        parcels = []
        for message in messages:
            sender, receiver = self._queues[message.sender], self._queues[message.receiver]
            ends = (
                address_of(self._driver, message.source),
                address_of(self._driver, message.target),
            )
            handles, nbytes = (sender.handle, receiver.handle), message.target.nbytes
            parcels.append(Parcel(sender.chip, ends[0], receiver.chip, ends[1], nbytes, handles))
        self._communicators.exchange(parcels)
        for message in messages:
            domains = self._queues[message.receiver].domain, self._queues[message.sender].domain
            self._copier.traffic.add(domains[0], {domains[1]: message.target.nbytes})

    def fill_boxes(self, targets: LocalArrays, value: np.generic, domain: int) -> None:
        """Fill boxes: on the stream of the current item, or at once, and then wait for them."""
        queue: Queue | None = getattr(self._inside, "queue", None)
        if queue is not None:
            self._launches.launch_fills(targets, value, queue.handle)
            return
        with self._health.watch():
            self._copier.fill_now(targets, value, domain)

    @property
    def traffic(self) -> dict[tuple[int, int], int]:
        """Bytes copied so far, by (source domain, destination domain)."""
        return self._copier.traffic.total()

    def call_among(self, calls: int, function: Callable[[], T]) -> T:
        """Call a function that launches kernels."""
        return function()

    def rehearse(self, kernel: Any, operands: Sequence[Any], results: Kinds, domain: int) -> None:
        """Let CuPy compile the code that a kernel needs, which may take seconds."""
        gpu = self._ordinals[self._topology.chips[domain]]
        with self._health.watch():
            self._driver.rehearse(kernel, operands, results, gpu)

    def run_now(self, calls: Tasks, reads: Memories, writes: Memories, pace: Pace) -> None:
        """Run the calls one after the other."""
        for call in calls:
            call()

    def prefetch(self, read: Callable[[], object]) -> None:
        """Call a method soon, on another thread, if its object is still alive by then."""
        if not self._closed:
            self._prefetcher.put(functools.partial(_call_if_alive, weakref.WeakMethod(read)))

    def check(self) -> None:
        """Check that the GPUs still work.

        Raises:
          DeviceLostError: a GPU failed, or the process was forked.
        """
        self._health.check()

    def synchronize(self) -> None:
        """Wait for all work on all GPUs, including that of other libraries."""
        with self._health.watch():
            for gpu in self._ordinals:
                self._driver.synchronize_gpu(gpu)

    def close(self) -> None:
        """Wait for launched work and free unused memory; later work still runs."""
        self._closed = True
        self._prefetcher.close()
        if not self._health.is_usable:
            return
        try:
            self.synchronize()
        except DeviceLostError:
            return
        self._communicators.close()
        self._graphs.collect()
        for bounce in self._bounces:
            bounce.close()
        for slabs in self._slabs():
            slabs.trim()


def _row_length(
    function: Reducing, blocks: Sequence[Shape], results: Sequence[Dtype], sizes: Sequence[int]
) -> int | None:
    """Return the length of the rows to reduce, if a block of threads can reduce them; else None."""
    if len(blocks) != 1 or len(results) != 1:
        return None
    axes = sorted(function.axes)
    length = math.prod(blocks[0][len(blocks[0]) - len(axes) :])
    in_order = axes == list(range(-len(axes), 0)) and axes
    fits = LEAST_ELEMENTS <= length <= MOST_ELEMENTS and sizes[0] > 0
    return length if in_order and fits and len(set(sizes)) == 1 else None


def _call_if_alive(reference: weakref.WeakMethod[Callable[[], object]]) -> None:
    method = reference()
    if method is not None:
        method()
