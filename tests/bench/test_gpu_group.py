"""The GPU group's cases, on a driver that needs no GPU; without one the group measures nothing."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import numpy as np
import pytest

from bench.__main__ import main
from bench.case import OURS, Case, Config, Result
from bench.chip import Lab, WallClock, cases_of
from bench.groups import gpu
from bench.measure import measure
from bench.report import group_json, tables
from gpushard._runtime.cuda.devices.probe import probe
from tests.runtime.cuda.fake_driver import FakeDriver


def measured() -> Iterator[Result]:
    lab = Lab(lambda: FakeDriver(1), WallClock())
    config = Config(quick=True)
    case: Case
    for case in cases_of(lab, config, gpu.PARTS):
        yield measure(case, config)


def test_all_cases_are_right_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    results = list(measured())
    assert "does not take part" not in capsys.readouterr().err
    names = {(result.case.table, result.case.name) for result in results}
    assert len(names) == len(results) and all(result.checked for result in results)
    assert all(result.timings[OURS].median > 0 for result in results)
    assert {table for table, _ in names} == {
        "reshard, one domain",
        "reshard, one domain, nothing to copy",
        "reshard, eight domains",
        "host copies, page-locked",
        "host copies, pageable",
        "small: placement",
        "small: reshard 64x64 rows -> columns",
        "a dense box between domains of one GPU",
        "pageable memory, to the device",
        "pageable memory, from the device",
    }
    found = gpu.goals(results)
    assert [goal.at_least for goal in found] == [0.85, 0.7, None]
    assert all(result.case.name in tables(results, found) for result in results)
    json.dumps(group_json(results, found, []))


def test_layouts_hold_the_dims_of_the_factored_array_in_their_order() -> None:
    shape = 32, 16
    value = np.arange(512).reshape(shape)
    rows, columns, blocks = (
        value.reshape(gpu.factors(shape)).transpose(order).reshape(8, -1)
        for order in (gpu.STORED[spec] for spec in (gpu.ROWS, gpu.COLUMNS, gpu.BLOCKS))
    )
    for n in range(8):
        x, y = divmod(n, 2)
        assert np.array_equal(rows[n], value[4 * n : 4 * n + 4].reshape(-1))
        assert np.array_equal(columns[n], value[:, 2 * n : 2 * n + 2].reshape(-1))
        block = value[8 * x : 8 * x + 8, 8 * y : 8 * y + 8]
        assert np.array_equal(blocks[n], block.reshape(-1))


@pytest.mark.skipif(probe().usable, reason="there is a GPU")
def test_without_a_gpu_nothing_is_claimed(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "gpu.json"
    assert main(["--group", "gpu", "--json", str(path), "--commit", "unknown"]) == 0
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report["groups"]["gpu"]["cases"] == []
    assert report["machine"]["gpu"]["reason"] == probe().reason
    assert f"Nothing was measured: {probe().reason}" in capsys.readouterr().out
