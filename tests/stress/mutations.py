"""Disables every wait and every claim in turn: `python -m tests.stress.mutations`.

Each must be caught by a random program, whose seed is recorded in `mutations.json`, or be listed
there with the test that catches it, or with the reason why nothing can. `--seek` looks for seeds of
places that have no record.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.stress.sites import PACKAGE, Site, mutated, sites

RECORD = Path(__file__).with_name("mutations.json")
PATIENCE = 60
"""Seconds for one place."""

HUNT = """
import gc, sys
from gpushard.testing import programs
assert programs.__file__.startswith(sys.argv[1]), "the mutant is not what is run"
for seed in range(int(sys.argv[2]), int(sys.argv[3])):
    gc.freeze()
    try:
        programs.run(seed)
    except BaseException as error:
        print(seed, type(error).__name__, flush=True)
        raise SystemExit(0)
"""


def record() -> dict[str, dict[str, object]]:
    """Read how each place is caught."""
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def hunt(site: Site, first: int, count: int) -> tuple[int, str] | None:
    """Run programs with one place disabled.

    Returns:
      The first seed that fails, and how; None if none does.
    """
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(
            PACKAGE, f"{folder}/gpushard", ignore=shutil.ignore_patterns("__pycache__")
        )
        Path(folder, "gpushard", site.file).write_text(mutated(site), encoding="utf-8")
        command = [sys.executable, "-c", HUNT, folder, str(first), str(first + count)]
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            run = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return first, "it hangs"
    if run.returncode:
        return first, run.stderr.strip().rpartition("\n")[2]
    seed, _, error = run.stdout.strip().partition(" ")
    return (int(seed), error) if seed else None


def seek(count: int, jobs: int) -> None:
    """Look for a seed for every place that has no record, and write it down."""
    known = record()
    found = {str(site): site for site in sites()}
    kept = {name: entry for name, entry in known.items() if name in found}
    missing = [site for name, site in found.items() if name not in kept]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for site, caught in zip(
            missing, pool.map(lambda s: hunt(s, 0, count), missing), strict=True
        ):
            print(site, "->", caught, flush=True)
            if caught is not None:
                kept[str(site)] = {"seed": caught[0], "error": caught[1]}
    ordered = {name: kept[name] for name in found if name in kept}
    RECORD.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


def survivors(jobs: int) -> list[str]:
    """Return the places that have no record, or are not caught on their recorded seed."""
    known = record()
    found = {str(site): site for site in sites()}
    lost = [name for name in found if name not in known]
    seeds = {name: entry["seed"] for name, entry in known.items() if "seed" in entry}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        hunted = {
            name: pool.submit(hunt, found[name], int(str(seed)), 1)
            for name, seed in seeds.items()
            if name in found
        }
    lost += [name for name, result in hunted.items() if result.result() is None]
    return lost + [f"{name}: no longer there" for name in known if name not in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seek", type=int, metavar="COUNT", help="programs to try per place")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if options.seek:
        seek(options.seek, options.jobs)
    lost = survivors(options.jobs)
    print(f"{len(sites())} places, {len(lost)} not caught")
    for name in lost:
        print(" ", name)
    raise SystemExit(bool(lost))


if __name__ == "__main__":
    main()
