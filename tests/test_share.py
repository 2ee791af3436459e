"""A share of every test by default, and all of it with `--all`."""

from __future__ import annotations

import operator
from typing import Any

import pytest

from tests import share


@pytest.mark.parametrize(("everything", "taken"), [(False, [2, 2, 2]), (True, [20, 5, 20])])
def test_how_much_runs(everything: bool, taken: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share, "_everything", everything)
    assert [
        len(share.seeds(20)),
        share.some(2, 5),
        share.examples(20).max_examples,
    ] == taken


def test_the_command_line_says_how_much(pytestconfig: pytest.Config) -> None:
    assert share.some(False, True) is pytestconfig.getoption("--all")


@pytest.mark.parametrize("column", range(3))
@pytest.mark.parametrize("row", range(5))
def test_cases(row: int, column: int) -> None:
    """What takes turns in the next test."""


@pytest.mark.parametrize(("n", "runs"), [(2, 7), (3, 5), (4, 4)])
def test_cases_take_turns(n: int, runs: int, request: Any, monkeypatch: Any) -> None:
    cases = [x for x in request.session.items if x.name.startswith("test_cases[")]
    for case in cases:
        monkeypatch.setattr(case, "own_markers", [*case.own_markers, pytest.mark.one_of(n).mark])
    monkeypatch.setattr(share, "_everything", True)
    assert share.out_of_turn(cases) == []
    monkeypatch.setattr(share, "_everything", False)
    left = share.out_of_turn(cases)
    found = [tuple(case.callspec.params.values()) for case in cases if case not in left]
    if len(cases) == 15:  # all of this file runs
        assert len(found) == runs
        if n == 3:
            columns = [column for _, column in found]
            assert len({*columns}) == 3 and all(map(operator.ne, columns, columns[1:]))
            assert [row for row, _ in found] == [0, 1, 2, 3, 4]
