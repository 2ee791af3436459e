"""Runs tests with changes of the package's functions: collects once, and forks for each change.

To import everything and to collect tests takes longer than the tests that catch most changes. Here
pytest collects once; for each change a child process puts the changed code into the functions that
are there, and runs tests until one fails. That takes about a second.

A function cannot take code that shares other variables with its inner functions, and what runs at
import has run: such changes are not for here.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import dataclasses
import functools
import gc
import inspect
import itertools
import multiprocessing
import multiprocessing.connection
import operator
import os
import signal
import sys
import time
import types
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

import pytest

from tests import share
from tests.stress.changes import Mutant
from tests.stress.coverage_map import Suite
from tests.stress.sites import PACKAGE, parse

SLOWNESS = 10
"""How many times as long as measured a run takes that hangs, by which the change is caught."""

STARTING = 200.0
"""Seconds that a run may take besides."""

TEST_SECONDS = 100
"""After how many seconds a test fails."""

FIRST = 20.0
"""Seconds of tests, the shortest of many files, that run before the rest."""

Swap = dict[types.CodeType, types.CodeType]
"""What replaces the code of functions."""

Verdict = str | None
"""The test that failed; None if all passed."""

Trials = Generator[tuple[Swap, Sequence[str]], Verdict, Verdict]
"""Yields what replaces the code of functions, and the tests to run then; takes what came of it."""

_ELSEWHERE = "elsewhere"
"""The verdict on a change that functions cannot take."""

_fork = multiprocessing.get_context("fork")


def swap(change: Mutant) -> Swap | None:
    """Return the code that a change replaces in functions, and by what.

    Returns:
      The code before and after, of the function and of those around it; None if what changes is not
      the code of a function alone.
    """
    old, plain = _unchanged(change.site.file)
    new = _compiled(change.site.file, change.source)
    found: Swap = {}
    try:
        _pair(old, plain, new, found)
    except _RunsAtImportError:
        return None
    return found


@functools.cache
def _unchanged(file: str) -> tuple[types.CodeType, types.CodeType]:
    """Return the code of a file as it runs, and of its source as `ast` writes it."""
    text = (PACKAGE / file).read_text(encoding="utf-8")
    return _compiled(file, text), _compiled(file, ast.unparse(parse(text)))


def _compiled(file: str, source: str) -> types.CodeType:
    return compile(source, str(PACKAGE / file), "exec", dont_inherit=True)


class _RunsAtImportError(Exception):
    """What changes has run, or stands in the variables that inner functions share."""


def _pair(
    old: types.CodeType, plain: types.CodeType, new: types.CodeType, found: Swap
) -> types.CodeType:
    """Return what replaces some code, and note it.

    Args:
      old: as it runs.
      plain: the same, of a source written as that of `new` is: its lines are elsewhere.
      new: after the change.
      found: takes what is replaced, within the code, too.

    Raises:
      _RunsAtImportError: it cannot be replaced.
    """
    if _own(plain) != _own(new):
        shared = plain.co_freevars, plain.co_cellvars
        if not old.co_flags & inspect.CO_OPTIMIZED or shared != (new.co_freevars, new.co_cellvars):
            raise _RunsAtImportError
        found[old] = new
        return new
    inner = [_inner(code) for code in (old, plain, new)]
    after = [_pair(*three, found) for three in zip(*inner, strict=True)]
    if all(map(operator.is_, inner[0], after)):
        return old
    rest = iter(after)
    constants = tuple(next(rest) if isinstance(c, types.CodeType) else c for c in old.co_consts)
    found[old] = old.replace(co_consts=constants)
    return found[old]


def _inner(code: types.CodeType) -> list[types.CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


def _own(code: types.CodeType) -> tuple[object, ...]:
    """Return what some code does, but for what is within it."""
    constants = [c.co_name if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_code, constants, names, code.co_exceptiontable


def run(
    changes: Iterable[Mutant],
    suite: Suite,
    known: Mapping[str, str],
    budget: float,
    jobs: int,
    report: Callable[[Mutant, Verdict], None],
    options: Sequence[str],
) -> list[Mutant]:
    """Run the tests of changes.

    Args:
      changes: what is changed, one at a time.
      suite: says which tests cover what.
      known: tests to begin with, by the names of changes.
      budget: seconds of tests to run for a change.
      jobs: how many changes at once.
      report: is called with each change and the test that fails with it, alone, and not without.
      options: of pytest, for how much of each test runs.

    Returns:
      The changes that cannot be made in a process that runs.
    """
    runner = _Runner(changes, suite, known, budget, jobs, report)
    options = ["-q", *options, "--capture=sys", f"--timeout={TEST_SECONDS}"]
    options += ["-p", "no:cacheprovider", "-p", "no:xdist", f"--rootdir={PACKAGE.parent}"]
    options += ["--tb=native"]  # others print arrays, which what was changed may never end
    share.take_every_case()  # the suite names those that ran when it was measured
    status = pytest.main([*options, "tests", "gpushard"], plugins=[runner])
    if status != pytest.ExitCode.OK:
        raise SystemExit(f"the tests cannot be collected: {status!r}")
    return runner.others


class _Runner:
    """A plugin of pytest that runs the tests that it collects once for each change."""

    def __init__(
        self,
        changes: Iterable[Mutant],
        suite: Suite,
        known: Mapping[str, str],
        budget: float,
        jobs: int,
        report: Callable[[Mutant, Verdict], None],
    ) -> None:
        self.others: list[Mutant] = []
        self._changes = deque(changes)
        self._suite = suite
        self._known = known
        self._budget = budget
        self._jobs = jobs
        self._report = report
        self._items: dict[str, pytest.Item] = {}
        self._functions: dict[types.CodeType, list[types.FunctionType]] = {}
        self._passing: set[str] = set()
        self._is_child = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests of all changes in child processes."""
        if session.testsfailed:
            raise session.Interrupted("a file of tests cannot be collected")
        self._items = {item.nodeid: item for item in session.items}
        self._functions = _functions()
        gc.collect()
        gc.freeze()
        running: list[_Child] = []
        while self._changes or running:
            while self._changes and len(running) < self._jobs:
                change = self._changes.popleft()
                running += self._next(change, self._trials(change), None)
            soonest = min((child.deadline for child in running), default=0.0)
            ends = [child.process.sentinel for child in running]
            multiprocessing.connection.wait(ends, max(0.0, soonest - time.monotonic()))
            for child in [child for child in running if child.has_ended()]:
                running.remove(child)
                running += self._next(child.change, child.trials, child.verdict())
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """End the child with the first test that fails."""
        if report.failed and self._is_child:
            _end()

    def _next(self, change: Mutant, trials: Trials, verdict: Verdict) -> list[_Child]:
        """Start the next trial of a change, or report what came of all."""
        try:
            code, tests = trials.send(verdict)
        except StopIteration as end:
            if end.value is not _ELSEWHERE:
                self._report(change, end.value)
            return []
        sys.stdout.flush()
        sys.stderr.flush()
        passed = _fork.RawValue("i", 0)
        process = _fork.Process(target=self._run, args=(code, tests, passed))
        process.start()
        patience = STARTING + SLOWNESS * sum(map(self._suite.time, tests))
        return [_Child(change, trials, tests, process, passed, time.monotonic() + patience)]

    def _trials(self, change: Mutant) -> Trials:
        """Yield trials of a change, take what came of each, and return what catches it."""
        code = swap(change)
        where = change.site.file, change.lines
        if (
            code is None
            or not any(old in self._functions for old in code)
            or self._suite.runs_only_at_import(*where)
        ):
            self.others.append(change)
            return _ELSEWHERE
        tests = self._in_order(self._suite.covering(*where))
        if (test := self._known.get(str(change.site))) in self._items:
            tests.insert(0, test)
        while tests:
            failed = yield code, tests
            if failed is None:
                return None
            if failed == tests[0] or (yield code, [failed]):  # alone
                passes = failed in self._passing or (yield {}, [failed]) is None
                if passes:
                    self._passing.add(failed)
                    return failed
            tests = tests[tests.index(failed) + 1 :]
        return None

    def _in_order(self, tests: Sequence[str]) -> list[str]:
        """Return those of the tests that there is time for, the shortest first, then by file."""
        tests = [test for test in tests if test in self._items]
        names = {test.partition("[")[0] for test in tests}
        tests += [  # cases that nobody has measured cover what others do
            test
            for test in self._items
            if test not in self._suite.seconds and test.partition("[")[0] in names
        ]
        first = self._suite.within(tests, FIRST)
        rest = self._suite.within(tests, self._budget)[len(first) :]
        order = []
        for group in (first, rest):
            files: dict[str, list[str]] = defaultdict(list)
            for test in group:
                files[test.partition("::")[0]].append(test)
            order += itertools.chain.from_iterable(files.values())
        return order

    def _run(self, code: Swap, tests: Sequence[str], passed: ctypes.c_int) -> None:
        """Make a change and run tests, in the child."""
        self._is_child = True
        os.setpgid(0, 0)
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        for old, new in code.items():
            for function in self._functions.get(old, ()):
                function.__code__ = new
            for function in self._functions.get(_of_method(old), ()):
                function.__code__ = _of_method(new)
        items = [self._items[test] for test in tests]
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            passed.value += 1
        _end()


def _end() -> None:
    """End this process and those that its tests have started."""
    os.killpg(0, signal.SIGKILL)


@dataclasses.dataclass(eq=False)
class _Child:
    """A process that runs tests with a change."""

    change: Mutant
    trials: Trials
    """What else is to be tried."""

    tests: Sequence[str]
    process: multiprocessing.context.ForkProcess
    passed: ctypes.c_int
    """How many tests have passed."""

    deadline: float

    def has_ended(self) -> bool:
        """Whether it has ended, by itself or because its time is over."""
        return not self.process.is_alive() or time.monotonic() > self.deadline

    def verdict(self) -> Verdict:
        """Return the test that failed, that hangs, or that ended the process; None if none did."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid or 0, signal.SIGKILL)
        self.process.join()
        return self.tests[self.passed.value] if self.passed.value < len(self.tests) else None


def _of_method(code: types.CodeType) -> types.CodeType:
    """Return the code of a function of values as a method: its first argument is `self`."""
    return code.replace(co_varnames=("self", *code.co_varnames[1:])) if code.co_varnames else code


def _functions() -> dict[types.CodeType, list[types.FunctionType]]:
    """Return the functions of the package by their code."""
    gc.unfreeze()
    found: dict[types.CodeType, list[types.FunctionType]] = defaultdict(list)
    for thing in gc.get_objects():
        if type(thing) is types.FunctionType and thing.__code__.co_filename.startswith(
            str(PACKAGE)
        ):
            found[thing.__code__].append(thing)
    return found
