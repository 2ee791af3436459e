"""Type checkers know what users' programs get, and where they are wrong."""

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TypeAlias

import gpushard as gs
from tests.typing import program

SOURCE = pathlib.Path(program.__file__)
ROOT = SOURCE.parents[2]


Oracle: TypeAlias = Callable[[str, str, str], ModuleType]


def check(module: str, *arguments: str) -> None:
    """Run a type checker over the program, and fail with what it says."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=os.environ | {"MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_program_runs() -> None:
    assert isinstance(program.main(), gs.Array)


def test_mypy(oracle: Oracle) -> None:
    oracle("mypy", "mypy", "pip install 'gpushard[lint]'")
    check("mypy", "--strict", str(SOURCE))


def test_pyright(oracle: Oracle) -> None:
    oracle("pyright", "Pyright", "pip install 'gpushard[lint]'")
    check("pyright", "--pythonpath", sys.executable)  # what to read, pyproject.toml says
