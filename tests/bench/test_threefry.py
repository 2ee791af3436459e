"""`python -m bench.threefry` runs, in a tiny size. No figure is judged here."""

import sys

import pytest

from bench import threefry


def test_every_function_has_its_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(threefry, "SIZE", 64)
    monkeypatch.setattr(threefry, "BLOCK", 512)
    monkeypatch.setattr(sys, "argv", ["threefry", "--repeat", "1"])
    threefry.main()
    title, _, *rows = capsys.readouterr().out.splitlines()
    assert title.startswith("64x64 over 8 devices")
    assert [row[:15].strip() for row in rows] == [*threefry.calls()]
    assert all(float(number) > 0 for row in rows for number in row[15:].split())
