"""What does not run on the software GPU, and why: the one list."""

from __future__ import annotations

import re

EXCLUDED: dict[str, str] = {}
"""Reasons by regular expressions that are searched for in the names of tests."""


def reason(test: str) -> str | None:
    """Return why a test cannot run on the software GPU; None if it can."""
    return next((why for name, why in EXCLUDED.items() if re.search(name, test)), None)
