"""The devices of this process."""

from __future__ import annotations

import numpy as np
import pytest

import gpushard as gs
from gpushard._placement.default_placement import everywhere
from gpushard.errors import ArgumentTypeError, ShardingError
from gpushard.testing import runtime


def test_devices_of_a_platform():
    with runtime(host_devices=3):
        assert gs.devices("cpu") == gs.devices() == gs.local_devices()
        assert gs.device_count() == gs.local_device_count() == 3
        assert gs.default_backend() == "cpu"
        assert (gs.process_index(), gs.process_count()) == (0, 1)


def test_a_platform_without_devices_is_refused():
    with pytest.raises(
        gs.errors.ArgumentError, match="backend='tpu' has no devices here"
    ) as caught:
        gs.devices("tpu")
    assert isinstance(caught.value, ValueError) and caught.value.backend == "tpu"


@pytest.mark.parametrize("dim", [-1, 2])
def test_a_dim_that_is_not_there_is_refused(dim):
    sharding = gs.NamedSharding(gs.make_mesh((4, 2), ("x", "y")), gs.P("x"))
    with pytest.raises(gs.errors.ArrayIndexError, match=r"use 0 to 1"):
        gs.num_addressable_indices(sharding, dim, (5, 3))
    assert gs.num_addressable_indices(sharding, 0, (5, 3)) == 5


def test_a_stream_is_refused_where_the_library_orders_work():
    x = gs.device_put(1.0)
    with pytest.raises(gs.errors.ArgumentError, match="stream=5 must be None"):
        x.to_device(gs.devices()[1], stream=5)
    assert x.to_device(gs.devices()[1]).device == gs.devices()[1]


def test_devices_of_two_runtimes_do_not_mix() -> None:
    with runtime():
        mine = gs.NamedSharding(gs.make_mesh((2,), "x"), gs.P("x"))
        x = gs.device_put(np.arange(4.0), mine)
        with runtime():
            theirs = gs.NamedSharding(gs.make_mesh((2,), "x"), gs.P("x"))
            y = gs.device_put(np.arange(4.0), theirs)
            mixed = gs.Mesh([gs.devices()[0], mine.mesh.devices[1]], "x")
            with pytest.raises(ArgumentTypeError, match=r"add got arrays of different runtimes"):
                x + y
            with pytest.raises(ShardingError, match="another runtime than the array's"):
                gs.reshard(x, theirs)
            with pytest.raises(ShardingError, match="mixes devices of different runtimes"):
                gs.device_put(np.arange(4.0), gs.NamedSharding(mixed, gs.P("x")))
            assert x.tolist() == y.tolist() == [0, 1, 2, 3]


def test_memory_belongs_to_its_device() -> None:
    for device in gs.devices()[:3]:
        memory = device.memory("pinned_host")
        assert (memory.id, memory.platform, memory.process_index) == (
            device.id,
            device.platform,
            device.process_index,
        )


def test_a_platform_stands_for_its_first_device() -> None:
    with gs.default_device(gs.devices()[2]), gs.default_device("cpu"):
        assert gs.device_put(1.0).device is gs.devices()[0]


def test_everywhere_is_in_the_memory_of_each_device_in_order_of_their_numbers() -> None:
    one, two, three = gs.devices()[:3]
    for kind in ("device", "pinned_host"):
        alone = gs.SingleDeviceSharding(three, memory_kind=kind)
        assert everywhere(alone) == gs.SingleDeviceSharding(three)
    rows = gs.NamedSharding(gs.Mesh([two, one], "x"), gs.P("x"), memory_kind="pinned_host")
    assert everywhere(rows) == gs.NamedSharding(rows.mesh, gs.P())
    line = gs.NamedSharding(gs.Mesh([one, three], "devices"), gs.P())
    assert everywhere(gs.sharding.PmapSharding.default((2,), 0, [three, one])) == line
    just_one = gs.sharding.PmapSharding.default((1,), 0, [three])
    assert everywhere(just_one) == gs.SingleDeviceSharding(three)
