"""The group of partitions in parallel, and parts of groups, on a driver that needs no GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.__main__ import main
from bench.case import OURS, Case, Config, Side
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


def _early(lab: Lab, config: Config) -> Iterator[Case]:
    yield Case("good", "early", [Side(OURS, lambda: 1.0)], lambda: None)
    raise ValueError("no room")


def _late(lab: Lab, config: Config) -> Iterator[Case]:
    yield Case("good", "late", [Side(OURS, lambda: 1.0)], lambda: None)


def test_a_part_that_cannot_set_up_a_case_fails_and_the_others_go_on() -> None:
    lab, parts = Lab(lambda: FakeDriver(1), WallClock()), (_early, _late)
    cases = list(cases_of(lab, Config(quick=True), parts))
    names = [(case.table, case.name) for case in cases]
    assert names == [("early", "good"), ("early", "setting up a case"), ("late", "good")]
    with pytest.raises(ValueError, match="no room"):
        cases[1].check()
    assert [case.table for case in cases_of(lab, Config(part="late"), parts)] == ["late"]


def test_a_part_is_asked_for_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--group", "gpu:nothing"])
    said = capsys.readouterr().err
    for name in ("gpu:reshards", "gpu:host_copies", "gpu_ops:traced", "gpu_parallel:green"):
        assert name in said
