"""The runtime object: settings, reclaiming memory, statistics."""

from __future__ import annotations

import functools
import gc
import threading

import numpy as np
import pytest

import gpushard as gs
from gpushard._movement.host_staging import slot_in
from gpushard._runtime import runtime as runtime_module
from gpushard._runtime.launch import room_on
from gpushard._runtime.pool import size_class
from gpushard.testing import runtime, simulated
from gpushard.testing.programs import check_nothing_left


def test_runtimes_of_their_own_do_not_touch_the_current_one():
    before = gs.devices()
    with runtime(host_devices=3, host_domains=3) as rt:
        assert gs.device_count() == 3
        assert [d.memory_domain for d in rt.devices] == [0, 1, 2]
    assert gs.devices() == before


def test_out_of_memory_names_everything_and_the_next_smaller_call_works():
    with runtime(host_devices=1, memory_limit=10_000) as rt:
        kept = rt.commit(lambda: rt.claim(room_on(rt.devices[0], (6000,))))
        with pytest.raises(gs.errors.OutOfMemoryError) as caught:
            rt.commit(lambda: rt.claim(room_on(rt.devices[0], (5000,))))
        error = caught.value
        assert (error.nbytes, error.in_use, error.limit) == (5000, 6000, 10_000)
        assert error.device == "CpuDevice(id=0)" and "10,000" in str(error)
        assert isinstance(error, MemoryError)
        smaller = rt.commit(lambda: rt.claim(room_on(rt.devices[0], (4000,))))
        assert smaller.memory.nbytes == 4000
        del kept
        again = rt.commit(lambda: rt.claim(room_on(rt.devices[0], (6000,))))
        assert again.memory.nbytes == 6000


def test_out_of_memory_names_the_five_largest_arrays():
    with runtime(host_devices=1, memory_limit=10_000):
        arrays = [gs.device_put(np.zeros(n)) for n in (8, 64, 16, 128, 24, 32, 40)]
        with pytest.raises(gs.errors.OutOfMemoryError) as caught:
            gs.numpy.zeros(9_000)
        sizes = [8 * n for n in (128, 64, 40, 32, 24)]
        assert caught.value.largest == [f"float64[{n // 8}] {n:,} bytes" for n in sizes]
        del arrays


@pytest.mark.parametrize("wrap", [lambda f: f, gs.jit], ids=["eager", "jit"])
@pytest.mark.parametrize(
    ("name", "call", "gathered"),
    [
        ("matmul", lambda x: x @ x, True),
        ("inv", gs.numpy.linalg.inv, True),
        ("sort", lambda x: gs.numpy.sort(x.ravel()), True),
        ("add", lambda x: x[:, None] + x, False),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_out_of_memory_names_the_operation_and_what_it_gathers(wrap, name, call, gathered):
    with runtime(host_devices=8, host_domains=8, memory_limit=30_000):
        x = gs.numpy.full(
            (64, 64), 1.0, device=gs.NamedSharding(gs.make_mesh((8,), "x"), gs.P("x"))
        )
        with pytest.raises(gs.errors.OutOfMemoryError) as caught:
            wrap(call)(x).block_until_ready()
        error = caught.value
        assert error.limit == 30_000 and error.operation and "room for" in str(error)
        if gathered:
            assert f"{name} gathers its operand of shape" in error.moves in str(error)
            assert "Try: " in str(error)
        else:
            assert error.moves is None and error.operation == name
        assert np.asarray(x + 1).sum() == 2 * 64 * 64


def test_a_child_of_a_thread_in_a_step_collects_again():
    with runtime(host_devices=1) as rt:
        before = gc.get_threshold()

        def step():
            rt.renew_locks(torn=False)
            assert gc.get_threshold()[0] == 0
            with pytest.raises(gs.errors.ReentrantCallError):
                rt.run_locked(lambda: None)
            rt.renew_locks(torn=True)
            assert gc.get_threshold() == before
            rt.run_locked(lambda: None)  # its thread is in no step
            assert not rt._cut_short

        rt.run_locked(step)
        assert gs.device_put(np.ones(3)).tolist() == [1, 1, 1]


def test_a_child_of_a_thread_about_to_step_collects_as_its_parent():
    before = gc.get_threshold()
    with runtime(host_devices=1) as rt:
        try:
            for own in before[0] + 1, before[0] + 2:
                gc.set_threshold(own)
                rt.renew_locks(torn=False)
                assert not rt._cut_short
                rt.renew_locks(torn=True)
                assert gc.get_threshold()[0] == own
                assert rt._cut_short  # whoever had the lock may have been in the middle
                rt.renew_locks(torn=False)
                assert rt._cut_short
                rt.run_locked(lambda: None)
        finally:
            gc.set_threshold(*before)


def test_a_failed_submission_gives_back_what_it_took():
    with runtime(host_devices=2, memory_limit=10_000) as rt:

        def step():
            return [rt.claim(room_on(rt.devices[i % 2], (4000,))) for i in range(8)]

        with pytest.raises(gs.errors.OutOfMemoryError):
            rt.commit(step)
        assert [d.memory_stats()["bytes_in_use"] for d in rt.devices] == [0, 0]


def test_memory_in_a_garbage_cycle_is_found_before_giving_up():
    with runtime(host_devices=1, memory_limit=10_000) as rt:
        cycle = [rt.commit(lambda: rt.claim(room_on(rt.devices[0], (8000,))))]
        cycle.append(cycle)
        del cycle
        claim = rt.commit(lambda: rt.claim(room_on(rt.devices[0], (8000,))))
        assert claim.memory.nbytes == 8000


def test_a_pending_free_of_another_size_is_waited_for_when_memory_is_short():
    with runtime(host_devices=1, memory_limit=8192) as rt:
        device, gate = rt.devices[0], threading.Event()
        claim = rt.commit(lambda: rt.claim(room_on(device, (8000,))))
        hold = functools.partial(rt.submit, device.stream, "hold", gate.wait, [claim.memory], [])
        rt.commit(hold)
        del claim, hold
        threading.Timer(0.05, gate.set).start()
        other = rt.commit(lambda: rt.claim(room_on(device, (2000,))))
        assert gate.is_set()
        assert other.memory.nbytes == 2000


def test_statistics_follow_allocations():
    with runtime(host_devices=2) as rt:
        device = rt.devices[1]
        counts = {name: n for name, n in device.memory_stats().items() if name != "bytes_limit"}
        assert set(counts.values()) == {0}
        claim = rt.commit(lambda: rt.claim(room_on(device, (1000,))))
        stats = device.memory_stats()
        assert stats["bytes_in_use"] == stats["peak_bytes_in_use"] == 1000
        assert stats["num_allocs"] == 1 and stats["largest_alloc_size"] == 1000
        assert stats["pool_bytes"] == size_class(1000) and stats["pool_free_bytes"] == 0
        del claim
        stats = device.memory_stats()
        assert stats["bytes_in_use"] == 0 and stats["peak_bytes_in_use"] == 1000
        assert stats["pool_free_bytes"] == size_class(1000)
        assert rt.devices[0].memory_stats()["num_allocs"] == 0


@pytest.mark.parametrize(
    ("nbytes", "capacity"),
    [(1, 64), (63, 64), (64, 64), (65, 128), (128, 128), (129, 256), (1 << 20, 1 << 20)],
)
def test_slots_have_few_sizes(nbytes, capacity):
    """They are powers of two, so that most are used again."""
    with runtime(host_devices=1) as rt:
        claim = rt.commit(lambda: rt.claim(slot_in(rt.domains[0], nbytes, None)))
        assert claim.memory.nbytes == capacity


def test_an_emptied_cache_says_what_it_gave_back():
    with runtime(host_devices=2, host_domains=2) as rt:
        rt.empty_cache()
        claims = [rt.commit(lambda d=d: rt.claim(room_on(d, (1000,)))) for d in rt.devices]
        assert rt.empty_cache() == 0
        del claims[1]
        assert rt.empty_cache() == size_class(1000)
        del claims
        assert rt.empty_cache() == size_class(1000) and rt.empty_cache() == 0


def test_arrays_that_are_gone_are_forgotten_and_no_others(monkeypatch):
    monkeypatch.setattr(runtime_module, "_MOST_DEAD", 6)
    with runtime(host_devices=1) as rt:
        kept = [gs.device_put(np.ones(n)) for n in (1, 2, 3)]
        for _ in range(50):
            gs.device_put(np.ones(4))
            assert len(rt._arrays) <= 2 * (len(kept) + 1) + 6
        assert rt.live_arrays() == kept


def test_waits_that_are_covered_are_left_out():
    with runtime(host_devices=2, host_workers=2) as rt:
        first, second = (device.stream for device in rt.devices)
        gate = threading.Event()
        claim = rt.commit(lambda: rt.claim(room_on(rt.devices[0], (8,))))
        items = []
        enqueue = rt.backend.enqueue
        rt.backend.enqueue = lambda item: (items.append(item), enqueue(item))
        rt.commit(lambda: rt.submit(first, "write", gate.wait, [], [claim.memory]))
        for _ in range(2):
            rt.commit(lambda: rt.submit(second, "read", lambda: None, [claim.memory], []))
        assert [item.waits for item in items] == [(), ((first, 1),), ()]
        gate.set()
        second.synchronize(2)
        rt.commit(lambda: rt.submit(first, "overwrite", lambda: None, [], [claim.memory]))
        assert items[-1].waits == ()  # the readers are known to be done


def test_a_full_queue_is_waited_for_before_anything_is_submitted():
    with simulated(host_devices=2, host_domains=2, queue_limit=3, exact=True) as rt:
        rt.sim.schedule._progress = 0  # only who waits makes it go on
        stream, most = rt.devices[0].stream, []

        def step():
            rt.submit(stream, "work", lambda: None, [], [])
            most.append(stream.issued - rt.sim.schedule.finished(stream))

        for _ in range(10):
            rt.commit(step, [stream])
        assert max(most) == 3
        assert stream.issued == 10


def test_nobody_waits_forever_for_an_item_that_an_interrupt_kept_out_of_its_queue():
    with runtime(host_devices=1) as rt:
        stream, enqueue = rt.devices[0].stream, rt.backend.enqueue

        def interrupted(item):
            rt.backend.enqueue = enqueue
            raise KeyboardInterrupt

        memory = rt.commit(lambda: rt.claim(room_on(rt.devices[0], (8,)))).memory
        rt.backend.enqueue = interrupted
        with pytest.raises(KeyboardInterrupt):
            rt.commit(lambda: rt.submit(stream, "work", lambda: None, [], [memory]))
        assert stream.issued == 1
        # Whoever takes the lock next makes everything right.
        waiting = threading.Thread(target=check_nothing_left, args=(rt,), daemon=True)
        waiting.start()
        waiting.join(timeout=20)
        assert not waiting.is_alive()
        assert stream.finished(1)


def test_what_a_step_took_before_it_was_interrupted_comes_back():
    with runtime(host_devices=1) as rt:
        pool = rt.devices[0].domain.pool

        def interrupted():
            pool.take((), 1000, None)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            rt.commit(interrupted)
        rt.commit(lambda: None)
        assert pool.free == pool.total == size_class(1000)


def test_no_collection_starts_in_a_step_and_who_switches_collections_off_finds_them_off():
    starts = []
    with runtime() as rt:
        threshold = gc.get_threshold()

        def step():
            before = len(starts)
            garbage = [[] for _ in range(20 * threshold[0])]
            seen.append((len(starts) - before, gc.isenabled(), len(garbage)))
            gc.disable()  # as another thread may, at any time

        seen = []
        gc.callbacks.append(lambda phase, info: starts.append(phase))
        try:
            rt.run_locked(step)
            off = not gc.isenabled()
        finally:
            gc.callbacks.pop()
            gc.enable()
        assert seen == [(0, True, 20 * threshold[0])] and off
        assert gc.get_threshold() == threshold


def test_steps_of_two_runtimes_at_once_leave_collections_as_they_were():
    before, inside, go_on = gc.get_threshold(), threading.Event(), threading.Event()
    with runtime() as one, runtime() as other:

        def step():
            inside.set()
            assert go_on.wait(20)

        thread = threading.Thread(target=other.run_locked, args=(step,))

        def first():
            thread.start()
            assert inside.wait(20)

        one.run_locked(first)
        go_on.set()
        thread.join()
    assert gc.get_threshold() == before
