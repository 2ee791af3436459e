"""`python3 -m bench.on_gpu first --out FOLDER`: everything to run on a machine with a GPU.

`first` runs what says most, in at most nine minutes: what the machine has, the programs of
`bench.smoke`, `tests/gpu`, and the figures that matter most. `next` goes on where an earlier
command stopped, from the files in its folder, and then runs the rest. The names of stages run
these alone.

=============== ==================================================================================
stage           what it runs
=============== ==================================================================================
`facts`         driver, CuPy, NVRTC, `gpushard info`
`smoke`         a program for each type of element and kind of kernel
`gpu`           `tests/gpu`
`figures ...`   `python -m bench --group ...`, without JAX and PyTorch
`conformance`   the conformance suites on the GPU's driver, divided in every way
`memcheck`      the kernels' tests under compute-sanitizer
`racecheck`     the same with its other tool
`peers ...`     the figures beside JAX and PyTorch
`suite`         the tests that remain
=============== ==================================================================================

Nothing is lost when the command is killed: each item is recorded as it ends. An item that hangs or
crashes costs only itself. The folder gets

=================== ==============================================================================
`records.jsonl`     each item (`bench.records`)
`summary.md`        how far it came, what failed, the figures farthest from their goals
`bench.json`        all figures, as `python -m bench --json` writes them
`log.txt`           what the processes printed
`kernels.tar.gz`    CuPy's compiled kernels, for `--kernels` of a later command
=================== ==============================================================================
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import signal
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.records import BAD, Records, read, replace
from bench.summary import Summary
from bench.watch import Log, Stage, run_stage

ROOT = pathlib.Path(__file__).resolve().parent.parent

SECONDS = {"first": 540, "next": 270}
"""Most that a command takes in all, unless `--seconds` says otherwise. Machines that are lent by
the minute may end a command after ten."""

STAGE_SECONDS = 120
"""Most that a stage takes before the next one has its turn; it goes on when all had theirs."""

CLOSING_SECONDS = 5
"""Kept for ending processes and writing files."""

SUMMARY_SECONDS = 1
"""How often the summary is written."""

ARCHIVE_BYTES = 15 << 20
"""Most that the archive of kernels may have."""

FIGURES = (
    *("gpu:reshards", "gpu_ops:large", "gpu_ops:traced", "gpu_dispatch", "gpu:host_copies"),
    *("gpu_parallel", "gpu_graphs"),
)
"""The figures of `first`, those that matter most first."""

MORE_FIGURES = ("gpu_ops:small", "gpu:small", "gpu:crossover", "gpu:thresholds", "gpu:exports")
PEERS = ("gpu:reshards", "gpu_ops", "gpu:host_copies", "gpu:small", "gpu:exports")

_SANITIZER = "/usr/local/cuda/bin/compute-sanitizer"
TESTS = [
    *(sys.executable, "-m", "pytest", "--tb=short", "-p", "no:cacheprovider"),
    *("-p", "bench.each_test"),
]


def first_stages(quick: bool = False, commit: str | None = None) -> list[Stage]:
    """Return the stages of `first`, in order.

    Args:
      quick: whether to run as little as possible; for trying this out.
      commit: the commit, where there is no git to tell.
    """
    little = ["--quick"] * quick
    smoke = [sys.executable, "-m", "bench.smoke"]
    tests = ["tests/gpu/test_launches.py", "tests/gpu/test_kernels.py"] if quick else ["tests/gpu"]
    workers = min(8, os.cpu_count() or 8)
    return [
        Stage("facts", [*smoke, "facts", *(["--commit", commit] if commit else [])], 2, 20, 20),
        Stage("smoke", [*smoke, "programs", *little], min(6, workers), 100, 40),
        Stage("gpu", [*TESTS, *tests], workers, 200, 60),
        *(_figures("figures", name, quick) for name in (FIGURES[1:2] if quick else FIGURES)),
    ]


def further_stages() -> list[Stage]:
    """Return the stages that `next` runs when those of `first` have ended, in order."""
    sanitizer = shutil.which("compute-sanitizer") or _SANITIZER
    kernels = ["tests/gpu/test_kernels.py", "tests/gpu/test_jit.py"]
    check = [sanitizer, "--error-exitcode", "77", "--print-limit", "20", "--tool"]
    # Calls that libraries try, and that fail, would be errors of memcheck.
    memcheck = [*check, "memcheck", "--report-api-errors", "no", *TESTS, *kernels]
    workers = max(2, (os.cpu_count() or 2) * 3 // 4)
    taken = ("gpu", "conformance")
    folders = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").iterdir())
        if path.name not in taken
        and (any(path.rglob("test_*.py")) if path.is_dir() else _is_test(path))
    ]
    return [
        *(_figures("figures", name) for name in MORE_FIGURES),
        Stage("conformance", [*TESTS, "tests/conformance"], min(8, workers), STAGE_SECONDS),
        Stage("memcheck", memcheck, 1, STAGE_SECONDS, 100),
        Stage("racecheck", [*check, "racecheck", *TESTS, *kernels], 1, STAGE_SECONDS, 100),
        *(_figures("peers", name) for name in PEERS),
        Stage("suite", [*TESTS, *folders, "gpushard"], workers, STAGE_SECONDS, 300),
    ]


def _figures(kind: str, group: str, quick: bool = False) -> Stage:
    command = [sys.executable, "-m", "bench", "--keep-going", "--group", group]
    command += ["--no-jax"] * (kind == "figures") + ["--quick"] * quick
    return Stage(f"{kind} {group}", command, 1, STAGE_SECONDS, 60)


def _is_test(path: pathlib.Path) -> bool:
    return path.name.startswith("test_") and path.suffix == ".py"


class Run:
    """One command, with its folder.

    Args:
      out: the folder.
      stages: all stages, whether they run or not.
      seconds: most that the command takes.
      arguments: the words of the command, for the summary.
      show: gets lines to print.
    """

    def __init__(
        self,
        out: pathlib.Path,
        stages: Sequence[Stage],
        seconds: float,
        arguments: Sequence[str] = (),
        show: Callable[[str], None] = lambda line: print(line, flush=True),
    ) -> None:
        self._end = time.monotonic() + seconds - min(CLOSING_SECONDS, seconds / 10)
        self._out = out
        self._stages = stages
        self._show = show
        out.mkdir(parents=True, exist_ok=True)
        self._path = out / "records.jsonl"
        self._log = Log(out / "log.txt")
        self._summary = Summary(stage.name for stage in stages)
        for record in read(self._path):
            self._summary.add(record)
        Records(self._path).write("run", arguments=list(arguments), seconds=round(seconds))
        self._summary.add(read(self._path)[-1])
        self._written = 0.0
        self._kernels: pathlib.Path | None = None

    def run(self, names: Sequence[str], kernels: pathlib.Path | None = None) -> bool:
        """Run stages in turns until all have finished or time is up; return whether all is well.

        Args:
          names: of the stages.
          kernels: an archive of compiled kernels that an earlier run has left.
        """
        with tempfile.TemporaryDirectory() as folder:
            scratch = pathlib.Path(folder)
            environment = self._environment(scratch, kernels)
            self.write()
            try:
                self._turns(names, scratch, environment)
            finally:
                self.write()
        return not self._summary.failed and all(map(self._summary.is_finished, names))

    def _turns(
        self, names: Sequence[str], scratch: pathlib.Path, environment: Mapping[str, str]
    ) -> None:
        left = [stage for stage in self._stages if stage.name in names]
        while left and time.monotonic() < self._end:
            for stage in [stage for stage in left if not self._summary.is_finished(stage.name)]:
                deadline = min(self._end, time.monotonic() + stage.seconds)
                if time.monotonic() >= self._end:
                    break
                self._show(f"--- {stage.name}")
                run_stage(
                    stage,
                    self._path,
                    self._log,
                    scratch,
                    root=ROOT,
                    environment=environment,
                    deadline=deadline,
                    see=self._see,
                    tick=self._tick,
                )
                self.write()
                if self._kernels is not None:
                    pack(self._kernels, self._out / "kernels.tar.gz")
            left = [stage for stage in left if not self._summary.is_finished(stage.name)]

    def _environment(
        self, scratch: pathlib.Path, kernels: pathlib.Path | None
    ) -> Mapping[str, str]:
        own = {
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
            "PYTHONUNBUFFERED": "1",
            "PYTHONFAULTHANDLER": "1",
        }
        if "CUPY_CACHE_DIR" not in os.environ:  # else whoever chose that folder keeps it
            self._kernels = scratch / "kernels"
            self._kernels.mkdir()
            own["CUPY_CACHE_DIR"] = str(self._kernels)
            if kernels is not None and kernels.exists():
                unpack(kernels, self._kernels)
        return {**os.environ, **own}

    def _see(self, record: Mapping[str, Any]) -> None:
        self._summary.add(record)
        if record["event"] == "ended" and record["outcome"] in BAD:
            last = record.get("text", "").strip().rpartition("\n")[2]
            self._show(f"{record['outcome']}: {record['item']}: {last[:200]}")

    def _tick(self) -> None:
        if time.monotonic() > self._written + SUMMARY_SECONDS:
            self.write()

    def write(self) -> str:
        """Write the summary and the figures, and return the summary."""
        text = self._summary.markdown()
        replace(self._out / "summary.md", text)
        replace(self._out / "bench.json", json.dumps(self._summary.bench_json(), indent=1))
        self._written = time.monotonic()
        return text


def pack(folder: pathlib.Path, archive: pathlib.Path) -> None:
    """Put compiled kernels into an archive, the smallest first, as many as there is room for."""
    new = archive.with_name(f"{archive.name}.new")
    files = sorted((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    with new.open("wb") as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=4) as tar:
        for path in files:
            if file.tell() + path.stat().st_size > ARCHIVE_BYTES:
                break
            tar.add(path, str(path.relative_to(folder)))
    os.replace(new, archive)


def unpack(archive: pathlib.Path, folder: pathlib.Path) -> None:
    """Bring compiled kernels back."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")


def _file(text: str) -> pathlib.Path:
    path = pathlib.Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"{text} is no file")
    return path


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    words = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(
        prog="python3 -m bench.on_gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="+", help="first, next, or the names of stages")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for the results")
    parser.add_argument(
        "--after", type=pathlib.Path, help="folder of the command to go on from; --out by default"
    )
    parser.add_argument("--seconds", type=float, help="most that the command takes (540, next 270)")
    parser.add_argument(
        "--kernels", type=_file, help="kernels.tar.gz of an earlier run, to start with"
    )
    parser.add_argument("--commit", help="the commit, where there is no git to tell")
    parser.add_argument("--quick", action="store_true", help="as little as possible")
    options = parser.parse_args(arguments)
    out, after = options.out.resolve(), (options.after or options.out).resolve()
    first = first_stages(options.quick, options.commit)
    every = [*first, *([] if options.quick else further_stages())]
    chosen = {"first": first, "next": every}.get(" ".join(options.what))
    if chosen is None:
        known = {stage.name: stage for stage in every}
        unknown = [name for name in options.what if name not in known]
        if unknown:
            parser.error(f"unknown stages: {unknown}. Try: first, next, {', '.join(known)}")
        chosen = [known[name] for name in options.what]
    if options.seconds is not None and not options.seconds > 0:
        parser.error(f"--seconds is {options.seconds:g}, which is no time to run anything in")
    if options.kernels is not None and not tarfile.is_tarfile(options.kernels):
        parser.error(f"--kernels {options.kernels} is no archive that an earlier run has left")
    begins = options.what != ["next"]
    if begins == (after / "records.jsonl").exists():
        problem = "has the records of an earlier run" if begins else "has no records to go on from"
        parser.error(f"{after} {problem}. Try: {'next, or another folder' if begins else 'first'}")
    if after != out:
        out.mkdir(parents=True, exist_ok=True)
        shutil.copy(after / "records.jsonl", out)
    seconds = options.seconds or SECONDS.get(options.what[0], SECONDS["first"])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    run = Run(out, every, seconds, words)
    kernels = options.kernels or after / "kernels.tar.gz"
    well = run.run([stage.name for stage in chosen], kernels)
    print(run.write(), flush=True)
    return int(not well)


if __name__ == "__main__":
    sys.exit(main())
