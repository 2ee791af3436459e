"""The CUDA backend's own promises, on a driver that needs no GPU."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._runtime.checking.checker import Checker
from gpushard._runtime.cuda.backend import CudaBackend
from gpushard._runtime.cuda.streams import CudaEvent
from gpushard._runtime.item import Item
from gpushard._runtime.reclaim import pools_of_chip
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings
from gpushard.errors import DeviceLostError, OutOfMemoryError
from gpushard.testing import deferred
from gpushard.testing.runtime import using
from tests.runtime.cuda.fake_driver import STICKY, FakeDriver, FakeError
from tests.stress.interrupter import Visitor


@contextlib.contextmanager
def cuda(gpus: int = 1, nbytes: int = 64 << 20, **settings: Any) -> Iterator[tuple[Runtime, Any]]:
    driver = FakeDriver(gpus, nbytes)
    driver._progress = 0  # nothing runs before somebody waits
    settings = {"partitions": 8, "slab_bytes": 1 << 20, **settings}
    chosen = Settings(backend="cuda", **settings)
    backend = CudaBackend(chosen, driver)
    runtime = Runtime(chosen, Checker(backend) if chosen.check else backend)
    with using(runtime):
        yield runtime, driver


def named(*spec: Any) -> gs.NamedSharding:
    return gs.NamedSharding(gs.make_mesh((len(gs.devices()),), ("x",)), gs.P(*spec))


VALUE = np.arange(64.0 * 64).reshape(64, 64)


def test_a_small_reshard_is_one_launch() -> None:
    with cuda() as (_, driver):
        x = gs.device_put(VALUE, named("x")).block_until_ready()
        gs.reshard(x, named(None, "x")).block_until_ready()  # the plan and its table are made
        driver.calls.clear()
        y = gs.reshard(x, named(None, "x")).block_until_ready()
        assert driver.calls["launch"] == 1 and driver.calls["record"] <= 2, driver.calls
        assert "upload" not in driver.calls and "malloc" not in driver.calls
        assert np.array_equal(np.asarray(y), VALUE)


def test_many_boxes_go_by_one_table_for_each_stream() -> None:
    with cuda() as (runtime, driver):
        x = gs.device_put(VALUE, named("x"))
        y = gs.reshard(x, named(None, "x"))
        assert np.array_equal(np.asarray(y), VALUE)
        assert driver.calls["upload"] == 3  # pieces, first blocks, ends
        assert np.array_equal(np.asarray(gs.reshard(x, named(None, "x"))), VALUE)
        assert driver.calls["upload"] == 3
        used = runtime.backend._gpu_stores[0].slabs
        del x, y
        runtime.plans.clear()
        gc.collect()
        runtime.run_locked(runtime.domains[0].pool.trim)
        runtime.backend._launches.collect()
        events = len(runtime.backend._events.free[0])
        driver.synchronize_gpu(0)
        runtime.backend._launches.collect()
        assert used.free == used.total, "a table is never given back"
        assert len(runtime.backend._events.free[0]) > events, "nor the event behind its last launch"


def test_one_launch_for_each_receiving_gpu() -> None:
    with cuda(gpus=4, partitions=2) as (_, driver):
        x = gs.device_put(VALUE, named("x")).block_until_ready()
        driver.calls.clear()
        assert np.array_equal(np.asarray(gs.reshard(x, named(None, "x"))), VALUE)
        assert driver.calls["launch"] <= 4 + 4  # and one for each GPU to fetch the result


def test_quotas_hold_for_each_partition() -> None:
    with cuda(memory_limit=1 << 16, partitions=2) as _:
        one, other = gs.devices()
        kept = gs.device_put(np.zeros(6000), one)
        with pytest.raises(OutOfMemoryError) as caught:
            gs.device_put(np.zeros(6000), one)
        assert caught.value.device == repr(one)
        assert float(gs.device_put(np.ones(6000), other)[17]) == 1
        kept.delete()
        assert float(gs.device_put(np.ones(6000), one)[17]) == 1


def test_a_full_gpu_takes_back_what_siblings_do_not_use() -> None:
    with cuda(nbytes=4 << 20, partitions=2, separate_domains=True) as _:
        one, other = gs.devices()
        x = gs.device_put(np.zeros(3 << 20, np.uint8), one)
        with pytest.raises(OutOfMemoryError):
            gs.device_put(np.zeros(3 << 20, np.uint8), other)
        x.delete()
        gs.device_put(np.ones(3 << 20, np.uint8), other).block_until_ready()


@pytest.mark.parametrize("ours", [True, False])
def test_a_gpu_lost_while_a_stream_is_told_to_wait(ours: bool) -> None:
    """After the check that it works, and before the event that is waited for is set."""
    with cuda(partitions=2, inline_bytes=0) as (runtime, driver):
        one, other = gs.devices()
        x = gs.device_put(VALUE, one).block_until_ready()
        y = deferred(x, lambda v: v + 1)
        record = driver.record

        def fail(event: Any, stream: Any) -> None:
            if stream.allocate is None:  # a copy of the host's own
                record(event, stream)
                return
            driver.broken = STICKY
            raise FakeError(STICKY)

        driver.record = fail
        if ours:
            memory = x._live().claims[0].memory
            tick = y._live().claims[0].memory.written
            item = Item("work", lambda: None, other.stream, 1, (tick,), (), (memory,))
            runtime.backend.enqueue(item)
            assert isinstance(memory.error.cause, DeviceLostError)
        else:
            with pytest.raises(DeviceLostError, match="new process"):
                y.__dlpack__(stream=7)


def test_a_sticky_error_loses_the_devices_and_nothing_hangs() -> None:
    with cuda() as (runtime, driver):
        x = gs.device_put(VALUE, named("x"))
        y = gs.reshard(x, named(None, "x"))
        driver.broken = STICKY
        with pytest.raises(DeviceLostError, match=STICKY):
            y.block_until_ready()
        assert x.is_ready() and y.is_ready()
        with pytest.raises(DeviceLostError, match=STICKY):
            y.block_until_ready()
        for call in (lambda: np.asarray(x), lambda: gs.device_put(VALUE), lambda: x[1:]):
            with pytest.raises(DeviceLostError, match="new process"):
                np.asarray(call())
        assert issubclass(DeviceLostError, gs.errors.ExecutionError)
        x.delete()
        del y
        assert runtime.claimed_bytes() == 0


def test_a_sticky_error_of_a_launch_loses_the_devices_too() -> None:
    with cuda() as (_, driver):
        x = gs.device_put(VALUE, named("x")).block_until_ready()

        def launch(*arguments: Any) -> None:
            raise FakeError(STICKY)

        driver.launch_pieces = driver.launch_table = launch
        y = gs.reshard(x, named(None, "x"))
        for read in (y.block_until_ready, lambda: np.asarray(y)):
            with pytest.raises(DeviceLostError, match="new process") as caught:
                read()
            assert STICKY in str(caught.value.cause)


def test_nothing_is_launched_on_a_gpu_that_works_after_another_was_lost() -> None:
    with cuda(gpus=2, partitions=1) as (runtime, driver):
        one, other = gs.devices()
        x = gs.device_put(VALUE, other).block_until_ready()
        driver.broken = STICKY
        with pytest.raises(DeviceLostError):
            gs.device_put(VALUE, one).block_until_ready()
        driver.broken = None
        launched: list[str] = []
        memory = x._live().claims[0].memory
        work = functools.partial(launched.append, "work")
        runtime.backend.enqueue(Item("work", work, other.stream, 1, (), (), (memory,)))
        driver.synchronize_gpu(1)
        assert not launched
        assert isinstance(memory.error.cause, DeviceLostError)


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("call", ["run", "give", "record", "launch_fills"])
def test_an_interrupt_while_work_is_given_leaves_no_memory_behind(call: str, late: bool) -> None:
    struck = 0
    with cuda(gpus=2, partitions=2, inline_bytes=0, check=True) as (runtime, driver):
        driver.run = driver.give = lambda _, work, *args: work(*args)  # at once, as CuPy's
        driver._progress = 0 if late else 1
        kept = gs.device_put(VALUE, named("x"))
        for at in range(6):
            x = gs.device_put(VALUE, named("x")).block_until_ready()
            left, method = [None] * at, getattr(driver, call)

            def strike(*arguments: Any, left: Any = left, method: Any = method) -> None:
                if not left:
                    raise KeyboardInterrupt
                left.pop()
                method(*arguments)

            gc.collect()
            gc.disable()  # nothing but references gives memory back
            setattr(driver, call, strike)
            try:
                x[...] = 0
                x[...] = gs.reshard(deferred(kept, lambda v: v + 1), named(None, "x"))
            except KeyboardInterrupt:
                struck += 1
            finally:
                setattr(driver, call, method)
            x.delete()
            claimed = runtime.claimed_bytes()
            gc.enable()
            assert claimed == VALUE.nbytes
            assert np.array_equal(np.asarray(kept + kept), VALUE * 2)
        runtime.empty_cache()
        assert isinstance(runtime.backend, Checker)
        assert not runtime.backend.races, runtime.backend.races
    assert struck


def test_what_the_user_was_handling_keeps_its_traceback_when_a_gpu_is_lost() -> None:
    with cuda() as (runtime, driver):
        x = gs.device_put(VALUE, named("x")).block_until_ready()
        driver.broken = STICKY
        with pytest.raises(DeviceLostError):
            gs.device_put(VALUE).block_until_ready()
        try:
            raise OSError("the user's")
        except OSError as handled:
            memory, stream = x._live().claims[0].memory, gs.devices()[0].stream
            runtime.backend.enqueue(Item("work", lambda: None, stream, 1, (), (), (memory,)))
            assert isinstance(memory.error.cause, DeviceLostError)
            assert handled.__traceback__ is not None


def test_a_forked_child_is_told() -> None:
    with cuda() as (runtime, _):
        x = gs.device_put(VALUE, named("x"))
        runtime.backend._health.process = os.getpid() - 1  # as in a child
        try:
            for call in (lambda: np.asarray(x), lambda: gs.device_put(VALUE), lambda: x[1:]):
                with pytest.raises(DeviceLostError, match="spawn"):
                    np.asarray(call())
        finally:
            runtime.backend._health.process = os.getpid()


def test_values_are_fetched_ahead() -> None:
    fetched = threading.Event()
    with cuda() as (runtime, driver):
        x = gs.device_put(VALUE, named("x"))
        x.copy_to_host_async()
        read = x._data.host
        with read._lock:
            pass
        runtime.backend.prefetch(_Note(fetched).note)
        assert not fetched.wait(0)  # its owner is gone
        kept = _Note(fetched)
        runtime.backend.prefetch(kept.note)
        assert fetched.wait(60)
        assert read._array is not None, "nobody has fetched the value"
        driver.calls.clear()
        assert np.array_equal(np.asarray(x), VALUE)
        assert not driver.calls


class _Note:
    def __init__(self, event: threading.Event) -> None:
        self.event = event

    def note(self) -> None:
        self.event.set()


def test_closing_gives_all_memory_back() -> None:
    with cuda(gpus=2, partitions=2) as (_, driver):
        x = gs.device_put(VALUE, named("x"))
        gs.reshard(x, named(None, "x")).block_until_ready()
        assert sum(driver.used) > 0
        del x
    gc.collect()
    assert driver.used == [0, 0] and not driver._memory


def test_an_interrupt_comes_after_the_copy_that_it_cut_short() -> None:
    with cuda(partitions=1) as (_, driver):
        synchronize = driver.synchronize

        def strike(event: Any) -> None:
            driver.synchronize = synchronize
            raise KeyboardInterrupt

        driver.synchronize = strike
        with pytest.raises(KeyboardInterrupt):
            gs.device_put(VALUE)
        assert not any(stream.queue for stream in driver._streams)


def test_closing_waits_for_what_was_launched() -> None:
    with cuda(gpus=2, partitions=2) as (runtime, driver):
        x = gs.device_put(VALUE, named("x")).block_until_ready()
        y = gs.reshard(x, named(None, "x"))
        assert not y.is_ready()
        free_host, pending = driver.free_host, []

        def freed(start: int) -> None:
            pending.append([stream for stream in driver._streams if stream.queue])
            free_host(start)  # which waits itself

        driver.free_host = freed
        runtime.close()
        assert pending == [[], []]
    assert np.array_equal(np.asarray(y), VALUE)


def test_what_is_moved_after_closing_gives_its_tables_back() -> None:
    with cuda(inline_bytes=0) as (runtime, driver):
        x, columns = gs.device_put(VALUE, named("x")).block_until_ready(), named(None, "x")
    y = gs.reshard(x, columns).block_until_ready()
    assert driver.calls["upload"], "there is no table"
    runtime.plans.clear()
    for queue in runtime.backend._queues.values():
        driver.run(queue.handle, lambda: None)  # something behind the launches
    del y
    del x  # which is older than the end, and so gives back what there is
    gc.collect()
    assert driver.used == [0]


def test_arrays_that_outlive_the_runtime_give_their_memory_back() -> None:
    with cuda() as (_, driver):
        x, y = gs.device_put(VALUE, named("x")), gs.device_put(VALUE)
        z = x + 1
    assert driver.used[0] > 0
    assert np.array_equal(np.asarray(z), VALUE + 1)
    del x, z
    gc.collect()
    assert np.array_equal(np.asarray(y), VALUE)
    del y
    gc.collect()
    assert driver.used == [0]


def test_values_can_be_read_after_closing() -> None:
    with cuda():
        x = gs.device_put(VALUE, named("x"))
    assert np.array_equal(np.asarray(x), VALUE)
    again = gs.device_put(VALUE, x.sharding)
    assert np.array_equal(np.asarray(again), VALUE)


def test_events_are_reused() -> None:
    with cuda() as (_, driver):
        made = driver.event
        count = [0]

        def event(gpu: int) -> Any:
            count[0] += 1
            return made(gpu)

        driver.event = event
        x = gs.device_put(VALUE, named("x"))
        for _ in range(30):
            gs.reshard(x, named(None, "x")).block_until_ready()
        assert count[0] <= 6, count


def test_dense_boxes_go_by_engine_between_gpus_and_kernels_do_the_rest() -> None:
    with cuda(gpus=2, partitions=1, engine_bytes=1024) as (_, driver):
        one, other = gs.devices()
        x = gs.device_put(VALUE, one).block_until_ready()
        driver.calls.clear()
        gs.device_put(x, other).block_until_ready()
        assert (driver.calls.get("copy", 0), driver.calls.get("launch", 0)) == (1, 0)
        y = gs.device_put(VALUE.T.copy(), named("x")).block_until_ready()
        driver.calls.clear()
        gs.reshard(y, named(None, "x")).block_until_ready()  # boxes with strides
        assert (driver.calls.get("copy", 0), driver.calls.get("launch", 0)) == (0, 2)


def test_pools_beside_one_are_those_of_its_gpu() -> None:
    with cuda(gpus=2, partitions=2, separate_domains=True) as (runtime, _):
        pools = [
            {d.domain.pool for d in runtime.devices if d.local_hardware_id == gpu}
            for gpu in range(2)
        ]
        for own, others in itertools.permutations(pools):
            for pool in own:
                first, *found = pools_of_chip(pool, runtime.domains)
                assert first is pool and own - {pool} <= set(found) and not others & set(found)


@pytest.mark.parametrize("peers", [True, False])
def test_what_a_gpu_reaches_is_its_own_its_peers_and_what_is_page_locked(peers: bool) -> None:
    settings = Settings(backend="cuda", slab_bytes=1 << 20)
    with using(Runtime(settings, CudaBackend(settings, FakeDriver(2, peers=peers)))):
        devices = gs.devices()
        reaches = devices[0].runtime.backend.reaches
        own, other = (device.memory_domain for device in devices)
        locked, far = (device.memory("pinned_host").memory_domain for device in devices)
        assert all(reaches(by, of) for by in (own, locked) for of in (own, locked, far))
        # Streams beside a GPU that fill its page-locked memory are of that GPU, too.
        assert reaches(own, other) == reaches(locked, other) == peers


def test_shards_without_elements_lie_on_their_own_gpus() -> None:
    with cuda(gpus=4, partitions=2) as (_, driver):
        mesh = gs.make_mesh((8,), "x")
        x = gs.device_put(VALUE[:8], gs.NamedSharding(mesh, gs.P("x")))
        short = gs.device_put(VALUE[:5], x.sharding)
        made = [short, x[:3], x[:0], x + x[:0, :1].sum(), gs.reshard(x[:0], named(None, "x"))]
        for array in made:
            gpus = [driver.gpu_of(value) for value in array._live().values]
            assert gpus == [0, 0, 1, 1, 2, 2, 3, 3], array.shape


def test_plans_say_what_crosses_by_engine_and_what_by_kernel() -> None:
    with cuda(gpus=2, partitions=1, engine_bytes=1024) as _:
        one, other = gs.devices()
        x = gs.device_put(VALUE, one)
        dense = x.plan(gs.SingleDeviceSharding(other)).explain()
        assert "1 dense boxes of at least 1,024 bytes by copy engines, 0 boxes by kernels" in dense
        rows, columns = gs.device_put(VALUE, named("x")), named(None, "x")
        assert "0 dense boxes of at least 1,024 bytes by copy engines, 2 boxes" in (
            rows.plan(columns).explain()
        )


def test_signal_handlers_that_use_a_gpu_get_a_value_or_a_clear_error() -> None:
    with cuda():
        kept, seen = gs.device_put(VALUE, named("x")), []

        def handler() -> bool:
            try:
                seen.append(np.array_equal(np.asarray(kept), VALUE))
                seen.append(np.array_equal(gs.device_put(VALUE, gs.devices()[0]), VALUE))
            except gs.errors.ReentrantCallError:
                seen.append(None)
            return True

        def work() -> None:
            x = gs.device_put(VALUE + 1, named(None, "x"))
            assert np.array_equal(np.asarray(gs.reshard(x, named("x"))), VALUE + 1)

        work()
        Visitor(handler, 29, anywhere=False).run(work)
        assert True in seen and None in seen and False not in seen


@pytest.mark.parametrize("lost", [True, False])
def test_events_say_what_the_error_of_a_driver_means(lost: bool) -> None:
    failure, other = FakeError(STICKY), DeviceLostError("the GPU is lost")

    class Failing:
        def fail(self, handle: Any) -> bool:
            raise failure

        is_done = synchronize = fail

    driver: Any = Failing()
    event = CudaEvent(driver, 7, 1, deque(), lambda error: other if lost else error)
    if lost:
        assert event.query()
    else:
        with pytest.raises(FakeError):
            event.query()
    with pytest.raises(DeviceLostError if lost else FakeError):
        event.synchronize()


def test_memory_of_the_host_is_not_sent_by_nccl() -> None:
    with cuda(gpus=2, partitions=4, nccl="always") as (runtime, _):
        backend: Any = runtime.backend
        domains = [device.memory_domain for device in runtime.devices[::4]]
        pinned = runtime.devices[0].memory("pinned_host").memory_domain
        backend._communicators.are_ready = lambda: True
        assert backend.sends(*domains)
        assert not backend.sends(domains[0], domains[0])
        for domain in domains:
            assert not backend.sends(domain, pinned) and not backend.sends(pinned, domain)


def test_a_stream_that_has_work_records_an_event_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that memory behind it comes back before all of it is done."""
    with cuda(partitions=1) as (_, driver):
        x = gs.device_put(VALUE, gs.devices()[0])
        now = time.monotonic_ns()
        monkeypatch.setattr(time, "monotonic_ns", lambda: now)
        recorded = []
        for passed in (0, 300_000, 0, 300_000):
            now += passed
            driver.calls.clear()
            x = deferred(x, lambda shard: shard + 1)
            recorded.append(driver.calls.get("record", 0))
        assert recorded[1:] == [1, 0, 1]
