"""The group of operations on a GPU, on a driver that needs none."""

from __future__ import annotations

import pytest

from bench.case import OURS, Config
from bench.chip import Lab, WallClock, cases_of
from bench.groups import gpu_ops
from bench.measure import measure
from tests.runtime.cuda.fake_driver import FakeDriver


def test_all_cases_are_right_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    lab = Lab(lambda: FakeDriver(1), WallClock())
    config = Config(quick=True)
    results = [measure(case, config) for case in cases_of(lab, config, gpu_ops.PARTS)]
    assert "does not take part" not in capsys.readouterr().err
    names = ["x + y", "sum", "x + y, submit", "sum, submit", *gpu_ops.TRACED]
    assert [r.case.name for r in results] == names
    assert all(result.timings[OURS].median > 0 for result in results)
