"""Which tests run which lines of the package, and how long they take: measured once, and kept.

Lines of the package and tests are found where they are by now. Only tests whose own text has
changed, or that are new, are run again: it takes a minute, where all of them take half an hour.
"""

from __future__ import annotations

import ast
import concurrent.futures
import difflib
import itertools
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tests.stress.sites import PACKAGE, parse

LOOKING = (
    "tests/numpy/test_namespace.py::test_functions_are_documented",
    "tests/numpy/test_signatures.py",
    "tests/special/test_special.py::test_the_list_of_ufuncs",
    "tests/test_public_names.py",
)
"""Tests that look at what is imported, and run none of its lines: how their names begin."""

PARTS = 12
"""In how many parts all tests are run."""

TYPICAL = 0.1
"""Seconds of a test whose time is not known."""

_ON_ONE_LIBRARY = re.compile("^(import|from) (cupy|torch)", re.MULTILINE)
"""Doctests of what cannot be imported without it are not asked for."""


class Run:
    """Which tests ran which lines, and how long they took.

    Args:
      folder: has which blocks the tests ran, their times, and the package and the tests as they
        were.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seconds: dict[str, float] = {}
        cases = xml.etree.ElementTree.parse(folder / "times.xml").iter("testcase")
        for case in cases:
            if case.find("skipped") is None:
                test = _node(case.get("classname", ""), case.get("name", ""))
                self.seconds[test] = float(case.get("time", 0))
        with np.load(folder / "blocks.npz") as blocks:
            self._tests, self._rows = blocks["tests"].tolist(), blocks["rows"]
            self._blocks: dict[str, list[tuple[int, list[int]]]] = defaultdict(list)
            pairs = zip(blocks["files"].tolist(), blocks["lines"].tolist(), strict=True)
            for n, (file, lines) in enumerate(pairs):
                path = Path(file).relative_to(PACKAGE).as_posix()
                self._blocks[path].append((n, [*map(int, lines.split())]))

    def tests(self, file: str) -> dict[int, set[str]]:
        """Return the tests that ran each line of a file, or of those that it was made of."""
        found: dict[int, set[str]] = defaultdict(set)
        for old in self._before(file):
            now = self._now(old, PACKAGE / file)
            for n, lines in self._blocks[old.relative_to(self.folder / "gpushard").as_posix()]:
                running = np.flatnonzero(self._rows[:, n // 8] >> (7 - n % 8) & 1)
                tests = {self._tests[at] for at in running}
                for line in lines:
                    for at in now.get(line, ()):
                        found[at] |= tests
        return found

    def texts(self) -> list[tuple[str, str, str]]:
        """List what makes the tests that it ran what they are."""
        chosen = {*(self.folder / "chosen").read_text("utf-8").splitlines()}
        texts = _texts(_tests_below(self.folder))
        return [key for key, test in texts.items() if test in chosen]

    def _before(self, file: str) -> list[Path]:
        """Return a file of the package as it was, or those that are gone whose lines it has."""
        package = self.folder / "gpushard"
        if (package / file).exists():
            return [package / file]
        lines = set((PACKAGE / file).read_text(encoding="utf-8").splitlines())
        found = []
        for path in package.rglob("*.py"):
            if not (PACKAGE / path.relative_to(package)).exists():
                own = set(path.read_text(encoding="utf-8").splitlines())
                if 2 * len(own & lines) > min(len(own), len(lines)):
                    found.append(path)
        return found

    @staticmethod
    def _now(old: Path, new: Path) -> dict[int, list[int]]:
        """Return where the lines of a file, from 1, have gone.

        Lines that are new stand for those before them and behind them.
        """
        texts = [path.read_text(encoding="utf-8").splitlines() for path in (old, new)]
        blocks = difflib.SequenceMatcher(None, *texts, autojunk=False).get_matching_blocks()
        now = defaultdict(list)
        end = 0
        for a, b, size in blocks:
            for line in (a, a + 1):
                now[line] += range(end + 1, b + 1)
            for n in range(1, size + 1):
                now[a + n].append(b + n)
            end = b + size
        return now


class Suite:
    """Which tests run which lines, and how long they take.

    Args:
      runs: of each test the last run that has it counts.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        self._last = {test: run for run in runs for test in run.seconds}
        self._files = _tests_below(PACKAGE.parent)
        self._homes = {
            (Path(file).name, name): file for file, tests in self._files.items() for name in tests
        }
        self.seconds = {
            now: seconds
            for run in runs
            for test, seconds in run.seconds.items()
            if (now := self._now(test))
        }
        self._lines: dict[str, dict[int, set[str]]] = {}

    def covering(self, file: str, lines: range) -> list[str]:
        """List the tests that run some of the lines, shortest first, each file in its turn.

        Lines that run when the package is imported, or where coverage does not see them, belong to
        the tests of the file's own name, which come first, then to those who look at what was made
        and to all of the file, or if that has none to the files that import it.
        """
        tests = self._tests(file)
        found = self._running(file, lines)
        own: list[str] = []
        if not found:
            *folders, name = file.removesuffix(".py").split("/")
            own = self._named("/".join(("tests", *folders, f"test_{name}.py::")))
            several = [tests] if tests else map(self._tests, _importers(file))
            found = set().union(*(each for of in several for each in of.values()))
            found = found.union(self._named(*LOOKING)).difference(own)
        taken: dict[str, float] = defaultdict(float)
        order = []
        for test in sorted(found, key=self.time):
            taken[_file(test)] += self.time(test)
            order.append((taken[_file(test)], test))
        return [*own, *(test for _, test in sorted(order))]

    def runs_only_at_import(self, file: str, lines: range) -> bool:
        """Whether no test runs the lines while it is measured."""
        return not self._running(file, lines)

    def _running(self, file: str, lines: range) -> set[str]:
        tests = self._tests(file)
        return set().union(*(tests.get(line, set()) for line in lines))

    def _named(self, *starts: str) -> list[str]:
        """List the tests whose names begin so."""
        return [test for test in self.seconds if test.startswith(starts)]

    def _tests(self, file: str) -> dict[int, set[str]]:
        if file not in self._lines:
            self._lines[file] = defaultdict(set)
            for run in self._runs:
                for line, tests in run.tests(file).items():
                    self._lines[file][line] |= {
                        now
                        for test in tests
                        if self._last.get(test) is run and (now := self._now(test))
                    }
        return self._lines[file]

    def _now(self, test: str) -> str | None:
        """Return a test under the name that it has by now; None if it is gone."""
        file, _, rest = test.partition("::")
        name = _outermost(rest)
        home = file if name in self._files.get(file, ()) else self._homes.get((_name(file), name))
        return home and f"{home}::{rest}"

    def time(self, test: str) -> float:
        """Return the seconds that a test takes."""
        return self.seconds.get(test, TYPICAL)

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


def _node(address: str, name: str) -> str:
    """Return the name that pytest gives a test on the command line, from that in its times."""
    *folders, last = address.split(".")
    classes = [last] if last.startswith("Test") else []
    module = "/".join(folders if classes else [*folders, last])
    return "::".join([f"{module}.py", *classes, name])


def _file(test: str) -> str:
    return test.partition("::")[0]


def _name(file: str) -> str:
    """Return the last part of a path."""
    return file.rpartition("/")[2]


def _outermost(rest: str) -> str:
    """Return the function or the class of a test, from what follows its file."""
    return rest.partition("[")[0].partition("::")[0]


def measure(folder: Path, everything: bool = False, processes: int = 1) -> list[Run]:
    """Keep which test runs which line, and return all that is known.

    Runs the tests that are new or have changed, but for signals at random moments, which find the
    marks of blocks where they count instructions. What is measured is kept part by part.

    Args:
      folder: keeps the runs of earlier times, those with `--all` apart from those of a share.
      everything: run every example, seed and case, but for tests that then take minutes.
      processes: how many run the tests.
    """
    kind = "all" if everything else "share"
    runs = [Run(path) for path in sorted(folder.glob(f"{kind}-*"), key=_number)]
    known = {key for run in runs for key in run.texts()}
    left: dict[str, list[str]] = defaultdict(list)
    for key, test in _texts(_tests_below(PACKAGE.parent)).items():
        if key not in known and _file(test) != "tests/test_interrupts.py":
            left[_file(test)].append(test)
    count = min(PARTS, len(left))
    parts = [list(itertools.islice(left.values(), n, None, count)) for n in range(count)]
    first = max((_number(run.folder) for run in runs), default=-1) + 1
    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        new = pool.map(
            lambda n: _measured(folder / f"{kind}-{first + n}", [*itertools.chain(*parts[n])],
                                share_options(everything)),
            range(count),
        )  # fmt: skip
        return [*runs, *new]


def _number(folder: Path) -> int:
    return int(folder.name.rpartition("-")[2])


def _measured(folder: Path, tests: Sequence[str], options: Sequence[str]) -> Run:
    """Run tests, and keep in a folder what they run; tests that fail as any others."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        new = Path(temporary, "run")
        files = sorted({_file(test) for test in tests}, reverse=True)
        shutil.copytree(PACKAGE, new / "gpushard")
        for test in files:
            (new / test).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PACKAGE.parent / test, new / test)
        (new / "chosen").write_text("\n".join(tests), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", *options, "-p", "no:xdist"]
        command += ["-p", "tests.stress.blocks", f"--blocks={new}/blocks.npz"]
        command += ["-p", "tests.stress.chosen", f"--chosen={new}/chosen"]
        command += [f"--junitxml={new}/times.xml", "--timeout=900"]
        # Files of tests come first: what they import, they import as programs do.
        done = subprocess.run([*command, *files], cwd=PACKAGE.parent, check=False)
        if done.returncode not in (0, 1, 5):
            raise SystemExit("the tests cannot be run")
        return Run(new.rename(folder))


def share_options(everything: bool) -> list[str]:
    """Return the options of pytest for how much of each test runs.

    What compares with other libraries, which not everybody has, is left out.
    """
    return ["--all", "-m", "not minutes and not oracle"] if everything else ["-m", "not oracle"]


def _texts(files: dict[str, dict[str, str]]) -> dict[tuple[str, str, str], str]:
    """Return the tests by what makes them what they are: a file that has moved has the same."""
    return {
        (_name(file), name, text): f"{file}::{name}"
        for file, tests in files.items()
        for name, text in tests.items()
    }


def _tests_below(root: Path) -> dict[str, dict[str, str]]:
    """Return the files that have tests, and the text of each of these."""
    found = {}
    for path in [*root.glob("tests/**/test_*.py"), *root.glob("gpushard/**/*.py")]:
        text = path.read_text(encoding="utf-8")
        file = path.relative_to(root).as_posix()
        if path.match("test_*"):
            found[file] = {
                node.name: ast.unparse(node)
                for node in parse(text).body
                if isinstance(node, ast.FunctionDef | ast.ClassDef)
                and node.name.lower().startswith("test")
            }
        elif ">>> " in text and not _ON_ONE_LIBRARY.search(text):
            module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            found[file] = dict(_examples(parse(text), module))
    return found


def _examples(
    node: ast.Module | ast.ClassDef | ast.FunctionDef, name: str
) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each docstring that has an example."""
    text = ast.get_docstring(node) or ""
    if ">>> " in text:
        yield name, text
    for inner in node.body:
        if isinstance(inner, ast.ClassDef | ast.FunctionDef):
            yield from _examples(inner, f"{name}.{inner.name}")
