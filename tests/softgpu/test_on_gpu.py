"""`bench.on_gpu first` on the software GPU, killed at random moments."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.records import PASSED, SKIPPED
from bench.smoke import FACTS, PROGRAMS
from tests.bench.kills import kill_at_random_moments, outcomes
from tests.share import some
from tests.softgpu.run import is_active

pytestmark = pytest.mark.skipif(not is_active(), reason="only with pytest --softgpu")


def test_nothing_is_lost_when_it_is_killed_at_random_moments(tmp_path: Path) -> None:
    def command() -> list[str]:
        what = "next" if (tmp_path / "records.jsonl").exists() else "first"
        return [*(sys.executable, "-m", "bench.on_gpu", what, "--quick"), "--out", str(tmp_path)]

    kill_at_random_moments(tmp_path, command, some(6, 20), 4.0, lambda: None)
    found = outcomes(tmp_path)
    assert {*found} > {*FACTS, *list(PROGRAMS)[::8], "gpu_ops: operations on 0 MiB: sum"}
    assert sum(item.startswith("tests/gpu/test_launches.py::") for item in found) > 1
    assert {*found.values()} <= {PASSED, SKIPPED}
    text = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "On a GPU: Software GPU" in text and "| not begun |" not in text
    figures = text.partition("## All figures")[2]
    assert "gpushard" in figures and "device copy 0 us" not in figures
