"""Draws small changes of the package at random, and runs the tests that cover them.

`python -m tests.stress.random_mutants --count 400 --seed 1` first runs all tests once to learn
which tests run which lines (it needs pytest-cov). `--coverage FOLDER` keeps that; the next time,
only files of tests that have changed are run, and lines of the package are found where they are by
now. Then it makes each change in a copy of the package and runs tests that cover its lines, the
shortest of many files first, until one fails: the first of them, then more, then those of CI on the
software GPU, then all that `--most` leaves time for. What no test catches must stand in
`random_mutants.json` with a reason: it changes no behaviour, or speed alone. `--only TEXT` takes
the changes whose name contains a text.

A change is one of: a comparison (`<` for `<=`, `==` for `!=`), a sign (`+` for `-`, `x` for `-x`),
`&` for `|`, a number that is one too large, `and` for `or`, `min` for `max`, `any` for `all`, a
`not` that is gone, a statement that is gone.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import contextlib
import copy
import dataclasses
import difflib
import functools
import itertools
import json
import os
import random
import re
import resource
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.stress.mutations import mutant, run_pytest, run_tests
from tests.stress.sites import PACKAGE, Site, parse

RECORD = Path(__file__).with_name("random_mutants.json")

OUT_OF_REACH = {
    "runtime/cuda/driver/cupy_driver.py": "every line calls CuPy",
    "runtime/cuda/kernels/special.py": "every line calls CuPy",
    "runtime/cuda/driver/green_driver.py": "every line calls the driver of a GPU",
    "interop/torch.py": "every line calls PyTorch",
    "testing": "tools for tests",
}
"""Files and folders from which nothing is drawn, and why."""

LOOKING = (
    "tests.numpy.test_namespace::test_functions_are_documented",
    "tests.numpy.test_signatures",
    "tests.special.test_special::test_the_list_of_ufuncs",
    "tests.test_public_names",
)
"""Tests that look at what is imported, and run none of its lines: how their names begin."""

BUDGETS = (20.0, 200.0)
"""Seconds of tests to run for a change: at first, and again where these did not catch it."""

ON_SOFTWARE_GPUS = (
    "--softgpu tests/gpu",
    "--softgpu --softgpu-seed 1 --softgpu-devices 2 tests/gpu/test_ordering.py"
    " tests/conformance/test_cuda.py -k 'cupy or Gpu'",
)
"""What CI runs there."""

TYPICAL = 0.1
"""Seconds of a test whose time is not known."""

SLOWNESS = 10
"""How many times as long as measured a run takes that hangs, by which the change is caught."""

STARTING = 200.0
"""Seconds that a run may take besides."""

MEMORY = 6 << 30
"""Bytes that a process may write: changes can make arrays of any size."""

_ON_ONE_LIBRARY = re.compile("^(import|from) (cupy|torch)", re.MULTILINE)
"""Doctests of what cannot be imported without it are not asked for."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
TYPES = ("annotation", "returns", "decorator_list", "bases")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A change of one place."""

    site: Site
    """Its name."""

    lines: range
    """The lines of the place."""

    source: str
    """The file after the change."""


class Run:
    """Which tests ran which lines, and how long they took.

    Args:
      folder: has the coverage of a run of tests, with contexts, its times, and the package and the
        tests as they were.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seconds: dict[str, float] = {}
        cases = xml.etree.ElementTree.parse(folder / "times.xml").iter("testcase")
        for case in cases:
            if case.find("skipped") is None:
                key = _key(case.get("classname", ""), case.get("name", ""))
                self.seconds[key] = float(case.get("time", 0))
        self._base = sqlite3.connect(folder / "coverage", check_same_thread=False)

    @functools.cached_property
    def contents(self) -> dict[str, str]:
        """The files of tests, and what they said."""
        return _contents(self.folder)

    def tests(self, file: str) -> dict[int, set[str]]:
        """Return the tests that ran each line of a file that was there already."""
        found: dict[int, set[str]] = defaultdict(set)
        if (old := self._before(file)) is None:
            return found
        now = self._now(old, PACKAGE / file)
        query = """
            select context.context, line_bits.numbits from line_bits
            join file on file.id = line_bits.file_id
            join context on context.id = line_bits.context_id
            where file.path like ? and context.context != ''
        """
        path = old.relative_to(self.folder).as_posix()
        for context, bits in self._base.execute(query, (f"%/{path}",)):
            test = context.rpartition("|")[0]
            for byte, bit in itertools.product(range(len(bits)), range(8)):
                if bits[byte] >> bit & 1 and 8 * byte + bit in now:
                    found[now[8 * byte + bit]].add(test)
        return found

    def _before(self, file: str) -> Path | None:
        """Return a file of the package as it was, under this name or that which it had."""
        package = self.folder / "gpushard"
        if (package / file).exists():
            return package / file
        lines = set((PACKAGE / file).read_text(encoding="utf-8").splitlines())
        shared = {
            path: len(lines.intersection(path.read_text(encoding="utf-8").splitlines()))
            for path in package.rglob("*.py")
            if not (PACKAGE / path.relative_to(package)).exists()
        }
        best = max(shared, key=lambda path: shared[path], default=None)
        return best if best is not None and 2 * shared[best] > len(lines) else None

    @staticmethod
    def _now(old: Path, new: Path) -> dict[int, int]:
        """Return where the lines of a file, from 1, have gone."""
        texts = [path.read_text(encoding="utf-8").splitlines() for path in (old, new)]
        blocks = difflib.SequenceMatcher(None, *texts, autojunk=False).get_matching_blocks()
        return {a + n: b + n for a, b, size in blocks for n in range(1, size + 1)}


class Suite:
    """Which tests run which lines, and how long they take.

    Args:
      runs: of each file of tests the last run that has it counts.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        self._last = {file: run for run in runs for file in map(_file, run.seconds)}
        self.seconds = {
            test: seconds
            for run in runs
            for test, seconds in run.seconds.items()
            if self._last[_file(test)] is run
        }
        self._lines: dict[str, dict[int, set[str]]] = {}

    def covering(self, file: str, lines: range) -> list[str]:
        """List the tests that run some of the lines, shortest first, each file in its turn.

        Lines that run when the package is imported, or where coverage does not see them, belong to
        the tests of the file's own name, which come first, then to those who look at what was made
        and to all of the file, or if that has none to the files that import it.
        """
        tests = self._tests(file)
        found = set().union(*(tests.get(line, set()) for line in lines))
        own: list[str] = []
        if not found:
            *folders, name = file.removesuffix(".py").split("/")
            own = self._named(".".join(("tests", *folders, f"test_{name}::")))
            several = [tests] if tests else map(self._tests, _importers(file))
            found = set().union(*(each for of in several for each in of.values()))
            found = found.union(self._named(*LOOKING)).difference(own)
        taken: dict[str, float] = defaultdict(float)
        order = []
        for test in sorted(found, key=self.time):
            taken[_file(test)] += self.time(test)
            order.append((taken[_file(test)], test))
        return [*own, *(test for _, test in sorted(order))]

    def _named(self, *starts: str) -> list[str]:
        """List the tests whose names begin so."""
        found = [key.partition("::") for key in self.seconds if key.startswith(starts)]
        return [f"{module.replace('.', '/')}.py::{test}" for module, _, test in found]

    def _tests(self, file: str) -> dict[int, set[str]]:
        if file not in self._lines:
            self._lines[file] = defaultdict(set)
            for run in self._runs:
                for line, tests in run.tests(file).items():
                    there = {test for test in tests if self._last.get(_file(_name(test))) is run}
                    self._lines[file][line] |= there
        return self._lines[file]

    def time(self, test: str) -> float:
        """Return the seconds that a test takes."""
        return self.seconds.get(_name(test), TYPICAL)

    def within(self, tests: Sequence[str], budget: float) -> list[str]:
        """Return the first of the tests that take no longer, and at least one."""
        ends = itertools.accumulate(map(self.time, tests))
        return [test for test, end in zip(tests, ends, strict=True) if end <= budget] or [
            *tests[:1]
        ]


def _importers(file: str) -> list[str]:
    """List the files that import one."""
    folder, _, name = f"gpushard/{file}".removesuffix(".py").rpartition("/")
    ways = f"from {folder.replace('/', '.')} import {name}\n", f".{name} import "
    return [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if any(way in path.read_text(encoding="utf-8") for way in ways)
    ]


def _key(module: str, name: str) -> str:
    return f"{module.replace('/', '.')}::{name}"


def _file(key: str) -> str:
    """Return the module, or the folder of a class, of a test."""
    return key.partition("::")[0]


def _name(test: str) -> str:
    """Return the name that pytest gives a test in its times."""
    path, _, rest = test.partition("::")
    *classes, name = rest.split("::") if "[" not in rest else [rest]
    return _key(".".join([path.removesuffix(".py").replace("/", "."), *classes]), name)


def measure(folder: Path) -> list[Run]:
    """Keep which test runs which line, and return all that is known.

    Runs the files of tests that are new or have changed, but for what takes minutes, and for
    signals at random moments: these find coverage in the middle of its own work, and hang.
    """
    runs = [Run(path) for path in sorted(folder.iterdir(), key=lambda path: int(path.name))]
    known = {file: text for run in runs for file, text in run.contents.items()}
    changed = [
        file
        for file, text in _contents(PACKAGE.parent).items()
        if known.get(file) != text and file != "tests/test_interrupts.py"
    ]
    if not changed:
        return runs
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        new = Path(temporary, "run")
        for name in ("gpushard", "tests"):
            shutil.copytree(PACKAGE.parent / name, new / name)
        (new / "rc").write_text(f"[run]\ndata_file = {new}/coverage\n", encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "--all", "-m", "not minutes"]
        command += ["-p", "no:xdist", "--cov=gpushard", f"--cov-config={new}/rc"]
        command += ["--cov-context=test", "--cov-report=", f"--junitxml={new}/times.xml"]
        done = subprocess.run([*command, "--timeout=900", *changed], cwd=PACKAGE.parent)
        if done.returncode not in (0, 5):
            raise SystemExit("a test fails without any change")
        if not (new / "coverage").exists():  # no test of these files runs the package
            return runs
        return [*runs, Run(new.rename(folder / str(len(runs))))]


def _contents(root: Path) -> dict[str, str]:
    """Return the files that have tests, and what they say: a change elsewhere is of no account."""
    found = {}
    for path in [*root.glob("tests/**/test_*.py"), *root.glob("gpushard/**/*.py")]:
        text = path.read_text(encoding="utf-8")
        if path.match("test_*") or (">>> " in text and not _ON_ONE_LIBRARY.search(text)):
            found[path.relative_to(root).as_posix()] = text
    return found


def draw(count: int, seed: int) -> list[Mutant]:
    """Draw changes at random over all files, each place as likely as any other."""
    files = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
    places = [
        (file, n)
        for file in files
        if not any(file == out or file.startswith(f"{out}/") for out in OUT_OF_REACH)
        for n in range(len(_candidates(file)[1]))
    ]
    chosen = random.Random(seed).sample(places, min(count, len(places)))
    return [_changed(file, n) for file, n in sorted(chosen)]


def _changed(file: str, n: int) -> Mutant:
    tree, places = _candidates(file)
    site, node, parent, new = places[n]
    for field, value in ast.iter_fields(parent):
        if value is node:
            setattr(parent, field, new)
        elif isinstance(value, list):
            setattr(parent, field, [new if entry is node else entry for entry in value])
    first = getattr(node, "lineno", 1)
    lines = range(first, (getattr(node, "end_lineno", None) or first) + 1)
    return Mutant(site, lines, ast.unparse(ast.fix_missing_locations(tree)))


def _candidates(file: str) -> tuple[ast.Module, list[tuple[Site, ast.AST, ast.AST, ast.AST]]]:
    """Return a file, and (name, node, parent, what replaces it) of every possible change."""
    tree = parse((PACKAGE / file).read_text(encoding="utf-8"))
    seen: dict[tuple[str, str, str], int] = defaultdict(int)
    found = []
    for scope, node, parent in _walk(tree, ""):
        for kind, new in _changes(node, parent):
            place = parent if kind == "off by one" else node
            key = (scope, kind, ast.unparse(place).partition("\n")[0][:80])
            found.append((Site(file, *key, seen[key]), node, parent, new))
            seen[key] += 1
    return tree, found


def _walk(node: ast.AST, scope: str) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    """Yield (qualified function, node, parent) of what runs: no types, no texts of errors."""
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr):
                continue
            if field in TYPES or _is_for_checkers(child):
                continue
            inner = scope
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = f"{scope}.{child.name}".lstrip(".")
            yield inner, child, node
            yield from _walk(child, inner)


def _is_for_checkers(node: ast.AST) -> bool:
    """Whether only type checkers read it: a protocol whose methods have documentation alone."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    methods = [child for child in ast.walk(node) if isinstance(child, ast.FunctionDef)]
    return (
        isinstance(node, ast.ClassDef)
        and "Protocol" in map(ast.unparse, node.bases)
        and all(len(method.body) == 1 for method in methods)
    )


def _changes(node: ast.AST, parent: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the kind of every change of a node, and what replaces it."""
    if isinstance(node, ast.Compare):
        for n, operator in enumerate(node.ops):
            if type(operator) in COMPARISONS:
                swapped = [*node.ops]
                swapped[n] = COMPARISONS[type(operator)]()
                yield "compare", ast.Compare(node.left, swapped, node.comparators)
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATORS:
        new = copy.copy(node)
        new.op = OPERATORS[type(node.op)]()
        yield "operator", new
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield ("not" if isinstance(node.op, ast.Not) else "sign"), node.operand
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield "off by one", ast.Constant(node.value + 1)
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and/or", ast.BoolOp(other, node.values)
    elif isinstance(node, ast.Name) and node.id in NAMES and isinstance(parent, ast.Call):
        yield "name", ast.Name(NAMES[node.id], ast.Load())
    if _can_go(node):
        yield "dropped", ast.Pass()


def _can_go(node: ast.AST) -> bool:
    """Whether a statement can be dropped so that what follows can still run."""
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant | ast.Yield | ast.YieldFrom)
    if isinstance(node, ast.Assign):
        return not isinstance(node.targets[0], ast.Name | ast.Tuple)
    return isinstance(node, ast.Raise | ast.Continue | ast.Break | ast.AugAssign)


def caught_by(change: Mutant, suite: Suite, most: float) -> str | None:
    """Return the test that fails with a change, and not without; None if none does."""
    tests = suite.covering(change.site.file, change.lines)
    first, second = (len(suite.within(tests, budget)) for budget in BUDGETS)
    last = max(second, len(suite.within(tests, most)))
    with mutant(change.site.file, change.source) as folder:

        def fails(chosen: Sequence[str]) -> str | None:
            while chosen:
                patience = STARTING + SLOWNESS * sum(map(suite.time, chosen))
                failed = run_tests(folder, chosen, patience)
                if failed not in chosen:  # None, or it hangs, or cannot be imported
                    return failed and failed * _passes(chosen[0])
                if _passes(failed):
                    return failed
                chosen = chosen[chosen.index(failed) + 1 :]
            return None

        return (
            fails(tests[:first])
            or fails(tests[first:second])
            or next(filter(None, (_fails_on_gpus(folder, run) for run in ON_SOFTWARE_GPUS)), None)
            or fails(tests[second:last])
        )


def _fails_on_gpus(folder: str, run: str) -> str | None:
    """Return the test that fails on the software GPU; None if none does, or without a change."""
    failed = run_pytest(folder, shlex.split(run), STARTING + SLOWNESS * 60)
    return failed if failed and _passes_on_gpus(run) else None


@functools.cache
def _passes_on_gpus(run: str) -> bool:
    """Say whether all tests pass there on a copy of the package without any change."""
    with _unchanged() as folder:
        return run_pytest(folder, shlex.split(run), STARTING + SLOWNESS * 60) is None


@functools.cache
def _passes(test: str) -> bool:
    """Say whether a test passes on a copy of the package without any change."""
    with _unchanged() as folder:
        return run_tests(folder, [test], STARTING) is None


def _unchanged() -> contextlib.AbstractContextManager[str]:
    file = "__init__.py"
    return mutant(file, (PACKAGE / file).read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--coverage", type=Path, help="a folder for which test runs which line")
    parser.add_argument("--only", default="", help="a text in the names of changes")
    parser.add_argument("--most", type=float, default=600.0, help="seconds of tests for a change")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.coverage or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        suite = Suite(measure(folder))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        lost = _survivors(options, suite)
    raise SystemExit(bool(lost))


def _survivors(options: argparse.Namespace, suite: Suite) -> list[str]:
    """Run the tests of all changes, print what becomes of each, return those that nobody judged."""
    judged: dict[str, str] = json.loads(RECORD.read_text(encoding="utf-8"))
    drawn = [m for m in draw(options.count, options.seed) if options.only in str(m.site)]
    caught, known, lost = 0, 0, []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = pool.map(lambda change: caught_by(change, suite, options.most), drawn)
        for change, test in zip(drawn, results, strict=True):
            name = str(change.site)
            if test is not None:
                caught += 1
                print("caught  ", name, "by", test, flush=True)
            elif name in judged:
                known += 1
                print("judged  ", name, "-", judged[name], flush=True)
            else:
                lost.append(name)
                print("SURVIVES", name, change.lines, flush=True)
    print(
        f"{len(drawn)} changes (seed {options.seed}): {caught} caught, {known} change no behaviour "
        f"or speed alone, {len(lost)} survive"
    )
    return lost


if __name__ == "__main__":
    main()
