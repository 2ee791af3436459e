"""Disables every wait and every claim in turn: `python -m tests.stress.mutations`.

Each must be caught by a random program, whose seed is recorded in `mutations.json`, or be listed
there with the test that catches it, or with the reason why nothing can. `--seek` looks for seeds of
places that have no record.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.stress.sites import PACKAGE, Site, mutated, sites

RECORD = Path(__file__).with_name("mutations.json")
PATIENCE = 60
"""Seconds for one place, half of which are for one program."""

SUITE = (
    "tests", "conftest.py", "pyproject.toml", "bench", "docs", "kernels", "README.md",
    "CONTRIBUTING.md",
)  # fmt: skip
"""What tests read beside the package."""

HUNT = """
import gc, os, signal, sys
from gpushard.testing import programs
assert programs.__file__.startswith(sys.argv[1]), "the mutant is not what is run"
def give_up(*_):
    raise TimeoutError
signal.signal(signal.SIGALRM, give_up)
for seed in range(int(sys.argv[2]), int(sys.argv[3])):
    gc.freeze()
    signal.alarm(int(sys.argv[4]))
    try:
        programs.run(seed)
    except BaseException as error:
        print(seed, type(error).__name__, flush=True)
        os._exit(0)  # its threads may be stuck
"""


def record() -> dict[str, dict[str, object]]:
    """Read how each place is caught."""
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


@contextlib.contextmanager
def mutant(file: str, text: str) -> Iterator[str]:
    """Make a folder with a package in which one file has another text.

    What is compiled already comes along: to compile the package takes longer than most programs.
    """
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(PACKAGE, f"{folder}/gpushard")
        source = Path(folder, "gpushard", file)
        source.write_text(text, encoding="utf-8")
        for compiled in source.parent.glob(f"__pycache__/{source.stem}.*"):
            compiled.unlink()
        yield folder


def hunt(site: Site, first: int, count: int) -> tuple[int, str] | None:
    """Run programs with one place disabled.

    Returns:
      The first seed that fails, and how; None if none does.
    """
    with mutant(site.file, mutated(site)) as folder:
        numbers = map(str, (first, first + count, PATIENCE // 2))
        run = _run(folder, "-c", HUNT, folder, *numbers, patience=PATIENCE + count)
    if run is None:
        return first, "it hangs"
    if run.returncode:
        return first, run.stderr.strip().rpartition("\n")[2]
    seed, _, error = run.stdout.strip().partition(" ")
    return (int(seed), error) if seed else None


def _run(
    folder: str, *arguments: str, patience: float = PATIENCE
) -> subprocess.CompletedProcess[str] | None:
    """Run Python on the package in a folder; None if it takes too long."""
    environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTEST_ADDOPTS", None)  # a test alone needs no more processes
    try:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=patience,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None


def seek(count: int, jobs: int) -> None:
    """Look for a seed for every place that is not caught, and write it down."""
    known, lost = record(), set(survivors(jobs))
    found = {str(site): site for site in sites()}
    missing = [site for name, site in found.items() if name in lost]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for site, caught in zip(
            missing, pool.map(lambda s: hunt(s, 0, count), missing), strict=True
        ):
            print(site, "->", caught, flush=True)
            known.pop(str(site), None)
            if caught is not None:
                known[str(site)] = {"seed": caught[0], "error": caught[1]}
    ordered = {name: known[name] for name in found if name in known}
    RECORD.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


def survivors(jobs: int, share: int = 1) -> list[str]:
    """Return the places that have no record, or that what is recorded does not catch.

    All records are compared with the places there are; of those that something catches, one of
    every `share` is disabled.
    """
    known = record()
    found = {str(site): site for site in sites()}
    tried = [name for name in found if "redundant" not in known.get(name, {"redundant": ""})]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        caught = {
            name: pool.submit(_is_caught, found[name], known[name]) for name in tried[::share]
        }
    gone = [f"{name}: no longer there" for name in known if name not in found]
    new = [name for name in found if name not in known]
    return gone + new + [name for name in caught if not caught[name].result()]


def _is_caught(site: Site, entry: dict[str, object]) -> bool:
    if "test" in entry:
        return is_caught_by(site, str(entry["test"]))
    return hunt(site, int(str(entry["seed"])), 1) is not None


def is_caught_by(site: Site, test: str) -> bool:
    """Say whether a test of the suite fails with one place disabled."""
    with mutant(site.file, mutated(site)) as folder:
        return run_tests(folder, [test]) is not None


def run_tests(
    folder: str,
    tests: Sequence[str],
    patience: float = PATIENCE,
    options: Sequence[str] = ("--all",),
) -> str | None:
    """Run tests of the suite on the package in a folder until one fails.

    Args:
      folder: has the package.
      tests: which run, in this order.
      patience: after how many seconds they are said to hang.
      options: of pytest, for how much of each test runs.

    Returns:
      The test that failed, or how the run ended otherwise; None if all passed or none is there.
    """
    Path(folder, "chosen").write_text("\n".join(tests), encoding="utf-8")
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    there = [file for file in files if (PACKAGE.parent / file).exists()]
    if not there:
        return None
    return run_pytest(
        folder, ["-p", "tests.stress.chosen", "--every-case", *options, *there], patience
    )


def run_module(folder: str, arguments: Sequence[str], patience: float) -> str | None:
    """Run a module of the tests on the package in a folder; return how it fails, if it does."""
    _add_tests(folder)
    run = _run(folder, "-m", *arguments, patience=patience)
    return (
        "it hangs" if run is None else f"exit status {run.returncode}" if run.returncode else None
    )


def _add_tests(folder: str) -> None:
    """Put beside a package what tests are and read."""
    for name in SUITE:
        if not os.path.lexists(f"{folder}/{name}"):
            os.symlink(PACKAGE.parent / name, f"{folder}/{name}")


def run_pytest(folder: str, arguments: Sequence[str], patience: float) -> str | None:
    """Run pytest on the package in a folder until a test fails.

    Returns:
      The test that failed, or how the run ended otherwise; None if all passed.
    """
    _add_tests(folder)
    command = ["-m", "pytest", "-q", "-x", "-rfE", "-p", "no:cacheprovider", "-p", "no:xdist"]
    run = _run(folder, *command, *arguments, patience=patience)
    if run is None:
        return "it hangs"
    if run.returncode in (0, 5):
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", run.stdout, re.MULTILINE)
    return failed[1] if failed else f"exit status {run.returncode}"


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
