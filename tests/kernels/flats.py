"""Random boxes of an array in two shapes, and packs and unpacks of them with NumPy's answer."""

from __future__ import annotations

import dataclasses
import random
import struct

import numpy as np

from gpushard.runtime.cuda.flat import FlatBox, FlatCopy, FlatJobs, make_flat_jobs
from tests.kernels.harness import allocation, encoded


def indices(box: FlatBox) -> np.ndarray:
    """The flat indices of a box's elements, in order."""
    whole = np.arange(np.prod(box.shape, dtype=np.int64)).reshape(box.shape)
    slices = tuple(map(slice, box.starts, box.stops))
    return whole[(*slices, ...)].reshape(-1)


def random_shape(source: random.Random, factors: list[int], most_dims: int) -> tuple[int, ...]:
    """The factors in any order, dealt out to any number of dims."""
    shape = [1] * source.randint(1, most_dims)
    for factor in source.sample(factors, len(factors)):
        shape[source.randrange(len(shape))] *= factor
    return tuple(shape)


def random_box(source: random.Random, shape: tuple[int, ...]) -> FlatBox:
    starts, stops = [], []
    for size in shape:
        start, stop = 0, size
        if source.random() < 0.5:
            start, stop = sorted((source.randint(0, size), source.randint(0, size)))
            if start == stop and source.random() < 0.9:
                start, stop = (start, start + 1) if start < size else (start - 1, start)
        starts.append(start)
        stops.append(stop)
    return FlatBox(shape, tuple(starts), tuple(stops))


@dataclasses.dataclass
class Case:
    """Shards and their buffers, each in an allocation of its own."""

    unpack: bool
    jobs: FlatJobs
    before: list[np.ndarray]
    expected: list[np.ndarray]

    def encoded(self) -> bytes:
        jobs = self.jobs
        counts = struct.pack("4I", self.unpack, len(jobs.table), jobs.blocks, len(jobs.rows))
        tables = (jobs.table, jobs.first, jobs.rows, jobs.block_rows)
        return encoded(self.before, counts, *(table.tobytes() for table in tables))


def random_case(seed: int) -> Case:
    """One to three copies between a shard and the boxes that take from it or give to it."""
    source = random.Random(seed)
    rng = np.random.default_rng(seed)
    factors = [source.choice((2, 2, 2, 3, 5, 7)) for _ in range(source.randint(0, 12))]
    while np.prod(factors) > 20_000:
        factors.pop()
    itemsize = source.choice((1, 2, 4, 8, 16))
    dtype = np.dtype((np.void, itemsize))
    unpack = source.random() < 0.5
    before, copies, moves = [], [], []
    for _ in range(source.choice((1, 1, 2, 3))):
        shard, other = (random_box(source, random_shape(source, factors, 8)) for _ in range(2))
        mine, common = indices(shard), np.isin(indices(shard), indices(other))
        number, total = len(before), int(common.sum())
        gap = source.choice((0, 0, itemsize))
        sizes = (len(mine) * itemsize, gap + total * itemsize)
        before += [rng.integers(0, 256, size, np.uint8) for size in sizes]
        storage, buffer = (allocation(number + i, size) for i, size in enumerate(sizes))
        copy = (storage.address, storage, shard, other, buffer.address + gap, buffer, itemsize)
        copies.append(FlatCopy(*copy))
        moves.append((number, gap, common))
    expected = [array.copy() for array in before]
    for number, gap, common in moves:
        elements, packed = expected[number].view(dtype), expected[number + 1][gap:].view(dtype)
        if unpack:
            elements[common] = packed
        else:
            packed[:] = elements[common]
    return Case(unpack, make_flat_jobs(copies), before, expected)
