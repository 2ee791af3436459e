"""Launches one after the other as a segment: what memory it takes, and when it runs as one."""

from __future__ import annotations

import itertools
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpushard._ops.programs.launched import Group, waits_alike
from gpushard._ops.programs.segment import Part, Segment, _Block, _laid_out, segment_of
from gpushard._runtime.launch import one_room
from gpushard._runtime.memory import Account, Memory
from gpushard._runtime.pool import Room
from gpushard._runtime.stream import Stream
from tests.runtime.test_stream import Queue

BYTES = 304  # of each result


class Value:
    """An array of one block, as a segment sees it."""

    def __init__(self, name: str, memory: Any = None) -> None:
        self.name = name
        self.values = [name]
        self.claims = [SimpleNamespace(memory=memory)]


class World:
    """A runtime whose launches are said, not made."""

    def __init__(self) -> None:
        self.queue = Queue(exact=True)
        self.stream, self.other = (Stream(self.queue, name) for name in "ab")
        self.account = Account("d")
        self.said: list[Any] = []
        self.backend = SimpleNamespace(replay=lambda stream, calls: (stream, calls))

    def commit(self, step: Any, streams: Any) -> Any:
        return step()

    def part(
        self,
        operands: list[Any],
        results: list[Any],
        stream: Stream | None = None,
        alone: Any = (),
        of_device: int = 0,
        calls: int = 1,
    ) -> Part:
        """An operation of a call for each device, of which several share the memory of results."""
        count, stream = len(results), stream or self.stream
        kinds = (((BYTES // 8,), np.dtype(float)),)
        pool: Any = None
        rooms = [Room(pool, ((self.account, BYTES),), BYTES, stream, kinds)] * count * calls
        group = Group(
            tuple(range(calls)),
            tuple(range(count * calls)),
            tuple((n, tuple(range(calls))) for n in range(len(operands))),
            stream,
            SimpleNamespace(),  # type: ignore[arg-type]
            (one_room(rooms),) if calls > 1 else tuple(rooms),
            alone,
        )

        def run(values: list[Any], scalars: Any) -> list[Value]:
            self.said.append([value.name for value in values])
            return [Value(name) for name in results]

        launched: Any = SimpleNamespace(
            runtime=self,
            groups=[group],
            calls=[SimpleNamespace(shapes=((BYTES // 8,),) * count)] * calls,
            dtypes=[np.dtype(float)] * count,
            of_device=[of_device] if calls == 1 else list(range(calls)),
            run=run,
        )
        return Part(launched, (), operands, results)


def places(segment: Segment) -> list[Any]:
    """What each launch of the only chain takes and makes, and where in the memories it gets."""
    (chain,) = segment._chains
    return [at for _, at, _ in chain.replay[1]]


def test_results_that_are_not_needed_at_the_same_time_share_memory() -> None:
    world = World()
    names = ["x", *"abcd"]
    parts = [world.part([x], [y]) for x, y in itertools.pairwise(names)]
    segment = segment_of(parts, {"d"}, "f")
    assert segment is not None and segment.operands == ["x"] and segment.results == ["d"]
    read, stays, rest = 0, 1, 2
    wanted = [
        [(read, 0), (rest, 0)],
        [(rest, 0), (rest, 512)],
        [(rest, 512), (rest, 0)],  # "a" is needed no more
        [(rest, 0), (stays, 0)],
    ]
    assert places(segment) == wanted
    (chain,) = segment._chains
    assert chain.scratch is not None
    assert chain.scratch.nbytes == segment.scratch == 512 + BYTES
    assert chain.scratch.charges == ((world.account, 2 * BYTES),)
    assert segment.counts == (4, 1) and not chain.alone


def test_what_is_needed_after_the_segment_has_memory_of_its_own() -> None:
    world = World()
    parts = [world.part(["x"], ["a", "b"]), world.part(["x", "b"], ["c"]), world.part(["y"], ["d"])]
    segment = segment_of(parts, {"a", "c", "d"}, "f")
    assert segment is not None and segment.operands == ["x", "y"]
    wanted = [[(0, 0), (2, 0), (5, 0)], [(0, 0), (5, 0), (3, 0)], [(1, 0), (4, 0)]]
    assert places(segment) == wanted and segment.scratch == BYTES
    every = segment_of(parts, set("abcd"), "f")
    assert every is not None and every.scratch == 0


def test_results_of_several_devices_lie_in_one_memory_where_a_launch_has_them_so() -> None:
    world = World()
    parts = [world.part([x], [y], calls=2) for x, y in itertools.pairwise("xabcd")]
    segment = segment_of(parts, {"d"}, "f")
    assert segment is not None and segment.scratch == 4 * 512
    reads, stays = [(0, 0), (1, 0)], [(2, 0), (2, 512)]
    one, two = [(3, 0), (3, 512)], [(3, 1024), (3, 1536)]
    assert places(segment) == [reads + one, one + two, two + one, one + stays]
    (chain,) = segment._chains
    assert chain.scratch is not None
    assert chain.scratch.charges == ((world.account, 4 * BYTES),)


def test_results_that_nobody_names_have_memory_while_they_are_written() -> None:
    world = World()
    part = world.part(["x"], ["a", "b"])
    named = Part(part.launched, (), ["x"], ["a"])
    segment = segment_of([named], {"a"}, "f")
    assert segment is not None and places(segment) == [[(0, 0), (1, 0), (2, 0)]]
    assert segment.scratch == BYTES


def test_a_stream_that_takes_what_another_one_makes_is_no_segment() -> None:
    world = World()
    first = world.part(["x"], ["a"])
    apart = [first, world.part(["x"], ["b"], world.other)]
    segment = segment_of(apart, {"a", "b"}, "f")
    assert segment is not None and segment.counts == (2, 2)
    assert segment_of([first, world.part(["a"], ["b"], world.other)], {"b"}, "f") is None
    nothing = world.part(["x"], ["a"], of_device=-1)  # which has no elements there
    assert segment_of([nothing, world.part(["a"], ["b"])], {"b"}, "f") is None


def test_operations_run_one_by_one_and_drop_what_is_needed_no_more() -> None:
    """Where an operand has failed, or what is read comes from several streams."""
    world = World()
    held: list[Any] = []

    def note(part: Part) -> Part:
        run = part.launched.run

        def noted(values: list[Any], scalars: Any) -> list[Any]:
            alive = [name for name, value in held if value() is not None]
            world.said.append(alive)
            made = run(values, scalars)
            held.extend((value.name, weakref.ref(value)) for value in made)
            return made

        part.launched.run = noted  # type: ignore[method-assign]
        return part

    parts = [
        note(world.part(["x", "y"], ["a"])),
        note(world.part(["a"], ["b", "unused"])),
        note(world.part(["b"], ["c"])),
    ]
    segment = segment_of(parts, {"a", "c"}, "f")
    assert segment is not None and segment.results == ["a", "c"]
    fine, failed = (Memory(None, 8, 8, (), None) for _ in "xy")  # type: ignore[arg-type]
    failed.error = RuntimeError("lost")
    operands: Any = [Value("x", fine), Value("y", failed)]
    made: list[Any] = segment.run(operands, ())
    assert [value.name for value in made] == ["a", "c"]
    assert world.said == [[], ["x", "y"], ["a"], ["a"], ["a", "b"], ["b"]]
    assert held[1][1]() is None


@pytest.mark.parametrize("alone", [False, True])
def test_launches_for_several_devices_wait_for_one_stream_at_most(alone: bool) -> None:
    world = World()
    each = ("each",) * alone  # of the first launch, the other one is for one device
    apart = [world.part(["x"], ["x'"], alone=each), world.part(["y"], ["y'"])]
    segment = segment_of(apart, {"x'", "y'"}, "f")
    assert segment is not None
    memories = [Memory(None, 8, 8, (), None) for _ in "xy"]  # type: ignore[arg-type]
    for memory, name in zip(memories, "cd", strict=True):
        memory.written = Stream(world.queue, name), 1
        memory.written[0].issued = 1
    operands: Any = [Value(name, memory) for name, memory in zip("xy", memories, strict=True)]
    if alone:
        made: list[Any] = segment.run(operands, ())
        assert [value.name for value in made] == ["x'", "y'"]
    else:
        with pytest.raises(AttributeError, match="'claim'"):  # it would run as one
            segment.run(operands, ())


def test_waits_for_one_stream_are_alike() -> None:
    queue = Queue(exact=True)
    lead, first, second = (Stream(queue, name) for name in "abc")
    first.issued = second.issued = 9

    def reads(*ticks: Any) -> dict[Memory, None]:
        made = {}
        for tick in ticks:
            memory = Memory(None, 8, 8, (), None)  # type: ignore[arg-type]
            memory.written = tick
            made[memory] = None
        return made

    assert waits_alike(lead, reads(None, (lead, 1), (first, 1), (first, 2), None))
    assert not waits_alike(lead, reads((first, 1), (second, 1)))
    first.done, lead.seen = 3, {second: 2}
    assert waits_alike(lead, reads((first, 3), (second, 9)))
    assert waits_alike(lead, reads((first, 4), (second, 2)))
    assert not waits_alike(lead, reads((first, 4), (second, 3)))


def test_blocks_lie_in_the_first_hole_that_is_free_all_the_time() -> None:
    def block(nbytes: int, begin: int, end: int) -> _Block:
        pool: Any = None
        made = _Block(Room(pool, (), nbytes), [], begin)
        made.end = end
        return made

    first, second = block(2048, 0, 0), block(1024, 1, 1)
    beside, last = block(500, 1, 1), block(250, 0, 1)
    assert _laid_out([last, beside, second, first]) == 2048 + 250
    assert [each.at for each in (first, second, beside, last)] == [0, 0, 1024, 2048]
    first, second, hole = block(1024, 0, 0), block(1024, 0, 1), block(1024, 1, 1)
    assert _laid_out([first, second, hole]) == 2048 and (second.at, hole.at) == (1024, 0)
    assert _laid_out([]) == 0
