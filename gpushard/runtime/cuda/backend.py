"""The CUDA backend: GPUs, or parts of them, as devices.

Items are launched by whoever submits them, at once, on the CUDA stream behind their stream; what
they wait for is told to CUDA as events, and nothing here waits for a GPU unless it says so.
"""

from __future__ import annotations

import functools
import importlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard.config import Settings
from gpushard.errors import DeviceLostError
from gpushard.runtime.backend import HOST_DOMAIN, BoxCopy, DeviceInfo, Item, Phase
from gpushard.runtime.cuda.bounce import Bounce
from gpushard.runtime.cuda.driver import Driver, EventHandle, Share, StreamHandle
from gpushard.runtime.cuda.engines import by_engine
from gpushard.runtime.cuda.events import CudaEvent
from gpushard.runtime.cuda.launches import Launches
from gpushard.runtime.cuda.prefetch import Prefetcher
from gpushard.runtime.cuda.selection import select
from gpushard.runtime.cuda.slabs import Slabs
from gpushard.runtime.cuda.stores import GpuStore, PageableStore, PinnedStore, address_of
from gpushard.runtime.cuda.topology import make_topology
from gpushard.runtime.host.store import host_view
from gpushard.runtime.stream import Event, Stream, Tick
from gpushard.typing import HostArray, LocalArray, Shape

_HEAD_NS = 250_000
"""Nanoseconds after which a stream that goes on gets an event, so that who asks for an old result
need not wait for a new one."""


class _Queue:
    """The CUDA stream behind a stream."""

    __slots__ = ("chip", "domain", "handle", "launched", "recorded_at")

    def __init__(self, chip: int, domain: int, handle: StreamHandle) -> None:
        self.chip = chip
        self.domain = domain
        self.handle = handle
        self.launched = 0
        """The last item that was given to CUDA."""
        self.recorded_at = 0
        """When an event was recorded last."""


class CudaBackend:
    """GPUs as devices.

    Args:
      settings: of these gpus, partitions, partition_mode, separate_domains, slab_bytes,
        engine_bytes.
      driver: makes the calls of CUDA; by default through CuPy.

    Raises:
      ConfigurationError: the settings name GPUs that are not there, or that cannot be divided.
    """

    name = "cuda"
    platform = "gpu"
    exact = False
    host_readable = False

    def __init__(self, settings: Settings, driver: Driver | None = None) -> None:
        if driver is None:
            driver = importlib.import_module("gpushard.runtime.cuda.cupy_driver").CupyDriver()
        self._driver: Driver = driver
        self._pid = os.getpid()
        self._settings = settings
        self.traffic: dict[tuple[int, int], int] = {}
        self._counting = threading.Lock()
        self._inside = threading.local()
        self._lost: DeviceLostError | None = None
        self._closed = False
        # Streams of shares are exchanged in the end. Who launches holds the first for all that an
        # item needs; the second for one call, also within locks that are taken while launching.
        self._launching = threading.RLock()
        self._recording = threading.RLock()
        self._queues: dict[Stream, _Queue] = {}
        self._find_gpus()
        self._pinned = PinnedStore(driver)
        self._pageable = PageableStore()
        self._gpu_stores = [GpuStore(driver, gpu, settings.slab_bytes) for gpu in self._ordinals]
        self._launches = Launches(driver, self._ordinals, self._gpu_stores)
        self._events: list[deque[EventHandle]] = [deque() for _ in self._ordinals]
        self._bounces = [
            Bounce(driver, gpu, self._pinned, functools.partial(self._launch_host, chip))
            for chip, gpu in enumerate(self._ordinals)
        ]
        self._prefetcher = Prefetcher()

    def _find_gpus(self) -> None:
        driver, gpus = self._driver, self._driver.gpus()
        selected = select(self._settings, len(gpus))
        self._ordinals = [choice.ordinal for choice in selected]
        peers = [
            frozenset(
                other
                for other, peer in enumerate(self._ordinals)
                if other != chip and driver.enable_peer(gpu, peer)
            )
            for chip, gpu in enumerate(self._ordinals)
        ]
        self._shares: list[list[Share]] = []
        self._divide([choice.partitions for choice in selected])
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

    def _divide(self, partitions: Sequence[int]) -> None:
        """Give the partitions of each GPU multiprocessors of their own, where that is set."""
        green = self._settings.partition_mode == "green"
        try:
            for gpu, parts in zip(self._ordinals, partitions, strict=True):
                divided = green and parts > 1
                self._shares.append(self._driver.divide(gpu, parts) if divided else [])
        except BaseException:
            self._unite()
            raise

    def _unite(self) -> None:
        """Let what is launched from now on, on any stream, have all of its GPU."""
        shares, self._shares = self._shares, [[] for _ in self._shares]
        with self._recording:
            self._driver.unite([share for of_gpu in shares for share in of_gpu])

    def describe(self) -> list[DeviceInfo]:
        """List the devices."""
        return list(self._topology.devices)

    def reaches(self, domain: int, source: int) -> bool:
        """Whether streams of `domain` can read memory of `source`."""
        topology = self._topology
        if topology.pageable in (domain, source):
            return False
        chip, other = topology.chips[domain], topology.chips[source]
        page_locked = "pinned_host" in (topology.kind(domain), topology.kind(source))
        return page_locked or chip == other or other in self._peers[chip]

    def new_lock(self) -> threading.Lock:
        """Make a lock."""
        return threading.Lock()

    def _store(self, domain: int) -> GpuStore | PinnedStore | PageableStore:
        if domain in (HOST_DOMAIN, self._topology.pageable):
            return self._pageable
        if domain >= self._topology.device_domains:
            return self._pinned
        return self._gpu_stores[self._topology.chips[domain]]

    def allocate(self, domain: int, nbytes: int) -> Any:
        """Make a raw buffer.

        Raises:
          MemoryError: the GPU, or the host, has no room.
          DeviceLostError: the GPU failed.
        """
        self._check_usable()
        self._collect()
        return self._store(domain).allocate(nbytes)

    def free(self, raw: Any) -> None:
        """Take back what nothing uses any more."""
        if isinstance(raw, np.ndarray) or self._lost is not None or os.getpid() != self._pid:
            return
        raw.owner.give(raw)
        if self._closed:
            raw.owner.trim()

    def released(self, raw: Any, ticks: Sequence[Tick]) -> None:
        """Do nothing."""

    def taken(self, raw: Any) -> None:
        """Do nothing."""

    def empty_cache(self) -> int:
        """Give memory that nothing uses back to the driver; under the submission lock.

        Returns:
          The bytes given back.
        """
        self._check_usable()
        self._collect()
        self._driver.empty_cache()
        return sum(slabs.trim() for slabs in self._slabs())

    def _collect(self) -> None:
        with self._recording:
            self._launches.collect()

    def _slabs(self) -> list[Slabs]:
        return [self._pinned.slabs, *(store.slabs for store in self._gpu_stores)]

    def view(self, raw: Any, shape: Shape, dtype: Any) -> LocalArray:
        """Return the start of a raw buffer as a dense array."""
        if isinstance(raw, np.ndarray):
            return self._pageable.view(raw, shape, dtype)
        if raw.owner is self._pinned.slabs:
            return self._pinned.view(raw, shape, dtype)
        store = next(store for store in self._gpu_stores if store.slabs is raw.owner)
        return store.view(raw, shape, dtype)

    def empty(self, domain: int, shape: Shape, dtype: Any) -> LocalArray:
        """Return an array without elements."""
        return self._store(domain).empty(shape, dtype)

    def address(self, array: LocalArray) -> int:
        """Return the address of the first element."""
        return address_of(self._driver, array)

    def host_view(self, array: LocalArray, owner: Any) -> HostArray:
        """Return host memory as a read-only NumPy array that keeps `owner` alive."""
        return host_view(array, owner)

    def add_stream(self, stream: Stream, domain: int, device: int | None = None) -> None:
        """Make the CUDA stream behind a stream; none for memory that no stream can reach."""
        if domain == self._topology.pageable:
            return
        chip = self._topology.chips[domain]
        share = None
        if device is not None and self._shares[chip]:
            share = self._shares[chip][self._topology.devices[device].partition]
        handle = self._driver.stream(self._ordinals[chip], share)
        self._queues[stream] = _Queue(chip, domain, handle)

    def enqueue(self, item: Item) -> None:
        """Launch an item; never waits.

        Raises:
          KeyboardInterrupt: the thread was interrupted while it launched; the item has failed.
        """
        queue = self._queues[item.stream]
        if self._lost is not None or os.getpid() != self._pid:
            item.fail(self._lost or self._forked())
            queue.launched = item.tick
            return
        with self._launching:
            self._record_head(item.stream, queue)
            for stream, tick in item.waits:
                event: Any = stream.event(tick)
                self._driver.wait(queue.handle, event.handle)
            self._driver.run(queue.handle, functools.partial(self._execute, queue, item))
            queue.launched = item.tick

    def _execute(self, queue: _Queue, item: Item) -> None:
        self._inside.queue = queue
        try:
            raised = item.execute()
        finally:
            self._inside.queue = None
        if raised is None:
            return
        if self._driver.is_fatal(raised):
            self._lost = self._lost or _lost_error(raised)
        if isinstance(raised, KeyboardInterrupt):
            raise raised

    def _record_head(self, stream: Stream, queue: _Queue) -> None:
        now = time.monotonic_ns()
        if queue.launched > stream.done and now - queue.recorded_at > _HEAD_NS:
            stream.event(queue.launched)

    def record(self, stream: Stream, tick: int) -> Event:
        """Make an event behind all that the stream was given."""
        queue = self._queues[stream]
        self._check_process()
        launched = queue.launched
        pool = self._events[queue.chip]
        try:
            handle = pool.pop()
        except IndexError:
            handle = self._driver.event(self._ordinals[queue.chip])
        with self._recording:
            self._driver.record(handle, queue.handle)
        queue.recorded_at = time.monotonic_ns()
        return CudaEvent(self._driver, handle, launched, pool, self._lose)

    def copy_phase(self, phase: Phase, operands: Sequence[LocalArray], domain: int) -> None:
        """Copy the boxes of a phase: in one launch, and a call per box for copy engines."""
        queue: _Queue | None = getattr(self._inside, "queue", None)
        if queue is None:
            self.copy_boxes(phase.copies(operands), domain)
            return
        choose = functools.partial(self._by_engine, domain)
        template = self._launches.launch_phase(phase, operands, queue.chip, queue.handle, choose)
        for span in template.spans:
            target = self.address(operands[span.target]) + span.target_offset
            source = self.address(operands[span.source]) + span.source_offset
            self._copy_span(target, source, span.nbytes, domain, span.domain, queue)
        self._count({(source, domain): nbytes for source, nbytes in template.traffic.items()})

    def copy_boxes(self, copies: Sequence[BoxCopy], domain: int) -> None:
        """Copy boxes: on the stream of the item that calls, or now, and then wait for them."""
        queue: _Queue | None = getattr(self._inside, "queue", None)
        if queue is None:
            self._check_usable()
            self._copy_now(copies, domain)
        else:
            self._copy_on(queue, copies, domain)
        traffic: dict[tuple[int, int], int] = {}
        for target, _, source_domain in copies:
            link = source_domain, domain
            traffic[link] = traffic.get(link, 0) + target.nbytes
        self._count(traffic)

    def _copy_on(self, queue: _Queue, copies: Sequence[BoxCopy], domain: int) -> None:
        boxes = []
        for target, source, source_domain in copies:
            dense = target.flags.c_contiguous and source.flags.c_contiguous
            if self._by_engine(domain, target.nbytes, source_domain, dense):
                ends = self.address(target), self.address(source)
                self._copy_span(*ends, target.nbytes, domain, source_domain, queue)
            else:
                boxes.append((target, source))
        self._launches.launch_boxes(boxes, queue.handle)

    def _by_engine(self, domain: int, nbytes: int, source: int, dense: bool) -> bool:
        least = self._settings.engine_bytes
        return by_engine(nbytes, dense=dense, crosses=source != domain, least=least)

    def _copy_span(
        self, target: int, source: int, nbytes: int, domain: int, source_domain: int, queue: _Queue
    ) -> None:
        topology = self._topology
        kinds = topology.kind(domain), topology.kind(source_domain)
        chips = topology.chips[domain], topology.chips[source_domain]
        if kinds == ("device", "device") and chips[0] != chips[1]:
            gpu, peer = (self._ordinals[chip] for chip in chips)
            self._driver.copy_peer(target, gpu, source, peer, nbytes, queue.handle)
        else:
            self._driver.copy(target, source, nbytes, queue.handle)

    def _copy_now(self, copies: Sequence[BoxCopy], domain: int) -> None:
        """Copy while the caller waits: nothing else uses what is written."""
        by_source: dict[int, list[tuple[LocalArray, LocalArray]]] = {}
        for target, source, source_domain in copies:
            by_source.setdefault(source_domain, []).append((target, source))
        for source_domain, boxes in by_source.items():
            of_device = [d for d in (domain, source_domain) if d in self._device_domains()]
            if of_device:
                bounce = self._bounces[self._topology.chips[of_device[0]]]
                self._copy_with(bounce, boxes, domain, source_domain)
                continue
            for target, source in boxes:
                np.copyto(target, source)

    def _copy_with(
        self,
        bounce: Bounce,
        boxes: Sequence[tuple[LocalArray, LocalArray]],
        domain: int,
        source_domain: int,
    ) -> None:
        """Copy boxes, at least one side of which is on a GPU."""
        try:
            if domain not in self._device_domains():
                bounce.to_host(boxes)
            elif source_domain not in self._device_domains():
                bounce.to_device(boxes)
            else:
                bounce.within(boxes)
        except Exception as error:
            if self._driver.is_fatal(error):
                self._lose(error)
            raise

    def _device_domains(self) -> range:
        return range(self._topology.device_domains)

    def _launch_host(
        self, chip: int, copies: Sequence[tuple[LocalArray, LocalArray]], stream: StreamHandle
    ) -> None:
        launch = functools.partial(self._launches.launch_boxes, copies, stream)
        self._driver.run(stream, launch)

    def _count(self, traffic: dict[tuple[int, int], int]) -> None:
        with self._counting:
            for link, nbytes in traffic.items():
                self.traffic[link] = self.traffic.get(link, 0) + nbytes

    def prefetch(self, read: Callable[[], object]) -> None:
        """Call a function soon, on a thread of its own, if its owner is still there by then."""
        self._prefetcher.put(read)

    def synchronize(self) -> None:
        """Wait for everything on all GPUs, whoever gave it."""
        self._check_usable()
        for gpu in self._ordinals:
            self._driver.synchronize_gpu(gpu)

    def close(self) -> None:
        """Wait for what was launched; later work still runs, and memory goes back to the driver."""
        self._closed = True
        self._prefetcher.close()
        if os.getpid() != self._pid or self._lost is not None:
            return
        try:
            with self._launching:
                self.synchronize()
                self._unite()
        except Exception as error:
            if not self._driver.is_fatal(error):
                raise
            self._lost = self._lost or _lost_error(error)
            return
        for bounce in self._bounces:
            bounce.close()
        for slabs in self._slabs():
            slabs.trim()

    def _lose(self, error: BaseException) -> None:
        self._lost = self._lost or _lost_error(error)
        raise _again(self._lost) from error

    def _check_usable(self) -> None:
        self._check_process()
        if self._lost is not None:
            raise _again(self._lost)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise self._forked()

    def _forked(self) -> DeviceLostError:
        return DeviceLostError(
            f"process {os.getpid()} was forked from process {self._pid}, which uses CUDA; a forked "
            'child cannot. Start it with multiprocessing.get_context("spawn")',
            parent=self._pid,
        )


def _lost_error(error: BaseException) -> DeviceLostError:
    return DeviceLostError(
        f"a GPU failed ({error}); nothing on the GPUs of this process can be used any more. Start "
        "a new process",
        cause=str(error),
    )


def _again(error: DeviceLostError) -> DeviceLostError:
    """Return a fresh error: one that was raised keeps its frames."""
    fresh = DeviceLostError(str(error))
    vars(fresh).update(vars(error))
    return fresh
