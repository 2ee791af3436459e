"""A share of every test by default, and all of it with `--all`."""

from __future__ import annotations

import pytest

from tests import share


@pytest.mark.parametrize(("everything", "taken"), [(False, [2, 2, 2]), (True, [10, 5, 10])])
def test_how_much_runs(everything: bool, taken: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share, "_everything", everything)
    assert [
        len(share.seeds(10)),
        share.some(2, 5),
        share.examples(10).max_examples,
    ] == taken


def test_the_command_line_says_how_much(pytestconfig: pytest.Config) -> None:
    assert share.some(False, True) is pytestconfig.getoption("--all")
