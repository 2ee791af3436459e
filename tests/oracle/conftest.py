"""Comparisons with JAX are collected where it is installed, or where they must not be missed."""

from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out more than a thousand tests that would say, one by one, that JAX is missing."""
    if not collection_path.is_relative_to(HERE) or find_spec("jax") is not None:
        return None
    return None if config.getoption("--require-oracles") else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Choose all of them with `-m oracle`, those that need no JAX by themselves, too."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker("oracle")
