"""`python3 -m bench.on_gpu STAGE... --out FOLDER`: everything to run on a machine with a GPU.

=============== ==================================================================================
stage           what it runs
=============== ==================================================================================
`tests`         the whole suite but `tests/conformance`, its folders side by side
`conformance`   the conformance suites on the GPU's driver, divided in every way
`sanitizers`    the kernels' tests under compute-sanitizer's memcheck and racecheck
`bench`         `python -m bench --group gpu gpu_ops gpu_dispatch`
`all`           all of these
=============== ==================================================================================

A stage that fails, or takes too long, does not keep the others from running. The folder gets
`log.txt`, `summary.json`, `tests.xml`, `conformance.xml` (JUnit) and `bench.json`.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence

ROOT = pathlib.Path(__file__).resolve().parent.parent
STAGES = ("conformance", "tests", "sanitizers", "bench")
STAGE_SECONDS = 480
_LOG_BYTES = 600 << 10
"""Of each command, from its end."""
_SANITIZER = "/usr/local/cuda/bin/compute-sanitizer"


@dataclasses.dataclass
class Outcome:
    """How a command ended."""

    name: str
    code: int | None
    """Its exit code; None if it took too long."""
    seconds: float
    lines: list[str]
    """The last of what it printed."""

    @property
    def good(self) -> bool:
        """Whether it ended well."""
        return self.code == 0


class Run:
    """The stages of one call, with its folder and its log.

    Args:
      out: the folder.
      seconds: most that a stage may take.
      commit: the commit, where there is no git to tell.
      quick: whether to run as little as possible; for trying this out.
    """

    def __init__(
        self, out: pathlib.Path, seconds: float, commit: str | None, quick: bool = False
    ) -> None:
        self._out = out
        self._seconds = seconds
        self._commit = commit
        self._quick = quick
        self._scratch = pathlib.Path(tempfile.mkdtemp())
        out.mkdir(parents=True, exist_ok=True)
        self._log = (out / "log.txt").open("w", encoding="utf-8")

    def stage(self, name: str) -> list[Outcome]:
        """Run a stage; never raises."""
        self._deadline = time.monotonic() + self._seconds
        stages: dict[str, Callable[[], list[Outcome]]] = {
            "tests": self._tests,
            "conformance": self._conformance,
            "sanitizers": self._sanitizers,
            "bench": self._bench,
        }
        try:
            return stages[name]()
        except Exception as error:
            return [Outcome(name, 1, 0.0, [f"{type(error).__name__}: {error}"])]

    def close(self, outcomes: list[Outcome]) -> None:
        """Write the summary."""
        self._log.close()
        shutil.rmtree(self._scratch, ignore_errors=True)
        summary = [dataclasses.asdict(outcome) for outcome in outcomes]
        (self._out / "summary.json").write_text(json.dumps(summary, indent=1), encoding="utf-8")

    def _tests(self) -> list[Outcome]:
        folders = [path for path in sorted((ROOT / "tests").iterdir()) if path.name[0] not in "._"]
        parts = {
            path.name: [str(path.relative_to(ROOT))]
            for path in folders
            if path.is_dir() and path.name != "conformance" and any(path.rglob("test_*.py"))
        }
        parts["files"] = [str(path.relative_to(ROOT)) for path in folders if _is_test(path)]
        parts["doctests"] = ["gpushard"]
        if self._quick:
            parts = {"gpu": parts["gpu"]}
        workers = max(2, (os.cpu_count() or 2) * 3 // 4)
        order = sorted(parts, key=lambda name: name != "gpu")
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            runs = [pool.submit(self._pytest, f"tests: {name}", parts[name]) for name in order]
            outcomes = [run.result() for run in runs]
        self._merge("tests", outcomes)
        return outcomes

    def _conformance(self) -> list[Outcome]:
        parts = {"plain": "Gpu and not Checked", "checked": "Gpu and Checked", "others": "not Gpu"}
        if self._quick:
            del parts["others"]
        with concurrent.futures.ThreadPoolExecutor(len(parts)) as pool:
            runs = [
                pool.submit(
                    self._pytest, f"conformance: {name}", ["tests/conformance", "-k", which]
                )
                for name, which in parts.items()
            ]
            outcomes = [run.result() for run in runs]
        self._merge("conformance", outcomes)
        return outcomes

    def _sanitizers(self) -> list[Outcome]:
        program = shutil.which("compute-sanitizer") or _SANITIZER
        tests = [*_PYTEST, "tests/gpu/test_kernels.py", "tests/gpu/test_jit.py"]
        outcomes = []
        for tool in ("memcheck", "racecheck"):
            command = [program, "--tool", tool, "--error-exitcode", "77", "--print-limit", "20"]
            if tool == "memcheck":  # else calls that libraries try, and that fail, would be errors
                command += ["--report-api-errors", "no"]
            self._deadline = time.monotonic() + self._seconds / 2
            outcomes.append(self._call(tool, [*command, *tests]))
        return outcomes

    def _bench(self) -> list[Outcome]:
        command = [
            sys.executable,
            "-m",
            "bench",
            "--group",
            "gpu",
            "gpu_ops",
            "gpu_dispatch",
            "--keep-going",
        ]
        command += ["--json", str(self._out / "bench.json")]
        if self._commit:
            command += ["--commit", self._commit]
        if self._quick:
            command.append("--quick")
        return [self._call("bench", command, lines=90)]

    def _pytest(self, name: str, chosen: Sequence[str]) -> Outcome:
        xml = self._scratch / f"{name.rpartition(' ')[2]}.xml"
        return self._call(name, [*_PYTEST, f"--junitxml={xml}", *chosen])

    def _merge(self, name: str, outcomes: list[Outcome]) -> None:
        """Put the JUnit files of a stage into one."""
        suites = ET.Element("testsuites")
        for outcome in outcomes:
            path = self._scratch / f"{outcome.name.rpartition(' ')[2]}.xml"
            if path.exists():
                suites.extend(ET.parse(path).getroot().iter("testsuite"))
        ET.ElementTree(suites).write(self._out / f"{name}.xml", encoding="utf-8")

    def _call(self, name: str, command: Sequence[str], lines: int = 12) -> Outcome:
        """Run a command in a process group of its own, which is ended when it takes too long."""
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
            "PYTHONUNBUFFERED": "1",
        }
        if "pytest" in command:  # as tests/conftest.py has it, which doctests alone do not load
            environment.setdefault("GPUSHARD_BACKEND", "host")
        start = time.monotonic()
        path = self._scratch / f"{name.replace(': ', '-')}.log"
        code: int | None
        with path.open("wb") as file:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                code = process.wait(max(1.0, self._deadline - start))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                code = None
        text = path.read_bytes()[-_LOG_BYTES:].decode("utf-8", "replace")
        self._log.write(f"===== {name}: {' '.join(command)}\n{text}\n")
        self._log.flush()
        wanted = [line for line in text.splitlines() if line.strip()]
        if "pytest" in " ".join(command):
            wanted = [line for line in wanted if not line.startswith("SKIPPED")]
            failed = [line for line in wanted if line.startswith(("FAILED", "ERROR"))]
            wanted = [*failed[:25], *wanted[-3:]]
        return Outcome(name, code, time.monotonic() - start, wanted[-lines - 16 :])


_PYTEST = [
    *(sys.executable, "-m", "pytest", "-rfE", "--tb=short", "-p", "no:cacheprovider"),
    *("-o", "faulthandler_timeout=150"),
]


def _is_test(path: pathlib.Path) -> bool:
    return path.is_file() and path.name.startswith("test_") and path.suffix == ".py"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python3 -m bench.on_gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("stages", nargs="+", choices=[*STAGES, "all"])
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for the results")
    parser.add_argument("--seconds", type=float, default=STAGE_SECONDS, help="limit of a stage")
    parser.add_argument("--commit", help="the commit, where there is no git to tell")
    parser.add_argument("--quick", action="store_true", help="as little as possible")
    options = parser.parse_args(arguments)
    stages = STAGES if "all" in options.stages else dict.fromkeys(options.stages)
    run = Run(options.out.resolve(), options.seconds, options.commit, options.quick)
    outcomes: list[Outcome] = []
    for stage in stages:
        print(f"--- {stage}", flush=True)
        for outcome in run.stage(stage):
            outcomes.append(outcome)
            if not outcome.good or stage in ("bench", "sanitizers"):
                print(f"[{outcome.name}]", *outcome.lines, sep="\n", flush=True)
    run.close(outcomes)
    print("=== summary")
    for outcome in outcomes:
        state = {0: "good", None: "took too long"}.get(outcome.code, f"exit code {outcome.code}")
        last = outcome.lines[-1].strip("= ") if outcome.lines else ""
        print(f"{outcome.name:24} {state:14} {outcome.seconds:6.0f} s  {last[:110]}")
    return int(not all(outcome.good for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
