"""Collectives against NumPy, and the bytes that they move against the least."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._movement.block_collectives import (
    all_gather,
    all_reduce,
    all_to_all,
    permute,
    reduce_scatter,
    rows_of,
    tiling_over,
)
from gpushard._movement.buffer import ShardedBuffer
from gpushard._runtime.runtime import Runtime
from gpushard.testing.deferred import deferred
from tests.share import seeds

MEMBERS = pytest.mark.parametrize("members", [1, 2, 3, 8])
STREAMS: dict[str, Any] = {"small_bytes": 0, "inline_bytes": 0}
in_every_way = pytest.mark.parametrize("how", [{}, STREAMS], ids=["caller", "streams"])


def put(runtime: Runtime, data: np.ndarray) -> ShardedBuffer:
    """Row i on device i."""
    devices = runtime.devices[: len(data)]
    blocks = [gs.device_put(row, device)._live() for row, device in zip(data, devices, strict=True)]
    for block in blocks:
        block.wait()
    claims = [block.claims[0] for block in blocks]
    values = [block.values[0] for block in blocks]
    return rows_of(devices, values, claims, data.dtype, data.shape[1:])


def numbers(members: int, *shape: int) -> np.ndarray:
    """Floats whose sum depends on the order."""
    return np.random.default_rng(members).normal(size=(members, *shape)) ** 9


class Moved:
    """Counts the bytes that domains receive from others."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._before = dict(runtime.backend.traffic)

    def received(self) -> int:
        links = self._runtime.backend.traffic.items()
        return sum(n - self._before.get(link, 0) for link, n in links if link[0] != link[1])


def values_of(buffer: ShardedBuffer) -> list[np.ndarray]:
    buffer.wait()
    buffer.check()
    return [np.asarray(value) for value in buffer.values]


def added(matrices: Sequence[ShardedBuffer]) -> list[ShardedBuffer]:
    """Sums of the rows, in their order."""
    (matrix,) = matrices
    whole, devices = matrix.tiling.shape[1:], matrix.tiling.devices
    sums = []
    for rows in values_of(matrix):
        total = rows[0].copy()
        for row in rows[1:]:
            total += row
        sums.append(total)
    pieces: Any = tiling_over(devices, whole, 0)  # type: ignore[arg-type]
    return [ShardedBuffer(pieces, matrix.dtype, sums, matrix.claims, True)]


def in_order(data: np.ndarray) -> np.ndarray:
    total = data[0].copy()
    for row in data[1:]:
        total += row
    return total


@MEMBERS
@in_every_way
def test_all_gather(members: int, how: dict[str, Any]) -> None:
    with testing.runtime(host_domains=8, **how) as runtime:
        data = numbers(members, 3, 5)
        rows, moved = put(runtime, data), Moved(runtime)
        for value in values_of(all_gather(rows)):
            assert np.array_equal(value, data)
        assert moved.received() == members * (members - 1) * data[0].nbytes
        for value in values_of(all_gather(rows, runtime.devices[5:7])):
            assert np.array_equal(value, data)


@MEMBERS
@in_every_way
@pytest.mark.parametrize("columns", [8, 24, 5])
def test_all_to_all(members: int, columns: int, how: dict[str, Any]) -> None:
    with testing.runtime(host_domains=8, **how) as runtime:
        data = numbers(members, columns, 3)
        rows, moved = put(runtime, data), Moved(runtime)
        parts = values_of(all_to_all(rows))
        assert np.array_equal(np.concatenate(parts, axis=1), data)
        own = sum(part[i].nbytes for i, part in enumerate(parts))
        assert moved.received() == data.nbytes - own


@pytest.mark.parametrize(
    "pairs", [[], [(0, 1), (1, 2), (2, 3), (3, 0)], [(3, 0)], [(0, 0), (0, 1), (0, 3)]]
)
@in_every_way
@pytest.mark.parametrize("shape", [(2, 3), (1, 3), (2, 1), (2, 0)])
def test_permute(pairs: list[tuple[int, int]], how: dict[str, Any], shape: tuple[int, int]) -> None:
    with testing.runtime(host_domains=8, **how) as runtime:
        data = numbers(4, *shape)
        rows, moved = put(runtime, data), Moved(runtime)
        expected = np.zeros_like(data)
        for of, to in pairs:
            expected[to] = data[of]
        assert np.array_equal(np.concatenate(values_of(permute(rows, pairs))), expected)
        assert moved.received() == sum(of != to for of, to in pairs) * data[0].nbytes


@pytest.mark.parametrize("pairs", [[(0, 1), (2, 1)], [(0, 4)], [(-1, 0)]])
def test_permute_refuses(pairs: list[tuple[int, int]]) -> None:
    with testing.runtime() as runtime, pytest.raises(gs.errors.ArgumentError, match="pairs="):
        permute(put(runtime, numbers(4, 2)), pairs)


@MEMBERS
@in_every_way
@pytest.mark.parametrize("size", [16, 5])
def test_reductions_are_in_the_order_of_the_members(
    members: int, size: int, how: dict[str, Any]
) -> None:
    with testing.runtime(host_domains=8, **how) as runtime:
        data = numbers(members, size)
        rows, moved = put(runtime, data), Moved(runtime)
        (whole,) = all_reduce([rows], runtime.devices[:members], added)
        for value in values_of(whole):
            assert np.array_equal(value, in_order(data))
        assert moved.received() == 2 * (members - 1) * data[0].nbytes  # as a ring
        pieces, moved = tiling_over(runtime.devices[:members], data.shape, 1), Moved(runtime)
        (scattered,) = reduce_scatter([rows], pieces, added)
        assert np.array_equal(np.concatenate(values_of(scattered)), in_order(data))
        assert moved.received() == (members - 1) * data[0].nbytes


@pytest.mark.parametrize("seed", seeds(12))
def test_whatever_the_order_of_items_and_whoever_reaches_whom(seed: int) -> None:
    with testing.simulated(
        seed, host_readable=False, host_devices=4, host_domains=4, **STREAMS
    ) as runtime:
        runtime.sim.failing = 0
        runtime.sim._strangers = (0.0, 0.5, 1.0)[seed % 3]
        runtime.sim._reach.clear()
        data = np.random.default_rng(0).integers(0, 99, (4, 6))
        x = gs.device_put(data, gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x")))
        y = deferred(x, lambda shard: shard + 1)._live()
        rows = rows_of(runtime.devices, y.values, y.claims, y.dtype, (6,))
        mesh = x.sharding.mesh  # type: ignore[union-attr]
        every = gs.Array(all_gather(rows), gs.NamedSharding(mesh, gs.P()))
        assert np.array_equal(np.asarray(every), data + 1)
        columns = gs.Array(all_to_all(rows), gs.NamedSharding(mesh, gs.P(None, "x")))
        assert np.array_equal(np.asarray(columns), data + 1)
        moved = gs.Array(permute(rows, [(0, 2), (1, 3)]), x.sharding)
        assert np.array_equal(np.asarray(moved), [[0] * 6, [0] * 6, *(data[:2] + 1)])
