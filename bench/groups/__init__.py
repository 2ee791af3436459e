"""The groups of cases. Every module in this package is one; see ../README.md."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def find() -> dict[str, ModuleType]:
    """Return all groups by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}") for name in names}


def title(group: ModuleType) -> str:
    """Return the first line of a group's docstring."""
    return (group.__doc__ or group.__name__).strip().splitlines()[0]
