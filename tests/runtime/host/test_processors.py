"""Worker threads on different processors."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import threading
from typing import Any

import pytest

from gpushard._runtime.host import processors
from gpushard._runtime.host.processors import Processors
from gpushard._runtime.host.workers import Workers

Moves = list[set[int]]


@pytest.fixture
def moves(monkeypatch: pytest.MonkeyPatch) -> Moves:
    """Let all threads be on processor 4, of 4 and 7; return where they are allowed to run."""
    seen: Moves = []
    monkeypatch.setattr(processors, "_current", lambda: 4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {4, 7}, raising=False)
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, to: seen.append(to), raising=False)
    return seen


def on_thread(function: Any) -> None:
    """Call a function on a thread of its own; threads that are over have given up their ident."""
    threads.append(concurrent.futures.ThreadPoolExecutor(1))
    threads[-1].submit(function).result()


threads: list[concurrent.futures.ThreadPoolExecutor] = []


@pytest.fixture(autouse=True)
def ended_threads() -> Any:
    yield
    while threads:
        threads.pop().shutdown()


def test_the_second_worker_on_a_processor_moves_and_may_be_moved_again(moves: Moves) -> None:
    awake = Processors()
    on_thread(awake.enter)
    assert moves == []
    on_thread(awake.enter)
    assert moves == [{7}, {4, 7}]
    on_thread(awake.enter)  # there is no third processor
    assert moves == [{7}, {4, 7}]


def test_a_worker_that_sleeps_has_no_processor(moves: Moves) -> None:
    awake = Processors()

    def wake_and_sleep() -> None:
        awake.enter()
        awake.leave()

    on_thread(wake_and_sleep)
    on_thread(awake.enter)
    assert moves == []


def test_a_worker_moves_away_from_a_thread_that_shares_work(moves: Moves) -> None:
    awake = Processors()
    on_thread(awake.begin)
    assert moves == []  # threads of the user stay where they are
    on_thread(awake.enter)
    assert moves == [{7}, {4, 7}]


def test_threads_are_noted_while_they_share_work(moves: Moves) -> None:
    workers = Workers(2)
    try:
        awake, seen = workers._processors, []
        for fails in (False, True):

            def part(fails: bool = fails) -> None:
                seen.append(awake._sharing.copy())
                assert not fails

            with pytest.raises(AssertionError) if fails else contextlib.nullcontext():
                workers.share([part])
        assert seen == [{threading.get_ident(): 4}] * 2
        assert awake._sharing == {}
    finally:
        workers.close()


def test_a_worker_stays_where_processors_cannot_be_chosen(
    moves: Moves, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: int, to: set[int]) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "sched_setaffinity", refuse, raising=False)
    awake = Processors()
    on_thread(awake.enter)
    on_thread(awake.enter)
    monkeypatch.setattr(processors, "_current", lambda: -1)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    on_thread(awake.enter)
    assert processors._find_current()() == -1  # as on macOS


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux alone has affinities")
def test_workers_may_run_everywhere_after_they_moved() -> None:
    allowed = os.sched_getaffinity(0)
    assert processors._find_current()() in range(os.cpu_count() or 1)
    awake, found = Processors(), []

    def enter() -> None:
        awake.enter()
        found.append(os.sched_getaffinity(0))

    for _ in range(4):
        on_thread(enter)
    assert found == [allowed] * 4
