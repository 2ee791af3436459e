"""Memory on loan to other libraries, and from them, on a driver that needs no GPU."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._runtime.host.keep_alive import address
from tests.runtime.cuda.fake_driver import FakeDriver, FakeStream, array_at
from tests.runtime.cuda.test_backend import VALUE, cuda, named

ANY, LEGACY, OWN = -1, 1, 0x5EED


def reads(stream: FakeStream, array: Any) -> list[Any]:
    """Let somebody's stream read an array, some time."""
    seen: list[Any] = []
    memory = array_at(address(array), array.shape, array.dtype)  # as work has it: not the array
    stream.queue.append((lambda: True, lambda: seen.append(memory.copy())))
    return seen


@pytest.mark.parametrize("consumer", [LEGACY, OWN])
def test_a_consumer_waits_for_the_content_on_its_stream(consumer: int) -> None:
    with cuda(partitions=1, inline_bytes=0) as (_, driver):
        x = gs.device_put(VALUE, gs.devices()[0])[::2]  # still to be written
        lent = x.__dlpack__(stream=consumer)
        stream = driver.foreign(consumer, 0)
        seen = reads(stream, lent)
        while stream.queue:
            assert driver._step()
        assert np.array_equal(seen[0], VALUE[::2])


def test_no_stream_means_the_legacy_one_and_minus_one_none() -> None:
    with cuda(partitions=1, inline_bytes=0) as (_, driver):
        x = gs.device_put(VALUE, gs.devices()[0])[::2]
        x.__dlpack__(stream=-1)
        assert not driver._foreign
        x.__dlpack__()
        assert list(driver._foreign) == [(LEGACY, 0)]


@pytest.mark.parametrize("consumer", [LEGACY, OWN, ANY])
def test_memory_is_not_reused_before_the_consumer_is_done(consumer: int) -> None:
    nbytes = VALUE.nbytes
    with cuda(partitions=1, memory_limit=nbytes, inline_bytes=0) as (runtime, driver):
        x = gs.device_put(VALUE, gs.devices()[0]).block_until_ready()
        lent = x.__dlpack__(stream=consumer)
        seen = reads(driver.foreign(OWN if consumer == ANY else consumer, 0), lent)
        del x, lent
        gc.collect()
        assert runtime.claimed_bytes() == nbytes and not seen, "the memory was let go too early"
        y = gs.device_put(-VALUE, gs.devices()[0])  # has no room but that
        assert np.array_equal(seen[0], VALUE), "the consumer saw memory that was reused"
        assert np.array_equal(np.asarray(y), -VALUE)


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("reused", [False, True])
def test_what_the_legacy_stream_is_done_with_comes_back_without_waiting(
    reused: bool, check: bool
) -> None:
    """As soon as memory is asked for, be it new or what was used before."""
    with cuda(partitions=1, check=check) as (runtime, driver):
        if reused:
            gs.device_put(np.arange(3.0), gs.devices()[0]).block_until_ready()
        x = gs.device_put(VALUE, gs.devices()[0]).block_until_ready()
        lent = x.__dlpack__(stream=LEGACY)
        seen = reads(driver.foreign(LEGACY, 0), lent)
        del x, lent
        driver.calls.clear()
        for _ in range(2):
            gs.device_put(np.arange(3.0), gs.devices()[0]).block_until_ready()
            while driver.foreign(LEGACY, 0).queue:
                driver._step()
        assert len(seen) == 1 and runtime.claimed_bytes() == 0
        assert "synchronize_gpu" not in driver.calls


@pytest.mark.parametrize("recalled", [False, True])
def test_events_of_loans_are_used_again(recalled: bool) -> None:
    with cuda(partitions=1) as (runtime, driver):
        x = gs.device_put(VALUE, gs.devices()[0]).block_until_ready()
        made = []
        for _ in range(5):
            for _ in range(4):
                x.__dlpack__(stream=LEGACY)
            runtime.backend._loans.collect()
            if recalled:
                runtime.backend.recall()
            else:
                driver.synchronize_gpu(0)
            runtime.backend._loans.collect()
            made.append(driver.calls["event"])
        assert len(set(made)) == 1, made


def test_an_array_interface_keeps_memory_until_the_gpu_was_waited_for() -> None:
    with cuda(partitions=1) as (runtime, driver):
        x = gs.device_put(VALUE, gs.devices()[0]).block_until_ready()
        interface = x.__cuda_array_interface__
        assert interface["data"] == (x.unsafe_buffer_pointer(), False)
        seen = reads(driver.foreign(OWN, 0), x._live().values[0])
        del x
        gc.collect()
        for _ in range(3):
            gs.device_put(np.arange(3.0), gs.devices()[0]).block_until_ready()
        assert runtime.claimed_bytes() >= VALUE.nbytes
        runtime.backend.recall()
        gc.collect()
        assert runtime.claimed_bytes() == 0 and len(seen) == 1


def test_every_shard_can_be_exported() -> None:
    with cuda() as _:
        x = gs.device_put(VALUE, named("x"))
        for n, shard in enumerate(x.addressable_shards):
            lent = shard.data.__dlpack__(stream=LEGACY)
            assert lent.__dlpack_device__() == shard.data.__dlpack_device__() == (2, 0)
            x.block_until_ready()
            assert np.array_equal(np.asarray(lent), VALUE[8 * n : 8 * n + 8])


class Producer:
    """Somebody else's array."""

    def __init__(self, driver: FakeDriver, value: np.ndarray, step: int = 1) -> None:
        array = driver.array(0, driver.malloc(0, value.nbytes), 0, value.shape, value.dtype, self)
        array[...] = value
        self.array = array[::step]
        del array

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("CuPy would ask")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def of_gpu(self) -> Any:
        return self.array


def test_a_copy_for_any_stream_is_there_when_it_is_handed_out() -> None:
    with cuda(partitions=1, inline_bytes=0):
        x = gs.device_put(VALUE, gs.devices()[0])[::2]  # still to be written
        lent = x.__dlpack__(stream=-1, copy=True)
        there = array_at(address(lent), lent.shape, lent.dtype)
        assert np.array_equal(there, VALUE[::2])


def test_borrowed_memory_is_kept_when_nothing_but_launches_names_it() -> None:
    with cuda(partitions=1) as (runtime, driver):
        driver.run = driver.give = lambda _, work, *args: work(*args)  # at once, as CuPy's
        producer = Producer(driver, VALUE)
        watch = weakref.ref(producer.array)
        y = gs.from_dlpack(producer)[::-1]
        producer.array = None
        gc.collect()
        runtime.backend._loans.collect()
        assert watch() is not None, "a producer is let go while our work reads its memory"
        assert np.array_equal(np.asarray(y), VALUE[::-1])
        driver.synchronize_gpu(0)
        runtime.backend._loans.collect()
        gc.collect()
        assert watch() is None, "a producer is kept for good"


@pytest.mark.parametrize("step", [1, 2])
def test_borrowed_memory_is_kept_until_our_work_is_over(step: int) -> None:
    with cuda() as (_, driver):
        producer = Producer(driver, VALUE, step)
        watch = weakref.ref(producer.array)
        x = gs.from_dlpack(producer)
        assert (x.unsafe_buffer_pointer() == producer.array.ctypes.data) == (step == 1)
        y = gs.device_put(x, named("x"))
        producer.array = None
        del x, producer
        gc.collect()
        gs.device_put(VALUE)  # collects what is over: nothing is yet
        assert watch() is not None, "a producer is let go while our work reads its memory"
        assert np.array_equal(np.asarray(y), VALUE[::step])
        del y  # a view of it
        for _ in range(3):
            gs.device_put(VALUE).block_until_ready()
        driver.synchronize_gpu(0)
        gs.device_put(VALUE).block_until_ready()
        gc.collect()
        assert watch() is None, "a producer is kept for good"


def test_map_shards_on_a_gpu() -> None:
    def double(shard: Any, out: Any) -> None:
        out[...] = shard * 2

    with cuda() as _:
        x = gs.device_put(VALUE, named("x"))
        y = gs.map_shards(double, x, out=gs.ShapeDtypeStruct(VALUE.shape, VALUE.dtype))
        assert np.array_equal(np.asarray(gs.reshard(y, named(None, "x"))), VALUE * 2)


@pytest.mark.parametrize("consumer", [LEGACY, OWN])
def test_loans_outlive_a_wait_that_failed(consumer: int) -> None:
    with cuda(partitions=1, inline_bytes=0) as (runtime, driver):
        x = gs.device_put(VALUE, gs.devices()[0]).block_until_ready()
        lent = x.__dlpack__(stream=consumer)
        seen = reads(driver.foreign(consumer, 0), lent)
        del x, lent
        gc.collect()
        loans = runtime.backend._loans
        with pytest.raises(KeyError, match="lost"):
            loans.recall(lambda: {}["lost"])
        gc.collect()
        assert runtime.claimed_bytes() == VALUE.nbytes and not seen
        runtime.backend.recall()
        gc.collect()
        assert runtime.claimed_bytes() == 0 and np.array_equal(seen[0], VALUE)
