"""Streams, ticks and events, on a backend made of numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpushard._runtime.stream import Stream


class Queue:
    """Runs nothing; `finished` says how far each stream got."""

    def __init__(self, exact: bool) -> None:
        self.exact = exact
        self.finished: dict[Stream, int] = {}
        self.recorded: list[int] = []

    def record(self, stream: Stream, tick: int) -> Event:
        at = tick if self.exact else stream.issued
        self.recorded.append(at)
        return Event(self, stream, at)


class Event:
    def __init__(self, queue: Queue, stream: Stream, tick: int) -> None:
        self.queue, self.stream, self.tick = queue, stream, tick

    def query(self) -> bool:
        return self.queue.finished.get(self.stream, 0) >= self.tick

    def synchronize(self) -> None:
        self.queue.finished[self.stream] = max(self.tick, self.queue.finished.get(self.stream, 0))


@given(
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(["give", "run", "ask", "wait"]), st.integers(0, 9))),
)
def test_a_tick_is_finished_exactly_when_the_queue_got_there(exact, program):
    queue = Queue(exact)
    stream = Stream(queue, "s")
    for action, number in program:
        if action == "give":
            stream.issued += 1
        elif action == "run":
            queue.finished[stream] = min(stream.issued, queue.finished.get(stream, 0) + number)
        elif stream.issued:
            tick = 1 + number % stream.issued
            if action == "wait":
                stream.synchronize(tick)
                assert queue.finished[stream] >= tick
            before = queue.finished.get(stream, 0)
            said = stream.finished(tick)
            if exact:
                assert said == (before >= tick)
            assert not said or before >= tick  # never says so too early
            assert stream.done <= before


def test_an_old_tick_does_not_wait_for_new_work_where_events_can_be_exact():
    queue = Queue(exact=True)
    stream = Stream(queue, "s")
    stream.issued = 5
    stream.event(5)
    stream.synchronize(2)
    assert queue.finished[stream] == 2


def test_the_earliest_event_that_covers_a_tick_is_used_again():
    queue = Queue(exact=False)
    stream = Stream(queue, "s")
    stream.issued = 1
    stream.event(1)
    stream.issued = 2
    stream.event(2)
    stream.issued = 9
    stream.synchronize(1)
    stream.synchronize(2)
    assert queue.recorded == [1, 2]
    assert queue.finished[stream] == 2


def test_an_item_that_an_interrupt_kept_out_of_its_queue_is_not_finished():
    queue = Queue(exact=False)
    stream = Stream(queue, "s")
    stream.issued = 1
    event = stream.event(1)
    queue.record = lambda stream, tick: event
    stream.issued = 2
    event.synchronize()
    assert stream.finished(1) and not stream.finished(2)


def test_events_that_are_done_are_dropped():
    queue = Queue(exact=False)
    stream = Stream(queue, "s")
    for tick in range(1, 100):
        stream.issued = tick
        stream.synchronize(tick)
        assert len(stream._events) <= 1


def test_covers_counts_what_a_stream_waited_for_already():
    queue = Queue(exact=True)
    first, second = Stream(queue, "a"), Stream(queue, "b")
    second.issued = 3
    assert first.covers(first, 7)
    assert not first.covers(second, 3)
    first.seen[second] = 2
    assert first.covers(second, 2) and not first.covers(second, 3)
    queue.finished[second] = 3
    assert first.covers(second, 3)
