"""Running plans: failures, pending sources, the plan cache, donation and short memory."""

import itertools

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._runtime.runtime import Runtime
from gpushard.errors import DeletedArrayError, ExecutionError, OutOfMemoryError

P = gs.P
DATA = np.arange(64, dtype=np.float32).reshape(16, 4)
MODES = {"streams": {"small_bytes": 0, "inline_bytes": 0}, "small": {}}
in_every_mode = pytest.mark.parametrize("mode", MODES)
in_some_domains = pytest.mark.parametrize("domains", [1, 8])


def put(data: np.ndarray, spec: gs.P) -> gs.Array:
    return gs.device_put(data, gs.NamedSharding(gs.make_mesh((4, 2), ("x", "y")), spec))


def on(x: gs.Array, spec: gs.P, *, donate: bool = False) -> gs.Array:
    return gs.reshard(x, gs.NamedSharding(x.sharding.mesh, spec), donate=donate)


def in_use(runtime: Runtime) -> list[int]:
    return [int(device.memory_stats()["bytes_in_use"] or 0) for device in runtime.devices]


class BrokenError(Exception):
    """What the work raises."""


READS = {
    "asarray": np.asarray,
    "device_get": gs.device_get,
    "block_until_ready": gs.block_until_ready,
    "shard": lambda x: np.asarray(x.addressable_data(5)),
    "str": str,
    "item": lambda x: x.tolist(),
    "later reshard": lambda x: np.asarray(on(x, P())),
    "part": lambda x: np.asarray(x[3]),
}


@pytest.mark.parametrize("spec", [P("x", "y"), P("y"), P(("x", "y")), P()], ids=str)
@in_some_domains
@in_every_mode
def test_a_failure_reaches_every_reader(mode: str, domains: int, spec: gs.P) -> None:
    """Whether the result aliases, views or copies the memory that was never written."""
    with testing.runtime(host_domains=domains, **MODES[mode]):
        cause = BrokenError("the disk is gone")
        x, gate = testing.gated(put(DATA, P("x")), error=cause)
        y = on(x, spec)
        other = on(put(DATA, P("y")), P("x"))
        gate.open()
        for name, read in READS.items():
            for _ in range(2):
                with pytest.raises(ExecutionError, match="the disk is gone") as caught:
                    read(y)
                assert caught.value.__cause__ is cause, name
        assert y.is_ready()
        assert np.array_equal(np.asarray(other), DATA)
        assert np.array_equal(np.asarray(on(other, spec)), DATA)


@in_some_domains
def test_memory_of_a_failure_is_used_again(domains: int) -> None:
    with testing.runtime(
        host_domains=domains, memory_limit=2 * DATA.nbytes, **MODES["streams"]
    ) as rt:
        for _ in range(3):
            x, gate = testing.gated(put(DATA, P("x")), error=BrokenError())
            y = on(x, P("y"))
            gate.open()
            with pytest.raises(ExecutionError):
                y.block_until_ready()
            del x, y
            assert in_use(rt) == [0] * 8
            good = on(put(DATA, P("x")), P("y"))
            assert np.array_equal(np.asarray(good), DATA)
            del good


@in_some_domains
@in_every_mode
def test_submission_never_waits_for_the_source(mode: str, domains: int) -> None:
    with testing.runtime(host_domains=domains, **MODES[mode]) as runtime:
        old = on(put(-DATA, P("x")), P("y"))
        x, gate = testing.gated(put(DATA, P("x")))
        chain = [x]
        for spec in (P("y"), P(None, "x"), P(), P(("y", "x")), P("x")):
            chain.append(on(chain[-1], spec))
        part = chain[1][::-2]
        assert not any(y.is_ready() for y in (*chain, part))
        x.delete()
        assert np.array_equal(np.asarray(old), -DATA)
        if mode == "small":  # the caller copies what is there; nothing is behind anything
            assert np.array_equal(np.asarray(on(old, P("x"))), -DATA)
        assert not any(y.is_ready() for y in (*chain[1:], part))
        gate.open()
        for y in chain[1:]:
            assert np.array_equal(np.asarray(y), DATA)
            assert y.is_ready()
        assert np.array_equal(np.asarray(part), DATA[::-2])
        del chain, part, old, x, y
        assert in_use(runtime) == [0] * 8


@in_some_domains
@in_every_mode
def test_one_source_that_is_there_is_not_all_of_them(mode: str, domains: int) -> None:
    with testing.runtime(host_domains=domains, **MODES[mode]):
        split = (P("x", "y"), P("y")), (P("x"), P("x"))  # the latter are put together first
        for held, specs in itertools.product(range(2), split):
            parts = [put(data, spec) for data, spec in zip((DATA, -DATA), specs, strict=True)]
            gs.block_until_ready(parts)
            parts[held], gate = testing.gated(parts[held])
            joined = np.concatenate(parts)
            assert not joined.is_ready()
            gate.open()
            assert np.array_equal(np.asarray(joined), np.concatenate([DATA, -DATA]))


@in_every_mode
def test_sources_may_go_before_they_are_read(mode: str) -> None:
    """Memory freed under pending copies is overwritten only after they have run."""
    with testing.runtime(host_domains=8, **MODES[mode]):
        moved, gates = [], []
        for value in range(6):
            x, gate = testing.gated(put(DATA + value, P("x")))
            moved.append(on(x, P("y"), donate=True))
            assert x.is_deleted()
            gates.append(gate)
            del x
            gates[-1].open()
            put(np.full_like(DATA, -1), P("x"))
        for value, y in enumerate(moved):
            assert np.array_equal(np.asarray(y), DATA + value)


def test_results_in_memory_that_is_still_read_wait_for_the_reader() -> None:
    """Some of it is: that of one device, which has no more."""
    room = {"small_bytes": 0, "inline_bytes": 1 << 20, "memory_limit": 100}
    with testing.runtime(host_devices=2, host_domains=2, **room) as runtime:
        value, mesh = np.arange(8.0).reshape(4, 2), gs.make_mesh((2,), ("x",))
        x = gs.device_put(value, gs.NamedSharding(mesh, P("x")))
        read, gate = testing.gated(gs.device_put(np.full(4, 7.0), runtime.devices[0]))
        y = on(x, P(None, "x"))
        assert not y.is_ready()
        gate.open()
        assert np.asarray(read).tolist() == [7.0] * 4
        assert np.array_equal(np.asarray(y), value)


def test_plans_are_cached_and_bounded() -> None:
    with testing.runtime(plan_cache_bytes=100_000) as runtime:
        plans = runtime.plans
        x = put(DATA, P("x"))
        first = x.plan(gs.NamedSharding(x.sharding.mesh, P("y")))
        assert x.plan(gs.NamedSharding(x.sharding.mesh, P("y"))) is first
        seen = 0
        for rows in range(1, 120):
            y = put(np.zeros((rows, 3)), P("x"))
            assert np.asarray(on(y, P(None, ("y", "x")))).shape == (rows, 3)
            assert 0 < plans.nbytes <= 100_000
            seen = max(seen, len(plans))
        assert 1 < len(plans) <= seen < 119
        assert x.plan(gs.NamedSharding(x.sharding.mesh, P("y"))) is not first


def test_plans_that_depend_on_the_memory_kept_alive_are_kept_for_each() -> None:
    """A part of a small array is a view, of a large one a copy: both are planned once."""
    with testing.runtime(host_devices=4, small_bytes=0) as runtime:
        mesh = gs.make_mesh((2, 2), ("x", "y"))
        to = gs.NamedSharding(mesh, P(("x", "y")))
        whole = gs.device_put(np.zeros((1 << 10, 8)), gs.NamedSharding(mesh, P("x")))
        part = gs.device_put(np.zeros((1 << 14, 8)), gs.NamedSharding(mesh, P("x")))[: 1 << 10]
        plans = [[x.plan(to) for x in (whole, part)] for _ in range(2)]
        count = len(runtime.plans)
        assert whole.plan(to) is plans[0][0] is plans[1][0]
        assert part.plan(to) is plans[0][1] is plans[1][1]
        assert len(runtime.plans) == count


def test_plans_larger_than_the_cache_are_not_kept() -> None:
    with testing.runtime(plan_cache_bytes=0) as runtime:
        assert np.array_equal(np.asarray(on(put(DATA, P("x")), P("y"))), DATA)
        assert len(runtime.plans) == runtime.plans.nbytes == 0


@in_some_domains
@in_every_mode
def test_donation_ends_the_source(mode: str, domains: int) -> None:
    with testing.runtime(host_domains=domains, **MODES[mode]) as runtime:
        x = put(DATA, P("x", "y"))
        shard = x.addressable_shards[3].data
        y = on(x, P("y", "x"), donate=True).block_until_ready()
        assert x.is_deleted()
        assert shard.is_deleted()
        for use in (np.asarray, gs.device_get, lambda a: on(a, P()), lambda a: a[0], float):
            with pytest.raises(DeletedArrayError):
                use(x)
        assert np.array_equal(np.asarray(y), DATA)
        assert in_use(runtime) == [32] * 8


@in_every_mode
def test_what_aliases_a_donated_array_lives_on(mode: str) -> None:
    with testing.runtime(**MODES[mode]) as runtime:
        x = put(DATA, P())
        alias = gs.reshard(x, x.sharding)
        view = on(x, P("x"))
        y = on(x, P(("x", "y")), donate=True)
        assert x.is_deleted()
        for z in (alias, view, y):
            assert np.array_equal(np.asarray(z), DATA)
        assert sum(in_use(runtime)) == DATA.nbytes
        del alias, view
        put(-DATA, P())
        assert np.array_equal(np.asarray(y), DATA)
        assert sum(in_use(runtime)) == DATA.nbytes


@pytest.mark.parametrize("mode", ["streams", "small"])
def test_out_of_memory_changes_nothing(mode: str) -> None:
    """Fully replicated in eight domains, every device would need the whole 256 bytes more."""
    with testing.runtime(host_domains=8, memory_limit=250, **MODES[mode]) as runtime:
        x = put(DATA, P("x", "y"))
        before, stats = in_use(runtime), runtime.devices[0].memory_stats()
        assert before == [32] * 8
        for donate in (False, True):
            with pytest.raises(OutOfMemoryError) as caught:
                on(x, P(), donate=donate)
            error = caught.value
            assert isinstance(error, MemoryError)
            assert error.device == repr(runtime.devices[0])
            assert (error.nbytes, error.in_use, error.limit) == (256, 32, 250)
            for fact in ("CpuDevice(id=0)", "256 bytes", "32 in use", "250"):
                assert fact in str(error)
            assert not x.is_deleted()
            assert in_use(runtime) == before
        after = runtime.devices[0].memory_stats()
        assert after["pool_bytes"] == stats["pool_bytes"]
        assert np.array_equal(np.asarray(x), DATA)
        y = on(x, P("x"))
        assert np.array_equal(np.asarray(y), DATA)
        assert in_use(runtime) == [96] * 8


@pytest.mark.parametrize("mode", ["streams", "small"])
def test_out_of_memory_on_the_last_device_frees_the_others(mode: str) -> None:
    with testing.runtime(host_domains=8, memory_limit=250, **MODES[mode]) as runtime:
        full = gs.device_put(np.arange(200, dtype=np.uint8), runtime.devices[7])
        x = put(DATA, P("x", "y"))
        before = [32] * 7 + [232]
        assert in_use(runtime) == before
        with pytest.raises(OutOfMemoryError) as caught:
            on(x, P("x"))
        error = caught.value
        assert (error.device, error.nbytes) == (repr(runtime.devices[7]), 64)
        assert (error.in_use, error.limit) == (232, 250)
        assert in_use(runtime) == before
        for source, expected in ((x, DATA), (full, np.arange(200))):
            assert np.array_equal(np.asarray(source), expected)
        full.delete()
        assert np.array_equal(np.asarray(on(x, P("x"))), DATA)


@pytest.mark.parametrize("mode", ["streams", "small"])
def test_a_tree_that_does_not_fit_donates_nothing(mode: str) -> None:
    with testing.runtime(host_domains=8, memory_limit=250, **MODES[mode]) as runtime:
        small, large = put(DATA[:4], P("x")), put(DATA, P("x", "y"))
        before = in_use(runtime)
        with pytest.raises(OutOfMemoryError):
            gs.reshard([small, large], P(), donate=True)
        assert not small.is_deleted()
        assert not large.is_deleted()
        assert in_use(runtime) == before
        for x, rows in ((small, 4), (large, 16)):
            assert np.array_equal(np.asarray(x), DATA[:rows])


def test_cycles_are_collected_when_memory_is_short() -> None:
    with testing.runtime(host_domains=8, memory_limit=96, **MODES["streams"]) as runtime:
        x = put(DATA, P("x", "y"))
        cycle: list[object] = [on(x, P("x"))]
        cycle.append(cycle)
        del cycle
        y = on(x, P("y", "x"))
        z = on(x, P("y", "x"))
        assert np.array_equal(np.asarray(y), DATA)
        assert np.array_equal(np.asarray(z), DATA)
        assert in_use(runtime) == [96] * 8


@in_some_domains
@pytest.mark.parametrize("inline_bytes", [0, 1 << 30])
def test_large_boxes_are_cut_for_the_threads_and_counted_once(
    domains: int, inline_bytes: int
) -> None:
    with testing.runtime(host_domains=domains, inline_bytes=inline_bytes) as runtime:
        data = np.arange(3 << 20, dtype=np.uint32).reshape(1 << 10, -1)
        x = put(data, P("x"))
        for spec in (P(None, "x"), P(), P("y", "x")):
            plan = x.plan(gs.NamedSharding(x.sharding.mesh, spec))
            before = dict(runtime.backend.traffic)
            y = on(x, spec).block_until_ready()
            links = {k: n - before.get(k, 0) for k, n in runtime.backend.traffic.items()}
            assert {k: n for k, n in links.items() if n} == plan.link_bytes
            assert sum(plan.link_bytes.values()) == plan.bytes_written > 0
            for shard in y.addressable_shards:
                assert np.array_equal(np.asarray(shard.data), data[shard.index])
