"""Draws small changes of the package at random, and runs the tests that cover them.

`python -m tests.stress.random_mutants --count 400 --seed 1 --coverage FOLDER` draws 400 changes,
and each is to be caught by a test. `--coverage` keeps which tests run which lines: all tests run
once to learn that, the next time only those that have changed. Each change
is made in a process that has collected the tests, and those that run its lines run there, the
shortest of many files first, until one fails. What these don't catch, and what cannot be changed in
a process that runs, is made in a copy of the package, with a Python of its own, where tests run
again, and further stages of CI. What survives must stand in `random_mutants.json` with a reason: it
changes no behaviour, or speed alone.

Tests run the share that they run by default, or with `--all` in full. `--stages` without names
leaves out the other stages of CI. `--below transforms lax` draws only from files whose paths in the
package begin so, `--weigh lax=3` draws from such files three times as often, `--only TEXT` takes
those drawn whose name contains a text.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import functools
import json
import os
import resource
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.stress import forked
from tests.stress.changes import Mutant, draw
from tests.stress.coverage_map import Suite, measure, share_options
from tests.stress.forked import FIRST, SLOWNESS, STARTING, Verdict
from tests.stress.mutations import mutant, run_module, run_pytest, run_tests
from tests.stress.sites import PACKAGE

RECORD = Path(__file__).with_name("random_mutants.json")

STAGES = {
    "softgpu": (
        "pytest --softgpu tests/gpu",
        "pytest --softgpu --softgpu-seed 1 --softgpu-devices 2 tests/gpu/test_ordering.py"
        " tests/conformance/test_cuda.py -k 'cupy or Gpu'",
    ),
    "nests": ("tests.runtime.nests.nest_emitters --share 40",),
}
"""Modules that CI runs besides the tests, of the second one a share."""

OF_STAGES = {
    "softgpu": ("",),
    "nests": (
        "_transforms/",
        "_runtime/nests",
        "_runtime/loop_groups",
        "_runtime/host/nests/",
        "_runtime/kernel_",
        "_runtime/cuda/kernels/",
    ),
}
"""How the paths of the files begin that they tell something of."""

LONGEST = 240
"""Seconds that one of them takes on a core of its own, at most."""

MEMORY = 6 << 30
"""Bytes that a process may write: changes can make arrays of any size."""


def caught_by(
    change: Mutant, suite: Suite, budget: float, options: Sequence[str], stages: Sequence[str]
) -> Verdict:
    """Return the test that fails with a change in a copy of the package, and not without.

    Args:
      change: is made in the copy.
      suite: says which tests cover what.
      budget: seconds of tests to run before the stages.
      options: of pytest, for how much of each test runs.
      stages: of CI, which run then.
    """
    chosen = suite.within(suite.covering(change.site.file, change.lines), budget)
    with mutant(change.site.file, change.source) as folder:
        while chosen:
            patience = STARTING + SLOWNESS * sum(map(suite.time, chosen))
            failed = run_tests(folder, chosen, patience, options)
            if failed is None:
                break
            if failed in chosen:
                if _passes(failed, tuple(options)):
                    return failed
                chosen = chosen[chosen.index(failed) + 1 :]
            elif failed in {file for file, _, _ in (test.partition("::") for test in chosen)}:
                if _passes(failed, tuple(options)):  # it cannot be imported
                    return failed
                chosen = [test for test in chosen if not test.startswith(f"{failed}::")]
            else:  # it hangs
                return failed
        told = [stage for stage in stages if change.site.file.startswith(OF_STAGES[stage])]
        failures = (_fails_in(folder, run) for stage in told for run in STAGES[stage])
        return next(filter(None, failures), None)


def _fails_in(folder: str, run: str) -> Verdict:
    """Return what fails in a stage of CI; None if nothing does, or without a change."""
    failed = _failure(folder, run)
    return f"{run}: {failed}" if failed and _passes_in(run) else None


def _failure(folder: str, run: str) -> Verdict:
    module, *arguments = shlex.split(run)
    started = STARTING + SLOWNESS * LONGEST
    return (
        run_pytest(folder, arguments, started)
        if module == "pytest"
        else run_module(folder, [module, *arguments], started)
    )


@functools.cache
def _passes_in(run: str) -> bool:
    """Say whether a stage passes on a copy of the package without any change."""
    with _unchanged() as folder:
        return _failure(folder, run) is None


@functools.cache
def _passes(test: str, options: tuple[str, ...]) -> bool:
    """Say whether a test passes on a copy of the package without any change."""
    with _unchanged() as folder:
        return run_tests(folder, [test], STARTING, options) is None


def _unchanged() -> contextlib.AbstractContextManager[str]:
    file = "__init__.py"
    return mutant(file, (PACKAGE / file).read_text(encoding="utf-8"))


class _Tally:
    """Prints what becomes of each change, and counts."""

    def __init__(self) -> None:
        self.lost: list[Mutant] = []
        self.caught: dict[str, str] = {}
        self._judged: dict[str, str] = json.loads(RECORD.read_text(encoding="utf-8"))
        self._known = 0

    def note(self, change: Mutant, test: Verdict) -> None:
        """Print and count a change, and the test that catches it."""
        name = str(change.site)
        if test is not None:
            self.caught[name] = test
            print("caught  ", name, "by", test, flush=True)
        elif name in self._judged:
            self._known += 1
            print("judged  ", name, "-", self._judged[name], flush=True)
        else:
            self.lost.append(change)
            print("SURVIVES", name, change.lines, flush=True)

    def __str__(self) -> str:
        total = len(self.caught) + self._known + len(self.lost)
        return (
            f"{total} changes: {len(self.caught)} caught, {self._known} change no behaviour "
            f"or speed alone, {len(self.lost)} survive"
        )


def survivors(
    changes: Sequence[Mutant],
    suite: Suite,
    known: Path,
    budget: float,
    jobs: int,
    options: Sequence[str],
    stages: Sequence[str],
) -> list[Mutant]:
    """Run the tests of all changes, print what becomes of each, return those nobody judged.

    Args:
      changes: what is changed.
      suite: says which tests cover what.
      known: a file with what caught each change the last time, to begin with that.
      budget: seconds of tests for a change.
      jobs: how many changes at once.
      options: of pytest, for how much of each test runs.
      stages: of CI, which run on what the tests do not catch.
    """
    caught = json.loads(known.read_text(encoding="utf-8")) if known.exists() else {}
    tally = _Tally()
    others = forked.run(changes, suite, caught, budget, jobs, tally.note, options)
    lost, tally.lost = tally.lost, []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        longest = [FIRST] * len(lost) + [budget] * len(others)
        tries = [
            pool.submit(caught_by, change, suite, most, options, stages)
            for change, most in zip([*lost, *others], longest, strict=True)
        ]
        for change, attempt in zip([*lost, *others], tries, strict=True):
            tally.note(change, attempt.result())
    known.write_text(json.dumps(caught | tally.caught, indent=1), encoding="utf-8")
    print(tally)
    return tally.lost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--coverage", type=Path, help="a folder for which test runs which line")
    parser.add_argument("--only", default="", help="a text in the names of changes")
    parser.add_argument("--most", type=float, default=200.0, help="seconds of tests for a change")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--below", nargs="+", default=[""], help="how paths of files begin")
    parser.add_argument("--all", action="store_true", help="run all of each test, not a share")
    parser.add_argument("--stages", nargs="*", default=[*STAGES], choices=[*STAGES])
    parser.add_argument("--weigh", nargs="+", default=[], metavar="PATH=TIMES")
    options = parser.parse_args()
    weights = {path: int(n) for path, _, n in (text.rpartition("=") for text in options.weigh)}
    drawn = draw(options.count, options.seed, options.below, weights)
    changes = [m for m in drawn if options.only in str(m.site)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.coverage or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        suite = Suite(measure(folder, options.all, options.jobs))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        lost = survivors(
            changes, suite, folder / "caught.json", options.most, options.jobs,
            share_options(options.all), options.stages,
        )  # fmt: skip
    raise SystemExit(bool(lost))


if __name__ == "__main__":
    main()
