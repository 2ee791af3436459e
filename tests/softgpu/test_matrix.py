"""Which runs the matrix has, and what it reads from pytest."""

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.softgpu import idle, matrix


def test_each_suite_meets_every_machine_cupy_and_seed_by_default():
    few, everything = list(matrix.few_runs()), set(matrix.all_runs())
    assert set(few) <= everything and len(everything) == 6 * 2 * 5 * len(matrix.SUITES)
    for suite in matrix.SUITES:
        runs = [run for run in few if run.suite == suite]
        assert [run.machine for run in runs] == list(matrix.MACHINES)
        assert {run.cuda for run in runs} == {"12", "13"}
        assert {run.seed for run in runs} == set(matrix.SEEDS)
    assert all(machine.gpus * machine.partitions == 8 for machine in matrix.MACHINES)
    assert len({run.name for run in everything}) == len(everything)


def test_counts_are_those_that_pytest_prints(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    text = (
        "E   assert 3 passed in 4s\n"
        "software GPU: 9 tests gave it work, 1234 launches\n"
        "2 failed, 10 passed, 3 skipped, 7 deselected, 1 warning, 1 error in 61.20s (0:01:01)\n"
    )

    def run(command: list[str], *, stdout, env: dict[str, str], **_: object):
        assert env["GPUSHARD_CHECK"] == "1" and "--softgpu-no-peers" in command
        assert command[command.index("--softgpu-cuda") + 1] == "13"
        stdout.write(text)
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(matrix.subprocess, "run", run)
    outcome = matrix.execute(matrix.Run(matrix.MACHINES[3], "13", 1, "ops"), tmp_path / "log.txt")
    counted = outcome.passed, outcome.skipped, outcome.failed, outcome.worked, outcome.code
    assert counted == (10, 3, 3, 9, 1) and outcome.idle == 7


def test_tests_without_work_are_left_out_until_their_file_changes(tmp_path: Path):
    file, record = tmp_path / "test_some.py", tmp_path / "record.json"
    file.write_text("")
    items: Any = [SimpleNamespace(nodeid=name, path=file) for name in ("one", "two")]
    known = idle.Idle(record)
    assert known.split(items) == (items, [])
    known.add(["two"])
    assert idle.Idle(record).split(items) == (items[:1], items[1:])
    file.write_text("changed")
    idle.digest.cache_clear()
    assert idle.Idle(record).split(items) == (items, [])
