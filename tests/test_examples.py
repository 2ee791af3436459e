"""Each program in `examples/` runs; what it claims it asserts."""

import re
import runpy
from pathlib import Path

import pytest

from gpushard.runtime import current

FOLDER = Path(__file__).parents[1] / "examples"
PROGRAMS = sorted(FOLDER.glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_program_runs_as_in_a_process_of_its_own(
    program: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(current, "_settings", None)  # programs configure devices of their own
    before = current.swap(None)
    try:
        runpy.run_path(str(program), run_name="__main__")
    finally:
        made = current.swap(before)
        if made is not None:
            made.close()
    assert capsys.readouterr().out


def test_the_index_names_each_program() -> None:
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| \[(.*?)\]\(\1\) \|", index, re.MULTILINE)
    assert sorted(named) == [program.name for program in PROGRAMS]
