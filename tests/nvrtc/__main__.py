"""Gives kernels to the real compilers: `python -m tests.nvrtc FOLDER --processes 2`.

FOLDER has what the software GPU was asked to compile: `pytest --softgpu --softgpu-keep FOLDER`.
Each source is compiled by NVRTC of CUDA 12 or 13 for one of five architectures, in turns, and with
`--all` by both for all. What was compiled once is remembered in the cache folder, by all that it
depends on. Fails if a source is refused, or gets a warning that `WARNINGS` does not know.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
import hashlib
import itertools
import json
import re
import sys
import time
from pathlib import Path

from tests.nvrtc.compiler import Compiled, Source, nvrtc
from tests.nvrtc.toolkits import WHEELS, toolkit
from tests.softgpu.build import cache

ARCHITECTURES = (75, 80, 90, 100, 120)
TARGETS = [*itertools.product(WHEELS, ARCHITECTURES)]

WARNINGS = {
    "68-D": "CuPy's power of unsigned numbers compares with -1, where exponents are negative",
    "177-D": "a header declares numbers that not every kernel uses",
    "186-D": "a template for signed and unsigned numbers compares with 0",
    "20044-D": "CuPy's triangles name a constant of its class CIndexer",
}
"""Numbers of warnings, and why they are right to be there."""

_WARNING = re.compile(r"warning #([\w-]+)")


def results() -> Path:
    """Return the folder of what was compiled before."""
    return cache() / "nvrtc-results"


@dataclasses.dataclass(frozen=True)
class Job:
    """A source for a version and an architecture."""

    path: Path
    version: str
    architecture: int

    def run(self) -> Compiled:
        """Compile it, or read what became of it before."""
        toolkit_name = toolkit(self.version).name
        parts = [self.path.read_text(encoding="utf-8"), toolkit_name, str(self.architecture)]
        digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
        known = results() / digest
        if known.exists():
            return Compiled(**json.loads(known.read_text(encoding="utf-8")))
        found = nvrtc(self.version).compile(Source.read(self.path), self.architecture)
        known.parent.mkdir(parents=True, exist_ok=True)
        known.write_text(json.dumps(dataclasses.asdict(found)), encoding="utf-8")
        return found


def problem(found: Compiled) -> str | None:
    """Return what is wrong with a source: its first error, or a warning that nobody knows."""
    if not found.done:
        errors = [line for line in found.messages.splitlines() if "error" in line]
        return (errors or found.messages.splitlines() or ["no message"])[0]
    unknown = set(_WARNING.findall(found.messages)) - WARNINGS.keys()
    lines = [line for line in found.messages.splitlines() if any(n in line for n in unknown)]
    return lines[0] if lines else None


def jobs(paths: list[Path], every: bool) -> list[Job]:
    """Return every source for every target, or each for one of them."""
    if every:
        return [Job(path, *target) for path in paths for target in TARGETS]
    return [Job(path, *TARGETS[n % len(TARGETS)]) for n, path in enumerate(sorted(paths))]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="every source for every architecture")
    options = parser.parse_args()
    for version in WHEELS:
        toolkit(version)
    start, problems = time.monotonic(), 0
    rows: dict[tuple[str, int], list[Compiled]] = collections.defaultdict(list)
    todo = jobs(list(options.folder.glob("*.json")), options.all)
    with concurrent.futures.ProcessPoolExecutor(options.processes) as pool:
        for job, found in zip(todo, pool.map(Job.run, todo, chunksize=8), strict=True):
            rows[job.version, job.architecture].append(found)
            wrong = problem(found)
            if wrong:
                problems += 1
                print(f"{job.path.name}: CUDA {job.version}, sm_{job.architecture}: {wrong}")
    print("CUDA  sm   sources  refused  most registers  that spill")
    for (version, architecture), row in sorted(rows.items()):
        refused = sum(not found.done for found in row)
        most = max(found.registers for found in row)
        spilling = sum(found.spilled > 0 for found in row)
        print(f"{version} {architecture:4} {len(row):9} {refused:8} {most:15} {spilling:11}")
    print(f"{len(todo)} compiled, {problems} problems, {time.monotonic() - start:.0f} s")
    sys.exit(bool(problems) or not todo)


if __name__ == "__main__":
    main()
