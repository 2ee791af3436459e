"""Type checkers know what users' programs get, and where they are wrong."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

import gpushard as gs
from tests.typing import program

SOURCE = pathlib.Path(program.__file__)
ROOT = SOURCE.parents[2]


def check(module: str, *arguments: str) -> None:
    """Run a type checker over the program, and fail with what it says."""
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed; it comes with the extra `lint`")
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_program_runs() -> None:
    assert isinstance(program.main(), gs.Array)


def test_mypy() -> None:
    check("mypy", "--strict", "--follow-imports=silent", str(SOURCE))


def test_pyright(tmp_path: pathlib.Path) -> None:
    settings = {
        "include": [str(SOURCE)],
        "extraPaths": [str(ROOT)],
        "typeCheckingMode": "strict",
        "enableTypeIgnoreComments": False,
        "reportUnnecessaryTypeIgnoreComment": "error",
    }
    path = tmp_path / "pyrightconfig.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    check("pyright", "--project", str(path), "--pythonpath", sys.executable)
