"""Work that runs late is still right, and so is what comes after it.

Each test runs on a driver that needs no GPU and whose streams run late, and on GPUs with kernels
that do nothing for a while before the work. Pools are poisoned: what has been given up is
overwritten as soon as nobody may use it any more. As poison keeps whoever takes a block waiting for
all who used it, tests run without it, too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._runtime.runtime import Runtime
from gpushard.testing import deferred
from gpushard.testing.programs import check_nothing_left, run_on
from tests.gpu.device import DRIVERS, Split, gpu_runtime, make_driver
from tests.share import seeds

SPLITS = [Split(4, False), Split(4, True)]
VALUE = np.arange(256.0 * 96).reshape(256, 96)
SPECS: list[tuple[Any, ...]] = [("x",), (None, "x"), ()]


@pytest.fixture(params=DRIVERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["poisoned", "plain"])
def poisoned(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "poisoned")


@pytest.fixture(params=SPLITS, ids=str)
def rt(kind: str, poisoned: bool, request: pytest.FixtureRequest) -> Iterator[Runtime]:
    """Four devices, small rings."""
    with gpu_runtime(
        make_driver(kind, share=0.7, most_us=2000),
        request.param,
        poisoned=poisoned,
        pinned_bytes=64 << 10,
        inline_bytes=1 << 10,
        engine_bytes=4 << 10,
    ) as made:
        yield made


def named(*spec: Any) -> gs.NamedSharding:
    return gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P(*spec))


def late(x: gs.Array) -> gs.Array:
    """The same values, computed on the devices' streams."""
    return deferred(x, lambda shard: shard + 0)


def right(x: gs.Array, value: Any) -> bool:
    return bool(np.array_equal(np.asarray(x), value))


def test_reshards_wait_for_what_is_late(rt: Runtime) -> None:
    for start in SPECS:
        x = late(gs.device_put(VALUE, named(*start)))
        moved = [gs.reshard(x, named(*spec)) for spec in SPECS]
        again = [gs.reshard(late(y), named(*start)) for y in moved]
        assert all(right(y, VALUE) for y in (*moved, *again))


def test_slices_wait_for_what_is_late(rt: Runtime) -> None:
    x = late(gs.device_put(VALUE, named("x")))
    assert right(x[3:200:7, ::-2], VALUE[3:200:7, ::-2])
    assert right(late(x.T)[5], VALUE.T[5])


def test_what_was_given_up_is_still_read_by_who_came_before(rt: Runtime) -> None:
    kept = []
    for number in range(12):
        x = late(gs.device_put(VALUE + number, named("x")))
        y = gs.reshard(x, named(None, "x"))
        x.delete()  # its blocks are the next ones to be taken, and the reader is late
        kept.append((late(y), VALUE + number))
        y.delete()
    assert all(right(y, value) for y, value in kept)


def test_memory_is_used_again_and_never_too_early(kind: str, poisoned: bool) -> None:
    limit = 3 * VALUE.nbytes
    driver = make_driver(kind, share=0.7, most_us=1000)
    settings: Any = {"memory_limit": limit, "inline_bytes": 1 << 10, "pinned_bytes": 1 << 20}
    with gpu_runtime(driver, Split(2, True), poisoned=poisoned, **settings) as runtime:
        device, other = runtime.devices
        kept = []
        for number in range(20):
            x = late(gs.device_put(VALUE + number, device))
            y = gs.device_put(x, other)  # the other device reads late
            x.delete()
            kept.append((gs.device_put(y, y.sharding.with_memory_kind("pinned_host")), number))
            y.delete()
        assert all(right(z, VALUE + number) for z, number in kept)
        assert (device.memory_stats()["peak_bytes_in_use"] or 0) <= limit


def test_reads_that_were_started_early_are_right(rt: Runtime) -> None:
    arrays = [late(gs.device_put(VALUE + n, named(*SPECS[n % 3]))) for n in range(6)]
    for x in arrays:
        x.copy_to_host_async()
    assert all(right(x, VALUE + n) for n, x in enumerate(arrays))


@pytest.mark.parametrize("memory", ["pinned_host", "unpinned_host"])
def test_host_memory_waits_for_devices_and_devices_for_it(rt: Runtime, memory: str) -> None:
    x = late(gs.device_put(VALUE, named("x")))
    host = gs.device_put(x, named(None, "x").with_memory_kind(memory))
    x.delete()
    back = late(gs.device_put(host, named("x")))
    host.copy_to_host_async()
    assert right(host, VALUE) and right(back, VALUE)
    host.delete()
    again = gs.device_put(late(back), named().with_memory_kind(memory))
    assert right(again, VALUE)


def test_both_directions_at_once(rt: Runtime) -> None:
    up = [gs.device_put(VALUE + n, named("x").with_memory_kind("pinned_host")) for n in range(4)]
    down = [late(gs.device_put(VALUE - n, named("x"))) for n in range(4)]
    above = [gs.device_put(x, named("x")) for x in up]
    below = [gs.device_put(x, named("x").with_memory_kind("pinned_host")) for x in down]
    for x in (*up, *down):
        x.delete()
    assert all(right(x, VALUE + n) for n, x in enumerate(above))
    assert all(right(x, VALUE - n) for n, x in enumerate(below))


def test_data_far_larger_than_the_ring(rt: Runtime) -> None:
    value = np.arange(1 << 16, dtype=np.float64).reshape(64, 1024)  # 512 KiB; the ring has 64
    source = value.copy()
    x = gs.device_put(source, named(None, "x"))
    source[...] = -1  # it was read
    assert right(late(x), value)


def test_threads_copy_both_ways_through_one_ring(rt: Runtime) -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for turn in range(6):
            value = VALUE + 100 * number + turn
            x = late(gs.device_put(value, named(*SPECS[(number + turn) % 3])))
            if not right(x, value):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("seed", seeds(12))
def test_random_programs(kind: str, seed: int, checked: bool) -> None:
    settings: Any = {
        "engine_bytes": (0, 16, 1 << 20)[seed % 3],
        "pinned_bytes": (256, 4096, 1 << 20)[seed % 3],
        "inline_bytes": (0, 300, 1 << 20)[seed // 3 % 3],
        "memory_limit": (None, 1500)[seed % 2],
        "queue_limit": (1024, 5)[seed // 2 % 2],
    }
    split = Split((1, 2, 4, 8)[seed % 4], bool(seed // 4 % 2))
    driver = make_driver(kind, share=0.3)
    poisoned = bool(seed // 2 % 2)
    with gpu_runtime(driver, split, checked=checked, poisoned=poisoned, **settings) as runtime:
        run_on(runtime, seed, steps=15, threads=1 + seed % 2)
        check_nothing_left(runtime)
        assert not getattr(runtime.backend, "races", [])
