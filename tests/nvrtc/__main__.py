"""Gives kernels to the real compilers: `python -m tests.nvrtc FOLDER --processes 2`.

FOLDER has what the software GPU was asked to compile: `pytest --softgpu --softgpu-keep FOLDER`. Of
these a share is compiled that has each template with each type (`share.py`), a source by NVRTC of
CUDA 12 or 13 for one of five architectures. With `--each` all sources are compiled so, and with
`--all` each by both for all architectures. What was compiled once is remembered in the cache
folder, by all that it depends on. Fails if a source is refused, or gets a warning that
`jobs.WARNINGS` does not know.
"""

from __future__ import annotations

import argparse
import collections
import sys
import time
from pathlib import Path

from tests.nvrtc.compiler import Compiled
from tests.nvrtc.jobs import jobs, problem, run, share
from tests.nvrtc.toolkits import WHEELS, toolkit


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--each", action="store_true", help="every source for an architecture")
    parser.add_argument("--all", action="store_true", help="every source for every architecture")
    options = parser.parse_args()
    paths = sorted(options.folder.glob("*.json"))
    if not paths:
        parser.error(f"no sources in {options.folder}: keep some with pytest --softgpu-keep")
    for version in WHEELS:
        toolkit(version)
    start, problems = time.monotonic(), 0
    rows: dict[tuple[str, int], list[Compiled]] = collections.defaultdict(list)
    todo = jobs(paths if options.all or options.each else share(paths), options.all)
    for job, found in run(todo, options.processes):
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
    taken = len({job.path for job in todo})
    print(
        f"{taken} of {len(paths)} sources, {len(todo)} compilations, {problems} problems, "
        f"{time.monotonic() - start:.0f} s"
    )
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
