"""Run the tests of `array-api-extra` on gpushard, in the ways of the public conformance suite.

    git clone https://github.com/data-apis/array-api-extra CHECKOUT
    pip install array-api-compat
    python -m tests.array_api.extra CHECKOUT

Its tests know their libraries by a list, to which this module, loaded as a plugin, adds
`gpushard.numpy`. What fails must stand in `expected_extra.txt`, with a reason; else the script ends
with status 1.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import pytest

from tests.array_api.runs import RUNS
from tests.array_api.suite import ROOT, expected_failures

EXPECTED = pathlib.Path(__file__).with_name("expected_extra.txt")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Add gpushard to the libraries that the tests know, before they are read."""
    from array_api_extra._lib._backends import Backend

    member = object.__new__(Backend)
    member._name_, member._value_ = "GPUSHARD", "gpushard.numpy"
    Backend._member_map_["GPUSHARD"] = member
    Backend._value2member_map_[member._value_] = member
    Backend._member_names_.append("GPUSHARD")


def run(checkout: pathlib.Path, way: str, only: str) -> tuple[set[str], str]:
    """Run the tests once; return those that fail, and the last line."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "SUITE_RUN": way,
            "SUITE_OUT": folder,
            "GPUSHARD_HOST_DEVICES": "8",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(checkout / "src")]),
            "PYTHONSAFEPATH": "1",  # or their package named tests would hide ours
            "PYTEST_ADDOPTS": "",
        }
        command = [sys.executable, "-m", "pytest", "tests/main", "-q", "--tb=line", "-rfE"]
        command += ["-p", "tests.array_api.plugin", "-p", "tests.array_api.extra", "-o", "addopts="]
        command += ["--import-mode=importlib"]
        command += ["-p", "no:cacheprovider", "-o", "xfail_strict=false"]
        command += ["-k", f"gpushard and ({only})" if only else "gpushard"]
        log = subprocess.run(
            command,
            cwd=checkout,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        ).stdout
    if "passed" not in log:
        raise SystemExit(f"the tests did not run:\n{log[-3000:]}")
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+(?: \S+\])?)", log, re.MULTILINE)
    return set(failed), log.strip().rpartition("\n")[2]


def main() -> None:
    """Run the tests in every way, and tell what fails that may not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("--only", default="", help="an expression for pytest's -k")
    options = parser.parse_args()
    known = expected_failures(EXPECTED)
    lost = 0
    for way in RUNS:
        failed, end = run(options.checkout, way, options.only)
        print(f"{way}: {end}")
        for test in sorted(failed):
            print(" ", test, "-", known.get(test, "NOT EXPECTED"))
        lost += len(failed - known.keys())
    print(f"{lost} failures that are not expected" if lost else "all as expected")
    raise SystemExit(bool(lost))


if __name__ == "__main__":
    main()
