"""Copies between user memory on the host and shards: each distinct block of a tiling once."""

from __future__ import annotations

import contextlib
import functools
import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.box import whole
from gpushard._geometry.tiling import Assignment, Tiling
from gpushard._movement.buffer import ShardedBuffer, devices_of
from gpushard._movement.host_staging import stage_in, stage_out, submit_copies
from gpushard._movement.planning.aliasing import ALIGNMENT
from gpushard._movement.planning.copies import expand
from gpushard._movement.planning.dims import identity
from gpushard._movement.planning.holders import holdings, overlap, volumes
from gpushard._runtime.backend import HOST_DOMAIN
from gpushard._runtime.chunks import Move
from gpushard._runtime.domain import Domain
from gpushard._runtime.launch import Outputs, allocate_now, launch, room_on
from gpushard._runtime.memory import Claim, Memory
from gpushard._runtime.phase import BoxCopy
from gpushard._runtime.pool import Room
from gpushard._runtime.runtime import Runtime
from gpushard._runtime.stream import Stream
from gpushard._typing import HostArray, Index, LocalArray, Shape
from gpushard.errors import GpushardError


@dataclass(frozen=True, eq=False)
class Blocks:
    """The distinct (memory domain, block) pairs of a tiling, for copies from and to the host."""

    homes: list[int]  # position of the device that is charged for each pair
    shapes: list[Shape]  # shape of each pair's block
    indices: list[Index]  # slices of the global array that it holds
    volumes: list[int]  # elements of it
    of_device: list[int]  # the pair of each device
    sharers: list[list[int]]  # for each distinct block, the pairs that hold it
    distinct: list[int]  # for each distinct block that is not empty, one of them
    whole: int | None  # one of them that is the whole array
    # (device, index within its shard, index of the global array) of copies that read every element
    # once.
    fetches: list[tuple[int, Index, Index]]
    largest: int  # elements of the largest block
    total: int  # elements of all of them


_blocks: weakref.WeakKeyDictionary[Tiling, Blocks] = weakref.WeakKeyDictionary()


def blocks_of(tiling: Tiling) -> Blocks:
    """Return the distinct blocks of a tiling; cached as long as the tiling lives."""
    blocks = _blocks.get(tiling)
    if blocks is None:
        blocks = _blocks[tiling] = _make_blocks(tiling)
    return blocks


def _make_blocks(tiling: Tiling) -> Blocks:
    pairs = holdings(tiling.assignment)
    homes = pairs.home.tolist()
    volume = volumes(pairs, tiling)
    order, first, counts = pairs.by_block
    sharers = [order[i : i + n].tolist() for i, n in zip(first, counts, strict=True) if n]
    distinct = [group[0] for group in sharers if volume[group[0]]]
    size = math.prod(tiling.shape)
    if pairs.spans is None:
        fetches = [(homes[pair], whole(()), tiling.indices[homes[pair]]) for pair in distinct]
    else:
        fetches = _fetches_of_boxes(tiling)
    return Blocks(
        homes=homes,
        shapes=[tiling.shard_shapes[home] for home in homes],
        indices=[tiling.indices[home] for home in homes],
        volumes=volume.tolist(),
        of_device=pairs.of_device.tolist(),
        sharers=sharers,
        distinct=distinct,
        whole=next((pair for pair in distinct if volume[pair] == size), None),
        fetches=fetches,
        largest=int(volume.max()),
        total=int(volume.sum()),
    )


@dataclass(frozen=True)
class _Reader:
    """Stands for the host where copies to it are planned."""

    memory_domain: int  # one that no device has


def _fetches_of_boxes(tiling: Tiling) -> list[tuple[int, Index, Index]]:
    """Share all elements out among devices whose boxes may overlap."""
    reader = _Reader(1 + max(getattr(device, "memory_domain", 0) for device in tiling.devices))
    here = np.zeros((tiling.ndim, 1), np.int64)
    to_host = Tiling.regular(tiling.shape, Assignment((reader,), (1,) * tiling.ndim, here))
    cut = overlap(tiling, to_host, identity(tiling.shape))
    copies = expand(cut, np.flatnonzero(cut.volume))
    rows = zip(
        cut.held.home[copies.held].tolist(),
        copies.source_offset.T.tolist(),
        copies.destination_offset.T.tolist(),
        copies.length.T.tolist(),
        strict=True,
    )
    return [(of, _slices(at, size), _slices(to, size)) for of, at, to, size in rows]


def _slices(start: Sequence[int], length: Sequence[int]) -> Index:
    return tuple(slice(at, at + n) for at, n in zip(start, length, strict=True))


def box_of(array: HostArray, index: Index) -> HostArray:
    """Return a box of a host array as a view, of a 0-d array too."""
    entries: Any = (*index, ...)
    box: HostArray = array[entries]
    return box


Reader = Callable[[Index, Shape], HostArray]
"""Gives the host data of a box, from its slices and its shape."""


def from_host(
    runtime: Runtime,
    tiling: Tiling,
    dtype: np.dtype[Any],
    read: Reader,
    *,
    batch_nbytes: int | None = None,
) -> ShardedBuffer:
    """Copy host data to the devices; returns when all was read.

    `read` is called once for every distinct box that is not empty; of what it gave at most
    `batch_nbytes` are held before they are copied.
    """
    blocks = blocks_of(tiling)
    staged = _is_staged(runtime, tiling, blocks.total * dtype.itemsize)
    outputs = _allocate(runtime, tiling, dtype, list(range(len(blocks.homes))), staged)
    batch = _Batch(runtime, [place.domain for place in devices_of(tiling)], staged)
    for sharers in blocks.sharers:
        if not blocks.volumes[sharers[0]]:
            continue
        box = read(blocks.indices[sharers[0]], blocks.shapes[sharers[0]])
        for pair in sharers:
            batch.add(blocks.homes[pair], outputs.values[pair], outputs.claims[pair], box)
        if batch_nbytes is not None and batch.nbytes >= batch_nbytes:
            batch.run()
    batch.run()
    return _by_device(tiling, dtype, outputs.values, outputs.claims, settled=not staged)


def alias_host(
    runtime: Runtime, tiling: Tiling, dtype: np.dtype[Any], source: HostArray
) -> ShardedBuffer:
    """Make shards refer to host data where it is dense and aligned, and copy the rest.

    The data must not change while the result lives.
    """
    blocks = blocks_of(tiling)
    boxes = [box_of(source, index) for index in blocks.indices]
    copied = [pair for pair, box in enumerate(boxes) if not _usable_in_place(box, dtype)]
    borrowed = runtime.count(room_on(devices_of(tiling)[0], (0,)))
    values: list[LocalArray] = list(boxes)
    claims = [borrowed] * len(boxes)
    batch = _Batch(runtime, [place.domain for place in devices_of(tiling)], staged=False)
    copies = _allocate(runtime, tiling, dtype, copied, staged=False)
    for pair, value, claim in zip(copied, copies.values, copies.claims, strict=True):
        values[pair], claims[pair] = value, claim
        batch.add(blocks.homes[pair], value, claim, boxes[pair])
    batch.run()
    return _by_device(tiling, dtype, values, claims, settled=True)


def can_alias(tiling: Tiling, dtype: np.dtype[Any], source: HostArray) -> bool:
    """Whether `alias_host` would copy no element."""
    boxes = (box_of(source, index) for index in blocks_of(tiling).indices)
    return all(not box.nbytes or _usable_in_place(box, dtype) for box in boxes)


class _Batch:
    """Copies from the host, collected by receiving domain."""

    def __init__(self, runtime: Runtime, domains: list[Domain], staged: bool) -> None:
        self._runtime = runtime
        self._domains = domains
        self._staged = staged
        self._boxes: dict[Domain, list[tuple[LocalArray, HostArray, Claim]]] = {}
        self.nbytes = 0

    def add(self, device: int, value: LocalArray, claim: Claim, box: HostArray) -> None:
        self._boxes.setdefault(self._domains[device], []).append((value, box, claim))
        self.nbytes += value.nbytes

    def run(self) -> None:
        for domain, boxes in self._boxes.items():
            if self._staged:
                moves = [Move(value, box, claim.memory) for value, box, claim in boxes]
                stage_in(self._runtime, domain, moves)
            else:
                copies = [(value, box, HOST_DOMAIN) for value, box, _ in boxes]
                self._runtime.backend.copy_boxes(copies, domain.index)
        self._boxes, self.nbytes = {}, 0


def _is_staged(runtime: Runtime, tiling: Tiling, nbytes: int) -> bool:
    """Whether copies between the host and a tiling's places go through page-locked memory."""
    return not devices_of(tiling)[0].domain.readable and nbytes > runtime.settings.inline_bytes


def _usable_in_place(box: HostArray, dtype: np.dtype[Any]) -> bool:
    return bool(
        box.dtype == dtype
        and box.flags.c_contiguous
        and box.__array_interface__["data"][0] % ALIGNMENT == 0
        and box.nbytes
    )


def _allocate(
    runtime: Runtime, tiling: Tiling, dtype: np.dtype[Any], pairs: list[int], staged: bool
) -> Outputs:
    """Make memory for blocks that the host may write at once, or that `stage_in` may."""
    blocks, devices = blocks_of(tiling), devices_of(tiling)
    if not pairs:
        return Outputs([], [], True)
    places = [devices[blocks.homes[pair]] for pair in pairs]
    shapes = [blocks.shapes[pair] for pair in pairs]
    small = blocks.largest * dtype.itemsize < runtime.settings.small_bytes
    if small and runtime.backend.host_readable:
        sizes = [blocks.volumes[pair] * dtype.itemsize for pair in pairs]
        charges = tuple([(place.account, n) for place, n in zip(places, sizes, strict=True)])
        claim = runtime.count(Room(places[0].domain.pool, charges, sum(sizes)))
        return Outputs([np.empty(shape, dtype) for shape in shapes], [claim] * len(pairs), True)
    rooms = [
        room_on(place, shape, dtype, place.domain.feed)
        for place, shape in zip(places, shapes, strict=True)
    ]
    if not staged:
        return allocate_now(runtime, rooms)
    domains = [place.domain for place in places]
    begin = functools.partial(_begin, runtime, domains)
    return launch(runtime, rooms, begin, list({domain.feed for domain in domains}))


def _begin(runtime: Runtime, domains: Sequence[Domain], outputs: Outputs) -> None:
    """Let the feed streams write memory from now on; inside `commit`."""
    written: dict[Domain, list[Memory]] = {}
    for domain, claim in zip(domains, outputs.claims, strict=True):
        written.setdefault(domain, []).append(claim.memory)
    for domain, memories in written.items():
        submit_copies(runtime, domain.feed, "copy from host", (), domain.index, (), memories)


def _by_device(
    tiling: Tiling,
    dtype: np.dtype[Any],
    values: list[LocalArray],
    claims: list[Claim],
    *,
    settled: bool,
) -> ShardedBuffer:
    pairs = blocks_of(tiling).of_device
    return ShardedBuffer(
        tiling, dtype, [values[p] for p in pairs], [claims[p] for p in pairs], settled
    )


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
    if not _is_staged(runtime, buffer.tiling, target.nbytes):
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
