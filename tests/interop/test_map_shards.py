"""`map_shards`: local values, order against other work, memory, and functions that fail."""

import gc
import re
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings
from gpushard.errors import ArgumentTypeError, ExecutionError, OutOfMemoryError, ShardingError
from gpushard.testing import deferred, runtime, simulated
from gpushard.testing.programs import check_nothing_left, random_shardings
from gpushard.testing.runtime import using
from gpushard.testing.sim import SimRuntime
from tests.share import examples, seeds


@pytest.fixture(autouse=True)
def _what_is_there_already_is_not_collected() -> None:
    """Every shortage of memory asks the collector; other tests may have loaded JAX."""
    gc.freeze()


def like(x: Any, dtype: Any = None) -> gs.ShapeDtypeStruct:
    return gs.ShapeDtypeStruct(x.shape, dtype or x.dtype)


def check(got: gs.Array, wanted: np.ndarray) -> None:
    assert np.array_equal(got, wanted)


def copy_into(a: np.ndarray, out: np.ndarray) -> None:
    out[...] = a


@given(data=st.data())
@examples(80)
def test_every_device_computes_its_shard(rt: Runtime, cases: Any, data: st.DataObject) -> None:
    case = data.draw(cases)
    x = case.put()
    seen: list[tuple[Any, ...]] = []

    def f(a: np.ndarray, b: np.ndarray, same: np.ndarray, count: np.ndarray) -> None:
        seen.append((a.shape, b.shape, same.shape, count.shape, a.dtype, count.dtype))
        assert same.flags.c_contiguous
        if rt.backend.host_readable:  # arrays of CuPy are always writable
            assert same.flags.writeable
            assert not a.flags.writeable and not b.flags.writeable
        same[...] = b
        count[...] = a.size

    same, count = gs.map_shards(f, x, x, out=[like(x), like(x, np.int32)])
    assert same.sharding == x.sharding and same.dtype == x.dtype
    assert np.asarray(same).tobytes() == case.value.tobytes()
    shapes = [shard.data.shape for shard in x.addressable_shards]
    assert seen == [(s, s, s, s, x.dtype, np.dtype(np.int32)) for s in shapes]
    for shard in count.addressable_shards:
        assert np.all(np.asarray(shard.data) == shard.data.size)


def test_outputs_have_shapes_and_shardings_of_their_own(rt: Runtime) -> None:
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    value = np.arange(48.0).reshape(8, 6)
    x = gs.device_put(value, gs.NamedSharding(mesh, gs.P("x", "y")))
    whole = gs.NamedSharding(mesh, gs.P())

    def f(a: np.ndarray, turned: np.ndarray, total: np.ndarray) -> None:
        turned[:] = a.T
        total[...] = 7

    out = {
        "turned": gs.ShapeDtypeStruct((6, 8), np.float32),
        "total": gs.ShapeDtypeStruct((), np.float64, whole),
    }
    order = gs.tree.leaves(out)

    def in_order(a: np.ndarray, *outputs: np.ndarray) -> None:
        by_shape = {leaf.shape: target for leaf, target in zip(order, outputs, strict=True)}
        f(a, by_shape[6, 8], by_shape[()])

    result = gs.map_shards(in_order, x, out=out, sharding=gs.NamedSharding(mesh, gs.P("y", "x")))
    assert np.array_equal(result["turned"], value.T)
    assert result["total"].sharding is whole and float(result["total"]) == 7
    assert isinstance(gs.map_shards(copy_into, x, out=(like(x),)), tuple)
    with mesh:
        spread = gs.map_shards(copy_into, x, out=like(x), sharding=gs.P("x", "y"))
    assert np.array_equal(spread, value)


def test_without_inputs_the_sharding_says_where(rt: Runtime) -> None:
    sharding = gs.NamedSharding(gs.make_mesh((8,), "x"), gs.P("x"))
    parts = iter(range(8))

    def f(out: np.ndarray) -> None:
        out[:] = next(parts)

    x = gs.map_shards(f, out=gs.ShapeDtypeStruct((16,), "i4"), sharding=sharding)
    assert np.array_equal(x, np.repeat(np.arange(8), 2))


def test_a_result_follows_where_its_inputs_do(rt: Runtime) -> None:
    free = gs.device_put(np.arange(3))
    held = gs.device_put(np.arange(3), gs.devices()[0])
    assert not gs.map_shards(copy_into, free, out=like(free)).committed
    assert gs.map_shards(copy_into, held, out=like(held)).committed
    named = gs.ShapeDtypeStruct((3,), "i8", free.sharding)
    assert gs.map_shards(copy_into, free, out=named).committed


def test_replicas_have_memory_of_their_own(rt: Runtime) -> None:
    x = gs.device_put(np.arange(8), gs.NamedSharding(gs.make_mesh((8,), "x"), gs.P()))
    y = gs.map_shards(copy_into, x, out=like(x))
    starts = {shard.data.unsafe_buffer_pointer() for shard in y.addressable_shards}
    assert len(starts) == 8 and np.array_equal(y, np.arange(8))


def test_the_function_runs_here_and_may_use_the_library(rt: Runtime) -> None:
    x = gs.device_put(np.arange(16.0), gs.NamedSharding(gs.make_mesh((8,), "x"), gs.P("x")))
    threads = []

    def f(a: np.ndarray, out: np.ndarray) -> None:
        threads.append(threading.get_ident())
        other = gs.reshard(deferred(x, lambda v: v + 1), gs.SingleDeviceSharding(gs.devices()[2]))
        out[:] = a + np.asarray(other).sum()

    y = gs.map_shards(f, x, out=like(x))
    assert np.array_equal(y, np.arange(16.0) + 136)
    assert threads == [threading.get_ident()] * 8


@pytest.mark.parametrize("seed", seeds(100))
def test_it_is_ordered_with_everything_else_on_any_schedule(seed: int) -> None:
    chosen = Settings(
        host_devices=4,
        host_domains=2,
        small_bytes=0,
        inline_bytes=0,
        memory_limit=(None, 800, 1_200, 1_600)[seed % 4],
    )
    made = SimRuntime(chosen, seed)
    with using(made):
        source, value = made.sim.random, np.arange(24).reshape(6, 4)
        drawn = random_shardings(made, source, 8)
        shardings = [sharding.with_memory_kind("device") for sharding in drawn]
        kept: list[tuple[gs.Array, np.ndarray]] = []

        def f(a: np.ndarray, b: np.ndarray, out: np.ndarray, again: np.ndarray) -> None:
            made.sim.turn()  # between any two lines of it anything may happen
            out[...] = a
            made.sim.turn()
            out[...] += b
            again[...] = out
            made.sim.turn()

        def step(number: int) -> None:
            sharding = source.choice(shardings)
            x = deferred(gs.device_put(value + number, sharding), lambda v: v * 3)
            y = deferred(gs.device_put(value, source.choice(shardings)), np.negative)
            y = gs.reshard(y, sharding)
            later = deferred(x, lambda v: v + 5)  # may read x long after x is gone
            out, again = gs.map_shards(f, x, y, out=[like(x)] * 2)
            x.delete()
            moved = gs.reshard(deferred(out, lambda v: v + 1), source.choice(shardings))
            tripled = (value + number) * 3
            expected = tripled - value
            kept.extend(((out, expected), (again, expected), (moved, expected + 1)))
            kept.append((later, tripled + 5))

        done = 0
        for number in range(8):
            try:
                step(number)
                done += 1
                while len(kept) > 4:
                    check(*kept.pop(source.randrange(len(kept))))
            except OutOfMemoryError:
                kept.clear()
        made.sim.failing = 0  # reads need memory, too
        while kept:
            check(*kept.pop())
        assert done or chosen.memory_limit
        check_nothing_left(made)
        assert not made.checker.races, made.checker.races


@pytest.mark.parametrize("seed", seeds(20))
def test_outputs_wait_for_those_who_still_read_their_memory(seed: int) -> None:
    value = np.arange(40.0)
    with simulated(
        seed, host_devices=1, memory_limit=3 * value.nbytes, small_bytes=0, inline_bytes=0
    ) as made:
        made.sim.failing = 0
        x, y = gs.device_put(value), gs.device_put(-value)
        later = x[::-1]  # in another stream
        x.delete()
        out = gs.map_shards(copy_into, y, out=like(y))  # there is no other memory left
        check(later, value[::-1])
        check(out, -value)
        assert not made.checker.races, made.checker.races


@pytest.mark.parametrize("seed", seeds(20))
def test_simulated_threads_map_at_once(seed: int) -> None:
    made = SimRuntime(Settings(host_devices=4, host_domains=2, small_bytes=0, inline_bytes=0), seed)
    made.sim.failing = 0
    with using(made):
        sharding = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
        shared = [deferred(gs.device_put(np.arange(8), sharding), lambda v: v + 1)]

        def increment(a: np.ndarray, out: np.ndarray) -> None:
            made.sim.turn()
            np.add(a, 1, out=out)
            made.sim.turn()

        def work() -> None:
            x = shared[0]
            for _ in range(4):
                x = gs.map_shards(increment, x, out=like(x))
            assert np.array_equal(x, np.arange(8) + 5)

        made.sim.threads.run([work] * 3)
        shared.clear()
        check_nothing_left(made)
        assert not made.checker.races, made.checker.races


def test_a_function_that_raises_leaves_nothing(rt: Runtime) -> None:
    devices = gs.devices()
    value = np.arange(80_000.0)
    x = gs.device_put(value, gs.NamedSharding(gs.make_mesh((8,), "x"), gs.P("x")))
    before = [device.memory_stats()["bytes_in_use"] for device in devices]
    mine, ran = ValueError("mine"), []

    def f(a: np.ndarray, out: np.ndarray) -> None:
        ran.append(a)
        if len(ran) == 3:
            raise mine

    text = rf"{re.escape(repr(devices[2]))}.*ValueError: mine"
    with pytest.raises(ExecutionError, match=text) as caught:
        gs.map_shards(f, x, out=like(x))
    assert caught.value.__cause__ is mine and caught.value.device is devices[2]
    assert len(ran) == 3
    mine.__traceback__ = None
    ran.clear()
    del caught
    assert [device.memory_stats()["bytes_in_use"] for device in devices] == before
    assert np.array_equal(x, value)
    assert np.array_equal(gs.map_shards(copy_into, x, out=like(x)), value)


def test_an_interrupt_comes_through(rt: Runtime) -> None:
    x = gs.device_put(np.arange(8.0))

    def f(a: np.ndarray, out: np.ndarray) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gs.map_shards(f, x, out=like(x))
    assert np.array_equal(gs.map_shards(copy_into, x, out=like(x)), np.arange(8.0))


def test_a_function_that_returns_something(rt: Runtime) -> None:
    x = gs.device_put(np.arange(8.0))
    text = f"returned a ndarray on {gs.devices()[0]!r}"
    with pytest.raises(ArgumentTypeError, match=re.escape(text)):
        gs.map_shards(lambda a, out: a + 1, x, out=like(x))


def test_inputs_that_failed(rt: Runtime) -> None:
    sharding = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
    x = gs.device_put(np.arange(8.0), sharding)
    failed, ran = deferred(x, lambda v: v, error=ValueError("planned")), []
    with pytest.raises(ExecutionError, match="planned"):
        gs.map_shards(lambda a, b, out: ran.append(1), x, failed, out=like(x))
    assert not ran
    assert np.array_equal(x, np.arange(8.0))


def test_what_the_function_keeps_stays_as_it_is(rt: Runtime) -> None:
    if not rt.backend.host_readable:
        pytest.skip("arrays of CuPy are always writable")
    x = gs.device_put(np.arange(10_000.0))
    kept: list[np.ndarray] = []

    def f(a: np.ndarray, out: np.ndarray) -> None:
        kept.extend((a, out))
        out[:] = -a

    y = gs.map_shards(f, x, out=like(x))
    assert kept[1].ctypes.data == y.unsafe_buffer_pointer()
    with pytest.raises(ValueError, match="read-only"):
        kept[1][0] = 3
    del x, y
    for _ in range(3):
        z = deferred(gs.device_put(np.zeros(10_000)), lambda v: v + 5)
        z.block_until_ready()
    assert np.array_equal(kept[0], np.arange(10_000.0))
    assert np.array_equal(kept[1], -np.arange(10_000.0))


def test_devices_must_agree(rt: Runtime) -> None:
    mesh = gs.make_mesh((2,), "x", devices=gs.devices()[:2])
    turned = gs.make_mesh((2,), "x", devices=gs.devices()[1::-1])
    x, y = (gs.device_put(np.arange(4), gs.NamedSharding(m, gs.P("x"))) for m in (mesh, turned))
    with pytest.raises(ShardingError, match=r"arrays\[1\].*id=1.*arrays\[0\].*same order.*reshard"):
        gs.map_shards(lambda *a: None, x, y, out=like(x))
    with pytest.raises(ShardingError, match="output 0"):
        gs.map_shards(copy_into, x, out=like(x), sharding=y.sharding)


def test_a_device_without_room_calls_nothing() -> None:
    with runtime(memory_limit=1 << 16, small_bytes=0):
        x = gs.device_put(np.arange(4_000.0), gs.devices()[0])
        ran: list[int] = []
        with pytest.raises(OutOfMemoryError):
            gs.map_shards(lambda *a: ran.append(1), x, out=gs.ShapeDtypeStruct((8_000,), "f8"))
        assert not ran and np.array_equal(x, np.arange(4_000.0))
        assert np.array_equal(gs.map_shards(copy_into, x, out=like(x)), np.arange(4_000.0))


def test_nothing_is_left(rt: Runtime) -> None:
    gc.collect()
    before = rt.claimed_bytes()
    x = gs.device_put(np.arange(80_000.0), gs.NamedSharding(gs.make_mesh((8,), "x"), gs.P("x")))
    y = gs.map_shards(copy_into, x, out=like(x))
    assert rt.claimed_bytes() >= before + 640_000
    del x, y
    assert rt.claimed_bytes() == before
