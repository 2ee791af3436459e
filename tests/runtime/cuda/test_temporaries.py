"""Memory that a library allocates for itself while it launches an item's work."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._runtime.checking.checker import Checker
from gpushard._runtime.cuda.backend import CudaBackend
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings
from gpushard.errors import OutOfMemoryError
from gpushard.testing import deferred
from gpushard.testing.runtime import using
from tests.runtime.cuda.fake_driver import FakeDriver, FakeEvent, FakeStream, array_at


class Prompt(FakeDriver):
    """Runs work as it is given, as a library does that decides on the host what it allocates."""

    stream: FakeStream
    allocate: Callable[[int], tuple[int, Any]]

    @contextlib.contextmanager
    def scope(
        self, stream: FakeStream, allocate: Callable[[int], tuple[int, Any]]
    ) -> Iterator[None]:
        self.allocate = allocate
        with super().scope(stream, allocate):
            yield

    def run(self, stream: FakeStream, work: Callable[..., None], *args: Any) -> None:
        if stream.allocate is None:
            super().run(stream, work, *args)
            return
        event = self.event(stream.gpu)
        self.record(event, stream)
        self.synchronize(event)
        self._scopes += 1
        self.stream = stream
        try:
            work(*args)
        finally:
            self._scopes -= 1

    def wait(self, stream: FakeStream, event: FakeEvent) -> None:
        super().wait(stream, event)
        if self._scopes:  # what comes next is done at once
            self.synchronize(event)


@contextlib.contextmanager
def prompt(
    checked: bool = True, seed: int = 0, **settings: Any
) -> Iterator[tuple[Runtime, Prompt]]:
    driver = Prompt(1, seed=seed)
    chosen = Settings(backend="cuda", **{"partitions": 2, "slab_bytes": 1 << 20, **settings})
    backend = CudaBackend(chosen, driver)
    runtime = Runtime(chosen, Checker(backend) if checked else backend)
    with using(runtime):
        yield runtime, driver


def needing(driver: Prompt, *sizes: int, kept: list[Any] | None = None) -> Any:
    """A function of an item that needs so many bytes, one after the other."""

    def work(x: Any) -> Any:
        for nbytes in sizes:
            start, owner = driver.stream.allocate(nbytes)
            array_at(start, (nbytes,), np.uint8)[:] = 0xEE
            if kept is not None:
                kept.append((start, owner))
            del owner
        return x + 1

    return work


def test_it_is_taken_from_the_partitions_quota_and_given_back() -> None:
    with prompt(memory_limit=1 << 20) as (_, driver):
        one, other = gs.devices()
        kept: list[Any] = []
        x = gs.device_put(np.zeros(8), one)
        y = deferred(x, needing(driver, 300_000, kept=kept)).block_until_ready()
        assert one.memory_stats()["bytes_in_use"] == 300_000 + 128
        assert other.memory_stats()["bytes_in_use"] == 0
        kept.clear()
        assert one.memory_stats()["bytes_in_use"] == 128
        assert one.memory_stats()["peak_bytes_in_use"] == 300_000 + 128
        assert np.array_equal(y, np.ones(8))


def test_what_was_dropped_serves_the_next_call() -> None:
    with prompt() as (_, driver):
        kept: list[Any] = []
        x = gs.device_put(np.zeros(8), gs.devices()[0])
        deferred(x, needing(driver, *[9000] * 20)).block_until_ready()
        assert gs.devices()[0].memory_stats()["pool_bytes"] < 3 * 9000
        deferred(x, needing(driver, *[9000] * 3, kept=kept)).block_until_ready()
        assert len({start for start, _ in kept}) == 3


def test_an_item_that_finds_no_room_fails_alone() -> None:
    with prompt(memory_limit=1 << 20) as (_, driver):
        x = gs.device_put(np.zeros(8), gs.devices()[0])
        bad = deferred(x, needing(driver, 600_000, 2 << 20))
        with pytest.raises(
            gs.errors.ExecutionError, match=r"no room for 2,097,152 bytes"
        ) as caught:
            bad.block_until_ready()
        assert isinstance(caught.value.__cause__, OutOfMemoryError)
        good = deferred(x, needing(driver, 1 << 19, 1 << 18)).block_until_ready()
        assert np.array_equal(good, np.ones(8))


def test_all_sizes_fit_into_a_quota_one_after_the_other() -> None:
    with prompt(memory_limit=1 << 20) as (_, driver):
        x = gs.device_put(np.zeros(8), gs.devices()[0])
        sizes = [300_000, 500_000, 700_000, 900_000, 800_000, 1_000_000]
        assert np.array_equal(deferred(x, needing(driver, *sizes)), np.ones(8))


def test_memory_of_other_streams_is_waited_for() -> None:
    """The checker stops an item that overwrites what another stream may still read."""
    with prompt(memory_limit=(1 << 18) + (1 << 12)) as (runtime, driver):
        one, other = gs.devices()
        for turn in range(6):
            x = gs.device_put(np.arange(1 << 14) + turn, one)
            y = gs.reshard(x, gs.SingleDeviceSharding(other))
            x.delete()
            z = deferred(y, needing(driver, 1 << 17))
            w = deferred(gs.device_put(np.zeros(8), one), needing(driver, 1 << 17))
            assert np.array_equal(z, np.arange(1 << 14) + turn + 1)
            assert np.array_equal(w, np.ones(8))
            del x, y, z, w
        assert isinstance(runtime.backend, Checker)
        assert not runtime.backend.races and runtime.backend.checks


@pytest.mark.parametrize("seed", range(8))
def test_memory_that_another_stream_still_reads_is_not_written(seed: int) -> None:
    nbytes = 1 << 17
    with prompt(False, seed, memory_limit=nbytes + 4096) as (_, driver):
        driver._progress = 0
        one, other = gs.devices()
        value = np.arange(nbytes // 8)
        x, kept = gs.device_put(value, one), gs.device_put(value, other)  # which is all there is
        zeros = gs.device_put(np.zeros(8), one).block_until_ready()
        y = gs.device_put(x, x.sharding.with_memory_kind("pinned_host"))
        x.delete()
        z = deferred(zeros, needing(driver, nbytes))
        assert np.array_equal(y, value)
        assert np.array_equal(z, np.ones(8)) and np.array_equal(kept, value)


@pytest.mark.parametrize("nbytes", [9000, 2 << 20])
def test_memory_of_an_item_is_claimed_until_the_library_lets_it_go(nbytes: int) -> None:
    with prompt() as (runtime, driver):
        kept: list[Any] = []
        x = gs.device_put(np.zeros(8), gs.devices()[0])
        y = deferred(x, needing(driver, nbytes, kept=kept)).block_until_ready()
        before = runtime.claimed_bytes()
        kept.clear()
        assert runtime.claimed_bytes() == before - nbytes
        assert np.array_equal(y, np.ones(8))


def test_memory_of_a_callers_work_serves_it_again_until_the_next_item() -> None:
    with prompt() as (runtime, driver):
        stream, allocated = gs.devices()[0].stream, []
        x = gs.device_put(np.zeros(8), gs.devices()[0]).block_until_ready()
        nothing = runtime.claimed_bytes()
        with runtime.backend.on_stream(stream, stream.issued):
            allocate = driver.allocate
            for _ in range(3):
                start, owner = allocate(9000)
                assert runtime.claimed_bytes() == nothing + 9000
                allocated.append(start)
                del owner
                assert runtime.claimed_bytes() == nothing + 9000  # as work may still use it
            assert len(set(allocated)) == 1
        y = deferred(x, lambda v: v + 1).block_until_ready()
        assert runtime.claimed_bytes() == nothing + y.nbytes


def test_memory_that_outlives_its_item_is_given_back_after_all_that_may_use_it() -> None:
    with prompt() as (runtime, driver):
        one = gs.devices()[0]
        kept: list[Any] = []
        x = deferred(gs.device_put(np.zeros(8), one), needing(driver, 9000, kept=kept))
        for _ in range(3):
            x = x + 1
        issued = one.stream.issued
        memory = kept[0][1].claim.memory
        kept.clear()
        runtime.run_locked(lambda: None)
        assert memory.written == (one.stream, issued)
        assert np.array_equal(x, np.full(8, 4.0))
