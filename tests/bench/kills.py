"""Kills `bench.on_gpu` at random moments, and looks at what it left."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.records import read


def outcomes(out: Path) -> dict[str, str]:
    """Return how each item ended; none ends twice."""
    found = [r for r in read(out / "records.jsonl") if r["event"] == "ended"]
    assert len({r["item"] for r in found}) == len(found), "an item ended twice"
    return {r["item"]: r["outcome"] for r in found}


ROOT = Path(__file__).parents[2]


def environment() -> dict[str, str]:
    """Return the environment of a command that imports from this checkout."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def killed(command: Sequence[str], seconds: float) -> int | None:
    """Start a command, and kill it after a while; return its exit code if it ended before."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(seconds)
    process.kill()
    process.wait()
    return None


def kill_at_random_moments(
    out: Path,
    command: Callable[[], Sequence[str]],
    kills: int,
    most: float,
    check: Callable[[], None],
) -> None:
    """Kill a command that goes on each time, look at what it left, and let it end at last."""
    rng, last, before = random.Random(31), "", set[str]()
    for _ in range(kills):
        killed(command(), rng.uniform(0, most))
        path = out / "records.jsonl"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        assert text.startswith(last), "what was written is gone"
        last = text[: text.rfind("\n") + 1]
        ended = {*outcomes(out)}
        assert ended >= before
        before = ended
        if any(r["event"] == "stage" for r in read(path)):
            assert "| stage | state |" in (out / "summary.md").read_text(encoding="utf-8")
            json.loads((out / "bench.json").read_text(encoding="utf-8"))
        check()
    assert killed(command(), 250) == 0
