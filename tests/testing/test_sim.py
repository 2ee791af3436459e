"""The simulated backend: late, repeatable, and merciless to what is used after its release."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import gpushard as gs
from gpushard._runtime.item import Item
from gpushard._runtime.launch import room_on
from gpushard.testing import simulated
from gpushard.testing.sim import DeadlockError, StuckError
from gpushard.testing.sim.backend import POISON
from gpushard.testing.topology import Topology, nvlink

STREAMS = {"inline_bytes": 0, "small_bytes": 0, "host_devices": 2, "host_domains": 2}


def quiet(**more):
    """A runtime on which nothing runs until somebody waits, and nothing fails."""
    context = simulated(seed=0, exact=True, host_readable=True, **STREAMS, **more)

    class Quiet:
        def __enter__(self):
            runtime = context.__enter__()
            runtime.sim.schedule._progress = 0
            runtime.sim.failing = 0
            return runtime

        def __exit__(self, *error):
            return context.__exit__(*error)

    return Quiet()


def test_nothing_runs_until_somebody_waits():
    with quiet() as rt:
        x = gs.device_put(np.arange(100.0), rt.devices[0])
        y = gs.device_put(x, rt.devices[1])
        assert not y.is_ready()
        assert rt.sim.schedule.last(rt.domains[1].copy) == 1
        assert np.array_equal(np.asarray(y), np.arange(100.0))
        assert y.is_ready()


def test_memory_is_poisoned_when_its_last_user_is_done_and_not_before():
    with quiet() as rt:
        x = gs.device_put(np.arange(100.0), rt.devices[0])
        y = gs.device_put(x, rt.devices[1])
        raw = x._live().claims[0].memory.raw
        del x
        rt.claimed_bytes()  # accounts for what was dropped
        assert np.array_equal(raw.view(np.float64)[:100], np.arange(100.0))
        y.block_until_ready()
        assert (raw == POISON).all()
        assert np.array_equal(np.asarray(y), np.arange(100.0))


def test_streams_that_wait_for_one_another_are_stuck_and_say_so():
    with quiet() as rt:
        first, second = (device.stream for device in rt.devices)
        for stream, other in ((first, second), (second, first)):
            stream.issued = 1
            rt.sim.enqueue(Item("wait", lambda: None, stream, 1, ((other, 1),)))
        with pytest.raises(StuckError, match="never gets to a tick"):
            first.synchronize(1)
        rt.sim.reseed(0)  # nothing is left to run


def test_threads_that_wait_for_each_others_locks_are_found_out():
    with simulated(seed=0, **STREAMS) as rt:
        locks = [rt.backend.new_lock() for _ in range(2)]
        rt.sim.threads._switching = 1.0

        def take(first, second):
            for _ in range(100):
                with first, second:
                    pass

        with pytest.raises(DeadlockError):
            rt.sim.threads.run([lambda: take(*locks), lambda: take(*reversed(locks))])


@pytest.mark.parametrize("seed", range(5))
def test_who_holds_a_lock_may_take_it_again_and_others_wait_for_its_last_release(seed):
    with simulated(seed=seed, **STREAMS) as rt:
        lock, order = rt.backend.new_lock(), []
        rt.sim.threads._switching = 0.5

        def take(name):
            with lock:
                order.append(name)
                with lock:
                    order.append(name)
                order.append(name)

        rt.sim.threads.run([functools.partial(take, name) for name in range(2)])
        assert order in ([0] * 3 + [1] * 3, [1] * 3 + [0] * 3)


@pytest.mark.parametrize("seed", range(5))
def test_one_thread_runs_at_a_time_and_the_seed_says_which(seed):
    orders = []
    for _ in range(2):
        with simulated(seed=seed, **STREAMS) as rt:
            order = []

            def work(name, order=order, turn=rt.sim.turn):
                for _ in range(50):
                    order.append(name)
                    turn()

            rt.sim.threads._switching = 0.5
            rt.sim.threads.run([lambda n=n: work(n) for n in "abc"])
            orders.append("".join(order))
    assert orders[0] == orders[1]
    assert {orders[0].count(name) for name in "abc"} == {50}
    assert "ab" in orders[0] or "ba" in orders[0]


def test_what_a_thread_raises_reaches_the_caller_and_stops_the_others():
    with simulated(seed=1, **STREAMS) as rt:

        def fail():
            raise KeyError("mine")

        def endless():
            while True:
                rt.sim.turn()

        with pytest.raises(KeyError, match="mine"):
            rt.sim.threads.run([endless, fail])


def test_going_round_in_circles_ends():
    with quiet() as rt, pytest.raises(StuckError, match="without an end"):
        while True:
            rt.sim.turn()


def test_virtual_time_is_that_of_the_busiest_resource():
    bus = {(a, b): ("bus",) if a != b else (f"memory {b}",) for a in (0, 1) for b in (0, 1)}
    slow = Topology("bus", 2, {"bus": 100.0, "memory 0": 400.0, "memory 1": 400.0}, bus, 1.0)
    with quiet(topology=slow) as rt:
        first, second = rt.devices
        x = gs.device_put(np.zeros(100, np.uint8), first).block_until_ready()
        start = rt.sim.timing.now
        y = gs.device_put(x, second)  # a second for 100 bytes, after a second of latency
        z = gs.device_put(y, first)  # the same again, after it
        z.block_until_ready()
        assert rt.sim.timing.now - start == pytest.approx(4.0)


def test_on_a_machine_what_can_start_first_runs_first():
    order = []
    with quiet(topology=nvlink(2)) as rt:
        first, second = (device.stream for device in rt.devices)
        for stream, name in ((first, "a"), (first, "b"), (second, "c")):
            claim = rt.commit(lambda: rt.claim(room_on(rt.devices[0], (8,))))
            run = functools.partial(order.append, name)
            rt.submit(stream, name, run, [], [claim.memory])
        rt.sim.schedule._ways = [rt.sim.schedule._earliest]
        first.synchronize(2)
    assert order in (["a", "c", "b"], ["c", "a", "b"])
