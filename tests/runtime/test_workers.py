"""The host backend: order, parking, sharing, failures."""

from __future__ import annotations

import collections
import dataclasses
import functools
import gc
import queue
import random
import threading
import types

import numpy as np
import pytest

import gpushard as gs
from gpushard import numpy as gnp
from gpushard._ops.bind import bind
from gpushard._ops.table.elementwise import ufunc_row
from gpushard._runtime.failures import WorkFailure
from gpushard._runtime.host import backend as host_backend
from gpushard._runtime.host import workers as host_workers
from gpushard._runtime.host.backend import batches, cut
from gpushard._runtime.host.workers import Workers
from gpushard._runtime.item import Item
from gpushard._runtime.launch import room_on
from gpushard._runtime.work_sharing import Pace
from gpushard.config import Settings
from gpushard.testing import runtime
from tests.share import seeds
from tests.stress.schedules import run_schedule


def submit(rt, stream, run, reads=(), writes=()):
    rt.commit(lambda: rt.submit(stream, "work", run, reads, writes))
    return stream.issued


def claim(rt, device=0, nbytes=8):
    return rt.commit(lambda: rt.claim(room_on(rt.devices[device], (nbytes,))))


def test_everybody_is_woken_wherever_threads_are_switched_and_interrupted():
    assert sum(run_schedule(seed) for seed in range(8, 18)) > 0


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_random_programs_run_in_an_order_that_every_dependency_allows(workers):
    rng = random.Random(workers)
    with runtime(host_devices=4, host_workers=workers) as rt:
        claims = [claim(rt, device=i % 4) for i in range(6)]
        log: list[int] = []
        writers: dict[int, int] = {}
        readers: dict[int, list[int]] = {i: [] for i in range(6)}
        before: dict[int, set[int]] = {}
        for number in range(400):
            reads = rng.sample(range(6), rng.randint(0, 2))
            writes = rng.sample([i for i in range(6) if i not in reads], rng.randint(0, 1))
            before[number] = {writers[i] for i in (*reads, *writes) if i in writers}
            for i in writes:
                before[number] |= set(readers[i])
            stream = rt.devices[rng.randrange(4)].stream
            submit(
                rt,
                stream,
                lambda number=number: log.append(number),
                [claims[i].memory for i in reads],
                [claims[i].memory for i in writes],
            )
            for i in reads:
                readers[i].append(number)
            for i in writes:
                writers[i], readers[i] = number, []
        for device in rt.devices:
            device.synchronize()
        assert sorted(log) == list(range(400))
        position = {number: at for at, number in enumerate(log)}
        for number, earlier in before.items():
            assert all(position[other] < position[number] for other in earlier)


def test_two_items_that_wait_for_each_other_to_start_both_finish():
    with runtime(host_devices=2) as rt:
        meeting = threading.Barrier(2)
        ticks = [submit(rt, device.stream, meeting.wait) for device in rt.devices]
        for device, tick in zip(rt.devices, ticks, strict=True):
            device.stream.synchronize(tick)
        assert not meeting.broken


def test_a_strand_that_waits_occupies_no_worker():
    with runtime(host_devices=3, host_workers=2) as rt:
        gate, ran = threading.Event(), threading.Event()
        held = claim(rt)
        submit(rt, rt.devices[0].stream, gate.wait, writes=[held.memory])
        for _ in range(5):
            submit(rt, rt.devices[1].stream, lambda: None, reads=[held.memory])
        tick = submit(rt, rt.devices[2].stream, ran.set)
        rt.devices[2].stream.synchronize(tick)
        assert ran.is_set() and not gate.is_set()
        gate.set()
        rt.devices[1].synchronize()


def test_a_strand_that_has_waited_is_called_once():
    """A worker that came to it once more would run its next item beside the one that runs."""
    with runtime(host_devices=3, host_workers=2) as rt:
        first, second, third = (device.stream for device in rt.devices)
        begun, gate, goes_on, ends, looked = (threading.Event() for _ in range(5))
        awaited, ran = claim(rt), []
        submit(rt, first, lambda: (begun.set(), gate.wait()), writes=[awaited.memory])
        begun.wait()
        submit(rt, second, lambda: (goes_on.set(), ends.wait()), [awaited.memory])
        submit(rt, second, lambda: ran.append(looked.is_set()))
        while not rt.backend.workers._strands[first].parked:
            gate.wait(0.001)
        gate.set()
        goes_on.wait()
        for _ in range(2):
            submit(rt, first, lambda: None)
        rt.devices[0].synchronize()
        submit(rt, third, looked.set)
        looked.wait()  # the other worker has taken whatever came before that
        assert ran == []
        ends.set()
        rt.devices[1].synchronize()
        assert ran == [True]


def test_a_failure_travels_through_data_and_stops_nothing_else():
    with runtime(host_devices=2) as rt:
        bad, copy, fine = (claim(rt) for _ in range(3))
        ran = []

        def fail():
            raise KeyError("why")

        stream = rt.devices[0].stream
        submit(rt, stream, fail, writes=[bad.memory])
        submit(rt, rt.devices[1].stream, lambda: ran.append(1), [bad.memory], [copy.memory])
        tick = submit(rt, stream, lambda: ran.append(2), writes=[fine.memory])
        stream.synchronize(tick)
        rt.devices[1].synchronize()
        assert ran == [2]
        assert fine.memory.error is None
        assert isinstance(copy.memory.error, WorkFailure)
        assert isinstance(copy.memory.error.cause, KeyError)
        assert copy.memory.error.cause.__traceback__ is None  # which would keep memory alive


def test_a_waiting_host_thread_is_released_by_its_own_tick_and_not_a_later_one():
    with runtime(host_devices=1, host_workers=2) as rt:
        gate = threading.Event()
        stream = rt.devices[0].stream
        first = submit(rt, stream, lambda: None)
        last = submit(rt, stream, gate.wait)
        stream.synchronize(first)
        assert not stream.finished(last)
        gate.set()
        stream.synchronize(last)
        assert stream.finished(last)


def test_shared_parts_all_run_once_and_an_error_is_raised_after_all_are_over():
    workers = Workers(3)
    try:
        counts = [0] * 50
        lock = threading.Lock()

        def part(i):
            with lock:
                counts[i] += 1
            if i == 7:
                raise ValueError(i)

        with pytest.raises(ValueError, match="7"):
            workers.share([lambda i=i: part(i) for i in range(50)])
        assert counts == [1] * 50
    finally:
        workers.close()


def test_shared_parts_run_at_the_same_time():
    workers, together = Workers(3), threading.Barrier(3)
    try:
        workers.share([lambda: together.wait(20)] * 3)
    finally:
        workers.close()


class Handover:
    """A mutex that the pausing thread gives to a worker, and that tells when it comes back."""

    def __init__(self, lock):
        self._lock, self._owner = lock, threading.current_thread()
        self.noting, self.back = threading.Event(), threading.Event()

    def __enter__(self):
        if threading.current_thread() is self._owner and self.noting.is_set():
            self.back.set()
        self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()
        if threading.current_thread() is self._owner:
            self.noting.wait(10)


class Noted(collections.deque):
    """What came up in a pause, noted no sooner than the pause is over, or about to be."""

    def append(self, task):
        self.mutex.noting.set()
        self.mutex.back.wait(10)
        super().append(task)


def test_what_a_worker_leaves_while_a_pause_ends_is_not_forgotten():
    with runtime(host_devices=1, host_workers=1) as rt:
        workers, stream, ran = rt.backend.workers, rt.devices[0].stream, threading.Event()
        tick = submit(rt, stream, lambda: None)
        stream.synchronize(tick)
        mutex = workers._mutex = Handover(workers._mutex)
        pause = workers.quiet()
        next(pause)
        workers._paused = Noted()
        workers._paused.mutex = mutex
        strand = workers._strands[stream]
        strand.queue.append(Item("work", ran.set, stream, tick + 1))
        workers._inbox.put(strand)
        pause.close()
        mutex.back.set()
        assert ran.wait(5)


def test_a_pause_begins_when_what_runs_has_ended():
    with runtime(host_devices=1, host_workers=1) as rt:
        workers, stream = rt.backend.workers, rt.devices[0].stream
        runs, goes_on, ended, found = threading.Event(), threading.Event(), [], []

        def work():
            runs.set()
            assert goes_on.wait(10)
            ended.append(True)

        def pause():
            pausing = workers.quiet()
            next(pausing)
            found.append(bool(ended))
            pausing.close()

        submit(rt, stream, work)
        assert runs.wait(10)
        pauses = threading.Thread(target=pause)
        pauses.start()
        while not (workers._pausing or found):
            pass
        goes_on.set()
        pauses.join()
        assert found == [True]


@pytest.mark.parametrize(
    ("cpus", "asked", "count"), [(None, None, 2), (1, None, 2), (3, None, 3), (5, 1, 1)]
)
def test_there_is_a_worker_for_each_processor_and_two_at_least(cpus, asked, count, monkeypatch):
    monkeypatch.setattr(host_backend.os, "cpu_count", lambda: cpus)
    backend = host_backend.HostBackend(Settings(backend="host", host_workers=asked))
    try:
        assert backend.workers.count == count == len(backend.workers._threads)
    finally:
        backend.close()


def test_closed_workers_end():
    workers = Workers(2)
    workers.close()
    assert not any(thread.is_alive() for thread in workers._threads)


def test_work_that_is_queued_behind_the_last_look_of_who_closes_fails():
    with runtime(host_devices=1, host_workers=1) as rt:
        (device,), workers, ran = rt.devices, rt.backend.workers, []
        submit(rt, device.stream, lambda: None)
        device.synchronize()

        class ClosesBefore(collections.deque):
            def append(self, item):
                workers.close()
                super().append(item)

        strand = workers._strands[device.stream]
        strand.queue = ClosesBefore()
        submit(rt, device.stream, lambda: ran.append(1))
        assert not strand.queue and not ran
        device.synchronize()


@pytest.mark.parametrize("round", seeds(20))
def test_work_given_while_workers_close_runs_in_order_or_fails(round):
    with runtime(host_devices=2, host_workers=2) as rt:
        chains = []
        started = threading.Semaphore(0)

        def work():
            for _ in range(30):
                first, second, ran = claim(rt, 0), claim(rt, 1), []
                one, other = (device.stream for device in rt.devices)
                submit(rt, one, lambda ran=ran: ran.append(1), [], [first.memory])
                submit(rt, other, lambda ran=ran: ran.append(2), [first.memory], [second.memory])
                chains.append((first, second, ran))
                started.release()

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(round):
            started.acquire()
        rt.close()
        for thread in threads:
            thread.join()
        for device in rt.devices:
            device.synchronize()
        assert len(chains) == 90
        for first, second, ran in chains:
            failed = [claim.memory.error is not None for claim in (first, second)]
            assert (ran, failed) in (
                ([1, 2], [False, False]),
                ([1], [False, True]),
                ([], [True, True]),
            )


def test_work_given_after_the_close_and_before_the_drop_does_not_overtake_what_it_needs():
    with runtime(host_devices=2, host_workers=1) as rt:
        workers, gate, ran = rt.backend.workers, threading.Event(), []
        workers.patience = 0.0
        first, second = claim(rt, 0), claim(rt, 1)
        hanging = rt.new_stream("hanging", 0)
        submit(rt, hanging, gate.wait, [], [claim(rt).memory])
        one, other = (device.stream for device in rt.devices)
        submit(rt, one, lambda: ran.append(1), [], [first.memory])  # no worker is left for it
        drop, calls = workers._drop_all, []

        def late():
            submit(rt, other, lambda: ran.append(2), [first.memory], [second.memory])

        def drop_late():
            calls.append(1)
            if len(calls) == 1:
                thread = threading.Thread(target=late)
                thread.start()
                thread.join()
            drop()

        workers._drop_all = drop_late
        rt.close()
        gate.set()
        assert ran == []
        assert first.memory.error is not None and second.memory.error is not None


class Inbox(queue.SimpleQueue):
    """Counts how often a worker is called."""

    calls = 0

    def put(self, task):
        self.calls += task is not None
        super().put(task)


class Given:
    """What streams and workers are given from now on, of a runtime with an `Inbox`."""

    def __init__(self, rt):
        self._rt = rt
        self._before = self._now()

    def _now(self):
        items = sum(stream.issued for stream in self._rt.streams)
        return items, self._rt.backend.workers._inbox.calls

    @property
    def items(self):
        return self._now()[0] - self._before[0]

    @property
    def calls(self):
        return self._now()[1] - self._before[1]


@pytest.fixture
def counted(monkeypatch):
    monkeypatch.setattr(host_workers, "SimpleQueue", Inbox)


def over_eight(value):
    return gs.device_put(value, gs.NamedSharding(gs.make_mesh((4, 2), ("x", "y")), gs.P("x", "y")))


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize(
    ("size", "calls"), [(64, 0), (128, 0), (1024, 1)], ids=["small", "few", "middle"]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_not_large_is_handed_to_no_device_and_one_worker_helps(size, calls, dtype):
    value = np.linspace(0, 1, size * size, dtype=dtype).reshape(size, size)
    with runtime(host_devices=8, host_workers=2) as rt:
        x = over_eight(value)
        for operation, wanted in (
            (lambda: x + x, value + value),
            (lambda: gnp.sin(x), np.sin(value)),
            (lambda: x.T, value.T),
            (lambda: gs.reshard(x, gs.NamedSharding(x.sharding.mesh, gs.P("y", "x"))), value),
            (lambda: x.sum(axis=0), value.sum(axis=0)),
        ):
            given = Given(rt)
            made = operation()
            assert made.is_ready()
            assert given.items == 0 and given.calls <= calls
            np.testing.assert_allclose(np.asarray(made), wanted, rtol=1e-4)


@pytest.mark.usefixtures("counted")
def test_what_is_large_is_handed_to_each_device_once():
    with runtime(host_devices=8, host_workers=2, inline_bytes=1 << 10) as rt:
        x = over_eight(np.ones((512, 512)))
        given = Given(rt)
        made = x + x
        assert given.items == 8 >= given.calls
        assert np.asarray(made).sum() == 2 * 512 * 512


@pytest.mark.usefixtures("counted")
def test_no_worker_is_called_to_a_strand_that_has_one_or_waits():
    with runtime(host_devices=2, host_workers=2) as rt:
        begun, gate, looked = threading.Event(), threading.Event(), threading.Event()
        stream, other = (device.stream for device in rt.devices)
        claims = [claim(rt), claim(rt)]
        submit(rt, stream, lambda: (begun.set(), gate.wait()), writes=[claims[0].memory])
        begun.wait()
        submit(rt, other, looked.set)
        submit(rt, other, lambda: None, [claims[0].memory], [claims[1].memory])
        looked.wait()
        while not rt.backend.workers._strands[stream].parked:
            gate.wait(0.001)
        given = Given(rt)
        for _ in range(50):
            submit(rt, stream, lambda: None)
            submit(rt, other, lambda: None)
        assert given.calls == 0
        gate.set()
        for device in rt.devices:
            device.synchronize()


def test_a_call_that_raises_in_the_caller_leaves_nothing_behind():
    row = dataclasses.replace(ufunc_row(np.negative), kernel=lambda xp, avals, params: no_room)
    with runtime(host_devices=8, small_bytes=0) as rt:
        x = over_eight(np.ones((64, 64)))
        before = rt.claimed_bytes()
        with pytest.raises(RuntimeError, match="no room"):
            bind(row, (x,))
        gc.collect()
        assert rt.claimed_bytes() == before


def no_room(x, out=None):
    out[...] = x
    raise RuntimeError("no room")


def test_pieces_of_a_cut_copy_tile_it():
    rng = np.random.default_rng(0)
    for _ in range(100):
        shape = tuple(rng.integers(1, 9, rng.integers(0, 4)))
        source = rng.random(shape)
        target = np.full(shape, np.nan)
        limit = int(rng.integers(1, 400))
        pieces = cut((target, source, 0), limit)
        assert all(to.nbytes <= max(limit, 8) for to, _, _ in pieces)
        assert len(pieces) <= 4 * source.nbytes / max(limit, 8) + 1
        for to, of, _ in pieces:
            assert np.isnan(to).all()  # none twice
            np.copyto(to, of)
        assert np.array_equal(target, source)
        groups = batches(pieces, 64)
        assert [p for group in groups for p in group] == pieces or not shape


@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.float64, np.complex128])
@pytest.mark.parametrize(
    ("shape", "order", "in_strips"),
    [
        ((1000, 1024), (1, 0), True),
        ((3, 257, 1024), (0, 2, 1), True),
        ((1024, 3, 129), (1, 2, 0), False),  # strides of no power of two
        ((1000, 1024), (0, 1), False),
        ((40, 64), (1, 0), False),
    ],
)
def test_transposes_whose_lines_evict_one_another_are_copied_in_strips(
    shape, order, in_strips, dtype, monkeypatch
):
    cut_up = []
    strips = host_backend._copy_strips
    monkeypatch.setattr(
        host_backend, "_copy_strips", lambda *boxes: (cut_up.append(boxes), strips(*boxes))
    )
    source = np.arange(np.prod(shape)).reshape(shape).astype(dtype).transpose(order)
    target = np.zeros(source.shape, dtype)
    with runtime(host_devices=1) as rt:
        rt.backend.copy_boxes([(target, source, 0)], 0)
    np.testing.assert_array_equal(target, source)
    assert bool(cut_up) == in_strips


@pytest.mark.parametrize(("least", "calls"), [(512, [8, 8]), (513, [])])
def test_large_boxes_are_copied_and_filled_in_parts_by_all(least, calls, monkeypatch):
    monkeypatch.setattr(host_backend, "SHARED_BYTES", least)
    monkeypatch.setattr(host_backend, "PART_BYTES", 64)
    shared, share = [], Workers.share
    monkeypatch.setattr(
        Workers, "share", lambda own, all: (shared.append(len(all)), share(own, all))
    )
    target, source = np.zeros((8, 8)), np.arange(64.0).reshape(8, 8)
    with runtime(host_devices=1, host_workers=2) as rt:
        rt.backend.copy_boxes([(target, source, 0)], 0)
        np.testing.assert_array_equal(target, source)
        rt.backend.fill_boxes([target[:3], target[3:]], np.float64(7), 0)
        assert (target == 7).all()
    assert shared == calls


def test_few_large_copies_are_grouped():
    boxes = [(np.zeros(n), np.zeros(n), 0) for n in (1, 2, 3, 1, 1, 1)]
    sizes = [[len(target) for target, _, _ in group] for group in batches(boxes, 24)]
    assert sizes == [[1, 2], [3], [1, 1, 1]]


def test_traffic_counts_every_byte_by_domain():
    with runtime(host_devices=2, host_domains=2) as rt:
        big = np.ones((3 << 20,), np.int32)
        rt.backend.copy_boxes([(np.empty_like(big), big, 1), (np.empty(4), np.ones(4), 0)], 0)
        assert rt.backend.traffic == {(1, 0): big.nbytes, (0, 0): 32}


def test_memory_is_aligned_and_views_are_dense():
    with runtime() as rt:
        for nbytes in (1, 100, 4096, 1 << 20):
            raw = rt.backend.allocate(0, nbytes)
            assert raw.ctypes.data % 64 == 0 and raw.nbytes == nbytes
        view = rt.backend.view(raw, (4, 5), np.dtype("f4"))
        assert view.flags.c_contiguous and np.shares_memory(view, raw)


def test_a_host_view_is_read_only_and_keeps_its_owner_alive():
    with runtime() as rt:

        class Owner:
            pass

        owner = Owner()
        watch = __import__("weakref").ref(owner)
        view = rt.backend.host_view(np.arange(4), owner)
        part = view[1:]
        del owner, view
        assert watch() is not None
        with pytest.raises(ValueError):
            part[0] = 1
        del part
        assert watch() is None


@pytest.fixture
def clock(monkeypatch):
    """A clock of which every look takes as long as `step`, and how many parts each job had."""
    made = types.SimpleNamespace(now=0.0, step=0.0, shared=[])
    share = Workers.share

    def look():
        made.now += made.step
        return made.now

    def counted(self, parts):
        made.shared.append(len(parts))
        share(self, parts)

    monkeypatch.setattr(host_backend.time, "perf_counter", look)
    monkeypatch.setattr(Workers, "share", counted)
    return made


def test_other_threads_are_called_where_what_is_left_takes_long(clock):
    ran = []
    calls = [functools.partial(ran.append, n) for n in range(5)]
    long, short = (
        host_backend.HAND_OFF * share for share in (0.26, 0.24)
    )  # of five, four are left
    with runtime(host_devices=2) as rt:
        pace = Pace()
        for clock.step, shared in (
            (long, [5]),  # the first calls are not measured
            (long, [4]),
            (short, [5]),  # what was long is measured rarely
            (short, []),
            (short, []),
            (long, [4]),
            (long, [5]),
            (long, [4]),
            (long, [5]),
            (long, [5]),
            (long, [5]),
            (long, [4]),
            *[(2 * host_backend.CERTAIN, [5])] * 200,  # even for threads that wait for one another
        ):
            clock.shared.clear()
            ran.clear()
            rt.backend.run_now(calls, [], [], pace)
            assert sorted(ran) == [0, 1, 2, 3, 4]
            assert clock.shared == shared


def test_calls_of_many_steps_are_shared_later(clock):
    clock.step = host_backend.HAND_OFF
    with runtime(host_devices=8, host_workers=2, inline_bytes=1 << 14, small_bytes=0):
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        x = gs.device_put(np.ones((512, 64)), gs.NamedSharding(mesh, gs.P("x", "y")))
        rows = gs.device_put(np.arange(512)[::-1].copy(), gs.NamedSharding(mesh, gs.P(("x", "y"))))
        for run, shared in (
            (lambda: -x, [7]),
            (lambda: x[rows], []),
            (lambda: x.at[rows].set(1), []),
        ):
            run().block_until_ready()
            clock.shared.clear()
            run().block_until_ready()
            assert [count for count in clock.shared if count > 1] == shared


def test_small_results_of_many_elements_are_shared(clock):
    clock.step = host_backend.HAND_OFF
    with runtime(host_devices=8, host_workers=2, inline_bytes=1 << 12):
        mesh = gs.make_mesh((8,), ("x",))
        sharding = gs.NamedSharding(mesh, gs.P("x"))
        large = gs.device_put(np.ones((256, 64)), sharding)
        few = gs.device_put(np.arange(128, dtype=np.float32), sharding)
        everywhere = gs.device_put(np.asarray(few), gs.NamedSharding(mesh, gs.P()))
        distances = gs.jit(lambda x, y: abs(x[:, None] - y).sum(1))
        for run, shared in (
            (lambda: large.sum(axis=1), [7]),
            (lambda: large[:16].sum(axis=1), []),
            (lambda: distances(few, everywhere), [7]),
        ):
            run().block_until_ready()
            clock.shared.clear()
            run().block_until_ready()
            assert [count for count in clock.shared if count > 1] == shared
