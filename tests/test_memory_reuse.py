"""Freed memory that something still reads: whoever takes it waits for the reader."""

from __future__ import annotations

import threading
from unittest import mock

import numpy as np

import gpushard as gs
from gpushard.testing import runtime
from gpushard.testing.deferred import gated

OLD, NEW = np.zeros(1000), np.ones(1000)


def held_reader(rt, x):
    """Give the device an item that reads `x` once a gate is open; return the gate and its log."""
    gate, seen = threading.Event(), []
    buffer = x._live()
    value, memory = buffer.values[0], buffer.claims[0].memory

    def read():
        gate.wait()
        seen.append(value.copy())

    rt.commit(lambda: rt.submit(rt.devices[0].stream, "read", read, [memory], []))
    return gate, seen


def test_the_host_writes_a_freed_block_only_after_its_reader(monkeypatch):
    with runtime(host_devices=1, memory_limit=OLD.nbytes, small_bytes=0) as rt:
        x = gs.device_put(OLD)
        gate, seen = held_reader(rt, x)
        wait = rt.backend.workers.wait
        monkeypatch.setattr(
            rt.backend.workers, "wait", lambda *tick: (gate.set(), wait(*tick))
        )  # the reader runs when somebody waits for it, and not before
        del x
        y = gs.device_put(NEW)
        gate.set()
        rt.devices[0].synchronize()
        assert np.array_equal(seen[0], OLD)
        assert np.array_equal(np.asarray(y), NEW)


def test_a_small_copy_into_a_block_that_is_still_read_is_left_to_the_stream():
    with runtime(host_devices=2, host_domains=2, memory_limit=OLD.nbytes, small_bytes=0) as rt:
        x = gs.device_put(OLD, rt.devices[0])
        z = gs.device_put(NEW, rt.devices[1])
        gate, seen = held_reader(rt, x)
        del x
        y = gs.device_put(z, rt.devices[0])
        assert not y.is_ready()
        gate.set()
        assert np.array_equal(np.asarray(y), NEW)
        assert np.array_equal(seen[0], OLD)


def test_a_call_that_would_write_what_is_still_read_is_left_to_the_stream():
    with runtime(host_devices=1, memory_limit=2 * OLD.nbytes, small_bytes=0) as rt:
        x, z = gs.device_put(OLD), gs.device_put(NEW)
        gate, seen = held_reader(rt, x)
        del x
        y = -z
        assert not y.is_ready()
        gate.set()
        assert np.array_equal(np.asarray(y), -NEW)
        assert np.array_equal(seen[0], OLD)


def test_a_value_is_read_into_a_block_only_after_the_copy_that_was_on_its_way_there(monkeypatch):
    with runtime(host_devices=2, small_bytes=0) as rt:
        split = gs.NamedSharding(gs.make_mesh((2,), "x"), gs.P("x"))
        (x, gate), z = gated(gs.device_put(OLD, split)), gs.device_put(NEW, split)
        x.copy_to_host_async()
        del x
        wait, full = rt.backend.workers.wait, MemoryError()
        monkeypatch.setattr(rt.backend, "allocate", mock.Mock(side_effect=full))
        monkeypatch.setattr(rt.backend.workers, "wait", lambda *tick: (gate.open(), wait(*tick)))
        value = np.asarray(z)
        gate.open()
        rt.devices[0].synchronize()
        assert np.array_equal(value, NEW)


def test_small_shards_are_charged_as_long_as_an_array_has_them():
    with runtime(host_devices=2, host_domains=2) as rt:
        first, second = rt.devices
        x = gs.device_put(OLD, first)
        y = gs.device_put(x, second)
        for device in rt.devices:
            assert device.memory_stats()["bytes_in_use"] == OLD.nbytes
        del x, y
        for device in rt.devices:
            assert device.memory_stats()["bytes_in_use"] == 0
