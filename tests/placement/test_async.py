"""Work is given to streams and does not hold the caller up; values arrive when they are there."""

import contextlib
import functools
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

import gpushard as gs
from gpushard._runtime.launch import room_on
from gpushard._runtime.runtime import Runtime
from gpushard.errors import ExecutionError
from gpushard.testing import gated, runtime

T = TypeVar("T")

SMALL, LARGE = (8, 8), (384, 512)
"""512 bytes and 1.5 MiB of float64, on either side of what runs inline."""

PATIENCE = 30
"""Seconds after which something is taken to hang; never spent where the code is right."""


@pytest.fixture(params=[1, 8], ids=["one-domain", "eight-domains"])
def rt(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    with runtime(host_domains=request.param, host_workers=4) as made:
        yield made


def named(*entries: Any) -> gs.NamedSharding:
    return gs.NamedSharding(gs.make_mesh((4, 2), ("x", "y")), gs.P(*entries))


def value_of(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).random(shape)


@contextlib.contextmanager
def held(x: gs.Array, error: BaseException | None = None) -> Iterator[gs.Array]:
    """Hold a copy of an array back until the block ends."""
    copy, gate = gated(x, error=error)
    try:
        yield copy
    finally:
        gate.open()


class Started:
    """Work on a thread of its own; one that hangs is left behind."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.future: Future[Any] = Future()
        self._work = work
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self.future.set_result(self._work())
        except BaseException as error:  # whoever asks for the result gets it
            self.future.set_exception(error)

    def result(self) -> Any:
        return self.future.result(PATIENCE)


def finishes(work: Callable[[], T]) -> T:
    """Return what `work` returns, or fail if it hangs."""
    result: T = Started(work).result()
    return result


WORK: dict[str, tuple[Callable[[gs.Array], gs.Array], Callable[[np.ndarray], np.ndarray]]] = {
    "reshard": (lambda x: gs.reshard(x, named("y", "x")), lambda v: v),
    "device_put": (lambda x: gs.device_put(x, gs.devices()[3]), lambda v: v),
    "to_device": (lambda x: x.to_device(named()), lambda v: v),
    "donation": (lambda x: gs.device_put(x[...], named("y"), donate=True), lambda v: v),
    "index": (lambda x: x[1], lambda v: v[1]),
    "slice": (lambda x: x[1:, ::-2], lambda v: v[1:, ::-2]),
    "alias": (lambda x: x[...], lambda v: v),
    "iteration": (lambda x: list(x)[-1], lambda v: v[-1]),
    "transpose": (lambda x: x.T, lambda v: v.T),
    "shard": (
        lambda x: x.addressable_shards[1].data,
        lambda v: v[: len(v) // 4, v.shape[1] // 2 :],
    ),
    "chain": (lambda x: gs.reshard(gs.reshard(x, named())[::2], named("x")), lambda v: v[::2]),
}


@pytest.mark.parametrize("shape", [SMALL, LARGE])
@pytest.mark.parametrize(("work", "expected"), WORK.values(), ids=WORK)
@pytest.mark.usefixtures("rt")
def test_work_on_pending_values_is_submitted_at_once(shape: Any, work: Any, expected: Any) -> None:
    value = value_of(shape)
    with held(gs.device_put(value, named("x", "y"))) as x:
        y = finishes(lambda: work(x))
        assert not x.is_ready()
        assert not y.is_ready()
        finishes(y.copy_to_host_async)
        assert not y.is_ready()
    assert np.array_equal(y, expected(value))
    assert y.is_ready()
    assert np.array_equal(x, value)


@pytest.mark.parametrize("shape", [SMALL, LARGE])
@pytest.mark.parametrize("start_early", [False, True])
@pytest.mark.usefixtures("rt")
def test_reads_wait_for_their_value(shape: Any, start_early: bool) -> None:
    value = value_of(shape)
    for read in (np.asarray, gs.device_get, lambda a: a.block_until_ready()):
        with held(gs.device_put(value, named("x"))) as x:
            if start_early:
                x.copy_to_host_async()
            reader = Started(functools.partial(read, x))
            assert not x.is_ready()
            assert not reader.future.done()
        assert np.array_equal(reader.result(), value)


@pytest.mark.usefixtures("rt")
def test_nothing_that_describes_a_pending_array_waits() -> None:
    with held(gs.device_put(value_of(SMALL), named("x", "y"))) as x:

        def describe() -> Any:
            shards = [(s.device, s.index, s.replica_id) for s in x.addressable_shards]
            return x.shape, x.aval, x.device, x.devices(), shards, x.plan(named()).explain()

        assert finishes(describe)[0] == SMALL
        assert finishes(lambda: len(gs.live_arrays())) > 0
        assert finishes(lambda: gs.devices()[0].memory_stats())["bytes_in_use"] > 0


@pytest.mark.parametrize("shape", [SMALL, LARGE])
@pytest.mark.usefixtures("rt")
def test_host_data_goes_to_devices_that_are_busy(shape: Any) -> None:
    value = value_of(shape)
    with held(gs.device_put(value, named())) as x:
        pending = gs.reshard(x, named("x"))
        fresh = finishes(lambda: gs.device_put(value + 1, named("x")))
        assert finishes(lambda: np.array_equal(fresh, value + 1))
        assert not pending.is_ready()


@pytest.mark.usefixtures("rt")
def test_memory_of_pending_work_is_not_used_before_it_is_over() -> None:
    value = value_of(LARGE)
    with held(gs.device_put(value, named("x", "y"))) as x:
        y = gs.reshard(x, named("y", "x"))
        x.delete()
        fresh = [gs.device_put(np.full(LARGE, i), named("x", "y")) for i in range(3)]
    assert np.array_equal(y, value)
    for i, array in enumerate(fresh):
        assert np.array_equal(array, np.full(LARGE, i))


# Old results and newer work


def test_ten_thousand_old_results_are_read_while_newer_work_is_held() -> None:
    with runtime(small_bytes=0, inline_bytes=0, host_workers=4):
        x = gs.device_put(np.arange(2500).reshape(50, 50), named("x", "y"))
        # Items of the same copy stream that the newer work will wait in, each with its own tick.
        old = [x[i, j] for i in range(50) for j in range(50)]
        old[-1].block_until_ready()
        with held(x) as newer:
            waiting = gs.reshard(newer, named("y", "x"))
            waiting.copy_to_host_async()

            def read() -> list[Any]:
                return [
                    (a.block_until_ready() is a, int(a), a.item(), int(np.array(a))) for a in old
                ]

            values = finishes(read)
            assert not waiting.is_ready()
        assert values == [(True, i, i, i) for i in range(2500)]
        assert np.array_equal(waiting, x)


@pytest.mark.parametrize("prefetch", [False, True])
def test_ten_thousand_reads_of_large_old_results(rt: Runtime, prefetch: bool) -> None:
    value = value_of(LARGE)
    x = gs.device_put(value, named("x", "y"))
    old = [gs.reshard(x, named("y", "x")) for _ in range(20)]
    assert all(not a.sharding.is_fully_replicated for a in old)
    old[-1].block_until_ready()
    with held(x) as newer:
        waiting = gs.reshard(newer, named("y", "x"))
        waiting.copy_to_host_async()

        def read() -> int:
            reads = 0
            for array in old:
                if prefetch:
                    array.copy_to_host_async()
                array.block_until_ready()
                assert np.array_equal(array, value)
                for k in range(249):
                    shard = array.addressable_data(k % 8)
                    assert array.is_ready()
                    assert float(array[k, k]) == value[k, k]
                    assert np.asarray(shard).shape == (192, 128)
                reads += 500
            return reads

        assert finishes(read) == 10_000
        assert not waiting.is_ready()
    assert np.array_equal(waiting, value)


# Several devices at once


def test_items_of_two_devices_that_wait_for_each_other_both_run(rt: Runtime) -> None:
    meeting = threading.Barrier(2, timeout=PATIENCE)
    passed: list[int] = []

    def submit(device: gs.Device, number: int) -> Any:
        def meet() -> None:
            meeting.wait()
            passed.append(number)

        claim = rt.claim(room_on(device, (64,), stream=device.stream))
        rt.submit(device.stream, f"meeting {number}", meet, [], [claim.memory])
        return claim

    first, second = gs.devices()[:2]
    claims = rt.commit(lambda: [submit(first, 1), submit(second, 2)])
    first.synchronize()
    second.synchronize()
    assert sorted(passed) == [1, 2]
    assert [claim.memory.error for claim in claims] == [None, None]
    assert not any(claim.memory.pending() for claim in claims)


def test_held_work_of_one_device_does_not_stop_another(rt: Runtime) -> None:
    first, second = gs.devices()[0], gs.devices()[-1]
    value = value_of(SMALL)
    with held(gs.device_put(value, first)) as x:
        other, gate = gated(gs.device_put(value, second))
        gate.open()
        assert finishes(lambda: np.array_equal(other, value))
        assert not x.is_ready()


def test_threads_may_read_one_pending_array(rt: Runtime) -> None:
    value, threads = value_of(SMALL), 8
    for start_early in (False, True):
        with held(gs.device_put(value, named("x"))) as x:
            if start_early:
                x.copy_to_host_async()
            readers = [Started(functools.partial(np.asarray, x)) for _ in range(threads)]
        for reader in readers:
            assert np.array_equal(reader.result(), value)


# Failures


READS: dict[str, Callable[[gs.Array], Any]] = {
    "asarray": np.asarray,
    "block_until_ready": lambda x: x.block_until_ready(),
    "tree": lambda x: gs.block_until_ready({"a": 1, "b": [x]}),
    "device_get": lambda x: gs.device_get([x]),
    "tolist": lambda x: x.tolist(),
    "item": lambda x: x.item(0),
    "tobytes": lambda x: x.tobytes(),
    "bool": lambda x: bool(x[0, 0]),
    "float": lambda x: float(x[0, 0]),
    "str": str,
    "repr": repr,
    "format": format,
    "pickle": pickle.dumps,
    "copy_to_host_async": lambda x: (x.copy_to_host_async(), np.asarray(x)),
    "shard": lambda x: np.asarray(x.addressable_shards[5].data),
    "slice": lambda x: np.asarray(x[2:]),
    "alias": lambda x: np.asarray(gs.device_put(x, x.sharding)),
    "reshard": lambda x: np.asarray(gs.reshard(x, named("y"))),
    "two reshards": lambda x: np.asarray(gs.reshard(gs.reshard(x, named()), named("y"))),
}


@pytest.mark.parametrize("shape", [SMALL, LARGE])
@pytest.mark.parametrize("early", [False, True], ids=["after the failure", "before"])
@pytest.mark.usefixtures("rt")
def test_every_read_of_a_failed_value_raises_afresh(shape: Any, early: bool) -> None:
    cause = ValueError("the disk is full")
    source = gs.device_put(value_of(shape), named("x", "y"))
    x, gate = gated(source, error=cause)
    if early:
        moved = gs.reshard(x, named("y", "x"))
        gate.open()
    else:
        gate.open()
        moved = gs.reshard(x, named("y", "x"))
    raised = []
    for name, read in READS.items():
        for target in (x, x, moved):
            with pytest.raises(ExecutionError) as caught:
                read(target)
                pytest.fail(f"{name} did not raise")
            raised.append(caught.value)
    assert len(set(map(id, raised))) == 3 * len(READS)
    for error in raised:
        assert isinstance(error, RuntimeError)
        assert error.__cause__ is cause
        assert error.operation == "deferred work"
        assert "deferred work failed: ValueError: the disk is full" in str(error)
    assert cause.__traceback__ is None
    for array in (x, moved):
        for shard in array.addressable_shards:
            with pytest.raises(ExecutionError):
                shard.data.block_until_ready()
        assert array.is_ready()
    assert np.array_equal(source, value_of(shape))


@pytest.mark.usefixtures("rt")
def test_a_failure_leaves_everything_else_alone(tmp_path: Path) -> None:
    value = value_of(LARGE)
    before = [device.memory_stats()["bytes_in_use"] for device in gs.devices()]
    source = gs.device_put(value, named("x", "y"))
    with held(source, error=KeyError("gone")) as x:
        doomed = gs.reshard(x, named("y"))
        sound = gs.reshard(source, named("y"))
    with pytest.raises(ExecutionError):
        doomed.block_until_ready()
    assert np.array_equal(sound, value)
    assert np.array_equal(gs.reshard(source, named("y", "x")), value)
    with pytest.raises(ExecutionError):
        gs.save(tmp_path / "x.npy", doomed)
    assert list(tmp_path.iterdir()) == []
    for array in (x, doomed, sound, source):
        array.delete()
        assert array.is_deleted()
    assert [device.memory_stats()["bytes_in_use"] for device in gs.devices()] == before


@pytest.mark.usefixtures("rt")
def test_one_failed_part_fails_the_whole_it_was_joined_to() -> None:
    sharding = named("x")
    parts = [shard.data for shard in gs.device_put(value_of(SMALL), sharding).addressable_shards]
    with held(parts[3], error=KeyError("gone")) as lost:
        joined = gs.make_array_from_single_device_arrays(
            SMALL, sharding, [*parts[:3], lost, *parts[4:]]
        )
        assert not joined.is_ready()
    with pytest.raises(ExecutionError, match="gone"):
        np.asarray(lost)
    with pytest.raises(ExecutionError, match="gone"):
        joined.block_until_ready()
    assert joined.is_ready()
    assert np.array_equal(joined.addressable_data(0), value_of(SMALL)[:2])
