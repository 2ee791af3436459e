"""Copy while the host waits, through a small page-locked buffer for each GPU."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence

import numpy as np

from gpushard._runtime.chunks import Move, chunks, lay_out
from gpushard._runtime.cuda.driver.driver import Driver
from gpushard._runtime.cuda.kernels.copy_launches import Launches
from gpushard._runtime.cuda.memory.stores import bytes_at
from gpushard._typing import HostArray, LocalArray, LocalArrays
from gpushard.errors import ReentrantCallError

BOUNCE_BYTES = 1 << 20
"""Size of the buffer. Larger copies go through it in turns; streams are faster for the largest."""


class Bounce:
    """The buffer and the stream of one GPU; one thread at a time uses them."""

    def __init__(self, driver: Driver, gpu: int, launches: Launches) -> None:
        self._driver = driver
        self._launches = launches
        self._lock = threading.RLock()
        self._stream = driver.stream(gpu)
        self._event = driver.event(gpu)
        self._address = 0
        self._using = False

    def _call_alone(self, work: Callable[[], None]) -> None:
        """Call a function while no other thread uses the buffer and the stream.

        Raises:
          ReentrantCallError: this thread uses them already.
        """
        with self._lock:
            if self._using:
                raise ReentrantCallError(
                    "a signal handler or a finalizer uses gpushard in the middle of a copy from or "
                    "to a GPU, on the same thread. Let a handler set a flag, and do the work "
                    "outside of it"
                )
            try:
                self._using = True
                work()
            finally:
                self._using = False

    def close(self) -> None:
        """Free the buffer; a later copy makes a new one that lasts until the process ends."""
        with self._lock:
            address, self._address = self._address, 0
            if address:
                self._driver.free_host(address)

    def _bytes(self) -> HostArray:
        if not self._address:
            self._address = self._driver.malloc_host(BOUNCE_BYTES)
        return bytes_at(self._address, BOUNCE_BYTES)

    def to_device(self, copies: Sequence[tuple[LocalArray, HostArray]]) -> None:
        """Copy host data to unused memory of the GPU; returns when the data have arrived."""
        self._call_alone(functools.partial(self._to_device, copies))

    def _to_device(self, copies: Sequence[tuple[LocalArray, HostArray]]) -> None:
        buffer = self._bytes()
        for group in chunks((Move(to, of, None) for to, of in copies), BOUNCE_BYTES):
            boxes = lay_out(buffer, group)
            for box, move in zip(boxes, group, strict=True):
                np.copyto(box, move.source)
            self._run([(move.target, box) for box, move in zip(boxes, group, strict=True)])

    def to_host(self, copies: Sequence[tuple[HostArray, LocalArray]]) -> None:
        """Copy data that is complete on the GPU to the host; returns when the host has it."""
        self._call_alone(functools.partial(self._to_host, copies))

    def _to_host(self, copies: Sequence[tuple[HostArray, LocalArray]]) -> None:
        buffer = self._bytes()
        for group in chunks((Move(to, of, None) for to, of in copies), BOUNCE_BYTES):
            boxes = lay_out(buffer, group)
            self._run([(box, move.source) for box, move in zip(boxes, group, strict=True)])
            for box, move in zip(boxes, group, strict=True):
                np.copyto(move.target, box)

    def within(self, copies: Sequence[tuple[LocalArray, LocalArray]]) -> None:
        """Copy between memories that the GPU reaches; returns when the copies are done."""
        moved = [(to, of) for to, of in copies if to.nbytes]
        self._call_alone(functools.partial(self._run, moved))

    def fill(self, targets: LocalArrays, value: np.generic) -> None:
        """Fill unused boxes of the GPU; returns when they are filled."""
        fill = functools.partial(self._launches.launch_fills, targets, value, self._stream)
        self._call_alone(functools.partial(self._wait_for, fill))

    def _run(self, copies: Sequence[tuple[LocalArray, LocalArray]]) -> None:
        if copies:
            self._wait_for(functools.partial(self._launches.launch_boxes, copies, self._stream))

    def _wait_for(self, launch: Callable[[], None]) -> None:
        try:
            self._driver.run(self._stream, launch)
            self._wait()
        except BaseException:  # after an interrupt, no one may get the memory too early
            self._wait()
            raise

    def _wait(self) -> None:
        self._driver.record(self._event, self._stream)
        self._driver.synchronize(self._event)
