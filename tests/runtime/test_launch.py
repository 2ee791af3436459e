"""The launcher: what is allocated, who runs the work, and what is left where there is no room."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from gpushard._runtime.launch import Outputs, allocate, allocate_now, launch, one_room, room_on
from gpushard._runtime.memory import Memory
from gpushard._runtime.pool import Room
from gpushard._runtime.runtime import Runtime
from gpushard.errors import OutOfMemoryError
from gpushard.testing import runtime
from gpushard.testing.deferred import Gate

FLOATS = np.dtype(np.float32)


def rooms_on(rt: Runtime, *lengths: int) -> list[Room]:
    """Room for an array of each length, on one device after the other."""
    return [
        room_on(device, (n,), FLOATS, device.stream)
        for device, n in zip(rt.devices, lengths, strict=False)
    ]


def in_use(rt: Runtime) -> list[int]:
    """The bytes that each device is charged for."""
    return [device.memory_stats()["bytes_in_use"] or 0 for device in rt.devices]


@contextmanager
def used_memory(rt: Runtime, nbytes: int) -> Iterator[Gate]:
    """Give memory that nobody claims and an item still writes, until a gate opens."""
    gate, stream = Gate(), rt.new_stream("other", 0)

    def submit() -> None:
        claim = rt.claim(room_on(rt.devices[0], (nbytes,)))
        rt.submit(stream, "write", gate.wait, [], [claim.memory])

    rt.commit(submit)
    try:
        yield gate
    finally:
        gate.open()


def test_one_room_has_the_arrays_one_after_the_other_and_all_who_pay() -> None:
    with runtime(host_devices=2) as rt:
        first, second = rooms_on(rt, 3, 5)
        both = one_room([first, second], 16)
        assert (both.starts, both.nbytes, both.kinds) == ((0, 16), 48, first.kinds + second.kinds)
        assert both.charges == ((rt.devices[0].account, 12), (rt.devices[1].account, 20))
        assert (both.pool, both.stream) == (first.pool, first.stream)
        outputs = rt.commit(lambda: allocate(rt, [both]))
        for value, number in zip(outputs.values, (1, 2), strict=True):
            value[...] = number
        assert [value.tolist() for value in outputs.values] == [[1] * 3, [2] * 5]
        assert outputs.claims[0] is outputs.claims[1] and in_use(rt) == [12, 20]


@pytest.mark.parametrize("here", [True, False])
def test_work_is_left_to_the_caller_who_may_run_it_and_else_submitted(here: bool) -> None:
    with runtime(host_devices=2) as rt:
        submitted: list[Outputs] = []
        streams = [device.stream for device in rt.devices]
        outputs = launch(rt, rooms_on(rt, 3, 5), submitted.append, streams, here=here)
        assert outputs.settled == here and submitted == ([] if here else [outputs])
        assert [value.shape for value in outputs.values] == [(3,), (5,)]
        assert in_use(rt) == [12, 20]


def test_memory_that_is_still_used_is_left_to_streams() -> None:
    with runtime(host_devices=1, memory_limit=64) as rt, used_memory(rt, 48):
        waits = []

        def submit(outputs: Outputs) -> None:
            memories = [claim.memory for claim in outputs.claims]
            waits.append([memory.busy() for memory in memories])
            rt.submit(rt.devices[0].stream, "write", lambda: None, [], memories)

        outputs = launch(rt, rooms_on(rt, 12), submit, [rt.devices[0].stream], here=True)
        assert not outputs.settled and waits == [[True]]


def test_what_is_joined_for_the_caller_is_apart_for_streams() -> None:
    with runtime(host_devices=2) as rt:
        rooms, busy = rooms_on(rt, 12, 12), []
        joined, submitted = [one_room(rooms, 16)], []
        outputs = launch(rt, rooms, submitted.append, [], here=True, joined=joined)
        assert outputs.settled and outputs.claims[0] is outputs.claims[1] and not submitted
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Memory, "busy", lambda self: busy.append(self) or True)
            outputs = launch(rt, rooms, submitted.append, [], here=True, joined=joined)
        assert submitted == [outputs] and len(busy) == 1
        assert outputs.claims[0] is not outputs.claims[1]


@pytest.mark.parametrize("here", [True, False])
def test_where_there_is_no_room_nothing_has_changed(here: bool) -> None:
    with runtime(host_devices=2, memory_limit=64) as rt:
        errors: list[Any] = []
        for lengths in ((3, 17), (17, 3)):
            with pytest.raises(OutOfMemoryError) as raised:
                launch(rt, rooms_on(rt, *lengths), errors.append, [], here=here)
            errors.append(raised.value)  # which has the frames of what failed
            assert in_use(rt) == [0, 0]
        assert len(errors) == 2
        launch(rt, rooms_on(rt, 16, 16), lambda outputs: None, [], here=here)


def test_work_that_is_not_submitted_leaves_no_memory() -> None:
    with runtime(host_devices=2) as rt:

        def refuse(outputs: Outputs) -> None:
            raise ValueError("not today")

        with pytest.raises(ValueError, match="not today"):
            launch(rt, rooms_on(rt, 3, 5), refuse, [])
        gc.collect()
        assert in_use(rt) == [0, 0]


def test_the_caller_waits_for_those_that_used_the_memory() -> None:
    with runtime(host_devices=1, memory_limit=64) as rt, used_memory(rt, 48) as gate:
        opened = []
        wait = Memory.wait_idle

        def waited(memory: Memory) -> None:
            assert memory.busy()
            opened.append(gate.open())
            wait(memory)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Memory, "wait_idle", waited)
            outputs = allocate_now(rt, rooms_on(rt, 12))
        assert outputs.settled and len(opened) == 1
        assert not outputs.claims[0].memory.busy()
