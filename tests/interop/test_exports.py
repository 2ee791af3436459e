"""DLPack exports: values, memory, waiting, versions, and what is refused."""

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard._runtime.host import dlpack
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings
from gpushard.errors import (
    ArgumentError,
    ArgumentTypeError,
    DeletedArrayError,
    ExecutionError,
    ExportError,
)
from gpushard.testing import deferred, gated, runtime
from gpushard.testing.programs import check_nothing_left, random_shardings
from gpushard.testing.runtime import using
from gpushard.testing.sim import SimRuntime
from tests.share import examples, seeds

KNOWS_VERSION = pytest.mark.skipif(
    not dlpack._KNOWS_VERSION, reason="NumPy 2.0 has no read-only DLPack and no copy="
)


@pytest.fixture(scope="module")
def backend() -> dict[str, Any]:
    """On the host, as these tests are about memory that NumPy takes."""
    return {"backend": "host"}


@pytest.fixture(autouse=True, scope="module")
def host(backend: dict[str, Any]) -> Iterator[None]:
    """For tests that do not take one of their own."""
    with runtime(**backend):
        yield


def address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


class Old:
    """A producer as a consumer from before DLPack 1.0 sees it: it asks with `stream` alone."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __dlpack__(self, **_: Any) -> Any:
        return self.x.__dlpack__(stream=None)

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self.x.__dlpack_device__()
        return device


@given(data=st.data())
@examples(60)
def test_every_shard_exports_its_own_memory(rt: Runtime, cases: Any, data: st.DataObject) -> None:
    case = data.draw(cases)
    for shard in case.put().addressable_shards:
        assert shard.data is not None
        expected = case.value[shard.index]
        for producer in (shard.data, Old(shard.data)):
            got = np.from_dlpack(producer)
            assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
            assert got.tobytes() == expected.tobytes()
            assert not got.nbytes or address(got) == shard.data.unsafe_buffer_pointer()
        assert shard.data.__dlpack_device__() == (1, 0)


@given(data=st.data())
@examples(30)
def test_several_shards_are_gathered_for_whoever_asks_for_the_cpu(
    rt: Runtime, cases: Any, data: st.DataObject
) -> None:
    case = data.draw(cases)
    x = case.put()
    for copy in (True, None):
        got = np.from_dlpack(dlpack._Capsule(x.__dlpack__(dl_device=(1, 0), copy=copy), (1, 0)))
        assert (got.shape, got.dtype, got.tobytes()) == (
            case.value.shape,
            case.value.dtype,
            case.value.tobytes(),
        )
    if x.sharding.num_devices > 1:
        for refused in ({}, {"copy": True}, {"dl_device": (1, 0), "copy": False}):
            with pytest.raises(ExportError, match="shards"):
                x.__dlpack__(**refused)


@KNOWS_VERSION
def test_consumers_are_told_not_to_write(rt: Runtime) -> None:
    x = gs.device_put(np.arange(5))
    assert not np.from_dlpack(x).flags.writeable
    assert "versioned" in repr(x.__dlpack__(max_version=(1, 3)))
    for older in (None, (0, 8)):
        assert repr(x.__dlpack__(max_version=older)).startswith('<capsule object "dltensor" ')


@KNOWS_VERSION
@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_copy_is_fresh_and_may_be_written(rt: Runtime, version: Any) -> None:
    x = gs.device_put(np.arange(5.0))
    capsule = x.__dlpack__(copy=True, max_version=version)
    got = np.from_dlpack(dlpack._Capsule(capsule, (1, 0)))
    assert address(got) != x.unsafe_buffer_pointer()
    # NumPy writes to nothing older, and before 2.2.6 to nothing at all.
    if version is not None and np.from_dlpack(np.zeros(1)).flags.writeable:
        got[:] = -1
    assert np.array_equal(x, np.arange(5.0))


@KNOWS_VERSION
def test_the_cpu_can_be_asked_for_by_name(rt: Runtime) -> None:
    x = gs.device_put(np.arange(5))
    got = np.from_dlpack(x, device="cpu", copy=False)
    assert address(got) == x.unsafe_buffer_pointer()
    for copy in (None, True, False):
        with pytest.raises(ExportError, match=r"\(2, 1\) \(CUDA\).*x.to_device"):
            x.__dlpack__(dl_device=(2, 1), copy=copy)


@pytest.mark.parametrize("old", [False, True])
def test_memory_is_kept_as_long_as_the_consumer_has_it(rt: Runtime, old: bool) -> None:
    value, nbytes = np.arange(100_000), 800_000
    device = gs.devices()[2]

    def in_use() -> Any:
        return device.memory_stats()["bytes_in_use"]

    before = in_use()
    x = gs.device_put(value, device)
    start = x.unsafe_buffer_pointer()
    got = np.from_dlpack(Old(x) if old else x)
    part = got[10:20]
    x.delete()
    del x, got
    assert in_use() == before + nbytes, "memory was given back that a consumer has"
    for _ in range(5):
        other = gs.device_put(-value, device)
        assert other.unsafe_buffer_pointer() != start, "memory was reused that a consumer has"
        del other
    assert np.array_equal(part, value[10:20])
    del part
    assert in_use() == before, "memory was not given back"


def test_a_capsule_that_nobody_takes_gives_its_memory_back(rt: Runtime) -> None:
    device = gs.devices()[1]
    before = device.memory_stats()["bytes_in_use"]
    x = gs.device_put(np.arange(100_000), device)
    capsules = [x.__dlpack__(), x.__dlpack__(max_version=(1, 0))]
    del x
    assert device.memory_stats()["bytes_in_use"] == before + 800_000
    del capsules
    assert device.memory_stats()["bytes_in_use"] == before


def test_an_export_waits_for_the_value(rt: Runtime) -> None:
    x, gate = gated(gs.device_put(np.arange(8.0), gs.devices()[0]))
    gate.open()
    assert np.array_equal(np.from_dlpack(x), np.arange(8.0))


def test_a_value_that_failed_cannot_be_exported(rt: Runtime) -> None:
    x = gs.device_put(np.arange(8.0))
    failed = deferred(x, lambda v: v, error=ValueError("planned"))
    with pytest.raises(ExecutionError, match="planned"):
        failed.__dlpack__()
    with pytest.raises(ExecutionError, match="planned"):
        failed.__dlpack__(max_version=(1, 0), copy=True)


@pytest.mark.parametrize("seed", seeds(60))
def test_exports_of_pending_work_on_any_schedule(seed: int) -> None:
    made = SimRuntime(Settings(host_devices=4, host_domains=2, small_bytes=0, inline_bytes=0), seed)
    made.sim.failing = 0
    with using(made):
        source, value = made.sim.random, np.arange(24).reshape(6, 4)
        exported: list[tuple[np.ndarray, np.ndarray]] = []
        shardings = random_shardings(made, source, 8)
        for step in range(12):
            x = gs.device_put(value + step, source.choice(shardings))
            y = gs.reshard(deferred(x, lambda v: v * 2), source.choice(shardings))
            shard = source.choice(y.addressable_shards)
            producer = shard.data if source.random() < 0.5 else Old(shard.data)
            exported.append((np.from_dlpack(producer), (value + step)[shard.index] * 2))
            del x, y, shard, producer
            if len(exported) > 3:
                exported.pop(source.randrange(len(exported)))
            for got, expected in exported:
                assert np.array_equal(got, expected), "an export changed or came too early"
        exported.clear()
        del got, expected
        check_nothing_left(made)
        assert not made.checker.races


@pytest.mark.parametrize("seed", seeds(30))
def test_simulated_threads_share_exports(seed: int) -> None:
    made = SimRuntime(Settings(host_devices=4, host_domains=2, small_bytes=0, inline_bytes=0), seed)
    made.sim.failing = 0
    with using(made):
        value, source = np.arange(24).reshape(6, 4), made.sim.random
        shardings = random_shardings(made, source, 8)
        x = deferred(gs.device_put(value, source.choice(shardings)), lambda v: v * 2)
        shared = [x]
        del x

        def work() -> None:
            for number in range(4):
                shard = source.choice(shared[0].addressable_shards)
                got = np.from_dlpack(shard.data)
                again = gs.from_dlpack(got, device=source.choice(gs.devices()))
                moved = deferred(again, lambda v, number=number: v + number)
                if source.random() < 0.5:
                    del got, again
                made.sim.turn()
                assert np.array_equal(moved, value[shard.index] * 2 + number)
                del moved, shard

        made.sim.threads.run([work] * 3)
        shared.clear()
        check_nothing_left(made)
        assert not made.checker.races, made.checker.races


def test_several_shards_are_refused_with_the_fix() -> None:
    with runtime(backend="host", host_devices=4):
        x = gs.device_put(np.arange(8), gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x")))
        for call in (x.__dlpack__, x.__dlpack_device__, lambda: np.from_dlpack(x)):
            with pytest.raises(ExportError, match=r"4 shards in NamedSharding.*addressable_data"):
                call()
        whole = gs.device_put(np.arange(8), gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P()))
        with pytest.raises(BufferError):
            whole.__dlpack__()
        assert np.array_equal(np.from_dlpack(x.to_device(gs.devices()[3])), np.arange(8))


def test_types_that_numpy_does_not_know_are_refused() -> None:
    x = gs.device_put(np.zeros(3, np.longdouble))
    with pytest.raises(ExportError, match="convert it first"):
        x.__dlpack__()


def test_a_deleted_array_does_not_export() -> None:
    x = gs.device_put(np.zeros(3))
    x.delete()
    for call in (x.__dlpack__, x.__dlpack_device__):
        with pytest.raises(DeletedArrayError):
            call()
    assert not hasattr(x, "__cuda_array_interface__")


@pytest.mark.parametrize(
    "options",
    [{"max_version": 1}, {"dl_device": "cpu"}, {"dl_device": (1, None)}, {"copy": 1}],
)
def test_options_of_the_wrong_type(options: dict[str, Any]) -> None:
    x = gs.device_put(np.zeros(3))
    with pytest.raises(ArgumentTypeError, match=next(iter(options))):
        x.__dlpack__(**options)


@pytest.mark.parametrize(
    "options", [{}, {"dl_device": (1, 0)}, {"dl_device": (1, 0), "copy": True}]
)
def test_a_stream_on_the_cpu_is_refused(options: dict[str, Any]) -> None:
    x = gs.device_put(np.zeros(3))
    with pytest.raises(ArgumentError, match=r"stream=1 must be None.*on the CPU"):
        x.__dlpack__(stream=1, **options)


def test_two_shards_are_gathered_for_the_cpu() -> None:
    with runtime(backend="host", host_devices=2):
        x = gs.device_put(np.arange(5), gs.NamedSharding(gs.make_mesh((2,), "x"), gs.P("x")))
        capsule = x.__dlpack__(dl_device=(1, 0))
        assert np.from_dlpack(dlpack._Capsule(capsule, (1, 0))).tolist() == [0, 1, 2, 3, 4]


def test_the_cpu_has_no_cuda_array_interface() -> None:
    x = gs.device_put(np.zeros(3))
    assert not hasattr(x, "__cuda_array_interface__")
    with pytest.raises(AttributeError, match="use DLPack"):
        _ = x.__cuda_array_interface__


def test_an_exported_array_leaves_no_cycle() -> None:
    gc.collect()
    gc.disable()
    try:
        with runtime(backend="host") as rt:
            got = np.from_dlpack(gs.device_put(np.arange(100_000)))
            del got
            assert rt.claimed_bytes() == 0
    finally:
        gc.enable()
