"""A plugin of pytest that records each test as it ends: `-p bench.each_test --part ...`.

Without that option it does nothing. A process whose GPU is lost ends at once with `records.AGAIN`.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

from bench.records import (
    AGAIN,
    FAILED,
    PASSED,
    SKIPPED,
    Part,
    ended_items,
    gpu_is_lost,
    part_of,
    read,
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", nargs=4, metavar="WORD", help="as bench.on_gpu gives it")


def pytest_configure(config: pytest.Config) -> None:
    words = config.getoption("--part")
    if words:
        config.pluginmanager.register(EachTest(part_of(words)))


class EachTest:
    """Chooses the tests of a part and records them.

    Args:
      part: whose tests run here.
    """

    def __init__(self, part: Part) -> None:
        self._part = part
        self._said: list[str] = []
        self._outcome = PASSED
        self._seconds = 0.0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Keep the tests of the part; called after all others, so that their choices count."""
        own = self._part.choose(items, lambda item: item.nodeid)
        left = {*items} - {*own}
        config.hook.pytest_deselected(items=[item for item in items if item in left])
        items[:] = own

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record files that cannot be collected, or are skipped as a whole."""
        if report.passed or self._part.number:  # all workers collect the same: one tells
            return
        where = self._part.records
        if report.nodeid in ended_items(read(where.path), where.stage):  # of an earlier process
            return
        outcome = SKIPPED if report.skipped else FAILED
        where.ended(report.nodeid, outcome, 0.0, str(report.longrepr))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Record that a test begins, and how it ended."""
        self._said, self._outcome, self._seconds = [], PASSED, 0.0
        self._part.records.begun(item.nodeid)
        result = yield
        self._part.records.ended(item.nodeid, self._outcome, self._seconds, "\n".join(self._said))
        if self._outcome == FAILED and gpu_is_lost():
            os._exit(AGAIN)  # nothing that tidies up would return
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up the phases of a test: what fails in one has failed."""
        self._seconds += report.duration
        if report.failed:
            self._outcome = FAILED
            self._said.append(f"{report.when}: {report.longreprtext}")
        elif report.skipped and self._outcome == PASSED:
            self._outcome = SKIPPED
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            self._said.append(reason or getattr(report, "wasxfail", ""))
