"""Options of pytest that run tests on the software GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.softgpu import counters, excluded, sources
from tests.softgpu.build import TOOLKITS
from tests.softgpu.idle import Idle
from tests.softgpu.run import Options, is_active, replace_process

_WORK = "softgpu work"
_BEFORE = pytest.StashKey[Counter[str]]()


def add_options(parser: pytest.Parser) -> None:
    """Add `--softgpu` and how it works."""
    group = parser.getgroup("softgpu", "the software GPU of tests/softgpu")
    add = group.addoption
    add("--softgpu", action="store_true", help="run on the software GPU; makes it, if need be")
    add("--softgpu-seed", type=int, metavar="N", help="let streams run late, ordered by this seed")
    add("--softgpu-devices", type=int, default=1, metavar="N", help="how many GPUs (1)")
    add("--softgpu-memory", type=int, metavar="BYTES", help="memory of each GPU (8 GiB)")
    add("--softgpu-no-peers", action="store_true", help="GPUs cannot reach each other's memory")
    add("--softgpu-no-guard", action="store_true", help="do not catch the host in device memory")
    add("--softgpu-cuda", choices=[*TOOLKITS], help="which CUDA it is (12)")
    add("--softgpu-keep", type=Path, metavar="FOLDER", help="keep what CuPy is asked to compile")
    add(
        "--softgpu-idle", type=Path, metavar="FILE", help="leave out tests that gave no work before"
    )


def begin_anew(config: pytest.Config) -> None:
    """Replace the process by pytest on the software GPU, if asked for and not there yet."""
    option = config.option
    if not option.softgpu or is_active():
        return
    # Pytest's own place for what is printed ends with this process.
    config.pluginmanager.getplugin("capturemanager").stop_global_capturing()
    options = Options(
        seed=option.softgpu_seed,
        devices=option.softgpu_devices,
        memory=option.softgpu_memory,
        peers=not option.softgpu_no_peers,
        cuda=option.softgpu_cuda,
        guard=not option.softgpu_no_guard,
    )
    arguments = [str(argument) for argument in config.invocation_params.args]
    replace_process(options, ["-m", "pytest", *arguments])


def header(config: pytest.Config) -> list[str]:
    """Return what pytest says first."""
    return [f"software GPU: {counters.describe()}"] if is_active() else []


class Work:
    """Counts the tests that gave the GPUs work, which shows who ran on them at all.

    Args:
      idle: what is known of the others; None if they are to run.
    """

    def __init__(self, idle: Idle | None) -> None:
        self.tests = 0
        self.launches = 0
        self._idle = idle
        self._passed: set[str] = set()
        """Tests that have passed; in the end those that gave no work."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Leave out what is known to give no work."""
        if self._idle is not None:
            items[:], left = self._idle.split(items)
            config.hook.pytest_deselected(items=left)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write down which tests gave no work, unless none gave any: then something is wrong."""
        if self._idle is not None and self.tests:
            self._idle.add(sorted(self._passed))

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Note what there was before the test and its fixtures."""
        item.stash[_BEFORE] = counters.read()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Write what a test has done into its last report, which may go to another process."""
        report = yield
        if call.when == "teardown":
            now = counters.read()
            asked = now - item.stash.get(_BEFORE, now)  # a test that a mark skips is not set up
            busy = any(name.startswith(("launches", "library", "copies")) for name in asked)
            report.user_properties.append((_WORK, (busy, asked["launches"])))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what a test has done."""
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
        if report.failed:
            self._passed.discard(report.nodeid)
        for name, work in report.user_properties:
            if name == _WORK:
                self.tests += work[0]
                self.launches += work[1]
                if work[0]:
                    self._passed.discard(report.nodeid)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say how many."""
        terminalreporter.write_line(
            f"software GPU: {self.tests} tests gave it work, {self.launches} launches"
        )


def count_work(config: pytest.Config) -> None:
    """Count what tests give the software GPU to do, if they run on it."""
    if is_active():
        if config.option.softgpu_keep:
            sources.keep(config.option.softgpu_keep)
        record = config.getoption("--softgpu-idle")
        config.pluginmanager.register(Work(Idle(record) if record else None))


def mark_excluded(items: list[Any]) -> None:
    """Skip what the software GPU cannot run, with the reason."""
    if not is_active():
        return
    for item in items:
        reason = excluded.reason(item.nodeid)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=f"not on the software GPU: {reason}"))
