"""CuPy's special functions, under SciPy's names."""

from __future__ import annotations

from typing import Any

from cupyx.scipy import special


def __getattr__(name: str) -> Any:
    return getattr(special, name)
