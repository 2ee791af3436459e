"""Launches of a traced function that a GPU gets together."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

import gpushard as gs
from tests.runtime.cuda.test_launched import cuda, split

VALUE = np.tile(np.arange(144.0).reshape(24, 6), (40, 4))


def chain(x: Any) -> Any:
    """Twelve launches on a GPU that makes no kernels of several operations."""
    for _ in range(6):
        x = x * 2 + x
    return x


def test_launches_at_the_same_addresses_become_a_graph() -> None:
    with cuda(partitions=1) as (_, driver):
        f = gs.jit(chain)
        x = gs.device_put(VALUE).block_until_ready()
        for _ in range(4):
            assert np.array_equal(np.asarray(f(x)), chain(VALUE))
        assert driver.calls["capture"] == 1 and driver.calls["launch_graph"] >= 2


def test_shards_on_partitions_are_parts_of_what_each_launch_makes() -> None:
    with cuda(partitions=4) as (_, driver):
        f = gs.jit(chain)
        x = split(VALUE)
        for _ in range(4):
            assert np.array_equal(np.asarray(f(x)), chain(VALUE))
        assert driver.calls["launch_graph"]


def test_what_launches_read_stays_until_they_have_read_it() -> None:
    """Another device writes what it gets of the memory of a deleted operand, before it may."""
    with cuda(partitions=2) as (_, _):
        first, second = gs.devices()
        f = gs.jit(chain)
        other = gs.device_put(VALUE + 1, second).block_until_ready()
        for _ in range(10):
            x = gs.device_put(VALUE, first).block_until_ready()
            y = f(x)
            x.delete()
            for z in [other * 3 for _ in range(6)]:
                z.block_until_ready()
            assert np.array_equal(np.asarray(y), chain(VALUE))


def test_results_are_charged_as_long_as_an_array_has_them() -> None:
    with cuda(partitions=2):
        device, f = gs.devices()[0], gs.jit(chain)
        x = gs.device_put(VALUE, device).block_until_ready()
        for _ in range(3):
            y = f(x).block_until_ready()
            gc.collect()
            assert device.memory_stats()["bytes_in_use"] == 2 * VALUE.nbytes
            del y
            assert device.memory_stats()["bytes_in_use"] == VALUE.nbytes
