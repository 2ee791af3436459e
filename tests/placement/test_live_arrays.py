"""`live_arrays`: what is alive, no more and no less."""

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gpushard as gs
from gpushard.errors import ShardingError
from gpushard.testing import runtime


def live() -> set[int]:
    return {id(array) for array in gs.live_arrays()}


def test_lists_what_is_alive_and_not_deleted() -> None:
    with runtime():
        assert gs.live_arrays() == []
        x, y = gs.device_put(np.ones(3)), gs.device_put(np.ones(4), gs.devices()[1])
        assert live() == {id(x), id(y)}
        y.delete()
        assert live() == {id(x)}
        part = x[1:]
        assert live() == {id(x), id(part)}
        del x
        assert live() == {id(part)}
        del part
        assert gs.live_arrays() == []


def test_shards_count_once_they_were_asked_for() -> None:
    with runtime():
        mesh = gs.make_mesh((2,), "x")
        x = gs.device_put(np.ones(4), gs.NamedSharding(mesh, gs.P("x")))
        assert len(gs.live_arrays()) == 1
        parts = [shard.data for shard in x.addressable_shards]
        assert live() == {id(x), *map(id, parts)}
        x.delete()
        assert gs.live_arrays() == []


def test_platforms() -> None:
    with runtime():
        x = gs.device_put(1.0)
        assert gs.live_arrays("cpu") == [x]
        assert gs.live_arrays("gpu") == []


def test_runtimes_are_apart() -> None:
    with runtime():
        x = gs.device_put(1.0)
        with runtime():
            assert gs.live_arrays() == []
            y = gs.device_put(2.0)
            assert live() == {id(y)}
        assert live() == {id(x)}


def test_failed_calls_leave_nothing() -> None:
    with runtime():
        mesh = gs.make_mesh((2,), "x")
        x = gs.device_put(np.ones(4), gs.NamedSharding(mesh, gs.P("x")))
        with pytest.raises(ShardingError):
            gs.device_put([np.ones(3), np.ones(())], gs.NamedSharding(mesh, gs.P("x")))
        assert live() == {id(x)}


def test_many_threads_make_drop_and_list() -> None:
    threads, rounds = 4, 100
    barrier = threading.Barrier(threads)

    def work(seed: int) -> int:
        barrier.wait()
        kept = []
        for i in range(rounds):
            array = gs.device_put(np.full(3, seed), gs.devices()[i % 8])
            if i % 3 == 0:
                kept.append(array)
            assert {id(a) for a in kept} <= live()
        return len(kept)

    with runtime():
        with ThreadPoolExecutor(threads) as pool:
            kept = list(pool.map(work, range(threads)))
        assert kept == [34] * threads
        assert gs.live_arrays() == []


def test_arrays_that_are_gone_are_forgotten_where_nothing_is_submitted() -> None:
    with runtime() as rt:
        x = gs.device_put(np.arange(4))
        for _ in range(3000):
            copy.copy(x)
        assert len(rt._arrays) < 1500
        assert len(rt.live_arrays()) == 1
