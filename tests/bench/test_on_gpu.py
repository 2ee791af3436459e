"""What `bench.on_gpu` records, and that nothing of it is lost; without a GPU."""

from __future__ import annotations

import itertools
import os
import random
import select
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench import on_gpu, records, watch
from bench.case import OURS
from bench.on_gpu import Run, pack, unpack
from bench.records import CRASHED, FAILED, PASSED, TOO_LONG, Part, Reader, Records, read
from bench.summary import Summary
from bench.watch import Stage
from tests.bench.kills import environment, kill_at_random_moments, outcomes
from tests.share import some

WORKER = [sys.executable, "-m", "tests.bench.on_gpu_worker"]


def stage(folder: Path, *items: str, workers: int = 1, **options: Any) -> Stage:
    return Stage("tries", [*WORKER, str(folder / "journal"), *items], workers, **options)


def run(out: Path, *stages: Stage, seconds: float = 60) -> bool:
    return Run(out, stages, seconds, show=lambda line: None).run([each.name for each in stages])


def test_a_torn_line_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    Records(path, "s", "s 0").ended("a", PASSED, 1.0)
    with path.open("ab") as file:
        file.write(b'{"event": "ended", "item": "b", "outc')
    reader = Reader(path)
    assert [r["item"] for r in reader.read()] == ["a"]
    Records(path, "s", "s 0").ended("c", PASSED, 1.0)
    assert [r["item"] for r in reader.read()] == ["c"]
    assert [r["item"] for r in read(path)] == ["a", "c"]


def test_workers_share_items_whatever_has_ended_and_however_many_they_are(tmp_path: Path) -> None:
    where = Records(tmp_path / "records.jsonl", "s", "s 0")
    items = [f"item {n}" for n in range(50)]
    for done, of in ((0, 3), (20, 4), (50, 2)):
        for item in items[:done]:
            where.ended(item, PASSED, 0.0)
        shares = [Part(where, number, of).choose(items) for number in range(of)]
        assert Counter(itertools.chain(*shares)) == Counter(items[done:])
    Records(where.path, "another").ended("item 1", PASSED, 0.0)
    assert Part(Records(tmp_path / "none.jsonl", "s")).choose(items) == items


def test_items_that_crash_or_lose_the_gpu_cost_only_themselves(tmp_path: Path) -> None:
    items = ["a", "b:crash", "c", "d:lose", "e:crash", "f:crash", "g"]
    assert not run(tmp_path, stage(tmp_path, *items))
    lost = {"b:crash": CRASHED, "d:lose": FAILED, "e:crash": CRASHED, "f:crash": CRASHED}
    assert outcomes(tmp_path) == {item: lost.get(item, PASSED) for item in items}
    said = {r["item"]: r.get("text", "") for r in read(tmp_path / "records.jsonl") if "item" in r}
    assert "at b:crash" in said["b:crash"] and "ended by SIGSEGV" in said["b:crash"]
    assert "at g" in (tmp_path / "log.txt").read_text(encoding="utf-8")


def test_an_item_that_hangs_is_killed(tmp_path: Path) -> None:
    assert not run(tmp_path, stage(tmp_path, "a", "b:hang", "c", item_seconds=0.5))
    assert outcomes(tmp_path) == {"a": PASSED, "b:hang": TOO_LONG, "c": PASSED}


def test_a_worker_that_does_nothing_is_recorded_and_not_begun_for_ever(tmp_path: Path) -> None:
    broken = Stage("broken", [sys.executable, "-c", "raise SystemExit(9)"])
    missing = Stage("missing", [str(tmp_path / "nothing")])
    assert not run(tmp_path, missing, broken, stage(tmp_path, "a", "refuse"))
    found = [r for r in read(tmp_path / "records.jsonl") if r["event"] == "ended"]
    lost = [(r["item"], r["text"]) for r in found if r["outcome"] == FAILED]
    # The last one ended items at first, and so had a second try.
    names = ("missing", "broken", "tries", "tries")
    assert [item for item, _ in lost] == [f"process {name} 0" for name in names]
    for (_, text), why in zip(lost, ("No such file", *["exit code 9"] * 3), strict=True):
        assert why in text
    assert [r["item"] for r in found if r["outcome"] == PASSED] == ["a", "refuse"]


def test_a_stage_at_its_limit_lets_others_have_their_turn_and_goes_on(tmp_path: Path) -> None:
    hangs = stage(tmp_path, "a", "b:hang", seconds=0.5)
    other = Stage("other", [*WORKER, str(tmp_path / "journal"), "c"])
    assert not run(tmp_path, hangs, other, seconds=2)
    assert outcomes(tmp_path) == {"a": PASSED, "c": PASSED}
    events = [(r["stage"], r["event"]) for r in read(tmp_path / "records.jsonl") if "stage" in r]
    ends = [each for each in events if each[1] in (records.STOPPED, records.FINISHED)]
    assert ends[:2] == [("tries", "stopped"), ("other", "finished")]
    assert {*ends[2:]} == {("tries", "stopped")}
    text = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "| tries | stopped at its limit | 1 |  |  |  |  | 1 |" in text


PROGRAM = """
import sys
from pathlib import Path
from bench.on_gpu import Run
from tests.bench.test_on_gpu import stage
out = Path(sys.argv[1])
stages = [stage(out, *(f"item {n}" for n in range(4000)), workers=2)]
sys.exit(not Run(out, stages, 60).run(["tries"]))
"""


def test_nothing_is_lost_when_it_is_killed_at_random_moments(tmp_path: Path) -> None:
    journal = tmp_path / "journal"

    def check() -> None:
        done = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
        assert {*done} <= {*outcomes(tmp_path)}, "an item has ended and is not recorded"

    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    kill_at_random_moments(tmp_path, lambda: command, some(6, 20), 0.6, check)
    assert {*outcomes(tmp_path)} == {f"item {n}" for n in range(4000)}


def test_workers_die_with_the_command(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "journal")
    program = PROGRAM.replace('f"item {n}" for n in range(4000)', '["a:hang"]')
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], env=environment())
    worker = os.pidfd_open(int((tmp_path / "journal").read_text(encoding="utf-8")))
    assert select.select([worker], [], [], 0)[0] == []
    process.kill()
    process.wait()
    assert select.select([worker], [], [], 30)[0] == [worker]
    os.close(worker)


TESTS = """
import os, pytest

def test_passes(): pass

def test_fails(): assert 1 == 2, "one is not two"

@pytest.fixture
def broken():
    yield
    raise ValueError("no way down")

def test_breaks_at_its_end(broken): pass

@pytest.mark.skip(reason="for a reason")
def test_is_skipped(): pass

@pytest.mark.parametrize("n", range(3))
def test_of_three(n):
    if n == 1:
        os._exit(3)
"""


def test_tests_are_recorded_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "test_not.py").write_text("import nowhere", encoding="utf-8")
    words = ["--rootdir", str(tmp_path), "-c", os.devnull, "--continue-on-collection-errors"]
    command = [*on_gpu.TESTS, *words, str(tmp_path)]
    out = tmp_path / "out"
    assert not run(out, Stage("tests", command))
    found = {r["item"]: r for r in read(out / "records.jsonl") if r["event"] == "ended"}
    assert {item.rpartition("::")[2]: r["outcome"] for item, r in found.items()} == {
        "test_not.py": FAILED,
        "test_passes": PASSED,
        "test_fails": FAILED,
        "test_breaks_at_its_end": FAILED,
        "test_is_skipped": "skipped",
        "test_of_three[0]": PASSED,
        "test_of_three[1]": CRASHED,
        "test_of_three[2]": PASSED,
    }
    said = {item.rpartition("::")[2]: r.get("text", "") for item, r in found.items()}
    assert "one is not two" in said["test_fails"]
    assert "no way down" in said["test_breaks_at_its_end"]
    assert "for a reason" in said["test_is_skipped"]
    assert "nowhere" in said["test_not.py"]
    assert len(outcomes(out)) == 8  # the crash began a second process: none ended twice


def test_compiled_kernels_are_carried_as_far_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, archive = tmp_path / "kernels", tmp_path / "kernels.tar.gz"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "small").write_bytes(b"small")
    (folder / "large").write_bytes(random.Random(0).randbytes(20_000))
    for most, names in ((1 << 20, {"inner/small", "large"}), (10_000, {"inner/small"})):
        monkeypatch.setattr(on_gpu, "ARCHIVE_BYTES", most)
        pack(folder, archive)
        assert archive.stat().st_size <= most
        back = tmp_path / f"back {most}"
        unpack(archive, back)
        found = [path for path in back.rglob("*") if path.is_file()]
        assert {str(path.relative_to(back)) for path in found} == names
        assert all(p.read_bytes() == (folder / p.relative_to(back)).read_bytes() for p in found)


def test_kernels_of_an_earlier_run_are_there_and_those_of_this_one_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUPY_CACHE_DIR", raising=False)
    code = "import os, sys; open(os.environ['CUPY_CACHE_DIR'] + '/' + sys.argv[1], 'x')"
    for name, kernels in (("one", None), ("two", tmp_path / "one" / "kernels.tar.gz")):
        stages = [Stage("s", [sys.executable, "-c", code, name])]
        Run(tmp_path / name, stages, 60, show=lambda line: None).run(["s"], kernels)
    unpack(tmp_path / "two" / "kernels.tar.gz", tmp_path / "back")
    assert {path.name for path in (tmp_path / "back").iterdir()} == {"one", "two"}


def case(share: float | None) -> dict[str, Any]:
    timing = {"median": 2e-3}
    target = None if share is None else "2x device copy"
    return {"of_target": share, "target": target, "seconds": {OURS: timing, "JAX": None}}


def test_the_summary_says_how_far_it_came_what_failed_and_what_is_farthest(tmp_path: Path) -> None:
    summary = Summary(["facts", "smoke", "figures gpu", "suite"])
    where = Records(tmp_path / "records.jsonl", "facts", "facts 0")
    where.write("run", arguments=["first"], seconds=540)
    gpu = {"devices": [{"name": "A Card"}], "nvidia_driver": "580.1"}
    where.ended("machine", PASSED, 0.1, facts={"gpu": gpu, "commit": "abc"})
    smoke = Records(where.path, "smoke", "smoke 1")
    smoke.write("stage", seconds=100)
    smoke.write("planned", count=4)
    smoke.ended("good", PASSED, 0.1)
    smoke.ended("bad", FAILED, 0.1, "Traceback\nAssertionError: no")
    smoke.begun("slow")
    figures = Records(where.path, "figures gpu", "figures gpu 0")
    figures.write("stage", seconds=100)
    for n, share in enumerate((0.5, 3.0, None, 2.0, 1.5, 1.1, 7.0, 1.2)):
        figures.ended(f"gpu: table: {n}", PASSED, 0.1, facts=case(share))
    figures.write("finished")
    for record in read(where.path):
        summary.add(record)
    text = summary.markdown()
    for line in (
        "# On a GPU: A Card",
        "driver 580.1",
        "`bench.on_gpu first`: at most 540 s",
        "| smoke | cut off | 1 | 1 |  |  |  | 2 |",
        "| figures gpu | finished | 8 |",
        "| suite | not begun |",
        "- smoke: `slow`",
        "- smoke: `bad`: failed",
        "AssertionError: no",
        "7 figures have a goal, 6 miss it",
    ):
        assert line in text
    table = text.partition("## Farthest")[2].partition("## All figures")[0]
    rows = [line.split(" | ")[:2] for line in table.splitlines() if line.startswith("| gpu")]
    names, shares = zip(*rows, strict=True)
    assert names == tuple(f"| gpu: table: {n}" for n in (6, 1, 3, 4, 7))
    assert shares == ("7.00", "3.00", "2.00", "1.50", "1.20")
    cases = summary.bench_json()["groups"]["gpu"]["cases"]
    assert len(cases) == 8
    summary.add({"event": "run", "time": 0, "arguments": ["next"], "seconds": 270})
    assert "slow" not in summary.markdown().partition("## What failed")[0]


def test_commands_that_cannot_be_meant_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*words: str) -> str:
        with pytest.raises(SystemExit):
            on_gpu.main([*words, "--out", str(tmp_path)])
        return capsys.readouterr().err

    assert "has no records to go on from. Try: first" in refused("next")
    Records(tmp_path / "records.jsonl").write("run", arguments=[], seconds=1)
    assert "has the records of an earlier run. Try: next" in refused("first")
    assert "unknown stages: ['nothing']. Try: first, next, facts" in refused("nothing")
    assert "--seconds is -1, which is no time" in refused("next", "--seconds", "-1")
    assert "--seconds is nan, which is no time" in refused("next", "--seconds", "nan")
    assert "nowhere.tar.gz is no file" in refused("next", "--kernels", "nowhere.tar.gz")
    records = str(tmp_path / "records.jsonl")
    assert "records.jsonl is no archive" in refused("next", "--kernels", records)
    assert [path.name for path in tmp_path.iterdir()] == ["records.jsonl"]


def test_next_takes_records_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = [stage(tmp_path, "a", "b", "c")]
    monkeypatch.setattr(on_gpu, "first_stages", lambda quick, commit: stages)
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    Records(old / "records.jsonl", "tries", "tries 0").ended("b", PASSED, 0.0)
    assert on_gpu.main(["next", "--quick", "--out", str(new), "--after", str(old)]) == 0
    assert outcomes(new) == dict.fromkeys("bac", PASSED)
    assert (tmp_path / "journal").read_text(encoding="utf-8").split() == ["a", "c"]


def test_the_stages_of_first_leave_time_for_figures() -> None:
    stages = {each.name: each for each in on_gpu.first_stages()}
    before = sum(stages[name].seconds for name in ("facts", "smoke", "gpu"))
    assert before <= on_gpu.SECONDS["first"] * 0.6
    assert on_gpu.SECONDS["first"] <= 540
    assert watch.START_SECONDS <= on_gpu.STAGE_SECONDS
