"""Pools, quotas, claims and clocked free blocks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpushard._runtime.claims import Claims
from gpushard._runtime.memory import Account
from gpushard._runtime.pool import NoRoomError, Pool, size_class
from gpushard._runtime.stream import Stream
from tests.runtime.test_stream import Queue
from tests.share import examples


class Bytes:
    """A store that has `room` bytes, or no end of them, and remembers what it heard."""

    listens = True

    def __init__(self, room=None):
        self.room, self.heard = room, []

    def allocate(self, domain, nbytes):
        if self.room is not None:
            if nbytes > self.room:
                raise MemoryError
            self.room -= nbytes
        return np.empty(nbytes, np.uint8)

    def free(self, raw):
        self.heard.append("free")
        if self.room is not None:
            self.room += raw.nbytes

    def released(self, raw, ticks):
        self.heard.append("released")

    def taken(self, raw):
        self.heard.append("taken")


def make_pool(limit=None, room=None):
    return Pool(Bytes(room), 0, limit)


@given(st.integers(0, 1 << 40))
def test_a_size_class_holds_the_size_and_wastes_an_eighth_at_most(nbytes):
    capacity = size_class(nbytes)
    assert capacity >= nbytes
    assert capacity <= max(64, nbytes + max(64, nbytes // 8))
    assert size_class(capacity) == capacity


@pytest.mark.parametrize("limit", [None, 100, 99])
def test_what_owns_its_bytes_is_counted_up_to_the_quota(limit):
    pool, account = make_pool(), Account("d", limit)
    pool.adopt(((account, 60),))
    if limit == 99:
        with pytest.raises(NoRoomError):
            pool.adopt(((account, 40),))
    else:
        pool.adopt(((account, 40),))
    assert account.in_use == (60 if limit == 99 else 100)


@examples(200)
@given(
    st.lists(
        st.tuples(st.sampled_from(["take", "drop", "trim"]), st.integers(0, 5000)), max_size=40
    ),
    st.sampled_from([None, 4096, 20_000]),
)
def test_accounts_and_totals_add_up(program, limit):
    pool, account, claims = make_pool(limit), Account("d", limit), Claims()
    held = []
    for action, number in program:
        if action == "take":
            try:
                held.append(claims.make(pool.take(((account, number),), number, None)))
            except NoRoomError:
                assert limit is not None
                assert account.in_use + number > limit or pool.total + number > limit
        elif action == "drop" and held:
            held.pop(number % len(held))
            claims.drain()
        elif action == "trim":
            pool.trim()
            assert pool.free == 0
        assert account.in_use == sum(claim.memory.nbytes for claim in held)
        assert account.peak >= account.in_use
        assert pool.total - pool.free == sum(claim.memory.capacity for claim in held)
        assert limit is None or pool.total <= limit
        assert all(claim.memory.raw.nbytes >= claim.memory.nbytes for claim in held)
    raws = [claim.memory.raw.ctypes.data for claim in held]
    assert len(set(raws)) == len(raws)  # no block is given out twice


ACTIONS = ["take", "take", "drop", "drop", "read", "write", "finish", "trim", "repair"]
FIRST = 16
"""So many free blocks that are waited for are looked at."""


@examples(400)
@given(
    st.lists(
        st.tuples(st.sampled_from(ACTIONS), st.integers(0, 50), st.integers(0, 3)), max_size=60
    ),
    st.sampled_from([None, 4096, 9000]),
)
@example([("take", 1, 1), ("write", 0, 1), ("drop", 0, 0), ("take", 1, 1)], None)
def test_free_blocks_are_taken_as_the_rules_say(program, limit):
    """First one that needs no wait, then new memory, then the one that was released first."""
    queue = Queue(exact=True)
    streams = [Stream(queue, name) for name in "abc"]
    pool, claims = make_pool(limit), Claims()
    held, free, most = [], [], 0

    def idle(block):
        return all(other.finished(tick) for other, tick in block.clock())

    def covered(block, stream):
        return idle(block) if stream is None else block.covered(stream)

    def check_given_back():
        listed = [pool._block(number) for number in pool._by_release()]
        assert all(idle(block) for block in free if block not in listed)
        free[:] = [block for block in free if block in listed]
        assert free == listed  # in order of release
        assert pool.free == sum(block.capacity for block in free)
        assert pool.total == pool.free + sum(claim.memory.capacity for claim in held)
        assert pool._idle_bytes == sum(block.capacity for block in pool._idle.values())

    for action, number, which in program:
        stream = [None, *streams][which]
        if action == "take":
            size = (50, 1000, 1024, 2000)[number % 4]
            capacity = size_class(size) if limit is None else size
            alike = [block for block in free if block.capacity == capacity]
            ready = [block for block in alike[:FIRST] if covered(block, stream)]
            leading = list(itertools.takewhile(idle, free))
            clocks = {id(block.raw): dict(block.clock()) for block in free}
            try:
                claim = claims.make(pool.take((), size, stream))
            except NoRoomError:
                assert limit is not None and not alike
                check_given_back()
                assert pool.total + capacity > limit and not any(map(idle, free))
                continue
            memory = claim.memory
            chosen = next((block for block in alike if block.raw is memory.raw), None)
            if chosen is None:
                assert not ready and not any(block in leading for block in alike)
            else:
                assert {**clocks[id(memory.raw)], **dict(memory.clock())} == clocks[id(memory.raw)]
                free.remove(chosen)
                if not covered(memory, stream):
                    assert chosen is alike[0] and not ready
                    assert limit is not None and pool.total + capacity > limit
                elif any(block in leading for block in alike):
                    assert idle(chosen)
            held.append(claim)
            del claim, memory
            most = max(most, sum(claim.memory.capacity for claim in held))
            assert pool.peak == most
        elif action == "drop" and held:
            block = held[number % len(held)].memory
            free.append(block)
            del held[number % len(held)]
            claims.drain()
        elif action in ("read", "write") and held and stream is not None:
            memory = held[number % len(held)].memory
            stream.issued += 1
            if action == "read":
                memory.used[stream] = stream.issued
            else:
                memory.written, memory.used = (stream, stream.issued), {}
        elif action == "finish" and stream is not None:
            queue.finished[stream] = max(queue.finished.get(stream, 0), stream.issued - number % 3)
        elif action == "trim":
            before = pool.total
            assert before - pool.trim() == pool.total
            assert not any(idle(pool._block(number)) for number in pool._by_release())
        elif action == "repair":
            pool.total, pool.in_use, pool._idle_bytes, pool._shelves = -1, -1, -1, {}
            pool.repair(claims.memories())
        check_given_back()
        waited = {tick for block in free for tick in block.clock()}
        assert waited >= set(pool.pending()) >= {t for t in waited if not t[0].finished(t[1])}
        assert limit is None or pool.total <= limit


def test_free_memory_beyond_the_peak_goes_back_and_no_more():
    queue = Queue(exact=True)
    stream = Stream(queue, "a")
    pool, claims = make_pool(), Claims()
    first = claims.make(pool.take((), 1000, None))
    stream.issued, first.memory.written = 1, (stream, 1)
    del first
    claims.drain()
    second = claims.make(pool.take((), 2000, None))  # the first one is waited for
    assert pool.total > pool.peak
    queue.finished[stream] = 1
    del second
    claims.drain()
    assert pool.free == pool.total == pool.peak == size_class(2000)


def test_what_a_cut_short_call_took_and_never_claimed_comes_back():
    pool, claims = make_pool(), Claims()
    claim = claims.make(pool.take((), 1000, None))
    lost = pool.take((), 2000, None)
    pool.repair(claims.memories())
    assert pool.free == lost.capacity
    assert pool.total == lost.capacity + claim.memory.capacity
    assert pool.take((), 2000, None).raw is lost.raw


def test_whoever_takes_what_a_cut_short_call_had_waits_for_everything():
    pool, stream = make_pool(), Stream(Queue(exact=True), "a")
    lost, stream.issued = pool.take((), 2000, None), 3
    pool.repair([], {stream: stream.issued})
    taken = pool.take((), 2000, Stream(Queue(exact=True), "b"))
    assert taken.raw is not lost.raw, "a block that may be in use was taken before new memory"
    assert pool.pending() == [(stream, 3)]


def test_memory_comes_back_when_the_last_claim_dies_and_not_before():
    pool, claims = make_pool(), Claims()
    claim = claims.make(pool.take((), 1000, None))
    alias = claim
    del claim
    claims.drain()
    assert pool.free == 0
    del alias
    claims.drain()
    assert pool.free == size_class(1000) and claims.memories() == []


def test_a_free_block_keeps_its_clock_and_a_covered_one_is_preferred():
    queue = Queue(exact=True)
    reader, writer = Stream(queue, "reader"), Stream(queue, "writer")
    reader.issued = 1
    pool, claims = make_pool(), Claims()
    busy, idle = (claims.make(pool.take((), 1000, None)) for _ in range(2))
    busy.memory.used[reader] = 1
    busy_raw, idle_raw = busy.memory.raw, idle.memory.raw
    del busy, idle
    claims.drain()
    first = pool.take((), 1000, writer)
    assert first.raw is idle_raw
    second = pool.take((), 1000, writer)
    assert second.raw is not busy_raw  # new memory before waiting for the reader
    queue.finished[reader] = 1
    third = pool.take((), 1000, writer)
    assert third.raw is busy_raw


def test_at_the_limit_the_oldest_free_block_comes_with_the_clock_of_its_users():
    queue = Queue(exact=True)
    reader, writer = Stream(queue, "reader"), Stream(queue, "writer")
    reader.issued = 2
    pool, claims = make_pool(limit=2048), Claims()
    blocks = [claims.make(pool.take((), 1024, None)) for _ in range(2)]
    blocks[0].memory.used[reader] = 1
    blocks[1].memory.used[reader] = 2
    oldest = blocks[0].memory.raw
    while blocks:
        del blocks[0]
        claims.drain()
    taken = pool.take((), 1024, writer)
    assert taken.raw is oldest
    assert dict(taken.clock()) == {reader: 1}


def test_a_covered_stream_needs_no_wait_even_if_the_user_still_runs():
    queue = Queue(exact=True)
    reader, writer = Stream(queue, "reader"), Stream(queue, "writer")
    reader.issued = 1
    pool, claims = make_pool(), Claims()
    claim = claims.make(pool.take((), 1000, None))
    claim.memory.used[reader] = 1
    raw = claim.memory.raw
    del claim
    claims.drain()
    writer.seen[reader] = 1
    assert pool.take((), 1000, writer).raw is raw


def test_trim_leaves_blocks_that_are_still_used():
    queue = Queue(exact=True)
    reader = Stream(queue, "reader")
    reader.issued = 1
    pool, claims = make_pool(), Claims()
    claim = claims.make(pool.take((), 1000, None))
    claim.memory.used[reader] = 1
    del claim
    claims.drain()
    assert pool.trim() == 0 and pool.free == size_class(1000)
    assert pool.pending() == [(reader, 1)]
    queue.finished[reader] = 1
    assert pool.trim() == size_class(1000) and pool.total == 0


def test_free_blocks_never_take_more_than_was_ever_in_use():
    pool, claims = make_pool(), Claims()
    for size in range(1000, 200_000, 1000):
        claim = claims.make(pool.take((), size, None))
        del claim
        claims.drain()
        assert pool.free <= pool.peak


@given(st.lists(st.tuples(st.integers(1, 60_000), st.booleans()), min_size=1, max_size=60))
def test_idle_blocks_and_those_in_use_never_take_more_than_was_ever_in_use_at_once(program):
    pool, claims, held = make_pool(), Claims(), []
    for size, drop in program:
        held.append(claims.make(pool.take((), size, None)))
        assert pool.total <= pool.peak
        if drop:
            held.pop(size % len(held))
            claims.drain()


def test_a_phase_of_another_size_takes_the_place_of_the_one_before():
    pool, claims = make_pool(), Claims()
    for size in (4096, 8192, 2048, 4096):
        held = [claims.make(pool.take((), size, None)) for _ in range((1 << 17) // size)]
        held.clear()
        claims.drain()
    assert pool.peak == 1 << 17 and pool.total <= pool.peak


@pytest.mark.parametrize("ends", [True, False], ids=["ends", "never ends"])
def test_a_stencil_looks_at_hardly_more_blocks_than_it_takes(ends):
    queue = Queue(exact=True)
    streams = [Stream(queue, str(i)) for i in range(8)]
    pool, claims, takes = make_pool(), Claims(), 0
    rows = [[claims.make(pool.take((), 1000, None)) for _ in streams]]
    for _ in range(300):
        new = []
        for i, stream in enumerate(streams):
            claim = claims.make(pool.take((), 1000, stream))
            takes += 1
            for other, tick in claim.memory.clock():
                stream.seen[other] = max(tick, stream.seen.get(other, 0))
            stream.issued += 1
            claim.memory.written, claim.memory.used = (stream, stream.issued), {}
            new.append(claim)
            for j in (i - 1, i, (i + 1) % 8):
                rows[-1][j].memory.used[stream] = stream.issued
                if rows[-1][j].memory.written is not None:
                    other, tick = rows[-1][j].memory.written
                    stream.seen[other] = max(tick, stream.seen.get(other, 0))
            del claim
        rows.append(new)
        del rows[0]
        if ends:
            queue.finished.update({stream: stream.issued - 1 for stream in streams})
        claims.drain()
    assert pool.looks <= 1.5 * takes
    assert pool.total <= 4 * pool.peak


def test_a_request_that_only_fits_exactly_is_served():
    pool = make_pool(limit=1000)
    assert pool.take((), 1000, None).capacity == 1000


def test_a_system_without_memory_is_asked_again_after_a_trim():
    pool, claims = make_pool(room=3000), Claims()
    first = claims.make(pool.take((), 2048, None))
    with pytest.raises(NoRoomError):
        pool.take((), 1024, None)
    del first
    claims.drain()
    assert pool.take((), 1024, None).nbytes == 1024
    assert pool.free == 0


def test_what_was_released_first_is_given_back_to_the_system_first_whatever_its_size():
    pool, claims = make_pool(), Claims()
    sizes = [1024, 4096, 2048]
    held = [claims.make(pool.take((), size, None)) for size in sizes]
    for position in (1, 0, 2):
        held[position] = None
        claims.drain()
    assert pool._trim(1, pool._by_release()) == 4096
    assert pool._trim(1, pool._by_release()) == 1024
    assert pool._trim(1, pool._by_release()) == 2048
    assert pool.total == pool.free == 0
