"""Copy host data to shards, or let shards refer to it: each distinct block of a tiling once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._geometry.tiling import Tiling
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.distinct_blocks import blocks_of, box_of
from gpushard._movement.host_staging import is_staged, stage_in, submit_copies
from gpushard._movement.planning.aliasing import ALIGNMENT
from gpushard._movement.sharding_devices import devices_of
from gpushard._runtime.backend import HOST_DOMAIN
from gpushard._runtime.chunks import Move
from gpushard._runtime.claims import Claim
from gpushard._runtime.launch import Outputs, allocate_now, launch, room_on
from gpushard._runtime.memory import Memory
from gpushard._runtime.memory_domain import Domain
from gpushard._runtime.pool import Room
from gpushard._runtime.runtime import Runtime
from gpushard._typing import HostArray, Index, LocalArray, Shape

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
    staged = is_staged(runtime, tiling, blocks.total * dtype.itemsize)
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
