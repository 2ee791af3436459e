"""The group of dispatch on a GPU, on a driver that needs none."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.case import OURS, Config
from bench.chip import Lab, WallClock
from bench.driver_calls import find_meter, shown
from bench.groups import gpu_dispatch
from bench.measure import measure
from tests.runtime.cuda.fake_driver import FakeDriver


class Calls:
    """Makes drivers and counts their calls."""

    def __init__(self) -> None:
        self._drivers: list[FakeDriver] = []

    def make(self) -> FakeDriver:
        self._drivers.append(FakeDriver(1))
        return self._drivers[-1]

    def read(self) -> Counter[str]:
        for driver in self._drivers:
            driver.synchronize_gpu(0)  # streams launch when their turn comes
        launches = sum(driver.calls.get("launch", 0) for driver in self._drivers)
        return Counter(launches=launches, calls=0, driver_ns=0)


def test_all_cases_are_right_and_counted_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    calls = Calls()
    lab, config = Lab(calls.make, WallClock()), Config(quick=True)
    results = [measure(case, config) for case in gpu_dispatch.lab_cases(lab, config, calls)]
    assert "does not take part" not in capsys.readouterr().err
    assert len(results) == 2 * len(gpu_dispatch.OPERATIONS)
    assert all(result.timings[OURS].median > 0 for result in results)
    elementwise = [r for r in results if r.case.name in ("x + y", "x + 1", "sin(x)")]
    assert {result.case.note for result in elementwise} == {"1 launches"}


def test_a_driver_that_counts_nothing_has_nothing_to_show() -> None:
    meter = find_meter()
    if not meter.read():
        assert shown(meter, lambda: None, 3) == ""
