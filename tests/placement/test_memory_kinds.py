"""Arrays in the memories beside devices: placed, moved, sliced and read like others."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._geometry.memory_kind import MEMORY_KINDS
from gpushard._movement.execute import within_reach
from gpushard._movement.sharding_devices import devices_of
from gpushard._movement.to_host import read_host
from gpushard.testing import runtime, simulated
from gpushard.testing.actor import updated
from gpushard.testing.programs import check_nothing_left

VALUE = np.arange(35.0).reshape(5, 7)
QUEUED: dict[str, Any] = {"small_bytes": 0, "inline_bytes": 0}
STREAMS = QUEUED | {"host_devices": 4, "host_domains": 2}


def named(kind: str, *spec: Any) -> gs.NamedSharding:
    return gs.NamedSharding(gs.make_mesh((2, 2), ("x", "y")), gs.P(*spec), memory_kind=kind)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kinds", [*itertools.product(MEMORY_KINDS, repeat=2)])
def test_every_kind_becomes_every_other(kinds: tuple[str, str], seed: int) -> None:
    start, end = kinds
    with simulated(seed, **STREAMS, pinned_bytes=64) as rt:
        rt.sim.failing = 0
        x = gs.device_put(VALUE, named(start, "x", "y"))
        y = gs.device_put(x, named(end, "y"))
        z = gs.device_put(y, y.sharding.with_memory_kind(start))
        for array, kind in ((x, start), (y, end), (z, start)):
            assert array.sharding.memory_kind == kind
            assert all(s.data.sharding.memory_kind == kind for s in array.addressable_shards)
            assert {s.device for s in array.addressable_shards} == set(rt.devices)
            assert array.devices() == set(rt.devices)
            assert np.array_equal(np.asarray(array), VALUE)
            assert np.array_equal(np.asarray(array[1:, ::-2]), VALUE[1:, ::-2])
            assert array[1:, ::-2].sharding.memory_kind == kind
        expected = VALUE.copy()
        expected[::2] = VALUE[2:]
        assert np.array_equal(np.asarray(updated(x, slice(None, None, 2), y[2:])), expected)
        del array, x, y, z
        check_nothing_left(rt)


COMPUTED = {
    "add": lambda x, y: x + y,
    "sum": lambda x, y: x.sum(),
    "columns": lambda x, y: x.sum(axis=0) * y[0],
    "product": lambda x, y: x @ y.T,
    "concatenate": lambda x, y: np.concatenate([x, y]),
    "mask": lambda x, y: x[y > 4],
    "rows": lambda x, y: x[[0, 3]],
    "sort": lambda x, y: np.sort(x, axis=0),
    "number": lambda x, y: x * 2,
}


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.parametrize("kinds", [*itertools.product(MEMORY_KINDS, repeat=2)])
def test_arrays_of_all_kinds_compute(kinds: tuple[str, str], name: str) -> None:
    with simulated(0, **STREAMS, pinned_bytes=64) as rt:
        rt.sim.failing = 0
        x = gs.device_put(VALUE, named(kinds[0], "x", "y"))
        y = gs.device_put(VALUE[::-1].copy(), named(kinds[1], "y"))
        result = COMPUTED[name](x, y)
        assert np.allclose(result, COMPUTED[name](VALUE, VALUE[::-1]), rtol=1e-14, atol=0)
        alike = kinds[0] == kinds[1] or name in ("sort", "sum", "rows", "number", "mask")
        assert result.sharding.memory_kind == (kinds[0] if alike else "device")
        del x, y, result
        check_nothing_left(rt)


@pytest.mark.parametrize("kind", MEMORY_KINDS)
def test_arrays_whose_devices_nobody_chose_follow_others_into_their_memory(kind: str) -> None:
    with runtime(host_devices=4):
        x = gs.device_put(VALUE, named(kind, "x", "y"))
        line = gs.numpy.arange(7.0)
        results = {
            "add": (line + x, VALUE + np.arange(7)),
            "append": (np.append(x, line[None], 0), np.append(VALUE, np.arange(7.0)[None], 0)),
            "insert": (np.insert(x, 1, 5, axis=0), np.insert(VALUE, 1, 5, axis=0)),
        }
        for result, wanted in results.values():
            assert np.array_equal(result, wanted)
            assert result.sharding.memory_kind == kind
        assert (line + 1).sharding.memory_kind == "device"


@pytest.mark.parametrize("kinds", [*itertools.product(MEMORY_KINDS, repeat=2)], ids="-".join)
def test_streams_reach_all_memory_but_the_ordinary_one_of_the_host(kinds: tuple[str, str]) -> None:
    with simulated(3, host_readable=False, **STREAMS) as rt:
        rt.sim.failing = 0
        x = gs.device_put(VALUE, named(kinds[0], "x", "y"))._live()
        there = named(kinds[1], "y").tiling(VALUE.shape)
        moved = within_reach(x, there)
        assert (moved is x) == (kinds[0] == kinds[1] or "unpinned_host" not in kinds)
        assert {place.domain.kind for place in devices_of(moved.tiling)} == {
            kinds[0] if moved is x else kinds[1]
        }
        assert np.array_equal(read_host(moved), VALUE)


def test_on_the_host_they_are_one_and_nothing_is_copied() -> None:
    with runtime(small_bytes=0) as rt:
        x = gs.device_put(VALUE, rt.devices[0])
        before = dict(rt.backend.traffic)
        for kind in MEMORY_KINDS:
            y = gs.device_put(x, x.sharding.with_memory_kind(kind))
            assert y.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
        assert rt.backend.traffic == before


def test_pinned_memory_is_the_hosts_and_counts_against_no_quota() -> None:
    with simulated(3, **STREAMS, memory_limit=100, host_readable=False) as rt:
        rt.sim.failing = 0
        pinned = gs.SingleDeviceSharding(rt.devices[0], memory_kind="pinned_host")
        x = gs.device_put(np.arange(1000.0), pinned)
        assert rt.devices[0].memory_stats()["bytes_in_use"] == 0
        read = np.asarray(x)
        assert read.__array_interface__["data"][0] == x.unsafe_buffer_pointer()
        with pytest.raises(gs.errors.OutOfMemoryError):
            gs.device_put(x, rt.devices[0])


def test_memories_of_a_device() -> None:
    with runtime() as rt:
        device = rt.devices[0]
        x = gs.device_put(VALUE, device.memory("pinned_host"))
        assert x.sharding == gs.SingleDeviceSharding(device, memory_kind="pinned_host")
        assert gs.device_put(x, device.default_memory()).sharding.memory_kind == "device"
        assert device.default_memory() is device
        assert device.memory("pinned_host") == device.memory("pinned_host")
        assert [getattr(m, "kind", "device") for m in device.addressable_memories()] == list(
            MEMORY_KINDS
        )
        assert repr(device.memory("pinned_host")) == f"{device!r}.memory('pinned_host')"


@pytest.mark.parametrize("kind", ["device", "pinned_host", "unpinned_host"])
@pytest.mark.parametrize("other", ["device", "pinned_host", "unpinned_host"])
def test_what_was_moved_stays_as_its_source_changes(kind: str, other: str) -> None:
    with runtime(host_devices=2, small_bytes=0):
        mesh = gs.make_mesh((2,), "x")
        for spec in (gs.P("x"), gs.P()):
            own = gs.NamedSharding(mesh, spec, memory_kind=kind)
            x = gs.device_put(np.arange(64.0), own)
            y = gs.device_put(x, own.with_memory_kind(other))
            gs.block_until_ready([x, y])
            x[3:60] = -1
            assert np.array_equal(y, np.arange(64.0))


@pytest.mark.parametrize("kinds", list(itertools.permutations(MEMORY_KINDS, 2)), ids="-".join)
def test_parts_may_be_taken_to_another_kind(kinds: tuple[str, str]) -> None:
    data = np.arange(32).reshape(8, 4)
    with simulated(3, host_readable=False, host_devices=4, host_domains=4, small_bytes=0) as rt:
        rt.sim.failing = 0
        mesh = gs.make_mesh((4,), "x")
        here, there = (gs.NamedSharding(mesh, gs.P("x"), memory_kind=kind) for kind in kinds)
        x = gs.device_put(data, here)
        for index in (slice(2, 6), slice(None, None, -1), (slice(4), 1), (slice(1, 8, 2), ...)):
            part = x.at[index].get(out_sharding=there)
            assert part.sharding.memory_kind == kinds[1]
            assert np.array_equal(np.asarray(part), data[index])
        other = gs.numpy.reshape(x, (4, 8), out_sharding=there)
        assert np.array_equal(np.asarray(other), data.reshape(4, 8))
