"""Tests that give GPUs no work, though they run with them: a second run need not repeat them.

Only running a test shows whether it does. That is kept as long as the test's file stays as it is,
and what decides where its runtimes are.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.softgpu.build import ROOT

DECIDING = ("gpushard/testing/runtime.py", "gpushard/config.py", "tests/softgpu/options.py")


@functools.cache
def digest(file: Path) -> str:
    """Return a hash of a test's file, of those of its fixtures, and of what else decides."""
    files = [ROOT / name for name in DECIDING]
    files += [folder / "conftest.py" for folder in file.parents if folder.is_relative_to(ROOT)]
    total = hashlib.sha256(file.read_bytes())
    for other in files:
        total.update(other.read_bytes() if other.exists() else b"-")
    return total.hexdigest()[:16]


class Idle:
    """What is known of tests that give GPUs no work.

    Args:
      record: the file that it is kept in.
    """

    def __init__(self, record: Path) -> None:
        self._record = record
        self._found: dict[str, str] = json.loads(record.read_text()) if record.exists() else {}
        self._files: dict[str, Path] = {}

    def split(self, items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
        """Return the tests that are to run, and those that need not."""
        self._files = {item.nodeid: item.path for item in items}
        idle = [self._found.get(item.nodeid) == digest(item.path) for item in items]
        pairs = list(zip(items, idle, strict=True))
        return [item for item, left in pairs if not left], [item for item, left in pairs if left]

    def add(self, tests: Sequence[str]) -> None:
        """Write down tests that have passed and given no work."""
        self._found |= {test: digest(self._files[test]) for test in tests}
        self._record.write_text(json.dumps(self._found, indent=0), encoding="utf-8")
