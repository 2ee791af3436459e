"""The host backend: NumPy memory, virtual devices, strands over worker threads."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from gpushard._runtime.backend import Memories, T, Tasks
from gpushard._runtime.callbacks import CallingThread
from gpushard._runtime.chunks import Move
from gpushard._runtime.copy_phase import BoxCopy, Phase
from gpushard._runtime.host.blas_threads import Limits, numpy_library
from gpushard._runtime.host.store import NumpyStore
from gpushard._runtime.host.workers import Workers
from gpushard._runtime.item import Item
from gpushard._runtime.stream import Event, Stream
from gpushard._runtime.traffic import Traffic
from gpushard._runtime.work_sharing import Pace
from gpushard._typing import HostArray
from gpushard.config import Settings

SHARED_BYTES = 8 << 20
"""Copies of fewer bytes are not worth a second thread."""

HAND_OFF = 220e-6
"""Seconds of work that are worth a second thread, which has to wake up, for each step before which
both may wait for one another."""

CERTAIN = 16 * HAND_OFF
"""What takes so long is worth other threads even if these only wait for one another."""

STRIP_BYTES = 64 << 10
"""Smaller transposes fit into a cache, in whatever order elements are copied."""

_STRIP = 128
_SAME_SET = 1024
"""Lines so many bytes apart fall into few sets of a cache."""

PART_BYTES = 8 << 20
"""Larger boxes are cut, so that all threads end at about the same time."""


class _HostEvent:
    """An event at exactly one tick of a strand."""

    __slots__ = ("_stream", "_workers", "tick")

    def __init__(self, workers: Workers, stream: Stream, tick: int) -> None:
        self._workers = workers
        self._stream = stream
        self.tick = tick

    def query(self) -> bool:
        return self._workers.finished(self._stream) >= self.tick

    def synchronize(self) -> None:
        self._workers.wait(self._stream, self.tick)


class HostBackend(NumpyStore):
    """NumPy memory, worked on by threads.

    Args:
      settings: of these, host_devices, host_domains, host_workers, blas_threads and compiler.
    """

    name = "host"
    exact = True
    host_readable = True

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        library = None if settings.blas_threads == 0 else numpy_library()
        self._limits = None if library is None else Limits(library, settings.blas_threads)
        self.workers = Workers(settings.host_workers or max(2, os.cpu_count() or 1))
        self._traffic = Traffic()

    @property
    def traffic(self) -> dict[tuple[int, int], int]:
        """Bytes copied so far for each (source domain, destination domain)."""
        return self._traffic.total()

    def new_lock(self) -> AbstractContextManager[Any]:
        """Make a lock."""
        return threading.RLock()

    def add_stream(self, stream: Stream, domain: int, device: int | None = None) -> None:
        """Make a strand."""
        self.workers.add(stream)

    def enqueue(self, item: Item) -> None:
        """Append an item to its strand."""
        self.workers.enqueue(item)

    def record(self, stream: Stream, tick: int) -> Event:
        """Make an event at `tick`."""
        return _HostEvent(self.workers, stream, tick)

    def call_among(self, calls: int, function: Callable[[], T]) -> T:
        """Call a function, and let the calls divide the threads of linear algebra."""
        return function() if self._limits is None else self._limits.call(calls, function)

    def run_now(self, calls: Tasks, reads: Memories, writes: Memories, pace: Pace) -> None:
        """Run the calls in the caller, and on idle workers if they take long."""
        start = time.perf_counter()
        if not calls or pace.is_long():
            self.workers.share(calls)
            if time.perf_counter() - start >= CERTAIN * pace.steps:
                pace.note(True)
            return
        first, *others = calls
        first()
        long = (time.perf_counter() - start) * len(others) >= HAND_OFF * pace.steps
        pace.note(long)
        if long:
            self.workers.share(others)
            return
        for call in others:
            call()

    def copy_boxes(self, copies: Sequence[BoxCopy], domain: int) -> None:
        """Copy boxes, on several threads if there is enough to copy."""
        total = sum([target.nbytes for target, _, _ in copies])
        if total < SHARED_BYTES:
            self._copy(copies, domain)
            return
        pieces = [piece for copy in copies for piece in cut(copy, PART_BYTES)]
        parts = batches(pieces, max(PART_BYTES // 4, total // (8 * self.workers.count)))
        self.workers.share([functools.partial(self._copy, part, domain) for part in parts])

    def fill_boxes(self, targets: Sequence[HostArray], value: np.generic, domain: int) -> None:
        """Fill boxes, on several threads if there is enough to fill."""
        total = sum([target.nbytes for target in targets])
        if total < SHARED_BYTES:
            _fill(targets, value)
            return
        pieces = [piece for box in targets for piece, _, _ in cut((box, box, domain), PART_BYTES)]
        self.workers.share([functools.partial(_fill, [piece], value) for piece in pieces])

    def copy_phase(self, phase: Phase, operands: Sequence[HostArray], domain: int) -> None:
        """Copy the boxes of a phase."""
        if phase.nbytes >= STRIP_BYTES:
            self.copy_boxes(phase.copies(operands), domain)
            return
        indexed, others = phase.indices()  # many are small: nothing but the copies
        for to, index, of, of_index, _ in indexed:
            operands[to][index] = operands[of] if of_index is None else operands[of][of_index]
        for to, target, of, source, _ in others:
            target.of(operands[to])[...] = source.of(operands[of])
        self._traffic.add(domain, phase.links)

    def new_caller(self) -> CallingThread:
        """Make what calls callbacks."""
        return CallingThread("gpushard-callbacks")

    def close(self) -> None:
        """End the worker threads."""
        self.workers.close()

    def quiet(self) -> Generator[None, None, None]:
        """Yield once nothing runs, or what runs hangs, and go on after that; for a fork."""
        return self.workers.quiet()

    def restart(self) -> None:
        """Go on in a forked child, where no other thread is left."""
        if self._limits is not None:
            self._limits.restart()
        self.workers.restart()

    def _copy(self, copies: Sequence[BoxCopy], domain: int) -> None:
        moved: dict[int, int] = {}
        for target, source, source_domain in copies:
            nbytes = target.nbytes
            if nbytes > STRIP_BYTES and _is_across(target, source):
                _copy_strips(target, source)
            else:
                target[...] = source
            moved[source_domain] = moved.get(source_domain, 0) + nbytes
        self._traffic.add(domain, moved)


def _is_across(target: HostArray, source: HostArray) -> bool:
    """Whether elements side by side in a target come from cache lines that evict one another."""
    if target.ndim < 2 or target.strides[-1] != target.itemsize:
        return False
    stride = source.strides[-1]
    return stride != 0 and stride % _SAME_SET == 0


def _copy_strips(target: HostArray, source: HostArray) -> None:
    """Copy strips of a target that are a few cache lines wide, so that lines are read once."""
    width = _STRIP // target.itemsize or 1
    for at in range(0, target.shape[-1], width):
        target[..., at : at + width] = source[..., at : at + width]


def _fill(targets: Sequence[HostArray], value: np.generic) -> None:
    for target in targets:
        target[...] = value


def cut(copy: BoxCopy, limit: int) -> list[BoxCopy]:
    """Cut a copy into parts of at most `limit` bytes, or of one element.

    Dims are cut from the first one on, each only as far as it takes.

    >>> box = np.zeros((3, 80))
    >>> [part.shape for part, _, _ in cut((box, box, 0), 320)]
    [(1, 40), (1, 40), (1, 40), (1, 40), (1, 40), (1, 40)]
    """
    target, source, domain = copy
    parts = Move(target, source, None).parts(max(limit, target.itemsize))
    return [(part.target, part.source, domain) for part in parts]


def batches(copies: Sequence[BoxCopy], limit: int) -> list[list[BoxCopy]]:
    """Group copies in order into lists of about `limit` bytes."""
    groups: list[list[BoxCopy]] = [[]]
    filled = 0
    for copy in copies:
        if filled >= limit:
            groups.append([])
            filled = 0
        groups[-1].append(copy)
        filled += copy[0].nbytes
    return groups
