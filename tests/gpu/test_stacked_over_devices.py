"""Arrays whose shards have fewer dims than they, on GPUs and parts of them."""

from __future__ import annotations

import importlib
import pickle
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import legacy
from gpushard.sharding import PmapSharding
from gpushard.testing.runtime import using
from tests.gpu.device import Split, make_driver, make_gpu_runtime, needs_gpu

pytestmark = needs_gpu
N = 4
VALUE = np.arange(N * 6.0).reshape(N, 6)


@pytest.fixture(params=[Split(N, False)], ids=str)
def sharding(request: pytest.FixtureRequest) -> Any:
    with using(make_gpu_runtime(make_driver("cupy"), request.param)):
        yield PmapSharding.default(VALUE.shape, devices=gs.devices()[:N][::-1])


def test_shards_are_cupy_s_without_the_dim(sharding: PmapSharding) -> None:
    cupy = importlib.import_module("cupy")
    x = gs.device_put(VALUE, sharding)
    for position, shard in enumerate(x.addressable_shards):
        local = cupy.from_dlpack(shard.data)
        assert local.shape == (6,) and np.array_equal(cupy.asnumpy(local), VALUE[position])
        assert local.data.ptr == x[position].unsafe_buffer_pointer()
    parts = [shard.data for shard in x.addressable_shards]
    joined = gs.make_array_from_single_device_arrays(VALUE.shape, sharding, parts)
    assert np.array_equal(joined, VALUE)
    assert np.array_equal(pickle.loads(pickle.dumps(x)), VALUE)


def test_they_move_and_are_worked_on(sharding: PmapSharding) -> None:
    x = gs.device_put(VALUE, sharding)
    mesh = gs.make_mesh((N,), "x", devices=gs.devices()[:N])
    columns = gs.reshard(x, gs.NamedSharding(mesh, gs.P(None, "x")))
    assert np.array_equal(columns, VALUE)
    assert np.array_equal(gs.reshard(columns, sharding), VALUE)
    assert np.array_equal(x + x[:, :1], VALUE + VALUE[:, :1])
    assert np.allclose(x.T @ x, VALUE.T @ VALUE)
    row = x[1]
    x[1] = 0
    assert np.array_equal(row, VALUE[1]) and not np.asarray(x[1]).any()
    pinned = gs.device_put(VALUE, sharding.with_memory_kind("pinned_host"))
    assert pinned[1].sharding.memory_kind == "pinned_host" and np.array_equal(pinned[1], VALUE[1])
    assert np.array_equal(pinned + 1, VALUE + 1)


def test_replicas_and_older_types(sharding: PmapSharding) -> None:
    devices = gs.devices()[:N]
    x = gs.device_put_replicated(np.ones(3), devices)
    x[1] = 5
    assert np.array_equal(x[0], np.ones(3)) and np.array_equal(x[1], np.full(3, 5.0))
    y = gs.replicate(gs.device_put(2.0, devices[-1]), N // 2, N, devices)
    assert [float(shard.data) for shard in y.addressable_shards] == [2.0] * N
    rows = [gs.device_put(row, device) for row, device in zip(VALUE, devices, strict=True)]
    sda = legacy.ShardedDeviceArray(gs.ShapeDtypeStruct(VALUE.shape, float), rows)
    assert np.array_equal(2 * sda, 2 * VALUE)
    mesh = gs.make_mesh((N,), "x", devices=devices)
    gda = legacy.GlobalDeviceArray.from_callback(VALUE.shape, mesh, ("x",), lambda i: VALUE[i])
    assert np.array_equal(gda @ gda.T, VALUE @ VALUE.T)
