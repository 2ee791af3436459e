"""Every group of benchmarks runs, in tiny sizes and without JAX. No figure is judged here."""

import contextlib
import functools
import io
import json
import pathlib
import types
from typing import Any

import numpy as np
import pytest

from bench import groups, records
from bench.__main__ import Watch, main, run, run_group
from bench.case import FLOOR, JAX, OURS, Case, Config, Side, Target
from bench.floor import halves
from bench.measure import measure, timed


@functools.cache
def quick(name: str) -> tuple[dict[str, Any], str]:
    """Return the results of a group as JSON gives them back, and what was printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        report = run([name], Config(quick=True))
    return json.loads(json.dumps(report)), printed.getvalue()


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", [name for name in groups.find() if not name.startswith("gpu")])
def test_group_runs(name: str) -> None:
    report, printed = quick(name)
    cases = report["groups"][name]["cases"]
    assert report["machine"]["numpy"] == np.__version__
    assert report["settings"]["repeat"] == 1
    assert cases
    assert len({(case["table"], case["name"]) for case in cases}) == len(cases)
    for case in cases:
        assert case["checked"] is True, case["name"]
        assert case["seconds"][OURS]["median"] > 0, case["name"]
        assert case["seconds"][JAX] is None, case["name"]
        floor = "NumPy" if name == "survey" else FLOOR
        assert set(case["ratios"]) >= {f"{JAX}/{OURS}", f"{OURS}/{floor}"}
    assert all(case["name"] in printed for case in cases)


def test_reshard_covers_all_pairs_in_one_and_eight_domains() -> None:
    cases = quick("reshard")[0]["groups"]["reshard"]["cases"]
    for domains in ("one", "eight"):
        rows = [case for case in cases if case["table"].startswith(f"{domains} memory")]
        assert len({row["name"] for row in rows}) == len(rows) == 42
        copying = [row for row in rows if row["facts"]["bytes_written"]]
        assert all(row["seconds"][FLOOR]["median"] > 0 for row in copying)
        assert all(row["seconds"][FLOOR] is None for row in rows if row not in copying)


def test_the_command_line_writes_json(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bench.json"
    options = ["--group", "transfer", "--case", "8x8", "--quick", "--no-jax"]
    assert main([*options, "--json", str(path)]) == 0
    report = json.loads(path.read_text(encoding="utf-8"))
    assert len(report["groups"]["transfer"]["cases"]) == 3
    assert main(["--list"]) == 0
    assert "Between shardings" in capsys.readouterr().out


def test_a_wrong_value_ends_the_run() -> None:
    def check() -> None:
        raise AssertionError("wrong at (0, 0)")

    case = Case("broken", "table", [Side(OURS, timed(lambda _: None))], check)
    with pytest.raises(AssertionError, match="wrong at"):
        measure(case, Config(quick=True))


def test_a_case_that_fails_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    def check() -> None:
        raise AssertionError("wrong at (0, 0)")

    sides = [Side(OURS, timed(lambda _: None))]
    cases = [Case("bad", "table", sides, check), Case("good", "table", sides, lambda: None)]
    group = types.ModuleType("group")
    group.cases = lambda config: iter(cases)  # type: ignore[attr-defined]
    results, _, failures = run_group(group, Config(quick=True, keep_going=True))
    assert [result.case.name for result in results] == ["good"]
    assert failures == ["table: bad: AssertionError: wrong at (0, 0)"]
    with pytest.raises(AssertionError, match="wrong at"):
        run_group(group, Config(quick=True))


def test_results_are_saved_after_each_case() -> None:
    saved: list[str] = []
    run(
        ["transfer"],
        Config(quick=True),
        "8x8",
        save=lambda report: saved.append(json.dumps(report)),
    )
    counts = [len(json.loads(text)["groups"]["transfer"]["cases"]) for text in saved]
    assert counts == [1, 2, 3, 3]  # the last time with goals


def test_each_case_is_recorded_and_one_that_has_ended_is_left_out(tmp_path: pathlib.Path) -> None:
    where = records.Records(tmp_path / "records.jsonl", "figures", "figures 0")
    counts = []
    for only in ("device_put 8x8", "8x8"):
        report = run(["transfer"], Config(quick=True), only, part=records.Part(where))
        counts.append(len(report["groups"]["transfer"]["cases"]))
    ended = [r for r in records.read(where.path) if r["event"] == "ended"]
    assert counts[0] > 0 and sum(counts) == len(ended) == len({r["item"] for r in ended}) == 3
    assert all(r["item"].startswith("transfer: ") for r in ended)
    assert all(r["facts"]["seconds"][OURS]["median"] > 0 for r in ended)


def test_a_case_that_fails_is_recorded(tmp_path: pathlib.Path) -> None:
    def check() -> None:
        raise AssertionError("wrong at (0, 0)")

    group = types.ModuleType("group")
    sides = [Side(OURS, timed(lambda _: None))]
    group.cases = lambda config: iter([Case("bad", "table", sides, check)])  # type: ignore[attr-defined]
    where = records.Records(tmp_path / "records.jsonl", "figures", "figures 0")
    watch = Watch(records.Part(where), "group")
    run_group(group, Config(quick=True, keep_going=True), watch=watch)
    begun, ended = records.read(where.path)
    assert (begun["event"], begun["item"]) == ("begun", "group: table: bad")
    assert (ended["outcome"], ended["item"]) == (records.FAILED, "group: table: bad")
    assert "wrong at (0, 0)" in ended["text"]


def test_sides_take_turns() -> None:
    order: list[str] = []
    sides = [
        Side(column, timed(lambda _, column=column: order.append(column)))
        for column in (OURS, JAX, FLOOR)
    ]
    result = measure(Case("turns", "table", sides, lambda: None, burst=2), Config(repeat=3))
    turns = [order[i] for i in range(0, len(order), 2)]
    assert turns == order[1::2]
    assert all(set(turns[i : i + 3]) == {OURS, JAX, FLOOR} for i in range(0, len(turns), 3))
    assert len(turns) == 3 * (1 + 3)
    assert all(timing.samples == 2 * 3 for timing in result.timings.values())


@pytest.mark.parametrize(
    ("seconds", "runs", "kept"), [(6.0, 1, 1), (2.0, 3, 3), (1.0, 12, 8), (0.1, 16, 12)]
)
def test_slow_sides_take_fewer_turns(seconds: float, runs: int, kept: int) -> None:
    ran: list[float] = []

    def sample() -> float:
        ran.append(seconds)
        return seconds

    sides = [Side(OURS, lambda: 0.0), Side(JAX, sample)]
    result = measure(Case("slow", "table", sides, lambda: None, burst=4), Config(repeat=3))
    assert (len(ran), result.timings[JAX].samples) == (runs, kept)
    assert result.timings[OURS].samples == 12


def test_targets() -> None:
    limit = Target(times=1.5, seconds=1e-4)
    assert str(limit) == "1.5x NumPy floor + 100 us"
    assert limit.allowed({OURS: 1.0}) is None
    assert limit.allowed({FLOOR: 2.0}) == pytest.approx(3.0001)
    assert Target(seconds=0.15).allowed({}) == 0.15


def test_halves_have_equal_bytes_and_lose_nothing() -> None:
    source = np.random.default_rng(0).random((37, 16))
    target = np.zeros_like(source)
    boxes = [(target[:5], source[:5]), (target[5:30], source[5:30]), (target[30:], source[30:])]
    first, second = halves(boxes)
    sizes = [sum(t.nbytes for t, _ in part) for part in (first, second)]
    assert abs(sizes[0] - sizes[1]) <= 2 * source[0].nbytes
    for t, s in first + second:
        np.copyto(t, s)
    assert np.array_equal(target, source)
