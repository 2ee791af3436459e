"""The group of partitions in parallel, on a driver that needs no GPU."""

from __future__ import annotations

from bench.case import OURS, Config
from bench.chip import Lab, WallClock, cases_of
from bench.groups import gpu_parallel
from bench.measure import measure
from tests.runtime.cuda.fake_driver import FakeDriver


def test_all_cases_run_without_a_gpu() -> None:
    lab, config = Lab(lambda: FakeDriver(1), WallClock()), Config(quick=True)
    results = [measure(case, config) for case in cases_of(lab, config, gpu_parallel.PARTS[:1])]
    assert [result.case.name for result in results] == [
        "2 partitions, wait",
        "2 partitions, compute",
    ]
    assert all(result.timings[OURS].median > 0 for result in results)
