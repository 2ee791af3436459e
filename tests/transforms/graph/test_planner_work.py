"""The planner of traced functions does work in proportion to operations. Lines are counted."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

import gpushard as gs
from bench.groups.compile import FORMS, arrays, compiled
from gpushard import testing
from gpushard._transforms.fusion.region import Region
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


def work(name: str, count: int) -> tuple[int, int]:
    """Compile a form of so many operations where none was planned.

    Returns:
      The lines that run, and how many regions are tried.
    """
    form, spec = FORMS[name]
    joined = mock.Mock(wraps=Region.join)
    runtime = testing.runtime(backend="host", host_devices=8, compiler="")
    with runtime, mock.patch.object(Region, "join", lambda *given: joined(*given)):
        given = arrays(spec)
        lines = lines_of(lambda: compiled(form, count, given))
    return lines, joined.call_count


@pytest.mark.parametrize("name", some(["chain", "wide", "shapes", "layouts", "results"], FORMS))
def test_four_times_the_operations_are_no_more_than_five_times_the_work(name: str) -> None:
    work(name, 10)  # what is cached for all runtimes
    few, many = work(name, 120), work(name, 480)
    assert many[0] <= 5 * few[0]
    assert many[1] <= 12 * 480  # each operation tries few regions
