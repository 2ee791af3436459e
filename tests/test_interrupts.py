"""Ctrl-C at any place: no stuck stream, no wrong value, no memory lost. Other code there, too.

`python -m tests.stress interrupts --everywhere` takes every place; here a seed takes some.
"""

from __future__ import annotations

import gc
import random
import sys
import threading
from unittest.mock import ANY

import numpy as np
import pytest

import gpushard as gs
from gpushard._cache import BoundedCache
from gpushard.testing import runtime
from gpushard.testing.deferred import deferred
from tests.share import some
from tests.stress.cases import CASES, bench_of, interrupt, places, visit
from tests.stress.interrupts import interrupt_for_real

PLACES = some(7, 25)

VISITED = [case for case in CASES if "memory_limit" not in case.settings]
"""What other code may come into: where memory is short its arrays might be too many."""


@pytest.mark.one_of(2)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
def test_an_interrupt_anywhere_leaves_everything_right(case, twice):
    chosen = random.Random(case.name)
    struck = 0
    with bench_of(case) as bench:
        count = places(case, bench)
        for _ in range(PLACES):
            again = chosen.choice((1, 2, 3, 5, 8, 20, 60)) if twice else None
            interrupter = interrupt(case, bench, chosen.randint(1, count), again)
            struck += len(interrupter.raised)
    assert struck >= PLACES // 2


def test_signals_at_random_moments():
    assert interrupt_for_real(count=300, seed=1).interrupts == 300


@pytest.mark.one_of(2)
@pytest.mark.parametrize("case", VISITED, ids=lambda case: case.name)
def test_a_signal_handler_that_uses_the_library_gets_a_value_or_a_clear_error(case):
    with bench_of(case) as bench:
        visits, refused = visit(case, bench, 11, finalizer=False)
    assert visits >= refused


@pytest.mark.one_of(2)
@pytest.mark.parametrize("case", VISITED, ids=lambda case: case.name)
def test_a_finalizer_that_uses_the_library_runs_wherever_a_collection_may_start(case):
    with bench_of(case) as bench:
        assert visit(case, bench, 41, finalizer=True) == (ANY, 0)


def test_handlers_and_finalizers_do_come_in_the_middle_of_submissions():
    case = next(case for case in VISITED if case.name == "reshard on streams")
    with bench_of(case) as bench:
        visits, refused = visit(case, bench, 5, finalizer=False)
        assert 0 < refused < visits
        assert visit(case, bench, 41, finalizer=True)[0] > 0


class Finalized:
    """In a cycle, with a finalizer that needs more memory than there is, and gives up its own."""

    def __init__(self, held, results):
        self.cycle, self.held, self.results = self, held, results

    def __del__(self):
        with pytest.raises(gs.errors.OutOfMemoryError):  # it looks for room in a search for room
            gs.device_put(np.zeros(1024), gs.devices()[0])
        self.held.delete()
        self.results.append((gs.device_put(np.arange(64), gs.devices()[0]) + 1).tolist())


def test_finalizers_run_while_memory_is_short():
    results = []
    with runtime(host_devices=1, small_bytes=0, memory_limit=1 << 11):
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                Finalized(gs.device_put(np.zeros(64), gs.devices()[0]), results)
            kept = gs.device_put(np.ones(64), gs.devices()[0])
            x = gs.device_put(np.zeros(192), gs.devices()[0])
        finally:
            gc.enable()
        assert np.array_equal(x, np.zeros(192)) and np.array_equal(kept, np.ones(64))
    assert results == [list(range(1, 65))] * 3


def test_a_finalizer_that_a_worker_runs_is_refused_a_value_that_is_not_there(monkeypatch):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: unraisable.append(error.exc_value))
    with runtime(host_devices=1, host_workers=1, inline_bytes=0, small_bytes=0):
        x = gs.device_put(np.zeros(64), gs.devices()[0])
        later = []

        class Waits:
            def __del__(self):
                np.asarray(later[0])

        def work(shard):
            started.wait()
            Waits()
            return shard + 1

        started = threading.Event()
        first = deferred(x, work)
        later.append(first + 1)
        started.set()
        assert np.array_equal(later[0], np.full(64, 2.0))
    assert [type(error) for error in unraisable] == [gs.errors.ReentrantCallError]


def test_a_cache_leaves_out_what_comes_in_the_middle_of_a_change():
    cache = BoundedCache(limit=100)

    class Key:
        def __hash__(self):
            cache.put("within", "lost", nbytes=10)
            return 0

    cache.put(Key(), "kept", nbytes=10)
    assert (len(cache), cache.nbytes) == (1, 10)


def test_a_cache_that_is_emptied_leaves_out_what_finalizers_put_in_meanwhile():
    cache = BoundedCache(limit=100)

    class Value:
        def __del__(self):
            cache.put("within", "lost", nbytes=10)

    cache.put("a key", Value(), nbytes=10)
    cache.clear()
    assert (len(cache), cache.nbytes) == (0, 0)
