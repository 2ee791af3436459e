"""Run the public conformance suite `array-api-tests` on gpushard, and compare it with NumPy.

    git clone --recurse-submodules https://github.com/data-apis/array-api-tests CHECKOUT
    touch CHECKOUT/array-api/src/array_api_stubs/_2025_12/__init__.py
    pip install pytest-json-report ndindex pytest-xdist hypothesis
    python -m tests.array_api.suite CHECKOUT

On a GPU divided in eight: GPUSHARD_BACKEND=cuda GPUSHARD_PARTITIONS=8 before that.

A third of the arrays must be split. A test may fail if plain NumPy fails it in the same run, or if
`expected.txt` has it, with a reason. Everything else that fails ends the script with status 1.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

from tests.array_api.runs import RUNS

VERSION = "2025.12"
EXPECTED = pathlib.Path(__file__).with_name("expected.txt")
ROOT = pathlib.Path(__file__).parents[2]


def expected_failures(file: pathlib.Path = EXPECTED) -> dict[str, str]:
    """Return tests that may fail, each with the reason."""
    lines = [line for line in file.read_text().splitlines() if line and line[0] != "#"]
    return dict(line.split("  # ", 1) for line in lines)  # type: ignore[misc]


def run(checkout: pathlib.Path, module: str, way: str, options: argparse.Namespace) -> Any:
    """Run the suite once; return outcomes by test, counts, and operations by name."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "ARRAY_API_TESTS_MODULE": module,
            "ARRAY_API_TESTS_VERSION": VERSION,
            "SUITE_RUN": way,
            "SUITE_OUT": folder,
            "GPUSHARD_HOST_DEVICES": "8",
            "PYTHONPATH": str(ROOT),
            "PYTEST_ADDOPTS": "",
        }
        command = [sys.executable, "-m", "pytest", "array_api_tests", "-q", "--tb=short"]
        command += ["-p", "tests.array_api.plugin", "-p", "no:cacheprovider", "-W", "ignore"]
        command += [f"--hypothesis-seed={options.seed}", f"--max-examples={options.examples}"]
        command += ["--disable-deadline", "-n", str(options.processes)]
        if options.only:
            command += ["-k", options.only]
        log = subprocess.run(
            command, cwd=checkout, env=environment, text=True, capture_output=True, check=False
        )
        if options.log:
            path = pathlib.Path(options.log) / f"{module} {way}.log".replace(" ", "_")
            path.write_text(log.stdout + log.stderr)
        if log.returncode not in (0, 1):
            sys.exit(f"pytest ended with {log.returncode}:\n{log.stdout}\n{log.stderr}")
        found = [json.loads(path.read_text()) for path in pathlib.Path(folder).glob("*.json")]
    outcomes: dict[str, str] = {}
    seen: collections.Counter[str] = collections.Counter()
    whole: collections.Counter[str] = collections.Counter()
    for part in found:
        outcomes |= part.get("outcomes", {})
        seen.update(part["seen"])
        whole.update(part["whole"])
    return outcomes, seen, whole


def main() -> int:
    """Run the suite in every way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("checkout", type=pathlib.Path, help="folder of array-api-tests")
    parser.add_argument("--examples", type=int, default=100, help="examples for each test")
    parser.add_argument("--seed", type=int, default=0, help="of the examples")
    parser.add_argument("--processes", type=int, default=2, help="processes that share the tests")
    parser.add_argument("--run", choices=[*RUNS], action="append", help="only this way")
    parser.add_argument("--only", help="only tests that match, as of pytest -k")
    parser.add_argument("--log", help="folder for what pytest prints")
    options = parser.parse_args()
    expected = expected_failures()
    theirs, _, _ = run(options.checkout, "numpy", "one device", options)
    numpys = {test for test, outcome in theirs.items() if outcome == "failed"}
    print(f"numpy: {_summary(theirs)}", flush=True)
    wrong = 0
    for way in options.run or RUNS:
        ours, seen, whole = run(options.checkout, "gpushard.numpy", way, options)
        print(f"gpushard.numpy, {way}: {_summary(ours)}")
        failed = [test for test, outcome in ours.items() if outcome == "failed"]
        for test in failed:
            reason = "NumPy fails it, too" if test in numpys else expected.get(test)
            wrong += reason is None
            print(f"  failed: {test}: {reason or 'UNEXPECTED'}")
        for test in sorted(numpys.difference(failed)):
            print(f"  NumPy alone fails: {test}")
        print(f"  arrays of 8 elements or more: {seen['arrays']}, of which split: {seen['split']}")
        # Many drawn shapes have no dim that the mesh divides.
        enough = RUNS[way] is None or 3 * seen["split"] >= seen["arrays"]
        wrong += not enough
        names = ", ".join(f"{name} ({count})" for name, count in sorted(whole.items()))
        print(f"  made a dim whole: {names or 'none'}", flush=True)
    print("all as expected" if not wrong else f"{wrong} not as expected")
    return int(wrong > 0)


def _summary(outcomes: dict[str, str]) -> str:
    counts = collections.Counter(outcomes.values())
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


if __name__ == "__main__":
    sys.exit(main())
