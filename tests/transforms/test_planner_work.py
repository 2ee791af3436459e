"""The planner of traced functions does work in proportion to operations. Lines are counted."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

import gpushard as gs
from bench.groups.compile import FORMS, arrays, compiled
from gpushard import testing
from gpushard.transforms import regions
from tests.share import some

PACKAGE = str(pathlib.Path(gs.__file__).parent)


def lines_of(function: Callable[[], Any]) -> int:
    """Return how many lines of the package run in a call; each turn of a loop is one or more."""
    count = 0

    def local(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return local

    def called(frame: Any, event: str, argument: Any) -> Any:
        return local if frame.f_code.co_filename.startswith(PACKAGE) else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        function()
    finally:
        sys.settrace(before)
    return count


def work(name: str, count: int) -> int:
    """Return the lines that run to compile a form of so many operations, where none was planned."""
    form, spec = FORMS[name]
    with testing.runtime(backend="host", host_devices=8, compiler=""):
        given = arrays(spec)
        return lines_of(lambda: compiled(form, count, given))


@pytest.mark.parametrize("name", some(["chain", "wide", "shapes", "layouts"], FORMS))
def test_four_times_the_operations_are_no_more_than_five_times_the_work(name: str) -> None:
    work(name, 10)  # what is cached for all runtimes
    assert work(name, 480) <= 5 * work(name, 120)


@pytest.mark.parametrize("name", some(["shapes", "results"], FORMS))
def test_operations_try_few_regions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = 0
    real = regions._joined

    def counted(*args: Any) -> bool:
        nonlocal tried
        tried += 1
        return real(*args)

    monkeypatch.setattr(regions, "_joined", counted)
    counts = []
    for count in (240, 960):
        tried = 0
        work(name, count)
        counts.append(tried)
    assert counts[1] <= 5 * counts[0]
