"""The checker finds mistakes in clocks and claims even where every value came out right."""

from __future__ import annotations

import numpy as np
import pytest

import gpushard as gs
from gpushard._runtime.checking.checker import Access, Checker, Shadow
from gpushard._runtime.claims import Claim
from gpushard._runtime.launch import room_on
from gpushard._runtime.stream import Stream
from gpushard._runtime.work_sharing import Pace
from gpushard.errors import RaceError
from gpushard.testing import deferred, runtime, simulated

STREAMS = {"inline_bytes": 0, "small_bytes": 0, "host_devices": 2}
VALUE = np.arange(50.0)


@pytest.fixture
def rt():
    with simulated(seed=0, exact=True, host_readable=True, host_domains=2, **STREAMS) as made:
        made.sim.schedule._progress = 0
        made.sim.failing = 0
        yield made
        made.checker.reset()


def pending(rt):
    """An array that an item of the first device will write."""
    return deferred(gs.device_put(VALUE, rt.devices[0]), lambda shard: shard + 1)


def test_right_programs_are_left_alone(rt):
    y = gs.device_put(pending(rt), rt.devices[1])
    assert np.array_equal(np.asarray(y), VALUE + 1)
    assert rt.checker.checks > 0


def test_a_wait_that_is_believed_to_have_happened(rt):
    x = pending(rt)
    rt.domains[1].copy.seen[rt.devices[0].stream] = 99
    with pytest.raises(RaceError, match=r"is read by 'reshard'.*'deferred work'") as caught:
        gs.device_put(x, rt.devices[1])
    assert "deferred work" in caught.value.first and "reshard" in caught.value.second
    assert __file__ in caught.value.first and __file__ in caught.value.second


@pytest.mark.parametrize("reads", [True, False])
def test_memory_that_the_host_uses_before_it_is_written(rt, reads):
    memory = pending(rt)._live().claims[0].memory
    said = "is read" if reads else "is overwritten"
    with pytest.raises(RaceError, match=rf"{said} by the host"):
        rt.backend.run_now([], [memory] if reads else [], [] if reads else [memory], Pace())


def test_a_tick_that_is_believed_to_be_over(rt):
    x = pending(rt)
    rt.devices[0].stream.done = 99
    with pytest.raises(RaceError, match="is read"):
        gs.device_put(x, rt.devices[1])


def submit_parts(rt, until: int, seen: int) -> None:
    """Three parts on one stream, and a reader of the first ones on another."""
    writer, reader = rt.domains[0].copy, rt.domains[1].copy

    def submit():
        claims = [rt.claim(room_on(d, (64,), stream=d.domain.copy)) for d in rt.devices]
        source, target = (claim.memory for claim in claims)
        first = writer.issued + 1
        for part in range(3):
            rt.submit(writer, "parts", lambda: None, [], [source], part=part)
        if seen:
            reader.seen[writer] = first + seen - 1
        rt.submit(reader, "reader", lambda: None, [source], [target], until={source: first + until})
        rt.submit(writer, "parts", lambda: None, [], [source], part=3)
        assert reader.seen[writer] == first + max(until, seen - 1)
        return claims

    rt.commit(submit)


@pytest.mark.parametrize("until", [0, 1, 2])
def test_a_reader_waits_for_no_more_parts_than_it_needs(rt, until):
    submit_parts(rt, until, seen=0)


@pytest.mark.parametrize("until", [0, 1])
def test_a_part_that_is_believed_to_be_there(rt, until):
    with pytest.raises(RaceError, match=r"is read by 'reader'.*'parts'"):
        submit_parts(rt, until, seen=until + 1)


def test_parts_are_there_for_who_knows_of_their_tick(rt):
    """The first tick of a stream, too, of which a reader may know nothing."""
    checker, writer = rt.checker, rt.domains[0].copy
    shadow, reader = Shadow(object(), 0, 64), Access(rt.domains[1].copy, "the reader", 1)
    for tick, part in ((1, 0), (2, 1)):
        shadow.wrote(Access(writer, "the parts", tick, part))
    for known, until in (({}, 1), ({writer: 1}, 2), ({writer: 1}, 0), ({writer: 1}, None)):
        with pytest.raises(RaceError, match=r"is read by the reader.*the parts"):
            checker._check_parts(shadow, known, reader, until)
    before = checker.checks
    for known, until in (({writer: 1}, 1), ({writer: 2}, 2), ({writer: 2}, None)):
        checker._check_parts(shadow, known, reader, until)
    assert checker.checks == before + 3


def test_what_an_event_has_seen_finished_is_over(rt):
    stream = rt.domains[0].copy
    first, later = (Access(stream, "a writer", tick) for tick in (1, 2))
    old, new = Shadow(object(), 0, 64), Shadow(object(), 64, 128)
    for shadow, last in ((old, first), (new, later)):
        shadow.wrote(last)
        shadow.reads.append(Access(stream, "a reader", 1))
    rt.checker._learn_within([(old, first), (new, first)], stream, 1)
    assert [*old.accesses()] == [] and old.whole is None
    assert [*new.accesses()] == [later, *new.reads] and len(new.reads) == 1
    assert rt.checker._host[stream] >= 1


def test_a_writer_that_does_not_wait_for_a_reader(rt):
    x = gs.device_put(VALUE, rt.devices[0])
    y = gs.device_put(x, rt.devices[1])
    memory = x._live().claims[0].memory
    memory.used.clear()
    with pytest.raises(RaceError, match=r"is overwritten by 'late'.*'reshard'"):
        rt.commit(lambda: rt.submit(rt.devices[0].stream, "late", lambda: None, [], [memory]))
    assert np.array_equal(np.asarray(y), VALUE)
    rt.checker.reset()


def test_a_part_of_what_was_there_before(rt):
    with pytest.raises(RaceError, match=r"is read by 'reader'.*'parts'"):
        submit_parts(rt, -1, seen=0)


def test_a_reader_that_the_memory_does_not_remember(rt):
    x = gs.device_put(VALUE, rt.devices[0])
    y = gs.device_put(x, rt.devices[1])
    x._live().claims[0].memory.used.clear()
    del x
    with pytest.raises(RaceError, match="is released without its tick"):
        rt.claimed_bytes()
    assert np.array_equal(np.asarray(y), VALUE)


def test_a_writer_that_the_memory_does_not_remember(rt):
    x = pending(rt)
    x._live().claims[0].memory.written = None
    with pytest.raises(RaceError, match="is read"):
        gs.device_put(x, rt.devices[1])


def test_a_view_that_the_host_has_without_a_claim(rt):
    x = gs.device_put(VALUE, rt.devices[0])
    buffer = x._live()
    claim = Claim()
    claim.memory = buffer.claims[0].memory
    kept = rt.backend.host_view(buffer.values[0], claim)
    del x, buffer
    with pytest.raises(RaceError, match="is released while the host may still read it"):
        rt.claimed_bytes()
    assert kept is not None


def overwrite(rt, memory) -> None:
    rt.commit(lambda: rt.submit(rt.devices[0].stream, "late", lambda: None, [], [memory]))


def test_memory_that_is_written_while_the_host_has_it(rt):
    buffer = gs.device_put(VALUE, rt.devices[0])._live()
    memory = buffer.claims[0].memory
    kept = rt.backend.host_view(buffer.values[0], buffer)
    with pytest.raises(RaceError, match=r"is overwritten by 'late'.*after the host"):
        overwrite(rt, memory)
    assert np.array_equal(kept, VALUE)
    del kept
    rt.checker.reset()
    buffer = gs.device_put(VALUE, rt.devices[0])._live()
    memory = buffer.claims[0].memory
    with pytest.raises(RaceError, match=r"is overwritten by 'late'.*after the host"):
        rt.backend.run_now([lambda: overwrite(rt, memory)], [memory], [], Pace())
    rt.checker.reset()


def test_memory_that_is_given_back_while_an_item_uses_it(rt):
    memory = pending(rt)._live().claims[0].memory
    with pytest.raises(RaceError, match=r"is given back to the system by 'deferred work'"):
        rt.backend.free(memory.raw)


def test_a_message_of_an_item_that_did_not_say_what_it_sends_or_gets(rt):
    writer = rt.devices[0].stream
    x = pending(rt)
    check, array = rt.checker._check_end, x._live().values[0]
    check(array, writer, "is received", writes=True)
    check(array, writer, "is sent", writes=False)
    y = gs.device_put(x, rt.devices[1])
    (reader,) = x._live().claims[0].memory.used
    assert reader is not writer
    rt.checker._find(array).reads.append(Access(rt.domains[0].copy, "another reader"))
    check(array, reader, "is sent", writes=False)
    for stream, what in ((reader, "is received"), (rt.devices[1].stream, "is sent")):
        with pytest.raises(RaceError, match=f"{what} without being declared by a message"):
            check(array, stream, what, writes=what == "is received")
    check(np.ones(3), reader, "is received", writes=True)  # memory of somebody else
    assert np.array_equal(np.asarray(y), VALUE + 1)


def copy_without_saying_so(rt, what: str = "read") -> gs.Array:
    """Let an item read, or write, what it did not declare; return what it declared to write."""
    arrays = [gs.device_put(VALUE, rt.devices[0]) for _ in range(3)]
    source, target, other = (array._live() for array in arrays)

    def run():
        rt.backend.copy_boxes([(target.values[0], source.values[0], 0)], 0)

    stream = rt.devices[0].stream
    reads, writes = ([], target) if what == "read" else ([source, target], other)
    memories = [buffer.claims[0].memory for buffer in reads], [writes.claims[0].memory]
    rt.commit(lambda: rt.submit(stream, "careless", run, *memories))
    stream.synchronize(stream.issued)
    return arrays[1] if what == "read" else arrays[2]


@pytest.mark.parametrize("what", ["read", "written"])
def test_an_item_that_touches_what_it_did_not_declare(rt, what):
    error = copy_without_saying_so(rt, what)._live().claims[0].memory.error.cause
    assert isinstance(error, RaceError) and f"is {what} without being declared" in str(error)


def test_a_race_that_nobody_heard_of_fails_the_block():
    words = "1 uses of memory.*is read without being declared"
    with pytest.raises(RaceError, match=words), runtime(check=True, **STREAMS) as rt:
        copy_without_saying_so(rt)
    with pytest.raises(ZeroDivisionError), runtime(check=True) as rt:
        rt.backend.races.append("a race")
        raise ZeroDivisionError


def test_memory_that_is_used_after_its_release(rt):
    x = gs.device_put(VALUE, rt.devices[0])
    memory = x._live().claims[0].memory
    del x
    rt.claimed_bytes()
    with pytest.raises(RaceError, match="is used after its release"):
        rt.commit(lambda: rt.submit(rt.devices[0].stream, "late", lambda: None, [memory], []))


@pytest.mark.parametrize("reads", [True, False])
def test_memory_that_the_host_uses_after_its_release(rt, reads):
    x = gs.device_put(VALUE, rt.devices[0])
    memory = x._live().claims[0].memory
    del x
    rt.claimed_bytes()
    with pytest.raises(RaceError, match="is used after its release"):
        rt.backend.run_now([], [memory] if reads else [], [] if reads else [memory], Pace())


def test_buffers_that_touch_are_apart_and_what_covers_them_takes_their_place(rt):
    checker, at = rt.checker, 1 << 60
    low, high = Shadow(object(), at, at + 64), Shadow(object(), at + 64, at + 128)
    checker._follow(high)
    checker._follow(low)
    assert checker._at_or_before(at + 63) is low
    assert checker._at_or_before(at + 64) is high
    over = Shadow(object(), at + 32, at + 65)
    checker._follow(over)
    assert checker._at_or_before(at + 31) not in (low, high, over)
    assert checker._at_or_before(at + 200) is over
    checker._forget(over)


def test_an_event_that_names_a_tick_which_is_not_queued_yet(rt, monkeypatch):
    monkeypatch.setattr(Stream, "covers", lambda *_: True)
    x = pending(rt)
    with pytest.raises(RaceError):
        gs.device_put(x, rt.devices[1])


@pytest.mark.parametrize("domains", [1, 2])
def test_the_host_backend_under_the_checker(domains):
    with runtime(check=True, host_domains=domains, **STREAMS) as rt:
        assert isinstance(rt.backend, Checker)
        mesh = gs.make_mesh((2,), "x")
        for _ in range(50):
            x = deferred(gs.device_put(VALUE, gs.NamedSharding(mesh, gs.P("x"))), lambda s: s * 2)
            y = gs.reshard(x, gs.P())[::-1]
            del x
            assert np.array_equal(np.asarray(y), VALUE[::-1] * 2)
