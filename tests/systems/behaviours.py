"""What a probe says of a behaviour that differs on purpose: which row of the docs says so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2]


def _rows() -> set[str]:
    """Return the first cell of every row of the tables of what differs from JAX and Flax."""
    found = set()
    for path in (DOCS / "README.md", *DOCS.glob("docs/*.md")):
        text = path.read_text(encoding="utf-8")
        for section in re.split(r"^## ", text, flags=re.MULTILINE):
            if "differs from" in section.partition("\n")[0]:
                found |= set(re.findall(r"^\| ([^|]+?) \|", section, flags=re.MULTILINE))
    return found


def differs(row: str) -> pytest.MarkDecorator:
    """Return the mark of a probe of what differs on purpose, as a row of such a table says.

    Args:
      row: its first cell.
    """
    assert row in _rows(), f"no table of the docs says that {row!r} differs"
    return pytest.mark.differs(row)
