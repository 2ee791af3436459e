"""A process that does something whenever it is asked to."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping
from typing import Any


class Process:
    """Runs a Python program that answers every line of its input with a line of JSON.

    Args:
      program: its text.
      *arguments: what it finds in `sys.argv`.
      folder: where it runs, and what it imports first.
      environment: variables; by default those of this process.
    """

    def __init__(
        self,
        program: str,
        *arguments: str,
        folder: pathlib.Path,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            env={**environment, "PYTHONPATH": str(folder)},
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, line: str) -> Any:
        """Return its answer to a line."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End its input, and wait until it ends."""
        self._process.communicate()

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.communicate()
