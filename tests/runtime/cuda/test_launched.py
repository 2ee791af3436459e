"""Elementwise operations on GPUs: one launch for all partitions, and one each where they wait."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._array.array import ConcreteArray
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.reshard import plan_for
from gpushard._ops.programs.launched import Launched
from gpushard._runtime.backend import Reducing
from gpushard._runtime.checking.checker import Checker
from gpushard._runtime.cuda import backend
from gpushard._runtime.cuda.backend import CudaBackend
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings
from gpushard.errors import ExecutionError, OutOfMemoryError
from gpushard.testing import deferred
from gpushard.testing.runtime import using
from tests.runtime.cuda.fake_driver import FakeDriver

VALUE = np.arange(24.0 * 6).reshape(24, 6)
KINDS = ("device", "pinned_host", "unpinned_host")


@contextlib.contextmanager
def cuda(
    gpus: int = 1, partitions: int = 8, *, checked: bool = False, seed: int = 0, **settings: Any
) -> Iterator[tuple[Runtime, FakeDriver]]:
    """A runtime whose streams run nothing before somebody waits."""
    driver = FakeDriver(gpus, seed=seed)
    driver._progress = 0
    chosen = Settings(backend="cuda", partitions=partitions, slab_bytes=1 << 20, **settings)
    plain = CudaBackend(chosen, driver)
    made = Runtime(chosen, Checker(plain) if checked else plain)
    with using(made):
        yield made, driver


def split(value: Any = VALUE, *spec: Any) -> gs.Array:
    mesh = gs.make_mesh((len(gs.devices()),), "x")
    return gs.device_put(value, gs.NamedSharding(mesh, gs.P(*spec or ("x",)))).block_until_ready()


def launches(driver: FakeDriver, result: gs.Array) -> int:
    """Launches until a result is there, of which nothing had run."""
    result.block_until_ready()
    return driver.calls.pop("launch", 0)


def apart(x: gs.Array) -> gs.Array:
    """The same values, which each device's own stream still has to compute."""
    return deferred(x, lambda shard: shard + 0)


def test_all_partitions_of_a_gpu_share_a_launch_and_wait_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backend, "_HEAD_NS", 1 << 62)  # no events for the time that passes
    with cuda() as (_, driver):
        x = split()
        driver.calls.clear()
        y = x + x
        for _ in range(5):
            y = y * 2 + x
        assert "wait" not in driver.calls
        assert launches(driver, y) == 11
        assert driver.calls["record"] == 1  # for the host, which waits
        assert np.array_equal(np.asarray(y), (2 * VALUE) * 32 + VALUE * 31)


def test_each_gpu_has_a_launch_of_its_own() -> None:
    with cuda(gpus=3, partitions=2) as (_, driver):
        x = split()
        driver.calls.clear()
        assert launches(driver, x - 1) == 3


def test_partitions_whose_operands_wait_for_different_streams_launch_alone() -> None:
    with cuda() as (_, driver):
        x, y = split(), split()
        late = apart(x)
        driver.calls.clear()
        z = late + y
        assert "wait" not in driver.calls  # each is behind its own operand
        w = z + z
        assert "wait" not in driver.calls
        assert launches(driver, w) == 16
        assert launches(driver, z + z) == 1  # all that they would wait for is over
        assert np.array_equal(np.asarray(w), VALUE * 4)


def test_after_one_other_stream_partitions_share_a_launch() -> None:
    with cuda() as (_, driver):
        x = split()
        beside = gs.device_put(x, x.sharding.with_memory_kind("pinned_host")).block_until_ready()
        fed = gs.device_put(beside, x.sharding)  # by the stream of the GPU for what the host gives
        driver.calls.clear()
        y = fed + x
        assert driver.calls["wait"] == 1
        assert np.array_equal(np.asarray(y), VALUE * 2)


def test_what_moves_within_a_gpu_is_in_turn_with_what_is_launched_for_its_partitions() -> None:
    with cuda(checked=True) as (runtime, driver):
        x = split()
        driver.calls.clear()
        whole = gs.reshard(x + x, split(VALUE, None).sharding)
        y = x[::-1] + gs.reshard(whole, x.sharding)
        assert "wait" not in driver.calls and "query" not in driver.calls
        assert np.array_equal(np.asarray(y), VALUE[::-1] + VALUE * 2)
        assert not runtime.backend.races  # type: ignore[attr-defined]


def test_what_devices_do_next_on_their_own_waits_for_the_shared_launch() -> None:
    for seed in range(20):
        with cuda(checked=True, seed=seed) as (runtime, _):
            x = split()
            y = apart(x + 1)
            z = y * apart(x) + (x - 1)
            x.delete()
            w = gs.reshard(z, split(VALUE, None).sharding) - y
            assert np.array_equal(np.asarray(w), (VALUE + 1) * VALUE + VALUE - 1 - (VALUE + 1))
            assert not runtime.backend.races  # type: ignore[attr-defined]


def test_parts_of_a_gpu_that_are_divided_have_launches_of_their_own() -> None:
    with cuda(partitions=4, partition_mode="green") as (_, driver):
        x = split()
        driver.calls.clear()
        assert launches(driver, x + x) == 4


@pytest.mark.parametrize("limit", [None, 1 << 16])
@pytest.mark.parametrize("make", [lambda x: x + x, lambda x: x[:, 1:5]], ids=["sum", "part"])
def test_every_device_pays_for_its_shard_until_that_is_gone(make: Any, limit: int | None) -> None:
    with cuda(memory_limit=limit) as (runtime, _):
        x = split()
        before = [d.memory_stats()["bytes_in_use"] for d in runtime.devices]
        y = make(x)
        during = [d.memory_stats()["bytes_in_use"] for d in runtime.devices]
        value = make(VALUE)
        assert [b - a for a, b in zip(before, during, strict=True)] == [value.nbytes // 8] * 8
        memories = {shard.claims[0].memory for shard in map(buffer_of, y.addressable_shards)}
        assert len(memories) == (1 if limit is None else 8)
        kept = y.addressable_data(3)
        del y, memories
        assert np.array_equal(np.asarray(kept), value[9:12])
        del kept
        assert [d.memory_stats()["bytes_in_use"] for d in runtime.devices] == before


def buffer_of(shard: gs.Shard) -> ShardedBuffer:
    data = shard.data
    assert isinstance(data, ConcreteArray)
    return data._live()


def test_a_full_quota_refuses_and_changes_nothing() -> None:
    with cuda(partitions=2, memory_limit=VALUE.nbytes) as (runtime, _):
        x = split()
        y = x + x
        before = [d.memory_stats()["bytes_in_use"] for d in runtime.devices]
        with pytest.raises(OutOfMemoryError):
            x + y
        assert [d.memory_stats()["bytes_in_use"] for d in runtime.devices] == before
        del y
        assert np.array_equal(np.asarray(x - x), VALUE * 0)


def test_a_failed_operand_fails_what_is_launched_with_it() -> None:
    def broken(shard: Any) -> Any:
        raise ValueError("no")

    with cuda():
        x = split()
        with pytest.raises(ExecutionError, match="no"):
            np.asarray(deferred(x, broken) + x)
        assert np.array_equal(np.asarray(x + x), VALUE * 2)


def test_shards_in_one_memory_are_assigned_to_one_by_one() -> None:
    with cuda():
        x = split() + 1
        y = x + 0
        x[5] = 7.0
        expected = VALUE + 1
        expected[5] = 7
        assert np.array_equal(np.asarray(x), expected)
        assert np.array_equal(np.asarray(y), VALUE + 1)


def test_numbers_types_and_several_results() -> None:
    with cuda(partitions=3) as (_, driver):
        values = {t: (VALUE % 11 + 1).astype(t) for t in (np.int32, np.float32, np.complex64)}
        arrays = {t: split(value) for t, value in values.items()}
        x, value = arrays[np.int32], values[np.int32]
        driver.calls.clear()
        quotient, rest = divmod(x, 4)
        assert launches(driver, rest) == 1
        assert np.array_equal(np.asarray(quotient), value // 4)
        assert np.array_equal(np.asarray(rest), value % 4)
        for a, b in itertools.product(arrays, arrays):
            found, wanted = arrays[a] * arrays[b], values[a] * values[b]
            assert found.dtype == wanted.dtype and np.array_equal(np.asarray(found), wanted)
        for number in (2, 2.5, np.float32(3), 1j, True):
            wanted = number * values[np.float32]
            found = number * arrays[np.float32]
            assert np.allclose(np.asarray(found), wanted)
            assert np.array_equal(np.asarray(arrays[np.float32] > 3), values[np.float32] > 3)


def test_shards_of_unequal_sizes() -> None:
    with cuda(partitions=5) as (_, driver):
        value = np.arange(23.0)
        mesh = gs.make_mesh((5,), "x")
        x = gs.device_put(value, gs.NamedSharding(mesh, gs.P("x"))).block_until_ready()
        driver.calls.clear()
        assert launches(driver, y := gs.numpy.sqrt(x)) == 1
        assert np.array_equal(np.asarray(y), np.sqrt(value))


def test_several_results_in_one_memory_keep_it_until_the_last_is_gone() -> None:
    with cuda(partitions=2, checked=True) as (runtime, _):
        x = split()
        before = runtime.devices[0].memory_stats()["bytes_in_use"]
        quotient, rest = divmod(x, 4)
        others = [x + n for n in range(3)]
        assert np.array_equal(np.asarray(quotient), VALUE // 4)
        del quotient
        others += [x - n for n in range(3)]
        assert np.array_equal(np.asarray(rest), VALUE % 4)
        del rest, others
        assert runtime.devices[0].memory_stats()["bytes_in_use"] == before


DOUBLE = np.dtype(np.float64)


@pytest.mark.parametrize(
    ("shape", "axes", "calls", "length"),
    [
        ((3, 32), (-1,), (3, 3), 32),
        ((3, 31), (-1,), (3, 3), None),
        ((3, 1 << 14), (-1,), (3,), 1 << 14),
        ((3, (1 << 14) + 1), (-1,), (3,), None),
        ((5, 4, 8), (-1, -2), (5,), 32),
        ((5, 4, 8), (-2,), (40,), None),
        ((64,), (), (64,), None),
        ((3, 32), (-1,), (3, 2), None),
        ((0, 32), (-1,), (0, 0), None),
    ],
)
def test_rows_of_dims_in_order_are_reduced_if_all_calls_have_as_many(
    shape: Any, axes: Any, calls: Any, length: int | None
) -> None:
    function = Reducing(np.sum, axes, {})
    assert backend._row_length(function, [shape], [DOUBLE], calls) == length
    assert backend._row_length(function, [shape, shape], [DOUBLE], calls) is None
    assert backend._row_length(function, [shape], [DOUBLE, DOUBLE], calls) is None


@pytest.mark.parametrize("gpus", [1, 2])
@pytest.mark.parametrize("kinds", list(itertools.product(KINDS, repeat=2)))
def test_what_moves_goes_by_the_stream_that_is_for_it(gpus: int, kinds: tuple[str, str]) -> None:
    with cuda(gpus, 2) as (runtime, _):
        source, target = (
            gs.NamedSharding(gs.make_mesh((2 * gpus,), "x"), gs.P(*spec), memory_kind=kind)
            for spec, kind in zip((("x",), ()), kinds, strict=True)
        )
        plan = plan_for(gs.device_put(VALUE, source)._live(), target.tiling(VALUE.shape))
        streams = plan.streams
        domains = {of.domain for of in plan.places}
        assert streams.keys() == {domain.index for domain in domains}
        for domain in domains:
            expected = domain.feed if kinds == ("pinned_host", "device") else domain.copy
            if gpus == 1 and kinds == ("device", "device"):
                expected = runtime.devices[0].stream  # in turn with what computes there
            assert streams[domain.index] is expected


def test_graphs_that_nobody_needs_end_where_memory_is_taken_again() -> None:
    with cuda() as (runtime, driver):
        own: Any = runtime.backend
        dropped: list[Any] = []
        driver.drop_graph = dropped.append  # type: ignore[method-assign]
        own.taken(None)
        own._graphs.dead.append("graph")
        own.taken(None)
        assert dropped == ["graph"] and not own._graphs.dead


def test_what_a_loan_may_still_be_used_by_is_launched_and_not_known_to_be_over() -> None:
    with cuda(partitions=2) as (runtime, _):
        own: Any = runtime.backend
        assert own._launched() == []
        x = apart(split())
        ticks = own._launched()
        assert ticks and all(tick > stream.done for stream, tick in ticks)
        x.block_until_ready()
        for stream, tick in ticks:
            stream.synchronize(tick)
        assert own._launched() == []


@pytest.mark.parametrize("replays", [True, False])
@pytest.mark.parametrize("takes", [True, False])
def test_launches_are_replayed_if_all_can_be_and_take_the_numbers(
    replays: bool, takes: bool
) -> None:
    groups = [SimpleNamespace(launch=SimpleNamespace(replays=each)) for each in (True, replays)]
    own: Any = SimpleNamespace(groups=groups, takes=lambda numbers: takes)
    wanted = (own, [(0, 1.5)]) if replays and takes else None
    assert Launched.launches(own, [(0, 1.5)]) == wanted
