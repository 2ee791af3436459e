"""Runs the suites of the CUDA backend on the software GPU in every configuration.

    python -m tests.softgpu.matrix                       # each suite on each machine once
    python -m tests.softgpu.matrix --all                 # their whole product
    python -m tests.softgpu.matrix --only numpy --only seed-3

Every run is under the checker. What passed before, of the same files, is not run again, and neither
is a test that gave this machine no work, as long as its file stays as it is.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.softgpu.build import ROOT, TOOLKITS, cache

SUITES = ("gpu", "conformance", "array", "ops", "numpy", "random", "interop")
CUDAS = tuple(TOOLKITS)
SEEDS = (1, 2, 3, 4, 5)
MOST_SECONDS = 3600
"""Of one run."""


@dataclasses.dataclass(frozen=True)
class Machine:
    """GPUs that make eight devices."""

    name: str
    gpus: int
    partitions: int
    """Into how many devices each is divided."""
    peers: bool = True
    """Whether they reach each other's memory."""
    nccl: str = "auto"
    """Between which of them NCCL is used."""


MACHINES = (
    Machine("1x8", 1, 8),
    Machine("2x4", 2, 4),
    Machine("4x2", 4, 2),
    Machine("4x2-no-peers", 4, 2, peers=False, nccl="never"),
    Machine("4x2-nccl", 4, 2, peers=False),
    Machine("8x1", 8, 1),
)


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of pytest."""

    machine: Machine
    cuda: str
    """Which CuPy is used: the one for this CUDA."""
    seed: int
    suite: str

    @property
    def name(self) -> str:
        """What `--only` looks at."""
        return f"{self.machine.name} cuda-{self.cuda} seed-{self.seed} {self.suite}"

    def command(self) -> list[str]:
        """Return how pytest is called."""
        more = [] if self.machine.peers else ["--softgpu-no-peers"]
        idle = cache() / f"idle-{self.machine.name}-{self.suite}.json"
        return [
            *(sys.executable, "-m", "pytest", "--softgpu", "-n0", "--tb=short", "-rfE"),
            *("--softgpu-cuda", self.cuda),
            *("--softgpu-seed", str(self.seed), "--softgpu-devices", str(self.machine.gpus)),
            *(*more, "--softgpu-idle", str(idle), f"tests/{self.suite}"),
        ]

    def environment(self) -> dict[str, str]:
        """Return the environment of the run."""
        own = {
            "GPUSHARD_PARTITIONS": str(self.machine.partitions),
            "GPUSHARD_NCCL": self.machine.nccl,
            "GPUSHARD_CHECK": "1",
        }
        return {**os.environ, **own}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    passed: int
    skipped: int
    failed: int
    idle: int
    """How many were left out, as they gave GPUs no work before."""
    worked: int
    """How many tests gave the GPUs work."""
    seconds: float
    code: int
    """What pytest exits with."""

    def __str__(self) -> str:
        """One line."""
        ended = "" if self.code in (0, 1) else f", ended with {self.code}"
        return (
            f"{self.passed:5} passed ({self.worked} worked on GPUs), {self.skipped} skipped, "
            f"{self.idle} idle, {self.failed} failed, {self.seconds:.0f} s{ended}"
        )


def all_runs() -> Iterator[Run]:
    """Yield the whole product."""
    return (Run(*run) for run in itertools.product(MACHINES, CUDAS, SEEDS, SUITES))


def few_runs() -> Iterator[Run]:
    """Yield runs that have each suite on every machine, with every CuPy and with every seed."""
    for shift, suite in enumerate(SUITES):
        for number, machine in enumerate(MACHINES, shift):
            yield Run(machine, CUDAS[number % len(CUDAS)], SEEDS[number % len(SEEDS)], suite)


def state() -> str:
    """Return a hash of the files that runs depend on, whether they are committed or not."""
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard", "gpushard", "kernels", "tests"],
        cwd=ROOT, check=True, capture_output=True,
    ).stdout  # fmt: skip
    total = hashlib.sha256()
    for name in sorted(listed.decode().split("\0")):
        if (path := ROOT / name).is_file() and path.suffix != ".md":
            total.update(f"{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:16]


def execute(run: Run, log: Path) -> Outcome:
    """Run pytest, with what it prints in a file."""
    begin = time.monotonic()
    with log.open("w", encoding="utf-8") as output:
        try:
            code = subprocess.run(
                run.command(), cwd=ROOT, env=run.environment(), stdout=output,
                stderr=subprocess.STDOUT, timeout=MOST_SECONDS, check=False,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            code = 124
    text = log.read_text(encoding="utf-8", errors="replace")
    last = re.findall(
        r"^.*\b(?:passed|failed|skipped|errors?)\b.* in [\d.]+s.*$", text, re.MULTILINE
    )
    words = ("passed", "skipped", "(?:failed|error)", "deselected")
    counts = (_count(last[-1:], word) for word in words)
    worked = re.findall(r"^software GPU: \d+ tests gave.*$", text, re.MULTILINE)
    seconds = round(time.monotonic() - begin, 1)
    return Outcome(*counts, _count(worked[-1:], "tests gave"), seconds, code)


def _count(lines: Sequence[str], what: str) -> int:
    """Return how many there were, as the lines of pytest say."""
    return sum(int(number) for line in lines for number in re.findall(rf"(\d+) {what}", line))


def table(outcomes: dict[Run, Outcome]) -> str:
    """Return what passed of each suite on each machine, over all CuPys and seeds that were run."""
    lines = ["".join(f"{title:>14}" for title in ("", *SUITES))]
    for machine in MACHINES:
        cells = [machine.name]
        for suite in SUITES:
            found = [
                o for run, o in outcomes.items() if (run.machine, run.suite) == (machine, suite)
            ]
            failed = sum(outcome.code != 0 for outcome in found)
            cells.append(f"{failed} bad" if failed else f"{len(found)} ok" if found else "-")
        lines.append("".join(f"{cell:>14}" for cell in cells))
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for; 1 if something failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.softgpu.matrix", description=__doc__)
    parser.add_argument("--all", action="store_true", help="the whole product")
    parser.add_argument("--only", action="append", default=[], help="what is in the run's name")
    parser.add_argument("--jobs", type=int, default=1, help="so many at once")
    parser.add_argument("--again", action="store_true", help="what has passed, too")
    parser.add_argument("--list", action="store_true", help="only print what would run")
    asked = parser.parse_args(arguments)
    words = [set(only.split()) for only in asked.only]
    runs = [
        run for run in (all_runs() if asked.all else few_runs())
        if all(word <= set(run.name.split()) for word in words)
    ]  # fmt: skip
    if asked.list:
        print(*(run.name for run in runs), sep="\n")
        return 0
    folder = cache() / f"matrix-{state()}"
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{len(runs)} runs; what they print is in {folder}", flush=True)
    outcomes: dict[Run, Outcome] = {}

    def one(run: Run) -> None:
        record = folder / f"{run.name.replace(' ', '-')}.json"
        outcome = None
        if record.exists() and not asked.again:
            outcome = Outcome(**json.loads(record.read_text(encoding="utf-8")))
        if outcome is None or outcome.code:
            outcome = execute(run, record.with_suffix(".txt"))
            record.write_text(json.dumps(dataclasses.asdict(outcome)), encoding="utf-8")
        outcomes[run] = outcome
        print(f"{run.name:40} {outcome}", flush=True)

    with ThreadPoolExecutor(asked.jobs) as pool:
        list(pool.map(one, runs))
    print(table(outcomes))
    return int(any(outcome.code for outcome in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main())
