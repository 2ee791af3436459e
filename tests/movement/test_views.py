"""Results that share memory with their source, and those that must not."""

from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._movement.reshard import Mover
from gpushard._movement.sharding_devices import devices_of
from gpushard._runtime.runtime import Runtime

P = gs.P
SETTINGS = {
    "pooled": {"small_bytes": 0},
    "streams": {"small_bytes": 0, "inline_bytes": 0},
    "small": {},
}
in_every_setting = pytest.mark.parametrize("how", SETTINGS)


def values(x: gs.Array) -> list[np.ndarray]:
    """The shards' memory, as the host sees it, without a copy."""
    return [np.asarray(shard.data) for shard in x.addressable_shards]


def shares(x: gs.Array, y: gs.Array) -> bool:
    """Whether some memory belongs to both."""
    return any(np.shares_memory(a, b) for a in values(x) for b in values(y))


def inside(part: gs.Array, x: gs.Array) -> bool:
    """Whether every shard of `part` lies in memory of `x`."""
    return all(any(np.shares_memory(a, b) for b in values(x)) for a in values(part) if a.size)


def in_use(runtime: Runtime) -> int:
    return sum(int(device.memory_stats()["bytes_in_use"] or 0) for device in runtime.devices)


def put(data: np.ndarray, spec: gs.P, mesh: int = 8) -> gs.Array:
    return gs.device_put(data, gs.NamedSharding(gs.make_mesh((mesh,), ("x",)), spec))


def on(x: gs.Array, spec: gs.P) -> gs.Array:
    return gs.reshard(x, gs.NamedSharding(x.sharding.mesh, spec))


def rows(count: int, width: int = 4) -> np.ndarray:
    return np.arange(count * width, dtype=np.int32).reshape(count, width)


@in_every_setting
def test_equal_blocks_are_aliased(how: str) -> None:
    with testing.runtime(**SETTINGS[how]):
        x = put(rows(16), P("x"))
        y = gs.reshard(x, gs.NamedSharding(gs.make_mesh((2, 4), ("a", "b")), P(("a", "b"))))
        assert [a.ctypes.data for a in values(x)] == [a.ctypes.data for a in values(y)]


@in_every_setting
def test_replicas_of_a_domain_are_one_block(how: str) -> None:
    with testing.runtime(host_domains=2, **SETTINGS[how]) as runtime:
        x = put(rows(16), P())
        first = values(x)
        assert len({a.ctypes.data for a in first[:4]}) == 1
        assert len({a.ctypes.data for a in first[4:]}) == 1
        assert not np.shares_memory(first[0], first[4])
        assert in_use(runtime) == 2 * x.nbytes


@in_every_setting
def test_parts_that_keep_half_in_use_are_views(how: str) -> None:
    with testing.runtime(**SETTINGS[how]) as runtime:
        x = put(rows(16), P())
        for index in (slice(0, 8), slice(8, None), slice(3, 12), (slice(0, 8), None)):
            part = x[index]
            assert inside(part, x)
            assert in_use(runtime) == x.nbytes
            assert part.plan(part.sharding).bytes_written == 0
        for index in (slice(0, 7), slice(None, None, 2), slice(None, None, -1), (..., slice(0, 3))):
            part = x[index]
            assert not shares(part, x)
            assert np.array_equal(np.asarray(part), rows(16)[index])
            del part


@in_every_setting
def test_unaligned_parts_are_copied(how: str) -> None:
    with testing.runtime(**SETTINGS[how]):
        data = rows(16, width=3)
        x = put(data, P())
        for start in range(8):
            part = x[start:]
            assert inside(part, x) == (start * 3 * 4 % 16 == 0)
            assert all(a.ctypes.data % 16 == 0 for a in values(part))
            assert np.array_equal(np.asarray(part), data[start:])


@pytest.mark.parametrize(("domains", "viewed"), [(1, True), (2, True), (4, False), (8, False)])
@in_every_setting
def test_all_outputs_of_a_domain_count_together(domains: int, viewed: bool, how: str) -> None:
    """The devices of a domain want 8 / domains of the 8 parts of the root it holds."""
    with testing.runtime(host_domains=domains, **SETTINGS[how]) as runtime:
        x = put(rows(16), P())
        y = on(x, P("x"))
        assert shares(x, y) == inside(y, x) == viewed
        assert in_use(runtime) == domains * x.nbytes + (0 if viewed else x.nbytes)
        x.delete()
        y.block_until_ready()
        assert in_use(runtime) == (domains if viewed else 1) * y.nbytes


@in_every_setting
def test_trailing_short_blocks_count_by_their_own_size(how: str) -> None:
    """Blocks of 4, 4, 4 and 1 rows: a domain that wants all of the short one may view it."""
    with testing.runtime(**SETTINGS[how]):
        data = np.arange(26, dtype=np.complex128).reshape(13, 2)
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        x = gs.device_put(data, gs.NamedSharding(mesh, P("x")))
        y = gs.reshard(x, gs.NamedSharding(mesh, P("x", "y")))
        last = [shard for shard in y.addressable_shards if shard.index[0] == slice(12, 13)]
        assert [shard.data.shape for shard in last] == [(1, 1), (1, 1)]
        assert all(inside(shard.data, x) for shard in last)
        assert [inside(s.data, x) for s in y.addressable_shards].count(True) == 2


@pytest.mark.parametrize("deleted", [True, False])
@in_every_setting
def test_a_view_keeps_its_root(how: str, deleted: bool) -> None:
    with testing.runtime(**SETTINGS[how]) as runtime:
        data = rows(64)
        x = put(data, P())
        part = x[16:]
        if deleted:
            x.delete()
        del x
        assert in_use(runtime) == data.nbytes
        others = [put(np.full_like(data, -1), P()) for _ in range(5)]
        assert np.array_equal(np.asarray(part), data[16:])
        assert not any(shares(part, other) for other in others)
        del others
        assert in_use(runtime) == data.nbytes
        del part
        assert in_use(runtime) == 0


@in_every_setting
def test_a_view_of_a_view_counts_the_whole_root(how: str) -> None:
    with testing.runtime(**SETTINGS[how]):
        x = put(rows(16), P())
        half = x[:8]
        assert inside(half, x)
        assert inside(half[:], x)
        quarter = half[:4]
        assert not shares(quarter, x)
        assert half.plan(half.sharding).bytes_written == 0
        assert half[4:].plan(half.sharding).bytes_written == 0
        most = x[:12]
        assert inside(most[:8], x)
        assert not shares(most[:7], x)


@in_every_setting
def test_parts_of_many_blocks(how: str) -> None:
    """Each device's half of its own block: a view in every domain."""
    with testing.runtime(host_domains=8, **SETTINGS[how]) as runtime:
        data = np.arange(16 * 4 * 8, dtype=np.int32).reshape(4 * 8, 16)
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        x = gs.device_put(data, gs.NamedSharding(mesh, P("x")))
        y = gs.reshard(x, gs.NamedSharding(mesh, P(("x", "y"))))
        assert inside(y, x)
        assert in_use(runtime) == 2 * x.nbytes
        assert [len(a) for a in values(y)] == [4] * 8
        for shard in y.addressable_shards:
            assert np.array_equal(np.asarray(shard.data), data[shard.index])


@in_every_setting
def test_empty_shards_keep_no_memory(how: str) -> None:
    with testing.runtime(**SETTINGS[how]) as runtime:
        x = put(rows(64), P("x"))
        nothing = x[3:3]
        uneven = gs.reshard(put(rows(5, 8), P(None, "x")), x.sharding, donate=True)
        uneven.block_until_ready()
        del x
        assert nothing.shape == (0, 4)
        assert in_use(runtime) == uneven.nbytes
        held = [device.memory_stats()["bytes_in_use"] for device in runtime.devices]
        assert held == [32] * 5 + [0] * 3


@pytest.mark.parametrize("how", ["pooled", "streams"])
def test_views_of_replicas_held_apart_use_one_root(how: str) -> None:
    """Every device brings its own copy; the views together need only one of them."""
    with testing.runtime(**SETTINGS[how]) as runtime:
        mesh = gs.make_mesh((8,), ("x",))
        data = rows(16)
        parts = [gs.device_put(data, device) for device in runtime.devices]
        x = gs.make_array_from_single_device_arrays((16, 4), gs.NamedSharding(mesh, P()), parts)
        y = on(x, P("x"))
        assert inside(y, x)
        del x, parts
        assert in_use(runtime) == data.nbytes
        assert np.array_equal(np.asarray(y), data)


def test_aliases_of_replicas_held_apart_stay_on_their_devices() -> None:
    with testing.runtime(small_bytes=0) as runtime:
        mesh = gs.make_mesh((8,), ("x",))
        parts = [gs.device_put(rows(16), device) for device in runtime.devices]
        x = gs.make_array_from_single_device_arrays((16, 4), gs.NamedSharding(mesh, P()), parts)
        y = gs.reshard(x, gs.NamedSharding(gs.make_mesh((2, 4), ("a", "b")), P()))
        assert [a.ctypes.data for a in values(y)] == [a.ctypes.data for a in values(x)]
        assert len({a.ctypes.data for a in values(y)}) == 8


@in_every_setting
def test_plans_of_fresh_arrays_are_not_used_for_views(how: str) -> None:
    """The tilings are equal, yet a part of a view may waste more than a part of a fresh array."""
    with testing.runtime(**SETTINGS[how]):
        fresh, view = put(rows(8), P()), put(rows(16), P())[:8]
        for x in (fresh, view, fresh, view):
            assert inside(x[:4], x) == (x is fresh)


def test_explain_counts_what_is_reused() -> None:
    with testing.runtime(host_domains=2):
        x = put(rows(16), P())
        mesh = x.sharding.mesh
        facts = {
            P(): "2 aliased\n",
            P("x"): "8 viewed\n",
            P(None, "x"): "4 copied, 4 empty\n",
        }
        for spec, fact in facts.items():
            text = x.plan(gs.NamedSharding(mesh, spec)).explain()
            assert f"once per domain: {fact}" in text
            assert "(16, 4) on 8 devices in 2 memory domains" in text
        moved = put(rows(16), P("x")).plan(gs.NamedSharding(mesh, P())).explain()
        assert "written: 512 bytes, the least possible" in moved
        assert "received from other domains: 256 bytes, the least possible" in moved
        assert "2 between domains" in moved
        assert "with 128 bytes" in moved


def test_user_memory_may_be_viewed() -> None:
    data = rows(16)
    with testing.runtime() as runtime:
        mesh = gs.make_mesh((8,), ("x",))
        x = gs.device_put(data, gs.NamedSharding(mesh, P()), may_alias=True)
        y = on(x, P("x"))
        assert all(np.shares_memory(a, data) for a in values(y))
        assert in_use(runtime) == 0


def test_memory_without_an_owning_array_may_be_moved() -> None:
    data = np.frombuffer(rows(16).tobytes(), np.int32).reshape(16, 4)
    with testing.runtime():
        x = gs.device_put(data, gs.devices()[0], may_alias=True)
        assert np.array_equal(np.asarray(x[1:5]), data[1:5])
        assert np.array_equal(np.asarray(gs.reshard(x, put(data, P("x")).sharding)), data)


def test_parts_ask_for_memory_once_and_views_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with testing.runtime(host_devices=8) as runtime:
        x, wide = put(rows(16), P("x")), put(rows(64), P("x"))
        whole = put(rows(64), P(), mesh=1)
        asked: list[object] = []

        def counting(name: str) -> None:
            function = getattr(runtime, name)

            def counted(*args: Any) -> Any:
                asked.append(name)
                return function(*args)

            monkeypatch.setattr(runtime, name, counted)

        for take, times in (
            (lambda: x[:13], 0),  # the last device has no element
            (lambda: whole[8:60], 0),
            (lambda: whole[5:9, 1:3], 1),
            (lambda: wide[3:7, 1:3], 1),
        ):
            counting("commit")
            counting("count")
            want = np.asarray(take())  # plans, which keep what they call
            asked.clear()
            found = take()
            assert len(asked) == times
            monkeypatch.undo()
            assert np.array_equal(found, want)


@pytest.mark.parametrize("first", ["own", "part"])
def test_a_program_that_keeps_its_plan_sees_how_much_an_operand_keeps_alive(first: str) -> None:
    with testing.runtime(host_devices=2, host_domains=2, small_bytes=0) as runtime:
        long, own = put(rows(16), P(), 2), put(rows(8), P(), 2)
        operands = {"own": own, "part": long[:8]}
        assert inside(operands["part"], long)
        end = own.sharding.with_spec(P("x")).tiling(own.shape)
        mover = Mover(runtime, own._live().tiling, end, own.dtype.itemsize, "test")
        for name in (first, "own", "part", "own"):
            source = operands[name]._live()
            (moved,) = mover.run([source], ())
            shared = [
                np.shares_memory(*pair) for pair in zip(moved.values, source.values, strict=True)
            ]
            assert shared == [name == "own"] * 2
            for value, index in zip(moved.values, end.indices, strict=True):
                assert np.array_equal(value, rows(8)[index])


def memories(x: gs.Array) -> int:
    return len(x._data.buffer.memories)


def test_a_small_result_is_one_memory_and_large_ones_are_not() -> None:
    """One claim takes less than eight; devices with quotas or memory of their own have theirs."""
    for settings, count in (
        ({"small_bytes": 0}, 1),
        ({"small_bytes": 0, "inline_bytes": 0}, 8),
        ({"small_bytes": 0, "memory_limit": 1 << 20}, 8),
        ({"small_bytes": 0, "host_domains": 2}, 8),
        (
            {"small_bytes": 0, "inline_bytes": 16 << 10},
            8,
        ),  # results are larger
    ):
        with testing.runtime(**settings) as runtime:
            x = put(rows(64, 1 << 10), P("x"))
            used = in_use(runtime)
            y, (high, low) = x + 1, gs.numpy.divmod(x, 3)
            gs.block_until_ready((y, high, low))
            assert memories(y) == memories(high) == memories(low) == count, settings
            assert in_use(runtime) == used + 3 * x.nbytes
            for result, wanted in ((y, rows(64, 1 << 10) + 1), (low, rows(64, 1 << 10) % 3)):
                assert np.array_equal(result, wanted)


@pytest.mark.parametrize(
    ("devices", "domains", "small", "count"),
    [(4, 1, 33, 1), (2, 1, 65, 1), (4, 1, 32, 4), (4, 2, 33, 4), (4, 4, 33, 4), (1, 1, 129, 1)],
)
def test_small_blocks_that_streams_write_in_one_domain_are_one_memory(
    devices: int, domains: int, small: int, count: int
) -> None:
    """128 bytes in equal blocks, each in the memory of its device."""
    with testing.simulated(
        0, host_readable=False, host_devices=devices, host_domains=domains, small_bytes=small
    ) as runtime:
        runtime.sim.failing = 0
        x = put(rows(4, 8), P("x"), mesh=devices)
        y = gs.reshard(x, gs.NamedSharding(x.sharding.mesh, P(None, "x")))._live()
        assert len({claim.memory for claim in y.claims}) == count
        for place, claim in zip(devices_of(y.tiling), y.claims, strict=True):
            assert claim.memory.pool is place.domain.pool


@pytest.mark.parametrize("width", [4, 3])
def test_parts_of_a_result_are_views_as_those_of_what_was_put_there(width: int) -> None:
    with testing.runtime(small_bytes=0):
        x = put(rows(64, width), P("x"))
        y = x + 0
        assert memories(y) == 1
        again = y.reshape(8, 8, width)
        for index in (slice(0, 8), slice(0, 32), slice(2, 60), slice(1, 7), (..., slice(0, 2))):
            assert inside(y[index], y) == inside(x[index], x), index
            assert np.array_equal(y[index], rows(64, width)[index])
        assert inside(again, y)
        assert inside(again[:, 4:], y) == inside(x.reshape(8, 8, width)[:, 4:], x)
        shard = y.addressable_data(0)
        assert not shares(shard[:6], y)  # it would keep all of the others, too


def test_blocks_keep_what_lies_between_them_alive() -> None:
    """Three blocks of 32 bytes are one memory; each of two of them counts for a half of it."""
    with testing.runtime(small_bytes=0) as runtime:
        y = put(np.arange(12.0), P("x"), mesh=3) + 0
        assert (memories(y), y._live().root_nbytes) == (1, 0)
        two = gs.NamedSharding(gs.make_mesh((2,), "x", devices=runtime.devices[1:3]), P("x"))
        shards = [y.addressable_data(n) for n in (1, 2)]
        part = gs.make_array_from_single_device_arrays((8,), two, shards)
        assert part._live().root_nbytes == 48


def test_a_result_that_nobody_shares_is_written_in_place() -> None:
    with testing.runtime(small_bytes=0) as runtime:
        y = put(rows(64), P("x")) + 0
        before = [a.ctypes.data for a in values(y)]
        used = in_use(runtime)
        y[3:40] = 7
        y[:, 1] = y[:, 2] * 2
        assert [a.ctypes.data for a in values(y)] == before
        assert in_use(runtime) == used
        kept = y.addressable_data(7)
        y[0] = 5
        assert np.array_equal(kept[:, 0], rows(64)[56:, 0])
        assert np.array_equal(y[0], [5] * 4)


@in_every_setting
def test_replicas_that_lie_apart_are_all_written(how: str) -> None:
    """They were the parts of one array, which share the claim on their memory where it is small."""
    with testing.runtime(host_devices=2, **SETTINGS[how]):
        parts = put(np.tile(np.arange(4.0), 2), P("x"), mesh=2)
        whole = gs.NamedSharding(parts.sharding.mesh, P())
        x = gs.make_array_from_single_device_arrays(
            (4,), whole, [parts.addressable_data(n) for n in range(2)]
        )
        del parts
        x[1] = 7
        assert [value.tolist() for value in values(x)] == [[0, 7, 2, 3]] * 2


def test_a_result_waits_for_who_reads_the_only_memory_there_is(monkeypatch) -> None:
    """The caller must not, and the streams that then write it each have memory of their own."""
    with testing.runtime(small_bytes=0) as runtime:
        x, held = put(rows(64), P("x")), put(rows(64), P("x"))
        y = x + 1
        pool, size = runtime.devices[0].domain.pool, y.nbytes
        later, gate = testing.gated(held)
        z = later + y
        del y
        grow = type(pool)._grow

        def refused(self, capacity):
            return None if self is pool and capacity >= size else grow(self, capacity)

        monkeypatch.setattr(type(pool), "_grow", refused)
        w = x + 2
        gate.open()
        assert memories(w) == 8
        assert np.array_equal(w, rows(64) + 2)
        assert np.array_equal(z, 2 * rows(64) + 1)
