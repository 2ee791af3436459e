"""What an item keeps of an exception: the story, but no frame, whose variables are memory."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from gpushard._runtime.failures import WorkFailure
from gpushard._runtime.item import Item
from gpushard._runtime.memory import Memory


class Precious:
    """Something that must not be kept alive."""


def failed(run: Any) -> BaseException:
    """Run an item that fails and return its error."""
    memory: Any = Memory(np.empty(8, np.uint8), 8, 8, (), None)  # type: ignore[arg-type]
    stream: Any = None
    item = Item("work", run, stream, 1, writes=[memory])
    assert item.execute() is not None
    assert isinstance(memory.error, WorkFailure)
    return memory.error.cause


def raise_from_another() -> None:
    held = Precious()
    _alive.append(weakref.ref(held))
    try:
        raise KeyError("the first")
    except KeyError as first:
        raise ValueError("the second") from first


def raise_while_handling() -> None:
    held = Precious()
    _alive.append(weakref.ref(held))
    try:
        raise KeyError("the first")
    except KeyError:
        raise ValueError("the second")  # noqa: B904


def raise_a_group() -> None:
    held = Precious()
    _alive.append(weakref.ref(held))
    try:
        raise KeyError("the first")
    except KeyError as first:
        raise ExceptionGroup("several", [first, ValueError("the second")]) from None


_alive: list[Any] = []


@pytest.mark.parametrize("run", [raise_from_another, raise_while_handling, raise_a_group])
def test_no_exception_of_the_chain_keeps_a_frame(run):
    _alive.clear()
    cause = failed(run)
    gc.collect()
    assert _alive[0]() is None, "a frame is alive"
    firsts = [cause.__cause__, cause.__context__, *getattr(cause, "exceptions", ())]
    assert "KeyError('the first')" in map(repr, firsts), "the story got lost"


def test_what_the_thread_was_handling_is_no_part_of_the_story():
    def run() -> None:
        try:
            raise KeyError("the first")
        except KeyError:
            raise ValueError("the second")  # noqa: B904

    try:
        raise OSError("not the item's")
    except OSError as handled:
        cause = failed(run)
        assert isinstance(cause.__context__, KeyError)
        assert cause.__context__.__context__ is None
        assert handled.__traceback__ is not None, "somebody else's traceback is gone"


def test_an_interrupt_that_is_raised_on_leaves_no_frame_with_the_memory():
    def interrupted() -> None:
        raise KeyboardInterrupt("of the user's")

    def launch() -> None:
        held = Precious()
        _alive.append(weakref.ref(held))
        raised = item.execute()
        try:
            assert raised is not None
            raise raised
        finally:
            del raised

    _alive.clear()
    memory: Any = Memory(np.empty(8, np.uint8), 8, 8, (), None)  # type: ignore[arg-type]
    stream: Any = None
    item = Item("work", interrupted, stream, 1, writes=[memory])
    with pytest.raises(KeyboardInterrupt) as caught:
        launch()
    assert caught.traceback[-1].name == "interrupted", "the user is not told where it struck"
    del caught
    assert _alive[0]() is None, "a frame is alive"
    assert repr(memory.error.cause) == 'KeyboardInterrupt("of the user\'s")'


def test_an_item_fails_with_the_first_error_of_what_it_reads() -> None:
    memories = [Memory(None, 8, 8, (), None) for _ in range(4)]  # type: ignore[arg-type]
    errors = memories[1].error, memories[2].error = RuntimeError("first"), RuntimeError("second")
    stream: Any = None
    item = Item("work", lambda: None, stream, 1, reads=memories[:3], writes=memories[3:])
    assert item.execute() is None and memories[3].error is errors[0]
