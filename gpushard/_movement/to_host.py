"""Read values to the host: each element is copied once, and not at all if the host can read it."""

from __future__ import annotations

import contextlib
import math

import numpy as np

from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.distinct_blocks import blocks_of, box_of
from gpushard._movement.host_staging import is_staged, stage_out, submit_copies
from gpushard._movement.sharding_devices import devices_of
from gpushard._runtime.backend import HOST_DOMAIN
from gpushard._runtime.chunks import Move
from gpushard._runtime.copy_phase import BoxCopy
from gpushard._runtime.launch import Outputs, allocate_now, launch
from gpushard._runtime.memory import Memory
from gpushard._runtime.pool import Room
from gpushard._runtime.stream import Stream
from gpushard._typing import HostArray
from gpushard.errors import GpushardError


class HostRead:
    """A value on its way to the host.

    Args:
      source: what is read.
      array: where its value will be, read-only.
      memory: what the fetch writes; None if there is nothing to fetch.
    """

    __slots__ = ("_array", "_memory", "_source")

    def __init__(self, source: ShardedBuffer, array: HostArray, memory: Memory | None) -> None:
        self._source = source
        self._array = array
        self._memory = memory

    def wait(self) -> HostArray:
        """Wait for the value and return it.

        A fetch that is stuck behind fetches of values that are still to be computed is left alone
        and the value read directly: a read never waits for work that it does not depend on. So is
        one that failed.
        """
        self._source.wait()
        if self._memory is None:
            return self._array
        written = self._memory.written
        if written is not None:
            stream, tick = written
            if not stream.finished(tick - 1):
                return read_host(self._source)
            stream.synchronize(tick)
        return self._array if self._memory.error is None else read_host(self._source)


class StagedRead:
    """A value that a thread of the backend may fetch ahead of whoever needs it."""

    __slots__ = ("__weakref__", "_array", "_lock", "_source")

    def __init__(self, source: ShardedBuffer) -> None:
        self._source = source
        self._array: HostArray | None = None
        self._lock = source.runtime.backend.new_lock()

    def prefetch(self) -> None:
        """Fetch it, unless that fails, of which who needs the value will hear."""
        with contextlib.suppress(GpushardError):
            self.wait()

    def wait(self) -> HostArray:
        """Return the value."""
        with self._lock:
            if self._array is None:
                self._array = read_host(self._source)
            return self._array


def read_host(buffer: ShardedBuffer) -> HostArray:
    """Return the value in host memory, read-only; waits for it.

    Every element is copied once; a value that lies whole on a device that the host can read
    is not copied at all.
    """
    buffer.wait()
    runtime, tiling = buffer.runtime, buffer.tiling
    shard = _whole_box(buffer)
    if shard is not None:
        return shard
    nbytes = math.prod(tiling.shape) * buffer.dtype.itemsize
    if nbytes < runtime.settings.small_bytes:
        array: HostArray = np.empty(tiling.shape, buffer.dtype)
        fetch(buffer, array)
        array.flags.writeable = False
        return array.view()  # nobody can make it writable again
    outputs = allocate_now(runtime, [_room_of_host(buffer, nbytes, None)])
    (target,), (claim,) = outputs.values, outputs.claims
    fetch(buffer, target)
    return runtime.backend.host_view(target, claim)


def _room_of_host(buffer: ShardedBuffer, nbytes: int, stream: Stream | None) -> Room:
    """Return room for a value that is read back."""
    pool = buffer.runtime.host_pool
    return Room(pool, (), nbytes, stream, ((buffer.tiling.shape, buffer.dtype),))


def start_read(buffer: ShardedBuffer) -> HostRead | StagedRead:
    """Start copying a value to host memory; never waits."""
    shard = _whole_box(buffer)
    if shard is not None:
        return HostRead(buffer, shard, None)
    runtime, tiling = buffer.runtime, buffer.tiling
    domain = devices_of(tiling)[0].domain
    if not domain.readable or domain.kind == "unpinned_host":
        read = StagedRead(buffer)
        runtime.backend.prefetch(read.prefetch)
        return read
    stream = domain.fetch
    nbytes = math.prod(tiling.shape) * buffer.dtype.itemsize
    if nbytes <= runtime.settings.inline_bytes and buffer.is_settled():
        return HostRead(buffer, read_host(buffer), None)  # sooner than a thread wakes up

    def submit(outputs: Outputs) -> None:
        (target,), written = outputs.values, [outputs.claims[0].memory]
        copies, memories = _fetches(buffer, target), buffer.memories
        submit_copies(runtime, stream, "copy to host", copies, HOST_DOMAIN, memories, written)

    outputs = launch(runtime, [_room_of_host(buffer, nbytes, stream)], submit, [stream])
    (target,), (claim,) = outputs.values, outputs.claims
    return HostRead(buffer, runtime.backend.host_view(target, claim), claim.memory)


def _whole_box(buffer: ShardedBuffer) -> HostArray | None:
    """Return a view of a shard that is the whole array, if the host can read it."""
    blocks = blocks_of(buffer.tiling)
    if blocks.whole is None or not devices_of(buffer.tiling)[0].domain.readable:
        return None
    home = blocks.homes[blocks.whole]
    claim = buffer.claims[home]
    if claim.memory.error is not None:  # then the memory may be somebody else's
        return None
    return buffer.runtime.backend.host_view(buffer.values[home], claim)


def fetch(buffer: ShardedBuffer, target: HostArray) -> None:
    """Copy a value that is there to host memory; returns when it is there."""
    runtime, places = buffer.runtime, devices_of(buffer.tiling)
    if not is_staged(runtime, buffer.tiling, target.nbytes):
        runtime.backend.copy_boxes(_fetches(buffer, target), HOST_DOMAIN)
        return
    moves = []
    for of, index, host_index in blocks_of(buffer.tiling).fetches:
        value, memory = buffer.values[of], buffer.claims[of].memory
        part = box_of(value, index) if index else value
        moves.append((places[of].domain, Move(box_of(target, host_index), part, memory)))
    stage_out(runtime, moves)


def _fetches(buffer: ShardedBuffer, target: HostArray) -> list[BoxCopy]:
    devices, values = devices_of(buffer.tiling), buffer.values
    return [
        (
            box_of(target, host_index),
            box_of(values[of], index) if index else values[of],
            devices[of].memory_domain,
        )
        for of, index, host_index in blocks_of(buffer.tiling).fetches
    ]
