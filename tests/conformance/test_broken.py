"""A backend that is broken on purpose does not pass the suite."""

from typing import Any

import numpy as np
import pytest

from gpushard._runtime.host import HostBackend
from gpushard._runtime.item import Item
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings
from gpushard.testing.conformance import BackendConformance


class IgnoresWaits(HostBackend):
    def enqueue(self, item: Item) -> None:
        item.waits = ()
        super().enqueue(item)


class LosesItems(HostBackend):
    def enqueue(self, item: Item) -> None:
        if item.tick % 10 == 7:
            item.run = lambda: None
        super().enqueue(item)


class _Early:
    def __init__(self, tick: int) -> None:
        self.tick = tick

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


class EventsTooEarly(HostBackend):
    def record(self, stream: Any, tick: int) -> Any:
        return _Early(tick)


class WrongOrder(HostBackend):
    """Every second item changes places with the one before it."""

    def enqueue(self, item: Item) -> None:
        if item.tick % 2:
            self.first = item
            return
        self.first.run, item.run = item.run, self.first.run
        super().enqueue(self.first)
        super().enqueue(item)


class CountsNothing(HostBackend):
    def _copy(self, copies: Any, domain: int) -> None:
        for target, source, _ in copies:
            np.copyto(target, source)


class WritableViews(HostBackend):
    def host_view(self, array: Any, owner: Any) -> Any:
        return np.ndarray.view(array)


BROKEN = {
    IgnoresWaits: "test_an_item_waits_for_work_that_is_held_back",
    LosesItems: "test_a_stream_runs_in_order",
    EventsTooEarly: "test_an_item_waits_for_work_that_is_held_back",
    WrongOrder: "test_a_stream_runs_in_order",
    CountsNothing: "test_traffic_is_counted",
    WritableViews: "test_a_host_view_is_read_only_and_keeps_its_owner",
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_backend_is_caught(broken: type[HostBackend]) -> None:
    class Suite(BackendConformance):
        def make_runtime(self, **settings: Any) -> Runtime:
            chosen = Settings(host_workers=2, **settings)
            return Runtime(chosen, broken(chosen))

    with pytest.raises(AssertionError):
        getattr(Suite(), BROKEN[broken])()
