"""Traces: files that say what was done when."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import profiler
from gpushard.errors import ArgumentError, ArgumentTypeError


def spans(folder: Path) -> list[dict[str, Any]]:
    """Return the spans of a trace."""
    events = json.loads((folder / "gpushard.trace.json").read_text())["traceEvents"]
    return [event for event in events if event["ph"] == "X"]


def names(folder: Path) -> list[str]:
    return [span["name"] for span in spans(folder)]


def test_spans_lie_within_each_other_and_say_more(tmp_path: Path) -> None:
    outer, step = profiler.TraceAnnotation("outer", size=3), profiler.StepTraceAnnotation
    with profiler.trace(tmp_path / "new"), outer, step("step", step_num=7):
        pass
    inner, around = spans(tmp_path / "new")
    assert (around["name"], around["args"]) == ("outer", {"size": "3"})
    assert (inner["name"], inner["args"]) == ("step", {"step_num": "7"})
    assert around["ts"] <= inner["ts"]
    assert inner["ts"] + inner["dur"] <= around["ts"] + around["dur"]


def test_times_are_microseconds_since_the_trace_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([7_000_000, 9_500_000, 12_750_000])
    monkeypatch.setattr("time.perf_counter_ns", lambda: next(clock))
    with profiler.trace(tmp_path / "new" / "folder"), profiler.TraceAnnotation("own"):
        pass
    (own,) = spans(tmp_path / "new" / "folder")
    assert (own["ts"], own["dur"]) == (2500, 3250)


def test_the_library_has_spans_of_its_own(tmp_path: Path) -> None:
    f = gs.jit(lambda x: x + 1)
    x = gs.numpy.arange(3)
    with profiler.trace(tmp_path):
        y = f(x)
        assert np.asarray(y).tolist() == [1, 2, 3]
        z = f(x)
        z.copy_to_host_async()
        assert np.asarray(z).tolist() == [1, 2, 3]
    assert names(tmp_path) == [
        "compile jit of <lambda>", "jit of <lambda>", "Array._value", "jit of <lambda>",
        "copy_to_host_async", "Array._value",
    ]  # fmt: skip


def test_functions_are_spans_of_each_call_and_thread(tmp_path: Path) -> None:
    @profiler.annotate_function
    def own(n: int) -> int:
        return own(n - 1) if n else 0

    named = profiler.annotate_function(own, name="named", kind="test")

    @profiler.TraceAnnotation("decorated")
    def decorated() -> None:
        barrier.wait()

    barrier = threading.Barrier(2)
    with profiler.trace(tmp_path):
        assert named(2) == 0
        threads = [threading.Thread(target=decorated) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = names(tmp_path)
    assert found.count("decorated") == 2 and found.count("named") == 1
    assert sum(name.endswith("own") for name in found) == 3
    assert len({span["tid"] for span in spans(tmp_path) if span["name"] == "decorated"}) == 2


def test_nothing_is_kept_without_a_trace(tmp_path: Path) -> None:
    with profiler.TraceAnnotation("before"):
        profiler.start_trace(tmp_path)
    with pytest.raises(KeyError), profiler.TraceAnnotation("fails"):
        raise KeyError
    profiler.stop_trace()
    with profiler.TraceAnnotation("after"):
        pass
    assert names(tmp_path) == ["fails"]


def test_what_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"no trace is being recorded.*start_trace"):
        profiler.stop_trace()
    again = pytest.raises(ArgumentError, match=r"is being recorded.*stop_trace")
    with profiler.trace(tmp_path), again:
        profiler.start_trace(tmp_path / "other")
    assert not (tmp_path / "other").exists()
    (tmp_path / "file").touch()
    with pytest.raises(OSError):
        profiler.start_trace(tmp_path / "file")
    with pytest.raises(ArgumentTypeError, match="name=3"):
        profiler.TraceAnnotation(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="func=3"):
        profiler.annotate_function(3)  # type: ignore[type-var]
    with profiler.trace(tmp_path):
        pass
    assert names(tmp_path) == []
