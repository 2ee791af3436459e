"""Dispatch: what it caches, how it bounds that, and what it does with operands of all kinds."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._movement.buffer import ShardedBuffer
from tests.late import late_devices
from tests.traffic import received

P = gs.P


def on(spec: gs.P, sizes: tuple[int, ...] = (4, 2)) -> gs.NamedSharding:
    return gs.NamedSharding(gs.make_mesh(sizes, ("x", "y")[: len(sizes)]), spec)


def test_no_program_depends_on_the_value_of_a_number() -> None:
    with testing.runtime(host_devices=8) as runtime:
        x = gs.device_put(np.arange(8.0), on(P("x")))
        assert float((x + 1)[3]) == 4
        programs = len(runtime.plans)
        for number in range(2, 50):
            assert float((x + number)[3]) == 3 + number
        assert len(runtime.plans) == programs


def test_programs_are_bounded_by_their_bytes() -> None:
    with testing.runtime(host_devices=8, plan_cache_bytes=200_000) as runtime:
        sharding = on(P("x"))
        for n in range(400):
            x = gs.device_put(np.full(n + 1, 2.0), sharding)
            assert float((x * x).sum()) == 4 * (n + 1)
        assert runtime.plans.nbytes <= 200_000
        del x
        gc.collect()
        assert runtime.claimed_bytes() == 0


def test_programs_of_more_devices_and_operands_count_as_larger() -> None:
    calls: dict[str, Callable[[gs.Array, gs.NamedSharding], gs.Array]] = {
        "created": lambda x, sharding: gs.numpy.ones(8, out_sharding=sharding),
        "of one": lambda x, sharding: -x,
        "of three": lambda x, sharding: gs.numpy.where(x > 1, x, x),
        "moved": lambda x, sharding: gs.numpy.flip(x),
        "a part": lambda x, sharding: x[1:7],
    }
    found: list[dict[str, int]] = []
    for count in (1, 8):
        with testing.runtime(host_devices=count) as runtime:
            sharding = on(P("x"), (count,))
            x = gs.device_put(np.arange(8.0), sharding)
            assert (x > 1).shape == (8,)
            sizes = {}
            for name, call in calls.items():
                before = runtime.plans.nbytes
                call(x, sharding).block_until_ready()
                sizes[name] = runtime.plans.nbytes - before
            found.append(sizes)
            assert min(sizes.values()) > 0 and sizes["of one"] < sizes["of three"]
            kept = runtime.plans.nbytes
            for call in calls.values():
                call(x, sharding).block_until_ready()
            assert runtime.plans.nbytes == kept
    one, eight = found
    assert all(0 < one[name] < eight[name] for name in ("created", "of one", "a part")), found


def test_numpy_operands_go_where_they_are_needed() -> None:
    host = np.arange(32.0).reshape(8, 4)
    with testing.runtime(host_devices=8, host_domains=8) as runtime:
        x = gs.device_put(host, on(P("x", "y")))
        before = dict(runtime.backend.traffic)
        made = x + host
        assert made.sharding == x.sharding
        np.testing.assert_array_equal(np.asarray(made), host + host)
        between = [
            link for link in runtime.backend.traffic if min(link) >= 0 and link not in before
        ]
        assert not between
        np.testing.assert_array_equal(np.asarray(host[0] - x), host[0] - host)
        with gs.transfer_guard_host_to_device("disallow"):
            np.testing.assert_array_equal(np.asarray(x + np.float64(2)), host + 2)
            with pytest.raises(gs.errors.TransferGuardError):
                x + host


def test_uncommitted_operands_follow_committed_ones() -> None:
    with testing.runtime(host_devices=8):
        x = gs.device_put(np.arange(8.0), on(P("x")))
        free = gs.device_put(np.arange(8.0))
        made = free + x
        assert made.sharding == x.sharding and made.committed
        assert not (free + free).committed
        scalar = gs.device_put(np.float64(3), gs.devices()[5])
        assert (x + scalar).sharding == x.sharding  # what has no dims is weak in placement


def test_devices_that_differ_are_an_error_that_names_them() -> None:
    with testing.runtime(host_devices=8):
        x = gs.device_put(np.arange(8.0), on(P("x")))
        y = gs.device_put(np.arange(8.0), gs.devices()[3])
        with pytest.raises(gs.errors.ShardingError, match=r"[CG]puDevice\(id=3\)"):
            x + y
        first, others = (", ".join(map(repr, gs.devices()[a:b])) for a, b in ((0, 3), (4, 8)))
        line = gs.NamedSharding(gs.make_mesh((4,), "x", devices=gs.devices()[4:]), P("x"))
        with pytest.raises(gs.errors.ShardingError) as error:
            x + gs.device_put(np.arange(8.0), line)
        assert f"on {first}, ... 8 in all and" in str(error.value)
        assert f"on {others};" in str(error.value)


def test_meshes_over_the_same_devices_mix() -> None:
    with testing.runtime(host_devices=8, host_domains=8) as runtime:
        value = np.arange(64.0).reshape(8, 8)
        x = gs.device_put(value, on(P(("x", "y"))))
        flat = gs.make_mesh((8,), ("d",))
        y = gs.device_put(value, gs.NamedSharding(flat, P("d")))
        before = received(runtime)
        made = x + y
        after = received(runtime)
        assert before == after  # the boxes match on every device
        assert made.sharding.mesh in (x.sharding.mesh, flat)
        np.testing.assert_array_equal(np.asarray(made), value + value)
        z = gs.device_put(value, gs.NamedSharding(flat, P(None, "d")))
        np.testing.assert_array_equal(np.asarray(x * z), value * value)


def test_weak_numbers_take_the_type_of_arrays() -> None:
    x = gs.device_put(np.arange(4, dtype=np.int8))
    weak = gs.device_put(2.5)
    assert (x + 1).dtype == np.int8 and (x + 1.0).dtype == np.float64
    f = gs.device_put(np.arange(4, dtype=np.float32))
    assert (f + weak).dtype == np.float32 and (weak + weak).weak_type
    np.testing.assert_array_equal(np.asarray(f * weak), np.arange(4, dtype=np.float32) * 2.5)
    assert (f + np.float64(1)).dtype == np.float64


@pytest.mark.parametrize("number", [2.5, 2])
def test_results_of_weak_numbers_are_weak_if_they_are_of_their_type(number: float) -> None:
    x = gs.device_put(number)[None]
    values, places = gs.lax.top_k(x, 1)
    sums = [gs.numpy.sum(x), gs.numpy.cumsum(x), x @ x]
    for made in (gs.numpy.sort(x), x.max(), values, *sums):
        assert made.weak_type and made.dtype == x.dtype
    singles = [function(x, dtype="f4") for function in (gs.numpy.sum, gs.numpy.cumsum)]
    for made in (x.argsort(), x.any(), places, *singles, x @ np.ones(1)):
        assert not made.weak_type
    assert gs.numpy.mean(x).weak_type == (x.dtype.kind == "f")


def test_integers_beyond_a_type_are_refused_except_in_comparisons() -> None:
    x = gs.device_put(np.arange(4, dtype=np.uint8))
    with pytest.raises(gs.errors.ArgumentRangeError, match="300"):
        x + 300
    assert not np.asarray(x == 300).any() and np.asarray(x < 300).all()
    assert np.asarray(x > -1).all()


def test_a_kernel_runs_once_for_replicas_of_a_domain() -> None:
    with testing.runtime(host_devices=8, host_domains=2) as runtime:
        x = gs.device_put(np.arange(6.0), on(P()))
        made = x + x
        addresses = {s.data.unsafe_buffer_pointer() for s in made.addressable_shards}
        assert len(addresses) == len({device.memory_domain for device in runtime.devices})


def test_failed_operands_fail_the_result() -> None:
    with testing.runtime(host_devices=8):
        x = gs.device_put(np.arange(8.0), on(P("x")))
        bad = testing.deferred(x, lambda shard: shard, error=RuntimeError("lost"))
        with pytest.raises(gs.errors.ExecutionError):
            np.asarray(bad + x)
        with pytest.raises(gs.errors.ExecutionError):
            float((bad + x).sum())


def test_pending_operands_are_not_waited_for() -> None:
    with testing.runtime(backend="host", host_devices=8):
        x = gs.device_put(np.arange(8.0), on(P("x")))
        held, gate = testing.gated(x)
        made = ((held + 1) * 2).sum()
        assert not made.is_ready()
        gate.open()
        assert float(made) == ((np.arange(8.0) + 1) * 2).sum()


@pytest.mark.parametrize("domains", [1, 2, 4, 8])
@pytest.mark.parametrize("inline", [0, 1 << 20])
def test_results_of_reductions_are_dense_and_share_no_memory(domains: int, inline: int) -> None:
    settings = {"host_domains": domains, "inline_bytes": inline, "enable_checks": True}
    with testing.runtime(host_devices=8, small_bytes=600, **settings):
        value = np.arange(2 * 8 * 6.0).reshape(2, 8, 6)
        for spec in (P("x"), P("y"), P("y", "x")):
            x = gs.device_put(value, on(spec))
            for out in (None, P("x"), P(None, "x"), P(None, "y"), P("y", "x"), P()):
                sharding = None if out is None else on(out)
                made = [gs.numpy.sum(x, axis=0, out_sharding=sharding) for _ in range(2)]
                others = [gs.device_put(np.full(value.shape, -1.0), on(spec)) for _ in range(3)]
                for one in made:
                    np.testing.assert_array_equal(np.asarray(one), value.sum(0))
                del others


def test_small_results_are_charged_as_long_as_an_array_has_them() -> None:
    with testing.runtime(backend="host", host_devices=8) as runtime:
        x = gs.device_put(np.arange(64.0).reshape(8, 8), on(P("x", "y")))
        gc.collect()
        before = runtime.claimed_bytes()
        made = [x + x, gs.numpy.divmod(x, 3), x.sum(0), x.argmax(), x.reshape(4, 16), x.T]
        results = [made[0], *made[1], *made[2:]]
        held = sum(result.on_device_size_in_bytes() for result in results)
        one_each = 5 * 64 * 8 + 8 * 8 + 8  # replicas share
        assert runtime.claimed_bytes() - before == one_each <= held
        del made, results
        gc.collect()
        assert runtime.claimed_bytes() == before


def test_several_results_are_charged_each_as_long_as_an_array_has_it() -> None:
    with testing.runtime(host_devices=8, small_bytes=0) as runtime:
        x = gs.device_put(np.arange(64.0).reshape(8, 8), on(P("x", "y"))).block_until_ready()
        gc.collect()
        before = runtime.claimed_bytes()
        results = list(gs.numpy.divmod(x, 3.0))
        for left in (2, 1, 0):
            gc.collect()
            assert runtime.claimed_bytes() - before == left * x.nbytes
            if results:
                results.pop().block_until_ready()


def test_sums_that_are_scattered_keep_the_memory_of_their_parts() -> None:
    value = np.arange(8 * 16.0).reshape(8, 16)
    for seed in range(12):
        settings = {"inline_bytes": 0, "host_devices": 8, "host_domains": 8}
        with late_devices(seed, **settings):
            x = gs.device_put(value, on(P("x", "y")))
            for _ in range(2):
                made = gs.numpy.sum(x, axis=0, out_sharding=on(P(("y", "x"))))
                np.testing.assert_array_equal(np.asarray(made), value.sum(0))


def test_what_reads_much_does_not_run_in_the_caller() -> None:
    with testing.runtime(host_devices=8, inline_bytes=1 << 15) as runtime:
        x = gs.device_put(np.ones((1024, 512)), on(P("x", "y")))
        x.block_until_ready()
        before = sum(stream.issued for stream in runtime.streams)
        total = x.sum()
        assert sum(stream.issued for stream in runtime.streams) - before >= 8
        assert float(total) == 1024 * 512


def test_small_operations_wait_for_no_submission_of_another_thread() -> None:
    with testing.runtime(backend="host", host_devices=8) as runtime:
        x = gs.device_put(np.arange(64.0).reshape(8, 8), on(P("x", "y")))
        x + x  # so that the program is there
        inside, through = threading.Event(), threading.Event()

        def step() -> bool:
            inside.set()
            return through.wait(20)

        with ThreadPoolExecutor(1) as pool:
            busy = pool.submit(runtime.run_locked, step)
            inside.wait()
            made = [x + x for _ in range(10)]
            through.set()
            assert busy.result()
        assert all(np.array_equal(y, 2 * np.asarray(x)) for y in made)


def test_statistics_know_every_small_result_though_none_takes_the_lock() -> None:
    with testing.runtime(host_devices=1) as runtime:
        device = runtime.devices[0]
        x = gs.device_put(np.arange(64.0), device)
        x + x
        before = device.memory_stats()
        kept = [x + x for _ in range(100)]
        del kept[50:]
        kept += [x + x for _ in range(20)]
        after = device.memory_stats()
        assert after["num_allocs"] == before["num_allocs"] + 120
        assert after["bytes_in_use"] == before["bytes_in_use"] + 70 * x.nbytes
        assert after["peak_bytes_in_use"] == before["bytes_in_use"] + 100 * x.nbytes


def test_the_caller_writes_what_takes_less_time_than_a_hand_off() -> None:
    with testing.runtime(backend="host", host_devices=8, inline_bytes=1 << 13) as runtime:
        place = runtime.devices[3]

        def handed_off(make: Callable[[], gs.Array]) -> int:
            before = place.stream.issued
            make().block_until_ready()
            return place.stream.issued - before

        assert handed_off(lambda: gs.numpy.arange(1 << 13, dtype="d", device=place)) == 0
        assert handed_off(lambda: gs.numpy.arange((1 << 13) + 1, dtype="d", device=place)) == 1
        x = gs.numpy.ones(1 << 11, dtype="d", device=place)
        assert handed_off(lambda: -x) == 1  # others may have work, too


def test_every_result_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks of `GPUSHARD_ENABLE_CHECKS` see what each operation makes."""
    seen = []
    with testing.runtime(enable_checks=True):
        x = gs.device_put(np.ones(8))
        monkeypatch.setattr(ShardedBuffer, "check", lambda buffer: seen.append(buffer))
        made = [x + 1, x * 2]
        assert [array._held().buffer for array in made] == seen
