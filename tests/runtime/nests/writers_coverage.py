"""Lines and branches of the kernel writers that runs with compared values reach.

`python -m tests.runtime.nests.writers_coverage` runs a share of the loop nests, some programs
of users and the tests that compare values, all in this process. It prints a table and exits with 1
if a line or branch is not reached, or a value differs. It takes two minutes of one core, four on a
busy machine, and needs `pip install coverage`.

Values are compared with `nest_definition` for loop nests, and with NumPy for all else. Kernels that
are broken on purpose reach the statements that raise `BrokenKernelError`. NumPy does the kernels of
a GPU, as `fused_loops` says; what is written in CUDA C runs on the software GPU, not here
(`python -m tests.gpu.nest_emitter`). No line is excluded.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
FILES = [
    "gpushard/_transforms/fusion/forms.py",
    "gpushard/_transforms/fusion/fuse.py",
    "gpushard/_transforms/fusion/recompute.py",
    "gpushard/_transforms/fusion/region.py",
    "gpushard/_transforms/fusion/layout.py",
    "gpushard/_transforms/fusion/views.py",
    "gpushard/_transforms/fusion/halos.py",
    "gpushard/_runtime/nests.py",
    "gpushard/_runtime/loop_groups.py",
    "gpushard/_runtime/host/nests/choose_kernel.py",
    "gpushard/_runtime/host/nests/block_kernels.py",
    "gpushard/_runtime/host/nests/numpy_tiles.py",
    "gpushard/_runtime/host/nests/c_schedule.py",
    "gpushard/_runtime/host/nests/c_source.py",
    "gpushard/_runtime/host/nests/c_products.py",
    "gpushard/_runtime/host/nests/c_kernels.py",
    "gpushard/_runtime/host/nests/expressions.py",
    "gpushard/_runtime/cuda/kernels/thread_nests.py",
    "gpushard/_runtime/kernel_tree.py",
    "gpushard/_runtime/kernel_checks.py",
]

SHARE = 320
"""Of how many loop nests one is taken."""

PROGRAMS = range(80)
"""Seeds of programs of users."""

TESTS = (
    "transforms/fusion/test_fuse.py",
    "runtime/nests/test_nests.py",
    "runtime/nests/test_fused_loops.py",
    "runtime/host/nests/test_compilers.py",
    "runtime/test_kernel_checks.py",
    "runtime/cuda/kernels/test_fused.py",
)
"""Files of tests, without the loop nests among them."""


def compare_nests() -> list[str]:
    """Compare loop nests with their definition; return a text about each that differs."""
    emitters: Any = importlib.import_module("tests.runtime.nests.nest_emitters")
    families: Any = importlib.import_module("tests.runtime.nests.nest_families")
    cases = emitters.chosen(SHARE) + [families.every_case()[n] for n in emitters.RARE]
    report = emitters.compare(cases, emitters.EMITTERS)
    return [f"{case}\n{problem}" for case, problem in report.problems]


def compare_programs() -> list[str]:
    """Compare programs of users with NumPy; return a text about each that differs."""
    everyday: Any = importlib.import_module("tests.transforms.jit.everyday")
    failures: list[str] = everyday.failures(PROGRAMS, (*everyday.COMPILERS, everyday.LAUNCHED))
    return failures


def run_tests() -> list[str]:
    """Run tests; return a text if any fails."""
    os.environ["CI"] = "1"  # hypothesis draws the same examples each time
    paths = [str(ROOT / "tests" / name) for name in TESTS]
    status = pytest.main(["-p", "no:xdist", "-q", "-k", "not small_nests", *paths])
    return [] if status == 0 else [f"pytest: {status!s}"]


def measure() -> tuple[Any, list[str]]:
    """Run everything; return what was reached, and a text about each failure."""
    coverage: Any = importlib.import_module("coverage")
    reached = coverage.Coverage(
        branch=True, include=[str(ROOT / name) for name in FILES], data_file=None, config_file=False
    )
    failures: list[str] = []
    reached.start()
    for run in (compare_nests, compare_programs, run_tests):
        start = time.perf_counter()
        failures += run()
        print(f"{run.__name__}: {time.perf_counter() - start:.0f} s", flush=True)
    reached.stop()
    return reached, failures


def missing(reached: Any) -> int:
    """Print what was reached of each file, and return how many lines and branches were not."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "coverage.json")
        reached.json_report(outfile=str(path))
        files = json.loads(path.read_text(encoding="utf-8"))["files"]
    known = {Path(name).resolve(): found for name, found in files.items()}
    count = 0
    print(f"{'file':46}{'lines':>10}{'branches':>12}  missing")
    for name in FILES:
        found = known[ROOT / name]
        lines, branches = found["missing_lines"], found["missing_branches"]
        summary = found["summary"]
        print(
            f"{name:46}{_ratio(summary['num_statements'], lines):>10}"
            f"{_ratio(summary['num_branches'], branches):>12}  "
            + ", ".join([*map(str, lines), *[f"{start}->{end}" for start, end in branches]])
        )
        count += len(lines) + len(branches)
    return count


def _ratio(every: int, lost: Sequence[Any]) -> str:
    return f"{every - len(lost)}/{every}"


def main() -> None:
    """Print the table; exit with 1 if something is missing or differs."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    reached, failures = measure()
    print(*failures[:20], sep="\n")
    sys.exit(bool(missing(reached) or failures))


if __name__ == "__main__":
    main()
