"""Shardings whose boxes form no grid, in everything that takes a sharding."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard import testing
from gpushard._runtime.backend import HOST_DOMAIN
from gpushard._runtime.runtime import Runtime
from tests.movement.strategies import DEVICES, Free, OwnSharding, free_boxes, numbers, sharding_of
from tests.share import examples

BRICKS = {
    0: (slice(0, 2), slice(0, 4)),
    1: (slice(0, 2), slice(4, 6)),
    2: (slice(2, 4), slice(0, 1)),
    3: (slice(2, 4), slice(1, 6)),
}
SETTINGS: dict[str, dict[str, int]] = {
    "small": {},
    "streams": {"small_bytes": 0, "inline_bytes": 0},
}
shapes = st.lists(st.integers(0, 9), max_size=3).map(tuple)


@pytest.fixture(scope="module", params=[1, 3])
def runtime(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    with testing.runtime(
        host_devices=DEVICES, host_domains=request.param, **SETTINGS["streams"]
    ) as made:
        yield made


@examples(150)
@given(st.data(), shapes)
def test_every_way_to_make_and_to_read(
    runtime: Runtime, draw: st.DataObject, shape: tuple[int, ...]
) -> None:
    side = draw.draw(free_boxes(shape))
    data, sharding, boxes = numbers(shape, np.int32), sharding_of(runtime, side), side.boxes(shape)
    asked: list[Any] = []

    def read(index: Any) -> np.ndarray:
        asked.append(data[index].tobytes())
        return data[index]

    x = gs.make_array_from_callback(shape, sharding, read, dtype=data.dtype)
    filled = {tuple((s.start, s.stop) for s in box) for box in boxes.values() if data[box].size}
    assert len(asked) == max(1, len(filled))
    parts = [shard.data for shard in gs.device_put(data, sharding).addressable_shards]
    joined = gs.make_array_from_single_device_arrays(shape, sharding, parts)
    local = gs.make_array_from_process_local_data(sharding, data)
    for y in (x, joined, local):
        assert [s.data.shape for s in y.addressable_shards] == [
            data[b].shape for b in boxes.values()
        ]
        assert all(np.array_equal(s.data, data[s.index]) for s in y.addressable_shards)
        before = dict(runtime.backend.traffic)
        y.copy_to_host_async()
        assert np.array_equal(np.asarray(y), data)
        fetched = sum(
            n - before.get(link, 0)
            for link, n in runtime.backend.traffic.items()
            if link[1] == HOST_DOMAIN
        )
        whole = any(data[box].size == data.size for box in boxes.values())
        assert fetched == (0 if whole else data.nbytes)
    if math.prod(shape):
        counts = [gs.num_addressable_indices(sharding, dim, shape) for dim in range(len(shape))]
        assert counts == list(shape)


@pytest.mark.parametrize("how", SETTINGS)
def test_files(how: str, tmp_path: Path) -> None:
    data = np.arange(24.0).reshape(4, 6)
    with testing.runtime(host_domains=2, **SETTINGS[how]) as rt:
        sharding = OwnSharding(rt, BRICKS | {4: (slice(1, 3), slice(2, 5))})
        np.save(tmp_path / "x.npy", data)
        x = gs.load(tmp_path / "x.npy", sharding)
        assert [s.replica_id for s in x.addressable_shards] == [0] * 5
        gs.save(tmp_path / "y.npy", x)
        assert np.array_equal(np.load(tmp_path / "y.npy"), data)
        assert "23." in str(x)
        assert np.array_equal(x[0], data[0])


def test_neighbours_are_copied_together() -> None:
    """Bricks to rows of the same halves: every part of a row that a device sends is one copy."""
    with testing.runtime(host_domains=8) as rt:
        x = gs.device_put(np.arange(24.0).reshape(4, 6), OwnSharding(rt, BRICKS))
        mesh = gs.Mesh(np.array(rt.devices[4:6], object), "x")
        assert len(x.plan(gs.NamedSharding(mesh, gs.P("x"))).how.copies) == 4
        assert len(x.plan(gs.NamedSharding(mesh, gs.P())).how.copies) == 8


def test_what_boxes_share_is_received_once() -> None:
    """Two devices of the other domain want rows that overlap by four."""
    boxes = {4: (slice(0, 8),), 5: (slice(4, 12),)}
    with testing.runtime(host_domains=2, **SETTINGS["streams"]) as rt:
        data = np.arange(12, dtype=np.int32)
        x = gs.device_put(data, rt.devices[0])
        sharding = OwnSharding(rt, boxes)
        plan = x.plan(sharding)
        assert (plan.written, plan.received) == ({1: 64}, {1: 48})
        assert plan.link_bytes == {(0, 1): 48, (1, 1): 16}
        y = gs.reshard(x, sharding)
        assert [s.data.tolist() for s in y.addressable_shards] == [
            data[:8].tolist(),
            data[4:].tolist(),
        ]


def test_of_several_holders_the_largest_box_is_read() -> None:
    side = Free((6,), ((0, ((0, 2),)), (1, ((0, 6),)), (2, ((2, 6),)), (3, ((0, 5),))))
    with testing.runtime(host_domains=8) as rt:
        x = gs.device_put(np.arange(6), sharding_of(rt, side))
        y = x.plan(gs.SingleDeviceSharding(rt.devices[1]))
        assert y.bytes_written == 0
        assert (
            sum(
                n
                for (of, to), n in x.plan(gs.SingleDeviceSharding(rt.devices[7])).link_bytes.items()
                if to == 7 and of in (0, 1, 2, 3)
            )
            == x.nbytes
        )
